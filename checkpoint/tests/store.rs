//! The long-term store: its rules on every backend, and all backends alike.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use serde_json::{Value, json};
use superstep_checkpoint::store::{
    Listing, MemoryStore, Op, Put, Reply, Search, Store, StoreBackend,
};
use superstep_checkpoint::{SqliteCheckpointer, conformance};

#[tokio::test]
async fn memory_keeps_the_rules() {
    for rule in conformance::STORE_RULES {
        println!("{rule}");
        conformance::check_store(rule, MemoryStore::new()).await;
    }
}

#[tokio::test]
async fn sqlite_keeps_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    for rule in conformance::STORE_RULES {
        println!("{rule}");
        let store = SqliteCheckpointer::open(folder.path().join(rule)).unwrap();
        conformance::check_store(rule, store).await;
    }
}

#[tokio::test]
async fn what_is_stored_in_a_file_is_there_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("threads.db");
    let open = || Store::new(SqliteCheckpointer::open(&path).unwrap());
    open().put(["a"], "k", json!({ "x": 1 })).await.unwrap();
    let found = open().get(["a"], "k").await.unwrap().unwrap();
    assert_eq!(found.value, json!({ "x": 1 }));
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<(u64, Vec<Op>)>> {
    let segment = || prop::sample::select(&["a", "ab", "b", "%", "\0"][..]);
    let namespace = || prop::collection::vec(segment(), 1..3);
    let key = || prop::sample::select(&["", "k", "l"][..]);
    let value = prop_oneof![
        (0..4u8).prop_map(|n| json!({ "n": n })),
        Just(json!(null)),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    let ttl = prop::option::of((0..50u64).prop_map(Duration::from_millis));
    let how = ttl.prop_map(|ttl| Put {
        ttl,
        ..Put::default()
    });
    let op = prop_oneof![
        3 => (namespace(), key(), value, how).prop_map(|(namespace, key, value, how)| Op::Put {
            namespace: namespace.as_slice().into(),
            key: key.into(),
            value,
            how,
        }),
        2 => (namespace(), key(), any::<bool>()).prop_map(|(namespace, key, refresh)| Op::Get {
            namespace: namespace.as_slice().into(),
            key: key.into(),
            refresh,
        }),
        1 => (namespace(), key()).prop_map(|(namespace, key)| Op::Delete {
            namespace: namespace.as_slice().into(),
            key: key.into(),
        }),
        2 => (prop::collection::vec(segment(), 0..3), 0..3usize, prop::option::of(0..4usize), any::<bool>()).prop_map(
            |(prefix, offset, limit, refresh)| Op::Search(Search {
                prefix: prefix.as_slice().into(),
                offset,
                limit,
                refresh,
                ..Search::default()
            })
        ),
        1 => (segment(), prop::option::of(0..3usize)).prop_map(|(suffix, depth)| {
            let listing = Listing::all().ending([suffix]);
            Op::Namespaces(Listing { depth, ..listing })
        }),
    ];
    prop::collection::vec((0..30u64, prop::collection::vec(op, 1..4)), 1..25)
}

/// What a store answers to a random history.
pub(crate) async fn answers(
    backend: impl StoreBackend + 'static,
    batches: Vec<(u64, Vec<Op>)>,
) -> Vec<Vec<Reply>> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    let clock = Arc::new(AtomicU64::new(1));
    let reads = Arc::clone(&clock);
    let now = move || SystemTime::UNIX_EPOCH + Duration::from_millis(reads.load(Ordering::SeqCst));
    let store = Store::new(backend).with_clock(now);
    let mut answers = Vec::new();
    for (later, batch) in batches {
        clock.fetch_add(later, Ordering::SeqCst);
        answers.push(store.batch(batch).await.unwrap());
    }
    let all = store.search(Search::default()).await.unwrap();
    answers.push(vec![Reply::Found(all)]);
    store.sweep().await.unwrap();
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sqlite_answers_as_memory_does(batches in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap();
        let memory = runtime.block_on(answers(MemoryStore::new(), batches.clone()));
        let sqlite = runtime.block_on(answers(file, batches));
        prop_assert_eq!(sqlite, memory);
    }
}

#[tokio::test]
async fn a_store_that_fails_says_so_and_one_that_tears_is_found_out() {
    use superstep_checkpoint::conformance::{Call, Fault, Faults, Watched};
    let put = |key: &str| Op::Put {
        namespace: ["n"].into(),
        key: key.into(),
        value: json!(1),
        how: Put::default(),
    };
    for (fault, left) in [
        (Fault::Fail, 0),
        (Fault::FailAfter, 2),
        // Half of a batch: what no backend may ever do shows.
        (Fault::Tear, 1),
    ] {
        let inner = MemoryStore::new();
        let first = Faults::new(move |call: &Call, _| match call.writes() {
            true => fault,
            false => Fault::None,
        });
        let store = Store::new(Watched::new(inner.clone(), first));
        store.batch(vec![put("a"), put("b")]).await.unwrap_err();
        let found = Store::new(inner).search(Search::default()).await.unwrap();
        assert_eq!(found.len(), left, "{fault:?}");
    }
}
