//! What a run tells while it runs. Streams, tests and traces read the same list.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::ops::BitOr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::task::AtomicWaker;
use superstep_channels::{Name, Value, Write};
use superstep_checkpoint::{Place, TaskId};

use crate::ask::Ask;
use crate::node::TaskInput;
use crate::snapshot::Snapshot;
use crate::state::Fields;

/// Which events a stream carries. Combine them with `|`. What nobody asked for is not even computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes(u8);

impl Modes {
    /// The output channels after every superstep that wrote one of them.
    pub const VALUES: Modes = Modes(1);
    /// What each task wrote.
    pub const UPDATES: Modes = Modes(2);
    /// What nodes [`emit`](crate::Context::emit).
    pub const CUSTOM: Modes = Modes(4);
    /// The start and the end of each task.
    pub const TASKS: Modes = Modes(8);
    /// Each checkpoint with the tasks that are due on it.
    pub const CHECKPOINTS: Modes = Modes(16);

    /// Whether it has all modes of `other`.
    pub fn contains(self, other: Modes) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Modes {
    type Output = Modes;
    fn bitor(self, other: Modes) -> Modes {
        Modes(self.0 | other.0)
    }
}

/// One event, and the graph it comes from.
#[derive(Clone, Debug)]
pub struct Part {
    /// The namespace of the graph: empty for the outermost, else the path of `node:task` to it.
    pub namespace: Arc<str>,
    /// What happened.
    pub event: Event,
}

/// One thing that happened in a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The output channels, after a superstep wrote one of them. ([`Modes::VALUES`])
    Values(Fields),
    /// What a task wrote. ([`Modes::UPDATES`])
    Update {
        /// The node.
        node: Name,
        /// The writes, in order.
        writes: Vec<(Name, Write)>,
        /// The task finished in an earlier run; it did not run again.
        cached: bool,
    },
    /// What a node emitted. ([`Modes::CUSTOM`])
    Custom {
        /// The node.
        node: Name,
        /// What it emitted.
        value: serde_json::Value,
    },
    /// A task begins. ([`Modes::TASKS`])
    TaskStarted {
        /// The task.
        task: TaskId,
        /// Its node.
        node: Name,
        /// What it runs on.
        input: TaskInput,
        /// What set it off: `branch:to:NODE`, `join:A+B:NODE` or `send`.
        triggers: Vec<String>,
        /// The number of its superstep.
        step: i64,
    },
    /// A task returned, failed or asks. ([`Modes::TASKS`])
    TaskEnded {
        /// The task.
        task: TaskId,
        /// Its node.
        node: Name,
        /// What it wrote.
        writes: Vec<(Name, Write)>,
        /// Why it failed.
        error: Option<String>,
        /// What it asks.
        asks: Vec<Ask>,
        /// The number of its superstep.
        step: i64,
    },
    /// A node called a routine. ([`Modes::TASKS`])
    Called {
        /// The routine's task.
        task: TaskId,
        /// The routine.
        routine: Name,
        /// What it was called with.
        argument: Value,
        /// The number of the superstep.
        step: i64,
    },
    /// A routine returned. ([`Modes::TASKS`], [`Modes::UPDATES`]) One that asks or fails ends as a task does.
    Returned {
        /// The routine's task.
        task: TaskId,
        /// The routine.
        routine: Name,
        /// What it gave.
        value: Value,
        /// The result was kept for an equal argument; it did not run.
        cached: bool,
        /// The number of the superstep.
        step: i64,
    },
    /// A kept result could not be looked up or kept; the node runs as if there were none. ([`Modes::TASKS`])
    CacheFailed {
        /// The node.
        node: Name,
        /// Why.
        error: String,
    },
    /// A checkpoint was saved, or the run stands on one. ([`Modes::CHECKPOINTS`])
    Checkpoint(Box<Snapshot>),
    /// The run pauses on these questions, or, if there are none, at a breakpoint. ([`Modes::UPDATES`], [`Modes::VALUES`])
    Paused(Vec<Ask>),
}

impl Event {
    /// The mode that carries it.
    fn modes(&self) -> Modes {
        match self {
            Event::Values(_) => Modes::VALUES,
            Event::Update { .. } => Modes::UPDATES,
            Event::Custom { .. } => Modes::CUSTOM,
            Event::TaskStarted { .. } | Event::TaskEnded { .. } | Event::CacheFailed { .. } => {
                Modes::TASKS
            }
            Event::Checkpoint(_) => Modes::CHECKPOINTS,
            Event::Called { .. } => Modes::TASKS,
            Event::Returned { .. } => Modes::TASKS | Modes::UPDATES,
            Event::Paused(_) => Modes::UPDATES | Modes::VALUES,
        }
    }
}

/// Where a run puts its events until the stream's reader takes them.
///
/// Before each superstep a run waits until everything was read: a reader that does not read stops the run,
/// and never more is queued than one superstep of each running graph tells.
#[derive(Clone, Default)]
pub(crate) struct Sink(Option<Arc<Queue>>);

struct Queue {
    modes: Modes,
    nested: bool,
    state: Mutex<State>,
    reader: AtomicWaker,
}

#[derive(Default)]
struct State {
    parts: VecDeque<Part>,
    /// Runs that wait until the reader has read everything.
    waiting: Vec<Waker>,
    /// Nobody reads any more.
    closed: bool,
}

impl Sink {
    pub(crate) fn new(modes: Modes, nested: bool) -> Self {
        Sink(Some(Arc::new(Queue {
            modes,
            nested,
            state: Mutex::default(),
            reader: AtomicWaker::new(),
        })))
    }

    /// Whether somebody reads one of these modes of this graph's events.
    pub(crate) fn wants(&self, modes: Modes, place: &Place) -> bool {
        self.0.as_ref().is_some_and(|queue| {
            queue.modes.0 & modes.0 != 0 && (queue.nested || place.namespace.is_empty())
        })
    }

    /// Adds an event, if somebody reads its mode.
    pub(crate) fn emit(&self, mode: Modes, place: &Place, event: impl FnOnce() -> Event) {
        if !self.wants(mode, place) {
            return;
        }
        let part = Part {
            namespace: Arc::clone(&place.namespace),
            event: event(),
        };
        debug_assert!(part.event.modes().0 & mode.0 != 0);
        if let Some(queue) = &self.0 {
            queue.push(part);
        }
    }

    pub(crate) fn take(&self) -> Option<Part> {
        self.0.as_ref()?.pop()
    }

    /// Waits until everything was read.
    pub(crate) async fn read(&self) {
        if let Some(queue) = &self.0 {
            poll_fn(|cx| queue.poll_empty(cx)).await;
        }
    }

    /// Drops what was not read, and what comes after it.
    pub(crate) fn close(&self) {
        if let Some(queue) = &self.0 {
            queue.close();
        }
    }

    pub(crate) fn register(&self, waker: &Waker) {
        if let Some(queue) = &self.0 {
            queue.reader.register(waker);
        }
    }
}

impl Queue {
    fn push(&self, part: Part) {
        {
            let mut state = self.lock();
            if state.closed {
                return;
            }
            state.parts.push_back(part);
        }
        self.reader.wake();
    }

    fn pop(&self) -> Option<Part> {
        let (part, waiting) = {
            let mut state = self.lock();
            let part = state.parts.pop_front();
            let waiting = match state.parts.is_empty() {
                true => std::mem::take(&mut state.waiting),
                false => Vec::new(),
            };
            (part, waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
        part
    }

    fn poll_empty(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.parts.is_empty() {
            return Poll::Ready(());
        }
        if !state
            .waiting
            .iter()
            .any(|waker| waker.will_wake(cx.waker()))
        {
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn close(&self) {
        let waiting = {
            let mut state = self.lock();
            state.closed = true;
            state.parts.clear();
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Held over changes of the lists only, so a poisoned queue is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modes = self.0.as_ref().map(|queue| queue.modes);
        f.debug_tuple("Sink").field(&modes).finish()
    }
}
