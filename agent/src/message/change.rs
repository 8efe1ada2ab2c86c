//! The channel of a conversation and the rule that changes it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use superstep_channels::Key;

use super::Message;

/// The conversation of an agent.
pub const MESSAGES: Key<Vec<Arc<Message>>, Vec<Change>> = Key::delta("messages", add_messages);

/// One change to a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Puts the message in the place of the one with its id, or at the end.
    Put(Arc<Message>),
    /// Takes out the message with this id.
    Remove(String),
    /// Takes out every message.
    RemoveAll,
}

impl From<Message> for Change {
    fn from(message: Message) -> Self {
        Change::Put(Arc::new(message))
    }
}

impl From<Arc<Message>> for Change {
    fn from(message: Arc<Message>) -> Self {
        Change::Put(message)
    }
}

/// The reducer of a conversation: applies the changes one after the other.
///
/// - A message without an id goes to the end; the reducer never invents an id.
/// - Removing an id that is not there does nothing: two parallel nodes may remove the same message.
/// - Changes may be split into batches at will: the result is the same.
pub fn add_messages(messages: &mut Vec<Arc<Message>>, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Put(message) => put(messages, message),
            Change::Remove(id) => {
                if let Some(at) = position(messages, &id) {
                    messages.remove(at);
                }
            }
            Change::RemoveAll => messages.clear(),
        }
    }
}

fn put(messages: &mut Vec<Arc<Message>>, message: Arc<Message>) {
    let known = message.id.as_deref().and_then(|id| position(messages, id));
    match known.and_then(|at| messages.get_mut(at)) {
        Some(place) => *place = message,
        None => messages.push(message),
    }
}

fn position(messages: &[Arc<Message>], id: &str) -> Option<usize> {
    messages
        .iter()
        .position(|message| message.id.as_deref() == Some(id))
}
