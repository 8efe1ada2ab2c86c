//! What users of the engine ran into once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::StreamExt;
use insta::assert_snapshot;
use serde_json::json;
use superstep::channels::{Key, Snapshots};
use superstep::checkpoint::{MemoryCache, SqliteCheckpointer};
use superstep::prelude::*;
use superstep::{
    Cached, Control, Durability, NodeError, NodeFailure, Policy, Retry, Routine, StateUpdate,
};

const N: Node<()> = Node::new("n");
const M: Node<()> = Node::new("m");
const ASK: Node<()> = Node::new("ask");
const LIST: Key<Vec<String>> = Key::reduce("list", append);
const DELTA: Key<Vec<String>> = Key::delta_with("list", append, Snapshots::Never);

type Io<T> = Result<T, std::io::Error>;

fn line(text: impl Into<String>) -> Update {
    Update::new().put(LIST, vec![text.into()])
}

fn lines(thread_state: &superstep::Snapshot) -> Vec<String> {
    thread_state.values.value(LIST).unwrap().unwrap_or_default()
}

async fn listed(thread: &superstep::Thread<()>) -> Vec<String> {
    lines(&thread.state().await.unwrap())
}

fn builder() -> superstep::GraphBuilder<()> {
    Graph::<()>::builder().channel(LIST.spec())
}

/// A graph of one node that does this.
macro_rules! one_node {
    (|$cx:ident| $body:expr) => {
        builder()
            .node(N, |(): (), $cx: Context| async move { $body })
            .entry(N)
            .build()
            .unwrap()
    };
}

async fn error_of(graph: Graph<()>) -> String {
    let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    thread.start(()).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_step_does_nothing_that_would_be_lost_when_its_result_is_handed_out() {
    assert_snapshot!(error_of(one_node!(|cx| {
        let inner = cx.clone();
        let asked = async move { Io::Ok(inner.interrupt::<bool>("sure?").await) };
        cx.step("approve", asked).await?;
        Ok(Update::new())
    })).await, @"node `n` failed: a step asks: when the node runs again the step does not, so do that beside it or in a routine");
    assert_snapshot!(error_of(one_node!(|cx| {
        let inner = cx.clone();
        let work = async move { inner.step("inner", async { Io::Ok(1u32) }).await };
        cx.step("outer", work).await?;
        Ok(Update::new())
    })).await, @"node `n` failed: a step takes a step: when the node runs again the step does not, so do that beside it or in a routine");
    assert_snapshot!(error_of(one_node!(|cx| {
        let (inner, graph) = (cx.clone(), one_node!(|_cx| Ok(Update::new())));
        let work = async move { inner.run(&graph, ()).await };
        cx.step("outer", work).await?;
        Ok(Update::new())
    })).await, @"node `n` failed: a step runs a graph: when the node runs again the step does not, so do that beside it or in a routine");
    assert_snapshot!(error_of(one_node!(|cx| {
        let routine = Routine::new("r", |n: u32, _: Context| async move { Ok(n) });
        let inner = cx.clone();
        let work = async move { inner.call(&routine, 1).await };
        cx.step("outer", work).await?;
        Ok(Update::new())
    })).await, @"node `n` failed: a step calls a routine: when the node runs again the step does not, so do that beside it or in a routine");
    // Beside each other they may be.
    let graph = one_node!(|cx| {
        let a = cx.step("a", async { Io::Ok(1u32) });
        let b = cx.step("b", async { Io::Ok(2u32) });
        let (a, b) = futures::future::try_join(a, b).await?;
        Ok(line(format!("{a} {b}")))
    });
    let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    thread.start(()).await.unwrap();
    assert_eq!(listed(&thread).await, ["1 2"]);
}

#[tokio::test]
async fn names_that_the_engine_uses_are_refused() {
    assert_snapshot!(error_of(one_node!(|cx| {
        cx.step("__log__", async { Io::Ok(1u32) }).await?;
        Ok(Update::new())
    })).await, @"node `n` failed: `__log__` cannot be the name of a step or routine: `__` at the start is the engine's, `|` and `:` part namespaces");
    for name in ["__edit__", "a|b", "n:0"] {
        let routine = Routine::new(name, |n: u32, _: Context| async move { Ok(n) });
        let call = move |(): (), cx: Context| {
            let routine = routine.clone();
            async move {
                cx.call(&routine, 1).await?;
                Ok(Update::new())
            }
        };
        let error = error_of(builder().node(N, call).entry(N).build().unwrap()).await;
        assert!(error.contains("cannot be the name"), "{error}");
    }
}

fn asking() -> Graph<()> {
    let ask = |(): (), cx: Context| async move {
        let answer: bool = cx.interrupt("sure?").await;
        Ok(Update::new().put(LIST, vec![answer.to_string()]))
    };
    builder()
        .named("inner", 1)
        .node(ASK, ask)
        .entry(ASK)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_wrong_answer_to_what_is_nested_is_nobodys_failure() {
    let attempts = Arc::new(AtomicU32::new(0));
    let (inner, counted) = (asking(), Arc::clone(&attempts));
    let in_node = move |(): (), cx: Context| {
        counted.fetch_add(1, Ordering::Relaxed);
        let inner = inner.clone();
        async move {
            cx.run(&inner, ()).await?;
            Ok(line("done"))
        }
    };
    let routine = Routine::new("r", |(): (), cx: Context| async move {
        Ok(cx.interrupt::<bool>("sure?").await)
    });
    let in_routine = move |(): (), cx: Context| {
        let routine = routine.clone();
        async move {
            cx.call(&routine, ()).await?;
            Ok(line("done"))
        }
    };
    let rescue = |(): (), failure: NodeFailure, _: Context| async move {
        Ok(line(format!("rescued from {failure:?}")))
    };
    let policy = || Policy::new().retry(Retry::times(4).on(|_| true));
    let graphs = [
        builder().node(N, in_node),
        builder().node(N, in_routine),
        builder().subgraph(N, &asking()),
    ];
    for (at, graph) in graphs.into_iter().enumerate() {
        let graph = graph
            .on_error(N, rescue)
            .policy(N, policy())
            .entry(N)
            .build()
            .unwrap();
        let thread = graph.thread(&MemoryCheckpointer::new(), "t");
        let asks = thread.start(()).await.unwrap();
        let error = thread
            .resume([asks.asks()[0].answer(17)])
            .await
            .unwrap_err();
        assert!(error.to_string().contains("answer"), "{at}: {error}");
        assert_eq!(listed(&thread).await, Vec::<String>::new(), "{at}");
        // The question stands.
        let ended = thread.resume([asks.asks()[0].answer(true)]).await;
        assert!(matches!(ended, Ok(Outcome::Done(()))), "{at}: {ended:?}");
    }
    assert_eq!(attempts.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_change_by_hand_does_not_make_a_run_forgotten() {
    let graph = one_node!(|_cx| Ok(line("ran")));
    for change in ["none", "update", "copy", "finish"] {
        let thread = graph.thread(&MemoryCheckpointer::new(), "t");
        thread.start(line("in")).id("r1").await.unwrap();
        match change {
            "update" => drop(
                thread
                    .update(StateUpdate::new(line("hand")).as_node(N))
                    .await
                    .unwrap(),
            ),
            "copy" => drop(thread.copy_checkpoint().await.unwrap()),
            "finish" => drop(thread.finish_waiting().await.unwrap()),
            _ => {}
        }
        thread.start(line("in")).id("r1").await.unwrap();
        let count = listed(&thread)
            .await
            .iter()
            .filter(|text| *text == "in")
            .count();
        assert_eq!(count, 1, "{change}");
        // Another run is another run.
        thread.start(line("in")).id("r2").await.unwrap();
        let count = listed(&thread)
            .await
            .iter()
            .filter(|text| *text == "in")
            .count();
        assert_eq!(count, 2, "{change}");
    }
}

#[tokio::test]
async fn what_a_cancelled_node_holds_without_polling_it_is_stored() {
    let ran = Arc::new(tokio::sync::Semaphore::new(0));
    let (inner_ran, m) = (Arc::clone(&ran), M);
    let inner = builder()
        .named("inner", 1)
        .node(N, |(): (), _: Context| async { Ok(line("first")) })
        .node(m.clone(), move |(): (), _: Context| {
            inner_ran.add_permits(1);
            std::future::pending()
        })
        .entry(N)
        .edge(N, m)
        .build()
        .unwrap();
    let holds = Arc::new(tokio::sync::Notify::new());
    let (tell, both) = (Arc::clone(&holds), Arc::clone(&ran));
    let hold = move |(): (), cx: Context| {
        let (inner, tell, both) = (inner.clone(), Arc::clone(&tell), Arc::clone(&both));
        async move {
            let run = |at: u32| {
                let (cx, inner, both) = (cx.clone(), inner.clone(), Arc::clone(&both));
                async move {
                    match at {
                        // Until the two others are at their second nodes.
                        0 => {
                            both.acquire_many(2).await.unwrap().forget();
                            Ok(())
                        }
                        _ => cx.run(&inner, ()).await,
                    }
                }
            };
            let mut held = futures::stream::iter(0..3).map(run).buffered(3);
            held.next().await;
            tell.notify_one();
            std::future::pending::<()>().await;
            Ok(Update::new())
        }
    };
    let graph = builder().node(N, hold).entry(N).build().unwrap();
    let control = Control::new();
    let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    let run = tokio::spawn({
        let (thread, control) = (thread.clone(), control.clone());
        async move {
            thread
                .start(())
                .control(&control)
                .await
                .map_err(|error| error.to_string())
        }
    });
    holds.notified().await;
    control.cancel();
    assert_snapshot!(run.await.unwrap().unwrap_err(), @"the run on thread `t` was cancelled");
}

#[tokio::test]
async fn of_several_tasks_that_leave_for_the_parent_all_are_heard() {
    let leave = |text: &'static str| {
        move |(): (), _: Context| async move { Ok(Update::new().in_parent(line(text))) }
    };
    let inner = builder()
        .named("inner", 1)
        .node(N, leave("n"))
        .node(M, leave("m"))
        .entry(M)
        .entry(N)
        .build()
        .unwrap();
    let graph = builder().subgraph(N, &inner).entry(N).build().unwrap();
    let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    thread.start(()).await.unwrap();
    assert_eq!(listed(&thread).await, ["m", "n"]);
}

#[tokio::test]
async fn what_a_routine_runs_can_be_looked_at() {
    let inner = asking();
    let runs = inner.clone();
    let routine = Routine::new("r", move |(): (), cx: Context| {
        let inner = runs.clone();
        async move { cx.run(&inner, ()).await.map_err(NodeError::from) }
    });
    let call = move |(): (), cx: Context| {
        let routine = routine.clone();
        async move {
            cx.call(&routine, ()).await?;
            Ok(Update::new())
        }
    };
    let graph = builder()
        .node(N, call)
        .calls(N, &inner)
        .entry(N)
        .build()
        .unwrap();
    let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    let asks = thread.start(()).await.unwrap();
    let nested = thread.nested(asks.asks()[0].namespace.as_str()).unwrap();
    let state = nested.state().await.unwrap();
    assert_eq!(
        state.next().map(ToString::to_string).collect::<Vec<_>>(),
        ["ask"]
    );
    thread.resume([asks.asks()[0].answer(true)]).await.unwrap();
}

#[tokio::test]
async fn a_thread_begun_anew_under_a_run_is_not_its_own_any_more() {
    let graph = builder()
        .node(N, |(): (), cx: Context| async move {
            let run = cx.run_id().unwrap_or_default().to_owned();
            if run == "first" {
                cx.emit("waits");
                std::future::pending::<()>().await;
            }
            Ok(line(run))
        })
        .entry(N)
        .build()
        .unwrap();
    for stops in [true, false] {
        let gate = Arc::new(tokio::sync::Notify::new());
        let opened = Arc::clone(&gate);
        let waits = builder()
            .node(N, move |(): (), _: Context| {
                let opened = Arc::clone(&opened);
                async move {
                    opened.notified().await;
                    Ok(line("first"))
                }
            })
            .entry(N)
            .build()
            .unwrap();
        let store = MemoryCheckpointer::new();
        let thread = waits.thread(&store, "t");
        let mut first = thread.start(line("in1")).stream(Modes::CHECKPOINTS);
        // Its input is stored.
        first.next().await;
        first.next().await;
        let other = graph.thread(&store, "t");
        other.delete().await.unwrap();
        let second = other.start(line("in2")).id("second");
        match stops {
            true => drop(second.stop_before(["n"]).await.unwrap()),
            false => drop(second.await.unwrap()),
        }
        gate.notify_one();
        while first.next().await.is_some() {}
        let error = first.outcome().await.unwrap_err();
        assert!(matches!(error, RunError::ThreadConflict(_)), "{error}");
        assert_eq!(listed(&other).await[0], "in2");
    }
}

#[tokio::test]
async fn events_of_a_run_that_is_stored_at_its_end_are_all_there() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let talk = |(): (), cx: Context| async move {
            cx.emit(&format!("n {}", cx.superstep()));
            Ok(line("n"))
        };
        let ask = |(): (), cx: Context| async move {
            cx.emit("before");
            let _: bool = cx.interrupt("?").await;
            cx.emit("after");
            Ok(line("m"))
        };
        let graph = builder()
            .node(N, talk)
            .node(M, ask)
            .entry(N)
            .edge(N, M)
            .build()
            .unwrap();
        let thread = graph.thread(&MemoryCheckpointer::new(), "t");
        let mut told = Vec::new();
        let runs = [thread.start(()), thread.resume([Answer::only(true)])];
        for run in runs {
            let run = run.durability(durability).log(Modes::CUSTOM);
            let mut stream = run.stream(Modes::CUSTOM);
            while let Some(part) = stream.next().await {
                told.push(format!("{:?}", part.event));
            }
            stream.outcome().await.unwrap();
        }
        let events = thread.events(None, 99).await.unwrap();
        let stored: Vec<_> = events
            .iter()
            .map(|logged| logged.part.0["data"].clone())
            .collect();
        assert_eq!(stored.len(), told.len(), "{durability:?} {stored:?}");
        // Read on one by one, they are the same.
        let (mut after, mut again) = (None, Vec::new());
        while let Some(next) = thread.events(after, 1).await.unwrap().pop() {
            after = Some(next.id);
            again.push(next);
        }
        assert_eq!(again, events, "{durability:?}");
    }
}

#[tokio::test]
async fn a_run_that_was_dropped_does_not_get_in_the_way_of_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap();
    let graph = Graph::<()>::builder()
        .channel(DELTA.spec())
        .node(N, |(): (), cx: Context| async move {
            Ok(Update::new().put(DELTA, vec![cx.superstep().to_string()]))
        })
        .entry(N)
        .branch(N, |()| Some(N))
        .build()
        .unwrap();
    for number in 0..20 {
        let thread = graph.thread(&store, format!("t{number}"));
        let run = thread.start(()).durability(Durability::Async).limit(1000);
        let mut stream = run.stream(Modes::UPDATES);
        for _ in 0..20 {
            stream.next().await;
        }
        drop(stream);
        let on = thread
            .proceed()
            .durability(Durability::Async)
            .limit(5)
            .await;
        assert!(matches!(on, Err(RunError::Limit { .. })), "{on:?}");
        let state = thread.state().await.unwrap();
        let steps = state.values.value(DELTA).unwrap().unwrap();
        let expected: Vec<_> = (1..=steps.len()).map(|step| step.to_string()).collect();
        assert_eq!(steps, expected);
    }
}

#[tokio::test]
async fn limits_beyond_all_time_are_none() {
    let policies = [
        Policy::new().idle_timeout(Duration::MAX),
        Policy::new().heartbeat_timeout(Duration::MAX),
        Policy::new().run_timeout(Duration::MAX),
    ];
    for policy in policies {
        let graph = builder()
            .node(N, |(): (), _: Context| async {
                tokio::task::yield_now().await;
                Ok(line("n"))
            })
            .policy(N, policy)
            .entry(N)
            .build()
            .unwrap();
        let thread = graph.thread(&MemoryCheckpointer::new(), "t");
        thread.start(()).await.unwrap();
    }
}

#[tokio::test]
async fn what_an_error_handler_did_counts_for_a_thread_that_waits() {
    let graph = builder()
        .node(N, |(): (), _: Context| async {
            Err::<Update, NodeError>("no".into())
        })
        .on_error(N, |(): (), _: NodeFailure, _: Context| async {
            Ok(line("handled"))
        })
        .node(ASK, |(): (), cx: Context| async move {
            let answer: bool = cx.interrupt("?").await;
            Ok(line(answer.to_string()))
        })
        .entry(ASK)
        .entry(N)
        .build()
        .unwrap();
    let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    thread.start(()).await.unwrap();
    assert_eq!(listed(&thread).await, ["handled"]);
    let other = thread.copy_to("u").await.unwrap();
    other.finish_waiting().await.unwrap();
    assert_eq!(listed(&other).await, ["handled"]);
    thread.resume([Answer::only(true)]).await.unwrap();
    assert_eq!(listed(&thread).await, ["true", "handled"]);
}

#[tokio::test]
async fn graphs_that_share_a_cache_share_no_routines() {
    let cache = MemoryCache::new(1_000_000);
    for what in ["A", "B"] {
        let cached = Policy::new().cached(Cached::new(&cache));
        let routine = Routine::new(
            "r",
            move |(): (), _: Context| async move { Ok(what.to_owned()) },
        );
        let routine = routine.policy(cached);
        let call = move |(): (), cx: Context| {
            let routine = routine.clone();
            async move { Ok(line(cx.call(&routine, ()).await?)) }
        };
        let graph = builder()
            .named(what, 1)
            .node(N, call)
            .entry(N)
            .build()
            .unwrap();
        let thread = graph.thread(&MemoryCheckpointer::new(), "t");
        thread.start(()).await.unwrap();
        assert_eq!(listed(&thread).await, [what]);
    }
}

#[tokio::test]
async fn an_edit_of_a_delta_channel_can_be_explained() {
    for durability in [Durability::Sync, Durability::Exit] {
        let graph = Graph::<()>::builder()
            .channel(DELTA.spec())
            .node(ASK, |(): (), cx: Context| async move {
                let answer: bool = cx.interrupt("?").await;
                Ok(Update::new().put(DELTA, vec![answer.to_string()]))
            })
            .entry(ASK)
            .edge(ASK, N)
            .node(N, |(): (), _: Context| async {
                Ok(Update::new().put(DELTA, vec!["n".into()]))
            })
            .build()
            .unwrap();
        let thread = graph.thread(&MemoryCheckpointer::new(), "t");
        let input = Update::new().put(DELTA, vec!["in".into()]);
        thread.start(input).durability(durability).await.unwrap();
        let edit = Update::new().put(DELTA, vec!["edit".into()]);
        thread
            .command(edit, [])
            .durability(durability)
            .await
            .unwrap();
        thread
            .resume([Answer::only(true)])
            .durability(durability)
            .await
            .unwrap();
        for at in thread.history(99).await.unwrap() {
            let at = thread.at(at.checkpoint.unwrap());
            at.explain().await.unwrap();
            at.state().await.unwrap();
        }
        thread.explain().await.unwrap();
        let state = thread.state().await.unwrap();
        assert_eq!(
            state.values.value(DELTA).unwrap().unwrap(),
            ["in", "edit", "true", "n"]
        );
    }
}

#[tokio::test]
async fn conditions_that_read_alike_lead_each_to_its_own() {
    use superstep::document::{Document, Registry};
    let registry = Registry::new()
        .kind("put", |with: serde_json::Value| {
            Ok(move |_: Json, _: Context| {
                let with = with.clone();
                async move { Ok(Update::from(Json(with))) }
            })
        })
        .condition("urgent", |_: serde_json::Value| {
            Ok(|_: &serde_json::Value| false)
        });
    let ends = async |when: serde_json::Value, input: serde_json::Value| {
        let put = |name: &str| json!({ "name": name, "kind": "put", "with": { "out": name } });
        let document = json!({
            "name": "g",
            "channels": {
                "out": { "rule": "reduce", "fold": "append" }, "else": { "rule": "last" },
                "urgent": { "rule": "last" }, "a": { "rule": "last" }, "b": { "rule": "last" },
                "a and b": { "rule": "last" }, "else (2)": { "rule": "last" },
            },
            "nodes": [{ "name": "s", "kind": "put", "with": {} }, put("X"), put("Y"), put("Z")],
            "entries": ["s"],
            "branches": [{ "from": "s", "when": when, "else": "Z" }],
        });
        let document = Document::from_json(&document.to_string()).unwrap();
        let graph = document.build(&registry).unwrap();
        let done = graph.detached().start(Json(input)).await.unwrap().done();
        done.unwrap().0["out"].to_string()
    };
    let truthy = |channel: &str| json!({ "truthy": channel });
    let case = |holds: serde_json::Value, to: &str| json!({ "if": holds, "to": to });
    let named_else = json!([case(truthy("else"), "X"), case(truthy("else (2)"), "Y")]);
    assert_snapshot!(ends(named_else.clone(), json!({ "else": true })).await, @r#"["X"]"#);
    assert_snapshot!(ends(named_else.clone(), json!({ "else (2)": true })).await, @r#"["Y"]"#);
    assert_snapshot!(ends(named_else, json!({})).await, @r#"["Z"]"#);
    let call = json!({ "call": { "name": "urgent" } });
    let alike = json!([case(call, "X"), case(truthy("urgent"), "Y")]);
    assert_snapshot!(ends(alike, json!({ "urgent": true })).await, @r#"["Y"]"#);
    let both = json!({ "all": [truthy("a"), truthy("b")] });
    let alike = json!([case(both, "X"), case(truthy("a and b"), "Y")]);
    assert_snapshot!(ends(alike, json!({ "a and b": true })).await, @r#"["Y"]"#);
    // A channel that stands twice is one too many.
    let twice = r#"{ "name": "g", "channels": { "a": { "rule": "last" }, "a": { "rule": "any" } }, "nodes": [], "entries": [] }"#;
    assert_snapshot!(Document::from_json(twice).unwrap_err(), @"
    the document is no graph:
    - at `channels`: channel `a` is there twice at line 1 column 78
    ");
}
