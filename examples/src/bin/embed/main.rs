//! A small workflow tool around the engine: workflows are JSON files, and their nodes are of kinds that this program knows.

mod answers;
mod args;
mod conditions;
mod kinds;
mod report;
mod workflow;

use std::process::ExitCode;

use clap::Parser;
use futures::StreamExt;
use serde_json::Value as JsonValue;
use superstep::channels::Json;
use superstep::checkpoint::CheckpointId;
use superstep::{Modes, Outcome, RunBuilder};
use superstep_examples::failed::Failed;

use args::{Args, Command, Form};
use workflow::{Run, Workflow};

/// The exit code of a run that waits for answers.
const WAITS: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    match perform(&Args::parse()).await {
        Ok(code) => code,
        Err(failed) => {
            eprintln!("error: {failed}");
            ExitCode::FAILURE
        }
    }
}

async fn perform(args: &Args) -> Result<ExitCode, Failed> {
    let workflow = Workflow::load(&args.file)?;
    match &args.command {
        Command::Check => report::checked(&workflow.graph),
        Command::Draw { form } => report::line(match form {
            Form::Mermaid => workflow.graph.mermaid(),
            Form::Dot => workflow.graph.dot(),
            Form::Json => format!("{:#}", workflow.graph.to_json()),
        }),
        Command::Run { place, input } => {
            let run = workflow.open(place)?;
            let input = answers::input(input.as_deref())?;
            return follow(&run, run.thread.start(Json(input)), args).await;
        }
        Command::Answer { place, answers } => {
            let run = workflow.open(place)?;
            let answers = answers::answers(answers)?;
            return follow(&run, run.known().await?.resume(answers), args).await;
        }
        Command::Proceed { place } => {
            let run = workflow.open(place)?;
            return follow(&run, run.known().await?.proceed(), args).await;
        }
        Command::State { place } => {
            let state = workflow.open(place)?.known().await?.state().await?;
            report::line(format!("{:#}", state.json()))
        }
        Command::History { place } => {
            let run = workflow.open(place)?;
            report::history(&run.known().await?.history(usize::MAX).await?)
        }
        Command::Why { place, checkpoint } => {
            let run = workflow.open(place)?;
            let thread = match checkpoint {
                None => run.known().await?.clone(),
                Some(at) => run.known().await?.at(CheckpointId(*at)),
            };
            report::why(&thread.explain().await?)
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Runs to the end, or to the next question, and tells of each task on the way.
async fn follow(run: &Run, begin: RunBuilder<Json>, args: &Args) -> Result<ExitCode, Failed> {
    let mut events = begin.context(run.folders.clone()).stream(Modes::TASKS);
    while let Some(part) = events.next().await {
        report::progress(&part);
    }
    let state: JsonValue = match events.outcome().await? {
        Outcome::Done(Json(state)) => state,
        Outcome::Paused(asks) => {
            report::questions(&asks, args)?;
            return Ok(ExitCode::from(WAITS));
        }
        Outcome::Breakpoint(nodes) => {
            report::stopped(&nodes, args)?;
            return Ok(ExitCode::from(WAITS));
        }
        other => return Err(Failed::new(format!("the run ended as {other:?}"))),
    };
    report::line(format!("{state:#}"))?;
    Ok(ExitCode::SUCCESS)
}
