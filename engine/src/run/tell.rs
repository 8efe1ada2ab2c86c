//! Telling whoever listens. Nothing is computed for events that nobody reads.

use superstep_channels::{Name, Write};

use super::Run;
use super::execute::{Ended, Finished};
use super::plan::Planned;
use crate::ask::Ask;
use crate::error::RunError;
use crate::event::{Event, Modes};
use crate::graph::ChannelIx;
use crate::record::Done;
use crate::state::Fields;

impl Run {
    fn emit(&self, mode: Modes, event: impl FnOnce() -> Event) {
        self.scope.sink.emit(mode, &self.place, event);
    }

    fn wants(&self, modes: Modes) -> bool {
        self.scope.sink.wants(modes, &self.place)
    }

    pub(super) fn wants_values(&self) -> bool {
        self.wants(Modes::VALUES)
    }

    /// The checkpoint the run stands on, with the tasks that are due.
    pub(super) fn tell_checkpoint(&self, tasks: &[Planned]) -> Result<(), RunError> {
        if self.base.is_some() && self.wants(Modes::CHECKPOINTS) {
            let snapshot = Box::new(self.planned(tasks)?);
            self.emit(Modes::CHECKPOINTS, || Event::Checkpoint(snapshot));
        }
        Ok(())
    }

    /// Keeps an event until what it tells of is stored.
    pub(super) fn hold(&mut self, mode: Modes, event: impl FnOnce(&Self) -> Event) {
        if self.wants(mode) {
            let event = event(self);
            self.held.push((mode, event));
        }
    }

    /// Tells what was kept.
    pub(super) fn tell_held(&mut self) {
        for (mode, event) in std::mem::take(&mut self.held) {
            self.emit(mode, || event);
        }
    }

    pub(super) fn hold_input_checkpoint(&mut self) -> Result<(), RunError> {
        if self.base.is_some() && self.wants(Modes::CHECKPOINTS) {
            let snapshot = Box::new(self.planned(&[self.start_task()])?);
            self.hold(Modes::CHECKPOINTS, |_| Event::Checkpoint(snapshot));
        }
        Ok(())
    }

    /// The output, if one of its channels was written.
    pub(super) fn hold_values(&mut self, written: &[ChannelIx]) {
        if self.wants_values() && self.shows(written) {
            self.hold(Modes::VALUES, |run| Event::Values(run.output()));
        }
    }

    fn shows(&self, written: &[ChannelIx]) -> bool {
        let output = &self.core.output.channels;
        written.iter().any(|channel| output.contains(channel))
    }

    pub(super) fn tell_started(&self, task: &Planned) {
        self.emit(Modes::TASKS, || Event::TaskStarted {
            task: task.id,
            node: task.name.clone(),
            input: self.input(task),
            triggers: self.triggers(task),
            step: self.step + 1,
        });
    }

    pub(super) fn tell_ended(&self, finished: &Finished) {
        if let Ended::Done(done) = &finished.ended {
            self.tell_update(&finished.task, done, false);
        }
        self.emit(Modes::TASKS, || {
            let (writes, error, asks) = match &finished.ended {
                Ended::Done(done) => (self.named(done), None, Vec::new()),
                Ended::Asked(asks) => (Vec::new(), None, asks.clone()),
                Ended::Stopped(_) | Ended::Parent(_) => (Vec::new(), None, Vec::new()),
                Ended::Failed(error) => (Vec::new(), Some(error.to_string()), Vec::new()),
                Ended::Rescued(error) => (Vec::new(), Some(error.clone()), Vec::new()),
            };
            Event::TaskEnded {
                task: finished.task.id,
                node: finished.task.name.clone(),
                writes,
                error,
                asks,
                step: self.step + 1,
            }
        });
    }

    pub(super) fn tell_update(&self, task: &Planned, done: &Done, cached: bool) {
        self.emit(Modes::UPDATES, || Event::Update {
            node: task.name.clone(),
            writes: self.visible(self.named(done)),
            cached,
        });
    }

    pub(super) fn tell_cache_failed(&self, task: &Planned, error: &RunError) {
        self.emit(Modes::TASKS, || Event::CacheFailed {
            node: task.name.clone(),
            error: with_causes(error),
        });
    }

    fn visible(&self, writes: Vec<(Name, Write)>) -> Vec<(Name, Write)> {
        let output = &self.core.output.names;
        writes
            .into_iter()
            .filter(|(name, _)| output.contains(name))
            .collect()
    }

    pub(super) fn tell_values_now(&self, values: Option<Fields>) {
        if let Some(values) = values {
            self.emit(Modes::VALUES, || Event::Values(values));
        }
    }

    pub(super) fn tell_paused(&self, asks: &[Ask]) {
        let modes = Modes::VALUES | Modes::UPDATES;
        self.emit(modes, || Event::Paused(asks.to_vec()));
    }
}

/// An error's text with those of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
