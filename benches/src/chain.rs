//! Nodes in a row that write nothing, with somebody who reads the stream of updates.

use futures::StreamExt;
use serde::{Deserialize, Serialize};
use superstep::prelude::*;
use superstep::{BuildError, Thread};

use crate::Bench;
use crate::run::{Error, expect};

/// The state of the graph.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Messages {
    #[reduce(append)]
    messages: Vec<String>,
}

async fn nothing(_: Messages, _: Context) -> NodeResult {
    Ok(Update::new())
}

/// Runs many nodes one after the other.
#[derive(Debug)]
pub struct Chain {
    graph: Graph<Messages>,
    nodes: u64,
}

impl Chain {
    /// A chain of this many nodes.
    pub fn new(nodes: u64) -> Result<Self, BuildError> {
        let node = |at| Node::<Messages>::named(format!("node_{at}"));
        let mut graph = Graph::<Messages>::builder().entry(node(0));
        for at in 0..nodes {
            graph = graph.node(node(at), nothing);
        }
        for at in 1..nodes {
            graph = graph.edge(node(at - 1), node(at));
        }
        let graph = graph.build()?;
        Ok(Chain { graph, nodes })
    }
}

impl Bench for Chain {
    type State = Messages;

    fn graph(&self) -> &Graph<Messages> {
        &self.graph
    }

    async fn run(&self, thread: &Thread<Messages>) -> Result<(), Error> {
        let mut stream = thread.start(Messages::default()).stream(Modes::UPDATES);
        let mut updates = 0;
        while let Some(part) = stream.next().await {
            updates += u64::from(matches!(part.event, Event::Update { .. }));
        }
        let outcome = stream.outcome().await?;
        expect("updates", updates, self.nodes)?;
        expect("state", outcome.done(), Some(Messages::default()))
    }

    fn supersteps(&self) -> u64 {
        self.nodes
    }
}
