//! A model that needs no key: it plans the survey of a directory by rules.
//!
//! The [`Planner`] sees what any model sees, the conversation and the tools, and answers with
//! text or tool calls. It reads the texts of the tools; it has no access to files, and no memory
//! beside the conversation. It plays two roles, told apart by the tools on offer:
//!
//! - With the tool `task` it coordinates: it looks at the root, hands each part of the tree to a
//!   subagent, all in one turn, and writes the report from what they answer.
//! - Without it surveys: it searches the part that the last human message names, and answers
//!   with a sheet of facts.
//!
//! Each turn goes through the whole plan from the start. A question that the conversation has
//! answered gives its answer; the others become the tool calls of this turn. So a run that is
//! resumed, or replayed, goes on as it would have.

mod about;
mod call;
mod coordinator;
mod desk;
mod language;
mod markdown;
mod report;
mod result;
mod scope;
mod search;
mod sheet;
mod stream;
mod survey;
mod surveyor;

use async_trait::async_trait;
use futures::{StreamExt, stream::iter};
use superstep_agent::model::{ChatModel, ChunkStream, ModelError, Request, ToolChoice};

use call::Call;
use desk::Desk;

/// A model that surveys a directory by rules and writes a report on it.
///
/// The same conversation gives the same reply. Every conversation comes to an end: after at most
/// twelve turns the planner answers with text, whatever the tools gave.
///
/// ```
/// use superstep_agent::message::Message;
/// use superstep_agent::model::{Request, complete};
/// use superstep_examples::planner::Planner;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), superstep_agent::model::ModelError> {
/// let reply = complete(&Planner, Request::new([Message::human("Survey it.").into()])).await?;
/// assert_eq!(reply.text(), "I need the tool `glob`, and may not call it.");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Planner;

#[async_trait]
impl ChatModel for Planner {
    fn name(&self) -> &str {
        "planner"
    }

    async fn stream(&self, request: Request) -> Result<ChunkStream, ModelError> {
        let chunks = stream::chunks(&request, reply(&request));
        Ok(iter(chunks.into_iter().map(Ok)).boxed())
    }
}

/// What the planner does in one turn.
#[derive(Debug)]
enum Reply {
    Text(String),
    Calls(Vec<Call>),
}

fn reply(request: &Request) -> Reply {
    let mut desk = Desk::new(&request.messages);
    let text = match offers(request, "task") {
        true => coordinator::work(&mut desk),
        false => surveyor::work(&mut desk),
    };
    let calls = desk.into_wishes();
    match calls.iter().find(|call| !may_call(request, call.name)) {
        Some(call) => Reply::Text(format!(
            "I need the tool `{}`, and may not call it.",
            call.name
        )),
        None if calls.is_empty() => Reply::Text(text),
        None => Reply::Calls(calls),
    }
}

fn may_call(request: &Request, tool: &str) -> bool {
    request.tool_choice != ToolChoice::None && offers(request, tool)
}

fn offers(request: &Request, tool: &str) -> bool {
    request.tools.iter().any(|spec| spec.name == tool)
}
