//! The main job: an agent surveys a directory and writes a report of it, and survives being killed.

mod args;
mod error;
mod job;
mod place;
mod progress;
mod prompts;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use futures::StreamExt;
use superstep::checkpoint::{Checkpointer, SqliteCheckpointer};
use superstep::{Answer, Modes, Outcome, RunBuilder, Thread};
use superstep_agent::agent::Conversation;
use superstep_agent::middleware::{ApprovalRequest, Decision};
use superstep_agent::model::{ChatModel, OpenAi, Retry, Retrying};
use superstep_examples::planner::Planner;

use args::{Args, YesNo};
use error::Failed;
use job::Job;
use place::Place;
use progress::Progress;

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("error: {failed}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<(), Failed> {
    let model = model(args.model.as_deref())?;
    let place = Place::new(args)?;
    let store = place.open()?;
    let job = match &args.thread {
        None => place.new_job(args)?,
        Some(_) => known_job(args, &place, &store, &model).await?,
    };
    let agent = job.agent(model, &place.report)?;
    let thread = agent.thread(&store, place.thread.as_str());
    println!("thread:   {}", place.thread);
    println!("database: {}", place.database.display());
    let begin = match (&args.thread, args.answer) {
        (None, _) => thread.start(job.input()),
        (Some(_), None) => thread.proceed(),
        (Some(_), Some(answer)) => thread.resume([answer_of(answer)]),
    };
    let mut progress = Progress::default();
    let outcome = follow(begin, &mut progress).await?;
    tell(args, &place, &outcome)?;
    summary(&thread, &store, &place, &progress).await
}

/// The model that was asked for; without one, the planner in its place.
fn model(name: Option<&str>) -> Result<Arc<dyn ChatModel>, Failed> {
    let Some(name) = name else {
        return Ok(Arc::new(Planner));
    };
    let Some(("openai", model)) = name.split_once(':').filter(|(_, model)| !model.is_empty())
    else {
        return Err(Failed::new(format!("--model {name}: expected openai:NAME")));
    };
    let model = OpenAi::from_env(model).map_err(|error| Failed::because("the model", &error))?;
    Ok(Arc::new(Retrying::new(model, Retry::default())))
}

/// The job that the thread was started with; it must exist, and be about the directory that was named.
async fn known_job(
    args: &Args,
    place: &Place,
    store: &SqliteCheckpointer,
    model: &Arc<dyn ChatModel>,
) -> Result<Job, Failed> {
    // Any job's agent has the channels that say which job it is.
    let any = Job {
        root: ".".into(),
        ask: false,
    };
    let state = any.agent(Arc::clone(model), &place.report)?;
    let state = state.thread(store, place.thread.as_str()).state().await?;
    let job = state.checkpoint.and_then(|_| Job::of(&state.values));
    let Some(job) = job else {
        let (thread, database) = (&place.thread, place.database.display());
        return Err(Failed::new(format!(
            "there is no thread `{thread}` in {database}"
        )));
    };
    match &args.dir {
        Some(dir) if place::canonical(dir)? != job.root => {
            let (thread, root) = (&place.thread, job.root.display());
            Err(Failed::new(format!(
                "thread `{thread}` surveys {root}, not {}",
                dir.display()
            )))
        }
        _ => Ok(job),
    }
}

fn answer_of(answer: YesNo) -> Answer {
    Answer::only(match answer {
        YesNo::Yes => Decision::Approve,
        YesNo::No => Decision::Reject("the user does not want the report written".into()),
    })
}

async fn follow(
    begin: RunBuilder<Conversation>,
    progress: &mut Progress,
) -> Result<Outcome<Conversation>, Failed> {
    let mut events = begin.stream_nested(Modes::TASKS);
    while let Some(part) = events.next().await {
        progress.follow(&part);
    }
    Ok(events.outcome().await?)
}

/// Says how the run ended.
fn tell(args: &Args, place: &Place, outcome: &Outcome<Conversation>) -> Result<(), Failed> {
    match outcome {
        Outcome::Done(conversation) => {
            let said = conversation.last_text().unwrap_or_default();
            if place.report.exists() {
                println!("report:   {}", place.report.display());
            } else if args.answer == Some(YesNo::No) {
                println!("report:   not written, as you wished");
            } else {
                return Err(Failed::new(format!(
                    "the agent ended without writing a report; it said: {said}"
                )));
            }
        }
        Outcome::Paused(asks) => {
            for ask in asks {
                let request: ApprovalRequest = ask
                    .payload()
                    .map_err(|error| Failed::because("the question", &error))?;
                let size = request
                    .args
                    .0
                    .get("content")
                    .and_then(|text| text.as_str())
                    .map_or(0, str::len);
                println!(
                    "question: may `{}` write {size} bytes to {}?",
                    request.tool,
                    place.report.display()
                );
            }
            let out = args
                .out
                .as_deref()
                .map(|out| format!(" --out {}", out.display()))
                .unwrap_or_default();
            println!(
                "answer:   repo_report --thread {}{out} --answer yes|no",
                place.thread
            );
        }
        other => {
            return Err(Failed::new(format!(
                "the run ended in a way it should not: {other:?}"
            )));
        }
    }
    Ok(())
}

/// Says what the run cost.
async fn summary(
    thread: &Thread<Conversation>,
    store: &SqliteCheckpointer,
    place: &Place,
    progress: &Progress,
) -> Result<(), Failed> {
    let step = thread.state().await?.step.max(0);
    let (outer, all) = progress.supersteps();
    let size = store.size(&place.thread).await?;
    println!(
        "ran:      {outer} supersteps now, {all} with the subagents' own; the thread stands at superstep {step}"
    );
    println!(
        "stored:   {} bytes in {} checkpoints of {} graphs; the database has {} bytes on the disk",
        size.bytes(),
        size.checkpoints,
        size.namespaces,
        place.database_bytes()
    );
    Ok(())
}
