//! The messages of a conversation, and the channel that keeps them.
//!
//! A [`Message`] is content plus what its role adds to it. A conversation is a list of shared messages in the
//! channel [`Conversation::MESSAGES`](crate::agent::Conversation::MESSAGES); nodes write [`Change`]s to it, which [`add_messages`] folds in.

mod ai;
mod block;
mod change;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use superstep_channels::Json;

pub use ai::{Ai, InvalidToolCall, StopReason, ToolCall, Usage};
pub use block::{Block, Image, join_text};
pub use change::{Change, add_messages};

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
    /// What replaces and removes the message. A message without one gets one when it is stored.
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use superstep_channels::{Data, Type, Value};

    use super::*;

    /// Every field filled, every variant used.
    fn samples() -> Vec<Message> {
        let mut ai = Message::ai_calls(
            "Let me see.",
            [ToolCall::new("c1", "ls", json!({ "n": [1, 2.5, null] }))],
        );
        ai.content.insert(
            0,
            Block::Reasoning {
                text: "hm".into(),
                signature: Some("s".into()),
            },
        );
        ai.body = Body::Ai(Ai {
            invalid_tool_calls: vec![InvalidToolCall {
                id: "c2".into(),
                name: "rm".into(),
                args: "{".into(),
                reason: "cut".into(),
            }],
            usage: Some(Usage {
                input: 9,
                output: 8,
                cache_read: 7,
                cache_write: 6,
                reasoning: 5,
            }),
            stop_reason: Some(StopReason::Other("odd".into())),
            ..ai.as_ai().unwrap().clone()
        });
        let mut human = Message::human("look").with_id("h1").with_name("eve");
        human.content.extend([
            Block::Image(Image::Data {
                mime: "image/png".into(),
                base64: "AA==".into(),
            }),
            Block::Image(Image::Url("http://h/p.png".into())),
            Block::Other(Json(json!({ "type": "file" }))),
        ]);
        let mut tool = Message::tool("c1", "a b");
        tool.body = Body::Tool(ToolResult {
            artifact: Some(Json(json!([u64::MAX]))),
            ..tool.as_tool().unwrap().clone()
        });
        vec![
            Message::system("be brief"),
            human,
            ai,
            tool,
            Message::tool_error("c2", "bad call"),
        ]
    }

    fn round_trip<T: Data + PartialEq + std::fmt::Debug>(value: T) {
        let erased = Value::new(value.clone());
        let bytes = erased.encode().unwrap();
        assert_eq!(Type::of::<T>().decode(&bytes).unwrap().get(), Some(&value));
        let json = erased.to_json().unwrap();
        assert_eq!(Type::of::<T>().from_json(json).unwrap().get(), Some(&value));
    }

    #[test]
    fn bytes_and_json_bring_messages_back() {
        let messages: Vec<_> = samples().into_iter().map(std::sync::Arc::new).collect();
        round_trip(messages.clone());
        let mut changes: Vec<Change> = messages.into_iter().map(Change::Put).collect();
        changes.extend([Change::Remove("h1".into()), Change::RemoveAll]);
        round_trip(changes);
    }

    #[test]
    fn the_form_people_read() {
        insta::assert_snapshot!(
            Value::new(Message::ai_calls("", [ToolCall::new("c1", "ls", json!({}))]).with_id("m1")).to_json().unwrap(),
            @r#"{"id":"m1","name":null,"content":[],"body":{"ai":{"tool_calls":[{"id":"c1","name":"ls","args":{}}],"invalid_tool_calls":[],"usage":null,"stop_reason":null}}}"#
        );
        insta::assert_snapshot!(
            Value::new(Message::tool_error("c1", "no")).to_json().unwrap(),
            @r#"{"id":null,"name":null,"content":[{"text":"no"}],"body":{"tool":{"call_id":"c1","status":"error","artifact":null}}}"#
        );
    }

    #[test]
    fn text_skips_what_is_no_text() {
        let samples = samples();
        let texts: Vec<_> = samples.iter().map(Message::text).collect();
        assert_eq!(
            texts,
            ["be brief", "look", "Let me see.", "a b", "bad call"]
        );
        let mut two = Message::human("a");
        two.content
            .extend([Block::Other(Json::default()), "b".into()]);
        assert_eq!(two.text(), "ab");
        assert_eq!(Message::ai("").text(), "");
    }
}
