//! The messages of a conversation, and the channel that keeps them.
//!
//! A [`Message`] is content plus what its role adds to it. A conversation is a list of shared messages in the
//! channel [`MESSAGES`]; nodes write [`Change`]s to it, which [`add_messages`] folds in.

mod ai;
mod block;
mod change;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use superstep_channels::Json;

pub use ai::{Ai, InvalidToolCall, StopReason, ToolCall, Usage};
pub use block::{Block, Image, join_text};
pub use change::{Change, MESSAGES, add_messages};

/// One message of a conversation.
///
/// ```
/// use superstep_agent::message::Message;
///
/// let question = Message::human("What is in notes.txt?").with_id("q1");
/// assert_eq!(question.text(), "What is in notes.txt?");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// What replaces and removes the message; the agent gives one to each message it stores.
    pub id: Option<String>,
    /// Who speaks, where a role has several speakers: an agent's name, a tool's name.
    pub name: Option<String>,
    /// What is said, in order.
    pub content: Vec<Block>,
    /// The role, and what only this role has.
    pub body: Body,
}

/// The role of a message, and what only that role has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Instructions to the model.
    System,
    /// What a person, or a program in a person's place, says.
    Human,
    /// A model's reply.
    Ai(Ai),
    /// What a tool call gave.
    Tool(ToolResult),
}

/// What a tool message adds to its content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The [`ToolCall::id`] that is answered.
    pub call_id: String,
    /// Whether the call worked.
    pub status: ToolStatus,
    /// Data for programs; the model never sees it.
    pub artifact: Option<Json>,
}

/// Whether a tool call worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did.
    #[default]
    Ok,
    /// It did not; the content says why.
    Error,
}

impl Message {
    fn new(body: Body, text: String) -> Self {
        let content = match text.is_empty() {
            true => Vec::new(),
            false => vec![Block::Text(text)],
        };
        Message {
            id: None,
            name: None,
            content,
            body,
        }
    }

    /// Instructions to the model.
    pub fn system(text: impl Into<String>) -> Self {
        Self::new(Body::System, text.into())
    }

    /// What a person says.
    pub fn human(text: impl Into<String>) -> Self {
        Self::new(Body::Human, text.into())
    }

    /// A model's reply without tool calls.
    pub fn ai(text: impl Into<String>) -> Self {
        Self::new(Body::Ai(Ai::default()), text.into())
    }

    /// A model's reply that calls tools.
    pub fn ai_calls(text: impl Into<String>, calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let ai = Ai {
            tool_calls: calls.into_iter().collect(),
            ..Ai::default()
        };
        Self::new(Body::Ai(ai), text.into())
    }

    /// What a tool call gave.
    pub fn tool(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::result(call_id.into(), text.into(), ToolStatus::Ok)
    }

    /// Why a tool call failed.
    pub fn tool_error(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::result(call_id.into(), text.into(), ToolStatus::Error)
    }

    fn result(call_id: String, text: String, status: ToolStatus) -> Self {
        let result = ToolResult {
            call_id,
            status,
            artifact: None,
        };
        Self::new(Body::Tool(result), text)
    }

    /// The same message under this id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The same message from this speaker.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The text blocks joined without a separator; other blocks are left out.
    pub fn text(&self) -> Cow<'_, str> {
        join_text(&self.content)
    }

    /// What the message has as a model's reply, if it is one.
    pub fn as_ai(&self) -> Option<&Ai> {
        match &self.body {
            Body::Ai(ai) => Some(ai),
            _ => None,
        }
    }

    /// What the message has as a tool's result, if it is one.
    pub fn as_tool(&self) -> Option<&ToolResult> {
        match &self.body {
            Body::Tool(result) => Some(result),
            _ => None,
        }
    }

    /// The tool calls that can be executed; none for every role but a model's reply.
    pub fn tool_calls(&self) -> &[ToolCall] {
        self.as_ai().map_or(&[], |ai| &ai.tool_calls)
    }
}
