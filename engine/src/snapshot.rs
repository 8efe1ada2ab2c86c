//! The state of a thread, as callers see it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use superstep_channels::{Json, Name, Value, Write};
use superstep_checkpoint::{CheckpointId, Source, TaskId};

use crate::ask::Ask;
use serde_json::json;

use crate::error::ReadError;
use crate::event::{asks_json, fields_json, value_json, writes_json};
use crate::state::{Fields, Input};

/// A thread's state at one checkpoint.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The checkpoint; `None` when the thread is empty.
    pub checkpoint: Option<CheckpointId>,
    /// The checkpoint before it.
    pub parent: Option<CheckpointId>,
    /// What made it; `None` when the thread is empty.
    pub source: Option<Source>,
    /// When it was made; `None` when the thread is empty. Not part of the [JSON form](Snapshot::json).
    pub time: Option<SystemTime>,
    /// The number of the superstep that ended there; -1 is the first input.
    pub step: i64,
    /// The channels that hold something.
    pub values: Fields,
    /// The tasks that are due on it, in canonical order.
    pub tasks: Vec<TaskState>,
    /// The checkpoints of the enclosing graphs, outermost first.
    pub parents: Vec<(String, CheckpointId)>,
    /// What the caller of the run that made it noted.
    pub metadata: BTreeMap<String, Json>,
    /// The id of that run, if it was given one.
    pub run: Option<String>,
    /// Whether it is the record of a checkpoint, and not the present state.
    pub(crate) record: bool,
}

impl Snapshot {
    /// Reads the values as a typed state.
    pub fn read<S: Input>(&self) -> Result<S, ReadError> {
        self.values.read()
    }

    /// The form that servers send: an object with the fields of this type, values as an object by channel, tasks as a list.
    /// A value that has no JSON form shows as the text of its error.
    pub fn json(&self) -> serde_json::Value {
        let tasks: serde_json::Value = self.tasks.iter().map(TaskState::json).collect();
        let parents = self.parents.iter();
        let parents: serde_json::Value = parents
            .map(|(namespace, id)| json!({ "namespace": namespace, "checkpoint": id.0 }))
            .collect();
        let metadata = self.metadata.iter();
        let metadata: serde_json::Map<_, _> = metadata
            .map(|(key, value)| (key.clone(), value.0.clone()))
            .collect();
        json!({
            "checkpoint": self.checkpoint.map(|id| id.0), "parent": self.parent.map(|id| id.0),
            "source": self.source.map(|source| format!("{source:?}").to_lowercase()), "step": self.step, "values": fields_json(&self.values),
            "next": self.next().collect::<Vec<_>>(), "tasks": tasks, "parents": parents,
            "metadata": metadata, "run": self.run,
        })
    }

    /// The questions that are open.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.tasks.iter().flat_map(|task| &task.asks)
    }

    /// The nodes that are due. Of a checkpoint that was addressed or listed: all that were due on it,
    /// whatever became of them since.
    pub fn next(&self) -> impl Iterator<Item = &Name> {
        self.tasks
            .iter()
            .filter(|task| self.record || !task.finished)
            .map(|task| &task.node)
    }
}

impl TaskState {
    fn json(&self) -> serde_json::Value {
        json!({
            "id": self.id.to_string(), "node": self.node,
            "payload": self.send.as_ref().map(|(_, payload)| value_json(payload)),
            "asks": asks_json(&self.asks), "error": self.error,
            "writes": self.writes.as_deref().map(writes_json), "finished": self.finished,
            "namespace": self.namespace,
            "nested": self.nested.as_ref().map(|nested| nested.json()),
        })
    }
}

/// A task that is due on a checkpoint, or was.
#[derive(Clone, Debug)]
pub struct TaskState {
    /// Its id.
    pub id: TaskId,
    /// Its node.
    pub node: Name,
    /// Its number among the sends and what was sent, if it was sent.
    pub send: Option<(usize, Value)>,
    /// What it asks. Of a checkpoint that was addressed by id: what it asked last, also if that was answered since.
    pub asks: Vec<Ask>,
    /// Why it failed the last time it did, also if it finished since.
    pub error: Option<String>,
    /// What it wrote, if it finished.
    pub writes: Option<Vec<(Name, Write)>>,
    /// Whether it finished, so that it will not run again.
    pub finished: bool,
    /// The namespace of the graph that its node is or [calls](crate::GraphBuilder::calls).
    pub namespace: Option<String>,
    /// The state of that graph, if it was [asked for](crate::Thread::state_nested).
    pub nested: Option<Box<Snapshot>>,
}
