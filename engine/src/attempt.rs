//! One attempt at running a node, or a routine that a node calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{self, Poll};

use futures::future::BoxFuture;
use superstep_channels::Value;

use crate::context::{Context, Parked};
use crate::error::{NodeError, ReadError, TaskError};
use crate::executor::{Task, TaskOutcome};
use crate::node::NodeResult;
use crate::update::Update;

/// Polls what users wrote and looks after each poll whether it parked itself.
///
/// What asks never goes on from there: the question's future stays pending, and this drops what asked.
/// So no `?` and no `catch` in user code can swallow a pause.
///
/// Routines that were called belong to the attempt and not to the future that called them: they run to their end
/// although one of them asks, or their caller does.
pub(crate) struct Attempt<T> {
    cx: Context,
    body: Progress<T>,
    called: Vec<BoxFuture<'static, ()>>,
}

/// Calls what users wrote.
type Call<T> = Box<dyn FnOnce(Context) -> Result<Running<T>, ReadError> + Send>;
/// What users wrote, running.
type Running<T> = BoxFuture<'static, Result<T, NodeError>>;

enum Progress<T> {
    /// The function was not called yet.
    Due(Call<T>),
    Running(Running<T>),
    /// It returned; routines it called may still run.
    Returned(Option<T>),
}

/// What an attempt can give back.
pub(crate) trait Given: Send + Sized + 'static {
    /// A nested graph ended with an update in place of what is given back.
    fn replaced(update: Box<Update>, cx: &Context) -> TaskOutcome<Self>;
}

impl Given for Update {
    fn replaced(update: Box<Update>, _: &Context) -> TaskOutcome<Self> {
        TaskOutcome::Done(*update)
    }
}

impl Given for Value {
    fn replaced(update: Box<Update>, cx: &Context) -> TaskOutcome<Self> {
        // It replaces what the node gives back that called the routine.
        cx.leave_to_caller(Parked::Returned(update));
        TaskOutcome::Asked(Vec::new())
    }
}

impl Attempt<Update> {
    /// An attempt at a node, or at its error handler.
    pub(crate) fn new(task: Task, cx: Context) -> Self {
        Attempt::of(Box::new(|cx| task.call(cx)), cx)
    }
}

impl<T> Attempt<T> {
    pub(crate) fn of(call: Call<T>, cx: Context) -> Self {
        Attempt {
            cx,
            body: Progress::Due(call),
            called: Vec::new(),
        }
    }

    /// Polls the routines that were called. Says whether one of them ended.
    fn poll_called(&mut self, waker: &mut task::Context<'_>) -> bool {
        self.called.extend(self.cx.take_called());
        let before = self.called.len();
        self.called
            .retain_mut(|routine| routine.as_mut().poll(waker).is_pending());
        self.called.len() < before
    }
}

impl<T: Given + Unpin> Future for Attempt<T> {
    type Output = TaskOutcome<T>;

    fn poll(mut self: Pin<&mut Self>, waker: &mut task::Context<'_>) -> Poll<TaskOutcome<T>> {
        let attempt = &mut *self;
        attempt.cx.register(waker.waker());
        loop {
            // The call is guarded too: a node may do its work before it gives a future.
            let Attempt { cx, body, .. } = attempt;
            let polled = guard(|| body.poll(cx, waker)).unwrap_or_else(Err);
            if let Err(error) = polled {
                return Poll::Ready(TaskOutcome::Failed(error));
            }
            let one_ended = attempt.poll_called(waker);
            if attempt.called.is_empty() {
                match (attempt.cx.parked(), &mut attempt.body) {
                    (Some(why), _) => return Poll::Ready(parked(why, &attempt.cx)),
                    (None, Progress::Returned(given)) => {
                        // Nobody polls a future that ended.
                        let given = given.take().map(TaskOutcome::Done);
                        return given.map_or(Poll::Pending, Poll::Ready);
                    }
                    (None, _) => {}
                }
            }
            // What waited for it can go on.
            if !one_ended {
                return Poll::Pending;
            }
        }
    }
}

fn parked<T: Given>(why: Parked, cx: &Context) -> TaskOutcome<T> {
    match why {
        Parked::Asks(asks) => TaskOutcome::Asked(asks),
        Parked::Stopped(nodes) => TaskOutcome::Stopped(nodes),
        Parked::Returned(update) => T::replaced(update, cx),
        Parked::Failed(error) => TaskOutcome::Failed(error),
    }
}

impl<T> Progress<T> {
    fn poll(&mut self, cx: &Context, waker: &mut task::Context<'_>) -> Result<(), TaskError> {
        if let Progress::Due(_) = self
            && let Progress::Due(call) = std::mem::replace(self, Progress::Returned(None))
        {
            *self = Progress::Running(call(cx.clone())?);
        }
        // Once it parked it must not go on.
        if let Progress::Running(running) = self
            && !cx.is_parked()
            && let Poll::Ready(given) = running.as_mut().poll(waker)
        {
            *self = Progress::Returned(Some(given.map_err(TaskError::Node)?));
        }
        Ok(())
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
