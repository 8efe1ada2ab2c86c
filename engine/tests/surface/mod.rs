//! What users of the engine can do, and what they are told when it does not work.

mod asks;
mod building;
mod executors;
mod guards;
mod nested;
mod reading;
mod stops;
mod streams;
mod updates;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use superstep::GraphBuilder;
use superstep::prelude::*;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Log {
    #[reduce(append)]
    lines: Vec<String>,
}

fn log(lines: &[&str]) -> Log {
    Log {
        lines: lines.iter().map(|line| line.to_string()).collect(),
    }
}

fn line(text: impl Into<String>) -> Update {
    Update::new().put(Log::LINES, vec![text.into()])
}

/// Writes its name.
async fn named(_: Log, cx: Context) -> NodeResult {
    Ok(line(cx.node().to_string()))
}

/// Asks for a text and writes it.
async fn asking(_: Log, cx: Context) -> NodeResult {
    let answer: String = cx.interrupt(&format!("{}?", cx.node())).await;
    Ok(line(format!("{}: {answer}", cx.node())))
}

fn node(name: &'static str) -> Node<Log> {
    Node::new(name)
}

/// Nodes that write their names.
fn nodes(names: &[&'static str]) -> GraphBuilder<Log> {
    names.iter().fold(Graph::<Log>::builder(), |builder, name| {
        builder.node(node(name), named)
    })
}

/// The same, one after the other.
fn chain(names: &[&'static str]) -> GraphBuilder<Log> {
    linked(nodes(names), names)
}

/// Begins at the first of these nodes and leads from each to the next.
fn linked(builder: GraphBuilder<Log>, names: &[&'static str]) -> GraphBuilder<Log> {
    let edges = names.windows(2);
    edges.fold(builder.entry(node(names[0])), |builder, pair| {
        builder.edge(node(pair[0]), node(pair[1]))
    })
}

/// A graph of one node.
fn alone(handler: impl superstep::Handler<Log>) -> Graph<Log> {
    Graph::<Log>::builder()
        .node(node("only"), handler)
        .entry(node("only"))
        .build()
        .unwrap()
}

/// Counts how often something ran.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn one_more(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// The final state.
fn done<S: std::fmt::Debug>(outcome: Result<Outcome<S>, RunError>) -> S {
    match outcome {
        Ok(Outcome::Done(state)) => state,
        other => panic!("not done: {other:?}"),
    }
}

/// The open questions.
fn paused<S: std::fmt::Debug>(outcome: Result<Outcome<S>, RunError>) -> Vec<Ask> {
    match outcome {
        Ok(Outcome::Paused(asks)) => asks,
        other => panic!("not paused: {other:?}"),
    }
}

/// The message of an error, with its causes.
fn message<S: std::fmt::Debug>(outcome: Result<Outcome<S>, RunError>) -> String {
    let error = outcome.unwrap_err();
    let first: &dyn std::error::Error = &error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    let mut texts: Vec<String> = causes.map(ToString::to_string).collect();
    // A transparent error says what its cause says.
    texts.dedup();
    texts.join(" / ")
}
