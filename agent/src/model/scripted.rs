//! A model that reads its replies from a script.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::{StreamExt, stream};

use super::{ChatModel, Chunk, ChunkStream, ModelError, Request};
use crate::message::{Block, InvalidToolCall, Message, StopReason, ToolCall};

/// A model for tests and examples: it gives the replies of a script, in order, and records what it was asked.
///
/// ```
/// use superstep_agent::message::Message;
/// use superstep_agent::model::{Request, ScriptedModel, complete};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), superstep_agent::model::ModelError> {
/// let model = ScriptedModel::new([Message::ai("Hello.")]);
/// let request = Request::new([Message::human("Hi!").into()]);
/// assert_eq!(complete(&model, request.clone()).await?.text(), "Hello.");
/// assert_eq!(model.requests(), [request.clone()]);
/// assert!(complete(&model, request).await.is_err(), "the script is over");
/// # Ok(()) }
/// ```
///
/// The script lives in the model: a new process that takes up a thread begins it anew, so give it the replies that are left.
#[derive(Debug)]
pub struct ScriptedModel {
    name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    turns: VecDeque<Turn>,
    requests: Vec<Request>,
}

/// One reply of a script: a message, or the error the model fails with.
///
/// The message arrives as chunks, as a real one does: its tool calls are parsed again, and a missing stop reason
/// is put in. Its role is taken to be a model's, and its name stays behind: the agent gives names.
/// [`ModelError::Interrupted`] sends the chunks of its partial message, then fails with its cause.
#[derive(Clone, Debug)]
pub struct Turn(Result<Message, ModelError>);

impl From<Message> for Turn {
    fn from(message: Message) -> Self {
        Turn(Ok(message))
    }
}

impl From<ModelError> for Turn {
    fn from(error: ModelError) -> Self {
        Turn(Err(error))
    }
}

impl From<Result<Message, ModelError>> for Turn {
    fn from(turn: Result<Message, ModelError>) -> Self {
        Turn(turn)
    }
}

impl ScriptedModel {
    /// A model with this script.
    pub fn new<T: Into<Turn>>(script: impl IntoIterator<Item = T>) -> Self {
        ScriptedModel {
            name: "scripted".to_owned(),
            state: Mutex::new(State {
                turns: script.into_iter().map(Into::into).collect(),
                requests: Vec::new(),
            }),
        }
    }

    /// The same model under another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What the model was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// How many replies are left.
    pub fn remaining(&self) -> usize {
        self.state().turns.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is a single push or pop: a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ChatModel for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    async fn stream(&self, request: Request) -> Result<ChunkStream, ModelError> {
        let mut state = self.state();
        state.requests.push(request);
        let Some(Turn(turn)) = state.turns.pop_front() else {
            let asked = state.requests.len();
            return Err(ModelError::BadRequest(
                format!(
                    "the script of model `{}` has no reply to request {asked}",
                    self.name
                )
                .into(),
            ));
        };
        let (message, cause) = match turn {
            Ok(message) => (message, None),
            Err(ModelError::Interrupted { partial, cause }) => (*partial, Some(*cause)),
            Err(error) => return Err(error),
        };
        let complete = cause.is_none();
        let chunks = chunks(message, complete).into_iter().map(Ok);
        Ok(stream::iter(chunks.chain(cause.map(Err))).boxed())
    }
}

/// The chunks that a [`Reply`](super::Reply) makes this message of.
fn chunks(message: Message, complete: bool) -> Vec<Chunk> {
    let ai = message.as_ai().cloned().unwrap_or_default();
    let natural = match ai.tool_calls.is_empty() && ai.invalid_tool_calls.is_empty() {
        true => StopReason::End,
        false => StopReason::ToolCalls,
    };
    let mut chunks = Vec::from_iter(message.id.map(Chunk::Id));
    chunks.extend(content_chunks(message.content));
    chunks.extend(call_chunks(ai.tool_calls, ai.invalid_tool_calls));
    chunks.extend(ai.usage.map(Chunk::Usage));
    if complete {
        chunks.push(Chunk::Stop(ai.stop_reason.unwrap_or(natural)));
    }
    chunks
}

fn content_chunks(content: Vec<Block>) -> impl Iterator<Item = Chunk> {
    let mut before = None;
    content.into_iter().map(move |block| {
        let kind = std::mem::discriminant(&block);
        // Two texts in a row would run together as deltas.
        let merges = before.replace(kind) == Some(kind);
        match block {
            Block::Text(text) if !merges && !text.is_empty() => Chunk::Text(text),
            Block::Reasoning { text, signature } if !merges && !text.is_empty() => {
                Chunk::Reasoning { text, signature }
            }
            block => Chunk::Block(block),
        }
    })
}

fn call_chunks(calls: Vec<ToolCall>, invalid: Vec<InvalidToolCall>) -> impl Iterator<Item = Chunk> {
    let calls = calls
        .into_iter()
        .map(|call| (call.id, call.name, call.args.to_string()));
    let invalid = invalid
        .into_iter()
        .map(|call| (call.id, call.name, call.args));
    let numbered = calls.chain(invalid).enumerate();
    numbered.map(|(index, (id, name, args))| Chunk::ToolCall {
        index,
        id: Some(id),
        name: Some(name),
        args,
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;
    use superstep_channels::Json;

    use super::*;
    use crate::message::{Ai, Body, Usage};
    use crate::model::{Reply, complete};

    fn block() -> impl Strategy<Value = Block> {
        let reasoning = ("[a-c]{0,2}", proptest::option::of("[s-t]{0,1}"));
        prop_oneof![
            "[a-c]{0,2}".prop_map(Block::Text),
            reasoning.prop_map(|(text, signature)| Block::Reasoning { text, signature }),
            Just(Block::Other(Json(json!({ "type": "x" })))),
        ]
    }

    fn reply() -> impl Strategy<Value = Message> {
        let call = ("[a-c]{1,2}", "[a-c]{1,2}", 0..9)
            .prop_map(|(id, name, n)| ToolCall::new(id, name, json!({ "n": n })));
        let usage = (0u64..9).prop_map(|input| Usage {
            input,
            ..Usage::default()
        });
        let parts = (
            proptest::option::of("[a-c]{1,2}"),
            vec(block(), 0..5),
            vec(call, 0..3),
            proptest::option::of(usage),
        );
        parts.prop_map(|(id, content, tool_calls, usage)| Message {
            id,
            name: None,
            content,
            body: Body::Ai(Ai {
                tool_calls,
                usage,
                stop_reason: Some(StopReason::Length),
                ..Ai::default()
            }),
        })
    }

    proptest! {
        #[test]
        fn chunks_give_the_message_back(message in reply()) {
            let mut reply = Reply::new();
            chunks(message.clone(), true).into_iter().for_each(|chunk| reply.push(chunk));
            prop_assert_eq!(reply.finish(), Ok(message));
        }
    }

    #[tokio::test]
    async fn a_script_of_everything() {
        let refused = ModelError::Refused("no".into());
        let cut = ModelError::Interrupted {
            partial: Box::new(Message::ai("Hel")),
            cause: Box::new(ModelError::Timeout("slow".into())),
        };
        let call = Message::ai_calls("", [ToolCall::new("c", "ls", json!({}))]);
        let model = ScriptedModel::new([Ok(call), Err(refused.clone()), Err(cut.clone())]);
        let ask = async || complete(&model, Request::default()).await;
        let first = ask().await.unwrap();
        assert_eq!(
            first.as_ai().unwrap().stop_reason,
            Some(StopReason::ToolCalls)
        );
        assert_eq!(ask().await, Err(refused));
        assert_eq!(ask().await, Err(cut));
        assert_eq!(model.remaining(), 0);
        assert_eq!(
            ask().await.unwrap_err().to_string(),
            "bad request: the script of model `scripted` has no reply to request 4"
        );
        assert_eq!(model.requests().len(), 4);
    }
}
