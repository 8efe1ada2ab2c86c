//! The state changed by hand, threads copied and deleted.

use insta::assert_snapshot;
use serde_json::json;
use superstep::channels::{ChannelSpec, Json, Value};
use superstep::checkpoint::{CheckpointId, Source, SqliteCheckpointer};
use superstep::prelude::*;
use superstep::{RunError, StateUpdate, Thread, UpdateError};

const A: Node<Json> = Node::new("a");
const B: Node<Json> = Node::new("b");
const C: Node<Json> = Node::new("c");

/// a, then b, which asks, then c; each appends its name to a delta channel.
fn graph() -> Graph<Json> {
    let note = |_: Json, cx: Context| async move { Ok(logged(cx.node())) };
    let ask = |_: Json, cx: Context| async move {
        let answer: String = cx.interrupt("b?").await;
        Ok(logged(&answer))
    };
    Graph::<Json>::builder()
        .channel(
            ChannelSpec::reduce::<Vec<String>, _>("log", append).as_delta(Snapshots::Every(1000)),
        )
        .channel(ChannelSpec::last::<Json>("x"))
        .node(A, note)
        .node(B, ask)
        .node(C, note)
        .entry(A)
        .edge(A, B)
        .edge(B, C)
        .build()
        .unwrap()
}

fn logged(text: &str) -> Update {
    Update::new().put_value("log", Value::new(vec![text.to_owned()]))
}

async fn shown(thread: &Thread<Json>) -> String {
    let state = thread.state().await.unwrap();
    let next: Vec<_> = state.next().map(ToString::to_string).collect();
    format!(
        "{} {:?} next {next:?}",
        state.values.json().unwrap(),
        state.source
    )
}

/// Report R02: the first write to a delta channel is an update of a thread that does not exist.
#[tokio::test]
async fn r02_an_update_can_be_the_first_thing_of_a_thread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("threads.db");
    let saver = SqliteCheckpointer::open(&path).unwrap();
    let graph = graph();
    let id = graph
        .thread(&saver, "t")
        .update(StateUpdate::new(logged("x")).as_node(C))
        .await
        .unwrap();
    assert_eq!(id, CheckpointId(1));
    drop(saver);
    let saver = SqliteCheckpointer::open(&path).unwrap();
    let thread = graph.thread(&saver, "t");
    assert_snapshot!(shown(&thread).await, @r#"{"log":["x"]} Some(Update) next []"#);
    assert_eq!(thread.history(10).await.unwrap().len(), 1);
    let outcome = thread.start(logged("y")).await.unwrap();
    assert_eq!(outcome.asks().len(), 1);
    assert_snapshot!(shown(&thread).await, @r#"{"log":["x","y","a"]} Some(Loop) next ["b"]"#);
}

#[tokio::test]
async fn an_update_stands_in_for_the_node_that_asks() {
    let saver = MemoryCheckpointer::new();
    let thread = graph().thread(&saver, "t");
    thread.start(Update::new()).await.unwrap();
    thread
        .update(StateUpdate::new(logged("instead")).as_node(B))
        .await
        .unwrap();
    assert_snapshot!(shown(&thread).await, @r#"{"log":["a","instead"]} Some(Update) next ["c"]"#);
    let by_hand = thread
        .history_where(9, |header| header.source == Source::Update)
        .await
        .unwrap();
    assert_eq!(by_hand.len(), 1);
    let before = thread.history(2).await.unwrap().remove(1);
    assert_eq!(before.tasks[0].writes.as_ref().map(Vec::len), Some(1));
    thread.proceed().await.unwrap();
    assert_snapshot!(shown(&thread).await, @r#"{"log":["a","instead","c"]} Some(Loop) next []"#);
}

#[tokio::test]
async fn an_update_without_a_node_is_by_the_one_that_ran_last() {
    let saver = MemoryCheckpointer::new();
    let graph = graph();
    let thread = graph.thread(&saver, "t");
    thread.start(Update::new()).await.unwrap();
    let outcome = thread.update(StateUpdate::new(logged("more"))).await;
    assert!(outcome.is_ok());
    // By a, so b is due.
    assert_snapshot!(shown(&thread).await, @r#"{"log":["a","more"]} Some(Update) next ["b"]"#);
    let fresh = graph.thread(&saver, "fresh");
    fresh.update(Update::new()).await.unwrap();
    assert_snapshot!(shown(&fresh).await, @r#"{"log":[]} Some(Update) next ["a"]"#);
}

#[tokio::test]
async fn what_cannot_be_an_update_is_refused_and_leaves_no_trace() {
    let saver = MemoryCheckpointer::new();
    let both = Graph::<Json>::builder()
        .channel(ChannelSpec::last::<Json>("x"))
        .node(A, |_: Json, _: Context| async { Ok(Update::new()) })
        .node(B, |_: Json, _: Context| async { Ok(Update::new()) })
        .entry(A)
        .entry(B)
        .build()
        .unwrap();
    let thread = both.thread(&saver, "t");
    thread.start(Update::new()).await.unwrap();
    let x = |value: u32| Update::new().put_value("x", Value::new(Json(json!(value))));
    let mut errors = Vec::new();
    for refused in [
        thread.update(x(1)).await,
        thread.update(StateUpdate::new(x(1)).as_node(C)).await,
        thread
            .update(StateUpdate::new(Update::new().put_value("y", Value::new(1u8))).as_node(A))
            .await,
        thread
            .update(StateUpdate::new(Update::new().put_value("x", Value::new(1u8))).as_node(A))
            .await,
        thread.update_all(Vec::<Vec<StateUpdate>>::new()).await,
        thread
            .update_all([vec![StateUpdate::new(x(1)).as_node(A)], vec![]])
            .await,
        thread
            .update_all([[StateUpdate::new(x(1)), StateUpdate::new(x(2)).as_node(A)]])
            .await,
        // The first superstep is fine, the second is not: nothing is stored.
        thread
            .update_all([
                vec![StateUpdate::new(x(1)).as_node(A)],
                vec![
                    StateUpdate::new(x(1)).as_node(A),
                    StateUpdate::new(x(2)).as_node(B),
                ],
            ])
            .await,
        both.detached().update(x(1)).await,
    ] {
        errors.push(refused.unwrap_err().to_string());
    }
    assert_snapshot!(errors.join("\n"), @"
    a, b ran last: say with `as_node` which of them the update is from
    the state is to be updated as `c`, which is no node of graph `graph`
    the input writes channel `y`, which graph `graph` does not have
    channel `x` takes `Json`, not `u8`
    there is no update, or a superstep without one
    there is no update, or a superstep without one
    of several updates in one superstep each must say with `as_node` whose it is
    channel `x` got 2 writes in one superstep but takes one: let one node write it, or give it a reducer
    updating a thread's state needs a thread with a checkpointer
    ");
    assert_eq!(thread.history(9).await.unwrap().len(), 3);
    assert!(matches!(
        thread.update(x(1)).await,
        Err(RunError::Update(UpdateError::Ambiguous { nodes })) if nodes == ["a", "b"]
    ));
}

#[tokio::test]
async fn supersteps_of_updates_are_stored_together() {
    let saver = MemoryCheckpointer::new();
    let thread = graph().thread(&saver, "t");
    let steps = [
        vec![StateUpdate::new(logged("in")).as_start()],
        vec![
            StateUpdate::new(logged("a1")).as_node(A),
            StateUpdate::new(logged("c1")).as_node(C),
        ],
    ];
    assert_eq!(thread.update_all(steps).await.unwrap(), CheckpointId(2));
    assert_snapshot!(shown(&thread).await, @r#"{"log":["in","a1","c1"]} Some(Update) next ["b"]"#);
}

#[tokio::test]
async fn what_finished_is_applied_and_what_did_not_is_dropped() {
    let saver = MemoryCheckpointer::new();
    let graph = Graph::<Json>::builder()
        .channel(ChannelSpec::reduce::<Vec<String>, _>("log", append))
        .node(A, |_: Json, _: Context| async { Ok(logged("a")) })
        .node(B, |_: Json, cx: Context| async move {
            let never: String = cx.interrupt("b?").await;
            Ok(logged(&never))
        })
        .node(C, |_: Json, _: Context| async { Ok(logged("c")) })
        .entry(A)
        .entry(B)
        .edge(A, C)
        .build()
        .unwrap();
    let thread = graph.thread(&saver, "t");
    thread.start(Update::new()).await.unwrap();
    thread.finish_waiting().await.unwrap();
    assert_snapshot!(shown(&thread).await, @r#"{"log":["a"]} Some(Update) next ["c"]"#);
    assert!(matches!(
        graph.thread(&saver, "empty").finish_waiting().await,
        Err(RunError::NothingToDo { .. })
    ));
}

#[tokio::test]
async fn forks_and_copies_leave_each_other_alone() {
    let saver = MemoryCheckpointer::new();
    let thread = graph().thread(&saver, "t");
    thread.start(Update::new()).await.unwrap();
    let paused = thread.state().await.unwrap().checkpoint.unwrap();
    thread.resume([Answer::only("one")]).await.unwrap();
    let end = thread.state().await.unwrap().checkpoint.unwrap();
    // A fork, a copy of the paused checkpoint, and a replay of it.
    thread
        .at(paused)
        .update(StateUpdate::new(logged("fork")).as_node(B))
        .await
        .unwrap();
    thread.proceed().await.unwrap();
    assert_snapshot!(shown(&thread).await, @r#"{"log":["a","fork","c"]} Some(Loop) next []"#);
    let copy = thread.at(paused).copy_checkpoint().await.unwrap();
    assert_snapshot!(shown(&thread).await, @r#"{"log":["a"]} Some(Fork) next ["b"]"#);
    let asked = thread.proceed().await.unwrap();
    thread
        .resume([asked.asks()[0].answer("two")])
        .await
        .unwrap();
    assert_snapshot!(shown(&thread).await, @r#"{"log":["a","two","c"]} Some(Loop) next []"#);
    assert_snapshot!(shown(&thread.at(end)).await, @r#"{"log":["a","one","c"]} Some(Loop) next []"#);
    assert_snapshot!(shown(&thread.at(copy)).await, @r#"{"log":["a"]} Some(Fork) next ["b"]"#);
}

#[tokio::test]
async fn a_copied_thread_keeps_what_waits_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let saver = SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap();
    let thread = graph().thread(&saver, "t");
    let asks = thread.start(Update::new()).await.unwrap();
    let copy = thread.copy_to("u").await.unwrap();
    thread.resume([asks.asks()[0].answer("one")]).await.unwrap();
    copy.resume([asks.asks()[0].answer("two")]).await.unwrap();
    assert_snapshot!(shown(&thread).await, @r#"{"log":["a","one","c"]} Some(Loop) next []"#);
    assert_snapshot!(shown(&copy).await, @r#"{"log":["a","two","c"]} Some(Loop) next []"#);
    thread.delete().await.unwrap();
    assert!(thread.history(9).await.unwrap().is_empty());
    assert_eq!(copy.history(9).await.unwrap().len(), 5);
    assert_snapshot!(thread.copy_to("v").await.unwrap_err(), @"there is no thread `t` to copy");
}
