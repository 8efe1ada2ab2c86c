//! The rule that changes a conversation.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Message;

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
/// - A message without an id goes to the end and gets one, made from its place.
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

fn put(messages: &mut Vec<Arc<Message>>, mut message: Arc<Message>) {
    let Some(id) = message.id.as_deref() else {
        Arc::make_mut(&mut message).id = Some(free_id(messages));
        return messages.push(message);
    };
    match position(messages, id).and_then(|at| messages.get_mut(at)) {
        Some(place) => *place = message,
        None => messages.push(message),
    }
}

/// An id that no message has. It depends on the list alone, so the list comes back the same from its stored changes.
fn free_id(messages: &[Arc<Message>]) -> String {
    let mut number = messages.len();
    loop {
        let id = format!("message-{number}");
        if position(messages, &id).is_none() {
            return id;
        }
        number += 1;
    }
}

fn position(messages: &[Arc<Message>], id: &str) -> Option<usize> {
    messages
        .iter()
        .position(|message| message.id.as_deref() == Some(id))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn fold(changes: impl IntoIterator<Item = Change>) -> Vec<Arc<Message>> {
        let mut messages = Vec::new();
        add_messages(&mut messages, changes.into_iter().collect());
        messages
    }

    fn put(id: &str, text: &str) -> Change {
        Message::human(text).with_id(id).into()
    }

    fn remove(id: &str) -> Change {
        Change::Remove(id.into())
    }

    fn texts(messages: &[Arc<Message>]) -> Vec<String> {
        messages
            .iter()
            .map(|message| message.text().into_owned())
            .collect()
    }

    #[test]
    fn puts_replace_in_place_or_append() {
        let changes = [
            put("a", "1"),
            put("b", "2"),
            put("a", "3"),
            Message::human("4").into(),
        ];
        assert_eq!(texts(&fold(changes)), ["3", "2", "4"]);
    }

    #[test]
    fn messages_without_an_id_are_never_the_same() {
        let message = Change::from(Message::human("x"));
        assert_eq!(texts(&fold([message.clone(), message])), ["x", "x"]);
    }

    #[test]
    fn removals() {
        let changes = [
            put("a", "1"),
            put("b", "2"),
            remove("a"),
            remove("gone"),
            put("a", "3"),
        ];
        assert_eq!(texts(&fold(changes)), ["2", "3"]);
        assert_eq!(
            texts(&fold([put("a", "1"), Change::RemoveAll, put("b", "2")])),
            ["2"]
        );
    }

    fn change() -> impl Strategy<Value = Change> {
        let message = (proptest::option::of("[a-d]"), "[x-z]").prop_map(|(id, text)| {
            let mut message = Message::human(text);
            message.id = id;
            message.into()
        });
        prop_oneof![
            8 => message,
            3 => "[a-d]".prop_map(Change::Remove),
            1 => Just(Change::RemoveAll),
        ]
    }

    proptest! {
        #[test]
        fn batches_do_not_matter(
            start in vec(change(), 0..8),
            a in vec(change(), 0..8),
            b in vec(change(), 0..8),
        ) {
            let start = fold(start);
            let mut apart = start.clone();
            add_messages(&mut apart, a.clone());
            add_messages(&mut apart, b.clone());
            let mut together = start;
            add_messages(&mut together, [a, b].concat());
            prop_assert_eq!(apart, together);
        }

        #[test]
        fn ids_stay_unique(changes in vec(change(), 0..24)) {
            let messages = fold(changes);
            let mut ids: Vec<_> = messages.iter().filter_map(|message| message.id.clone()).collect();
            let all = ids.len();
            ids.sort();
            ids.dedup();
            prop_assert_eq!(ids.len(), all);
        }
    }

    #[test]
    fn a_message_without_an_id_gets_a_free_one() {
        let taken = Message::human("b").with_id("message-1");
        let changes = [
            Message::human("a"),
            taken,
            Message::human("c"),
            Message::human("d"),
        ];
        let messages = fold(changes.map(Change::from));
        let ids: Vec<_> = messages
            .iter()
            .filter_map(|message| message.id.as_deref())
            .collect();
        assert_eq!(ids, ["message-0", "message-1", "message-2", "message-3"]);
        let mut changes: Vec<Change> = messages.iter().cloned().map(Change::from).collect();
        changes.extend([
            Change::Remove("message-0".into()),
            Message::human("e").into(),
        ]);
        assert_eq!(
            fold(changes)
                .last()
                .and_then(|last| last.id.clone())
                .as_deref(),
            Some("message-4")
        );
    }
}
