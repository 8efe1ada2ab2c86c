//! An agent: a model and its tools, compiled to a graph.

mod build;
mod nodes;
mod subagent;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use superstep::channels::{Name, Type, Value};
use superstep::{Fields, Graph, Input, ReadError, Reads, Schema, State, Update, View};

use crate::message::{Change, Message, add_messages};

pub use build::{AgentBuilder, AgentError, create_agent};
pub use subagent::Subagent;

/// A built agent: a graph whose threads are conversations.
pub type Agent = Graph<Conversation>;

/// What callers see of an agent's state.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Conversation {
    /// The transcript. It only grows.
    #[delta(add_messages, update = Vec<Change>)]
    pub messages: Vec<Arc<Message>>,
}

impl Conversation {
    /// The last thing the agent said.
    pub fn last_text(&self) -> Option<String> {
        let said = self
            .messages
            .iter()
            .rev()
            .find(|message| message.as_ai().is_some());
        said.map(|message| message.text().into_owned())
    }
}

/// Input for an agent's thread: what a person says next.
///
/// ```
/// # async fn demo(agent: superstep_agent::agent::Agent) -> Result<(), superstep::RunError> {
/// use superstep_agent::agent::says;
///
/// let outcome = agent.detached().start(says("What is in here?")).await?;
/// # Ok(())
/// # }
/// ```
pub fn says(text: impl Into<String>) -> Update {
    Update::new().put(
        Conversation::MESSAGES,
        vec![Change::Put(Arc::new(Message::human(text)))],
    )
}

/// What hooks see of an agent's state: the transcript, and the channels that middleware brought along.
#[derive(Clone, Debug)]
pub struct AgentState {
    /// The transcript.
    pub messages: Vec<Arc<Message>>,
    fields: Fields,
}

impl AgentState {
    /// All channels of the agent that hold something.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }
}

impl Input for AgentState {
    fn schema() -> Schema {
        Schema::All
    }

    fn read(view: &View<'_>) -> Result<Self, ReadError> {
        Ok(AgentState {
            messages: view.get_or_default(Conversation::MESSAGES)?,
            fields: view.fields().clone(),
        })
    }

    fn payload_type() -> Type {
        Type::of::<()>()
    }

    fn from_payload(_: Value, node: &Name) -> Result<Self, ReadError> {
        Err(ReadError::Type {
            what: node.clone(),
            expected: "the agent's state".into(),
            found: "a payload".into(),
        })
    }
}

impl Reads for AgentState {}
