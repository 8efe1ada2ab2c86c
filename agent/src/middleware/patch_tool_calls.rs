//! Answers for tool calls that never got one.

use std::collections::HashSet;
use std::sync::Arc;

use superstep::{Context, NodeResult, Update};

use super::Middleware;
use crate::agent::AgentState;
use crate::message::{Change, MESSAGES, Message};

/// Answers tool calls that were left open when new input came in, since providers refuse a transcript with open calls.
/// Each open call gets an error message right behind the reply that made it.
pub fn patch_tool_calls() -> Middleware {
    Middleware::new("patch_tool_calls").before_agent(before_agent)
}

async fn before_agent(state: AgentState, _: Context) -> NodeResult {
    Ok(match patched(&state.messages) {
        None => Update::new(),
        Some(messages) => {
            let puts = messages.into_iter().map(Change::Put);
            Update::new().put(
                MESSAGES,
                std::iter::once(Change::RemoveAll).chain(puts).collect(),
            )
        }
    })
}

/// The transcript with every call answered, or nothing if it is so already.
fn patched(messages: &[Arc<Message>]) -> Option<Vec<Arc<Message>>> {
    let results = messages.iter().filter_map(|message| message.as_tool());
    let answered: HashSet<&str> = results.map(|result| result.call_id.as_str()).collect();
    let mut patched = Vec::with_capacity(messages.len());
    for message in messages {
        patched.push(Arc::clone(message));
        for call in message.tool_calls() {
            if !answered.contains(call.id.as_str()) {
                let text = format!("`{}` was not run: other input came in first", call.name);
                let answer = Message::tool_error(&call.id, text).with_name(&call.name);
                patched.push(Arc::new(answer.with_id(format!("unanswered-{}", call.id))));
            }
        }
    }
    (patched.len() > messages.len()).then_some(patched)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::ToolCall;

    #[test]
    fn only_open_calls_are_answered() {
        let calls = ["a", "b"].map(|id| ToolCall::new(id, "ls", json!({})));
        let transcript: Vec<Arc<Message>> = [
            Message::human("look"),
            Message::ai_calls("", calls),
            Message::tool("b", "seen"),
            Message::human("never mind"),
        ]
        .map(Arc::new)
        .into();
        let shown = patched(&transcript).unwrap();
        let texts: Vec<_> = shown
            .iter()
            .map(|message| message.text().into_owned())
            .collect();
        let note = "`ls` was not run: other input came in first";
        assert_eq!(texts, ["look", "", note, "seen", "never mind"]);
        assert_eq!(patched(&shown), None);
    }
}
