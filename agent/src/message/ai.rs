//! What a model's reply adds to its content.

use serde::{Deserialize, Serialize};
use superstep_channels::Json;

/// What a model's reply adds to its content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ai {
    /// The calls the model asks for, in its order.
    pub tool_calls: Vec<ToolCall>,
    /// Calls that cannot be executed; the model should be told, so that it can try again.
    pub invalid_tool_calls: Vec<InvalidToolCall>,
    /// What the reply cost, where the provider says so.
    pub usage: Option<Usage>,
    /// Why the model stopped; absent on replies that no model wrote and on interrupted ones.
    pub stop_reason: Option<StopReason>,
}

/// A request to run a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Ties the call to its result.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: a JSON object.
    pub args: Json,
}

impl ToolCall {
    /// A call.
    pub fn new(id: impl Into<String>, name: impl Into<String>, args: serde_json::Value) -> Self {
        ToolCall {
            id: id.into(),
            name: name.into(),
            args: Json(args),
        }
    }
}

/// A request to run a tool that cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidToolCall {
    /// Ties the call to the answer that says what was wrong.
    pub id: String,
    /// The tool; empty when the model named none.
    pub name: String,
    /// The arguments as the model wrote them.
    pub args: String,
    /// What is wrong with the call.
    pub reason: String,
}

/// What a reply cost, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Read by the model, cached ones included.
    pub input: u64,
    /// Written by the model, reasoning included.
    pub output: u64,
    /// The part of `input` that came from the provider's cache.
    pub cache_read: u64,
    /// The part of `input` that went into the provider's cache.
    pub cache_write: u64,
    /// The part of `output` that was reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The reply is complete.
    End,
    /// The model waits for tool results.
    ToolCalls,
    /// The limit on written tokens, or the context window, was reached: the reply is cut short.
    Length,
    /// The provider's filter or the model itself refused; the content, if any, says why.
    Refused,
    /// Another reason, in the provider's word.
    Other(String),
}
