//! Checkpoints in one SQLite file.

mod open;
mod read;
mod worker;
mod write;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, ErrorCode};

use crate::lineage::Broken;
use crate::{
    CheckpointId, Checkpointer, Commit, Listed, Loaded, Place, SaveError, Size, StoredTask,
};
use worker::{Reader, Writer};

/// How long to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keeps checkpoints in a SQLite file, which several processes may use at once.
///
/// When a call returns, what it stored is on the disk (write-ahead log, `synchronous=FULL`).
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
///     parent: None,
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
        Self::open_waiting(path.as_ref(), PATIENCE)
    }

    fn open_waiting(path: &Path, patience: Duration) -> Result<Self, SaveError> {
        let file = Arc::new(File(path.display().to_string()));
        let failed = |stop| file.save_error("opening", stop);
        let writer = open::writer(path, patience).map_err(failed)?;
        let reader = open::reader(path, patience).map_err(failed)?;
        Ok(SqliteCheckpointer(Arc::new(Inner {
            writer: Writer::start(writer, Arc::clone(&file))?,
            reader: Reader::start(reader, Arc::clone(&file))?,
            file,
        })))
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
        self.read(move |db| read::load(db, &place, at)).await
    }

    async fn list(
        &self,
        place: &Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<Listed>, SaveError> {
        let place = place.clone();
        self.read(move |db| read::list(db, &place, before, limit)).await
    }

    async fn tasks(
        &self,
        place: &Place,
        base: CheckpointId,
    ) -> Result<Vec<StoredTask>, SaveError> {
        let place = place.clone();
        self.read(move |db| read::tasks(db, &place, base)).await
    }

    async fn commit(&self, place: &Place, commits: Vec<Commit>) -> Result<(), SaveError> {
        let place = place.clone();
        self.write(move |db| write::commit(db, &place, &commits)).await
    }

    async fn save_tasks(
        &self,
        place: &Place,
        newest: CheckpointId,
        base: CheckpointId,
        tasks: Vec<StoredTask>,
    ) -> Result<(), SaveError> {
        let place = place.clone();
        self.write(move |db| write::save_tasks(db, &place, newest, base, &tasks)).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaveError> {
        let thread = thread.to_owned();
        self.write(move |db| write::delete_thread(db, &thread)).await
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
