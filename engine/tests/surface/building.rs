//! A description that is no graph.

use superstep::channels::ChannelSpec;
use superstep::prelude::*;

use super::{Log, done, log, named, node};

#[test]
fn every_problem_is_reported_at_once() {
    let error = Graph::<Log>::builder()
        .named("broken", 1)
        .node(node("a"), named)
        .node(node("a"), named)
        .node(node("__hidden"), named)
        .node(node("pipe|colon:"), named)
        .node(node(""), named)
        .node_reading(
            Node::<Json>::new("reads"),
            ["lines", "nowhere"],
            |_: Json, _| async { Ok(Update::new()) },
        )
        .channel(ChannelSpec::last::<u32>("lines"))
        .channel(ChannelSpec::last::<u32>("__private"))
        .output(["lines", "nothing"])
        .edge(node("a"), node("to nowhere"))
        .edge(node("from nowhere"), node("a"))
        .branch(node("branch from nowhere"), |_| None::<Node<Log>>)
        .join(Vec::<Node<Log>>::new(), node("a"))
        .join(
            [node("a"), node("join from nowhere")],
            node("join to nowhere"),
        )
        .build()
        .unwrap_err();
    insta::assert_snapshot!(error, @"
    graph `broken` cannot be built:
    - node `a` is declared twice
    - `__hidden` cannot be a name: names are no numbers and not empty, do not begin with `__`, and hold no `|` or `:`
    - `pipe|colon:` cannot be a name: names are no numbers and not empty, do not begin with `__`, and hold no `|` or `:`
    - `` cannot be a name: names are no numbers and not empty, do not begin with `__`, and hold no `|` or `:`
    - no entry: say with `entry` which node runs first
    - channel `lines` is declared as `lines: Reduce<Vec<String>>` and as `lines: LastValue<u32>`
    - `__private` cannot be a name: names are no numbers and not empty, do not begin with `__`, and hold no `|` or `:`
    - an edge leads to `to nowhere`, which is no node
    - an edge leaves `from nowhere`, which is no node
    - an edge leaves `branch from nowhere`, which is no node
    - an edge leaves `join from nowhere`, which is no node
    - an edge leads to `join to nowhere`, which is no node
    - a join into `a` waits for no node
    - `broken` uses channel `nothing`, which is not declared
    - `reads` uses channel `nowhere`, which is not declared
    ");
}

#[test]
fn a_graph_needs_an_entry_that_is_there() {
    let error = Graph::<Log>::builder()
        .entry(node("nowhere"))
        .build()
        .unwrap_err();
    insta::assert_snapshot!(error, @"
    graph `graph` cannot be built:
    - the entry `nowhere` is no node
    ");
}

#[tokio::test]
async fn a_join_waits_for_each_source_once_however_often_it_is_named() {
    let graph = Graph::<Log>::builder()
        .node(node("a"), named)
        .node(node("b"), named)
        .node(node("c"), named)
        .entry(node("a"))
        .entry(node("b"))
        .join(["a", "b", "a"].map(node), node("c"))
        .join(["a", "b", "a"].map(node), node("c"))
        .build()
        .unwrap();
    let end = done(graph.detached().start(Log::default()).await);
    assert_eq!(end, log(&["a", "b", "c"]));
}
