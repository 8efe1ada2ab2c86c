//! Runs that are stopped, named and noted; events that are logged or missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use insta::assert_snapshot;
use serde_json::json;
use superstep::channels::{ChannelSpec, Json, Value};
use superstep::checkpoint::{Kind, Size, SqliteCheckpointer};
use superstep::prelude::*;
use superstep::{Control, Durability, EventId, Policy, RunError};
use tokio::sync::Notify;

const QUICK: Node<Json> = Node::new("quick");
const SLOW: Node<Json> = Node::new("slow");
const AFTER: Node<Json> = Node::new("after");

fn logged(text: &str) -> Update {
    Update::new().put_value("log", Value::new(vec![text.to_owned()]))
}

fn builder() -> superstep::GraphBuilder<Json> {
    Graph::<Json>::builder().channel(ChannelSpec::reduce::<Vec<String>, _>("log", append))
}

/// A node that notes that it began, and never ends unless it is released.
#[derive(Clone, Default)]
struct Gate {
    began: Arc<Notify>,
    released: Arc<Notify>,
    runs: Arc<AtomicUsize>,
}

impl Gate {
    async fn wait(self) -> NodeResult {
        if self.runs.fetch_add(1, Ordering::SeqCst) == 0 {
            self.began.notify_one();
            self.released.notified().await;
        }
        Ok(logged("slow"))
    }
}

/// quick and slow side by side.
fn race(gate: &Gate, quick_runs: &Arc<AtomicUsize>) -> Graph<Json> {
    let (gate, runs) = (gate.clone(), Arc::clone(quick_runs));
    builder()
        .node(QUICK, move |_: Json, _: Context| {
            runs.fetch_add(1, Ordering::SeqCst);
            async { Ok(logged("quick")) }
        })
        .node(SLOW, move |_: Json, _: Context| gate.clone().wait())
        .entry(QUICK)
        .entry(SLOW)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_cancelled_run_saves_what_finished_at_every_depth() {
    let durabilities = [Durability::Sync, Durability::Async, Durability::Exit];
    let cases = durabilities
        .into_iter()
        .flat_map(|durability| (0..3).map(move |depth| (durability, depth)));
    for (durability, depth) in cases {
        let (gate, quick) = (Gate::default(), Arc::default());
        let mut graph = race(&gate, &quick);
        for _ in 0..depth {
            // A sibling beside the nested graph, so that tasks are spawned.
            graph = builder()
                .subgraph(SLOW, &graph)
                .node(AFTER, |_: Json, _: Context| async {
                    tokio::task::yield_now().await;
                    Ok(Update::new())
                })
                .entry(SLOW)
                .entry(AFTER)
                .build()
                .unwrap();
        }
        let saver = MemoryCheckpointer::new();
        let thread = graph.thread(&saver, "t");
        let control = Control::new();
        let run = thread.start(Update::new()).durability(durability);
        let run = tokio::spawn(run.control(&control).into_future());
        gate.began.notified().await;
        control.cancel();
        let error = run.await.unwrap().unwrap_err();
        assert!(error.to_string().ends_with("was cancelled"), "{error}");
        let done = thread.proceed().await.unwrap().done().unwrap();
        let case = format!("{durability:?}, depth {depth}");
        assert_eq!(done.0, json!({ "log": ["quick", "slow"] }), "{case}");
        assert_eq!(quick.load(Ordering::SeqCst), 1, "{case}");
        assert_eq!(gate.runs.load(Ordering::SeqCst), 2, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_holds_on_to_its_thread_holds_up_no_cancelled_run() {
    let (began, release) = (
        Arc::new(Notify::new()),
        Arc::new(std::sync::Barrier::new(2)),
    );
    let (begins, blocks) = (Arc::clone(&began), Arc::clone(&release));
    let graph = builder()
        .node(SLOW, move |_: Json, _: Context| {
            let (begins, blocks) = (Arc::clone(&begins), Arc::clone(&blocks));
            async move {
                begins.notify_one();
                blocks.wait();
                Ok(Update::new())
            }
        })
        .policy(SLOW, Policy::new().blocking())
        .entry(SLOW)
        .build()
        .unwrap();
    let control = Control::new();
    let run = tokio::spawn(
        graph
            .detached()
            .start(Update::new())
            .control(&control)
            .into_future(),
    );
    began.notified().await;
    control.cancel();
    assert!(matches!(
        run.await.unwrap(),
        Err(RunError::Cancelled { .. })
    ));
    release.wait();
}

#[tokio::test]
async fn a_drained_run_stops_after_its_superstep_and_goes_on_later() {
    let graph = builder()
        .node(QUICK, |_: Json, cx: Context| async move {
            cx.drain();
            Ok(logged("quick"))
        })
        .node(AFTER, |_: Json, _: Context| async { Ok(logged("after")) })
        .entry(QUICK)
        .edge(QUICK, AFTER)
        .build()
        .unwrap();
    let saver = MemoryCheckpointer::new();
    let thread = graph.thread(&saver, "t");
    let stopped = thread.start(Update::new()).await.unwrap();
    assert!(matches!(stopped, Outcome::Drained(due) if due == ["after"]));
    let done = thread.proceed().await.unwrap().done().unwrap();
    assert_eq!(done.0, json!({ "log": ["quick", "after"] }));
    // With nothing left the run is done, and a breakpoint wins.
    let control = Control::new();
    control.drain();
    assert!(matches!(
        thread.proceed().control(&control).await.unwrap(),
        Outcome::Done(_)
    ));
    let at = graph
        .thread(&saver, "b")
        .start(Update::new())
        .stop_before(["quick"])
        .control(&control);
    assert!(matches!(at.await.unwrap(), Outcome::Breakpoint(_)));
}

#[tokio::test]
async fn nodes_get_what_the_caller_gives_and_notes() {
    let inner = builder()
        .node(QUICK, |_: Json, cx: Context| async move {
            let number = cx.context::<u32>()?;
            let note = cx.metadata().get("who").map(|who| who.0.clone());
            Ok(logged(&format!(
                "{number} {note:?} {:?} {}",
                cx.run_id(),
                cx.remaining_supersteps()
            )))
        })
        .entry(QUICK)
        .build()
        .unwrap();
    let graph = builder()
        .subgraph(SLOW, &inner)
        .entry(SLOW)
        .build()
        .unwrap();
    let saver = MemoryCheckpointer::new();
    let thread = graph.thread(&saver, "t");
    let run = thread
        .start(Update::new())
        .context(7u32)
        .metadata("who", "me")
        .id("r1")
        .limit(5);
    assert_snapshot!(run.await.unwrap().done().unwrap().0, @r#"{"log":["7 Some(String(\"me\")) Some(\"r1\") 4"]}"#);
    let noted = thread.history_where(9, |header| {
        header.metadata.get("who").is_some_and(|who| who.0 == "me")
            && header.run.as_deref() == Some("r1")
    });
    assert_eq!(noted.await.unwrap().len(), 3);
    let error = graph
        .detached()
        .start(Update::new())
        .context("text")
        .await
        .unwrap_err();
    assert_snapshot!(error, @"node `slow` failed: node `quick` failed: the caller of the run gave no `u32`: give it with `RunBuilder::context`");
}

#[tokio::test]
async fn a_run_started_twice_takes_its_input_once() {
    let gate = Gate::default();
    let runs = Arc::default();
    let graph = race(&gate, &runs);
    let saver = MemoryCheckpointer::new();
    let thread = graph.thread(&saver, "t");
    let input = || logged("in");
    // The first is lost on the way.
    let first = tokio::spawn(thread.start(input()).id("order-1").into_future());
    gate.began.notified().await;
    first.abort();
    assert!(first.await.is_err());
    for _ in 0..2 {
        let again = thread
            .start(input())
            .id("order-1")
            .await
            .unwrap()
            .done()
            .unwrap();
        assert_eq!(again.0, json!({ "log": ["in", "quick", "slow"] }));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let other = thread
        .start(input())
        .id("order-2")
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(other.0["log"].as_array().unwrap().len(), 6);
}

/// Ten supersteps that tell ten events each.
fn talker() -> Graph<Json> {
    builder()
        .node(QUICK, |Json(state): Json, cx: Context| async move {
            let round = state["log"].as_array().map_or(0, Vec::len);
            for number in 0..10 {
                cx.emit(&(round * 10 + number));
            }
            Ok(logged("round"))
        })
        .entry(QUICK)
        .branch(QUICK, |Json(state): Json| {
            (state["log"].as_array().map_or(0, Vec::len) < 10).then_some(QUICK)
        })
        .build()
        .unwrap()
}

fn number(part: &serde_json::Value) -> u64 {
    part["data"]["value"].as_u64().unwrap()
}

/// Report R17, the engine's half: a reader that is cut off twice reads on from the log, in a new process too.
#[tokio::test]
async fn r17_a_reader_that_was_cut_off_reads_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("threads.db");
    let saver = SqliteCheckpointer::open(&path).unwrap();
    let graph = talker();
    let thread = graph.thread(&saver, "t");
    let (mut seen, mut last) = (Vec::new(), None);
    // Cut at 30, in the middle of a superstep or not: the run dies with its reader.
    let mut stream = thread
        .start(Update::new())
        .log(Modes::CUSTOM)
        .stream(Modes::CUSTOM);
    while seen.len() < 25 {
        let part = stream.next().await.unwrap();
        seen.push(number(&part.json()));
        last = part.id;
    }
    drop(stream);
    // The thread goes on elsewhere, and tells anew what its superstep told.
    let run = thread.proceed().log(Modes::CUSTOM).limit(3).await;
    assert!(matches!(run, Err(RunError::Limit { .. })));
    drop((thread, saver));
    let saver = SqliteCheckpointer::open(&path).unwrap();
    let thread = graph.thread(&saver, "t");
    let read = async |last: &mut Option<EventId>, seen: &mut Vec<u64>| {
        let some = thread.events(*last, 7).await.unwrap();
        seen.extend(some.iter().map(|logged| number(&logged.part.0)));
        *last = some.last().map(|logged| logged.id).or(*last);
        some.len()
    };
    while read(&mut last, &mut seen).await > 0 {}
    assert!((50..70).contains(&seen.len()), "{}", seen.len());
    thread.proceed().log(Modes::CUSTOM).await.unwrap();
    while read(&mut last, &mut seen).await > 0 {}
    assert_eq!(seen, (0..100).collect::<Vec<u64>>());
    // After the end there is nothing more, at once.
    assert_eq!(thread.events(last, 9).await.unwrap(), []);
    let unknown = "77-0".parse().unwrap();
    assert_snapshot!(thread.events(Some(unknown), 9).await.unwrap_err(), @"thread `t` has no event 77-0 on the way to its newest checkpoint");
}

#[tokio::test]
async fn what_nobody_logs_costs_nothing() {
    let (plain, logged) = (MemoryCheckpointer::new(), MemoryCheckpointer::new());
    talker()
        .thread(&plain, "t")
        .start(Update::new())
        .await
        .unwrap();
    talker()
        .thread(&logged, "t")
        .start(Update::new())
        .log(Modes::CUSTOM)
        .await
        .unwrap();
    let bytes = |size: Size| size.bytes_of(Kind::Task);
    use superstep::checkpoint::Checkpointer as _;
    let (plain, logged) = (
        plain.size("t").await.unwrap(),
        logged.size("t").await.unwrap(),
    );
    assert!(bytes(logged) > bytes(plain) + 100 * 50);
    assert_eq!(
        talker()
            .thread(&MemoryCheckpointer::new(), "u")
            .events(None, 9)
            .await
            .unwrap(),
        []
    );
}

#[tokio::test]
async fn a_watch_that_lags_is_told_and_stops_nobody() {
    let thread = talker().detached();
    let (run, mut watch) = thread.start(Update::new()).watch(Modes::CUSTOM, 5);
    // Nobody reads while it runs.
    assert!(run.await.unwrap().done().is_some());
    let mut told = Vec::new();
    while let Some(part) = watch.next().await {
        told.push(match part.event {
            Event::Lagged(missed) => format!("missed {missed}"),
            _ => number(&part.json()).to_string(),
        });
    }
    assert_eq!(told.join(" "), "missed 95 95 96 97 98 99");
    // A watch that goes away ends nothing either, and one whose run is dropped ends.
    let (run, watch) = thread.start(Update::new()).watch(Modes::CUSTOM, 5);
    drop(watch);
    assert!(run.await.unwrap().done().is_some());
    let (run, mut watch) = thread.start(Update::new()).watch(Modes::CUSTOM, 5);
    drop(run);
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_part_has_a_form_to_send() {
    let graph = builder()
        .node(QUICK, |_: Json, cx: Context| async move {
            let answer: String = cx.interrupt(&json!({ "sure": true })).await;
            Ok(logged(&answer))
        })
        .entry(QUICK)
        .build()
        .unwrap();
    let saver = MemoryCheckpointer::new();
    let thread = graph.thread(&saver, "t");
    let all = Modes::VALUES | Modes::UPDATES | Modes::TASKS | Modes::CHECKPOINTS;
    let mut stream = thread.start(Update::new()).log(all).stream(all);
    let mut told = Vec::new();
    while let Some(part) = stream.next().await {
        told.push(part.json().to_string());
    }
    let asks = stream.outcome().await.unwrap();
    let mut stream = thread
        .resume([asks.asks()[0].answer("yes")])
        .log(all)
        .stream(all);
    while let Some(part) = stream.next().await {
        told.push(part.json().to_string());
    }
    // The log has them all, under the same ids.
    let logged = thread.events(None, 99).await.unwrap();
    let logged: Vec<String> = logged
        .iter()
        .map(|logged| logged.part.0.to_string())
        .collect();
    assert_eq!(logged, told);
    let short = told
        .iter()
        .map(|line| line.chars().take(150).collect::<String>());
    assert_snapshot!(short.collect::<Vec<_>>().join("\n"), @r#"
    {"type":"checkpoint","namespace":[],"data":{"checkpoint":1,"parent":null,"source":"input","step":-1,"values":{"log":[]},"next":["__start__"],"tasks":[
    {"type":"checkpoint","namespace":[],"data":{"checkpoint":2,"parent":1,"source":"loop","step":0,"values":{"log":[]},"next":["quick"],"tasks":[{"id":"0d
    {"type":"task_started","namespace":[],"data":{"task":"0d63341ea48a219f4b0289138b9f6184","node":"quick","input":{"log":[]},"triggers":["branch:to:quick
    {"type":"task_ended","namespace":[],"data":{"task":"0d63341ea48a219f4b0289138b9f6184","node":"quick","writes":[],"error":null,"asks":[{"id":"7524e6e5e
    {"type":"paused","namespace":[],"data":{"asks":[{"id":"7524e6e5ecb779f34d75f7690612d48a","task":"0d63341ea48a219f4b0289138b9f6184","node":"quick","nam
    {"type":"values","namespace":[],"data":{"log":[]},"id":"2-5"}
    {"type":"checkpoint","namespace":[],"data":{"checkpoint":2,"parent":1,"source":"loop","step":0,"values":{"log":[]},"next":["quick"],"tasks":[{"id":"0d
    {"type":"task_started","namespace":[],"data":{"task":"0d63341ea48a219f4b0289138b9f6184","node":"quick","input":{"log":[]},"triggers":["branch:to:quick
    {"type":"update","namespace":[],"data":{"node":"quick","writes":[{"channel":"log","value":["yes"],"overwrite":false}],"cached":false},"id":"2-8"}
    {"type":"task_ended","namespace":[],"data":{"task":"0d63341ea48a219f4b0289138b9f6184","node":"quick","writes":[{"channel":"log","value":["yes"],"overw
    {"type":"values","namespace":[],"data":{"log":["yes"]},"id":"3-0"}
    {"type":"checkpoint","namespace":[],"data":{"checkpoint":3,"parent":2,"source":"loop","step":1,"values":{"log":["yes"]},"next":[],"tasks":[],"parents"
    "#);
}
