//! What a superstep adds to a store.

use serde_json::json;
use superstep::channels::{ChannelSpec, Json, Snapshots, append};
use superstep::checkpoint::Checkpointer;
use superstep::prelude::*;

/// A loop of one node, which counts to `until` and writes a line each time, in a graph with as many channels that hold a kilobyte
/// each, as many nodes that never run, and a join over all of them.
fn graph(others: usize, until: i64) -> Graph<Json> {
    let count = Node::<Json>::new("count");
    let mut builder = Graph::<Json>::builder()
        .channel(ChannelSpec::last::<Json>("n"))
        .channel(ChannelSpec::reduce::<Vec<String>, _>("lines", append).as_delta(Snapshots::Never))
        .node_reading(
            count.clone(),
            ["n"],
            |Json(state): Json, _: Context| async move {
                let n = state["n"].as_i64().unwrap_or(0) + 1;
                let update = Update::from(Json(json!({ "n": n })));
                Ok(update.put_value(
                    "lines",
                    superstep::channels::Value::new(vec!["a line".to_owned()]),
                ))
            },
        )
        .entry(count.clone());
    let to = count.clone();
    builder = builder.branch(count, move |Json(state): Json| {
        (state["n"].as_i64() < Some(until)).then(|| to.clone())
    });
    let idle = |at: usize| Node::<Json>::named(format!("idle {at}"));
    for at in 0..others {
        builder = builder
            .channel(ChannelSpec::last::<Json>(format!("channel {at}")))
            .node(idle(at), |_: Json, _: Context| async { Ok(Update::new()) });
    }
    if others > 0 {
        builder = builder.join((1..others).map(idle), idle(0));
    }
    builder.build().unwrap()
}

/// The bytes that are stored after so many supersteps.
async fn stored(others: usize, supersteps: i64) -> u64 {
    let store = MemoryCheckpointer::new();
    let mut input = json!({});
    for at in 0..others {
        input[format!("channel {at}")] = "x".repeat(1024).into();
    }
    let thread = graph(others, supersteps).thread(&store, "t");
    let done = thread.start(Json(input)).await.unwrap();
    assert!(matches!(done, Outcome::Done(_)));
    store.size("t").await.unwrap().bytes()
}

#[tokio::test]
async fn a_superstep_stores_what_changed_in_it_whatever_else_there_is() {
    let mut costs = Vec::new();
    for others in [0, 3, 300] {
        // Numbers of one length, so that all supersteps between write the same.
        let between = stored(others, 200).await - stored(others, 150).await;
        costs.push(between / 50);
        assert_eq!(between % 50, 0);
    }
    assert_eq!(costs, [150, 150, 150]);
}
