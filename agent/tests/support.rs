//! What the tests of agents share.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use superstep::{Ask, Event, Modes, Outcome, RunBuilder, RunError, TaskError};
use superstep_agent::agent::Conversation;
use superstep_agent::message::{Ai, Body, InvalidToolCall, Message, ToolCall, ToolStatus};
use superstep_agent::model::{ModelError, Request, ScriptedModel, Turn};
use superstep_agent::tool::{Tool, ToolContext};
use superstep_checkpoint::{Checkpointer, Loaded, Place, SqliteCheckpointer, StoredTask};

/// A model with this script, to be looked at afterwards.
pub(crate) fn scripted<T: Into<Turn>>(script: impl IntoIterator<Item = T>) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::new(script))
}

/// A reply that calls these tools without arguments; each call's id is the tool's name and its place.
pub(crate) fn calls<const N: usize>(tools: [&str; N]) -> Message {
    let calls = tools.into_iter().enumerate();
    Message::ai_calls(
        "",
        calls.map(|(at, tool)| ToolCall::new(format!("{tool}-{at}"), tool, json!({}))),
    )
}

/// A reply with one call of `tool` that cannot be read, besides those of `message`.
pub(crate) fn garbled(mut message: Message, tool: &str) -> Message {
    let invalid = InvalidToolCall {
        id: format!("{tool}-x"),
        name: tool.into(),
        args: "{".into(),
        reason: "cut".into(),
    };
    let ai = message.as_ai().unwrap().clone();
    message.body = Body::Ai(Ai {
        invalid_tool_calls: vec![invalid],
        ..ai
    });
    message
}

/// A conversation, one line a message: who says what, and which tools are called.
pub(crate) fn lines(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| line(message)).collect()
}

fn line(message: &Message) -> String {
    let text = message.text();
    match &message.body {
        Body::System => format!("system: {text}"),
        Body::Human => format!("human: {text}"),
        Body::Ai(ai) => {
            let calls = ai.tool_calls.iter();
            let calls: Vec<_> = calls
                .map(|call| format!("{}{}", call.name, call.args))
                .collect();
            format!("ai: {text}{}", calls.join(" "))
        }
        Body::Tool(result) => match result.status {
            ToolStatus::Ok => format!("{}: {text}", result.call_id),
            ToolStatus::Error => format!("{} failed: {text}", result.call_id),
        },
    }
}

/// What each request showed the model.
pub(crate) fn shown(requests: &[Request]) -> Vec<Vec<String>> {
    requests
        .iter()
        .map(|request| lines(&request.messages))
        .collect()
}

/// The transcript of a run that ended.
pub(crate) fn transcript(outcome: Result<Outcome<Conversation>, RunError>) -> Vec<String> {
    match outcome {
        Ok(Outcome::Done(state)) => lines(&state.messages),
        other => panic!("the run did not end: {other:?}"),
    }
}

/// The questions of a run that pauses.
pub(crate) fn asks(outcome: Result<Outcome<Conversation>, RunError>) -> Vec<Ask> {
    match outcome {
        Ok(Outcome::Paused(asks)) => asks,
        other => panic!("the run did not pause: {other:?}"),
    }
}

/// What the only failed task of a run returned, as the node's own type.
pub(crate) fn model_error(outcome: Result<Outcome<Conversation>, RunError>) -> ModelError {
    let Err(RunError::Tasks(failures)) = outcome else {
        panic!("no task failed: {outcome:?}")
    };
    match &failures[..] {
        [failure] => match &failure.error {
            TaskError::Node(error) => error.get_ref().downcast_ref::<ModelError>().cloned(),
            _ => None,
        },
        _ => None,
    }
    .unwrap_or_else(|| panic!("not one model error: {failures:?}"))
}

/// Runs and gives the tasks of all graphs as they began and ended, each with its namespace.
pub(crate) async fn watch(
    run: RunBuilder<Conversation>,
) -> (
    Vec<(Arc<str>, String)>,
    Result<Outcome<Conversation>, RunError>,
) {
    let mut stream = run.stream_nested(Modes::TASKS);
    let mut seen = Vec::new();
    while let Some(part) = stream.next().await {
        let what = match part.event {
            Event::TaskStarted { node, .. } => format!("{node} starts"),
            Event::TaskEnded { node, asks, .. } if !asks.is_empty() => format!("{node} asks"),
            Event::TaskEnded {
                node,
                error: Some(_),
                ..
            } => format!("{node} fails"),
            Event::TaskEnded { node, .. } => format!("{node} ends"),
            other => panic!("{other:?}"),
        };
        seen.push((part.namespace, what));
    }
    (seen, stream.outcome().await)
}

/// No arguments.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// What happened, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A tool without arguments that logs its name and says `NAME done`.
pub(crate) fn noting(name: &'static str, log: &Log) -> Tool {
    let log = log.clone();
    Tool::new(name, "Does it.", move |_: Nothing, _| {
        log.add(name);
        async move { Ok(format!("{name} done").into()) }
    })
}

/// Notes in a file what happened, so that it can be counted over several processes.
pub(crate) fn entered(folder: &Path, what: &str) {
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true);
    let mut file = options.open(folder.join("entered")).unwrap();
    writeln!(file, "{what}").unwrap();
}

/// What [`entered`] noted, sorted.
pub(crate) fn entries(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("entered")).unwrap();
    let mut entries: Vec<String> = text.lines().map(str::to_owned).collect();
    entries.sort();
    entries
}

/// Waits, within a task, until the result of a sibling is saved.
pub(crate) async fn until_one_is_saved(folder: &Path, cx: &ToolContext) {
    let place = Place {
        namespace: cx.namespace().into(),
        ..Place::root(cx.thread())
    };
    let store = open(folder);
    while store
        .load(&place, None)
        .await
        .unwrap()
        .is_none_or(|loaded| loaded.pending.is_empty())
    {
        tokio::task::yield_now().await;
    }
}

/// Opens the checkpoints in a folder; every call opens the file anew.
pub(crate) fn open(folder: &Path) -> SqliteCheckpointer {
    SqliteCheckpointer::open(folder.join("threads.db")).unwrap()
}

/// All that is stored in a place, checkpoint by checkpoint.
pub(crate) async fn dump(
    store: &SqliteCheckpointer,
    place: &Place,
) -> Vec<(Loaded, Vec<StoredTask>, Vec<(String, Vec<u8>)>)> {
    let mut dump = Vec::new();
    for listed in store.list(place, None, usize::MAX).await.unwrap() {
        let loaded = store.load(place, Some(listed.id)).await.unwrap().unwrap();
        // The clock and what tells places apart are no part of what a run makes.
        let loaded = Loaded {
            born: 0,
            time: 0,
            ..loaded
        };
        let tasks = store.tasks(place, listed.id).await.unwrap();
        dump.push((loaded, tasks, store.logs(place, listed.id).await.unwrap()));
    }
    dump
}

/// Where the subagent that answered the n-th message of a thread keeps its checkpoints.
pub(crate) fn nested(thread: &str, answer: &Message) -> Place {
    let task = answer.id.as_deref().unwrap().strip_prefix("tool-").unwrap();
    Place {
        namespace: format!("tools:{task}").into(),
        ..Place::root(thread)
    }
}
