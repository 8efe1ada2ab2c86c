//! Runs that end before the graph is done, and what can be done then.

use std::sync::Arc;

use superstep::checkpoint::{Checkpointer, SqliteCheckpointer};
use superstep::prelude::*;
use superstep::{Breakpoints, TaskError};
use tokio::sync::Barrier;

use super::{
    Count, Log, alone, chain, done, line, linked, log, message, named, node, nodes, paused,
};

fn names(outcome: Result<Outcome<Log>, RunError>) -> Vec<String> {
    match outcome {
        Ok(Outcome::Breakpoint(nodes)) => nodes.iter().map(ToString::to_string).collect(),
        other => panic!("no breakpoint: {other:?}"),
    }
}

#[tokio::test]
async fn a_limit_is_exact_and_the_run_can_go_on() {
    let graph = chain(&["a", "b", "c", "d"]).build().unwrap();
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let error = thread.start(Log::default()).limit(2).await.unwrap_err();
    insta::assert_snapshot!(error, @"not done after 2 supersteps; due next: c");
    let state = thread.state().await.unwrap();
    assert_eq!(state.read::<Log>().unwrap(), log(&["a", "b"]));
    // As many as are left are enough: nothing more is due after them.
    assert_eq!(
        done(thread.proceed().limit(2).await),
        log(&["a", "b", "c", "d"])
    );
    assert_eq!(
        done(thread.proceed().limit(0).await),
        log(&["a", "b", "c", "d"])
    );
}

#[tokio::test]
async fn a_breakpoint_before_a_node_stops_once() {
    let graph = chain(&["a", "b", "c"]).build().unwrap();
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    assert_eq!(
        names(thread.start(Log::default()).stop_before(["b"]).await),
        ["b"]
    );
    let state = thread.state().await.unwrap();
    assert_eq!(state.read::<Log>().unwrap(), log(&["a"]));
    assert_eq!(state.next().collect::<Vec<_>>(), ["b"]);
    assert_eq!(
        done(thread.proceed().stop_before(["b"]).await),
        log(&["a", "b", "c"])
    );
}

#[tokio::test]
async fn a_breakpoint_after_a_node_has_its_result() {
    let graph = chain(&["a", "b", "c"]).build().unwrap();
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    assert_eq!(
        names(thread.start(Log::default()).stop_after(["b", "c"]).await),
        ["b"]
    );
    assert_eq!(
        thread.state().await.unwrap().read::<Log>().unwrap(),
        log(&["a", "b"])
    );
    assert_eq!(names(thread.proceed().stop_after(["b", "c"]).await), ["c"]);
    assert_eq!(done(thread.proceed().await), log(&["a", "b", "c"]));
}

#[tokio::test]
async fn breakpoints_everywhere_make_a_run_of_single_steps() {
    let graph = chain(&["a", "b"]).build().unwrap();
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    assert_eq!(
        names(
            thread
                .start(Log::default())
                .stop_before(Breakpoints::All)
                .await
        ),
        ["a"]
    );
    assert_eq!(
        names(thread.proceed().stop_before(Breakpoints::All).await),
        ["b"]
    );
    assert_eq!(
        done(thread.proceed().stop_before(Breakpoints::All).await),
        log(&["a", "b"])
    );
}

#[tokio::test]
async fn a_panic_is_a_failure_of_its_task_alone() {
    let count = Count::default();
    let panics = {
        let count = count.clone();
        move |_: Log, _: Context| {
            let first = count.one_more() == 1;
            async move {
                assert!(!first, "out of luck");
                Ok(line("recovered"))
            }
        }
    };
    let sibling = Count::default();
    let counted = {
        let sibling = sibling.clone();
        move |log: Log, cx: Context| {
            sibling.one_more();
            named(log, cx)
        }
    };
    let graph = Graph::<Log>::builder()
        .node(node("a"), counted)
        .node(node("b"), panics)
        .entry(node("a"))
        .entry(node("b"))
        .build()
        .unwrap();
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let Err(RunError::Tasks(failures)) = thread.start(Log::default()).await else {
        panic!("the panic went unnoticed");
    };
    insta::assert_snapshot!(failures[0], @"node `b` failed: panicked: out of luck");
    assert!(matches!(
        failures[..],
        [superstep::Failure {
            error: TaskError::Panicked(_),
            ..
        }]
    ));
    let tasks = thread.state().await.unwrap().tasks;
    let seen: Vec<_> = tasks
        .iter()
        .map(|t| (&*t.node, t.finished, t.error.as_deref()))
        .collect();
    assert_eq!(
        seen,
        [
            ("a", true, None),
            ("b", false, Some("panicked: out of luck"))
        ]
    );
    assert_eq!(done(thread.proceed().await), log(&["a", "recovered"]));
    assert_eq!(sibling.get(), 1);
}

#[tokio::test]
async fn an_error_is_told_with_its_causes() {
    #[derive(Debug, thiserror::Error)]
    #[error("the page is missing")]
    struct Missing(#[source] std::io::Error);
    let graph = alone(|_: Log, _: Context| async {
        Err(Missing(std::io::Error::other("the disk is full")).into())
    });
    let error = graph.detached().start(Log::default()).await;
    insta::assert_snapshot!(message(error), @"node `only` failed: the page is missing: the disk is full");
}

#[tokio::test]
async fn going_on_needs_something_to_go_on_from() {
    let graph = chain(&["a"]).build().unwrap();
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "report-7");
    insta::assert_snapshot!(message(thread.proceed().await), @"thread `report-7` is empty: give it input first");
    let command = thread.command(line("x"), []).await;
    assert_eq!(message(command), message(thread.proceed().await));
    let unknown = thread
        .at(superstep::checkpoint::CheckpointId(9))
        .proceed()
        .await;
    insta::assert_snapshot!(message(unknown), @"thread `report-7` has no checkpoint 9");
}

/// Two runs take up one thread at the same moment: their node waits until both are in it.
async fn race<C: Checkpointer + Clone + 'static>(store: &C) {
    let both = Arc::new(Barrier::new(2));
    let builder = nodes(&["a"]).node(node("meet"), move |_: Log, _: Context| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            Ok(line("met"))
        }
    });
    let graph = linked(builder, &["a", "meet"]).build().unwrap();
    let (one, other) = (graph.thread(store, "t"), graph.thread(store, "t"));
    assert_eq!(
        names(one.start(Log::default()).stop_before(["meet"]).await),
        ["meet"]
    );

    let (one_end, other_end) =
        tokio::join!(one.proceed().into_future(), other.proceed().into_future());
    let (won, lost): (Vec<_>, Vec<_>) = [one_end, other_end].into_iter().partition(Result::is_ok);
    let expected = log(&["a", "met"]);
    assert_eq!(
        won.into_iter().map(done).collect::<Vec<_>>(),
        [expected.clone()]
    );
    let lost: Vec<_> = lost.into_iter().map(Result::unwrap_err).collect();
    assert!(
        matches!(lost[..], [RunError::ThreadConflict(_)]),
        "{lost:?}"
    );
    assert_eq!(done(other.proceed().await), expected);
    assert_eq!(one.history(10).await.unwrap().len(), 4);
}

#[tokio::test]
async fn of_two_runs_on_one_thread_one_wins_and_nothing_is_lost() {
    race(&MemoryCheckpointer::new()).await;
    let folder = tempfile::tempdir().unwrap();
    race(&SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap()).await;
}

#[tokio::test]
async fn new_input_drops_what_an_earlier_run_left_unfinished() {
    let graph = chain(&["a", "b"]).node(node("asks"), super::asking);
    let graph = graph.edge(node("b"), node("asks")).build().unwrap();
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let old = paused(thread.start(log(&["first"])).await);
    let new = paused(thread.start(log(&["second"])).await);
    assert_ne!(old[0].id, new[0].id);
    let state = thread.state().await.unwrap();
    assert_eq!(
        state.read::<Log>().unwrap(),
        log(&["first", "a", "b", "second", "a", "b"])
    );
    assert_eq!(state.asks().collect::<Vec<_>>(), [&new[0]]);
}
