//! Graphs inside graphs: what they keep, how they are read and gone back to, and what they say to the graph around.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use insta::assert_snapshot;
use serde_json::json;
use superstep::channels::{ChannelSpec, Json, Value};
use superstep::checkpoint::{Checkpointer as _, SqliteCheckpointer};
use superstep::prelude::*;
use superstep::{Nesting, RunError, StateUpdate};

const CALL: Node<Json> = Node::new("call");
const AGAIN: Node<Json> = Node::new("again");
const FIRST: Node<Json> = Node::new("first");
const ASK: Node<Json> = Node::new("ask");

fn builder() -> superstep::GraphBuilder<Json> {
    Graph::<Json>::builder()
        .channel(ChannelSpec::reduce::<Vec<String>, _>("log", append))
        .channel(ChannelSpec::last::<Json>("in"))
}

fn logged(text: &str) -> Update {
    Update::new().put_value("log", Value::new(vec![text.to_owned()]))
}

fn input(text: &str) -> Json {
    Json(json!({ "in": text }))
}

/// first notes its input in a list of its own; ask asks and notes the answer; the list is given out.
fn inner(nesting: Nesting, runs: &Arc<AtomicUsize>) -> Graph<Json> {
    let counted = Arc::clone(runs);
    builder()
        .named("inner", 1)
        .channel(ChannelSpec::reduce::<Vec<String>, _>("kept", append))
        .node(FIRST, move |Json(state): Json, _: Context| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                let kept = vec![state["in"].as_str().unwrap_or_default().to_owned()];
                Ok(Update::new().put_value("kept", Value::new(kept)))
            }
        })
        .node(ASK, |Json(state): Json, cx: Context| async move {
            let answer: String = cx.interrupt(&state["kept"]).await;
            let kept = vec![answer];
            Ok(Update::new().put_value("kept", Value::new(kept)))
        })
        .entry(FIRST)
        .edge(FIRST, ASK)
        .nesting(nesting)
        .build()
        .unwrap()
}

/// A node that runs the inner graph and notes what it ends with.
fn outer(nesting: Nesting, runs: &Arc<AtomicUsize>) -> Graph<Json> {
    let inner = inner(nesting, runs);
    let called = inner.clone();
    builder()
        .node(CALL, move |Json(state): Json, cx: Context| {
            let inner = called.clone();
            async move {
                let given = cx.run(&inner, Json(json!({ "in": state["in"] }))).await?;
                Ok(logged(&given.0["kept"].to_string()))
            }
        })
        .calls(CALL, &inner)
        .entry(CALL)
        .build()
        .unwrap()
}

/// Two runs of the thread, each asked and answered; gives the log and how often the first inner node ran.
async fn twice(nesting: Nesting) -> (String, usize) {
    let folder = tempfile::tempdir().unwrap();
    let saver = SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap();
    let runs = Arc::default();
    let graph = outer(nesting, &runs);
    for (given, answer) in [("one", "A"), ("two", "B")] {
        let asks = graph.thread(&saver, "t").start(input(given)).await.unwrap();
        // As another process would.
        let thread = outer(nesting, &runs).thread(&saver, "t");
        thread
            .resume([asks.asks()[0].answer(answer)])
            .await
            .unwrap();
    }
    let state = graph.thread(&saver, "t").state().await.unwrap();
    (
        state.values.json().unwrap()["log"].to_string(),
        runs.load(Ordering::SeqCst),
    )
}

#[tokio::test]
async fn a_nested_graph_keeps_what_it_is_told_to() {
    assert_eq!(
        twice(Nesting::PerCall).await,
        (r#"["[\"one\",\"A\"]","[\"two\",\"B\"]"]"#.into(), 2)
    );
    assert_eq!(
        twice(Nesting::PerThread).await,
        (
            r#"["[\"one\",\"A\"]","[\"one\",\"A\",\"two\",\"B\"]"]"#.into(),
            2
        )
    );
    // Nothing is stored, so what is taken up again starts anew; the answer reaches it all the same.
    assert_eq!(
        twice(Nesting::Unstored).await,
        (r#"["[\"one\",\"A\"]","[\"two\",\"B\"]"]"#.into(), 4)
    );
}

#[tokio::test]
async fn an_unstored_graph_leaves_nothing() {
    let saver = MemoryCheckpointer::new();
    let thread = outer(Nesting::Unstored, &Arc::default()).thread(&saver, "t");
    thread.start(input("one")).await.unwrap();
    assert_eq!(saver.size("t").await.unwrap().namespaces(), 1);
}

#[tokio::test]
async fn a_nested_state_is_read_changed_and_gone_back_to() {
    let saver = MemoryCheckpointer::new();
    let runs = Arc::default();
    let thread = outer(Nesting::PerThread, &runs).thread(&saver, "t");
    let asks = thread.start(input("one")).await.unwrap();
    let ask = asks.asks()[0].clone();
    assert_eq!(ask.namespace, "call");
    let state = thread.state_nested().await.unwrap();
    let nested = state.tasks[0].nested.as_ref().unwrap();
    assert_snapshot!(nested.values.json().unwrap(), @r#"{"log":[],"in":"one","kept":["one"]}"#);
    let paused = nested.checkpoint.unwrap();
    // Another way to the same place.
    let inside = thread.nested("call").unwrap();
    assert_eq!(inside.state().await.unwrap().checkpoint, Some(paused));
    thread.resume([ask.answer("A")]).await.unwrap();
    thread.start(input("two")).await.unwrap();
    // Back to the first question, inside.
    let again = thread.at_nested("call", paused).proceed().await.unwrap();
    assert_eq!(again.asks()[0].payload.0, json!(["one"]));
    thread.resume([again.asks()[0].answer("Z")]).await.unwrap();
    let end = thread.state().await.unwrap();
    assert_eq!(end.values.json().unwrap()["log"], json!([r#"["one","Z"]"#]));
    // By hand, before it goes on.
    thread.start(input("three")).await.unwrap();
    let more = Update::new().put_value("kept", Value::new(vec!["by hand".to_owned()]));
    inside
        .update(StateUpdate::new(more).as_node(FIRST))
        .await
        .unwrap();
    let asks = thread.proceed().await.unwrap();
    assert_snapshot!(asks.asks()[0].payload.0, @r#"["one","Z","three","by hand"]"#);
    let unknown = thread.nested("nowhere:1").unwrap_err();
    assert_snapshot!(unknown, @"no graph is known at namespace `nowhere:1`: nodes that call graphs say so with `calls`");
    assert!(matches!(
        thread
            .at_nested("call", superstep::checkpoint::CheckpointId(99))
            .proceed()
            .await,
        Err(RunError::UnknownCheckpoint { .. })
    ));
}

#[tokio::test]
async fn a_graph_that_keeps_its_state_follows_the_branch_that_runs() {
    let saver = MemoryCheckpointer::new();
    let runs = Arc::default();
    let thread = outer(Nesting::PerThread, &runs).thread(&saver, "t");
    let mut ends = Vec::new();
    for (given, answer) in [("one", "A"), ("two", "B")] {
        let asks = thread.start(input(given)).await.unwrap();
        thread
            .resume([asks.asks()[0].answer(answer)])
            .await
            .unwrap();
        ends.push(thread.state().await.unwrap().checkpoint.unwrap());
    }
    // From the end of the first run on: the second never was.
    let asks = thread.at(ends[0]).start(input("other")).await.unwrap();
    assert_eq!(asks.asks()[0].payload.0, json!(["one", "A", "other"]));
    thread.resume([asks.asks()[0].answer("C")]).await.unwrap();
    // And from the end of the second: the branch never was.
    let asks = thread.at(ends[1]).start(input("three")).await.unwrap();
    assert_eq!(
        asks.asks()[0].payload.0,
        json!(["one", "A", "two", "B", "three"])
    );
}

#[tokio::test]
async fn two_tasks_cannot_run_one_history() {
    let inner = inner(Nesting::PerThread, &Arc::default());
    let graph = builder()
        .subgraph(CALL, &inner)
        .entry_branch(|_: Json| [CALL.with(input("one")), CALL.with(input("two"))])
        .build()
        .unwrap();
    let saver = MemoryCheckpointer::new();
    let slow = graph.thread(&saver, "t").start(Update::new()).await;
    // Each runs to its question before the other begins, since nothing waits: the second goes on from the first.
    assert_eq!(slow.unwrap().asks().len(), 2);
    let waits = builder()
        .node(FIRST, |_: Json, _: Context| async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            Ok(Update::new())
        })
        .entry(FIRST)
        .nesting(Nesting::PerThread)
        .output(["log"])
        .build()
        .unwrap();
    let graph = builder()
        .subgraph(CALL, &waits)
        .entry_branch(|_: Json| [CALL.with(input("one")), CALL.with(input("two"))])
        .build()
        .unwrap();
    let error = graph
        .thread(&saver, "u")
        .start(Update::new())
        .await
        .unwrap_err();
    assert_snapshot!(error, @"node `call` failed: thread `u`, namespace `call` is run by two tasks at once, but keeps one history: let one run after the other, give each a node of its own, or let the graph start anew in each (`Nesting::PerCall`)");
}

#[tokio::test]
async fn a_nested_graph_can_end_itself_with_a_command_to_the_graph_around() {
    let inner = builder()
        .node(FIRST, |_: Json, _: Context| async {
            Ok(logged("dropped").in_parent(logged("from inside").goto(AGAIN)))
        })
        .node(ASK, |_: Json, _: Context| async { Ok(logged("never")) })
        .entry(FIRST)
        .edge(FIRST, ASK)
        .build()
        .unwrap();
    let graph = builder()
        .subgraph(CALL, &inner)
        .node(AGAIN, |_: Json, _: Context| async { Ok(logged("again")) })
        .entry(CALL)
        .build()
        .unwrap();
    let done = graph
        .detached()
        .start(Update::new())
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(done.0["log"], json!(["from inside", "again"]));
    assert_snapshot!(inner.detached().start(Update::new()).await.unwrap_err(), @"node `first` gave a command to the graph around, but there is none");
}

#[tokio::test]
async fn a_breakpoint_inside_stops_the_whole_run_and_it_goes_on() {
    let inner = builder()
        .node(FIRST, |_: Json, _: Context| async { Ok(logged("first")) })
        .node(AGAIN, |_: Json, _: Context| async { Ok(logged("second")) })
        .entry(FIRST)
        .edge(FIRST, AGAIN)
        .output(["log"])
        .stop_before(["again"])
        .build()
        .unwrap();
    let middle = builder()
        .subgraph(CALL, &inner)
        .entry(CALL)
        .output(["log"])
        .build()
        .unwrap();
    let graph = builder()
        .subgraph(CALL, &middle)
        .entry(CALL)
        .build()
        .unwrap();
    let saver = MemoryCheckpointer::new();
    let thread = graph.thread(&saver, "t");
    let stopped = thread.start(Update::new()).await.unwrap();
    assert!(matches!(stopped, Outcome::Breakpoint(nodes) if nodes == ["again"]));
    let done = thread.proceed().await.unwrap().done().unwrap();
    assert_eq!(done.0["log"], json!(["first", "second"]));
}

#[tokio::test]
async fn a_nested_graph_takes_and_gives_what_it_says() {
    let inner = builder()
        .channel(ChannelSpec::last::<Json>("secret"))
        .node(FIRST, |Json(state): Json, _: Context| async move {
            Ok(logged(&state.to_string()))
        })
        .entry(FIRST)
        .input(["in"])
        .output(["log"])
        .build()
        .unwrap();
    let graph = builder()
        .channel(ChannelSpec::last::<Json>("secret"))
        .subgraph(CALL, &inner)
        .entry(CALL)
        .build()
        .unwrap();
    let given = Json(json!({ "in": "x", "secret": "s" }));
    let done = graph
        .detached()
        .start(given.clone())
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_snapshot!(done.0, @r#"{"log":["{\"log\":[],\"in\":\"x\"}"],"in":"x","secret":"s"}"#);
    assert_snapshot!(inner.detached().start(given).await.unwrap_err(), @"the input writes channel `secret`, which graph `graph` does not take from outside");
}
