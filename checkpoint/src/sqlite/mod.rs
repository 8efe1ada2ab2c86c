//! Checkpoints in one SQLite file.

mod cache;
mod open;
mod read;
mod store;
mod worker;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use crate::lineage::Broken;
use crate::{
    CheckpointId, Checkpointer, Commit, Head, Listed, Loaded, Place, SaveError, Seen, Size,
    StoredTask, StoredThread, Stretch,
};
use worker::{Reader, Writer};

/// How a SQLite file is used.
///
/// ```
/// use superstep_checkpoint::{SqliteOptions, Synchronous};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let options = SqliteOptions::default().synchronous(Synchronous::Normal);
/// let store = options.open(folder.path().join("threads.db"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SqliteOptions {
    synchronous: Synchronous,
    patience: Duration,
}

/// When a change counts as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// When the disk has it: it survives a loss of power.
    #[default]
    Full,
    /// When the operating system has it: it survives the death of the process. A loss of power may take the last changes, and never
    /// leaves half of one.
    Normal,
}

impl Default for SqliteOptions {
    /// [`Synchronous::Full`], and five seconds of patience.
    fn default() -> Self {
        SqliteOptions {
            synchronous: Synchronous::Full,
            patience: Duration::from_secs(5),
        }
    }
}

impl SqliteOptions {
    /// When a change counts as stored.
    #[must_use]
    pub fn synchronous(self, synchronous: Synchronous) -> Self {
        SqliteOptions {
            synchronous,
            ..self
        }
    }

    /// How long to wait for another process that writes, before [`SaveError::Locked`].
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        SqliteOptions { patience, ..self }
    }

    /// Opens a file as [`SqliteCheckpointer::open`] does.
    pub fn open(self, path: impl AsRef<Path>) -> Result<SqliteCheckpointer, SaveError> {
        SqliteCheckpointer::open_with(path.as_ref(), self)
    }
}

/// Keeps checkpoints in a SQLite file, which several processes may use at once.
///
/// When a call returns, what it stored is on the disk (write-ahead log, `synchronous=FULL`); [`SqliteOptions`] has another choice.
/// What many callers store at the same time goes to the disk together. Reads do not wait for writes.
///
/// A clone shares the two threads and connections. Dropping the last one waits until everything that was
/// handed in is stored.
///
/// Payloads carry checksums (see [`frame`](crate::frame)), the structure of a SQLite file does not:
/// `PRAGMA integrity_check` finds damage there.
///
/// ```
/// use superstep_checkpoint::{Checkpointer, Commit, CheckpointId, Place, SqliteCheckpointer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let store = SqliteCheckpointer::open(folder.path().join("threads.db"))?;
/// let first = Commit {
///     id: CheckpointId(1),
///     born: None,
///     parent: None,
///     time: 0,
///     header: b"a framed header".to_vec(),
///     items: vec![],
///     tasks: vec![],
/// };
/// let place = Place::root("report-7");
/// store.commit(&place, vec![first]).await?;
/// assert_eq!(store.list(&place, None, 10).await?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SqliteCheckpointer(Arc<Inner>);

struct Inner {
    file: Arc<File>,
    path: PathBuf,
    options: SqliteOptions,
    // Dropped in this order: the connection that closes last moves the write-ahead log into the file.
    reader: Reader,
    writer: Writer,
}

impl SqliteCheckpointer {
    /// Opens a file, or creates it; its folder must exist. Blocks while it reads the file's first pages.
    ///
    /// A path is always a file: SQLite's special names (`:memory:`, `file:…?…`) are not.
    ///
    /// Fails with [`SaveError::Damaged`] if the file is no SQLite database, was made by another program,
    /// or by a later release of this one.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SaveError> {
        SqliteOptions::default().open(path)
    }

    fn open_with(path: &Path, options: SqliteOptions) -> Result<Self, SaveError> {
        let file = Arc::new(File(path.display().to_string()));
        let failed = |stop| file.save_error("opening", stop);
        let writer = open::writer(path, options).map_err(failed)?;
        let reader = open::reader(path, options.patience).map_err(failed)?;
        Ok(SqliteCheckpointer(Arc::new(Inner {
            writer: Writer::start(writer, Arc::clone(&file))?,
            reader: Reader::start(reader, Arc::clone(&file))?,
            file,
            path: path.to_owned(),
            options,
        })))
    }

    /// Rewrites the file without what was removed, gives the room back to the file system, and empties the write-ahead log: nothing of
    /// what was deleted is left in either. Takes as long as the file is large, and others wait meanwhile.
    pub async fn vacuum(&self) -> Result<(), SaveError> {
        let Inner {
            path,
            options,
            file,
            ..
        } = &*self.0;
        let (path, options, file) = (path.clone(), *options, Arc::clone(file));
        self.0.writer.settle().await?;
        let (done, answer) = oneshot::channel();
        let named = Arc::clone(&file);
        // It must not be in a transaction, which the connection that writes is in again and again.
        thread::spawn(move || {
            let vacuumed = open::writer(&path, options)
                .and_then(|db| Ok(db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")?));
            // The caller may have stopped waiting.
            let _ = done.send(vacuumed.map_err(|stop| named.save_error("vacuuming", stop)));
        });
        let gone = |_| file.failed("vacuuming", "its thread has ended".into());
        answer.await.map_err(gone)?
    }

    /// Looks for damage in the structure of the file, which has no checksums: pages, keys, indexes. An empty list means that all is well.
    /// What is stored in it is looked at by [`verify`](crate::verify).
    pub async fn check_file(&self) -> Result<Vec<String>, SaveError> {
        self.read(|db| {
            let mut query = db.prepare_cached("PRAGMA integrity_check")?;
            let found = query.query_map([], |row| row.get::<_, String>(0))?;
            let mut found = found.collect::<Result<Vec<_>, _>>()?;
            found.retain(|text| text != "ok");
            Ok(found)
        })
        .await
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, SaveError> {
        self.0.reader.run(query).await
    }

    async fn write(
        &self,
        change: impl FnOnce(&Connection) -> Result<(), Stop> + Send + 'static,
    ) -> Result<(), SaveError> {
        self.0.writer.run(change).await
    }
}

impl fmt::Debug for SqliteCheckpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteCheckpointer({})", self.0.file.0)
    }
}

#[async_trait]
impl Checkpointer for SqliteCheckpointer {
    async fn load(
        &self,
        place: &Place,
        at: Option<CheckpointId>,
    ) -> Result<Option<Loaded>, SaveError> {
        let place = place.clone();
        // A caller that gave up may have left a change in the queue; what is read has it.
        self.0.writer.settle().await?;
        self.read(move |db| read::load(db, &place, at)).await
    }

    async fn head(&self, place: &Place) -> Result<Option<Head>, SaveError> {
        let place = place.clone();
        self.0.writer.settle().await?;
        self.read(move |db| read::head(db, &place)).await
    }

    async fn list(
        &self,
        place: &Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<Listed>, SaveError> {
        let place = place.clone();
        self.read(move |db| read::list(db, &place, before, limit))
            .await
    }

    async fn way(&self, place: &Place, from: CheckpointId) -> Result<Vec<Stretch>, SaveError> {
        let place = place.clone();
        self.read(move |db| read::way(db, &place, from)).await
    }

    async fn tasks(&self, place: &Place, base: CheckpointId) -> Result<Vec<StoredTask>, SaveError> {
        let place = place.clone();
        self.read(move |db| read::tasks(db, &place, base)).await
    }

    async fn logs(
        &self,
        place: &Place,
        id: CheckpointId,
    ) -> Result<Vec<(String, Vec<u8>)>, SaveError> {
        let place = place.clone();
        self.read(move |db| read::logs(db, &place, id)).await
    }

    async fn commit(&self, place: &Place, commits: Vec<Commit>) -> Result<(), SaveError> {
        let place = place.clone();
        self.write(move |db| write::commit(db, &place, &commits))
            .await
    }

    async fn save_tasks(
        &self,
        place: &Place,
        seen: Seen,
        base: CheckpointId,
        tasks: Vec<StoredTask>,
    ) -> Result<(), SaveError> {
        let place = place.clone();
        self.write(move |db| write::save_tasks(db, &place, seen, base, &tasks))
            .await
    }

    async fn copy_thread(&self, thread: &str, to: &str) -> Result<(), SaveError> {
        let (thread, to) = (thread.to_owned(), to.to_owned());
        self.write(move |db| write::copy_thread(db, &thread, &to))
            .await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaveError> {
        let thread = thread.to_owned();
        self.write(move |db| write::delete_thread(db, &thread))
            .await
    }

    async fn remove(&self, place: &Place, ids: Vec<CheckpointId>) -> Result<(), SaveError> {
        let place = place.clone();
        self.write(move |db| write::remove(db, &place, &ids)).await
    }

    async fn places(&self, after: Option<&Place>, limit: usize) -> Result<Vec<Place>, SaveError> {
        let after = after.cloned();
        self.read(move |db| read::places(db, after.as_ref(), limit))
            .await
    }

    async fn export(&self, thread: &str) -> Result<Option<StoredThread>, SaveError> {
        let thread = thread.to_owned();
        self.0.writer.settle().await?;
        self.read(move |db| read::export(db, &thread)).await
    }

    async fn import(&self, thread: &str, stored: StoredThread) -> Result<(), SaveError> {
        let thread = thread.to_owned();
        self.write(move |db| write::import(db, &thread, &stored))
            .await
    }

    async fn size(&self, thread: &str) -> Result<Size, SaveError> {
        let thread = thread.to_owned();
        self.read(move |db| read::size(db, &thread)).await
    }
}

/// What ends a job on a connection early.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error(transparent)]
    Rule(#[from] SaveError),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Lineage(#[from] Broken),
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Unsuitable(String),
}

/// The path, as errors name it.
struct File(String);

impl File {
    fn save_error(&self, doing: &str, stop: Stop) -> SaveError {
        match stop {
            Stop::Rule(error) => error,
            Stop::Sqlite(error) => self.sqlite_error(doing, &error),
            Stop::Lineage(broken) => self.damaged(broken.to_string()),
            Stop::Damaged(reason) => self.damaged(reason),
            Stop::Unsuitable(reason) => self.failed(doing, reason),
        }
    }

    fn sqlite_error(&self, doing: &str, error: &rusqlite::Error) -> SaveError {
        use rusqlite::Error as E;
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SaveError::Locked {
                what: self.0.clone(),
            },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                self.damaged(error.to_string())
            }
            Some(_) => self.failed(doing, error.to_string()),
            None => match error {
                E::FromSqlConversionFailure(..)
                | E::IntegralValueOutOfRange(..)
                | E::InvalidColumnType(..)
                | E::Utf8Error(..) => self.damaged(error.to_string()),
                _ => self.failed(doing, error.to_string()),
            },
        }
    }

    fn damaged(&self, reason: String) -> SaveError {
        SaveError::Damaged {
            what: self.0.clone(),
            reason,
        }
    }

    fn failed(&self, doing: &str, reason: String) -> SaveError {
        SaveError::Backend {
            what: format!("{doing} {}", self.0),
            source: reason.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::TransactionBehavior;

    use super::*;

    const BRIEF: Duration = Duration::from_millis(20);

    fn first() -> Vec<Commit> {
        vec![Commit {
            id: CheckpointId(1),
            born: None,
            parent: None,
            time: 0,
            header: b"header".to_vec(),
            items: vec![],
            tasks: vec![],
        }]
    }

    /// What opening a file says after another program did `sql` to it.
    fn opening_after(sql: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("threads.db");
        drop(SqliteCheckpointer::open(&path).unwrap());
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = SqliteCheckpointer::open(&path).unwrap_err();
        assert!(matches!(error, SaveError::Damaged { .. }), "{error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "it is left alone");
        let folder = folder.path().display().to_string();
        error.to_string().replace(&folder, "FOLDER")
    }

    #[test]
    fn files_that_are_not_ours_are_refused() {
        let cases = [
            "PRAGMA application_id = 7",
            "PRAGMA application_id = 0; PRAGMA user_version = 0",
            "PRAGMA user_version = 2",
            "PRAGMA user_version = 0",
            "CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM tasks; END",
            "DROP TABLE items",
        ];
        insta::assert_snapshot!(cases.map(opening_after).join("\n"), @r"
        FOLDER/threads.db is damaged: it is a SQLite database of another program
        FOLDER/threads.db is damaged: it is a SQLite database of another program
        FOLDER/threads.db is damaged: it has version 2, the newest known here is 1: open it with a newer release
        FOLDER/threads.db is damaged: it is a SQLite database of another program
        FOLDER/threads.db is damaged: its tables are not the ones we made
        FOLDER/threads.db is damaged: its tables are not the ones we made
        ");
    }

    #[tokio::test]
    async fn a_locked_file_can_be_read_but_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("threads.db");
        let store = SqliteOptions::default()
            .patience(BRIEF)
            .open(&path)
            .unwrap();
        let place = Place::root("t");
        let mut other = Connection::open(&path).unwrap();
        let lock = other
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .unwrap();
        let error = store.commit(&place, first()).await.unwrap_err();
        assert!(
            matches!(&error, SaveError::Locked { what } if *what == path.display().to_string()),
            "{error:?}"
        );
        assert_eq!(store.load(&place, None).await.unwrap(), None);
        drop(lock);
        store.commit(&place, first()).await.unwrap();
    }

    #[test]
    fn a_file_that_was_vacuumed_is_still_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("threads.db");
        drop(SqliteCheckpointer::open(&path).unwrap());
        Connection::open(&path)
            .unwrap()
            .execute_batch("VACUUM")
            .unwrap();
        SqliteCheckpointer::open(&path).unwrap();
    }

    #[tokio::test]
    async fn what_counts_as_stored_is_a_choice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("threads.db");
        for (choice, number) in [(Synchronous::Full, 2), (Synchronous::Normal, 1)] {
            let store = SqliteOptions::default()
                .synchronous(choice)
                .open(&path)
                .unwrap();
            let (tell, told) = std::sync::mpsc::channel();
            let ask = move |db: &Connection| {
                let found: i64 = db.pragma_query_value(None, "synchronous", |row| row.get(0))?;
                tell.send(found)
                    .map_err(|error| Stop::Unsuitable(error.to_string()))
            };
            store.write(ask).await.unwrap();
            assert_eq!(told.recv().unwrap(), number);
        }
    }

    #[tokio::test]
    async fn of_a_group_each_change_succeeds_or_fails_on_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("threads.db");
        let store = SqliteCheckpointer::open(&path).unwrap();
        // While another writer has the lock, the changes gather behind the one that waits for it.
        let mut other = Connection::open(&path).unwrap();
        let lock = other
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .unwrap();
        let places = ["a", "b", "a", "c"].map(Place::root);
        let mut commits: Vec<_> = places
            .iter()
            .map(|place| store.commit(place, first()))
            .collect();
        for commit in &mut commits {
            let waker = std::task::Waker::noop();
            let polled = commit
                .as_mut()
                .poll(&mut std::task::Context::from_waker(waker));
            assert!(polled.is_pending());
        }
        drop(lock);
        let mut outcomes = Vec::new();
        for commit in commits {
            outcomes.push(commit.await.map_err(|error| error.to_string()));
        }
        let conflict = "thread `a` was changed by another writer since it was read";
        assert_eq!(outcomes, [Ok(()), Ok(()), Err(conflict.to_owned()), Ok(())]);
    }

    #[tokio::test]
    async fn a_change_that_fails_half_way_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap();
        let half = |db: &Connection| {
            db.execute("INSERT INTO channels(name) VALUES('half')", [])?;
            Err(Stop::Unsuitable("half way".into()))
        };
        store.write(half).await.unwrap_err();
        let count = |db: &Connection| {
            let count: Result<u64, _> =
                db.query_row("SELECT count(*) FROM channels", [], |row| row.get(0));
            Ok(count?)
        };
        assert_eq!(store.read(count).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_full_disk_is_an_error_and_the_store_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("threads.db");
        let store = SqliteCheckpointer::open(&path).unwrap();
        // Stands for a full disk: SQLite reports both in the same way.
        store
            .write(|db| Ok(db.pragma_update(None, "max_page_count", 20)?))
            .await
            .unwrap();
        let (small, large) = (Place::root("small"), Place::root("large"));
        let mut too_large = first();
        too_large[0].header = vec![0; 100_000];
        store.commit(&small, first()).await.unwrap();
        let error = store.commit(&large, too_large).await.unwrap_err();
        assert!(
            matches!(&error, SaveError::Backend { source, .. } if source.to_string().contains("full")),
            "{error:?}"
        );
        assert_eq!(store.load(&large, None).await.unwrap(), None);
        store.commit(&large, first()).await.unwrap();
    }
}
