//! Where the thread is stored.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use superstep::checkpoint::{Checkpointer, MemoryCheckpointer};
use superstep_benches::Error;
use superstep_checkpoint::{PostgresCheckpointer, SqliteCheckpointer};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The savers by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SaverKind {
    /// In memory.
    Memory,
    /// In a SQLite file of its own, with `synchronous=FULL`.
    Sqlite,
    /// In the PostgreSQL database that `--url` names, under a thread that must not be there.
    Postgres,
}

/// A new, empty store.
pub(crate) struct Store {
    saver: Arc<dyn Checkpointer>,
    file: Option<(PathBuf, TempDir)>,
    url: Option<String>,
}

impl Store {
    pub(crate) fn new(
        kind: SaverKind,
        url: Option<&str>,
        runtime: &Runtime,
    ) -> Result<Self, Error> {
        Ok(match kind {
            SaverKind::Memory => Store {
                saver: Arc::new(MemoryCheckpointer::new()),
                file: None,
                url: None,
            },
            SaverKind::Postgres => {
                let url = url.ok_or("--saver postgres needs --url")?;
                Store {
                    saver: Arc::new(runtime.block_on(PostgresCheckpointer::connect(url))?),
                    file: None,
                    url: Some(url.to_owned()),
                }
            }
            SaverKind::Sqlite => {
                let folder = tempfile::tempdir()?;
                let path = folder.path().join("threads.db");
                Store {
                    saver: Arc::new(SqliteCheckpointer::open(&path)?),
                    file: Some((path, folder)),
                    url: None,
                }
            }
        })
    }

    pub(crate) fn saver(&self) -> Arc<dyn Checkpointer> {
        Arc::clone(&self.saver)
    }

    /// The same store as a program finds it that was just started.
    pub(crate) fn reopened(&self, runtime: &Runtime) -> Result<Arc<dyn Checkpointer>, Error> {
        Ok(match (&self.file, &self.url) {
            (Some((path, _)), _) => Arc::new(SqliteCheckpointer::open(path)?),
            (None, Some(url)) => Arc::new(runtime.block_on(PostgresCheckpointer::connect(url))?),
            (None, None) => self.saver(),
        })
    }

    /// The bytes on the disk, the write-ahead log included.
    pub(crate) fn file_bytes(&self) -> u64 {
        let Some((path, _)) = &self.file else {
            return 0;
        };
        let length = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        length(path) + length(&log.into())
    }
}
