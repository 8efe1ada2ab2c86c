//! What the program says: results on the one output, progress on the other.

use std::io::{ErrorKind, Write, stdout};

use superstep::channels::{Json, Name};
use superstep::{Ask, Because, Event, Explanation, Graph, Part, Snapshot};
use superstep_examples::failed::Failed;

use crate::args::Args;

/// A result. A reader that went away is no reason to stop the work.
pub(crate) fn line(text: impl AsRef<str>) -> Result<(), Failed> {
    let text = format!("{}\n", text.as_ref().trim_end());
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failed::because("cannot write the results", &error))
        }
        _ => Ok(()),
    }
}

pub(crate) fn checked(graph: &Graph<Json>) -> Result<(), Failed> {
    for warning in graph.warnings() {
        eprintln!("warning: {warning}");
    }
    let nodes = graph.nodes().count();
    line(format!(
        "ok: `{}`, version {}, {nodes} nodes",
        graph.name(),
        graph.version()
    ))
}

/// What a task did.
pub(crate) fn progress(part: &Part) {
    if let Event::TaskEnded {
        node,
        writes,
        error,
        asks,
        step,
        ..
    } = &part.event
    {
        let wrote: Vec<&str> = writes.iter().map(|(channel, _)| channel.as_ref()).collect();
        let what = match error {
            Some(error) => format!("failed: {error}"),
            None if !asks.is_empty() => "asks".to_owned(),
            None if wrote.is_empty() => "wrote nothing".to_owned(),
            None => format!("wrote {}", wrote.join(", ")),
        };
        eprintln!("superstep {step}: {node} {what}");
    }
}

pub(crate) fn questions(asks: &[Ask], args: &Args) -> Result<(), Failed> {
    for Ask { id, payload, .. } in asks {
        line(format!("question {id}: {}", payload.0))?;
    }
    let answer = match asks {
        [_] => "JSON",
        _ => "QUESTION=JSON ...",
    };
    line(format!("answer with: {} {answer}", command(args, "answer")))
}

pub(crate) fn stopped(nodes: &[Name], args: &Args) -> Result<(), Failed> {
    line(format!("stopped at {}", nodes.join(", ")))?;
    line(format!("go on with: {}", command(args, "proceed")))
}

/// How the program is called for the same run.
fn command(args: &Args, name: &str) -> String {
    let place = args.command.place();
    let place = place.map(|place| {
        let (thread, out) = (&place.thread, place.out.display());
        format!(" --thread {thread} --out {out}")
    });
    let file = args.file.display();
    format!("embed {file} {name}{}", place.unwrap_or_default())
}

pub(crate) fn history(history: &[Snapshot]) -> Result<(), Failed> {
    for snapshot in history {
        let id = snapshot.checkpoint.map(|id| id.0).unwrap_or_default();
        let source = snapshot.source.map(|source| format!("{source:?}"));
        let source = source.unwrap_or_default().to_lowercase();
        let next = snapshot.next().map(Name::as_ref).collect::<Vec<&str>>();
        let next = match next.is_empty() {
            true => "nothing is due".to_owned(),
            false => format!("due: {}", next.join(", ")),
        };
        line(format!(
            "{id:>4}  {source:<6}  step {:>2}  {next}",
            snapshot.step
        ))?;
    }
    Ok(())
}

pub(crate) fn why(explanation: &Explanation) -> Result<(), Failed> {
    for change in &explanation.changed {
        let by: Vec<&str> = change.by.iter().map(|(_, node)| node.as_str()).collect();
        line(format!(
            "`{}` was written by {}",
            change.channel,
            by.join(", ")
        ))?;
    }
    for reason in &explanation.due {
        let because: Vec<String> = reason.because.iter().map(because).collect();
        let because = match because.is_empty() {
            true => "it has waited since an earlier checkpoint".to_owned(),
            false => because.join(", "),
        };
        line(format!("`{}` is due: {because}", reason.node))?;
    }
    if explanation.due.is_empty() {
        line("nothing is due")?;
    }
    Ok(())
}

fn because(because: &Because) -> String {
    match because {
        Because::Edge { node, .. } => format!("an edge from `{node}`"),
        Because::Join { node, .. } => format!("a join that `{node}` made full"),
        Because::Goto { node, .. } => format!("`{node}` decided so"),
        Because::Send { node, .. } => format!("`{node}` sent it"),
        other => format!("{other:?}"),
    }
}
