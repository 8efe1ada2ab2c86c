//! Agents that work for an agent.

use schemars::JsonSchema;
use serde::Deserialize;
use superstep::RunError;

use super::{Agent, says};
use crate::tool::{Tool, ToolContext, ToolError, ToolResult};

/// An agent that another agent can hand work to.
#[derive(Clone, Debug)]
pub struct Subagent {
    /// What the model calls it by.
    pub name: String,
    /// What it is good for, as the model reads it.
    pub description: String,
    /// The agent.
    pub agent: Agent,
}

#[derive(Deserialize, JsonSchema)]
struct TaskArgs {
    /// What the subagent is to do. It sees nothing else of this conversation, so say all it needs to know,
    /// and what its answer must contain.
    description: String,
    /// Which subagent.
    subagent_type: String,
}

/// The tool `task`: runs a subagent and gives back the last thing it says.
///
/// The run is a graph nested in the call's own task, with checkpoints of its own: killed in the middle it goes on there,
/// and when it asks, the whole run pauses. Several calls in one turn run side by side.
pub fn task_tool(subagents: impl IntoIterator<Item = Subagent>) -> Tool {
    let subagents: Vec<Subagent> = subagents.into_iter().collect();
    let list = subagents
        .iter()
        .map(|subagent| format!("\n- `{}`: {}", subagent.name, subagent.description));
    let description = format!(
        "Hands a piece of work to a subagent, which works on its own and answers once. \
         Call it several times in one turn to let several work side by side. Subagents:{}",
        list.collect::<String>()
    );
    Tool::new("task", description, move |args: TaskArgs, cx| {
        let found = subagents
            .iter()
            .find(|subagent| subagent.name == args.subagent_type);
        let found = found.map(|subagent| subagent.agent.clone()).ok_or_else(|| {
            let known: Vec<&str> = subagents
                .iter()
                .map(|subagent| subagent.name.as_str())
                .collect();
            format!(
                "there is no subagent `{}`; there are: {}",
                args.subagent_type,
                known.join(", ")
            )
        });
        run(found, args.description, cx)
    })
}

async fn run(agent: Result<Agent, String>, work: String, cx: ToolContext) -> ToolResult {
    let conversation = cx.run(&agent?, says(work)).await.map_err(failed)?;
    let answer = conversation
        .last_text()
        .filter(|text| !text.trim().is_empty());
    Ok(answer.ok_or("the subagent ended without an answer")?.into())
}

/// What the subagent itself did wrong is told to the model; what happened to the thread fails the run.
fn failed(error: RunError) -> ToolError {
    match error {
        RunError::Tasks(_) | RunError::Limit { .. } => error.into(),
        error => ToolError::fatal(error),
    }
}
