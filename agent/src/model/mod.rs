//! Language models: the trait, what goes in, what comes out.
//!
//! A [`ChatModel`] turns a [`Request`] into a stream of [`Chunk`]s; a [`Reply`] folds the chunks into a
//! [`Message`], and [`complete`] does both for callers that do not stream.

mod error;
#[cfg(feature = "openai")]
mod openai;
mod reply;
mod retry;
mod scripted;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::message::{Block, Message, StopReason, Usage};

pub use error::{Excerpt, ModelError};
#[cfg(feature = "openai")]
pub use openai::{OpenAi, Timeouts};
pub use reply::Reply;
pub use retry::{Retry, Retrying};
pub use scripted::{ScriptedModel, Turn};

/// A language model that can hold a conversation.
#[async_trait]
pub trait ChatModel: Send + Sync + fmt::Debug {
    /// The model's name, as it stands in traces and settings.
    fn name(&self) -> &str;

    /// Starts a reply.
    ///
    /// A complete reply has a [`Chunk::Stop`]; a stream that ends without one was cut off.
    /// After an error the stream ends. Dropping the stream gives the reply up.
    async fn stream(&self, request: Request) -> Result<ChunkStream, ModelError>;
}

/// A shared model is a model.
#[async_trait]
impl<M: ChatModel + ?Sized> ChatModel for Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn stream(&self, request: Request) -> Result<ChunkStream, ModelError> {
        (**self).stream(request).await
    }
}

/// The pieces of a reply as they arrive.
pub type ChunkStream = BoxStream<'static, Result<Chunk, ModelError>>;

/// What a model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The conversation, system messages included.
    pub messages: Vec<Arc<Message>>,
    /// The tools the model may call.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Whether it must.
    pub tool_choice: ToolChoice,
    /// The shape that the text of the reply must have.
    pub format: Option<Format>,
    /// Settings for this request; what is absent is up to the model.
    pub settings: Settings,
}

impl Request {
    /// A conversation and nothing else.
    pub fn new(messages: impl IntoIterator<Item = Arc<Message>>) -> Self {
        Request {
            messages: messages.into_iter().collect(),
            ..Request::default()
        }
    }
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// What the model calls it by.
    pub name: String,
    /// What it is for and how to use it.
    pub description: String,
    /// A JSON Schema of the arguments: an object.
    pub parameters: serde_json::Value,
}

/// Whether a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It calls at least one.
    Required,
    /// It calls none.
    None,
}

/// A shape for the text of a reply, for providers that can guarantee it.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// A name for the shape: letters, digits, `_` and `-`.
    pub name: String,
    /// A JSON Schema of the text.
    pub schema: serde_json::Value,
    /// Whether the provider must enforce the schema, and may refuse schemas that it cannot enforce.
    pub strict: bool,
}

/// How a model writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    /// How adventurous the choice of words is.
    pub temperature: Option<f64>,
    /// The most tokens that a reply may have.
    pub max_tokens: Option<u32>,
}

impl Settings {
    /// These settings, and `fallback`'s where they say nothing.
    #[must_use]
    pub fn or(self, fallback: Settings) -> Settings {
        Settings {
            temperature: self.temperature.or(fallback.temperature),
            max_tokens: self.max_tokens.or(fallback.max_tokens),
        }
    }
}

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Chunk {
    /// The id of the message, from sources whose ids are unique in a conversation.
    Id(String),
    /// More text.
    Text(String),
    /// More of a thought.
    Reasoning {
        /// What is added to the thought.
        text: String,
        /// The signature, once, which ends the thought.
        signature: Option<String>,
    },
    /// A block that comes in one piece.
    Block(Block),
    /// More of a tool call.
    ToolCall {
        /// Which of the reply's calls; the calls of a reply are sorted by it.
        index: usize,
        /// The call's id, in one of its pieces.
        id: Option<String>,
        /// The tool's name, in one of its pieces.
        name: Option<String>,
        /// What is added to the JSON text of the arguments.
        args: String,
    },
    /// What the reply cost so far; the last one counts.
    Usage(Usage),
    /// The reply is complete; nothing follows.
    Stop(StopReason),
}

/// Asks a model and waits for the whole reply.
///
/// When the stream fails after part of a reply came, that part is in [`ModelError::Interrupted`].
pub async fn complete(model: &dyn ChatModel, request: Request) -> Result<Message, ModelError> {
    let mut chunks = model.stream(request).await?;
    let mut reply = Reply::new();
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) => reply.push(chunk),
            Err(error) => return Err(reply.interrupted(error)),
        }
    }
    reply.finish()
}
