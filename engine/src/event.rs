//! What a run tells while it runs. Streams, tests and traces read the same list.

use std::ops::BitOr;
use std::sync::Arc;

use serde_json::{Value as JsonValue, json};
use superstep_channels::{Name, Value, Write};
use superstep_checkpoint::TaskId;

use crate::ask::Ask;
use crate::event_log::EventId;
use crate::node::TaskInput;
use crate::snapshot::Snapshot;
use crate::state::Fields;

/// Which events a stream carries. Combine them with `|`. What nobody asked for is not even computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes(pub(crate) u8);

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
    /// All that is needed to follow a run step by step: tasks and checkpoints.
    pub const DEBUG: Modes = Modes(8 | 16);

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
    /// Its id, if the run [logs](crate::RunBuilder::log) it.
    pub id: Option<EventId>,
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
    /// The reader was too slow, and this many parts were dropped in between. See [`RunBuilder::watch`](crate::RunBuilder::watch).
    Lagged(u64),
    /// The run pauses on these questions, or, if there are none, at a breakpoint. ([`Modes::UPDATES`], [`Modes::VALUES`])
    Paused(Vec<Ask>),
}

impl Event {
    /// The mode that carries it.
    pub(crate) fn modes(&self) -> Modes {
        match self {
            Event::Values(_) => Modes::VALUES,
            Event::Update { .. } => Modes::UPDATES,
            Event::Custom { .. } => Modes::CUSTOM,
            Event::TaskStarted { .. } | Event::TaskEnded { .. } | Event::CacheFailed { .. } => {
                Modes::TASKS
            }
            Event::Checkpoint(_) => Modes::CHECKPOINTS,
            Event::Lagged(_) => Modes(u8::MAX),
            Event::Called { .. } => Modes::TASKS,
            Event::Returned { .. } => Modes::TASKS | Modes::UPDATES,
            Event::Paused(_) => Modes::UPDATES | Modes::VALUES,
        }
    }
}

impl Part {
    /// The form that servers send and logs keep: an object with
    ///
    /// - `type`: `values`, `update`, `custom`, `task_started`, `task_ended`, `called`, `returned`, `cache_failed`,
    ///   `checkpoint`, `paused` or `lagged`;
    /// - `namespace`: an array with the parts of the namespace, outermost first;
    /// - `data`: what the event says, an object whose members are the event's fields; of `values` the channels;
    /// - `id`, if it has one.
    ///
    /// A value that has no JSON form shows as the text of its error.
    pub fn json(&self) -> JsonValue {
        let parts = self.namespace.split('|').filter(|part| !part.is_empty());
        let mut json = json!({
            "type": self.event.kind(),
            "namespace": parts.collect::<Vec<_>>(),
            "data": self.event.data(),
        });
        if let Some(id) = self.id {
            json["id"] = id.to_string().into();
        }
        json
    }
}

impl Event {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Event::Values(_) => "values",
            Event::Update { .. } => "update",
            Event::Custom { .. } => "custom",
            Event::TaskStarted { .. } => "task_started",
            Event::TaskEnded { .. } => "task_ended",
            Event::Called { .. } => "called",
            Event::Returned { .. } => "returned",
            Event::CacheFailed { .. } => "cache_failed",
            Event::Checkpoint(_) => "checkpoint",
            Event::Paused(_) => "paused",
            Event::Lagged(_) => "lagged",
        }
    }

    pub(crate) fn data(&self) -> JsonValue {
        match self {
            Event::Values(fields) => fields_json(fields),
            Event::Update {
                node,
                writes,
                cached,
            } => json!({ "node": node, "writes": writes_json(writes), "cached": cached }),
            Event::Custom { node, value } => json!({ "node": node, "value": value }),
            Event::TaskStarted {
                task,
                node,
                input,
                triggers,
                step,
            } => {
                let input = match input {
                    TaskInput::State(fields) => fields_json(fields),
                    TaskInput::Payload(value) => value_json(value),
                };
                json!({ "task": task.to_string(), "node": node, "input": input, "triggers": triggers, "step": step })
            }
            Event::TaskEnded {
                task,
                node,
                writes,
                error,
                asks,
                step,
            } => json!({
                "task": task.to_string(), "node": node, "writes": writes_json(writes),
                "error": error, "asks": asks_json(asks), "step": step,
            }),
            Event::Called {
                task,
                routine,
                argument,
                step,
            } => {
                json!({ "task": task.to_string(), "routine": routine, "argument": value_json(argument), "step": step })
            }
            Event::Returned {
                task,
                routine,
                value,
                cached,
                step,
            } => json!({
                "task": task.to_string(), "routine": routine, "value": value_json(value),
                "cached": cached, "step": step,
            }),
            Event::CacheFailed { node, error } => json!({ "node": node, "error": error }),
            Event::Checkpoint(snapshot) => snapshot.json(),
            Event::Paused(asks) => json!({ "asks": asks_json(asks) }),
            Event::Lagged(missed) => json!({ "missed": missed }),
        }
    }
}

pub(crate) fn value_json(value: &Value) -> JsonValue {
    value
        .to_json()
        .unwrap_or_else(|error| error.to_string().into())
}

pub(crate) fn fields_json(fields: &Fields) -> JsonValue {
    let members = fields.iter();
    JsonValue::Object(
        members
            .map(|(name, value)| (name.to_string(), value_json(value)))
            .collect(),
    )
}

/// Each write as an object: the channel, the value, and whether it overwrites.
pub(crate) fn writes_json(writes: &[(Name, Write)]) -> JsonValue {
    let one = |(channel, write): &(Name, Write)| {
        let overwrites = matches!(write, Write::Overwrite(_));
        json!({ "channel": channel, "value": value_json(write.value()), "overwrite": overwrites })
    };
    writes.iter().map(one).collect()
}

pub(crate) fn asks_json(asks: &[Ask]) -> JsonValue {
    let one = |ask: &Ask| {
        json!({
            "id": ask.id.to_string(), "task": ask.task.to_string(), "node": ask.node,
            "namespace": ask.namespace, "payload": ask.payload.0,
        })
    };
    asks.iter().map(one).collect()
}
