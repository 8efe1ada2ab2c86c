//! Durable steps, routines that nodes call, and entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{join_all, try_join_all};
use insta::assert_snapshot;
use serde_json::json;
use superstep::channels::{ChannelSpec, Json, Value};
use superstep::checkpoint::{Kind, SqliteCheckpointer};
use superstep::entry::Entry;
use superstep::prelude::*;
use superstep::{NodeError, Policy, Retry, Routine};

const A: Node<Json> = Node::new("a");

fn builder() -> superstep::GraphBuilder<Json> {
    Graph::<Json>::builder().channel(ChannelSpec::reduce::<Vec<String>, _>("log", append))
}

fn logged(text: &str) -> Update {
    Update::new().put_value("log", Value::new(vec![text.to_owned()]))
}

/// A graph of one node.
fn graph<F, T>(node: F) -> Graph<Json>
where
    F: Fn(Json, Context) -> T + Send + Sync + 'static,
    T: Future<Output = NodeResult> + Send + 'static,
{
    builder().node(A, node).entry(A).build().unwrap()
}

/// Counts, and gives how often it has by now.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    async fn up(self) -> Result<usize, NodeError> {
        Ok(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_step_happens_once_although_its_node_runs_again() {
    let (charged, sent) = (Count::default(), Count::default());
    let (charge, send) = (charged.clone(), sent.clone());
    let pay = move |_: Json, cx: Context| {
        let (charge, send) = (charge.clone(), send.clone());
        async move {
            let receipt = cx.step("charge", charge.up()).await?;
            let yes: bool = cx.interrupt(&receipt).await;
            cx.step("send", send.up()).await?;
            if cx.attempt() < 3 {
                return Err("the line was cut".into());
            }
            Ok(logged(&format!("{receipt} {yes}")))
        }
    };
    let build = || {
        let retry = Retry::times(3).backoff(Default::default(), 1.0, Default::default());
        builder()
            .node(A, pay.clone())
            .policy(A, Policy::new().retry(retry))
            .entry(A)
            .build()
            .unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("threads.db");
    let saver = SqliteCheckpointer::open(&path).unwrap();
    let asks = build()
        .thread(&saver, "t")
        .start(Update::new())
        .await
        .unwrap();
    drop(saver);
    let saver = SqliteCheckpointer::open(&path).unwrap();
    let thread = build().thread(&saver, "t");
    // The attempts of one run share no journal but what is stored; each finds the charge of the first run.
    let ended = thread.resume([asks.asks()[0].answer(true)]).await;
    assert_eq!(charged.get(), 1);
    assert_eq!(ended.unwrap().done().unwrap().0["log"], json!(["1 true"]));
    assert_eq!(sent.get(), 1);
}

#[tokio::test]
async fn a_step_in_another_order_or_of_another_type_is_an_error() {
    let saver = MemoryCheckpointer::new();
    let first = graph(|_: Json, cx: Context| async move {
        cx.step("one", async { Ok::<_, NodeError>(1u32) }).await?;
        cx.interrupt::<u32>("?").await;
        Ok(Update::new())
    });
    let asks = first
        .thread(&saver, "t")
        .start(Update::new())
        .await
        .unwrap();
    let answer = || asks.asks()[0].answer(1);
    let renamed = graph(|_: Json, cx: Context| async move {
        cx.step("other", async { Ok::<_, NodeError>(1u32) }).await?;
        Ok(Update::new())
    });
    let retyped = graph(|_: Json, cx: Context| async move {
        cx.step("one", async { Ok::<_, NodeError>("text".to_owned()) })
            .await?;
        Ok(Update::new())
    });
    assert_snapshot!(renamed.thread(&saver, "t").resume([answer()]).await.unwrap_err(), @"node `a` failed: it now comes to `other` where `one` is stored: steps and calls must come in the same order every time");
    assert_snapshot!(retyped.thread(&saver, "t").proceed().await.unwrap_err(), @"node `a` failed: the result of `one` cannot be kept: String: what is stored is a `u32`");
    // With the first graph it goes on.
    assert!(
        first
            .thread(&saver, "t")
            .proceed()
            .await
            .unwrap()
            .done()
            .is_some()
    );
}

#[tokio::test]
async fn routines_side_by_side_all_get_done_although_one_asks_and_one_fails() {
    let runs = Count::default();
    let counted = runs.clone();
    let work = Routine::new("work", move |item: u32, cx: Context| {
        let counted = counted.clone();
        async move {
            counted.up().await?;
            match item {
                0 => Ok(cx.interrupt::<u32>("0?").await),
                1 => Err("1 fails".into()),
                _ => {
                    tokio::task::yield_now().await;
                    Ok(10 * item)
                }
            }
        }
    });
    let graph = graph(move |_: Json, cx: Context| {
        let work = work.clone();
        async move {
            let calls = (0..4).map(|item| cx.call(&work, item));
            let given = join_all(calls).await;
            let shown: Vec<_> = given.iter().map(|given| format!("{given:?}")).collect();
            Ok(logged(&shown.join(", ")))
        }
    });
    let saver = MemoryCheckpointer::new();
    let asks = graph
        .thread(&saver, "t")
        .start(Update::new())
        .await
        .unwrap();
    assert_eq!((asks.asks().len(), runs.get()), (1, 4));
    let thread = graph.thread(&saver, "t");
    let done = thread
        .resume([asks.asks()[0].answer(5)])
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_snapshot!(done.0["log"][0].as_str().unwrap(), @r#"Ok(5), Err(Node("1 fails")), Ok(20), Ok(30)"#);
    // Only what asked and what failed ran again.
    assert_eq!(runs.get(), 6);
}

#[tokio::test]
async fn a_routine_has_a_policy_and_calls_others() {
    let tries = Count::default();
    let counted = tries.clone();
    let inner = Routine::new("inner", move |item: u32, cx: Context| {
        let counted = counted.clone();
        async move {
            counted.up().await?;
            match cx.attempt() {
                1 => Err("once more".into()),
                attempt => Ok(item + attempt),
            }
        }
    })
    .policy(Policy::new().retry(Retry::times(2).backoff(
        Default::default(),
        1.0,
        Default::default(),
    )));
    let outer = Routine::new("outer", move |item: u32, cx: Context| {
        let inner = inner.clone();
        async move {
            let both = try_join_all([cx.call(&inner, item), cx.call(&inner, item + 10)]).await?;
            Ok(both.iter().sum::<u32>())
        }
    });
    let graph = graph(move |_: Json, cx: Context| {
        let outer = outer.clone();
        async move { Ok(logged(&cx.call(&outer, 1).await?.to_string())) }
    });
    let done = graph
        .detached()
        .start(Update::new())
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(done.0["log"], json!(["16"]));
    assert_eq!(tries.get(), 4);
}

#[tokio::test]
async fn a_failure_of_a_routine_is_found_where_its_call_is_awaited() {
    let bad = Routine::new("bad", |_: (), _: Context| async {
        Err::<u32, _>("broken".into())
    });
    let caught = {
        let bad = bad.clone();
        graph(move |_: Json, cx: Context| {
            let bad = bad.clone();
            async move { Ok(logged(&cx.call(&bad, ()).await.unwrap_err().to_string())) }
        })
    };
    let done = caught
        .detached()
        .start(Update::new())
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(done.0["log"], json!(["broken"]));
    let uncaught = graph(move |_: Json, cx: Context| {
        let bad = bad.clone();
        async move { Ok(logged(&cx.call(&bad, ()).await?.to_string())) }
    });
    assert_snapshot!(uncaught.detached().start(Update::new()).await.unwrap_err(), @"node `a` failed: broken");
}

#[tokio::test]
async fn a_panic_in_a_routine_is_its_failure() {
    let bad = Routine::new("bad", |_: (), _: Context| async {
        if true {
            panic!("ouch");
        }
        Ok(1u32)
    });
    let graph = graph(move |_: Json, cx: Context| {
        let bad = bad.clone();
        async move { Ok(logged(&cx.call(&bad, ()).await.unwrap_err().to_string())) }
    });
    let done = graph
        .detached()
        .start(Update::new())
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(done.0["log"], json!(["panicked: ouch"]));
}

#[tokio::test]
async fn an_entry_takes_what_its_last_run_left_and_is_paused_like_any_graph() {
    let flow = Entry::saving(
        "flow",
        |more: u32, left: Option<u32>, cx: Context| async move {
            let asked: u32 = cx.interrupt(&left).await;
            Ok((format!("{left:?} {more} {asked}"), more + asked))
        },
    )
    .unwrap();
    let saver = MemoryCheckpointer::new();
    let thread = flow.thread(&saver, "t");
    let mut results = Vec::new();
    for (more, answer) in [(1, 10), (2, 20)] {
        let asks = thread.start(flow.call(more)).await.unwrap();
        let ended = thread
            .resume([asks.asks()[0].answer(answer)])
            .await
            .unwrap();
        results.push(ended.done().unwrap().result.unwrap());
    }
    assert_eq!(results, ["None 1 10", "Some(11) 2 20"]);
}

#[tokio::test]
async fn thousands_of_steps_cost_what_they_are() {
    let graph = graph(|_: Json, cx: Context| async move {
        let mut sum = 0u64;
        for number in 0..2000u64 {
            sum += cx
                .step("add", async move { Ok::<_, NodeError>(number) })
                .await?;
        }
        cx.interrupt::<u32>("?").await;
        Ok(logged(&sum.to_string()))
    });
    let saver = MemoryCheckpointer::new();
    use superstep::checkpoint::Checkpointer as _;
    let asks = graph
        .thread(&saver, "t")
        .start(Update::new())
        .await
        .unwrap();
    // Each is stored once, on its own.
    let bytes = saver.size("t").await.unwrap().bytes_of(Kind::Task);
    assert!((2000 * 10..2000 * 60).contains(&bytes), "{bytes}");
    let done = graph
        .thread(&saver, "t")
        .resume([asks.asks()[0].answer(1)])
        .await
        .unwrap();
    assert_eq!(done.done().unwrap().0["log"], json!(["1999000"]));
}
