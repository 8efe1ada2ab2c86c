//! Around the model.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use superstep::{Context, NodeError, Update};

use crate::agent::AgentState;
use crate::message::{Body, Message};
use crate::model::{ChatModel, Request, complete};

/// A layer around each model call.
#[async_trait]
pub trait WrapModelCall: Send + Sync + fmt::Debug {
    /// Calls `next` once, several times or not at all, and returns what the agent takes for the reply.
    async fn wrap(&self, call: ModelCall, next: NextModel<'_>) -> Result<ModelReply, NodeError>;
}

/// A model call on its way through the layers.
#[derive(Clone, Debug)]
pub struct ModelCall {
    /// What the model is asked. The transcript in the state stays as it is, whatever a layer makes of this.
    pub request: Request,
    /// The agent's state.
    pub state: AgentState,
    /// The run.
    pub cx: Context,
}

impl ModelCall {
    /// Adds a paragraph to the system message, or makes one.
    pub fn add_system_text(&mut self, text: &str) {
        let messages = &mut self.request.messages;
        match messages.first_mut() {
            Some(first) if matches!(first.body, Body::System) => {
                let joined = format!("{}\n\n{text}", first.text());
                *first = Arc::new(Message::system(joined));
            }
            _ => messages.insert(0, Arc::new(Message::system(text))),
        }
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct ModelReply {
    /// The reply.
    pub message: Message,
    /// Further writes to the agent's state; they come after the message.
    pub update: Update,
}

impl From<Message> for ModelReply {
    fn from(message: Message) -> Self {
        ModelReply {
            message,
            update: Update::new(),
        }
    }
}

/// The layers further in, and the model.
#[derive(Clone, Copy, Debug)]
pub struct NextModel<'a> {
    pub(crate) layers: &'a [Arc<dyn WrapModelCall>],
    pub(crate) model: &'a dyn ChatModel,
}

impl NextModel<'_> {
    /// Hands the call on.
    pub async fn run(self, call: ModelCall) -> Result<ModelReply, NodeError> {
        match self.layers {
            [] => Ok(complete(self.model, call.request).await?.into()),
            [first, layers @ ..] => first.wrap(call, NextModel { layers, ..self }).await,
        }
    }
}
