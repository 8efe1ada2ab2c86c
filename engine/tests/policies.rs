//! What happens around nodes: retries, time limits, kept results, error handlers, blocking.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use insta::assert_snapshot;
use serde_json::json;
use superstep::channels::{ChannelSpec, Json, Value};
use superstep::checkpoint::{Cache as _, MemoryCache, SqliteCheckpointer};
use superstep::prelude::*;
use superstep::{Cached, NodeFailure, Policy, Retry, RunError, TaskError, TimeLimit};
use tokio::time::Instant;

const A: Node<Json> = Node::new("a");
const B: Node<Json> = Node::new("b");
const C: Node<Json> = Node::new("c");
const ITEM: Node<Json> = Node::new("item");

fn logged(text: &str) -> Update {
    Update::new().put_value("log", Value::new(vec![text.to_owned()]))
}

fn builder() -> superstep::GraphBuilder<Json> {
    Graph::<Json>::builder().channel(ChannelSpec::reduce::<Vec<String>, _>("log", append))
}

fn second(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A node that fails until its `fails + 1`-th attempt.
fn flaky(
    fails: u32,
) -> impl Fn(Json, Context) -> futures::future::BoxFuture<'static, NodeResult> + Send + Sync {
    move |_, cx| {
        Box::pin(async move {
            match cx.attempt() > fails {
                true => Ok(logged(&format!("attempt {}", cx.attempt()))),
                false => Err(format!("attempt {} failed", cx.attempt()).into()),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_follow_each_other_after_the_waits_of_the_policy() {
    let retry = Retry::times(4).backoff(second(1), 2.0, second(3));
    let graph = |fails| {
        let graph = builder()
            .node(A, flaky(fails))
            .policy(A, Policy::new().retry(retry.clone()));
        graph.entry(A).build().unwrap()
    };
    let begun = Instant::now();
    let done = graph(3)
        .detached()
        .start(Update::new())
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(done.0, json!({ "log": ["attempt 4"] }));
    assert_eq!(begun.elapsed(), second(1 + 2 + 3));
    let error = graph(4).detached().start(Update::new()).await.unwrap_err();
    assert_snapshot!(error, @"node `a` failed: attempt 4 failed");
}

#[tokio::test(start_paused = true)]
async fn the_first_retry_that_takes_an_error_decides() {
    let no_wait = |times| Retry::times(times).backoff(Duration::ZERO, 1.0, Duration::ZERO);
    let is = |text: &'static str| move |error: &TaskError| matches!(error, TaskError::Node(error) if error.to_string().contains(text));
    let policy = Policy::new()
        .retry(no_wait(2).on(is("other")))
        .retry(no_wait(3).on(is("failed")));
    let graph = builder()
        .node(A, flaky(2))
        .policy(A, policy)
        .entry(A)
        .build()
        .unwrap();
    assert!(graph.detached().start(Update::new()).await.is_ok());
    // What another attempt would not mend is not tried again, unless the policy says so.
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let graph = builder()
        .node(A, move |_: Json, _: Context| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(Update::new().put_value("nowhere", Value::new(1u8))) }
        })
        .node(B, |_: Json, _: Context| async { panic!("always") })
        .defaults(Policy::new().retry(no_wait(5)))
        .entry(A)
        .entry(B)
        .build()
        .unwrap();
    let error = graph.detached().start(Update::new()).await.unwrap_err();
    assert_snapshot!(error, @"node `a` failed: its update writes channel `nowhere`, which this graph does not have; node `b` failed: panicked: always");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_and_a_nested_graph_outlive_an_attempt() {
    let inner_runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&inner_runs);
    let inner = builder()
        .node(C, move |_: Json, _: Context| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(logged("inner")) }
        })
        .entry(C)
        .build()
        .unwrap();
    let graph = builder()
        .node(A, move |_: Json, cx: Context| {
            let inner = inner.clone();
            async move {
                let answer: String = cx.interrupt("a?").await;
                cx.run(&inner, Update::new()).await?;
                match cx.attempt() {
                    1 | 2 => Err("not yet".into()),
                    _ => Ok(logged(&answer)),
                }
            }
        })
        .policy(A, Policy::new().retry(Retry::times(3)))
        .entry(A)
        .build()
        .unwrap();
    let saver = MemoryCheckpointer::new();
    let thread = graph.thread(&saver, "t");
    let asks = thread.start(Update::new()).await.unwrap();
    assert_eq!(asks.asks().len(), 1, "a question is no failure");
    let done = thread
        .resume([asks.asks()[0].answer("yes")])
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(done.0, json!({ "log": ["yes"] }));
    assert_eq!(inner_runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_given_up() {
    let node = |beats: u64, emits: u64| {
        move |_: Json, cx: Context| async move {
            for _ in 0..beats {
                tokio::time::sleep(second(2)).await;
                cx.heartbeat();
            }
            for _ in 0..emits {
                tokio::time::sleep(second(2)).await;
                cx.emit("alive");
            }
            tokio::time::sleep(second(2)).await;
            Ok(logged("in time"))
        }
    };
    let run = async |beats, emits, policy: Policy| {
        let graph = builder()
            .node(A, node(beats, emits))
            .policy(A, policy)
            .entry(A)
            .build()
            .unwrap();
        match graph.detached().start(Update::new()).await {
            Ok(_) => "done".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    let idle = || Policy::new().idle_timeout(second(3));
    let results = [
        run(0, 0, Policy::new().run_timeout(second(3))).await,
        run(1, 0, Policy::new().run_timeout(second(3))).await,
        run(5, 0, idle()).await,
        run(0, 5, idle()).await,
        run(0, 5, Policy::new().heartbeat_timeout(second(3))).await,
        run(5, 0, Policy::new().heartbeat_timeout(second(3))).await,
        run(5, 0, idle().run_timeout(second(9))).await,
    ];
    assert_snapshot!(results.join("\n"), @"
    done
    node `a` failed: it ran longer than 3 s
    done
    done
    node `a` failed: it gave no sign of life for 3 s
    done
    node `a` failed: it ran longer than 9 s
    ");
    // It is worth another attempt.
    let slow_once = |_: Json, cx: Context| async move {
        if cx.attempt() == 1 {
            std::future::pending::<()>().await;
        }
        Ok(logged("second"))
    };
    let policy = Policy::new().run_timeout(second(3)).retry(Retry::times(2));
    let graph = builder()
        .node(A, slow_once)
        .policy(A, policy)
        .entry(A)
        .build()
        .unwrap();
    let done = graph
        .detached()
        .start(Update::new())
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(done.0, json!({ "log": ["second"] }));
    assert_eq!(format!("{:?}", TimeLimit::Run), "Run");
}

/// A node's runs, and a graph that caches it.
fn cached(cached: Cached) -> (Arc<AtomicUsize>, Graph<Json>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let graph = builder()
        .channel(ChannelSpec::last::<Json>("x"))
        .node(ITEM, move |Json(input): Json, _: Context| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move { Ok(logged(&input.to_string()).goto(B)) }
        })
        .node_reading(A, ["x"], |Json(state): Json, _: Context| async move {
            let items = state["x"].as_array().cloned().unwrap_or_default();
            Ok(items
                .into_iter()
                .fold(Update::new(), |update, item| update.send(ITEM, Json(item))))
        })
        .node_reading(B, ["x"], |_: Json, _: Context| async { Ok(logged("b")) })
        .policy(ITEM, Policy::new().cached(cached))
        .entry(A)
        .build()
        .unwrap();
    (runs, graph)
}

fn items(items: serde_json::Value) -> Json {
    Json(json!({ "x": items }))
}

#[tokio::test]
async fn results_are_kept_for_equal_inputs_in_memory_and_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap();
    let memory = MemoryCache::new(1 << 20);
    for (cache, of) in [
        (Cached::new(&memory), "memory"),
        (Cached::new(&file), "file"),
    ] {
        let (runs, graph) = cached(cache.clone());
        let run = async |graph: &Graph<Json>, of| {
            graph
                .detached()
                .start(items(of))
                .await
                .unwrap()
                .done()
                .unwrap()
                .0["log"]
                .clone()
        };
        assert_eq!(
            run(&graph, json!([1, 2])).await,
            json!(["1", "2", "b"]),
            "{of}"
        );
        assert_eq!(
            run(&graph, json!([2, 3])).await,
            json!(["2", "3", "b"]),
            "{of}"
        );
        assert_eq!(runs.load(Ordering::SeqCst), 3, "{of}");
        // Another version of the node finds nothing.
        let (others, other) = cached(cache.version(2));
        run(&other, json!([1])).await;
        assert_eq!(others.load(Ordering::SeqCst), 1, "{of}");
    }
    let (runs, graph) = cached(Cached::new(&file).ttl(Duration::ZERO));
    for _ in 0..2 {
        graph.detached().start(items(json!([1]))).await.unwrap();
    }
    // The first finds what is kept without a limit.
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    file.clear().await.unwrap();
    for _ in 0..2 {
        graph.detached().start(items(json!([1]))).await.unwrap();
    }
    assert_eq!(
        runs.load(Ordering::SeqCst),
        2,
        "nothing is kept for no time"
    );
}

#[tokio::test]
async fn a_kept_result_is_told_as_such_and_a_damaged_one_runs_anew() {
    let cache = MemoryCache::new(1 << 20);
    let (runs, graph) = cached(Cached::new(&cache));
    let told = async || {
        let mut stream = graph
            .detached()
            .start(items(json!([1])))
            .stream(Modes::UPDATES | Modes::TASKS);
        let mut told = Vec::new();
        while let Some(part) = stream.next().await {
            match part.event {
                Event::Update { node, cached, .. } if node == "item" => {
                    told.push(format!("update, cached: {cached}"))
                }
                Event::CacheFailed { node, error } => told.push(format!("{node}: {error}")),
                Event::TaskEnded { node, .. } if node == "item" => told.push("ended".to_owned()),
                _ => {}
            }
        }
        told.join("; ")
    };
    assert_eq!(told().await, "update, cached: false; ended");
    assert_eq!(told().await, "update, cached: true");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    // Another program wrote over what is kept.
    let broken = Broken(cache);
    let (runs, graph) = cached_by(&broken);
    let mut stream = graph
        .detached()
        .start(items(json!([1])))
        .stream(Modes::TASKS);
    let mut failed = 0;
    while let Some(part) = stream.next().await {
        failed += usize::from(matches!(part.event, Event::CacheFailed { .. }));
    }
    assert_eq!((failed, runs.load(Ordering::SeqCst)), (2, 1));
}

fn cached_by(broken: &Broken) -> (Arc<AtomicUsize>, Graph<Json>) {
    cached(Cached::new(broken))
}

/// A cache that gives other bytes than it was given, and takes none.
#[derive(Clone, Debug)]
struct Broken(MemoryCache);

#[async_trait::async_trait]
impl superstep::checkpoint::Cache for Broken {
    async fn get(
        &self,
        _: superstep::checkpoint::CacheKey,
    ) -> Result<Option<Vec<u8>>, superstep::checkpoint::SaveError> {
        Ok(Some(b"something else".to_vec()))
    }

    async fn put(
        &self,
        _: superstep::checkpoint::CacheKey,
        _: Vec<u8>,
        _: Option<Duration>,
    ) -> Result<(), superstep::checkpoint::SaveError> {
        Err(superstep::checkpoint::SaveError::Locked {
            what: "the cache".into(),
        })
    }

    async fn clear(&self) -> Result<(), superstep::checkpoint::SaveError> {
        self.0.clear().await
    }
}

/// a fails, and asks in its handler, if it is told to.
fn rescued(asks: bool, runs: &Arc<AtomicUsize>) -> Graph<Json> {
    let counted = Arc::clone(runs);
    builder()
        .node(A, move |_: Json, _: Context| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Err("broken".into()) }
        })
        .on_error(
            A,
            move |_: Json, failure: NodeFailure, cx: Context| async move {
                let answer: String = match asks {
                    true => cx.interrupt(&failure.error).await,
                    false => "-".to_owned(),
                };
                Ok(logged(&format!("{} {} {answer}", failure.node, failure.error)).goto(C))
            },
        )
        .node(B, |_: Json, _: Context| async { Ok(logged("b")) })
        .node(C, |_: Json, _: Context| async { Ok(logged("c")) })
        .entry(A)
        .edge(A, B)
        .build()
        .unwrap()
}

#[tokio::test]
async fn an_error_handler_stands_in_for_its_node_but_not_for_its_edges() {
    let runs = Arc::default();
    let saver = MemoryCheckpointer::new();
    let thread = rescued(false, &runs).thread(&saver, "t");
    let done = thread.start(Update::new()).await.unwrap().done().unwrap();
    assert_eq!(done.0, json!({ "log": ["a broken -", "c"] }));
    let history = thread.history(9).await.unwrap();
    let failed = history
        .iter()
        .flat_map(|state| &state.tasks)
        .find(|task| task.node == "a")
        .unwrap();
    assert_eq!(
        (failed.error.as_deref(), failed.finished),
        (Some("broken"), false)
    );
}

#[tokio::test]
async fn a_handler_that_asks_is_answered_and_its_node_does_not_run_again() {
    let runs = Arc::default();
    let saver = MemoryCheckpointer::new();
    let graph = rescued(true, &runs);
    let asks = graph
        .thread(&saver, "t")
        .start(Update::new())
        .await
        .unwrap();
    let thread = graph.thread(&saver, "t");
    let done = thread
        .resume([asks.asks()[0].answer("x")])
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(done.0, json!({ "log": ["a broken x", "c"] }));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_default_handler_is_for_nodes_without_one_and_gets_what_was_sent() {
    let failing = |_: Json, _: Context| async { Err("broken".into()) };
    let graph = builder()
        .node(A, failing)
        .node(B, failing)
        .node(ITEM, failing)
        .on_error(A, |_: Json, _: NodeFailure, _: Context| async {
            Ok(logged("own"))
        })
        .default_on_error(
            |Json(input): Json, failure: NodeFailure, _: Context| async move {
                Ok(logged(&format!("{} {input}", failure.node)))
            },
        )
        .entry(A)
        .entry(B)
        .entry_branch(|_: Json| ITEM.with(Json(json!(7))))
        .build()
        .unwrap();
    let done = graph
        .detached()
        .start(Update::new())
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_snapshot!(done.0, @r#"{"log":["own","b {\"log\":[]}","item 7"]}"#);
    // A handler that fails fails the run.
    let graph = builder()
        .node(A, failing)
        .on_error(A, |_: Json, _: NodeFailure, _: Context| async {
            Err("worse".into())
        })
        .entry(A)
        .build()
        .unwrap();
    assert_snapshot!(graph.detached().start(Update::new()).await.unwrap_err(), @"node `__error_handler__a` failed: worse");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_blocks_holds_up_nobody() {
    let (hold, held) = (
        Arc::new(std::sync::Barrier::new(2)),
        Arc::new(std::sync::Barrier::new(2)),
    );
    let (blocks, frees) = (Arc::clone(&hold), Arc::clone(&held));
    let graph = builder()
        .node(A, move |_: Json, _: Context| {
            let (blocks, frees) = (Arc::clone(&blocks), Arc::clone(&frees));
            async move {
                // Each waits for the other: together they end only if both run at once.
                blocks.wait();
                frees.wait();
                Ok(logged("blocks"))
            }
        })
        .policy(A, Policy::new().blocking())
        .node(B, move |_: Json, _: Context| {
            let (hold, held) = (Arc::clone(&hold), Arc::clone(&held));
            async move {
                hold.wait();
                held.wait();
                Ok(logged("other"))
            }
        })
        .policy(B, Policy::new().blocking())
        .entry(A)
        .entry(B)
        .build()
        .unwrap();
    let done = graph
        .detached()
        .start(Update::new())
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(done.0, json!({ "log": ["blocks", "other"] }));
}

#[test]
fn policies_for_nodes_that_are_not_there_are_problems() {
    let problems = builder()
        .node(A, |_: Json, _: Context| async { Ok(Update::new()) })
        .entry(A)
        .policy(B, Policy::new())
        .on_error(C, |_: Json, _: NodeFailure, _: Context| async {
            Ok(Update::new())
        })
        .stop_before(["nobody"])
        .build()
        .unwrap_err();
    assert_snapshot!(problems, @"
    graph `graph` cannot be built:
    - a breakpoint names `nobody`, which is no node
    - a policy or an error handler is for `b`, which is no node
    - a policy or an error handler is for `c`, which is no node
    ");
    assert!(!matches!(problems.problems.len(), 0));
    let _ = RunError::NoRuntime;
}
