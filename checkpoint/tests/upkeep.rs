//! Looking after a store: finding, pruning, deleting runs, verifying, moving.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use insta::assert_snapshot;
use superstep_channels::Json;
use superstep_checkpoint::{
    CheckpointId, Checkpointer, Commit, Header, Item, MemoryCheckpointer, Place,
    PostgresCheckpointer, Prune, Source, SqliteCheckpointer, StoredTask, TaskId, conformance,
    delete_runs, find, frame, read_archive, threads, verify, write_archive,
};

fn id(number: u64) -> CheckpointId {
    CheckpointId(number)
}

fn header(run: Option<&str>, metadata: &[(&str, &str)]) -> Header {
    Header {
        source: Source::Loop,
        step: 0,
        graph: "graph".into(),
        version: 1,
        next: vec![],
        ran: vec![],
        parents: vec![],
        run: run.map(str::to_owned),
        metadata: metadata
            .iter()
            .map(|(key, value)| (key.to_string(), Json((*value).into())))
            .collect(),
        copy_of: None,
        task: None,
    }
}

fn sealed(text: &str) -> Vec<u8> {
    frame::seal("String", text.as_bytes())
}

fn commit(number: u64, parent: u64, header: Header) -> Commit {
    Commit {
        id: id(number),
        born: None,
        parent: (parent > 0).then_some(id(parent)),
        time: 1000 * number,
        header: header.seal().unwrap(),
        items: vec![
            ("log".into(), Item::Log(sealed(&number.to_string()))),
            ("last".into(), Item::Value(sealed(&number.to_string()))),
        ],
        tasks: vec![StoredTask {
            id: TaskId([number as u8; 16]),
            position: 0,
            child: None,
            record: sealed("task"),
        }],
    }
}

async fn put(store: &impl Checkpointer, thread: &str, commits: &[(u64, u64)]) {
    let commits = commits.iter();
    let commits = commits.map(|(number, parent)| commit(*number, *parent, header(None, &[])));
    let place = Place::root(thread);
    store.commit(&place, commits.collect()).await.unwrap();
}

async fn left(store: &impl Checkpointer, place: &Place) -> Vec<u64> {
    let list = store.list(place, None, 99).await.unwrap();
    list.iter().map(|listed| listed.id.0).collect()
}

fn moment(number: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1000 * number)
}

/// 1-2-3-4-5 with 6-7 on 2.
const TREE: [(u64, u64); 7] = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 2), (7, 6)];

#[tokio::test]
async fn hostile_keys_of_a_filter_are_just_keys() {
    filters(MemoryCheckpointer::new()).await;
    let folder = tempfile::tempdir().unwrap();
    filters(SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap()).await;
    #[cfg(unix)]
    if let Some(server) = crate::server::Server::shared() {
        let url = server.database().await;
        filters(PostgresCheckpointer::connect(&url).await.unwrap()).await;
    }
}

async fn filters(store: impl Checkpointer) {
    let place = Place::root("t");
    let keys = [
        "tenant",
        "a.b",
        "tenant') OR 1=1 --",
        "$[\"x\"]\\'",
        "",
        "\0",
    ];
    for (number, key) in (1..).zip(keys) {
        let commit = commit(number, number - 1, header(None, &[(key, "yes")]));
        store.commit(&place, vec![commit]).await.unwrap();
    }
    for (number, key) in (1..).zip(keys) {
        let filter = BTreeMap::from([(key.to_owned(), Json("yes".into()))]);
        let found = find(&store, &place, &filter, None, 9).await.unwrap();
        let found: Vec<_> = found.iter().map(|(listed, _)| listed.id.0).collect();
        assert_eq!(found, [number], "{key:?}");
    }
    let none = BTreeMap::from([("a".to_owned(), Json("yes".into()))]);
    assert!(
        find(&store, &place, &none, None, 9)
            .await
            .unwrap()
            .is_empty()
    );
    let all = find(&store, &place, &BTreeMap::new(), Some(id(3)), 1).await;
    assert_eq!(all.unwrap()[0].0.id, id(2));
}

#[tokio::test]
async fn prune_removes_what_its_rules_say_and_no_more() {
    let cases = [
        (Prune::keep_last(2), vec![7, 6]),
        (Prune::keep_last(2).keep_heads(), vec![7, 6, 5]),
        (Prune::keep_last(0), vec![7]),
        (Prune::keep_last(99), vec![7, 6, 5, 4, 3, 2, 1]),
        (Prune::older_than(moment(5)), vec![7, 6, 5]),
        (Prune::older_than(moment(99)), vec![7]),
        (
            Prune::keep_last(1).and_older_than(moment(3)),
            vec![7, 6, 5, 4, 3],
        ),
    ];
    for (prune, expected) in cases {
        let store = MemoryCheckpointer::new();
        put(&store, "t", &TREE).await;
        put(&store, "other", &TREE).await;
        let place = Place::root("t");
        let whole = conformance::everything(&store, &place).await.1;
        let plan = prune.plan(&store, "t").await.unwrap();
        assert_eq!(plan.checkpoints(), 7 - expected.len(), "{prune:?}");
        assert_eq!(left(&store, &place).await.len(), 7, "nothing is done yet");
        plan.carry_out(&store).await.unwrap();
        assert_eq!(left(&store, &place).await, expected, "{prune:?}");
        assert_eq!(left(&store, &Place::root("other")).await.len(), 7);
        for loaded in conformance::everything(&store, &place).await.1 {
            assert!(whole.contains(&loaded), "{prune:?}");
        }
        assert_eq!(verify(&store, "t").await.unwrap(), []);
        // Again there is nothing to do.
        assert_eq!(prune.plan(&store, "t").await.unwrap().checkpoints(), 0);
    }
}

#[tokio::test]
async fn deleting_runs_leaves_the_others_as_they_were() {
    let store = MemoryCheckpointer::new();
    let place = Place::root("t");
    for (number, run) in (1..).zip([Some("a"), Some("a"), None, Some("b"), Some("a"), Some("c")]) {
        let commit = commit(number, number - 1, header(run, &[]));
        store.commit(&place, vec![commit]).await.unwrap();
    }
    let whole = conformance::everything(&store, &place).await.1;
    assert_eq!(delete_runs(&store, "t", &["a", "nobody"]).await.unwrap(), 3);
    assert_eq!(left(&store, &place).await, [6, 4, 3]);
    for loaded in conformance::everything(&store, &place).await.1 {
        assert!(whole.contains(&loaded));
    }
    assert_eq!(delete_runs(&store, "t", &["c"]).await.unwrap(), 1);
    let loaded = store.load(&place, None).await.unwrap().unwrap();
    assert_eq!((loaded.id, loaded.newest), (id(4), id(6)));
    assert_eq!(delete_runs(&store, "nobody", &["c"]).await.unwrap(), 0);
}

#[tokio::test]
async fn bounded_memory_keeps_the_last_and_what_they_need() {
    let store = MemoryCheckpointer::bounded(3);
    let place = Place::root("t");
    let mut most = 0;
    for number in 1..=50 {
        put(&store, "t", &[(number, number - 1)]).await;
        most = most.max(left(&store, &place).await.len());
    }
    assert_eq!(most, 6);
    let loaded = store.load(&place, None).await.unwrap().unwrap();
    assert_eq!(loaded.channels["log"].logs.len(), 50);
    let size = store.size("t").await.unwrap();
    assert!(size.checkpoints() <= 6);
    // Of the other channel only the values of the last ones are left.
    let last = size.shares.iter().find(|share| share.channel == "last");
    assert!(last.unwrap().count <= 6);
}

#[tokio::test]
async fn threads_move_by_archive() {
    let (from, to) = (MemoryCheckpointer::new(), MemoryCheckpointer::new());
    for thread in ["a", "b", "c"] {
        put(&from, thread, &TREE).await;
    }
    let mut archive = Vec::new();
    let names = threads(&from)
        .await
        .unwrap()
        .into_keys()
        .chain(["nobody".into()]);
    assert_eq!(write_archive(&from, names, &mut archive).await.unwrap(), 3);
    let read = read_archive(&to, &mut &archive[..], |name| format!("{name}2")).await;
    assert_eq!(read.unwrap(), 3);
    let (was, is) = (Place::root("b"), Place::root("b2"));
    assert_eq!(left(&to, &is).await, left(&from, &was).await);
    let again = read_archive(&to, &mut &archive[..], |name| format!("{name}2")).await;
    assert_snapshot!(again.unwrap_err(), @"thread `a2` exists already: a copy needs a name of its own");
    // Cut off anywhere, it is an error, and what came whole is stored.
    let mut counts = std::collections::BTreeSet::new();
    for length in 0..archive.len() {
        let store = MemoryCheckpointer::new();
        let read = read_archive(&store, &mut &archive[..length], |name| name).await;
        assert!(read.is_err(), "{length}");
        counts.insert(threads(&store).await.unwrap().len());
    }
    assert_eq!(counts, [0, 1, 2, 3].into());
    let newer = frame::encode("Archive", &9u32).unwrap();
    let error = read_archive(&to, &mut &newer[..], |name| name).await;
    assert_snapshot!(error.unwrap_err(), @"the archive has version 9, the newest known here is 1");
}

#[tokio::test]
async fn verify_names_what_is_damaged() {
    let store = MemoryCheckpointer::new();
    put(&store, "t", &TREE).await;
    assert_eq!(verify(&store, "t").await.unwrap(), []);
    assert_eq!(verify(&store, "nobody").await.unwrap(), []);
    let whole = store.export("t").await.unwrap().unwrap();
    let found = async |damage: &dyn Fn(&mut superstep_checkpoint::StoredPlace)| {
        let mut stored = whole.clone();
        damage(stored.places.get_mut("").unwrap());
        let store = MemoryCheckpointer::new();
        store.import("t", stored).await.unwrap();
        put(&store, "other", &TREE).await;
        assert_eq!(verify(&store, "other").await.unwrap(), []);
        let findings = verify(&store, "t").await.unwrap();
        let findings = findings.iter().map(ToString::to_string);
        findings.collect::<Vec<_>>().join("\n")
    };
    let flip = |bytes: &mut Vec<u8>| bytes[10] ^= 1;
    assert_snapshot!(found(&|place| flip(&mut place.checkpoints.get_mut(&id(3)).unwrap().header)).await, @"thread `t`: the header of checkpoint 3: the frame is damaged: its checksum does not fit");
    assert_snapshot!(found(&|place| {
        let items = place.items.get_mut("log").unwrap();
        if let Some(Item::Log(log)) = items.get_mut(&(id(1), id(4))) {
            flip(log);
        }
    }).await, @"thread `t`: the log of channel `log` at checkpoint 4: the frame is damaged: its checksum does not fit");
    assert_snapshot!(found(&|place| drop(place.checkpoints.remove(&id(5)))).await, @"
    thread `t`: channel `last` at checkpoint 5 is seen from nowhere
    thread `t`: channel `log` at checkpoint 5 is seen from nowhere
    thread `t`: task 05050505050505050505050505050505 on checkpoint 4 belongs to no checkpoint
    ");
    assert_snapshot!(found(&|place| _ = place.branches.remove(&id(6))).await, @"
    thread `t`: the way to checkpoint 6: checkpoint 6 is missing or out of order, though others build on it
    thread `t`: the way to checkpoint 7: checkpoint 6 is missing or out of order, though others build on it
    thread `t`: channel `last` at checkpoint 6 is seen from nowhere
    thread `t`: channel `last` at checkpoint 7 is seen from nowhere
    thread `t`: channel `log` at checkpoint 6 is seen from nowhere
    thread `t`: channel `log` at checkpoint 7 is seen from nowhere
    ");
    assert_snapshot!(found(&|place| {
        let tasks = place.tasks.get_mut(&id(4)).unwrap();
        flip(&mut tasks.values_mut().next().unwrap().record);
    }).await, @"thread `t`: task 05050505050505050505050505050505 on checkpoint 4: the frame is damaged: its checksum does not fit");
    assert_snapshot!(found(&|place| place.checkpoints.get_mut(&id(3)).unwrap().parent = Some(id(9))).await, @"thread `t`: checkpoint 3 is older than its parent");
    assert_snapshot!(found(&|place| place.seen.newest = id(6)).await, @"thread `t`: checkpoint 7 is newer than the newest");
}
