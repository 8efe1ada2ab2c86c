//! Spans for tracing: `run`, `superstep`, `task` and `save`, each inside the one around it, across awaits,
//! spawned tasks and nested graphs. Where nobody listens they cost a look at an atomic.

use futures::future::BoxFuture;
use tracing::{Instrument as _, Span, debug_span, info_span};

use super::Run;
use super::plan::Planned;

impl Run {
    pub(crate) fn run_span(&self) -> Span {
        info_span!(
            target: "superstep",
            "run",
            graph = %self.core.name,
            thread = %self.place.thread,
            namespace = %self.place.namespace,
            id = self.scope.run.as_deref(),
        )
    }

    pub(super) fn superstep_span(&self) -> Span {
        debug_span!(
            target: "superstep",
            "superstep",
            step = self.step + 1,
            checkpoint = self.base.map(|id| id.0),
        )
    }

    pub(super) fn save_span(&self) -> Span {
        debug_span!(target: "superstep", "save", checkpoint = self.base.map(|id| id.0))
    }
}

/// Lets a task run inside a span of its own.
pub(super) fn in_task_span<T: 'static>(
    task: &Planned,
    run: BoxFuture<'static, T>,
) -> BoxFuture<'static, T> {
    let span = debug_span!(target: "superstep", "task", node = %task.name, id = %task.id);
    match span.is_disabled() {
        true => run,
        false => Box::pin(run.instrument(span)),
    }
}
