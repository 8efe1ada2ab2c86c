//! Answers for tool calls that never got one.

use std::collections::HashSet;
use std::sync::Arc;

use superstep::checkpoint::TaskId;
use superstep::{Context, NodeResult, Update};

use super::Middleware;
use crate::agent::{AgentState, Conversation};
use crate::message::{Change, Message, ToolCall};

/// Answers tool calls that were left open when new input came in, since providers refuse a transcript with open calls.
/// Each open call gets an error message right behind the reply that made it.
///
/// The call may have run: a result that waited for other calls of its turn is dropped with them. The model is told so.
pub fn patch_tool_calls() -> Middleware {
    Middleware::new("patch_tool_calls").before_agent(before_agent)
}

async fn before_agent(state: AgentState, cx: Context) -> NodeResult {
    Ok(match patched(&state.messages, cx.task()) {
        None => Update::new(),
        Some(messages) => {
            let puts = messages.into_iter().map(Change::Put);
            Update::new().put(
                Conversation::MESSAGES,
                std::iter::once(Change::RemoveAll).chain(puts).collect(),
            )
        }
    })
}

/// The transcript with every call answered, or nothing if it is so already.
/// The answers' ids are made of `task`, since a call's id may come again in another turn.
fn patched(messages: &[Arc<Message>], task: TaskId) -> Option<Vec<Arc<Message>>> {
    let mut patched = Vec::with_capacity(messages.len());
    let mut rest = messages;
    while let [message, after @ ..] = rest {
        patched.push(Arc::clone(message));
        let answered = answered(after);
        for call in message.tool_calls() {
            if !answered.contains(call.id.as_str()) {
                let id = format!("unanswered-{task}-{}", patched.len());
                patched.push(Arc::new(unanswered(call).with_id(id)));
            }
        }
        rest = after;
    }
    (patched.len() > messages.len()).then_some(patched)
}

/// The calls of a reply that are answered behind it, before the next reply.
fn answered(after: &[Arc<Message>]) -> HashSet<&str> {
    let turn = after.iter().take_while(|message| message.as_ai().is_none());
    let results = turn.filter_map(|message| message.as_tool());
    results.map(|result| result.call_id.as_str()).collect()
}

fn unanswered(call: &ToolCall) -> Message {
    let name = &call.name;
    let text = format!("other input came in before `{name}` had a result; it may have run");
    Message::tool_error(&call.id, text).with_name(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(messages: &[Arc<Message>]) -> Vec<String> {
        let texts = messages.iter().map(|message| message.text().into_owned());
        texts.collect()
    }

    #[test]
    fn only_open_calls_are_answered() {
        let calls = || ["a", "b"].map(|id| ToolCall::new(id, "ls", json!({})));
        let transcript: Vec<Arc<Message>> = [
            Message::human("look"),
            Message::ai_calls("1", calls()),
            Message::tool("b", "seen"),
            Message::human("again"),
            Message::ai_calls("2", calls()),
            Message::tool("a", "seen"),
            Message::human("never mind"),
        ]
        .map(Arc::new)
        .into();
        let shown = patched(&transcript, TaskId([0; 16])).unwrap();
        let note = "other input came in before `ls` had a result; it may have run";
        let first = ["look", "1", note, "seen", "again"];
        let second = ["2", note, "seen", "never mind"];
        assert_eq!(texts(&shown), [&first[..], &second].concat());
        let ids: HashSet<_> = shown
            .iter()
            .filter_map(|message| message.id.as_ref())
            .collect();
        assert_eq!(ids.len(), 2);
        assert_eq!(patched(&shown, TaskId([1; 16])), None);
    }
}
