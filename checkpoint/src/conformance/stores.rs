//! The rules of long-term stores, one function each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::store::{
    Change, Embed, Entry, Filter, Found, Listing, Namespace, Op, Put, Reply, Row, Search, Store,
    StoreBackend, StoreError,
};

/// Names the rules, and finds them by name.
macro_rules! rules {
    ($($rule:ident)*) => {
        /// The names of the rules of [`StoreBackend`]s.
        pub const STORE_RULES: &[&str] = &[$(stringify!($rule)),*];

        /// Panics if a new, empty backend does not keep a rule.
        ///
        /// # Panics
        ///
        /// Also if there is no rule of that name.
        pub async fn check_store(rule: &str, backend: impl StoreBackend + Clone + 'static) {
            match rule {
                $(stringify!($rule) => $rule(backend).await,)*
                _ => panic!("there is no rule `{rule}`"),
            }
        }
    };
}

rules! {
    what_is_put_comes_back
    what_is_put_again_keeps_its_creation
    deleting_leaves_the_others
    a_search_stays_within_its_segments
    searches_go_in_order_page_by_page
    filters_choose
    what_expired_is_not_there
    reading_can_refresh
    a_batch_reads_before_it_writes
    changes_are_all_or_none
    namespaces_are_listed_by_pattern
    every_name_is_just_a_name
    the_most_similar_comes_first
    what_cannot_be_is_an_error
    rows_are_scanned_in_order
}

/// A clock that stands until it is set on, in milliseconds.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::SeqCst);
    }
}

fn moment(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

fn store(backend: impl StoreBackend + 'static) -> (Store, Clock) {
    let clock = Clock::default();
    clock.set(1000);
    let reads = clock.clone();
    let store = Store::new(backend).with_clock(move || moment(reads.0.load(Ordering::SeqCst)));
    (store, clock)
}

fn keys(found: &[Found]) -> Vec<String> {
    let path = |entry: &Entry| format!("{}/{}", entry.namespace.0.join("/"), entry.key);
    found.iter().map(|found| path(&found.entry)).collect()
}

async fn search(store: &Store, search: Search) -> Vec<String> {
    keys(&store.search(search).await.unwrap())
}

async fn put_all(store: &Store, paths: &[&str]) {
    for path in paths {
        let mut segments: Vec<String> = path.split('/').map(str::to_owned).collect();
        let key = segments.pop().unwrap();
        store
            .put(segments, key, json!({ "path": path }))
            .await
            .unwrap();
    }
}

async fn what_is_put_comes_back(backend: impl StoreBackend + Clone + 'static) {
    let (store, _) = store(backend);
    let documents = [
        json!({ "text": "ä \u{0} \" ' \\", "n": [1, -2, 2.5, u64::MAX, null, true], "deep": { "er": {} } }),
        json!({}),
        json!("text"),
        json!(null),
    ];
    for document in documents {
        store.put(["a", "b"], "k", document.clone()).await.unwrap();
        let expected = Entry {
            namespace: ["a", "b"].into(),
            key: "k".into(),
            value: document,
            created: moment(1000),
            updated: moment(1000),
            expires: None,
        };
        let found = store.get(["a", "b"], "k").await.unwrap();
        assert_eq!(found.as_ref(), Some(&expected));
        let all = store.search(Search::default()).await.unwrap();
        assert_eq!(all[0].entry, expected);
    }
    for (namespace, key) in [
        (&["a"][..], "k"),
        (&["a", "b", "c"], "k"),
        (&["a", "b"], ""),
    ] {
        assert_eq!(store.get(namespace, key).await.unwrap(), None);
    }
}

async fn what_is_put_again_keeps_its_creation(backend: impl StoreBackend + Clone + 'static) {
    let (store, clock) = store(backend);
    store.put(["a"], "k", json!(1)).await.unwrap();
    clock.set(2000);
    let brief = Put {
        ttl: Some(Duration::from_millis(500)),
        ..Put::default()
    };
    store.put_with(["a"], "k", json!(2), brief).await.unwrap();
    let found = store.get(["a"], "k").await.unwrap().unwrap();
    assert_eq!((found.created, found.updated), (moment(1000), moment(2000)));
    // What has expired was not there.
    clock.set(3000);
    store.put(["a"], "k", json!(3)).await.unwrap();
    let found = store.get(["a"], "k").await.unwrap().unwrap();
    assert_eq!((found.created, found.value), (moment(3000), json!(3)));
    assert_eq!(found.expires, None);
}

async fn deleting_leaves_the_others(backend: impl StoreBackend + Clone + 'static) {
    let (store, _) = store(backend);
    put_all(&store, &["a/k", "a/l", "a/b/k", "b/k"]).await;
    store.delete(["a"], "k").await.unwrap();
    store.delete(["a"], "k").await.unwrap();
    store.delete(["nowhere"], "k").await.unwrap();
    assert_eq!(
        search(&store, Search::default()).await,
        ["a/l", "a/b/k", "b/k"]
    );
    assert_eq!(store.get(["a"], "k").await.unwrap(), None);
}

async fn a_search_stays_within_its_segments(backend: impl StoreBackend + Clone + 'static) {
    let (store, _) = store(backend);
    put_all(
        &store,
        &[
            "tenant/acme/k",
            "tenant/acme-corp/k",
            "tenant/acme/notes/k",
            "tenant/a_me/k",
            "tenant/a%/k",
            "tenant/*/k",
        ],
    )
    .await;
    let under = async |segments: &[&str]| search(&store, Search::under(segments)).await;
    assert_eq!(
        under(&["tenant", "acme"]).await,
        ["tenant/acme/k", "tenant/acme/notes/k"]
    );
    assert_eq!(under(&["tenant", "a_me"]).await, ["tenant/a_me/k"]);
    assert_eq!(under(&["tenant", "a%"]).await, ["tenant/a%/k"]);
    assert_eq!(under(&["tenant", "*"]).await, ["tenant/*/k"]);
    assert_eq!(under(&[]).await.len(), 6);
    assert_eq!(under(&["ten"]).await.len(), 0);
    assert_eq!(under(&["tenant", "acme", "notes", "k"]).await.len(), 0);
}

async fn searches_go_in_order_page_by_page(backend: impl StoreBackend + Clone + 'static) {
    let (store, _) = store(backend);
    // More than are read at a time.
    let puts = (0..1200).rev().map(|number| Op::Put {
        namespace: ["n", if number % 2 == 0 { "even" } else { "odd" }].into(),
        key: format!("{number:04}"),
        value: json!({ "number": number }),
        how: Put::default(),
    });
    store.batch(puts.collect()).await.unwrap();
    let even: Vec<String> = (0..1200)
        .step_by(2)
        .map(|n| format!("n/even/{n:04}"))
        .collect();
    let odd: Vec<String> = (1..1200)
        .step_by(2)
        .map(|n| format!("n/odd/{n:04}"))
        .collect();
    let all: Vec<String> = even.into_iter().chain(odd).collect();
    let n = || Search::under(["n"]);
    assert_eq!(search(&store, n()).await, all);
    assert_eq!(
        search(&store, n().limit(3).offset(599)).await,
        all[599..602]
    );
    assert_eq!(search(&store, n().limit(0)).await.len(), 0);
    assert_eq!(search(&store, n().offset(1199).limit(9)).await, all[1199..]);
    assert_eq!(search(&store, n().offset(9999)).await.len(), 0);
    let high = n().at_least("number", 1190).limit(4).offset(2);
    assert_eq!(
        search(&store, high).await,
        ["n/even/1194", "n/even/1196", "n/even/1198", "n/odd/1191"]
    );
}

async fn filters_choose(backend: impl StoreBackend + Clone + 'static) {
    let (store, _) = store(backend);
    let documents = [
        ("a", json!({ "kind": "note", "rank": 1 })),
        ("b", json!({ "kind": "note", "rank": 2.5 })),
        ("c", json!({ "kind": "task", "rank": "2" })),
        ("d", json!([1])),
    ];
    for (key, document) in documents {
        store.put(["n"], key, document).await.unwrap();
    }
    let cases: [(Value, &[&str]); 6] = [
        (json!({ "kind": "note" }), &["n/a", "n/b"]),
        (json!({ "kind": { "$ne": "note" } }), &["n/c", "n/d"]),
        (json!({ "rank": { "$gte": 1, "$lt": 2.5 } }), &["n/a"]),
        (json!({ "rank": { "$gt": "1" } }), &["n/c"]),
        (json!({ "kind') OR 1=1 --": "note" }), &[]),
        (json!({}), &["n/a", "n/b", "n/c", "n/d"]),
    ];
    for (filter, expected) in cases {
        let search_for = Search::default().filter(Filter::from_json(&filter).unwrap());
        assert_eq!(search(&store, search_for).await, expected, "{filter}");
    }
}

fn for_ms(millis: u64) -> Put {
    Put {
        ttl: Some(Duration::from_millis(millis)),
        ..Put::default()
    }
}

async fn what_expired_is_not_there(backend: impl StoreBackend + Clone + 'static) {
    let (store, clock) = store(backend.clone());
    store
        .put_with(["n"], "brief", json!(1), for_ms(100))
        .await
        .unwrap();
    store
        .put_with(["n"], "long", json!(2), for_ms(200))
        .await
        .unwrap();
    store
        .put_with(["m"], "brief", json!(3), for_ms(100))
        .await
        .unwrap();
    store.put(["n"], "always", json!(4)).await.unwrap();
    store
        .put_with(
            ["n"],
            "huge",
            json!(5),
            Put {
                ttl: Some(Duration::MAX),
                ..Put::default()
            },
        )
        .await
        .unwrap();
    clock.set(1099);
    assert_eq!(search(&store, Search::default()).await.len(), 5);
    let found = store.get(["n"], "brief").await.unwrap().unwrap();
    assert_eq!(found.expires, Some(moment(1100)));
    clock.set(1100);
    assert_eq!(store.get(["n"], "brief").await.unwrap(), None);
    assert_eq!(
        search(&store, Search::default()).await,
        ["n/always", "n/huge", "n/long"]
    );
    assert_eq!(
        store.namespaces(Listing::all()).await.unwrap(),
        [["n"].into()]
    );
    assert_eq!(store.sweep().await.unwrap(), 2);
    assert_eq!(store.sweep().await.unwrap(), 0);
    let left = backend
        .scan(&Namespace::default(), None, 9, false)
        .await
        .unwrap();
    assert_eq!(left.len(), 3);
}

async fn reading_can_refresh(backend: impl StoreBackend + Clone + 'static) {
    let (store, clock) = store(backend);
    for key in ["got", "found", "seen"] {
        store
            .put_with(["n"], key, json!({ "key": key }), for_ms(100))
            .await
            .unwrap();
    }
    clock.set(1050);
    let got = store.get_refreshing(["n"], "got").await.unwrap().unwrap();
    assert_eq!(
        (got.expires, got.updated),
        (Some(moment(1150)), moment(1000))
    );
    let found = store
        .search(Search::default().is("key", "found").refreshing())
        .await;
    assert_eq!(found.unwrap()[0].entry.expires, Some(moment(1150)));
    store.get(["n"], "seen").await.unwrap();
    clock.set(1100);
    assert_eq!(
        search(&store, Search::default()).await,
        ["n/found", "n/got"]
    );
    clock.set(1150);
    assert_eq!(search(&store, Search::default()).await.len(), 0);
}

async fn a_batch_reads_before_it_writes(backend: impl StoreBackend + Clone + 'static) {
    let (store, _) = store(backend);
    store.put(["n"], "k", json!(1)).await.unwrap();
    let put = |value: u64| Op::Put {
        namespace: ["n"].into(),
        key: "k".into(),
        value: json!(value),
        how: Put::default(),
    };
    let get = || Op::Get {
        namespace: ["n"].into(),
        key: "k".into(),
        refresh: false,
    };
    let delete = || Op::Delete {
        namespace: ["n"].into(),
        key: "k".into(),
    };
    let replies = store
        .batch(vec![
            put(2),
            get(),
            delete(),
            put(3),
            Op::Search(Search::default()),
        ])
        .await;
    let replies = replies.unwrap();
    let value = |reply: &Reply| match reply {
        Reply::Entry(entry) => entry.as_ref().map(|entry| entry.value.clone()),
        Reply::Found(found) => found.first().map(|found| found.entry.value.clone()),
        _ => None,
    };
    let values: Vec<_> = replies.iter().map(value).collect();
    assert_eq!(values, [None, Some(json!(1)), None, None, Some(json!(1))]);
    assert_eq!(
        store.get(["n"], "k").await.unwrap().unwrap().value,
        json!(3)
    );
    store.batch(vec![put(4), delete()]).await.unwrap();
    assert_eq!(store.get(["n"], "k").await.unwrap(), None);
    assert_eq!(store.batch(vec![]).await.unwrap(), []);
}

async fn changes_are_all_or_none(backend: impl StoreBackend + Clone + 'static) {
    let (store, _) = store(backend);
    let put = |namespace: &[&str]| Op::Put {
        namespace: namespace.into(),
        key: "k".into(),
        value: json!(1),
        how: Put::default(),
    };
    let error = store.batch(vec![put(&["n"]), put(&[])]).await.unwrap_err();
    assert_eq!(error.to_string(), "a namespace needs at least one segment");
    assert_eq!(search(&store, Search::default()).await.len(), 0);
}

async fn namespaces_are_listed_by_pattern(backend: impl StoreBackend + Clone + 'static) {
    let (store, _) = store(backend);
    put_all(
        &store,
        &[
            "a/x/1/k", "a/x/2/k", "a/y/1/k", "a/k", "b/x/1/k", "b/*/k", "a/x/1/l",
        ],
    )
    .await;
    let cases: [(Listing, &[&str]); 9] = [
        (
            Listing::all(),
            &["a", "a/x/1", "a/x/2", "a/y/1", "b/*", "b/x/1"],
        ),
        (
            Listing::all().under(["a"]),
            &["a", "a/x/1", "a/x/2", "a/y/1"],
        ),
        (Listing::all().under(["a"]).depth(2), &["a", "a/x", "a/y"]),
        (
            Listing::all().under(["*", "x"]),
            &["a/x/1", "a/x/2", "b/x/1"],
        ),
        (Listing::all().ending(["1"]), &["a/x/1", "a/y/1", "b/x/1"]),
        (
            Listing::all().under(["a"]).ending(["*", "1"]),
            &["a/x/1", "a/y/1"],
        ),
        (Listing::all().ending(["a", "x", "1", "more"]), &[]),
        (Listing::all().offset(1).limit(2), &["a/x/1", "a/x/2"]),
        (
            Listing::all().under([
                crate::store::Segment::Is("b".into()),
                crate::store::Segment::Is("*".into()),
            ]),
            &["b/*"],
        ),
    ];
    for (listing, expected) in cases {
        let found = store.namespaces(listing.clone()).await.unwrap();
        let found: Vec<String> = found
            .iter()
            .map(|namespace| namespace.0.join("/"))
            .collect();
        assert_eq!(found, expected, "{listing:?}");
    }
}

async fn every_name_is_just_a_name(backend: impl StoreBackend + Clone + 'static) {
    let (store, _) = store(backend);
    let names = [
        "a",
        "a.b",
        "a/b",
        "'; DROP TABLE entries; --",
        "%",
        "_",
        "\\",
        "\"",
        "*",
        "\0",
        "\u{1}",
        "ä",
        "A",
        " ",
    ];
    for outer in names {
        for inner in names {
            store
                .put([outer, inner], inner, json!([outer, inner]))
                .await
                .unwrap();
        }
    }
    for outer in names {
        assert_eq!(
            search(&store, Search::under([outer])).await.len(),
            names.len(),
            "{outer:?}"
        );
        for inner in names {
            let found = store.get([outer, inner], inner).await.unwrap().unwrap();
            assert_eq!(found.value, json!([outer, inner]));
            assert_eq!(search(&store, Search::under([outer, inner])).await.len(), 1);
        }
    }
    store.put(["a"], "", json!("the empty key")).await.unwrap();
    let found = store.search(Search::under(["a"]).limit(1)).await.unwrap();
    assert_eq!(found[0].entry.key, "");
}

/// Counts letters: texts with the same letters point the same way.
struct Letters;

#[async_trait]
impl Embed for Letters {
    async fn embed(
        &self,
        texts: Vec<String>,
    ) -> Result<Vec<Vec<f32>>, Box<dyn std::error::Error + Send + Sync>> {
        let vector = |text: String| {
            let count = |letter: char| text.chars().filter(|found| *found == letter).count() as f32;
            vec![count('a'), count('b'), count('c')]
        };
        match texts.iter().any(|text| text == "fail") {
            true => Err("it had to".into()),
            false => Ok(texts.into_iter().map(vector).collect()),
        }
    }
}

async fn the_most_similar_comes_first(backend: impl StoreBackend + Clone + 'static) {
    let (plain, _) = store(backend);
    let indexed = plain.clone().indexed(Letters, ["text", "more"]);
    let documents = [
        ("1", json!({ "text": "aaa", "kind": 1 })),
        ("2", json!({ "text": "ab", "kind": 1 })),
        ("3", json!({ "text": "b", "more": "aab", "kind": 2 })),
        ("4", json!({ "text": "c", "kind": 1 })),
        ("5", json!({ "other": "a" })),
    ];
    for (key, document) in documents {
        indexed.put(["n"], key, document).await.unwrap();
    }
    let unindexed = Put {
        unindexed: true,
        ..Put::default()
    };
    indexed
        .put_with(["n"], "6", json!({ "text": "a" }), unindexed)
        .await
        .unwrap();
    indexed
        .put(["m"], "7", json!({ "text": "aa" }))
        .await
        .unwrap();
    let found = indexed
        .search(Search::under(["n"]).similar_to("a"))
        .await
        .unwrap();
    assert_eq!(keys(&found), ["n/1", "n/3", "n/2", "n/4"]);
    let scores: Vec<f32> = found.iter().filter_map(|found| found.score).collect();
    let expected = [1.0, 2.0 / 5_f32.sqrt(), 0.5_f32.sqrt(), 0.0];
    for (score, expected) in scores.iter().zip(expected) {
        assert!((score - expected).abs() < 1e-6, "{scores:?}");
    }
    let some = Search::under(["n"])
        .similar_to("a")
        .is("kind", 1)
        .offset(1)
        .limit(1);
    assert_eq!(search(&indexed, some).await, ["n/2"]);
    // Of equals the first in order comes first.
    assert_eq!(
        search(&indexed, Search::default().similar_to("a").limit(2)).await,
        ["m/7", "n/1"]
    );
    let error = plain
        .search(Search::default().similar_to("a"))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::NoIndex));
    let error = indexed
        .put(["n"], "8", json!({ "text": "fail" }))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Embedding(_)));
    assert_eq!(indexed.get(["n"], "8").await.unwrap(), None);
    // Put anew without the index it is not found any more.
    plain
        .put(["n"], "1", json!({ "text": "aaa" }))
        .await
        .unwrap();
    assert_eq!(
        search(&indexed, Search::under(["n"]).similar_to("a").limit(1)).await,
        ["n/3"]
    );
}

async fn what_cannot_be_is_an_error(backend: impl StoreBackend + Clone + 'static) {
    let (store, _) = store(backend);
    let wrong: [(&[&str], &str); 2] = [
        (&[], "a namespace needs at least one segment"),
        (
            &["a", ""],
            "segment 2 of a namespace is empty: it must not be",
        ),
    ];
    for (namespace, text) in wrong {
        let put = store.put(namespace, "k", json!(1)).await.unwrap_err();
        let get = store.get(namespace, "k").await.unwrap_err();
        let delete = store.delete(namespace, "k").await.unwrap_err();
        assert_eq!([put, get, delete].map(|error| error.to_string()), [text; 3]);
    }
}

async fn rows_are_scanned_in_order(backend: impl StoreBackend + Clone + 'static) {
    let row = |namespace: &[&str], key: &str| Row {
        namespace: namespace.into(),
        key: key.into(),
        value: json!(key),
        created: 1,
        updated: 1,
        ttl: None,
        expires: None,
        vectors: vec![vec![1.0, 0.5]],
    };
    let rows = [
        row(&["a"], ""),
        row(&["a"], "k"),
        row(&["a", "b"], "a"),
        row(&["b"], "a"),
    ];
    let changes = rows.iter().rev().cloned().map(Change::Put);
    backend.write(changes.collect()).await.unwrap();
    let all = Namespace::default();
    assert_eq!(backend.scan(&all, None, 9, true).await.unwrap(), rows);
    let bare = backend.scan(&all, None, 2, false).await.unwrap();
    assert!(bare.len() == 2 && bare.iter().all(|row| row.vectors.is_empty()));
    for (at, row) in rows.iter().enumerate() {
        let after = backend
            .scan(&all, Some((&row.namespace, &row.key)), 9, true)
            .await
            .unwrap();
        assert_eq!(after, rows[at + 1..]);
    }
    let under = backend
        .scan(&["a"].into(), Some((&["a"].into(), "k")), 9, true)
        .await
        .unwrap();
    assert_eq!(under, rows[2..3]);
    assert_eq!(backend.scan(&all, None, 0, true).await.unwrap(), []);
}
