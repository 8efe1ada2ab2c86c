//! What only a file can get wrong: reopening, two writers, damage.

use std::fs;
use std::path::{Path, PathBuf};

use superstep_checkpoint::{
    CheckpointId, Checkpointer, Commit, Item, Place, SaveError, SqliteCheckpointer, StoredTask,
    TaskId, frame,
};
use tempfile::TempDir;

use superstep_checkpoint::conformance::everything;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("threads.db")
    }

    fn open(&self) -> SqliteCheckpointer {
        SqliteCheckpointer::open(self.file()).unwrap()
    }

    /// An error's text without the folder's name, with the cause behind a colon.
    fn text(&self, error: &SaveError) -> String {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        let text = format!("{error}{}", cause.unwrap_or_default());
        text.replace(&self.0.path().display().to_string(), "FOLDER")
    }
}

fn sealed(text: &str) -> Vec<u8> {
    frame::seal("String", text.as_bytes())
}

/// A commit whose payloads are frames that say where they belong.
fn commit(place: &Place, number: u64, parent: u64) -> Commit {
    let text = |what: &str| sealed(&format!("{what} of {number} in {place}"));
    let snapshot = Item::Snapshot {
        log: text("log"),
        value: text("value"),
    };
    let log = if number.is_multiple_of(5) {
        snapshot
    } else {
        Item::Log(text("log"))
    };
    Commit {
        id: CheckpointId(number),
        born: None,
        parent: (parent > 0).then_some(CheckpointId(parent)),
        time: number,
        header: text("header"),
        items: vec![
            ("log".into(), log),
            ("last".into(), Item::Value(text("last"))),
            (
                "large".into(),
                Item::Value(text(&"large ".repeat(1000 / number as usize))),
            ),
        ],
        tasks: vec![StoredTask {
            id: TaskId([number as u8; 16]),
            position: 0,
            child: None,
            record: text("task"),
        }],
    }
}

fn places() -> [Place; 3] {
    let nested = Place {
        namespace: "node:1".into(),
        ..Place::root("one")
    };
    [Place::root("one"), nested, Place::root("two")]
}

async fn fill(store: &SqliteCheckpointer) {
    for place in places() {
        for number in 1..=12 {
            // A fork now and then.
            let parent = if number % 4 == 3 {
                number - 2
            } else {
                number - 1
            };
            let commits = vec![commit(&place, number, parent)];
            store.commit(&place, commits).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_reopened_file_has_everything() {
    let folder = Folder::new();
    let store = folder.open();
    fill(&store).await;
    let mut before = Vec::new();
    for place in places() {
        before.push(everything(&store, &place).await);
    }
    drop(store);
    assert_eq!(
        fs::read_dir(folder.0.path()).unwrap().count(),
        1,
        "the log is tidied up"
    );
    let store = folder.open();
    for (place, before) in places().iter().zip(before) {
        assert_eq!(everything(&store, place).await, before);
    }
}

#[tokio::test]
async fn what_was_handed_in_is_stored_even_if_nobody_waits() {
    let folder = Folder::new();
    let store = folder.open();
    let place = Place::root("one");
    for number in 1..=20 {
        let stored = store.commit(&place, vec![commit(&place, number, number - 1)]);
        // One poll hands it in.
        tokio::select! { biased; _ = stored => {}, () = std::future::ready(()) => {} }
    }
    drop(store);
    let list = folder.open().list(&place, None, 100).await.unwrap();
    assert_eq!(list.len(), 20);
}

#[tokio::test]
async fn of_two_racing_writers_one_wins_each_time() {
    let folder = Folder::new();
    let (left, right) = (folder.open(), folder.open());
    let place = Place::root("one");
    for number in 1..=50 {
        let by = |name: &str| Commit {
            header: sealed(name),
            ..commit(&place, number, number - 1)
        };
        let outcomes = tokio::join!(
            left.commit(&place, vec![by("left")]),
            right.commit(&place, vec![by("right")]),
        );
        let (winner, error) = match outcomes {
            (Ok(()), Err(error)) => ("left", error),
            (Err(error), Ok(())) => ("right", error),
            both => panic!("{number}: {both:?}"),
        };
        assert_eq!(
            error.to_string(),
            format!("thread `one` was changed by another writer since it was read")
        );
        let stored = left.list(&place, None, 1).await.unwrap();
        assert_eq!(stored[0].header, sealed(winner));
    }
    assert_eq!(
        everything(&left, &place).await,
        everything(&right, &place).await
    );
}

#[tokio::test]
async fn many_threads_commit_at_once() {
    let folder = Folder::new();
    let store = folder.open();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..16 {
        let store = store.clone();
        writers.spawn(async move {
            let place = Place::root(format!("thread {writer}"));
            for number in 1..=10 {
                store
                    .commit(&place, vec![commit(&place, number, number - 1)])
                    .await
                    .unwrap();
                // Of the same group, but in conflict: it fails alone.
                let stale = store.commit(&place, vec![commit(&place, number, 0)]).await;
                assert!(
                    matches!(stale, Err(SaveError::Conflict { .. })),
                    "{stale:?}"
                );
            }
        });
    }
    writers.join_all().await;
    for writer in 0..16 {
        let place = Place::root(format!("thread {writer}"));
        assert_eq!(store.list(&place, None, 100).await.unwrap().len(), 10);
    }
}

#[test]
fn many_can_create_the_file_at_once() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..8).map(|_| scope.spawn(|| folder.open())).collect();
        for store in opened {
            store.join().unwrap();
        }
    });
}

#[test]
fn what_cannot_be_opened_is_named() {
    let folder = Folder::new();
    fs::create_dir(folder.0.path().join("folder.db")).unwrap();
    fs::write(
        folder.0.path().join("text.db"),
        "no database, but long enough to be one ".repeat(40),
    )
    .unwrap();
    fs::write(folder.0.path().join("short.db"), "x").unwrap();
    let errors = ["folder.db", "missing/threads.db", "text.db", "short.db"].map(|name| {
        folder.text(&SqliteCheckpointer::open(folder.0.path().join(name)).unwrap_err())
    });
    insta::assert_snapshot!(errors.join("\n"), @r"
    opening FOLDER/folder.db failed: unable to open database file: FOLDER/folder.db
    opening FOLDER/missing/threads.db failed: unable to open database file: FOLDER/missing/threads.db
    FOLDER/text.db is damaged: file is not a database
    FOLDER/short.db is damaged: it is too short for a SQLite database
    ");
}

#[test]
fn a_file_that_may_not_be_written_is_refused() {
    let folder = Folder::new();
    drop(folder.open());
    let mut permissions = fs::metadata(folder.file()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(folder.file(), permissions).unwrap();
    if fs::OpenOptions::new()
        .write(true)
        .open(folder.file())
        .is_ok()
    {
        return; // The superuser may write everything.
    }
    let error = SqliteCheckpointer::open(folder.file()).unwrap_err();
    assert_eq!(
        folder.text(&error),
        "opening FOLDER/threads.db failed: the file is read-only"
    );
}

#[tokio::test]
async fn a_path_is_always_a_file() {
    let folder = Folder::new();
    let error = SqliteCheckpointer::open("").unwrap_err();
    assert!(matches!(error, SaveError::Backend { .. }), "{error}");
    for name in ["file:x?mode=memory", "a b%20#?.db", "\u{1F600}"] {
        let path = folder.0.path().join(name);
        fill(&SqliteCheckpointer::open(&path).unwrap()).await;
        assert!(path.is_file());
    }
}

/// The bytes of a closed file with some content.
async fn closed_file() -> Vec<u8> {
    let folder = Folder::new();
    let store = folder.open();
    fill(&store).await;
    drop(store);
    fs::read(folder.file()).unwrap()
}

/// All payloads that can be read of the file, each opened, or the first error.
async fn read_all(path: &Path) -> Result<Vec<String>, String> {
    let store = SqliteCheckpointer::open(path).map_err(text)?;
    let mut payloads = Vec::new();
    for place in places() {
        store.load(&place, None).await.map_err(text)?;
        store.size(&place.thread).await.map_err(text)?;
        for listed in store.list(&place, None, 100).await.map_err(text)? {
            payloads.push(listed.header);
            let loaded = store.load(&place, Some(listed.id)).await.map_err(text)?;
            for channel in loaded
                .into_iter()
                .flat_map(|loaded| loaded.channels.into_values())
            {
                payloads.extend(
                    channel
                        .value
                        .into_iter()
                        .chain(channel.logs)
                        .map(|(_, bytes)| bytes),
                );
            }
            let tasks = store.tasks(&place, listed.id).await.map_err(text)?;
            payloads.extend(tasks.into_iter().map(|task| task.record));
        }
    }
    let open = |bytes: &Vec<u8>| {
        let content = frame::open(bytes, "String").map_err(text)?;
        Ok(String::from_utf8(content.to_vec()).unwrap())
    };
    payloads.iter().map(open).collect()
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

#[tokio::test]
async fn a_truncated_file_is_an_error() {
    let whole = closed_file().await;
    let folder = Folder::new();
    let edges = (4096..whole.len()).step_by(4096);
    let others = [
        1,
        15,
        16,
        99,
        100,
        101,
        511,
        512,
        4095,
        4097,
        whole.len() / 2,
        whole.len() - 1,
    ];
    // Of no bytes at all it is a new file.
    for length in edges.chain(others) {
        fs::write(folder.file(), &whole[..length]).unwrap();
        let read = read_all(&folder.file()).await;
        assert!(read.is_err(), "{length} of {} bytes: {read:?}", whole.len());
    }
}

/// Keys have no checksum: a changed one can hide a payload, or show it elsewhere. But what is shown is intact.
#[tokio::test]
async fn a_changed_bit_never_gives_a_payload_that_was_not_stored() {
    let whole = closed_file().await;
    let folder = Folder::new();
    fs::write(folder.file(), &whole).unwrap();
    let stored = read_all(&folder.file()).await.unwrap();
    let mut noticed = 0;
    for bit in (0..whole.len() * 8).step_by(4999) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(folder.file(), &bytes).unwrap();
        match read_all(&folder.file()).await {
            Ok(payloads) => assert!(payloads.iter().all(|p| stored.contains(p)), "bit {bit}"),
            Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 50, "{noticed}");
}
