//! Checkpoints in PostgreSQL.

mod read;
mod schema;
mod store;
mod write;

use std::fmt;

use async_trait::async_trait;
use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, IsolationLevel, NoTls, Transaction};

use crate::lineage::Broken;
use crate::{
    CheckpointId, Checkpointer, Commit, Head, Listed, Loaded, Place, SaveError, Seen, Size,
    StoredTask, StoredThread, Stretch,
};

/// How many connections a pool of ours has at most.
const CONNECTIONS: usize = 16;

/// Keeps checkpoints in a PostgreSQL database (version 12 or later), in a schema of its own named `superstep`.
///
/// Each operation takes a connection from a pool, which is checked before it is used, and is one transaction. Nothing is left in the
/// session: no prepared statements, no advisory locks, no settings; so it works behind a pooler that hands out connections by
/// transaction (pgbouncer in transaction mode). Writers of one place wait for each other at its row; those of others do not.
///
/// When a call returns, what it stored is as durable as the server's `synchronous_commit` makes it. When the connection breaks during
/// a call, nobody knows whether it was made; the engine finds out by reading.
///
/// A clone shares the pool.
///
/// ```no_run
/// use superstep_checkpoint::PostgresCheckpointer;
///
/// # async fn example() -> Result<(), superstep_checkpoint::SaveError> {
/// let store = PostgresCheckpointer::connect("postgres://app@localhost/app").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresCheckpointer(Pool);

impl PostgresCheckpointer {
    /// Opens a database by its URL or `key=value` string, without TLS, and makes the tables if they are not there.
    ///
    /// Fails with [`SaveError::Damaged`] if a later release made them.
    pub async fn connect(url: &str) -> Result<Self, SaveError> {
        let config: Config = url
            .parse()
            .map_err(|error| failed("reading the URL", error))?;
        let manager = ManagerConfig {
            recycling_method: RecyclingMethod::Verified,
        };
        let pool = Pool::builder(Manager::from_config(config, NoTls, manager))
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| failed("making a pool", error))?;
        Self::with_pool(pool).await
    }

    /// Uses connections of a pool, which may be made with TLS, and makes the tables if they are not there. Let the pool check
    /// connections before it gives them ([`RecyclingMethod::Verified`]), or calls will fail when the server was restarted.
    pub async fn with_pool(pool: Pool) -> Result<Self, SaveError> {
        let store = PostgresCheckpointer(pool);
        schema::ensure(&store).await?;
        Ok(store)
    }

    async fn connection(&self) -> Result<Object, SaveError> {
        self.0.get().await.map_err(|error| match error {
            PoolError::Backend(error) => failed("connecting", error),
            other => failed("taking a connection", other),
        })
    }

    /// Reads as of one moment.
    async fn read<T>(
        &self,
        doing: &str,
        read: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, Stop>,
    ) -> Result<T, SaveError> {
        let mut connection = self.connection().await?;
        let transaction = connection
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()
            .await
            .map_err(|error| failed(doing, error))?;
        let found = read(&transaction)
            .await
            .map_err(|stop| stop.into_error(doing))?;
        transaction
            .commit()
            .await
            .map_err(|error| failed(doing, error))?;
        Ok(found)
    }

    /// Makes changes, all or none.
    async fn write<T>(
        &self,
        doing: &str,
        change: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, Stop>,
    ) -> Result<T, SaveError> {
        let mut connection = self.connection().await?;
        let transaction = connection
            .transaction()
            .await
            .map_err(|error| failed(doing, error))?;
        let made = change(&transaction)
            .await
            .map_err(|stop| stop.into_error(doing))?;
        transaction
            .commit()
            .await
            .map_err(|error| failed(doing, error))?;
        Ok(made)
    }
}

impl fmt::Debug for PostgresCheckpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresCheckpointer")
    }
}

fn failed(doing: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SaveError {
    SaveError::Backend {
        what: format!("{doing} (PostgreSQL)"),
        source: error.into(),
    }
}

/// What ends an operation early.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error(transparent)]
    Rule(#[from] SaveError),
    #[error(transparent)]
    Postgres(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Lineage(#[from] Broken),
    #[error("{0}")]
    Damaged(String),
}

impl Stop {
    fn into_error(self, doing: &str) -> SaveError {
        let damaged = |reason| SaveError::Damaged {
            what: "the PostgreSQL database".into(),
            reason,
        };
        match self {
            Stop::Rule(error) => error,
            Stop::Lineage(broken) => damaged(broken.to_string()),
            Stop::Damaged(reason) => damaged(reason),
            Stop::Postgres(error) => match error.code() {
                Some(&SqlState::LOCK_NOT_AVAILABLE) => SaveError::Locked {
                    what: "the PostgreSQL database".into(),
                },
                Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED) => {
                    damaged(error.to_string())
                }
                _ => failed(doing, error),
            },
        }
    }

    /// Whether a row was to be made that is there already.
    fn is_twice(&self) -> bool {
        match self {
            Stop::Postgres(error) => error.code() == Some(&SqlState::UNIQUE_VIOLATION),
            _ => false,
        }
    }
}

#[async_trait]
impl Checkpointer for PostgresCheckpointer {
    async fn load(
        &self,
        place: &Place,
        at: Option<CheckpointId>,
    ) -> Result<Option<Loaded>, SaveError> {
        self.read("loading a checkpoint", async |db| {
            read::load(db, place, at).await
        })
        .await
    }

    async fn head(&self, place: &Place) -> Result<Option<Head>, SaveError> {
        self.read("reading a place", async |db| {
            Ok(read::known(db, place).await?.map(|known| known.head()))
        })
        .await
    }

    async fn list(
        &self,
        place: &Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<Listed>, SaveError> {
        self.read("listing checkpoints", async |db| {
            read::list(db, place, before, limit).await
        })
        .await
    }

    async fn way(&self, place: &Place, from: CheckpointId) -> Result<Vec<Stretch>, SaveError> {
        self.read("reading a way", async |db| read::way(db, place, from).await)
            .await
    }

    async fn tasks(&self, place: &Place, base: CheckpointId) -> Result<Vec<StoredTask>, SaveError> {
        self.read("reading tasks", async |db| {
            read::tasks(db, place, base).await
        })
        .await
    }

    async fn logs(
        &self,
        place: &Place,
        id: CheckpointId,
    ) -> Result<Vec<(String, Vec<u8>)>, SaveError> {
        self.read("reading logs", async |db| read::logs(db, place, id).await)
            .await
    }

    async fn commit(&self, place: &Place, commits: Vec<Commit>) -> Result<(), SaveError> {
        self.write("storing checkpoints", async |db| {
            write::commit(db, place, &commits).await
        })
        .await
    }

    async fn save_tasks(
        &self,
        place: &Place,
        seen: Seen,
        base: CheckpointId,
        tasks: Vec<StoredTask>,
    ) -> Result<(), SaveError> {
        self.write("storing tasks", async |db| {
            write::save_tasks(db, place, seen, base, &tasks).await
        })
        .await
    }

    async fn copy_thread(&self, thread: &str, to: &str) -> Result<(), SaveError> {
        let stored = self.export(thread).await?.ok_or(SaveError::NoThread {
            thread: thread.to_owned(),
        })?;
        self.import(to, stored).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaveError> {
        self.write("deleting a thread", async |db| {
            write::delete_thread(db, thread).await
        })
        .await
    }

    async fn remove(&self, place: &Place, ids: Vec<CheckpointId>) -> Result<(), SaveError> {
        self.write("removing checkpoints", async |db| {
            write::remove(db, place, &ids).await
        })
        .await
    }

    async fn places(&self, after: Option<&Place>, limit: usize) -> Result<Vec<Place>, SaveError> {
        self.read("listing places", async |db| {
            read::places(db, after, limit).await
        })
        .await
    }

    async fn export(&self, thread: &str) -> Result<Option<StoredThread>, SaveError> {
        self.read("exporting a thread", async |db| {
            read::export(db, thread).await
        })
        .await
    }

    async fn import(&self, thread: &str, stored: StoredThread) -> Result<(), SaveError> {
        self.write("importing a thread", async |db| {
            let imported = write::import(db, thread, &stored).await;
            match imported {
                Err(stop) if stop.is_twice() => Err(write::exists(thread)),
                other => other,
            }
        })
        .await
    }

    async fn size(&self, thread: &str) -> Result<Size, SaveError> {
        self.read("measuring a thread", async |db| {
            read::size(db, thread).await
        })
        .await
    }
}
