//! Questions to the outside, and their answers.

use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use superstep_channels::{CodecError, Json, Type};
use superstep_checkpoint::TaskId;
use xxhash_rust::xxh3::xxh3_128;

/// A question's id: a hash of the task and of the question's place in the order in which the task asks.
/// The same in every process until the question is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AskId(u128);

impl AskId {
    pub(crate) fn new(task: TaskId, index: u32) -> Self {
        let mut bytes = [0; 20];
        bytes[..16].copy_from_slice(&task.0);
        bytes[16..].copy_from_slice(&index.to_be_bytes());
        AskId(xxh3_128(&bytes))
    }
}

impl fmt::Display for AskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for AskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is no [`AskId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no question id: 32 hex digits expected")]
pub struct ParseAskIdError(String);

impl FromStr for AskId {
    type Err = ParseAskIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parsed = digits
            .then(|| u128::from_str_radix(text, 16).ok())
            .flatten();
        parsed
            .map(AskId)
            .ok_or_else(|| ParseAskIdError(text.to_owned()))
    }
}

/// A question that a task waits on. See [`Context::interrupt`](crate::Context::interrupt).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Its id.
    pub id: AskId,
    /// The task that asks.
    pub task: TaskId,
    /// Its node.
    pub node: String,
    /// The namespace of the node's graph; empty for the outermost.
    pub namespace: String,
    /// What is asked.
    pub payload: Json,
}

impl Ask {
    /// The question as a typed value.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.payload.0)
    }

    /// An answer to this question.
    pub fn answer(&self, value: impl Serialize) -> Answer {
        Answer::to(self.id, value)
    }
}

/// An answer that was given, with the question that was asked then.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) question: Json,
    pub(crate) answer: Json,
}

/// What is answered, and to which question.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(crate) id: Option<AskId>,
    pub(crate) value: Result<Json, String>,
}

impl Answer {
    /// The answer to the question with this id.
    pub fn to(id: AskId, value: impl Serialize) -> Self {
        Answer {
            id: Some(id),
            value: json(&value),
        }
    }

    /// The answer to the only open question.
    pub fn only(value: impl Serialize) -> Self {
        Answer {
            id: None,
            value: json(&value),
        }
    }
}

fn json(value: &impl Serialize) -> Result<Json, String> {
    serde_json::to_value(value)
        .map(Json)
        .map_err(|error| error.to_string())
}

impl Answer {
    pub(crate) fn json(self) -> Result<Json, CodecError> {
        self.value.map_err(|reason| CodecError {
            type_name: Type::of::<Json>().name().to_owned(),
            reason,
        })
    }
}
