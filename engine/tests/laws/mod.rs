//! What holds for every graph, tried on random ones.

mod world;

use std::collections::BTreeMap;
use std::task::Poll;

use futures::StreamExt;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::{Value as JsonValue, json};
use superstep::channels::{Json, Name};
use superstep::checkpoint::{
    CheckpointId, Checkpointer, Listed, Loaded, Place, Prune, Size, Source, SqliteCheckpointer,
    StoredTask, TaskId, verify,
};
use superstep::prelude::*;
use superstep::{Durability, Failure, RunBuilder, Snapshot, TaskError, Thread};

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

/// What befalls one run.
#[derive(Clone, Debug)]
struct Mishap {
    /// It may take so many supersteps.
    limit: Option<u32>,
    /// It is dropped after it was polled so many times.
    polls: Option<u32>,
    /// Of what it asks, only this part is answered, and at least one question.
    answered: u8,
}

/// What is done next with a thread.
enum Next {
    Begin,
    Proceed,
    Resume(Vec<Answer>),
}

/// Runs to the end. Every question is answered with 7; to each run something happens as long as there are `mishaps`,
/// and the thread is opened anew for the next one.
async fn play<C: Checkpointer + Clone + 'static>(
    reopen: impl Fn() -> (World, C),
    durability: Durability,
    mishaps: &[Mishap],
    begin: impl Fn(Thread<Json>) -> RunBuilder<Json>,
) -> End {
    let open = || {
        let (world, saver) = reopen();
        open(&world, &saver)
    };
    let mut mishaps = mishaps.iter();
    let mut next = Next::Begin;
    loop {
        let mishap = mishaps.next();
        let run = match next {
            Next::Begin => begin(open()),
            Next::Proceed => open().proceed(),
            Next::Resume(answers) => open().resume(answers),
        };
        let mut run = run.durability(durability);
        if let Some(limit) = mishap.and_then(|mishap| mishap.limit) {
            run = run.limit(limit);
        }
        next = match polled(run, mishap.and_then(|mishap| mishap.polls)).await {
            Some(Ok(Outcome::Done(Json(state)))) => return Ok(state),
            Some(Ok(Outcome::Paused(asks))) => Next::Resume(answers(&asks, mishap)),
            None => after_death(&open()).await,
            Some(Err(error)) if is_mishap(&error) => after_death(&open()).await,
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok(other)) => unreachable!("{other:?}"),
        };
    }
}

/// Polls a run so many times at most and drops it then.
async fn polled(
    run: RunBuilder<Json>,
    times: Option<u32>,
) -> Option<Result<Outcome<Json>, RunError>> {
    let mut run = run.into_future();
    let mut left = times.unwrap_or(u32::MAX);
    std::future::poll_fn(move |cx| match run.as_mut().poll(cx) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

fn answers(asks: &[Ask], mishap: Option<&Mishap>) -> Vec<Answer> {
    let part = mishap.map_or(u8::MAX, |mishap| mishap.answered);
    let chosen = asks
        .iter()
        .enumerate()
        .filter(|(at, _)| part & (1 << (at % 8)) != 0);
    let chosen: Vec<Answer> = chosen.map(|(_, ask)| ask.answer(7)).collect();
    match chosen.is_empty() {
        true => asks.iter().take(1).map(|ask| ask.answer(7)).collect(),
        false => chosen,
    }
}

/// What a program does that finds the thread of one that died.
async fn after_death(thread: &Thread<Json>) -> Next {
    let state = thread.state().await.unwrap();
    let answers: Vec<Answer> = state.asks().map(|ask| ask.answer(7)).collect();
    match (state.checkpoint, answers.is_empty()) {
        (None, _) => Next::Begin,
        (Some(_), true) => Next::Proceed,
        (Some(_), false) => Next::Resume(answers),
    }
}

/// Whether a run ended by its limit, or by what a dropped run was still storing: it, or one nested in it, which counts for itself.
fn is_mishap(error: &RunError) -> bool {
    let nested = |failure: &Failure| match &failure.error {
        TaskError::Node(error) => error.get_ref().downcast_ref().is_some_and(is_mishap),
        _ => false,
    };
    match error {
        RunError::Limit { .. } | RunError::ThreadConflict(_) | RunError::Answer(_) => true,
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

/// What is stored at each checkpoint, as text.
type Records = BTreeMap<CheckpointId, String>;

/// All records of the thread by checkpoint, down to what each task wrote, asked and became.
async fn records(thread: &Thread<Json>) -> Records {
    let history = thread.history(usize::MAX >> 1).await.unwrap();
    let text = |snapshot: Snapshot| (snapshot.checkpoint.unwrap(), format!("{snapshot:#?}"));
    history.into_iter().map(text).collect()
}

/// A checkpoint, the tasks on it, and the logs it was made with.
type Stored = (Loaded, Vec<StoredTask>, Vec<(String, Vec<u8>)>);

/// Everything that a store holds of one place.
#[derive(Debug, PartialEq)]
struct Dump {
    list: Vec<Listed>,
    checkpoints: Vec<Stored>,
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

/// The same without what is known of the tasks themselves, and how often: a record may tell of an earlier failure.
fn without_records(mut places: BTreeMap<String, Dump>) -> BTreeMap<String, Dump> {
    for (loaded, tasks, _) in places.values_mut().flat_map(|dump| &mut dump.checkpoints) {
        loaded.saves = 0;
        for task in loaded.pending.iter_mut().chain(tasks) {
            task.record.clear();
        }
    }
    places
}

async fn dump_place<C: Checkpointer>(saver: &C, place: &Place) -> Dump {
    // The clock is no part of what a run makes.
    let mut list = saver.list(place, None, usize::MAX >> 1).await.unwrap();
    list.iter_mut().for_each(|listed| listed.time = 0);
    let mut checkpoints = Vec::new();
    for Listed { id, .. } in &list {
        let loaded = saver.load(place, Some(*id)).await.unwrap().unwrap();
        let loaded = Loaded {
            born: 0,
            time: 0,
            ..loaded
        };
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
    forks: &[(prop::sample::Index, Fork)],
) -> TestCaseResult {
    let again = || (world.clone(), reopen());
    let first = play(again, Durability::Sync, &[], |thread| {
        thread.start(input("go"))
    })
    .await;
    let mut before = records(&open(world, &reopen())).await;
    let of_first: Vec<CheckpointId> = before.keys().copied().collect();
    for (at, fork) in forks {
        let ids: Vec<CheckpointId> = before.keys().copied().collect();
        let at = *at.get(&ids);
        let thread = open(world, &reopen()).at(at);
        let end = match fork {
            Fork::Start => {
                play(again, Durability::Sync, &[], |thread| {
                    thread.at(at).start(input("fork"))
                })
                .await
            }
            Fork::Replay => {
                play(again, Durability::Sync, &[], |thread| {
                    thread.at(at).proceed()
                })
                .await
            }
            Fork::Update(node) => match thread.update(world.update(*node)).await {
                Ok(updated) => {
                    play(again, Durability::Sync, &[], |thread| {
                        thread.at(updated).proceed()
                    })
                    .await
                }
                Err(error) => Err(error.to_string()),
            },
        };
        if matches!(fork, Fork::Replay) && of_first.contains(&at) {
            // The same questions get the same answers, so a replay ends alike.
            prop_assert_eq!(&end, &first, "replay from {}", at);
        }
        let after = records(&open(world, &reopen())).await;
        // A change by hand at the newest checkpoint stands in for what is due there.
        let changed = match fork {
            Fork::Update(_) => before.keys().next_back().filter(|newest| **newest == at),
            _ => None,
        };
        let kept = |records: &Records| {
            let mut records = records.clone();
            records.retain(|id, _| before.contains_key(id) && Some(id) != changed);
            records
        };
        prop_assert_eq!(kept(&after), kept(&before), "fork at {}", at);
        before = after;
    }
    Ok(())
}

/// How a branch is opened.
#[derive(Clone, Copy, Debug)]
enum Fork {
    Start,
    Replay,
    /// By a change by hand, as if one of the nodes had made it.
    Update(prop::sample::Index),
}

fn forks() -> impl Strategy<Value = Vec<(prop::sample::Index, Fork)>> {
    let fork = prop_oneof![
        Just(Fork::Start),
        Just(Fork::Replay),
        any::<prop::sample::Index>().prop_map(Fork::Update),
    ];
    prop::collection::vec((any::<prop::sample::Index>(), fork), 1..4)
}

fn mishaps() -> impl Strategy<Value = Vec<Mishap>> {
    let limit = prop::option::weighted(0.5, 0..4u32);
    let polls = prop::option::weighted(0.5, 0..12u32);
    let mishap = (limit, polls, any::<u8>()).prop_map(|(limit, polls, answered)| Mishap {
        limit,
        polls,
        answered,
    });
    prop::collection::vec(mishap, 1..8)
}

fn durability() -> impl Strategy<Value = Durability> {
    prop::sample::select(&[Durability::Sync, Durability::Async, Durability::Exit][..])
}

/// So many cases, unless the environment says how many.
fn cases(cases: u32) -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    match asked {
        true => config,
        false => ProptestConfig { cases, ..config },
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn live_equals_reloaded(world in world()) {
        let saver = MemoryCheckpointer::new();
        block_on(live_is_reloaded(&world, saver.clone(), || saver.clone()))?;
    }

    #[test]
    fn resumed_equals_undisturbed(world in world(), mishaps in mishaps()) {
        block_on(disturbed_is_undisturbed(&world, Durability::Sync, &mishaps, MemoryCheckpointer::new))?;
    }

    #[test]
    fn it_ends_alike_whenever_it_is_stored(world in world(), durability in durability(), mishaps in mishaps()) {
        block_on(disturbed_is_undisturbed(&world, durability, &mishaps, MemoryCheckpointer::new))?;
    }

    #[test]
    fn two_runs_store_the_same_bytes(world in world(), durability in durability()) {
        let (first, second) = (MemoryCheckpointer::new(), MemoryCheckpointer::new());
        let begin = |thread: Thread<Json>| thread.start(input("go"));
        let once = block_on(play(|| (world.clone(), first.clone()), durability, &[], begin));
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let twice = threads.block_on(play(|| (world.clone(), second.clone()), durability, &[], begin));
        prop_assert_eq!(&once, &twice);
        // Of a superstep that failed, it depends on luck how much was saved before.
        if once.is_ok() {
            prop_assert_eq!(block_on(dump(&first)), block_on(dump(&second)));
        }
    }

    #[test]
    fn a_handle_that_stays_open_is_as_good_as_a_new_one(world in world(), turns in 1..4usize) {
        block_on(an_open_handle_is_as_good_as_a_new_one(&world, turns))?;
    }

    #[test]
    fn a_pruned_thread_goes_on_as_before(world in world(), prune in prune(), forks in forks()) {
        let new = |_| MemoryCheckpointer::new();
        block_on(pruned_goes_on_as_before(&world, prune, &forks, new(0), new))?;
    }

    #[test]
    fn a_fork_changes_no_other_branch(world in world(), forks in forks()) {
        let saver = MemoryCheckpointer::new();
        block_on(forks_leave_the_rest_alone(&world, || saver.clone(), &forks))?;
    }
}

/// Two turns on a thread that is opened anew for each run, and on a handle that stays open.
async fn an_open_handle_is_as_good_as_a_new_one(world: &World, turns: usize) -> TestCaseResult {
    let (kept, anew) = (MemoryCheckpointer::new(), MemoryCheckpointer::new());
    let handle = open(world, &kept);
    for turn in 0..turns {
        let text = format!("turn {turn}");
        let (mut run, mut again) = (handle.start(input(&text)), None);
        let (kept, anew) = loop {
            let fresh = open(world, &anew);
            let other = match &again {
                None => fresh.start(input(&text)),
                Some(answers) => fresh.resume(Vec::clone(answers)),
            };
            match (run.await, other.await) {
                (Ok(Outcome::Paused(asks)), Ok(Outcome::Paused(same))) => {
                    prop_assert_eq!(&asks, &same);
                    let given = answers(&asks, None);
                    run = handle.resume(given.clone());
                    again = Some(given);
                }
                ended => break ended,
            }
        };
        let end = |ended: Result<Outcome<Json>, RunError>| match ended {
            Ok(outcome) => Ok(outcome.done().map(|Json(state)| state)),
            Err(error) => Err(error.to_string()),
        };
        prop_assert_eq!(end(kept), end(anew));
    }
    let (kept, anew) = (dump(&kept).await, dump(&anew).await);
    prop_assert_eq!(without_records(kept.0), without_records(anew.0));
    Ok(())
}

/// What is left after old checkpoints were removed is what it was, and goes on from there as before.
async fn pruned_goes_on_as_before<C: Checkpointer + Clone + 'static>(
    world: &World,
    prune: Prune,
    forks: &[(prop::sample::Index, Fork)],
    whole: C,
    pruned: impl Fn(usize) -> C,
) -> TestCaseResult {
    forks_leave_the_rest_alone(world, || whole.clone(), forks).await?;
    let stored = whole.export("t").await.unwrap().unwrap();
    let copy = async |saver: C| {
        saver.import("t", stored.clone()).await.unwrap();
        saver
    };
    let first = copy(pruned(0)).await;
    let plan = prune.plan(&first, "t").await.unwrap();
    plan.clone().carry_out(&first).await.unwrap();
    prop_assert_eq!(verify(&first, "t").await.unwrap(), vec![]);
    let left = first
        .list(&Place::root("t"), None, usize::MAX >> 1)
        .await
        .unwrap();
    for (at, listed) in left.iter().enumerate() {
        let at = 2 * at + 1;
        let (thin, full) = (copy(pruned(at)).await, copy(pruned(at + 1)).await);
        plan.clone().carry_out(&thin).await.unwrap();
        let shown = async |saver: &C| {
            let state = open(world, saver).at(listed.id).state().await.unwrap();
            let next: Vec<_> = state.next().map(ToString::to_string).collect();
            (state.values.json().unwrap(), next)
        };
        prop_assert_eq!(shown(&thin).await, shown(&full).await);
        let replay = async |saver: &C| {
            let reopen = || (world.clone(), saver.clone());
            let end = play(reopen, Durability::Sync, &[], |thread| {
                thread.at(listed.id).proceed()
            });
            let end = end.await;
            let more = play(reopen, Durability::Sync, &[], |thread| {
                thread.start(input("more"))
            });
            (end, more.await)
        };
        prop_assert_eq!(
            replay(&thin).await,
            replay(&full).await,
            "from {}",
            listed.id
        );
    }
    Ok(())
}

fn prune() -> impl Strategy<Value = Prune> {
    (1..4usize, any::<bool>()).prop_map(|(last, heads)| match heads {
        true => Prune::keep_last(last).keep_heads(),
        false => Prune::keep_last(last),
    })
}

/// A run to which this and that happens ends as one to which nothing does. If it stores each superstep, it also stores the same.
async fn disturbed_is_undisturbed<C: Checkpointer + Clone + 'static>(
    world: &World,
    durability: Durability,
    mishaps: &[Mishap],
    saver: impl Fn() -> C,
) -> TestCaseResult {
    let (calm, rough) = (MemoryCheckpointer::new(), saver());
    // Whoever begins again does not know whether what was dropped had begun, so the run has an id.
    let begin = |thread: Thread<Json>| thread.start(input("go")).id("the run");
    let undisturbed = play(
        || (world.clone(), calm.clone()),
        Durability::Sync,
        &[],
        begin,
    )
    .await;
    let disturbed = play(
        || (world.clone(), rough.clone()),
        durability,
        mishaps,
        begin,
    )
    .await;
    prop_assert_eq!(&disturbed, &undisturbed);
    if durability == Durability::Sync {
        let (rough, calm) = (dump(&rough).await.0, dump(&calm).await.0);
        prop_assert_eq!(without_records(rough), without_records(calm));
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn the_laws_hold_on_sqlite(world in world(), durability in durability(), mishaps in mishaps(), forks in forks()) {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = |name: &str| SqliteCheckpointer::open(folder.path().join(name)).unwrap();
        block_on(async {
            live_is_reloaded(&world, sqlite("live"), || sqlite("live")).await?;
            forks_leave_the_rest_alone(&world, || sqlite("forks"), &forks).await?;
            let copy = |number: usize| sqlite(&format!("pruned {number}"));
            pruned_goes_on_as_before(&world, Prune::keep_last(2), &forks[..1], sqlite("whole"), copy).await?;
            disturbed_is_undisturbed(&world, durability, &mishaps, || sqlite("rough")).await
        })?;
    }
}
