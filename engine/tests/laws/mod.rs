//! What holds for every graph, tried on random ones.

mod world;

use std::collections::BTreeMap;

use futures::StreamExt;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::{Value as JsonValue, json};
use superstep::channels::{Json, Name};
use superstep::checkpoint::{
    CheckpointId, Checkpointer, Listed, Loaded, Place, Size, Source, SqliteCheckpointer,
    StoredTask, TaskId,
};
use superstep::prelude::*;
use superstep::{Failure, RunBuilder, Snapshot, TaskError, Thread};

use crate::process::block_on;
use world::{World, world};

fn input(text: &str) -> Json {
    Json(json!({ "last": text }))
}

/// The thread as a program sees it that was just started.
fn open<C: Checkpointer + Clone + 'static>(world: &World, saver: &C) -> Thread<Json> {
    world.graph().thread(saver, "t")
}

/// How a run ended: with a state, or with an error.
type End = Result<JsonValue, String>;

/// Runs to the end. Every question is answered with 7; a run ends early after each of `limits`, and
/// the thread is opened anew for the next one.
async fn play<C: Checkpointer + Clone + 'static>(
    reopen: impl Fn() -> (World, C),
    limits: &[u32],
    begin: impl FnOnce(Thread<Json>) -> RunBuilder<Json>,
) -> End {
    let open = || {
        let (world, saver) = reopen();
        open(&world, &saver)
    };
    let mut limits = limits.iter();
    let mut run = begin(open());
    loop {
        if let Some(&limit) = limits.next() {
            run = run.limit(limit);
        }
        run = match run.await {
            Ok(Outcome::Done(Json(state))) => return Ok(state),
            Ok(Outcome::Paused(asks)) => open().resume(asks.iter().map(|ask| ask.answer(7))),
            Err(error) if is_limit(&error) => open().proceed(),
            Err(error) => return Err(error.to_string()),
            Ok(other) => unreachable!("{other:?}"),
        };
    }
}

/// Whether the limit ended a run, or one nested in it: those count for themselves.
fn is_limit(error: &RunError) -> bool {
    let nested = |failure: &Failure| match &failure.error {
        TaskError::Node(error) => error.get_ref().downcast_ref().is_some_and(is_limit),
        _ => false,
    };
    match error {
        RunError::Limit { .. } => true,
        RunError::Tasks(failures) => failures.iter().all(nested),
        _ => false,
    }
}

/// What live and reloaded checkpoints have in common.
#[derive(Clone, Debug, PartialEq)]
struct Picture {
    checkpoint: Option<CheckpointId>,
    parent: Option<CheckpointId>,
    source: Option<Source>,
    step: i64,
    values: JsonValue,
    tasks: Vec<(TaskId, Name, Option<usize>)>,
    parents: Vec<(String, CheckpointId)>,
}

/// The untracked channel is stored nowhere, so a reloaded state does not have it.
fn stored(mut values: JsonValue) -> JsonValue {
    values.as_object_mut().unwrap().remove("untracked");
    values
}

impl Picture {
    fn of(snapshot: &Snapshot) -> Self {
        let tasks = snapshot.tasks.iter();
        Picture {
            checkpoint: snapshot.checkpoint,
            parent: snapshot.parent,
            source: snapshot.source,
            step: snapshot.step,
            values: stored(snapshot.values.json().unwrap()),
            tasks: tasks
                .map(|task| {
                    (
                        task.id,
                        task.node.clone(),
                        task.send.as_ref().map(|(at, _)| *at),
                    )
                })
                .collect(),
            parents: snapshot.parents.clone(),
        }
    }
}

/// All records of the thread by checkpoint, down to what each task wrote, asked and became.
async fn records(thread: &Thread<Json>) -> BTreeMap<CheckpointId, String> {
    let history = thread.history(usize::MAX >> 1).await.unwrap();
    let text = |snapshot: Snapshot| (snapshot.checkpoint.unwrap(), format!("{snapshot:#?}"));
    history.into_iter().map(text).collect()
}

/// Everything that a store holds of one place.
#[derive(Debug, PartialEq)]
struct Dump {
    list: Vec<Listed>,
    checkpoints: Vec<(Loaded, Vec<StoredTask>, Vec<(String, Vec<u8>)>)>,
}

/// Everything that a store holds of the thread: the outermost place, those of its tasks, and its size.
async fn dump<C: Checkpointer>(saver: &C) -> (BTreeMap<String, Dump>, Size) {
    let mut places = BTreeMap::new();
    let root = dump_place(saver, &Place::root("t")).await;
    for (_, tasks, _) in &root.checkpoints {
        for task in tasks {
            for node in (1..8).map(|at| format!("n{at}")) {
                let place = Place {
                    namespace: format!("{node}:{}", task.id).into(),
                    ..Place::root("t")
                };
                let dump = dump_place(saver, &place).await;
                if !dump.list.is_empty() {
                    places.insert(place.namespace.to_string(), dump);
                }
            }
        }
    }
    places.insert(String::new(), root);
    (places, saver.size("t").await.unwrap())
}

async fn dump_place<C: Checkpointer>(saver: &C, place: &Place) -> Dump {
    let list = saver.list(place, None, usize::MAX >> 1).await.unwrap();
    let mut checkpoints = Vec::new();
    for Listed { id, .. } in &list {
        let loaded = saver.load(place, Some(*id)).await.unwrap().unwrap();
        let tasks = saver.tasks(place, *id).await.unwrap();
        let mut logs = saver.logs(place, *id).await.unwrap();
        logs.sort();
        checkpoints.push((loaded, tasks, logs));
    }
    Dump { list, checkpoints }
}

/// Runs with all that is told, until the graph is done or fails.
async fn told<C: Checkpointer + Clone + 'static>(world: &World, saver: &C) -> Vec<Event> {
    let mut events = Vec::new();
    let mut run = open(world, saver).start(input("go"));
    loop {
        let mut stream = run.stream(Modes::VALUES | Modes::CHECKPOINTS);
        while let Some(part) = stream.next().await {
            events.push(part.event);
        }
        run = match stream.outcome().await {
            Ok(Outcome::Paused(asks)) => {
                open(world, saver).resume(asks.iter().map(|ask| ask.answer(7)))
            }
            _ => return events,
        };
    }
}

async fn live_is_reloaded<C: Checkpointer + Clone + 'static>(
    world: &World,
    saver: C,
    reopen: impl Fn() -> C,
) -> TestCaseResult {
    let events = told(world, &saver).await;
    drop(saver);
    let saver = reopen();
    let mut live = BTreeMap::new();
    let mut values = None;
    for event in &events {
        match event {
            Event::Values(fields) => values = Some(fields.json().unwrap()),
            Event::Checkpoint(snapshot) => {
                let picture = Picture::of(snapshot);
                if let Some(values) = values.take() {
                    prop_assert_eq!(&values, &picture.values);
                }
                let id = picture.checkpoint.unwrap();
                let named = open(world, &saver).at(id).state().await.unwrap();
                prop_assert_eq!(&picture, &Picture::of(&named));
                live.insert(id, picture);
            }
            // After it come values that no checkpoint holds yet.
            Event::Paused(_) => values = None,
            other => unreachable!("{other:?}"),
        }
    }
    let history = open(world, &saver).history(usize::MAX >> 1).await.unwrap();
    let reloaded: Vec<Picture> = history.iter().rev().map(Picture::of).collect();
    prop_assert_eq!(live.into_values().collect::<Vec<_>>(), reloaded);
    Ok(())
}

async fn forks_leave_the_rest_alone<C: Checkpointer + Clone + 'static>(
    world: &World,
    reopen: impl Fn() -> C,
    forks: &[(prop::sample::Index, bool)],
) -> TestCaseResult {
    let again = || (world.clone(), reopen());
    let first = play(again, &[], |thread| thread.start(input("go"))).await;
    let mut before = records(&open(world, &reopen())).await;
    let of_first: Vec<CheckpointId> = before.keys().copied().collect();
    for (at, anew) in forks {
        let ids: Vec<CheckpointId> = before.keys().copied().collect();
        let at = *at.get(&ids);
        let end = play(again, &[], |thread| match anew {
            true => thread.at(at).start(input("fork")),
            false => thread.at(at).proceed(),
        });
        let end = end.await;
        if !anew && of_first.contains(&at) {
            // The same questions get the same answers, so a replay ends alike.
            prop_assert_eq!(&end, &first, "replay from {}", at);
        }
        let after = records(&open(world, &reopen())).await;
        let old = |id: &CheckpointId| before.contains_key(id);
        let kept = after
            .clone()
            .into_iter()
            .filter(|(id, _)| old(id))
            .collect::<BTreeMap<_, _>>();
        prop_assert_eq!(&kept, &before, "fork at {}", at);
        before = after;
    }
    Ok(())
}

fn limits() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0..4u32, 1..8)
}

fn forks() -> impl Strategy<Value = Vec<(prop::sample::Index, bool)>> {
    prop::collection::vec(any::<(prop::sample::Index, bool)>(), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn live_equals_reloaded(world in world()) {
        let saver = MemoryCheckpointer::new();
        block_on(live_is_reloaded(&world, saver.clone(), || saver.clone()))?;
    }

    #[test]
    fn resumed_equals_undisturbed(world in world(), limits in limits()) {
        let (calm, rough) = (MemoryCheckpointer::new(), MemoryCheckpointer::new());
        let begin = |thread: Thread<Json>| thread.start(input("go"));
        block_on(async {
            let undisturbed = play(|| (world.clone(), calm.clone()), &[], begin).await;
            let resumed = play(|| (world.clone(), rough.clone()), &limits, begin).await;
            prop_assert_eq!(&resumed, &undisturbed);
            prop_assert_eq!(dump(&rough).await, dump(&calm).await);
            Ok(())
        })?;
    }

    #[test]
    fn two_runs_store_the_same_bytes(world in world()) {
        let (first, second) = (MemoryCheckpointer::new(), MemoryCheckpointer::new());
        let begin = |thread: Thread<Json>| thread.start(input("go"));
        let once = block_on(play(|| (world.clone(), first.clone()), &[], begin));
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let twice = threads.block_on(play(|| (world.clone(), second.clone()), &[], begin));
        prop_assert_eq!(&once, &twice);
        // Of a superstep that failed, it depends on luck how much was saved before.
        if once.is_ok() {
            prop_assert_eq!(block_on(dump(&first)), block_on(dump(&second)));
        }
    }

    #[test]
    fn a_fork_changes_no_other_branch(world in world(), forks in forks()) {
        let saver = MemoryCheckpointer::new();
        block_on(forks_leave_the_rest_alone(&world, || saver.clone(), &forks))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn the_laws_hold_on_sqlite(world in world(), limits in limits(), forks in forks()) {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = |name: &str| SqliteCheckpointer::open(folder.path().join(name)).unwrap();
        let begin = |thread: Thread<Json>| thread.start(input("go"));
        block_on(async {
            live_is_reloaded(&world, sqlite("live"), || sqlite("live")).await?;
            forks_leave_the_rest_alone(&world, || sqlite("forks"), &forks).await?;
            let calm = MemoryCheckpointer::new();
            let undisturbed = play(|| (world.clone(), calm.clone()), &[], begin).await;
            let resumed = play(|| (world.clone(), sqlite("rough")), &limits, begin).await;
            prop_assert_eq!(&resumed, &undisturbed);
            prop_assert_eq!(dump(&sqlite("rough")).await.0, dump(&calm).await.0);
            Ok(())
        })?;
    }
}
