//! One attempt at running a node.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{self, Poll};

use futures::future::BoxFuture;

use crate::context::{Context, Parked};
use crate::error::{ReadError, TaskError};
use crate::executor::{Task, TaskOutcome};
use crate::node::NodeResult;

/// Polls a node's future and looks after each poll whether the node parked itself.
///
/// A node that asks never goes on from there: the question's future stays pending, and this drops the node.
/// So no `?` and no `catch` in user code can swallow a pause.
pub(crate) struct Attempt {
    cx: Context,
    node: Result<BoxFuture<'static, NodeResult>, Option<ReadError>>,
}

impl Attempt {
    pub(crate) fn new(task: Task, cx: Context) -> Self {
        let Task {
            graph, at, input, ..
        } = task;
        let node = match graph.nodes.get(at) {
            Some(node) => node.run.call(input, cx.clone()).map_err(Some),
            None => Err(None),
        };
        Attempt { cx, node }
    }
}

impl Future for Attempt {
    type Output = TaskOutcome;

    fn poll(mut self: Pin<&mut Self>, waker: &mut task::Context<'_>) -> Poll<TaskOutcome> {
        let Attempt { cx, node } = &mut *self;
        let node = match node {
            Ok(node) => node,
            Err(error) => {
                let error = error
                    .take()
                    .unwrap_or(ReadError::Unknown(cx.node().clone()));
                return Poll::Ready(TaskOutcome::Failed(error.into()));
            }
        };
        cx.register(waker.waker());
        let polled = catch_unwind(AssertUnwindSafe(|| node.as_mut().poll(waker)));
        let outcome = match polled {
            Err(panic) => TaskOutcome::Failed(TaskError::Panicked(panic_text(&*panic))),
            Ok(polled) => match (cx.parked(), polled) {
                (Some(Parked::Asks(asks)), _) => TaskOutcome::Asked(asks),
                (Some(Parked::Failed(error)), _) => TaskOutcome::Failed(error),
                (None, Poll::Ready(Ok(update))) => TaskOutcome::Done(update),
                (None, Poll::Ready(Err(error))) => TaskOutcome::Failed(TaskError::Node(error)),
                (None, Poll::Pending) => return Poll::Pending,
            },
        };
        Poll::Ready(outcome)
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
