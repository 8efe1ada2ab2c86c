//! Where the thread is stored.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use superstep::checkpoint::{Checkpointer, MemoryCheckpointer};
use superstep_benches::Error;
use superstep_checkpoint::SqliteCheckpointer;
use tempfile::TempDir;

/// The savers by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SaverKind {
    /// In memory.
    Memory,
    /// In a file of its own, with `synchronous=FULL`.
    Sqlite,
}

/// A new, empty store.
pub(crate) struct Store {
    saver: Arc<dyn Checkpointer>,
    file: Option<(PathBuf, TempDir)>,
}

impl Store {
    pub(crate) fn new(kind: SaverKind) -> Result<Self, Error> {
        Ok(match kind {
            SaverKind::Memory => Store {
                saver: Arc::new(MemoryCheckpointer::new()),
                file: None,
            },
            SaverKind::Sqlite => {
                let folder = tempfile::tempdir()?;
                let path = folder.path().join("threads.db");
                Store {
                    saver: Arc::new(SqliteCheckpointer::open(&path)?),
                    file: Some((path, folder)),
                }
            }
        })
    }

    pub(crate) fn saver(&self) -> Arc<dyn Checkpointer> {
        Arc::clone(&self.saver)
    }

    /// The same store as a program finds it that was just started.
    pub(crate) fn reopened(&self) -> Result<Arc<dyn Checkpointer>, Error> {
        match &self.file {
            Some((path, _)) => Ok(Arc::new(SqliteCheckpointer::open(path)?)),
            None => Ok(self.saver()),
        }
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
