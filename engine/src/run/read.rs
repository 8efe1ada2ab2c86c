//! Reading a thread's state without running it.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use superstep_channels::{Name, Write};
use superstep_checkpoint::TaskId;

use super::apply::Grouped;
use super::apply::write;
use super::edit::EDIT;
use super::execute::{Ended, Finished};
use super::open::Logs;
use super::plan::{Path, Planned, task_id};
use super::{Run, START};
use crate::context::nested_namespace;
use crate::error::RunError;
use crate::graph::ChannelIx;
use crate::record::{Done, Record, RecordState, load_done};
use crate::snapshot::{Snapshot, TaskState};
use crate::state::Fields;

/// What is stored of the tasks of one checkpoint.
type Results = HashMap<TaskId, (Record, Option<Done>)>;

/// What is stored on one checkpoint.
#[derive(Default)]
pub(super) struct Stored {
    results: Results,
    /// Edits that became part of the next checkpoint, of several such the latest; none if edits wait still.
    pub(super) edits: Vec<Done>,
}

impl Run {
    /// The state as it is now: with what finished tasks wrote, and only what is still open. If what they wrote does not go
    /// together, it is the record of the superstep that could not be made: the run said why, and the thread must stay readable.
    pub(crate) fn live(&self) -> Result<Snapshot, RunError> {
        let mut results = Results::new();
        for (id, record) in &self.records {
            let done = self.waiting_result(record)?;
            let asks = record.open_asks().cloned().collect();
            let record = Record {
                asks,
                ..record.clone()
            };
            results.insert(*id, (record, done));
        }
        let plan = self.due_with_rescues();
        let finished = plan
            .iter()
            .filter_map(|task| results.get(&task.id)?.1.as_ref());
        match self.values_with([finished.collect()]) {
            Err(RunError::Write(_)) => Ok(Snapshot {
                record: true,
                ..self.snapshot(self.values_with(None)?, &plan, &results)
            }),
            values => Ok(self.snapshot(values?, &plan, &results)),
        }
    }

    /// The record of a checkpoint: the state that its tasks ran on, and all that became of them.
    pub(crate) async fn record(&self) -> Result<Snapshot, RunError> {
        let Stored { results, edits } = self.stored_results().await?;
        let values = self.values_with(edits.iter().map(|edit| vec![edit]))?;
        Ok(Snapshot {
            record: true,
            ..self.snapshot(values, &self.due(), &results)
        })
    }

    /// The present state with the tasks that are about to run.
    pub(super) fn planned(&self, tasks: &[Planned]) -> Result<Snapshot, RunError> {
        let mut results = Results::new();
        for (id, record) in &self.records {
            results.insert(*id, (record.clone(), self.waiting_result(record)?));
        }
        Ok(self.snapshot(self.values_with(None)?, tasks, &results))
    }

    /// The tasks that are due, or the hidden start task while the input is not applied.
    pub(super) fn due(&self) -> Vec<Planned> {
        match self.start_is_due {
            None => self.plan(),
            Some(_) => vec![self.start_task()],
        }
    }

    /// The same with the error handlers of tasks that failed.
    fn due_with_rescues(&self) -> Vec<Planned> {
        match self.start_is_due {
            None => self.plan_with_rescues(),
            Some(_) => vec![self.start_task()],
        }
    }

    pub(super) fn start_task(&self) -> Planned {
        Planned {
            id: task_id(self.moment(), START, None),
            name: Name::Borrowed(START),
            node: usize::MAX,
            path: Path::State,
        }
    }

    pub(super) async fn stored_results(&self) -> Result<Stored, RunError> {
        let mut stored = Stored::default();
        let (Some(saver), Some(base)) = (&self.scope.saver, self.base) else {
            return Ok(stored);
        };
        let mut logs = Logs::new();
        let mut child = None;
        let mut edited = None;
        for task in saver.tasks(&self.place, base).await? {
            if task.child != child {
                child = task.child;
                logs = match child {
                    Some(child) => self.logs_of(&**saver, child).await?,
                    None => Logs::new(),
                };
            }
            let record = Record::open(&task.record)?;
            if record.node == EDIT {
                let edit = self.result(&record, |channel| logs.get_mut(&channel)?.edits.next())?;
                if edited != child {
                    edited = child;
                    stored.edits.clear();
                }
                // Edits that wait are in the state already.
                stored.edits.extend(edit.filter(|_| self.edits.is_empty()));
            } else {
                let done = self.result(&record, |channel| logs.get_mut(&channel)?.tasks.next())?;
                stored.results.insert(task.id, (record, done));
            }
        }
        Ok(stored)
    }

    pub(super) fn waiting_result(&self, record: &Record) -> Result<Option<Done>, RunError> {
        self.result(record, |_| None)
    }

    pub(super) fn result(
        &self,
        record: &Record,
        logged: impl FnMut(ChannelIx) -> Option<Write>,
    ) -> Result<Option<Done>, RunError> {
        let RecordState::Done { writes, targets } = &record.state else {
            return Ok(None);
        };
        load_done(&self.core, writes.clone(), targets.clone(), logged).map(Some)
    }

    /// All channels, with these results folded in, batch by batch.
    pub(super) fn values_with<'a>(
        &self,
        batches: impl IntoIterator<Item = Vec<&'a Done>>,
    ) -> Result<Fields, RunError> {
        let mut cells = HashMap::new();
        for batch in batches {
            let mut writes = Grouped::new();
            for (channel, write) in batch.iter().flat_map(|done| &done.writes) {
                writes.entry(*channel).or_default().push(write.clone());
            }
            for (channel, writes) in writes {
                let cell = cells
                    .entry(channel)
                    .or_insert_with(|| self.cells[channel].duplicate());
                write(&self.core, cell.as_mut(), channel, writes)?;
            }
        }
        let mut fields = self.core.read(&self.core.everything, &self.cells);
        for (channel, cell) in cells {
            fields.values[channel] = cell.value();
        }
        Ok(fields)
    }

    /// The output channels with what finished tasks of a paused superstep wrote, if somebody reads them:
    /// what the outermost graph ends with for now. Nothing if the writes do not go together: that is for the
    /// superstep to find out, and not for those who watch.
    pub(super) fn live_values(&self, results: &[Finished]) -> Option<Fields> {
        let paused = results
            .iter()
            .any(|result| matches!(result.ended, Ended::Asked(_)));
        let done = results.iter().filter_map(|result| match &result.ended {
            Ended::Done(done) if !done.writes.is_empty() => Some(done),
            _ => None,
        });
        let done: Vec<&Done> = done.collect();
        let outermost = self.place.namespace.is_empty();
        if !(paused && outermost) || done.is_empty() || !self.wants_values() {
            return None;
        }
        let all = self.values_with([done]).ok()?;
        let output = &self.core.output;
        let value = |&at: &ChannelIx| all.values.get(at).cloned().flatten();
        Some(Fields {
            names: output.names.clone(),
            values: output.channels.iter().map(value).collect(),
        })
    }

    fn snapshot(&self, values: Fields, tasks: &[Planned], results: &Results) -> Snapshot {
        let tasks = tasks
            .iter()
            .map(|task| self.task_state(task, results.get(&task.id)));
        Snapshot {
            checkpoint: self.base,
            parent: self.parent,
            source: self.base.map(|_| self.source),
            time: self.base.and_then(|_| moment(self.time)),
            step: self.step,
            values,
            tasks: tasks.collect(),
            parents: self.scope.parents.to_vec(),
            metadata: self.metadata.clone(),
            run: self.run_id.clone(),
            record: false,
        }
    }

    fn task_state(&self, task: &Planned, result: Option<&(Record, Option<Done>)>) -> TaskState {
        let done = result.and_then(|(_, done)| done.as_ref());
        TaskState {
            id: task.id,
            node: task.name.clone(),
            send: match &task.path {
                Path::Send(at, payload) => Some((*at, payload.clone())),
                Path::State | Path::Failure(..) => None,
            },
            asks: result
                .map(|(record, _)| record.asks.clone())
                .unwrap_or_default(),
            error: result.and_then(|(record, _)| record.error.clone()),
            writes: done.map(|done| self.named(done)),
            finished: done.is_some(),
            namespace: self.namespace_in(task),
            nested: None,
        }
    }

    /// The namespace of the graph inside a task.
    fn namespace_in(&self, task: &Planned) -> Option<String> {
        let node = self.core.nodes.get(task.node)?;
        let inside = node.inside.as_ref()?;
        let around = &self.place.namespace;
        Some(nested_namespace(around, &node.key, task.id, inside.nesting))
    }

    /// A result's writes by name.
    pub(super) fn named(&self, done: &Done) -> Vec<(Name, Write)> {
        let name = |at: ChannelIx| self.core.channels[at].name().clone();
        let writes = done.writes.iter();
        writes
            .map(|(at, write)| (name(*at), write.clone()))
            .collect()
    }
}

fn moment(time: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(time))
}
