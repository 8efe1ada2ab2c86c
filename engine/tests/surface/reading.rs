//! Reading a thread, going back in it, and editing it.

use serde::{Deserialize, Serialize};
use superstep::checkpoint::{CheckpointId, Source};
use superstep::prelude::*;

use super::{Log, asking, chain, done, line, linked, log, message, named, node, paused};

/// a → asks → b
fn graph() -> Graph<Log> {
    let builder = Graph::<Log>::builder()
        .node(node("a"), named)
        .node(node("asks"), asking)
        .node(node("b"), named);
    linked(builder, &["a", "asks", "b"]).build().unwrap()
}

/// One line a checkpoint: what made it, the state, and its tasks with what became of them.
fn sketch(snapshot: &superstep::Snapshot) -> String {
    let tasks = snapshot.tasks.iter().map(|task| {
        let end = if task.finished { " done" } else { "" };
        format!("{}{end} asked {}", task.node, task.asks.len())
    });
    format!(
        "{}<-{} {:?} step {} {} next [{}]",
        snapshot.checkpoint.map_or(0, |id| id.0),
        snapshot.parent.map_or(0, |id| id.0),
        snapshot.source,
        snapshot.step,
        snapshot.values.json().unwrap(),
        tasks.collect::<Vec<_>>().join(", "),
    )
}

async fn history(thread: &superstep::Thread<Log>) -> String {
    let history = thread.history(100).await.unwrap();
    history.iter().map(sketch).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_detached_thread_runs_and_keeps_nothing() {
    let thread = chain(&["a", "b"]).build().unwrap().detached();
    assert_eq!(done(thread.start(Log::default()).await), log(&["a", "b"]));
    assert_eq!(done(thread.start(Log::default()).await), log(&["a", "b"]));
    insta::assert_snapshot!(message(thread.proceed().await), @"going on with a thread needs a thread with a checkpointer");
    insta::assert_snapshot!(thread.state().await.unwrap_err(), @"reading a thread's state needs a thread with a checkpointer");
    insta::assert_snapshot!(thread.history(1).await.unwrap_err(), @"reading a thread's history needs a thread with a checkpointer");
    let asks = paused(graph().detached().start(Log::default()).await);
    assert_eq!(asks[0].payload.0, "asks?");
}

#[tokio::test]
async fn an_empty_thread_has_an_empty_state() {
    let store = MemoryCheckpointer::new();
    let thread = graph().thread(&store, "t");
    insta::assert_snapshot!(sketch(&thread.state().await.unwrap()), @r#"0<-0 None step -2 {"lines":[]} next []"#);
    assert_eq!(history(&thread).await, "");
    let error = thread.at(CheckpointId(3)).state().await.unwrap_err();
    insta::assert_snapshot!(error, @"thread `t` has no checkpoint 3");
}

#[tokio::test]
async fn the_history_tells_what_became_of_each_checkpoint() {
    let store = MemoryCheckpointer::new();
    let thread = graph().thread(&store, "t");
    let asks = paused(thread.start(log(&["in"])).await);
    insta::assert_snapshot!(sketch(&thread.state().await.unwrap()), @r#"3<-2 Some(Loop) step 1 {"lines":["in","a"]} next [asks asked 1]"#);
    thread.resume([asks[0].answer("ok")]).await.unwrap();
    insta::assert_snapshot!(history(&thread).await, @r#"
    5<-4 Some(Loop) step 3 {"lines":["in","a","asks: ok","b"]} next []
    4<-3 Some(Loop) step 2 {"lines":["in","a","asks: ok"]} next [b done asked 0]
    3<-2 Some(Loop) step 1 {"lines":["in","a"]} next [asks done asked 1]
    2<-1 Some(Loop) step 0 {"lines":["in"]} next [a done asked 0]
    1<-0 Some(Input) step -1 {"lines":[]} next [__start__ done asked 0]
    "#);
    // From a checkpoint on, and not more than asked for.
    let older = thread.at(CheckpointId(4)).history(2).await.unwrap();
    let ids: Vec<_> = older
        .iter()
        .filter_map(|snapshot| snapshot.checkpoint)
        .collect();
    assert_eq!(ids, [CheckpointId(3), CheckpointId(2)]);
}

#[tokio::test]
async fn a_run_from_an_older_checkpoint_opens_a_branch() {
    let store = MemoryCheckpointer::new();
    let thread = graph().thread(&store, "t");
    paused(thread.start(log(&["in"])).await);
    done(thread.resume([Answer::only("one")]).await);
    let asks = paused(thread.at(CheckpointId(3)).proceed().await);
    done(thread.resume([asks[0].answer("two")]).await);
    insta::assert_snapshot!(history(&thread).await, @r#"
    8<-7 Some(Loop) step 4 {"lines":["in","a","asks: two","b"]} next []
    7<-6 Some(Loop) step 3 {"lines":["in","a","asks: two"]} next [b done asked 0]
    6<-3 Some(Fork) step 2 {"lines":["in","a"]} next [asks done asked 1]
    5<-4 Some(Loop) step 3 {"lines":["in","a","asks: one","b"]} next []
    4<-3 Some(Loop) step 2 {"lines":["in","a","asks: one"]} next [b done asked 0]
    3<-2 Some(Loop) step 1 {"lines":["in","a"]} next [asks done asked 1]
    2<-1 Some(Loop) step 0 {"lines":["in"]} next [a done asked 0]
    1<-0 Some(Input) step -1 {"lines":[]} next [__start__ done asked 0]
    "#);
    let newest = thread.state().await.unwrap();
    assert_eq!(newest.source, Some(Source::Loop));
    assert_eq!(
        newest.read::<Log>().unwrap(),
        log(&["in", "a", "asks: two", "b"])
    );
}

#[tokio::test]
async fn new_input_at_an_older_checkpoint_opens_a_branch_too() {
    let store = MemoryCheckpointer::new();
    let thread = chain(&["a", "b"]).build().unwrap().thread(&store, "t");
    done(thread.start(log(&["one"])).await);
    done(thread.start(log(&["two"])).await);
    let end = done(thread.at(CheckpointId(4)).start(log(&["three"])).await);
    assert_eq!(end, log(&["one", "a", "b", "three", "a", "b"]));
    let old = thread.at(CheckpointId(8)).state().await.unwrap();
    assert_eq!(
        old.read::<Log>().unwrap(),
        log(&["one", "a", "b", "two", "a", "b"])
    );
}

#[tokio::test]
async fn a_command_edits_the_state_while_tasks_wait() {
    let store = MemoryCheckpointer::new();
    let thread = graph().thread(&store, "t");
    let asks = paused(thread.start(log(&["in"])).await);
    assert_eq!(paused(thread.command(line("edit 1"), []).await), asks);
    // It is there in a program that opens the thread anew, and in the record of what the tasks ran on.
    let again = graph().thread(&store, "t");
    let state = again.state().await.unwrap();
    assert_eq!(state.read::<Log>().unwrap(), log(&["in", "a", "edit 1"]));
    let end = again.command(line("edit 2"), [asks[0].answer("ok")]).await;
    assert_eq!(
        done(end),
        log(&["in", "a", "edit 1", "edit 2", "asks: ok", "b"])
    );
    insta::assert_snapshot!(history(&thread).await, @r#"
    5<-4 Some(Loop) step 3 {"lines":["in","a","edit 1","edit 2","asks: ok","b"]} next []
    4<-3 Some(Loop) step 2 {"lines":["in","a","edit 1","edit 2","asks: ok"]} next [b done asked 0]
    3<-2 Some(Loop) step 1 {"lines":["in","a","edit 1","edit 2"]} next [asks done asked 1]
    2<-1 Some(Loop) step 0 {"lines":["in"]} next [a done asked 0]
    1<-0 Some(Input) step -1 {"lines":[]} next [__start__ done asked 0]
    "#);
}

#[tokio::test]
async fn a_command_can_start_other_nodes_beside_those_that_wait() {
    let builder = Graph::<Log>::builder()
        .node(node("asks"), asking)
        .node(node("beside"), named)
        .entry(node("asks"));
    let store = MemoryCheckpointer::new();
    let thread = builder.build().unwrap().thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    assert_eq!(
        paused(thread.command(Update::new().goto(node("beside")), []).await),
        asks
    );
    let end = done(thread.resume([asks[0].answer("ok")]).await);
    assert_eq!(end, log(&["asks: ok", "beside"]));
}

#[tokio::test]
async fn a_command_that_does_not_fit_changes_nothing() {
    let store = MemoryCheckpointer::new();
    let thread = graph().thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    let edit = line("x").put_value("nothing", superstep::channels::Value::new(1u32));
    let refused = thread.command(edit, []).await;
    insta::assert_snapshot!(message(refused), @"the input writes channel `nothing`, which graph `graph` does not have");
    let wrong = line("x").put_value("lines", superstep::channels::Value::new(1u32));
    let refused = thread.command(wrong.clone(), []).await;
    insta::assert_snapshot!(message(refused), @"channel `lines` takes `Vec<String>`, not `u32`");
    // Not even the answer beside it: the question stays open.
    let beside = thread.command(wrong, [asks[0].answer("ok")]).await;
    assert!(message(beside).starts_with("channel `lines` takes"));
    let stale = thread
        .command(
            line("x"),
            [superstep::Answer::to("0".repeat(32).parse().unwrap(), "ok")],
        )
        .await;
    assert!(message(stale).starts_with("no question"));
    let state = thread.state().await.unwrap();
    assert_eq!(state.read::<Log>().unwrap(), log(&["a"]));
    assert_eq!(state.asks().collect::<Vec<_>>(), [&asks[0]]);
}

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Counted {
    #[or_default]
    count: u32,
}

async fn add_one(counted: Counted, _: Context) -> NodeResult {
    Ok(Update::new().put(Counted::COUNT, counted.count + 1))
}

#[tokio::test]
async fn an_empty_channel_reads_as_the_default_where_the_state_says_so() {
    let up = Node::<Counted>::new("up");
    let graph = Graph::<Counted>::builder()
        .node(up.clone(), add_one)
        .entry(up)
        .build()
        .unwrap();
    let outcome = graph.detached().start(Update::new()).await.unwrap();
    assert_eq!(outcome.done().map(|counted| counted.count), Some(1));
}
