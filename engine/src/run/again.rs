//! Going on with a run that ended in this process, instead of reading its thread.

use superstep_channels::Kind;
use superstep_checkpoint::{Head, Place, Seen};

use super::durable::Unsaved;
use super::inbox::Inbox;
use super::{Options, Run};
use crate::context::Scope;
use crate::control::Inside;

impl Run {
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// What a store says of the place if it holds what this run knows, and nothing else.
    pub(crate) fn head(&self) -> Option<Head> {
        Some(Head {
            seen: self.seen()?,
            born: self.born,
        })
    }

    /// What this run knows of the place, once something is there.
    pub(super) fn seen(&self) -> Option<Seen> {
        Some(Seen {
            newest: self.newest?,
            saves: self.saves,
            born: Some(self.born),
        })
    }

    /// Whether the run stored the newest checkpoint of its place, and nothing waits there.
    pub(crate) fn is_settled(&self) -> bool {
        self.scope.saver.is_some()
            && self.stored
            && self.base == self.newest
            && self.records.is_empty()
            && self.edits.is_empty()
            && self.start_is_due.is_none()
            && !self.scope.sink.logs()
    }

    /// What is kept of a run that is settled: nothing that its caller gave, and what reading the thread would give.
    pub(crate) fn rest(mut self, scope: Scope, options: Options) -> Run {
        for (cell, spec) in self.cells.iter_mut().zip(&self.core.channels) {
            if spec.kind() == Kind::Untracked {
                *cell = spec.cell();
            }
        }
        Run {
            // What it noted with its checkpoints stands in the newest one.
            metadata: (*self.scope.metadata).clone(),
            run_id: self.scope.run.as_deref().map(str::to_owned),
            inbox: Inbox::new(true),
            scope,
            options,
            stored: false,
            inside: Inside::default(),
            unsaved: Unsaved::default(),
            held: Vec::new(),
            taken: 0,
            replays: false,
            passes_breakpoint: false,
            ..self
        }
    }

    /// The next run of the thread.
    pub(crate) fn go_on(self, scope: Scope, options: Options) -> Run {
        let run = Run {
            scope,
            options,
            ..self
        };
        run.stand(0);
        run
    }
}
