//! Many at once: threads on one store, processes on one thread.

use std::path::Path;

use serde_json::json;
use superstep::channels::{ChannelSpec, Json, Value};
use superstep::checkpoint::SqliteCheckpointer;
use superstep::prelude::*;
use superstep::{Durability, RunError};

use crate::process::{assignment, block_on, run};

const STEP: Node<Json> = Node::new("step");

/// Counts to a number, a superstep for each.
fn counter(to: u64) -> Graph<Json> {
    Graph::<Json>::builder()
        .channel(ChannelSpec::reduce::<u64, u64>(
            "count",
            |count: &mut u64, one| *count += one,
        ))
        .node(STEP, |_: Json, _: Context| async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            Ok(Update::new().put_value("count", Value::new(1u64)))
        })
        .entry(STEP)
        .branch(STEP, move |Json(state): Json| {
            (state["count"].as_u64() < Some(to)).then_some(STEP)
        })
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_threads_at_once_on_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let saver = SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap();
    let graph = counter(3);
    let runs = (0..1000).map(|number| {
        let thread = graph.thread(&saver, format!("t{number}"));
        tokio::spawn(async move { thread.start(Update::new()).await.unwrap().done().unwrap().0 })
    });
    for ended in futures::future::join_all(runs.collect::<Vec<_>>()).await {
        assert_eq!(ended.unwrap(), json!({ "count": 3 }));
    }
}

/// Runs the thread until it has counted to a hundred, whoever else does: the order is the durability.
#[test]
#[ignore = "a process of its own, which the test below starts"]
fn writer() {
    let (folder, order) = assignment();
    let durability = match order.as_str() {
        "Async" => Durability::Async,
        "Exit" => Durability::Exit,
        _ => Durability::Sync,
    };
    let saver = SqliteCheckpointer::open(folder.join("threads.db")).unwrap();
    let thread = counter(100).thread(&saver, "t");
    block_on(async {
        loop {
            match thread.proceed().durability(durability).await {
                Ok(outcome) => break assert!(outcome.done().is_some()),
                Err(RunError::ThreadConflict(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
}

fn left(folder: &Path) -> (u64, Vec<i64>) {
    let saver = SqliteCheckpointer::open(folder.join("threads.db")).unwrap();
    let thread = counter(100).thread(&saver, "t");
    let history = block_on(thread.history(1000)).unwrap();
    let count = history[0].values.json().unwrap()["count"].as_u64().unwrap();
    (count, history.iter().map(|state| state.step).collect())
}

/// Each superstep is one update of the count, so a lost or a doubled one would show in it.
#[test]
fn two_processes_on_one_thread_lose_nothing_and_double_nothing() {
    for durability in ["Sync", "Async", "Exit"] {
        let folder = tempfile::tempdir().unwrap();
        let saver = SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap();
        let stopped = block_on(
            counter(100)
                .thread(&saver, "t")
                .start(Update::new())
                .limit(1)
                .into_future(),
        );
        assert!(matches!(stopped, Err(RunError::Limit { .. })));
        drop(saver);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert!(run("crowd::writer", folder.path(), durability).success()));
            }
        });
        let (count, steps) = left(folder.path());
        assert_eq!(count, 100, "{durability}");
        let mut expected: Vec<i64> = (-1..=100).rev().collect();
        if durability == "Exit" {
            expected.retain(|step| *step <= 1 || *step == 100);
        }
        assert_eq!(steps, expected, "{durability}");
    }
}

#[tokio::test]
async fn of_two_runs_at_once_one_conflicts_and_nothing_is_lost() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let saver = MemoryCheckpointer::new();
        let graph = counter(5);
        let (one, two) = (graph.thread(&saver, "t"), graph.thread(&saver, "t"));
        let (one, two) = tokio::join!(
            one.start(Update::new())
                .durability(durability)
                .into_future(),
            two.start(Update::new())
                .durability(durability)
                .into_future(),
        );
        let conflicts = [&one, &two].map(|ended| matches!(ended, Err(RunError::ThreadConflict(_))));
        assert_eq!(
            conflicts.iter().filter(|conflict| **conflict).count(),
            1,
            "{durability:?}"
        );
        let state = graph.thread(&saver, "t").state().await.unwrap();
        assert_eq!(
            state.values.json().unwrap(),
            json!({ "count": 5 }),
            "{durability:?}"
        );
    }
}
