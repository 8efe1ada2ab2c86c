//! The rules of the contract, one function each.

use std::collections::BTreeMap;

use crate::{
    Channel, CheckpointId, Checkpointer, Commit, Item, Kind, Listed, Loaded, Place, Seen, Share,
    Size, StoredTask, TaskId,
};

/// Names the rules, and finds them by name.
macro_rules! rules {
    ($($rule:ident)*) => {
        /// The names of the rules, in the order in which it pays to look at them.
        pub const RULES: &[&str] = &[$(stringify!($rule)),*];

        /// Panics if a new, empty checkpointer does not keep a rule.
        ///
        /// # Panics
        ///
        /// Also if there is no rule of that name.
        pub async fn check(rule: &str, store: &impl Checkpointer) {
            match rule {
                $(stringify!($rule) => $rule(store).await,)*
                _ => panic!("there is no rule `{rule}`"),
            }
        }
    };
}

rules! {
    an_unknown_place_is_empty
    a_commit_comes_back
    an_unknown_checkpoint_is_none
    a_stale_commit_changes_nothing
    several_commits_are_all_or_none
    a_missing_parent_is_refused
    a_fork_sees_its_ancestors_only
    a_lineage_without_parent_starts_empty
    an_emptied_channel_stays_known
    a_snapshot_stands_for_the_logs_before_it
    a_fork_on_a_snapshot_starts_from_it
    logs_are_those_of_one_checkpoint
    of_a_channel_named_twice_the_last_counts
    tasks_wait_and_are_replaced
    a_commit_adopts_its_tasks_and_leaves_others
    siblings_keep_their_own_tasks
    tasks_can_wait_for_a_first_checkpoint
    stale_tasks_change_nothing
    lists_run_backwards
    sizes_add_up
    deleting_a_thread_leaves_the_others
    a_deleted_thread_can_start_again
    a_copied_thread_goes_its_own_way
    a_head_tells_whether_anything_happened
    a_copy_needs_a_thread_and_a_name_of_its_own
    hostile_names_are_just_names
    every_number_is_just_a_number
    a_place_begun_anew_is_another_one
    removed_checkpoints_leave_what_others_need
    a_removed_fork_point_leaves_its_forks
    ids_of_removed_checkpoints_are_not_given_again
    removing_the_newest_is_noticed
    places_come_in_order
    what_is_exported_can_be_imported
}

fn id(id: u64) -> CheckpointId {
    CheckpointId(id)
}

fn root() -> Place {
    Place::root("t")
}

fn value(bytes: &str) -> Item {
    Item::Value(bytes.into())
}

fn log(bytes: &str) -> Item {
    Item::Log(bytes.into())
}

fn snapshot(log: &str, value: &str) -> Item {
    Item::Snapshot {
        log: log.into(),
        value: value.into(),
    }
}

fn seen(newest: u64, saves: u64) -> Seen {
    Seen {
        newest: id(newest),
        saves,
        born: None,
    }
}

/// What was seen, of any place.
fn bare(seen: Seen) -> Seen {
    Seen { born: None, ..seen }
}

fn commit<const N: usize>(number: u64, parent: u64, items: [(&str, Item); N]) -> Commit {
    Commit {
        id: id(number),
        born: None,
        parent: (parent > 0).then_some(id(parent)),
        time: number.wrapping_mul(1000),
        header: format!("header {number}").into(),
        items: items.map(|(name, item)| (name.to_owned(), item)).into(),
        tasks: vec![],
    }
}

fn task(number: u8, position: u32, record: &str) -> StoredTask {
    StoredTask {
        id: TaskId([number; 16]),
        position,
        child: None,
        record: record.into(),
    }
}

fn made(child: u64, task: StoredTask) -> StoredTask {
    StoredTask {
        child: Some(id(child)),
        ..task
    }
}

fn channel<const N: usize>(value: Option<(u64, &str)>, logs: [(u64, &str); N]) -> Channel {
    Channel {
        value: value.map(|(at, bytes)| (id(at), bytes.into())),
        logs: logs.map(|(at, bytes)| (id(at), bytes.into())).into(),
    }
}

fn share(namespace: &str, kind: Kind, channel: &str, count: u64, bytes: u64) -> Share {
    Share {
        namespace: namespace.to_owned(),
        kind,
        channel: channel.to_owned(),
        count,
        bytes,
    }
}

async fn put<const N: usize>(store: &impl Checkpointer, commits: [Commit; N]) {
    store.commit(&root(), commits.into()).await.unwrap();
}

async fn channels_at(store: &impl Checkpointer, at: u64) -> BTreeMap<String, Channel> {
    let loaded = store.load(&root(), Some(id(at))).await.unwrap();
    loaded.unwrap().channels
}

fn named<const N: usize>(channels: [(&str, Channel); N]) -> BTreeMap<String, Channel> {
    channels
        .map(|(name, channel)| (name.to_owned(), channel))
        .into()
}

/// Everything that can be read of a place, but for what a copy of it need not have in common with it.
pub async fn everything(
    store: &impl Checkpointer,
    place: &Place,
) -> (Vec<Listed>, Vec<Loaded>, Vec<Vec<StoredTask>>, Size) {
    let list = store.list(place, None, usize::MAX).await.unwrap();
    let mut loaded = Vec::new();
    let mut tasks = vec![store.tasks(place, id(0)).await.unwrap()];
    for listed in &list {
        let found = store.load(place, Some(listed.id)).await.unwrap();
        loaded.extend(found.map(|found| Loaded { born: 0, ..found }));
        tasks.push(store.tasks(place, listed.id).await.unwrap());
    }
    let size = store.size(&place.thread).await.unwrap();
    (list, loaded, tasks, size)
}

async fn an_unknown_place_is_empty(store: &impl Checkpointer) {
    let place = root();
    assert_eq!(store.load(&place, None).await.unwrap(), None);
    assert_eq!(store.load(&place, Some(id(1))).await.unwrap(), None);
    assert_eq!(store.list(&place, None, 10).await.unwrap(), []);
    assert_eq!(store.tasks(&place, id(1)).await.unwrap(), []);
    assert_eq!(store.size("t").await.unwrap(), Size::default());
    store.delete_thread("t").await.unwrap();
}

async fn a_commit_comes_back(store: &impl Checkpointer) {
    let mut first = commit(1, 0, [("a", value("one")), ("b", log("+"))]);
    first.tasks = vec![task(7, 0, "ran")];
    put(store, [first]).await;
    let expected = Loaded {
        id: id(1),
        parent: None,
        time: 1000,
        newest: id(1),
        saves: 0,
        born: 0,
        origin: None,
        header: "header 1".into(),
        channels: named([
            ("a", channel(Some((1, "one")), [])),
            ("b", channel(None, [(1, "+")])),
        ]),
        pending: vec![],
    };
    let found = store.load(&root(), None).await.unwrap().unwrap();
    let born = found.born;
    assert_eq!(found, Loaded { born, ..expected });
    let ran = store.tasks(&root(), id(0)).await.unwrap();
    assert_eq!(ran, [made(1, task(7, 0, "ran"))]);
}

async fn an_unknown_checkpoint_is_none(store: &impl Checkpointer) {
    put(store, [commit(1, 0, []), commit(2, 1, [])]).await;
    let mut found = Vec::new();
    for at in [0, 1, 2, 3] {
        let loaded = store.load(&root(), Some(id(at))).await.unwrap();
        found.push(loaded.map(|loaded| (loaded.id.0, loaded.newest.0)));
    }
    assert_eq!(found, [None, Some((1, 2)), Some((2, 2)), None]);
}

async fn a_stale_commit_changes_nothing(store: &impl Checkpointer) {
    put(
        store,
        [commit(1, 0, [("a", value("one"))]), commit(2, 1, [])],
    )
    .await;
    let before = everything(store, &root()).await;
    let mut errors = Vec::new();
    for stale in [0, 1, 2, 4, u64::MAX] {
        let mut stale = commit(stale, 1, [("a", value("stale"))]);
        stale.tasks = vec![task(1, 0, "stale")];
        errors.push(
            store
                .commit(&root(), vec![stale])
                .await
                .unwrap_err()
                .to_string(),
        );
    }
    let text = "thread `t` was changed by another writer since it was read";
    assert_eq!(errors, [text; 5]);
    assert_eq!(everything(store, &root()).await, before);
}

async fn several_commits_are_all_or_none(store: &impl Checkpointer) {
    let mut second = commit(2, 1, [("a", value("two"))]);
    second.tasks = vec![task(1, 0, "ran")];
    let gap = commit(4, 2, []);
    let first = commit(1, 0, [("a", value("one"))]);
    let commits = vec![first.clone(), second.clone(), gap];
    let error = store.commit(&root(), commits).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "thread `t` was changed by another writer since it was read"
    );
    assert_eq!(store.load(&root(), None).await.unwrap(), None);
    assert_eq!(store.tasks(&root(), id(1)).await.unwrap(), []);
    assert_eq!(store.size("t").await.unwrap(), Size::default());

    put(store, [first, second]).await;
    assert_eq!(
        channels_at(store, 1).await,
        named([("a", channel(Some((1, "one")), []))])
    );
    assert_eq!(
        channels_at(store, 2).await,
        named([("a", channel(Some((2, "two")), []))])
    );
    store.commit(&root(), vec![]).await.unwrap();
}

async fn a_missing_parent_is_refused(store: &impl Checkpointer) {
    put(store, [commit(1, 0, [])]).await;
    let before = everything(store, &root()).await;
    for parent in [2, 3, u64::MAX] {
        let orphan = commit(2, parent, [("a", value("x"))]);
        let error = store.commit(&root(), vec![orphan]).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("thread `t` has no checkpoint {parent}")
        );
        let saved = store
            .save_tasks(&root(), seen(1, 0), id(parent), vec![task(1, 0, "x")])
            .await;
        assert_eq!(
            saved.unwrap_err().to_string(),
            format!("thread `t` has no checkpoint {parent}")
        );
    }
    let zero = Commit {
        parent: Some(id(0)),
        ..commit(2, 0, [])
    };
    let error = store.commit(&root(), vec![zero]).await.unwrap_err();
    assert_eq!(error.to_string(), "thread `t` has no checkpoint 0");
    assert_eq!(everything(store, &root()).await, before);
}

async fn a_fork_sees_its_ancestors_only(store: &impl Checkpointer) {
    put(
        store,
        [
            commit(1, 0, [("log", log("1")), ("last", value("1"))]),
            commit(2, 1, [("log", log("2"))]),
            commit(
                3,
                2,
                [
                    ("log", log("3")),
                    ("last", value("3")),
                    ("late", value("3")),
                ],
            ),
            // Forks of 2, and a fork of that fork, written in turns.
            commit(4, 2, [("log", log("4"))]),
            commit(5, 3, [("log", log("5"))]),
            commit(6, 4, [("log", log("6"))]),
            commit(7, 4, [("log", log("7")), ("last", value("7"))]),
            commit(8, 7, [("log", log("8"))]),
        ],
    )
    .await;
    let mut seen = Vec::new();
    for at in 1..=8 {
        let channels = channels_at(store, at).await;
        let log: Vec<u64> = channels["log"].logs.iter().map(|(at, _)| at.0).collect();
        let last = channels["last"].value.as_ref().map(|(at, _)| at.0);
        seen.push((log, last, channels.contains_key("late")));
    }
    assert_eq!(
        seen,
        [
            (vec![1], Some(1), false),
            (vec![1, 2], Some(1), false),
            (vec![1, 2, 3], Some(3), true),
            (vec![1, 2, 4], Some(1), false),
            (vec![1, 2, 3, 5], Some(3), true),
            (vec![1, 2, 4, 6], Some(1), false),
            (vec![1, 2, 4, 7], Some(7), false),
            (vec![1, 2, 4, 7, 8], Some(7), false),
        ]
    );
}

async fn a_lineage_without_parent_starts_empty(store: &impl Checkpointer) {
    put(
        store,
        [
            commit(1, 0, [("a", value("1"))]),
            commit(2, 0, [("b", value("2"))]),
            commit(3, 2, [("c", log("3"))]),
        ],
    )
    .await;
    assert_eq!(
        channels_at(store, 3).await,
        named([
            ("b", channel(Some((2, "2")), [])),
            ("c", channel(None, [(3, "3")]))
        ])
    );
}

async fn an_emptied_channel_stays_known(store: &impl Checkpointer) {
    put(
        store,
        [
            commit(1, 0, [("a", value("")), ("b", log("1"))]),
            commit(2, 1, [("a", Item::Empty), ("b", Item::Empty)]),
            commit(3, 2, [("b", log(""))]),
        ],
    )
    .await;
    // An empty value is a value.
    assert_eq!(
        channels_at(store, 1).await,
        named([
            ("a", channel(Some((1, "")), [])),
            ("b", channel(None, [(1, "1")]))
        ])
    );
    assert_eq!(
        channels_at(store, 3).await,
        named([("a", channel(None, [])), ("b", channel(None, [(3, "")]))])
    );
}

async fn a_snapshot_stands_for_the_logs_before_it(store: &impl Checkpointer) {
    put(
        store,
        [
            commit(1, 0, [("a", log("1"))]),
            commit(2, 1, [("a", snapshot("2", "12"))]),
            commit(3, 2, [("a", log("3"))]),
            commit(4, 3, []),
            commit(5, 4, [("a", log("5"))]),
        ],
    )
    .await;
    assert_eq!(
        channels_at(store, 2).await,
        named([("a", channel(Some((2, "12")), []))])
    );
    assert_eq!(
        channels_at(store, 5).await,
        named([("a", channel(Some((2, "12")), [(3, "3"), (5, "5")]))])
    );
}

async fn a_fork_on_a_snapshot_starts_from_it(store: &impl Checkpointer) {
    put(
        store,
        [
            commit(1, 0, [("a", log("1"))]),
            commit(2, 1, [("a", snapshot("2", "12"))]),
            commit(3, 2, [("a", snapshot("3", "123"))]),
            commit(4, 2, [("a", log("4"))]),
            commit(5, 1, [("a", log("5"))]),
        ],
    )
    .await;
    assert_eq!(
        channels_at(store, 4).await,
        named([("a", channel(Some((2, "12")), [(4, "4")]))])
    );
    assert_eq!(
        channels_at(store, 5).await,
        named([("a", channel(None, [(1, "1"), (5, "5")]))])
    );
}

async fn logs_are_those_of_one_checkpoint(store: &impl Checkpointer) {
    put(
        store,
        [
            commit(1, 0, [("b", value("v")), ("a", log("1"))]),
            commit(2, 1, [("b", log("w")), ("a", snapshot("2", "12"))]),
            commit(3, 1, [("a", log("3")), ("b", Item::Empty)]),
        ],
    )
    .await;
    let mut found = Vec::new();
    for at in 1..=4 {
        found.push(store.logs(&root(), id(at)).await.unwrap());
    }
    let logs = |pairs: &[(&str, &str)]| -> Vec<(String, Vec<u8>)> {
        let owned = pairs
            .iter()
            .map(|(name, log)| (name.to_string(), (*log).into()));
        owned.collect()
    };
    assert_eq!(
        found,
        [
            logs(&[("a", "1")]),
            logs(&[("a", "2"), ("b", "w")]),
            logs(&[("a", "3")]),
            logs(&[]),
        ]
    );
}

async fn of_a_channel_named_twice_the_last_counts(store: &impl Checkpointer) {
    put(
        store,
        [commit(1, 0, [("a", snapshot("1", "one")), ("a", log("2"))])],
    )
    .await;
    assert_eq!(
        channels_at(store, 1).await,
        named([("a", channel(None, [(1, "2")]))])
    );
    assert_eq!(store.size("t").await.unwrap().bytes_of(Kind::Log), 1);
}

async fn tasks_wait_and_are_replaced(store: &impl Checkpointer) {
    put(store, [commit(1, 0, [])]).await;
    let first = vec![task(1, 2, "paused"), task(2, 0, "done")];
    store
        .save_tasks(&root(), seen(1, 0), id(1), first)
        .await
        .unwrap();
    // Whatever child the caller names, the tasks wait.
    let again = vec![made(9, task(1, 1, "done too"))];
    store
        .save_tasks(&root(), seen(1, 1), id(1), again)
        .await
        .unwrap();
    let expected = [task(2, 0, "done"), task(1, 1, "done too")];
    assert_eq!(store.tasks(&root(), id(1)).await.unwrap(), expected);
    assert_eq!(
        store.load(&root(), None).await.unwrap().unwrap().pending,
        expected
    );
}

async fn a_commit_adopts_its_tasks_and_leaves_others(store: &impl Checkpointer) {
    put(store, [commit(1, 0, [])]).await;
    let waiting = vec![task(1, 0, "a"), task(2, 1, "b"), task(3, 2, "c")];
    store
        .save_tasks(&root(), seen(1, 0), id(1), waiting)
        .await
        .unwrap();
    let mut second = commit(2, 1, []);
    second.tasks = vec![
        task(3, 1, "c again"),
        task(1, 0, "a again"),
        task(4, 2, "d"),
    ];
    put(store, [second]).await;
    assert_eq!(
        store.tasks(&root(), id(1)).await.unwrap(),
        [
            task(2, 1, "b"),
            made(2, task(1, 0, "a again")),
            made(2, task(3, 1, "c again")),
            made(2, task(4, 2, "d")),
        ]
    );
    let at_one = store.load(&root(), Some(id(1))).await.unwrap().unwrap();
    assert_eq!(at_one.pending, [task(2, 1, "b")]);
    let at_two = store.load(&root(), None).await.unwrap().unwrap();
    assert_eq!(at_two.pending, []);
}

async fn siblings_keep_their_own_tasks(store: &impl Checkpointer) {
    let mut second = commit(2, 1, []);
    second.tasks = vec![task(1, 0, "first try")];
    let mut third = commit(3, 1, []);
    third.tasks = vec![task(1, 0, "second try")];
    put(store, [commit(1, 0, []), second]).await;
    store
        .save_tasks(&root(), seen(2, 0), id(1), vec![task(1, 0, "waits")])
        .await
        .unwrap();
    put(store, [third]).await;
    assert_eq!(
        store.tasks(&root(), id(1)).await.unwrap(),
        [
            made(2, task(1, 0, "first try")),
            made(3, task(1, 0, "second try"))
        ]
    );
}

async fn tasks_can_wait_for_a_first_checkpoint(store: &impl Checkpointer) {
    let waiting = vec![task(1, 0, "a"), task(2, 1, "b")];
    store
        .save_tasks(&root(), seen(0, 0), id(0), waiting.clone())
        .await
        .unwrap();
    let head = store.head(&root()).await.unwrap();
    assert_eq!(head.map(|head| bare(head.seen)), Some(seen(0, 1)));
    assert_eq!(store.load(&root(), None).await.unwrap(), None);
    assert_eq!(store.tasks(&root(), id(0)).await.unwrap(), waiting);
    let size = store.size("t").await.unwrap();
    assert_eq!(size.shares, [share("", Kind::Task, "", 2, 2)]);
    let mut first = commit(1, 0, []);
    first.tasks = vec![task(1, 0, "a")];
    put(store, [first]).await;
    assert_eq!(
        store.tasks(&root(), id(0)).await.unwrap(),
        [task(2, 1, "b"), made(1, task(1, 0, "a"))]
    );
}

async fn stale_tasks_change_nothing(store: &impl Checkpointer) {
    put(store, [commit(1, 0, []), commit(2, 1, [])]).await;
    store
        .save_tasks(&root(), seen(2, 0), id(2), vec![task(1, 0, "kept")])
        .await
        .unwrap();
    let before = everything(store, &root()).await;
    // One that knows another checkpoint as the newest, one that missed a save, and one that counts its own twice.
    for stale in [
        seen(0, 1),
        seen(1, 1),
        seen(3, 1),
        seen(u64::MAX, 1),
        seen(2, 0),
        seen(2, 2),
    ] {
        let error = store
            .save_tasks(&root(), stale, id(2), vec![task(1, 0, "stale")])
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "thread `t` was changed by another writer since it was read"
        );
    }
    assert_eq!(everything(store, &root()).await, before);
}

async fn lists_run_backwards(store: &impl Checkpointer) {
    put(
        store,
        [
            commit(1, 0, []),
            commit(2, 1, []),
            commit(3, 1, []),
            commit(4, 3, []),
        ],
    )
    .await;
    let listed = |number: u64, parent: u64, branch: u64, fork: u64| Listed {
        id: id(number),
        parent: (parent > 0).then_some(id(parent)),
        time: number.wrapping_mul(1000),
        branch: id(branch),
        fork: (fork > 0).then_some(id(fork)),
        header: format!("header {number}").into(),
    };
    let all = [
        listed(4, 3, 3, 1),
        listed(3, 1, 3, 1),
        listed(2, 1, 1, 0),
        listed(1, 0, 1, 0),
    ];
    for (before, limit, expected) in [
        (None, usize::MAX, &all[..]),
        (None, 2, &all[..2]),
        (None, 0, &[]),
        (Some(4), 2, &all[1..3]),
        (Some(2), 9, &all[3..]),
        (Some(1), 9, &[]),
        (Some(0), 9, &[]),
        (Some(u64::MAX), 1, &all[..1]),
    ] {
        let list = store.list(&root(), before.map(id), limit).await.unwrap();
        assert_eq!(list, expected, "before {before:?}, limit {limit}");
    }
}

async fn sizes_add_up(store: &impl Checkpointer) {
    let nested = Place {
        namespace: "node:1".into(),
        ..root()
    };
    let mut first = commit(
        1,
        0,
        [
            ("a", value("12345")),
            ("b", snapshot("12", "123")),
            ("c", Item::Empty),
        ],
    );
    first.tasks = vec![task(1, 0, "1234567")];
    put(store, [first, commit(2, 1, [("a", log("1"))])]).await;
    store
        .save_tasks(&root(), seen(2, 0), id(2), vec![task(2, 0, "12")])
        .await
        .unwrap();
    store
        .commit(&nested, vec![commit(1, 0, [("a", value("1"))])])
        .await
        .unwrap();
    store
        .commit(
            &Place::root("other"),
            vec![commit(1, 0, [("a", value("1"))])],
        )
        .await
        .unwrap();
    let expected = [
        share("", Kind::Header, "", 2, 16),
        share("", Kind::Value, "a", 1, 5),
        share("", Kind::Value, "b", 1, 3),
        share("", Kind::Log, "a", 1, 1),
        share("", Kind::Log, "b", 1, 2),
        share("", Kind::Task, "", 2, 9),
        share("node:1", Kind::Header, "", 1, 8),
        share("node:1", Kind::Value, "a", 1, 1),
    ];
    assert_eq!(store.size("t").await.unwrap().shares, expected);
}

async fn deleting_a_thread_leaves_the_others(store: &impl Checkpointer) {
    let places = ["t", "t2", "T", ""].map(Place::root);
    let nested = Place {
        namespace: "node:1".into(),
        ..root()
    };
    for place in places.iter().chain([&nested]) {
        let mut first = commit(1, 0, [("a", value("one"))]);
        first.tasks = vec![task(1, 0, "ran")];
        store.commit(place, vec![first]).await.unwrap();
    }
    let mut kept = Vec::new();
    for place in &places[1..] {
        kept.push(everything(store, place).await);
    }
    store.delete_thread("t").await.unwrap();
    for gone in [&places[0], &nested] {
        assert_eq!(store.load(gone, None).await.unwrap(), None);
        assert_eq!(store.tasks(gone, id(0)).await.unwrap(), []);
    }
    assert_eq!(store.size("t").await.unwrap(), Size::default());
    for (place, kept) in places[1..].iter().zip(kept) {
        assert_eq!(everything(store, place).await, kept);
    }
}

async fn a_deleted_thread_can_start_again(store: &impl Checkpointer) {
    put(
        store,
        [
            commit(1, 0, [("a", value("old"))]),
            commit(2, 1, [("b", log("old"))]),
        ],
    )
    .await;
    store.delete_thread("t").await.unwrap();
    put(store, [commit(1, 0, [("b", log("new"))])]).await;
    assert_eq!(
        channels_at(store, 1).await,
        named([("b", channel(None, [(1, "new")]))])
    );
}

async fn hostile_names_are_just_names(store: &impl Checkpointer) {
    let long = "x".repeat(10_000);
    let names = [
        "",
        " ",
        "'; DROP TABLE places; --",
        "\"`\\%_?1",
        "a\0b",
        "a\0c",
        "a",
        "😀 e\u{301} é",
        "../../etc/passwd",
        &long,
    ];
    let places = names.map(|thread| {
        names.map(|namespace| Place {
            thread: thread.into(),
            namespace: namespace.into(),
        })
    });
    for place in places.iter().flatten() {
        let text = place.to_string();
        let items = names.map(|name| (name, value(&text)));
        store
            .commit(place, vec![commit(1, 0, items)])
            .await
            .unwrap();
    }
    for place in places.iter().flatten() {
        let loaded = store.load(place, None).await.unwrap().unwrap();
        let text = place.to_string();
        assert_eq!(
            loaded.channels,
            named(names.map(|name| (name, channel(Some((1, &text)), []))))
        );
    }
    for name in names {
        assert_eq!(store.size(name).await.unwrap().count_of(Kind::Header), 10);
    }
}

async fn every_number_is_just_a_number(store: &impl Checkpointer) {
    put(store, [commit(1, 0, [])]).await;
    for at in [i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        assert_eq!(store.load(&root(), Some(id(at))).await.unwrap(), None);
        assert_eq!(store.tasks(&root(), id(at)).await.unwrap(), []);
    }
    let last = vec![task(0, u32::MAX, ""), task(255, 0, "")];
    store
        .save_tasks(&root(), seen(1, 0), id(1), last)
        .await
        .unwrap();
    assert_eq!(
        store.tasks(&root(), id(1)).await.unwrap(),
        [task(255, 0, ""), task(0, u32::MAX, "")]
    );
}

async fn a_copied_thread_goes_its_own_way(store: &impl Checkpointer) {
    let inner = Place {
        namespace: "n:1".into(),
        ..root()
    };
    put(
        store,
        [
            commit(1, 0, [("a", value("one"))]),
            commit(2, 1, [("a", value("two"))]),
        ],
    )
    .await;
    let nested = store.commit(&inner, vec![commit(1, 0, [("b", log("x"))])]);
    nested.await.unwrap();
    store
        .save_tasks(&root(), seen(2, 0), id(2), vec![task(7, 0, "waits")])
        .await
        .unwrap();
    store.copy_thread("t", "u").await.unwrap();
    let copy = |place: &Place| Place {
        thread: "u".into(),
        ..place.clone()
    };
    for place in [root(), inner.clone()] {
        let (was, is) = (
            store.load(&place, None).await,
            store.load(&copy(&place), None).await,
        );
        let (was, is) = (was.unwrap().unwrap(), is.unwrap().unwrap());
        assert_eq!(is.origin.as_deref(), Some("t"));
        assert_ne!(is.born, was.born);
        let (origin, born) = (None, was.born);
        assert_eq!(Loaded { origin, born, ..is }, was);
    }
    // A copy of a copy remembers the first; each goes its own way.
    store.copy_thread("u", "v").await.unwrap();
    store
        .commit(&copy(&root()), vec![commit(3, 2, [("a", value("three"))])])
        .await
        .unwrap();
    let third = store.load(&Place::root("v"), None).await.unwrap().unwrap();
    assert_eq!((third.id, third.origin.as_deref()), (id(2), Some("t")));
    store.delete_thread("t").await.unwrap();
    assert_eq!(
        store.load(&copy(&root()), None).await.unwrap().unwrap().id,
        id(3)
    );
}

async fn a_head_tells_whether_anything_happened(store: &impl Checkpointer) {
    let head = async || store.head(&root()).await.unwrap();
    assert_eq!(head().await, None);
    put(store, [commit(1, 0, [])]).await;
    let first = head().await.unwrap();
    assert_eq!(bare(first.seen), seen(1, 0));
    assert_eq!(first.seen.born, Some(first.born));
    let loaded = store.load(&root(), None).await.unwrap().unwrap();
    assert_eq!(loaded.born, first.born);
    store
        .save_tasks(&root(), seen(1, 0), id(1), vec![task(7, 0, "waits")])
        .await
        .unwrap();
    assert_eq!(bare(head().await.unwrap().seen), seen(1, 1));
    put(store, [commit(2, 1, [])]).await;
    let second = head().await.unwrap();
    assert_eq!((bare(second.seen), second.born), (seen(2, 0), first.born));
    // The same again under the same name is another place.
    store.delete_thread("t").await.unwrap();
    assert_eq!(head().await, None);
    put(store, [commit(1, 0, [])]).await;
    let again = head().await.unwrap();
    assert_eq!(bare(again.seen), bare(first.seen));
    assert_ne!(again.born, first.born);
}

async fn a_copy_needs_a_thread_and_a_name_of_its_own(store: &impl Checkpointer) {
    put(store, [commit(1, 0, [])]).await;
    let nobody = store.copy_thread("nobody", "u").await.unwrap_err();
    assert_eq!(nobody.to_string(), "there is no thread `nobody` to copy");
    let taken = store.copy_thread("t", "t").await.unwrap_err();
    assert_eq!(
        taken.to_string(),
        "thread `t` exists already: a copy needs a name of its own"
    );
}

/// 1-2-3-4 with 5-6 on 2, and 7 on 5.
async fn put_a_tree(store: &impl Checkpointer) {
    let mut third = commit(3, 2, [("log", log("3")), ("last", value("3"))]);
    third.tasks = vec![task(3, 0, "ran")];
    put(
        store,
        [
            commit(1, 0, [("log", log("1")), ("last", value("1"))]),
            commit(2, 1, [("log", snapshot("2", "12"))]),
            third,
            commit(4, 3, [("log", log("4")), ("gone", Item::Empty)]),
            commit(5, 2, [("log", log("5"))]),
            commit(6, 5, [("log", snapshot("6", "1256"))]),
            commit(7, 5, [("log", log("7"))]),
        ],
    )
    .await;
    store
        .save_tasks(&root(), seen(7, 0), id(3), vec![task(1, 0, "waits")])
        .await
        .unwrap();
}

async fn channels_of(store: &impl Checkpointer, ids: &[u64]) -> Vec<BTreeMap<String, Channel>> {
    let mut all = Vec::new();
    for at in ids {
        all.push(channels_at(store, *at).await);
    }
    all
}

async fn removed_checkpoints_leave_what_others_need(store: &impl Checkpointer) {
    put_a_tree(store).await;
    store
        .commit(&Place::root("other"), vec![commit(1, 0, [])])
        .await
        .unwrap();
    let before = channels_of(store, &[4, 7]).await;
    let gone = [1, 3, 5, 6, 99].map(id).to_vec();
    store.remove(&root(), gone).await.unwrap();
    let list = store.list(&root(), None, 9).await.unwrap();
    assert_eq!(list.iter().map(|at| at.id.0).collect::<Vec<_>>(), [7, 4, 2]);
    assert_eq!(channels_of(store, &[4, 7]).await, before);
    assert_eq!(store.load(&root(), Some(id(3))).await.unwrap(), None);
    // The tasks that made what is gone are gone, and those that waited there.
    assert_eq!(store.tasks(&root(), id(2)).await.unwrap(), []);
    assert_eq!(store.tasks(&root(), id(3)).await.unwrap(), []);
    // Of the items: the snapshot at 2, the logs at 3, 4, 5 and 7, the values at 1 and 3, the emptiness.
    let size = store.size("t").await.unwrap();
    assert_eq!(
        size.shares,
        [
            share("", Kind::Header, "", 3, 24),
            share("", Kind::Value, "last", 2, 2),
            share("", Kind::Value, "log", 1, 2),
            share("", Kind::Log, "log", 5, 5),
        ]
    );
    let other = store.list(&Place::root("other"), None, 9).await.unwrap();
    assert_eq!(other.len(), 1);
    // A removed checkpoint is nothing to build on.
    let orphan = commit(8, 3, []);
    let error = store.commit(&root(), vec![orphan]).await.unwrap_err();
    assert_eq!(error.to_string(), "thread `t` has no checkpoint 3");
    put(store, [commit(8, 4, [("log", log("8"))])]).await;
    assert_eq!(
        channels_at(store, 8).await["log"],
        channel(Some((2, "12")), [(3, "3"), (4, "4"), (8, "8")])
    );
}

async fn a_removed_fork_point_leaves_its_forks(store: &impl Checkpointer) {
    put_a_tree(store).await;
    let before = channels_of(store, &[7]).await;
    let gone = [1, 2, 3, 4, 5, 6].map(id).to_vec();
    store.remove(&root(), gone).await.unwrap();
    assert_eq!(channels_of(store, &[7]).await, before);
    let [listed] = &store.list(&root(), None, 9).await.unwrap()[..] else {
        panic!("only 7 is left");
    };
    let way = store.way(&root(), id(7)).await.unwrap();
    let way: Vec<_> = way.iter().map(|at| (at.branch.0, at.upto.0)).collect();
    assert_eq!(way, [(7, 7), (5, 5), (1, 2)]);
    assert_eq!((listed.parent, listed.branch), (Some(id(5)), id(7)));
    assert_eq!(listed.fork, Some(id(5)));
    // What was written at 2 is not needed, only the value there.
    assert_eq!(store.logs(&root(), id(2)).await.unwrap(), []);
    let size = store.size("t").await.unwrap();
    assert_eq!(size.bytes_of(Kind::Log), 2);
    assert_eq!(size.bytes_of(Kind::Value), 3);
}

async fn ids_of_removed_checkpoints_are_not_given_again(store: &impl Checkpointer) {
    put(store, [commit(1, 0, []), commit(2, 1, [])]).await;
    store.remove(&root(), vec![id(1), id(2)]).await.unwrap();
    assert_eq!(store.load(&root(), None).await.unwrap(), None);
    let head = store.head(&root()).await.unwrap().unwrap();
    assert_eq!(head.seen.newest, id(2));
    let error = store.commit(&root(), vec![commit(1, 0, [])]).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "thread `t` was changed by another writer since it was read"
    );
    put(store, [commit(3, 0, [("a", value("3"))])]).await;
    let loaded = store.load(&root(), None).await.unwrap().unwrap();
    assert_eq!((loaded.id, loaded.newest), (id(3), id(3)));
}

async fn removing_the_newest_is_noticed(store: &impl Checkpointer) {
    put(
        store,
        [commit(1, 0, []), commit(2, 1, []), commit(3, 2, [])],
    )
    .await;
    let head = store.head(&root()).await.unwrap();
    store.remove(&root(), vec![id(1)]).await.unwrap();
    assert_eq!(store.head(&root()).await.unwrap(), head);
    store.remove(&root(), vec![id(3)]).await.unwrap();
    assert_ne!(store.head(&root()).await.unwrap(), head);
    let loaded = store.load(&root(), None).await.unwrap().unwrap();
    assert_eq!((loaded.id, loaded.newest), (id(2), id(3)));
    // What goes on from there is a branch of its own.
    put(store, [commit(4, 2, [("a", value("4"))])]).await;
    let listed = store.list(&root(), None, 1).await.unwrap();
    assert_eq!((listed[0].branch, listed[0].fork), (id(4), Some(id(2))));
}

async fn places_come_in_order(store: &impl Checkpointer) {
    let nested = |thread: &str| Place {
        namespace: "node:1".into(),
        ..Place::root(thread)
    };
    let places = [
        Place::root(""),
        Place::root("T"),
        Place::root("t"),
        nested("t"),
        Place::root("t2"),
    ];
    for place in places.iter().rev() {
        store.commit(place, vec![commit(1, 0, [])]).await.unwrap();
    }
    assert_eq!(store.places(None, 99).await.unwrap(), places);
    assert_eq!(store.places(None, 2).await.unwrap(), places[..2]);
    for (at, place) in places.iter().enumerate() {
        let after = store.places(Some(place), 2).await.unwrap();
        assert_eq!(
            after,
            places[at + 1..].iter().take(2).cloned().collect::<Vec<_>>()
        );
    }
}

async fn what_is_exported_can_be_imported(store: &impl Checkpointer) {
    put_a_tree(store).await;
    let nested = Place {
        namespace: "node:1".into(),
        ..root()
    };
    store
        .commit(&nested, vec![commit(1, 0, [("a", value("1"))])])
        .await
        .unwrap();
    assert_eq!(store.export("nobody").await.unwrap(), None);
    let stored = store.export("t").await.unwrap().unwrap();
    let before = (
        everything(store, &root()).await,
        everything(store, &nested).await,
    );
    // Under its name it is what it was; under another it remembers the name.
    let error = store.import("t", stored.clone()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "thread `t` exists already: a copy needs a name of its own"
    );
    store.import("u", stored.clone()).await.unwrap();
    assert_eq!(store.export("u").await.unwrap().as_ref(), Some(&stored));
    let copy = store.load(&Place::root("u"), None).await.unwrap().unwrap();
    assert_eq!(copy.origin.as_deref(), Some("t"));
    store.delete_thread("t").await.unwrap();
    store.import("t", stored).await.unwrap();
    let after = (
        everything(store, &root()).await,
        everything(store, &nested).await,
    );
    assert_eq!(after, before);
}

async fn a_place_begun_anew_is_another_one(store: &impl Checkpointer) {
    let by = |born: u64, commit: Commit| Commit {
        born: Some(born),
        ..commit
    };
    put(store, [by(7, commit(1, 0, []))]).await;
    assert_eq!(store.head(&root()).await.unwrap().unwrap().born, 7);
    put(store, [by(7, commit(2, 1, []))]).await;
    store.delete_thread("t").await.unwrap();
    put(store, [by(8, commit(1, 0, [])), by(8, commit(2, 1, []))]).await;
    // Whoever still means the first one does not get in.
    let before = everything(store, &root()).await;
    let stale = Seen {
        born: Some(7),
        ..seen(2, 0)
    };
    let place = root();
    let tasks = store.save_tasks(&place, stale, id(2), vec![task(1, 0, "stale")]);
    let text = "thread `t` was changed by another writer since it was read";
    assert_eq!(tasks.await.unwrap_err().to_string(), text);
    let commits = store.commit(&place, vec![by(7, commit(3, 2, []))]);
    assert_eq!(commits.await.unwrap_err().to_string(), text);
    assert_eq!(everything(store, &root()).await, before);
    let now = Seen {
        born: Some(8),
        ..stale
    };
    store
        .save_tasks(&root(), now, id(2), vec![task(1, 0, "in time")])
        .await
        .unwrap();
    put(store, [by(8, commit(3, 2, []))]).await;
}
