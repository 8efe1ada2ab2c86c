//! Codecs around a checkpointer change nothing but the bytes in it.

use superstep_checkpoint::{
    AesGcm, CheckpointId, Checkpointer, Coded, Commit, Item, Kind, MemoryCheckpointer, Place,
    SaveError, StoredTask, TaskId, Zstd, conformance, frame,
};

fn commit(text: &str) -> Commit {
    let sealed = |what: &str| frame::seal("String", format!("{what} {text}").as_bytes());
    Commit {
        id: CheckpointId(1),
        born: None,
        parent: None,
        time: 1,
        header: sealed("header"),
        items: vec![
            ("a".into(), Item::Value(sealed("value"))),
            (
                "b".into(),
                Item::Snapshot {
                    log: sealed("log"),
                    value: sealed("snapshot"),
                },
            ),
        ],
        tasks: vec![StoredTask {
            id: TaskId([1; 16]),
            position: 0,
            child: None,
            record: sealed("task"),
        }],
    }
}

fn key(name: &str, byte: u8) -> AesGcm {
    AesGcm::new(name, [byte; 32]).unwrap()
}

async fn stored(
    codec: impl Fn(MemoryCheckpointer) -> Coded<MemoryCheckpointer>,
    text: &str,
) -> MemoryCheckpointer {
    let inner = MemoryCheckpointer::new();
    let store = codec(inner.clone());
    store
        .commit(&Place::root("t"), vec![commit(text)])
        .await
        .unwrap();
    inner
}

async fn error(store: impl Checkpointer) -> String {
    match store.load(&Place::root("t"), None).await.unwrap_err() {
        error @ SaveError::Damaged { .. } => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_rules_hold_through_codecs() {
    for rule in conformance::RULES {
        // These count the bytes of what they stored.
        if [
            "sizes_add_up",
            "removed_checkpoints_leave_what_others_need",
            "a_removed_fork_point_leaves_its_forks",
            "of_a_channel_named_twice_the_last_counts",
            "tasks_can_wait_for_a_first_checkpoint",
        ]
        .contains(rule)
        {
            continue;
        }
        println!("{rule}");
        let store = Coded::new(MemoryCheckpointer::new())
            .with(Zstd::default())
            .with(key("k", 1));
        conformance::check(rule, &store).await;
    }
}

#[tokio::test]
async fn zstd_makes_smaller_what_gets_smaller_by_it() {
    let text = "again and ".repeat(200);
    let inner = stored(|inner| Coded::new(inner).with(Zstd::level(9)), &text).await;
    let size = inner.size("t").await.unwrap();
    assert!(size.bytes() < 5 * 200, "{size:?}");
    let read = Coded::new(inner).with(Zstd::default());
    let loaded = read.load(&Place::root("t"), None).await.unwrap().unwrap();
    assert_eq!(loaded.header, commit(&text).header);
    // What is short stays as it is, and can be read without the codec.
    let inner = stored(|inner| Coded::new(inner).with(Zstd::default()), "short").await;
    let loaded = inner.load(&Place::root("t"), None).await.unwrap().unwrap();
    assert_eq!(loaded.header, commit("short").header);
}

#[tokio::test]
async fn what_is_encrypted_says_so_and_shows_nothing() {
    let inner = stored(|inner| Coded::new(inner).with(key("2026", 1)), "secret").await;
    let bytes = format!("{:?}", inner.export("t").await.unwrap());
    for part in ["secret", "header"] {
        let part = format!("{:?}", part.as_bytes());
        assert!(!bytes.contains(part.trim_matches(['[', ']'])));
    }
    assert_eq!(inner.size("t").await.unwrap().count_of(Kind::Task), 1);
    insta::assert_snapshot!(error(Coded::new(inner.clone())).await, @"thread `t` is damaged: the frame's payload has codec 3 (AES-GCM): read it through a checkpointer that knows it");
    insta::assert_snapshot!(error(Coded::new(inner.clone()).with(key("2027", 1))).await, @"thread `t` is damaged: it is encrypted with the key `2026`, which is not given");
    insta::assert_snapshot!(error(Coded::new(inner.clone()).with(key("2026", 2))).await, @"thread `t` is damaged: it cannot be decrypted with the key `2026`: the key is another one, or it was changed");
    // Another key was taken since.
    let keys = key("2027", 2).and("2026", [1; 32]).unwrap();
    let store = Coded::new(inner).with(keys);
    let loaded = store.load(&Place::root("t"), None).await.unwrap().unwrap();
    assert_eq!(loaded.header, commit("secret").header);
    insta::assert_snapshot!(key("k", 1).and("k", [2; 32]).unwrap_err(), @"there are two keys named `k`");
    insta::assert_snapshot!(AesGcm::new("k".repeat(256), [2; 32]).unwrap_err(), @"the name of a key has at most 255 bytes, this one has 256");
}

#[tokio::test]
async fn a_codec_can_be_added_at_any_time_and_moves_with_exports() {
    let plain = MemoryCheckpointer::new();
    plain
        .commit(&Place::root("t"), vec![commit("plain")])
        .await
        .unwrap();
    let store = Coded::new(plain).with(Zstd::default()).with(key("k", 1));
    let stored = store.export("t").await.unwrap().unwrap();
    let other = Coded::new(MemoryCheckpointer::new()).with(key("other", 3));
    other.import("t", stored.clone()).await.unwrap();
    assert_eq!(other.export("t").await.unwrap(), Some(stored));
}

#[tokio::test]
async fn a_changed_bit_in_what_is_encrypted_is_noticed_though_checksums_fit() {
    use superstep_checkpoint::Codec as _;
    let key = key("k", 1);
    let payload = key.encode(b"frame").unwrap().unwrap();
    assert_eq!(key.decode(&payload).unwrap(), b"frame");
    for bit in 0..payload.len() * 8 {
        let mut changed = payload.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(key.decode(&changed).is_err(), "{bit}");
    }
    for length in 0..payload.len() {
        assert!(key.decode(&payload[..length]).is_err());
    }
}

#[test]
fn what_unpacks_to_too_much_or_is_no_zstd_is_an_error() {
    use superstep_checkpoint::Codec as _;
    let bomb = Zstd::level(19).encode(&vec![0; 1 << 20]).unwrap().unwrap();
    assert!(bomb.len() < 1000);
    assert_eq!(Zstd::default().decode(&bomb).unwrap().len(), 1 << 20);
    for hostile in [&b""[..], b"hello", &bomb[..bomb.len() / 2]] {
        assert!(Zstd::default().decode(hostile).is_err());
    }
}
