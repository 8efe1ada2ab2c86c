//! Threads as a file: out of one store, into another.
//!
//! An archive is one frame after the other: `Archive`, which holds the version of what follows (1), a `Thread` for each thread, which
//! holds its name and a [`StoredThread`], and `End`, which holds how many there were. What was encrypted or compressed in the store is not so in an archive.

use std::io::{self, Read, Write};

use crate::frame::{self, FrameError};
use crate::{Checkpointer, SaveError, StoredThread};

const ARCHIVE: &str = "Archive";
const THREAD: &str = "Thread";
const END: &str = "End";
const VERSION: u32 = 1;

/// Why an archive cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The store failed, or what is to be stored is there already.
    #[error(transparent)]
    Store(#[from] SaveError),
    /// The file failed.
    #[error("the archive cannot be read or written")]
    File(#[from] io::Error),
    /// It is no archive, or it is damaged.
    #[error("the archive is damaged")]
    Frame(#[from] FrameError),
    /// It ends before its end.
    #[error("the archive is cut off after {threads} threads")]
    CutOff {
        /// The threads that were stored.
        threads: usize,
    },
    /// A later release wrote it.
    #[error("the archive has version {found}, the newest known here is {VERSION}")]
    NewerVersion {
        /// Its version.
        found: u32,
    },
    /// A thread is too large to be read back.
    #[error("thread `{thread}` cannot be archived")]
    Thread {
        /// The thread.
        thread: String,
        /// Why.
        #[source]
        source: superstep_channels::CodecError,
    },
}

/// Writes threads of a store; one thread at a time is held in memory. Threads that are not there are left out. Says how many it wrote.
pub async fn write_archive(
    saver: &dyn Checkpointer,
    threads: impl IntoIterator<Item = String>,
    to: &mut (dyn Write + Send),
) -> Result<usize, ArchiveError> {
    let mut count = 0;
    let seal = |thread: &str, error| ArchiveError::Thread {
        thread: thread.to_owned(),
        source: error,
    };
    let first = frame::encode(ARCHIVE, &VERSION).map_err(|error| seal("", error))?;
    to.write_all(&first)?;
    for thread in threads {
        if let Some(stored) = saver.export(&thread).await? {
            let bytes = frame::encode(THREAD, &(&thread, stored));
            to.write_all(&bytes.map_err(|error| seal(&thread, error))?)?;
            count += 1;
        }
    }
    let end = frame::encode(END, &(count as u64)).map_err(|error| seal("", error))?;
    to.write_all(&end)?;
    to.flush()?;
    Ok(count)
}

/// Stores the threads of an archive, each whole or not at all, and says how many there were. The names of the threads pass through
/// `name`, which can change them.
///
/// Ends at the first one that is there already ([`SaveError::Exists`]) or cannot be read; those before it are stored.
pub async fn read_archive(
    saver: &dyn Checkpointer,
    from: &mut (dyn Read + Send),
    mut name: impl FnMut(String) -> String + Send,
) -> Result<usize, ArchiveError> {
    let first = frame::read_from(from)?.unwrap_or_default();
    let found: u32 = frame::decode(&first, ARCHIVE)?;
    if found != VERSION {
        return Err(ArchiveError::NewerVersion { found });
    }
    let mut count = 0;
    while let Some(bytes) = frame::read_from(from)? {
        if frame::type_name(&bytes)? == END {
            return match frame::decode::<u64>(&bytes, END)? {
                found if found == count as u64 => Ok(count),
                _ => Err(ArchiveError::CutOff { threads: count }),
            };
        }
        let (thread, stored): (String, StoredThread) = frame::decode(&bytes, THREAD)?;
        saver.import(&name(thread), stored).await?;
        count += 1;
    }
    Err(ArchiveError::CutOff { threads: count })
}
