//! Updating the state by hand, as if a node had written it.
//!
//! An update makes a checkpoint of its own on top of the one it is made on. What waits there stays behind:
//! results of finished tasks, edits, questions.

use std::sync::Arc;

use superstep_checkpoint::{Channel, CheckpointId, Commit, Loaded, Source, StoredTask};

use super::apply::{Applied, Due};
use super::edit::EDIT;
use super::plan::{Path, Planned, task_id};
use super::route::route;
use super::save::stored_task;
use super::{Run, START};
use crate::amendment::{Author, StateUpdate};
use crate::error::{RunError, UpdateError};
use crate::graph::{Core, Exits, NodeIx};
use crate::record::{Record, store_done};

/// The path of the ids of updates that stand in for no task that was due.
const UPDATE: &str = "__update__";

/// Who an update counts as written by.
#[derive(Clone, Copy)]
enum By {
    Start,
    Node(NodeIx),
}

impl By {
    fn node(self) -> Option<NodeIx> {
        match self {
            By::Start => None,
            By::Node(node) => Some(node),
        }
    }

    fn exits(self, core: &Core) -> &Exits {
        match self {
            By::Start => &core.entry,
            By::Node(node) => &core.nodes[node].exits,
        }
    }

    fn name(self, core: &Core) -> String {
        match self {
            By::Start => START.to_owned(),
            By::Node(node) => core.node_name(node).to_string(),
        }
    }
}

impl Run {
    /// Applies supersteps of updates, each as one superstep, and stores them together.
    pub(crate) async fn update(
        &mut self,
        supersteps: Vec<Vec<StateUpdate>>,
    ) -> Result<CheckpointId, RunError> {
        if supersteps.is_empty() || supersteps.iter().any(Vec::is_empty) {
            return Err(UpdateError::Empty.into());
        }
        let mut commits = Vec::new();
        for updates in supersteps {
            commits.extend(self.update_once(updates)?);
        }
        self.store_updates(commits).await
    }

    /// Applies what finished tasks have stored, and drops those that did not finish.
    pub(crate) async fn finish_waiting(&mut self) -> Result<CheckpointId, RunError> {
        self.not_empty()?;
        let core = Arc::clone(&self.core);
        let nowhere = Exits::default();
        let (mut applied, mut tasks) = (Vec::new(), Vec::new());
        for (task, position) in self.plan_with_rescues().into_iter().zip(0..) {
            let record = self.records.get(&task.id);
            let done = record.map(|record| self.waiting_result(record));
            let done = done.transpose()?.flatten();
            if let Some(done) = &done {
                let record = self.describe(&task, store_done(&core, done, true)?);
                tasks.push(stored_task(task.id, position, &record)?);
            }
            applied.push(Applied {
                node: Some(task.node),
                on_state: task.path.is_state(),
                // A task that did not finish leads nowhere; where an error handler leads, it says itself.
                exits: match (&done, &task.path) {
                    (Some(_), Path::State | Path::Send(..)) => &core.nodes[task.node].exits,
                    _ => &nowhere,
                },
                done: done.unwrap_or_default(),
            });
        }
        self.apply(applied)?;
        let commit = self.commit(Source::Update, tasks)?;
        self.store_updates(commit.into_iter().collect()).await
    }

    /// Makes a copy of the checkpoint beside it: with the same state, on the same parent, without what waits there.
    pub(crate) async fn copy(&mut self) -> Result<CheckpointId, RunError> {
        let tasks = match &self.start_is_due {
            Some(done) => vec![self.start_record(done)?],
            None => Vec::new(),
        };
        self.copy_of = self.base;
        self.base = self.parent;
        let commit = self.commit(Source::Fork, tasks)?;
        self.store_updates(commit.into_iter().collect()).await
    }

    async fn store_updates(&mut self, commits: Vec<Commit>) -> Result<CheckpointId, RunError> {
        let id = commits.last().map(|commit| commit.id);
        self.store(commits).await?;
        id.ok_or(RunError::NoCheckpointer {
            what: "updating a thread's state",
        })
    }

    fn update_once(&mut self, updates: Vec<StateUpdate>) -> Result<Option<Commit>, RunError> {
        let core = Arc::clone(&self.core);
        if updates.len() > 1 && updates.iter().any(|update| update.author == Author::Last) {
            return Err(UpdateError::Unnamed.into());
        }
        let due = self.due();
        let mut waiting: Vec<&Planned> = match self.base == self.newest {
            true => due.iter().collect(),
            // What became of the tasks of an older checkpoint stays its record.
            false => Vec::new(),
        };
        let (mut applied, mut tasks) = (Vec::new(), Vec::new());
        for (update, position) in updates.into_iter().zip(0..) {
            let by = self.author(update.author)?;
            let exits = by.exits(&core);
            let done = route(&core, &self.cells, exits, update.update)
                .map_err(|error| self.not_in_graph(error))?;
            let stood_in_for = waiting.iter().position(|task| task.name == by.name(&core));
            let state = store_done(&core, &done, true)?;
            let (id, record) = match stood_in_for.map(|at| waiting.remove(at)) {
                Some(task) => (task.id, self.describe(task, state)),
                None => (
                    task_id(self.moment(), UPDATE, Some(position as usize)),
                    Record::new(by.name(&core), state),
                ),
            };
            tasks.push(stored_task(id, position, &record)?);
            applied.push(Applied {
                node: by.node(),
                on_state: false,
                exits,
                done,
            });
        }
        self.amend(applied, tasks)
    }

    /// Makes a checkpoint of updates: the nodes behind them are due, and nothing that was due before, input included, but
    /// what an update does not use up: deferred nodes that had begun, and nodes behind joins that are full.
    fn amend(
        &mut self,
        applied: Vec<Applied<'_>>,
        tasks: Vec<StoredTask>,
    ) -> Result<Option<Commit>, RunError> {
        let core = Arc::clone(&self.core);
        if self.base.is_none() {
            self.step = -1;
        }
        self.start_is_due = None;
        let deferred: Vec<Due> = (self.routing.due.iter().copied())
            .filter(|due| core.nodes[due.node].deferred)
            .collect();
        self.apply(applied)?;
        let mut routing = self.routing.clone();
        routing.keep(&core, deferred);
        self.reroute(routing);
        self.commit(Source::Update, tasks)
    }

    /// The node that an update counts as written by.
    fn author(&self, author: Author) -> Result<By, UpdateError> {
        let named = |name: &str| {
            let found = self.core.node_at.get(name).copied();
            found.map(By::Node).ok_or_else(|| UpdateError::UnknownNode {
                graph: self.core.name.clone(),
                node: name.to_owned(),
            })
        };
        match author {
            Author::Start => Ok(By::Start),
            Author::Node(name) => named(&name),
            Author::Last => match self.ran.as_slice() {
                [] => Ok(By::Start),
                [name] if name == START => Ok(By::Start),
                [name] => match self.core.former.nodes.get(name) {
                    Some(Some(node)) => Ok(By::Node(node)),
                    _ => named(name),
                },
                several => Err(UpdateError::Ambiguous {
                    nodes: several.iter().map(ToString::to_string).collect(),
                }),
            },
        }
    }
}

/// Leaves the edits of a checkpoint out of what waits at it.
pub(super) fn without_edits(pending: Vec<StoredTask>) -> Result<Vec<StoredTask>, RunError> {
    let mut kept = Vec::with_capacity(pending.len());
    for task in pending {
        if Record::open(&task.record)?.node != EDIT {
            kept.push(task);
        }
    }
    Ok(kept)
}

/// The channels that a checkpoint itself says something about, so that a copy of it must say it too.
pub(super) fn changed_in(loaded: &Loaded) -> Vec<&str> {
    let here = |id: &CheckpointId| *id == loaded.id;
    let changed = |channel: &Channel| {
        let value = channel.value.as_ref().map(|(id, _)| id);
        let mut logs = channel.logs.iter().map(|(id, _)| id);
        // Where a channel was emptied is not said.
        let emptied = value.is_none() && channel.logs.is_empty();
        emptied || value.is_some_and(here) || logs.any(here)
    };
    let channels = loaded.channels.iter();
    let changed = channels.filter(|(_, channel)| changed(channel));
    changed.map(|(name, _)| name.as_str()).collect()
}
