//! Many sends at once: a worker for each, whose items are folded in the order of the sends, then a join.

use serde::{Deserialize, Serialize};
use superstep::prelude::*;
use superstep::{BuildError, Thread};

use crate::Bench;
use crate::run::{Error, expect};

/// The state of the graph.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gathered {
    #[reduce(append)]
    items: Vec<u64>,
    total: u64,
}

const WORKER: Node<u64> = Node::new("worker");
const JOIN: Node<Gathered> = Node::new("join");

async fn worker(item: u64, _: Context) -> NodeResult {
    Ok(Update::new().put(Gathered::ITEMS, vec![item]))
}

async fn join(gathered: Gathered, _: Context) -> NodeResult {
    Ok(Update::new().put(Gathered::TOTAL, gathered.items.len() as u64))
}

/// Sends many payloads at once and gathers what the workers make of them.
#[derive(Debug)]
pub struct FanOut {
    graph: Graph<Gathered>,
    tasks: u64,
}

impl FanOut {
    /// A fan-out to this many tasks.
    pub fn new(tasks: u64) -> Result<Self, BuildError> {
        let sends = move |_| (0..tasks).map(|item| WORKER.with(item)).collect::<Vec<_>>();
        let graph = Graph::<Gathered>::builder()
            .node(WORKER, worker)
            .node(JOIN, join)
            .entry_branch(sends)
            .edge(WORKER, JOIN)
            .build()?;
        Ok(FanOut { graph, tasks })
    }
}

impl Bench for FanOut {
    type State = Gathered;

    fn graph(&self) -> &Graph<Gathered> {
        &self.graph
    }

    async fn run(&self, thread: &Thread<Gathered>) -> Result<(), Error> {
        let outcome = thread.start(Gathered::default()).await?;
        let gathered = Gathered {
            items: (0..self.tasks).collect(),
            total: self.tasks,
        };
        expect("state", outcome.done(), Some(gathered))
    }

    fn supersteps(&self) -> u64 {
        2
    }
}
