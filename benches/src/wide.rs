//! A graph made at run time with many channels, of which a loop changes one.

use serde_json::json;
use superstep::channels::Value;
use superstep::prelude::*;
use superstep::{BuildError, Thread};

use crate::Bench;
use crate::run::{Error, expect};

const COUNT: &str = "c0";

/// Counts in one channel of many.
#[derive(Debug)]
pub struct Wide {
    graph: Graph<Json>,
    channels: u64,
    limit: u64,
}

impl Wide {
    /// A loop of `limit` supersteps on a state of that many channels.
    pub fn new(channels: u64, limit: u64) -> Result<Self, BuildError> {
        let inc = || Node::<Json>::named("inc");
        let mut graph = Graph::<Json>::builder();
        for at in 0..channels {
            graph = graph.channel(ChannelSpec::last::<Json>(format!("c{at}")));
        }
        let graph = graph
            .node_reading(inc(), [COUNT], |Json(state): Json, _: Context| async move {
                let next = count(&state) + 1;
                Ok(Update::new().put_value(COUNT, Value::new(Json(json!(next)))))
            })
            .entry(inc())
            .branch(inc(), move |Json(state)| (count(&state) < limit).then(inc))
            .build()?;
        Ok(Wide {
            graph,
            channels,
            limit,
        })
    }

    fn state(&self, first: u64) -> Json {
        let rest = (1..self.channels).map(|at| (format!("c{at}"), json!(at)));
        let all = [(COUNT.to_owned(), json!(first))].into_iter().chain(rest);
        Json(all.collect::<serde_json::Map<_, _>>().into())
    }
}

fn count(state: &serde_json::Value) -> u64 {
    state.get(COUNT).and_then(|n| n.as_u64()).unwrap_or(0)
}

impl Bench for Wide {
    type State = Json;

    fn graph(&self) -> &Graph<Json> {
        &self.graph
    }

    async fn run(&self, thread: &Thread<Json>) -> Result<(), Error> {
        let outcome = thread.start(self.state(0)).limit(u32::MAX).await?;
        expect("state", outcome.done(), Some(self.state(self.limit)))
    }

    fn supersteps(&self) -> u64 {
        self.limit
    }
}
