//! Agents that work for an agent.

use schemars::JsonSchema;
use serde::Deserialize;
use superstep::{RunError, TaskError};

use super::{Agent, Conversation, says};
use crate::model::ModelError;
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
///
/// The calling model is told when the subagent's model fails or the subagent reaches the limit of the run;
/// what else fails in it fails the whole run.
pub(super) fn task_tool(subagents: Vec<Subagent>) -> Tool {
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
    let answer = answer(&conversation);
    Ok(answer.ok_or("the subagent ended without an answer")?.into())
}

/// The last text of the subagent: some models say all there is to say before their last tool call.
fn answer(conversation: &Conversation) -> Option<String> {
    let said = conversation.messages.iter().rev();
    let said = said.filter(|message| message.as_ai().is_some());
    let mut texts = said.map(|message| message.text().trim_end().to_owned());
    texts.find(|text| !text.is_empty())
}

fn failed(error: RunError) -> ToolError {
    match is_told(&error) {
        true => error.into(),
        false => ToolError::fatal(error),
    }
}

/// Whether the model that handed out the work is told, so that it can do without. Everything else fails its run too,
/// to be taken up where the subagent stands: fatal errors of tools, answers that do not fit, what happens to the thread.
fn is_told(error: &RunError) -> bool {
    match error {
        RunError::Limit { .. } => true,
        RunError::Tasks(failures) => failures.iter().all(|failure| match &failure.error {
            TaskError::Node(error) => error.get_ref().is::<ModelError>(),
            _ => false,
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use superstep::channels::Name;
    use superstep::checkpoint::{SaveError, TaskId};
    use superstep::{Failure, NodeError};

    use super::*;

    fn tasks(errors: impl IntoIterator<Item = TaskError>) -> RunError {
        let failures = errors.into_iter().map(|error| Failure {
            node: Name::Borrowed("n"),
            task: TaskId([0; 16]),
            error,
        });
        RunError::Tasks(failures.collect())
    }

    fn node(error: impl Into<NodeError>) -> TaskError {
        TaskError::Node(error.into())
    }

    #[test]
    fn only_what_the_calling_model_can_do_without_is_told() {
        let model = || node(ModelError::Timeout("slow".into()));
        let locked = || {
            let what = "the file".into();
            RunError::Save(SaveError::Locked { what })
        };
        let limit = RunError::Limit {
            limit: 3,
            next: vec!["model".into()],
        };
        let panicked = TaskError::Panicked("oh".into());
        let cases = [
            (limit, true),
            (tasks([model()]), true),
            (tasks([model(), node("the disk is full")]), false),
            (tasks([panicked]), false),
            (locked(), false),
            (tasks([node(locked())]), false),
        ];
        for (error, told) in cases {
            assert_eq!(is_told(&error), told, "{error}");
        }
    }
}
