//! One attempt at running a node.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{self, Poll};

use futures::future::BoxFuture;

use crate::context::{Context, Parked};
use crate::error::{ReadError, TaskError};
use crate::executor::{Task, TaskOutcome};
use crate::node::NodeResult;
use crate::update::Update;

/// Polls a node's future and looks after each poll whether the node parked itself.
///
/// A node that asks never goes on from there: the question's future stays pending, and this drops the node.
/// So no `?` and no `catch` in user code can swallow a pause.
pub(crate) struct Attempt {
    cx: Context,
    node: Progress,
}

enum Progress {
    /// The node's function was not called yet.
    Due(Task),
    Running(BoxFuture<'static, NodeResult>),
    Ended,
}

impl Attempt {
    pub(crate) fn new(task: Task, cx: Context) -> Self {
        Attempt {
            cx,
            node: Progress::Due(task),
        }
    }
}

impl Future for Attempt {
    type Output = TaskOutcome;

    fn poll(mut self: Pin<&mut Self>, waker: &mut task::Context<'_>) -> Poll<TaskOutcome> {
        let Attempt { cx, node } = &mut *self;
        cx.register(waker.waker());
        // The call is guarded too: a node may do its work before it gives a future.
        let polled = guard(|| node.poll(cx, waker)).unwrap_or_else(|error| Poll::Ready(Err(error)));
        let outcome = match (cx.parked(), polled) {
            (Some(Parked::Asks(asks)), _) => TaskOutcome::Asked(asks),
            (Some(Parked::Failed(error)), _) => TaskOutcome::Failed(error),
            (Some(Parked::Stopped(nodes)), _) => TaskOutcome::Stopped(nodes),
            (Some(Parked::Returned(update)), _) => TaskOutcome::Done(*update),
            (None, Poll::Ready(Ok(update))) => TaskOutcome::Done(update),
            (None, Poll::Ready(Err(error))) => TaskOutcome::Failed(error),
            (None, Poll::Pending) => return Poll::Pending,
        };
        Poll::Ready(outcome)
    }
}

impl Progress {
    fn poll(
        &mut self,
        cx: &Context,
        waker: &mut task::Context<'_>,
    ) -> Poll<Result<Update, TaskError>> {
        if let Progress::Due(_) = self
            && let Progress::Due(task) = std::mem::replace(self, Progress::Ended)
        {
            *self = Progress::Running(task.call(cx.clone())?);
        }
        match self {
            Progress::Running(node) => node.as_mut().poll(waker).map_err(TaskError::Node),
            // Nobody polls a future that ended; a node that panicked in its call is not called again.
            Progress::Due(_) | Progress::Ended => Poll::Pending,
        }
    }
}

impl Task {
    /// Calls the node's function.
    fn call(self, cx: Context) -> Result<BoxFuture<'static, NodeResult>, ReadError> {
        let node = self.graph.nodes.get(self.at);
        let node = node.ok_or(ReadError::Unknown(self.node))?;
        match (self.failure, &node.handler) {
            (Some(failure), Some((handler, _))) => handler.call(self.input, failure, cx),
            _ => node.run.call(self.input, cx),
        }
    }
}

/// Runs what users wrote; a panic in it is an error of the task.
pub(crate) fn guard<T>(run: impl FnOnce() -> T) -> Result<T, TaskError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| TaskError::Panicked(panic_text(&*panic)))
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
