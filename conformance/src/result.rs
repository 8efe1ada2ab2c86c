//! What an action of a script gives.
//!
//! The recorded results are read as these types, and the runner writes its own with them, so both
//! have the same keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids;
use crate::spec::{located, present};

/// The result of a case: of building the graph if that fails, else of one action.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// The graph was refused.
    Refused(Refused),
    /// An action was performed.
    Done(Box<Done>),
}

/// The graph was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// Always `InvalidGraph`.
    pub compile_error: String,
}

/// What an action gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Done {
    /// A run.
    Invoke {
        /// The output, unless the run failed or was streamed.
        #[serde(
            default,
            deserialize_with = "present",
            skip_serializing_if = "Option::is_none"
        )]
        output: Option<Value>,
        /// Open questions, if any and if not streamed.
        #[serde(skip_serializing_if = "Option::is_none")]
        interrupts: Option<Vec<Interrupt>>,
        /// What was streamed.
        #[serde(skip_serializing_if = "Option::is_none")]
        events: Option<Vec<Event>>,
        /// Why it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
        /// How often each body was started, by `graph:node`.
        ran: BTreeMap<String, u64>,
    },
    /// A state.
    State(Answered<StateRead>),
    /// States, newest first.
    History(Answered<HistoryRead>),
    /// The id of a new checkpoint.
    Update(Answered<Written>),
    /// The id of the last new checkpoint.
    Bulk(Answered<Written>),
    /// A dump of what is stored.
    Raw(Answered<Dump>),
    /// Nothing to tell.
    ClearCache {},
}

/// An answer, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answered<T> {
    /// The action failed.
    Failed {
        /// Why.
        error: Failure,
    },
    /// The action gave this.
    Gave(T),
}

/// A state was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRead {
    /// The state.
    pub snapshot: Snapshot,
}

/// States were read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryRead {
    /// The states, newest first.
    pub snapshots: Vec<Snapshot>,
}

/// A checkpoint was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Its id.
    pub checkpoint: String,
}

/// All that is stored was dumped; its form is the reference's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    /// The checkpoints, newest first.
    pub checkpoints: Vec<Value>,
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// Its id.
    pub id: String,
    /// What is asked.
    pub value: Value,
}

/// Why an action failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
pub enum Failure {
    /// A node failed.
    Node {
        /// With this error.
        name: String,
    },
    /// A write was refused.
    InvalidUpdate {},
    /// The recursion limit was reached.
    GraphRecursion {},
    /// There was nothing to run on.
    EmptyInput {},
    /// A node took too long.
    NodeTimeout {
        /// By its limit on a `run` or on being `idle`.
        name: String,
    },
    /// An answer belonged to no open question.
    UnknownInterrupt {
        /// What is wrong with it.
        reason: String,
    },
    /// One answer for several open questions.
    AmbiguousResume {},
    /// The run was asked to stop.
    GraphDrained {},
    /// A command to the graph above, where there is none.
    ParentCommand {},
    /// It takes a saver, and there is none.
    NoCheckpointer {},
    /// The call itself makes no sense.
    InvalidArgument {},
    /// An accident of the reference.
    Other {},
}

/// A state: a checkpoint, the tasks it leads to, and what is known of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The values of the channels.
    pub values: Value,
    /// The nodes that are due.
    pub next: Vec<String>,
    /// The checkpoint; null if there is none.
    pub id: Option<String>,
    /// The one before it.
    pub parent: Option<String>,
    /// What made it: `input`, `loop`, `update` or `fork`.
    pub source: Option<String>,
    /// The superstep.
    pub step: Option<i64>,
    /// The tasks that are due.
    pub tasks: Vec<TaskState>,
    /// Open questions, task by task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Interrupt>,
    /// The namespace, if nested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<String>,
    /// The checkpoints of the enclosing graphs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<Parent>,
    /// Of each delta channel, updates and supersteps since its last snapshot.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub delta_counters: BTreeMap<String, [u64; 2]>,
}

/// A checkpoint of an enclosing graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    /// That graph's namespace.
    pub ns: String,
    /// The checkpoint.
    pub id: String,
}

/// A task of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskState {
    /// Its id.
    pub id: String,
    /// Its node.
    pub name: String,
    /// What it failed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it asks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Interrupt>,
    /// What it wrote.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub result: Option<Value>,
    /// The state of its nested graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Nested>,
}

/// The state of a nested graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Nested {
    /// Only where it is.
    Address(Address),
    /// The whole.
    Expanded(Box<Snapshot>),
}

/// Where a nested state is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// Its namespace.
    pub ns: String,
}

/// A streamed event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The stream mode.
    pub mode: String,
    /// What it says.
    pub data: Value,
    /// The namespace of the nested graph it comes from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ns: String,
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value.get("do") {
            None => located(value).map(Outcome::Refused),
            Some(_) => located(value).map(|done| Outcome::Done(Box::new(done))),
        }
        .map_err(serde::de::Error::custom)
    }
}

impl<'de, T: serde::de::DeserializeOwned> Deserialize<'de> for Answered<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Failed {
            error: Failure,
        }
        let value = Value::deserialize(deserializer)?;
        match value.get("error") {
            None => located(value).map(Answered::Gave),
            Some(_) => located::<Failed>(value).map(|failed| Answered::Failed {
                error: failed.error,
            }),
        }
        .map_err(serde::de::Error::custom)
    }
}

/// Reads what was recorded; its placeholders become [tokens](ids::token).
pub(crate) fn recorded<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let mut value = Value::deserialize(deserializer)?;
    ids::mark(&mut value);
    located(value).map_err(serde::de::Error::custom)
}
