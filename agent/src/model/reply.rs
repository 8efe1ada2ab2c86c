//! Chunks become a message.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use superstep_channels::Json;

use super::{Chunk, ModelError};
use crate::message::{Ai, Block, Body, InvalidToolCall, Message, StopReason, ToolCall, Usage};

/// Folds the chunks of a reply into a message.
///
/// ```
/// use superstep_agent::message::StopReason;
/// use superstep_agent::model::{Chunk, Reply};
///
/// let mut reply = Reply::new();
/// reply.push(Chunk::Text("Hel".into()));
/// reply.push(Chunk::Text("lo".into()));
/// assert_eq!(reply.clone().partial().text(), "Hello");
/// assert!(reply.clone().finish().is_err());
/// reply.push(Chunk::Stop(StopReason::End));
/// assert_eq!(reply.finish()?.text(), "Hello");
/// # Ok::<(), superstep_agent::model::ModelError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Reply {
    id: Option<String>,
    content: Vec<Block>,
    calls: BTreeMap<usize, Call>,
    usage: Option<Usage>,
    stop_reason: Option<StopReason>,
}

/// A tool call as far as it has come.
#[derive(Clone, Debug, Default)]
struct Call {
    id: String,
    name: String,
    args: String,
}

impl Reply {
    /// A reply of which nothing has come.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a chunk.
    pub fn push(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::Id(id) => self.id = Some(id),
            Chunk::Text(text) => self.push_text(text),
            Chunk::Reasoning { text, signature } => self.push_reasoning(text, signature),
            Chunk::Block(block) => self.content.push(block),
            Chunk::ToolCall {
                index,
                id,
                name,
                args,
            } => {
                let call = self.calls.entry(index).or_default();
                fill(&mut call.id, id);
                fill(&mut call.name, name);
                call.args.push_str(&args);
            }
            Chunk::Usage(usage) => self.usage = Some(usage),
            Chunk::Stop(reason) => self.stop_reason = Some(reason),
        }
    }

    fn push_text(&mut self, text: String) {
        match self.content.last_mut() {
            _ if text.is_empty() => {}
            Some(Block::Text(before)) => before.push_str(&text),
            _ => self.content.push(Block::Text(text)),
        }
    }

    fn push_reasoning(&mut self, text: String, signature: Option<String>) {
        match self.content.last_mut() {
            _ if text.is_empty() && signature.is_none() => {}
            Some(Block::Reasoning {
                text: before,
                signature: open @ None,
            }) => {
                before.push_str(&text);
                *open = signature;
            }
            _ => self.content.push(Block::Reasoning { text, signature }),
        }
    }

    /// The message, if the reply is complete.
    pub fn finish(self) -> Result<Message, ModelError> {
        match self.stop_reason {
            Some(_) => Ok(self.partial()),
            None => Err(self.interrupted(ModelError::Transport(
                "the stream ended before the reply was complete".into(),
            ))),
        }
    }

    /// The message as far as it has come.
    ///
    /// Calls without an id get one from their place; calls whose arguments are no JSON object,
    /// which is what a cut makes of them, are [invalid](Ai::invalid_tool_calls).
    pub fn partial(self) -> Message {
        let mut ai = Ai {
            usage: self.usage,
            stop_reason: self.stop_reason,
            ..Ai::default()
        };
        for (index, call) in self.calls {
            match call.parse(index) {
                Ok(call) => ai.tool_calls.push(call),
                Err(invalid) => ai.invalid_tool_calls.push(invalid),
            }
        }
        Message {
            id: self.id,
            name: None,
            content: self.content,
            body: Body::Ai(ai),
        }
    }

    /// The error of a stream that failed at this point: `cause` itself when nothing had come.
    pub fn interrupted(self, cause: ModelError) -> ModelError {
        if self.content.is_empty() && self.calls.is_empty() {
            return cause;
        }
        ModelError::Interrupted {
            partial: Box::new(self.partial()),
            cause: Box::new(cause),
        }
    }
}

/// Ids and names come whole, but some servers repeat them in every piece.
fn fill(field: &mut String, value: Option<String>) {
    if let Some(value) = value
        && field.is_empty()
    {
        *field = value;
    }
}

impl Call {
    fn parse(self, index: usize) -> Result<ToolCall, InvalidToolCall> {
        let Call { mut id, name, args } = self;
        if id.is_empty() {
            id = format!("call_{index}");
        }
        let parsed = match name.is_empty() {
            true => Err("the call names no tool".to_owned()),
            false => parse_args(&args),
        };
        match parsed {
            Ok(args) => Ok(ToolCall {
                id,
                name,
                args: Json(Value::Object(args)),
            }),
            Err(reason) => Err(InvalidToolCall {
                id,
                name,
                args,
                reason,
            }),
        }
    }
}

/// Models write nothing at all when a tool takes no arguments.
fn parse_args(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(text).map_err(|error| format!("the arguments are no JSON object: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(index: usize, id: &str, name: &str, args: &str) -> Chunk {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Chunk::ToolCall {
            index,
            id: some(id),
            name: some(name),
            args: args.to_owned(),
        }
    }

    fn thought(text: &str, signature: Option<&str>) -> Chunk {
        Chunk::Reasoning {
            text: text.into(),
            signature: signature.map(str::to_owned),
        }
    }

    fn fold(chunks: impl IntoIterator<Item = Chunk>) -> Reply {
        let mut reply = Reply::new();
        chunks.into_iter().for_each(|chunk| reply.push(chunk));
        reply
    }

    #[test]
    fn pieces_of_parallel_calls_are_told_apart() {
        let reply = fold([
            thought("think ", None),
            thought("hard", None),
            thought("", Some("sig")),
            thought("again", None),
            Chunk::Text("Two ".into()),
            Chunk::Text("calls.".into()),
            call(1, "c1", "write", "{\"path\":"),
            call(0, "c0", "read", ""),
            call(1, "", "", "\"/a\"}"),
            call(0, "c0", "read", ""),
            Chunk::Usage(Usage::default()),
            Chunk::Usage(Usage {
                input: 3,
                ..Usage::default()
            }),
            Chunk::Stop(StopReason::ToolCalls),
        ]);
        let message = reply.finish().unwrap();
        let thought = |text: &str, signature: Option<&str>| Block::Reasoning {
            text: text.into(),
            signature: signature.map(str::to_owned),
        };
        assert_eq!(
            message,
            Message {
                id: None,
                name: None,
                content: vec![
                    thought("think hard", Some("sig")),
                    thought("again", None),
                    Block::Text("Two calls.".into()),
                ],
                body: Body::Ai(Ai {
                    tool_calls: vec![
                        ToolCall::new("c0", "read", json!({})),
                        ToolCall::new("c1", "write", json!({ "path": "/a" })),
                    ],
                    invalid_tool_calls: Vec::new(),
                    usage: Some(Usage {
                        input: 3,
                        ..Usage::default()
                    }),
                    stop_reason: Some(StopReason::ToolCalls),
                }),
            }
        );
    }

    #[test]
    fn calls_that_cannot_be_executed() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        let reply = fold([
            call(0, "c0", "ls", "{\"path\":\"/a"),
            call(1, "", "ls", "[1]"),
            call(2, "c2", "", "{}"),
            call(3, "c3", "ls", &deep),
            call(4, "c4", "ls", "{\"n\":1e999}"),
            Chunk::Stop(StopReason::ToolCalls),
        ]);
        let message = reply.finish().unwrap();
        let ai = message.as_ai().unwrap();
        let invalid = ai.invalid_tool_calls.iter();
        let invalid: Vec<_> = invalid
            .map(|call| format!("{}: {}", call.id, call.reason))
            .collect();
        assert_eq!(ai.tool_calls, []);
        insta::assert_snapshot!(invalid.join("\n"), @r"
        c0: the arguments are no JSON object: EOF while parsing a string at line 1 column 11
        call_1: the arguments are no JSON object: invalid type: sequence, expected a map at line 1 column 0
        c2: the call names no tool
        c3: the arguments are no JSON object: recursion limit exceeded at line 1 column 132
        c4: the arguments are no JSON object: number out of range at line 1 column 10
        ");
    }

    #[test]
    fn a_cut_keeps_what_came() {
        let cut = fold([Chunk::Text("Hel".into())]).finish().unwrap_err();
        let cause = ModelError::Transport("the stream ended before the reply was complete".into());
        assert_eq!(
            cut,
            ModelError::Interrupted {
                partial: Box::new(Message::ai("Hel")),
                cause: Box::new(cause.clone()),
            }
        );
        assert_eq!(fold([]).finish().unwrap_err(), cause);
    }
}
