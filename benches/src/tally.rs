//! A loop: one node counts, and a branch behind it goes back to it.

use serde::{Deserialize, Serialize};
use superstep::prelude::*;
use superstep::{BuildError, Thread};

use crate::Bench;
use crate::run::{Error, expect};

/// The state of the graph.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Count {
    n: u64,
}

const INC: Node<Count> = Node::new("inc");

async fn inc(count: Count, _: Context) -> NodeResult {
    Ok(Update::new().put(Count::N, count.n + 1))
}

/// Counts to a limit, one superstep for each number.
#[derive(Debug)]
pub struct Tally {
    graph: Graph<Count>,
    limit: u64,
}

impl Tally {
    /// A loop of this many supersteps.
    pub fn new(limit: u64) -> Result<Self, BuildError> {
        let graph = Graph::<Count>::builder()
            .node(INC, inc)
            .entry(INC)
            .branch(INC, move |count| (count.n < limit).then_some(INC))
            .build()?;
        Ok(Tally { graph, limit })
    }
}

impl Bench for Tally {
    type State = Count;

    fn graph(&self) -> &Graph<Count> {
        &self.graph
    }

    async fn run(&self, thread: &Thread<Count>) -> Result<(), Error> {
        let outcome = thread.start(Count::default()).limit(u32::MAX).await?;
        expect("state", outcome.done(), Some(Count { n: self.limit }))
    }

    fn supersteps(&self) -> u64 {
        self.limit
    }
}
