//! How a run ended, and what it cost.

use superstep::checkpoint::{Checkpointer, SqliteCheckpointer};
use superstep::{Ask, Outcome, Thread};
use superstep_agent::agent::Conversation;
use superstep_agent::message::ToolStatus;
use superstep_agent::middleware::ApprovalRequest;

use crate::args::Args;
use crate::place::Place;
use crate::progress::Progress;
use crate::tell;
use superstep_examples::failed::Failed;

/// What the agent is told when the answer is no.
pub(crate) const UNWANTED: &str = "the user does not want the report written";

/// Says how the run ended. An agent that wrote no report has failed, unless it was told not to.
pub(crate) fn conclude(
    args: &Args,
    place: &Place,
    outcome: &Outcome<Conversation>,
) -> Result<(), Failed> {
    match outcome {
        Outcome::Done(_) if place.report.is_file() => {
            tell::result("report", place.report.display())
        }
        Outcome::Done(conversation) if is_unwanted(conversation) => {
            tell::result("report", "not written, as you wished")
        }
        Outcome::Done(conversation) => Err(Failed::new(format!(
            "the agent ended without writing a report; it said: {}",
            conversation.last_text().unwrap_or_default()
        ))),
        Outcome::Paused(asks) => question(args, place, asks),
        other => Err(Failed::new(format!(
            "the run ended in a way it should not: {other:?}"
        ))),
    }
}

/// Whether somebody answered no, in this run or an earlier one.
fn is_unwanted(conversation: &Conversation) -> bool {
    let results = conversation.messages.iter();
    let mut failed = results.filter(|message| {
        let result = message.as_tool();
        result.is_some_and(|result| result.status == ToolStatus::Error)
    });
    failed.any(|message| message.text().ends_with(UNWANTED))
}

fn question(args: &Args, place: &Place, asks: &[Ask]) -> Result<(), Failed> {
    for ask in asks {
        let request: ApprovalRequest = ask
            .payload()
            .map_err(|error| Failed::because("the question", &error))?;
        let content = request.args.0.get("content").and_then(|text| text.as_str());
        let question = format!(
            "may `{}` write {} bytes to {}?",
            request.tool,
            content.map_or(0, str::len),
            place.report.display()
        );
        tell::result("question", question)?;
    }
    let out = args.out.as_ref().map(|out| out.display().to_string());
    let mut command = format!("repo_report --thread {}", place.thread);
    for (option, value) in [("--out", &out), ("--model", &args.model)] {
        if let Some(value) = value {
            command = format!("{command} {option} {}", quoted(value));
        }
    }
    tell::result("answer", format!("{command} --answer yes|no"))
}

/// The text as one word of a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-:".contains(c);
    match text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Says what the run cost.
pub(crate) async fn summary(
    thread: &Thread<Conversation>,
    store: &SqliteCheckpointer,
    place: &Place,
    progress: &Progress,
) -> Result<(), Failed> {
    let step = thread.state().await?.step.max(0);
    let (outer, all) = progress.supersteps();
    let ran = format!(
        "{outer} supersteps now, {all} with the subagents' own; the thread stands at superstep {step}"
    );
    tell::result("ran", ran)?;
    let size = store.size(&place.thread).await?;
    let stored = format!(
        "{} bytes in {} checkpoints of {} graphs; the database has {} bytes on the disk",
        size.bytes(),
        size.checkpoints(),
        size.namespaces(),
        place.database_bytes()
    );
    tell::result("stored", stored)
}
