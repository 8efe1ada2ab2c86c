//! Stopping a run from outside, or from one of its nodes.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{self, Poll};

use futures::future::select;

use tokio::sync::{Notify, watch};

/// A handle by which a run is stopped, from wherever it was given to. Cheap to clone.
///
/// ```
/// use superstep::Control;
/// use superstep::prelude::*;
///
/// const WORK: Node<()> = Node::new("work");
/// async fn work(_: (), _: Context) -> NodeResult {
///     Ok(Update::new())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<()>::builder().node(WORK, work).entry(WORK).build()?;
/// let control = Control::new();
/// control.drain(); // as on a signal to shut down
/// let thread = graph.thread(&MemoryCheckpointer::new(), "t");
/// let outcome = thread.start(()).control(&control).await?;
/// assert!(matches!(outcome, Outcome::Drained(_)));
/// assert!(thread.proceed().await?.done().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Control(Arc<State>);

struct State {
    drains: AtomicBool,
    cancelled: watch::Sender<bool>,
}

impl Control {
    /// A handle that stops nothing yet.
    pub fn new() -> Self {
        Control(Arc::new(State {
            drains: AtomicBool::new(false),
            cancelled: watch::Sender::new(false),
        }))
    }

    /// Lets the outermost graph finish the superstep that it is in, and stops the run there, with
    /// [`Outcome::Drained`](crate::Outcome::Drained). If nothing is due then, the run is done; a breakpoint there wins.
    pub fn drain(&self) {
        self.0.drains.store(true, Ordering::Relaxed);
    }

    /// Stops the run where it is, with graphs nested in it: tasks that run are dropped, what finished is saved, and the run ends
    /// with [`RunError::Cancelled`](crate::RunError::Cancelled). A node that does not let go of its thread is
    /// left to itself if it runs aside, see [`Policy::blocking`](crate::Policy::blocking).
    pub fn cancel(&self) {
        self.0.cancelled.send_replace(true);
    }

    pub(crate) fn drains(&self) -> bool {
        self.0.drains.load(Ordering::Relaxed)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        *self.0.cancelled.borrow()
    }

    /// Waits until the run is cancelled.
    pub(crate) async fn cancelled(&self) {
        let mut cancelled = self.0.cancelled.subscribe();
        // The sender lives as long as this handle.
        if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("drains", &self.drains())
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

/// The nested runs inside one run. A run that is cancelled waits until they have saved what they have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inside(Arc<Count>);

#[derive(Default)]
struct Count {
    runs: AtomicUsize,
    ended: Notify,
    /// Those that a node holds, which may not be polling them.
    held: Mutex<Vec<Weak<dyn Drive>>>,
}

/// A nested run that is moved from outside.
pub(crate) trait Drive: Send + Sync {
    /// Polls it, if it has not ended.
    fn drive(&self, waker: &mut task::Context<'_>);
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.runs)
    }
}

impl Inside {
    /// Counts a nested run for as long as the guard lives.
    pub(crate) fn enter(&self) -> Guard {
        self.0.runs.fetch_add(1, Ordering::SeqCst);
        Guard(self.clone())
    }

    /// Takes a nested run to be moved when the run around is cancelled.
    pub(crate) fn add(&self, run: Weak<dyn Drive>) {
        let mut held = self.held();
        held.retain(|run| run.strong_count() > 0);
        held.push(run);
    }

    fn held(&self) -> MutexGuard<'_, Vec<Weak<dyn Drive>>> {
        // Held over single changes only.
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves all nested runs until none is left.
    pub(crate) async fn empty(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.0.runs.load(Ordering::SeqCst) == 0 {
                return;
            }
            let drive = poll_fn(|waker| {
                let held = self.held().clone();
                held.iter()
                    .filter_map(Weak::upgrade)
                    .for_each(|run| run.drive(waker));
                match self.0.runs.load(Ordering::SeqCst) {
                    0 => Poll::Ready(()),
                    _ => Poll::Pending,
                }
            });
            select(Box::pin(ended), drive).await;
        }
    }
}

pub(crate) struct Guard(Inside);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.runs.fetch_sub(1, Ordering::SeqCst);
        self.0.0.ended.notify_waiters();
    }
}
