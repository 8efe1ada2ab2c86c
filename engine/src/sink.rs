//! Where a run puts its events: before a reader, and into a log.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::task::AtomicWaker;
use superstep_checkpoint::{CheckpointId, Place};

use crate::event::{Event, Modes, Part};
use crate::event_log::{EventId, Logged};

/// Where a run puts its events until they are read or stored.
///
/// Before each superstep a run waits until everything was read: a reader that does not read stops the run,
/// and never more is queued than one superstep of each running graph tells. A reader that may lag stops nobody:
/// what it does not read in time is dropped, and it is told how much.
#[derive(Clone, Default)]
pub(crate) struct Sink(Option<Arc<Queue>>);

struct Queue {
    /// What the reader reads.
    modes: Modes,
    nested: bool,
    /// How many parts wait for a reader that may lag.
    capacity: Option<usize>,
    /// What is logged, of nested graphs too.
    logs: Modes,
    state: Mutex<State>,
    reader: AtomicWaker,
}

#[derive(Default)]
struct State {
    parts: VecDeque<Part>,
    /// How many parts a lagging reader missed.
    missed: u64,
    /// Runs that wait until the reader has read everything.
    waiting: Vec<Waker>,
    /// Nobody reads any more.
    closed: bool,
    /// Nothing more comes.
    ended: bool,
    log: Log,
}

/// Events that are not stored yet.
#[derive(Default)]
struct Log {
    parts: Vec<Logged>,
    stands_on: CheckpointId,
    next: u32,
}

impl Sink {
    /// A sink for a reader of these modes, which may lag if it has a capacity; it also logs if it is to.
    pub(crate) fn new(
        modes: Modes,
        nested: bool,
        capacity: Option<usize>,
        logs: Option<Modes>,
    ) -> Self {
        Sink(Some(Arc::new(Queue {
            modes,
            nested,
            capacity,
            logs: logs.unwrap_or_default(),
            state: Mutex::default(),
            reader: AtomicWaker::new(),
        })))
    }

    /// A sink whose events nobody reads.
    pub(crate) fn unread(logs: Option<Modes>) -> Self {
        match logs {
            None => Sink(None),
            Some(_) => Sink::new(Modes::default(), false, None, logs),
        }
    }

    /// Whether somebody wants one of these modes of this graph's events.
    pub(crate) fn wants(&self, modes: Modes, place: &Place) -> bool {
        self.0
            .as_ref()
            .is_some_and(|queue| queue.logs.0 & modes.0 != 0 || queue.reads(modes, place))
    }

    /// Adds an event, if somebody wants its mode.
    pub(crate) fn emit(&self, mode: Modes, place: &Place, event: impl FnOnce() -> Event) {
        if !self.wants(mode, place) {
            return;
        }
        let part = Part {
            id: None,
            namespace: Arc::clone(&place.namespace),
            event: event(),
        };
        debug_assert!(part.event.modes().0 & mode.0 != 0);
        if let Some(queue) = &self.0 {
            queue.add(part, mode, place);
        }
    }

    /// The next part for the reader; how many it missed first.
    pub(crate) fn take(&self) -> Option<Part> {
        self.0.as_ref()?.pop()
    }

    /// Waits until everything was read, unless the reader may lag.
    pub(crate) async fn read(&self) {
        if let Some(queue) = self.0.as_ref().filter(|queue| queue.capacity.is_none()) {
            poll_fn(|cx| queue.poll_empty(cx)).await;
        }
    }

    /// Drops what was not read, and what comes after it.
    pub(crate) fn close(&self) {
        if let Some(queue) = &self.0 {
            queue.close();
        }
    }

    /// Notes that nothing more comes.
    pub(crate) fn end(&self) {
        if let Some(queue) = &self.0 {
            queue.lock().ended = true;
            queue.reader.wake();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.as_ref().is_none_or(|queue| queue.lock().ended)
    }

    pub(crate) fn register(&self, waker: &Waker) {
        if let Some(queue) = &self.0 {
            queue.reader.register(waker);
        }
    }

    pub(crate) fn logs(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|queue| queue.logs != Modes::default())
    }

    /// What was told since this was last asked, to be stored.
    pub(crate) fn take_log(&self) -> Vec<Logged> {
        match &self.0 {
            Some(queue) => std::mem::take(&mut queue.lock().log.parts),
            None => Vec::new(),
        }
    }

    /// Says what the outermost graph stands on, which the ids of events are made of, and how many are stored there.
    pub(crate) fn stand_on(&self, checkpoint: CheckpointId, stored: u32) {
        if let Some(queue) = self
            .0
            .as_ref()
            .filter(|queue| queue.logs != Modes::default())
        {
            let log = &mut queue.lock().log;
            if log.stands_on != checkpoint || stored > log.next {
                log.stands_on = checkpoint;
                log.next = stored;
            }
        }
    }
}

impl Queue {
    fn reads(&self, modes: Modes, place: &Place) -> bool {
        self.modes.0 & modes.0 != 0 && (self.nested || place.namespace.is_empty())
    }

    fn add(&self, mut part: Part, mode: Modes, place: &Place) {
        {
            let mut state = self.lock();
            if self.logs.0 & mode.0 != 0 {
                let log = &mut state.log;
                part.id = Some(EventId {
                    checkpoint: log.stands_on,
                    index: log.next,
                });
                log.next += 1;
                log.parts.extend(Logged::of(&part));
            }
            if state.closed || !self.reads(mode, place) {
                return;
            }
            state.parts.push_back(part);
            if self
                .capacity
                .is_some_and(|capacity| state.parts.len() > capacity)
            {
                state.parts.pop_front();
                state.missed += 1;
            }
        }
        self.reader.wake();
    }

    fn pop(&self) -> Option<Part> {
        let (part, waiting) = {
            let mut state = self.lock();
            if state.missed > 0 {
                let missed = std::mem::take(&mut state.missed);
                return Some(Part {
                    id: None,
                    namespace: "".into(),
                    event: Event::Lagged(missed),
                });
            }
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
