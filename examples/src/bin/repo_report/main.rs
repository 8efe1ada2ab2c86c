//! The main job: an agent surveys a directory and writes a report of it, and survives being killed.

mod args;
mod ending;
mod job;
mod place;
mod progress;
mod prompts;
mod tell;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use futures::StreamExt;
use superstep::checkpoint::SqliteCheckpointer;
use superstep::{Answer, Modes, Outcome, RunBuilder, Thread};
use superstep_agent::agent::Conversation;
use superstep_agent::middleware::Decision;
use superstep_agent::model::{ChatModel, OpenAi, Retry, Retrying, Timeouts};
use superstep_examples::failed::Failed;
use superstep_examples::planner::Planner;

use args::{Args, YesNo};
use job::Job;
use place::Place;
use progress::Progress;

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            tell::notice(format_args!("error: {failed}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<(), Failed> {
    let model = model(args)?;
    let place = Place::new(args)?;
    let store = place.open()?;
    let job = match &args.thread {
        None => place.new_job(args)?,
        Some(_) => known_job(args, &place, &store, &model).await?,
    };
    let agent = job.agent(model, &place.report)?;
    let thread = agent.thread(&store, place.thread.as_str());
    tell::result("thread", &place.thread)?;
    tell::result("database", place.database.display())?;
    let begin = match (&args.thread, args.answer) {
        (None, _) => thread.start(job.input()),
        (Some(_), None) => thread.proceed(),
        (Some(_), Some(answer)) => thread.resume(answers(&thread, &place, answer).await?),
    };
    let mut progress = Progress::default();
    let outcome = follow(begin, &mut progress).await?;
    ending::conclude(args, &place, &outcome)?;
    ending::summary(&thread, &store, &place, &progress).await
}

/// The model that was asked for; without one, the planner in its place.
fn model(args: &Args) -> Result<Arc<dyn ChatModel>, Failed> {
    let Some(name) = &args.model else {
        return Ok(Arc::new(Planner));
    };
    let Some(("openai", model)) = name.split_once(':').filter(|(_, model)| !model.is_empty())
    else {
        return Err(Failed::new(format!("--model {name}: expected openai:NAME")));
    };
    let patience = Duration::from_secs(args.timeout);
    let timeouts = Timeouts {
        idle: patience,
        ..Timeouts::default()
    };
    let retry = Retry {
        budget: patience,
        ..Retry::default()
    };
    let model = OpenAi::from_env(model).map_err(|error| Failed::because("the model", &error))?;
    Ok(Arc::new(Retrying::new(
        model.with_timeouts(timeouts),
        retry,
    )))
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

/// The same answer to everything that the thread asks.
async fn answers(
    thread: &Thread<Conversation>,
    place: &Place,
    answer: YesNo,
) -> Result<Vec<Answer>, Failed> {
    let decision = match answer {
        YesNo::Yes => Decision::Approve,
        YesNo::No => Decision::Reject(ending::UNWANTED.into()),
    };
    let state = thread.state().await?;
    let answers: Vec<_> = state.asks().map(|ask| ask.answer(&decision)).collect();
    if answers.is_empty() {
        return Err(Failed::new(format!(
            "thread `{}` waits for no answer",
            place.thread
        )));
    }
    Ok(answers)
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
