//! Edits of the state between two supersteps: what a command writes to a paused thread.
//!
//! An edit makes no checkpoint of its own, because a new checkpoint would rename the tasks that wait.
//! It is stored at the checkpoint like a task's result, folded in whenever the checkpoint is opened,
//! and becomes part of the next one.

use superstep_channels::Write;
use superstep_checkpoint::{StoredTask, TaskId};

use super::Run;
use super::apply::write;
use super::plan::task_id;
use super::route::route;
use super::save::stored_task;
use crate::error::{RunError, TaskError};
use crate::graph::{ChannelIx, Exits};
use crate::record::{Done, Record, RecordState, store_done};
use crate::update::Update;

/// The name under which edits are stored; no node can have it.
pub(super) const EDIT: &str = "__edit__";

/// One edit.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) id: TaskId,
    pub(super) done: Done,
}

impl Edit {
    pub(super) fn writes_to(&self, channel: ChannelIx) -> Vec<Write> {
        let own = self.done.writes.iter().filter(|(at, _)| *at == channel);
        own.map(|(_, write)| write.clone()).collect()
    }
}

impl Run {
    /// Edits the state; gives what is to be stored of it.
    pub(super) fn edit(&mut self, update: Update) -> Result<StoredTask, RunError> {
        let exits = Exits::default();
        let done = route(&self.core, &self.cells, &exits, update);
        let done = done.map_err(|error| self.not_in_graph(error))?;
        self.add_edit(done)
    }

    /// Takes an edit into the state; gives what is to be stored of it.
    pub(super) fn add_edit(&mut self, done: Done) -> Result<StoredTask, RunError> {
        let id = self.next_edit();
        let record = Record::new(EDIT, store_done(&self.core, &done, false)?);
        let stored = stored_task(id, self.edits.len() as u32, &record)?;
        self.take_edit(id, done)?;
        Ok(stored)
    }

    /// The id of the next edit of the present checkpoint.
    pub(super) fn next_edit(&self) -> TaskId {
        task_id(self.moment(), EDIT, Some(self.edits.len()))
    }

    /// What is wrong with an update that comes from outside the graph.
    pub(super) fn not_in_graph(&self, error: TaskError) -> RunError {
        match error {
            TaskError::UnknownChannel(channel) => RunError::UnknownInput {
                graph: self.core.name.clone(),
                channel,
            },
            TaskError::Write(refused) => refused.into(),
            error => RunError::Input(error),
        }
    }

    /// Folds an edit in. It clears nothing and consumes nothing: the tasks that wait go on waiting.
    pub(super) fn take_edit(&mut self, id: TaskId, done: Done) -> Result<(), RunError> {
        let edit = Edit { id, done };
        let mut channels: Vec<ChannelIx> = edit.done.writes.iter().map(|(at, _)| *at).collect();
        channels.sort_unstable();
        channels.dedup();
        for &channel in &channels {
            let writes = edit.writes_to(channel);
            write(&self.core, self.cells[channel].as_mut(), channel, writes)?;
        }
        let mut routing = self.routing.clone();
        routing.follow(&self.core, edit.done.targets.clone());
        routing.settle(&self.core);
        self.reroute(routing);
        self.dirty.channels.extend(channels.iter().copied());
        self.edits.push(edit);
        // Delta channels that no task writes in this superstep are stored with the edits' writes alone.
        self.log(&channels.into_iter().map(|at| (at, Vec::new())).collect())
    }

    /// The edits as tasks of the checkpoint that they become part of.
    pub(super) fn edit_records(&self) -> Result<Vec<StoredTask>, RunError> {
        let edits = self.edits.iter().zip(0..);
        edits
            .map(|(edit, position)| {
                let state: RecordState = store_done(&self.core, &edit.done, true)?;
                stored_task(edit.id, position, &Record::new(EDIT, state))
            })
            .collect()
    }
}
