//! What a checkpointer does.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{CheckpointId, Place, Size, StoredThread, Stretch, TaskId};

/// Stores and finds checkpoints. Everything in it is bytes; the engine makes and reads them.
///
/// # What an implementation must keep
///
/// - **Atomic.** All of a [`commit`](Checkpointer::commit) becomes visible at once, or nothing.
/// - **Durable.** When a call returns `Ok`, what it stored survives the death of the process
///   (for a store that claims to be durable at all).
/// - **One writer.** A commit names the newest checkpoint its writer knows. If the place has a newer one,
///   it fails with [`SaveError::Conflict`] and changes nothing.
/// - **Lineage.** A checkpoint sees the items of its ancestors only, never those of a sibling.
#[async_trait]
pub trait Checkpointer: Send + Sync + fmt::Debug {
    /// Reads a checkpoint with all channels as of it: the newest one, or the one named.
    /// `None` if the place is empty or has no such checkpoint.
    async fn load(
        &self,
        place: &Place,
        at: Option<CheckpointId>,
    ) -> Result<Option<Loaded>, SaveError>;

    /// How far a place is, without reading it; `None` if nothing was ever stored there. By this a reader that knows
    /// the place finds out whether anything happened there.
    async fn head(&self, place: &Place) -> Result<Option<Head>, SaveError>;

    /// Lists checkpoints, newest first, older than `before` if given, at most `limit`.
    async fn list(
        &self,
        place: &Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<Listed>, SaveError>;

    /// The way from a checkpoint back to the root: its branch up to itself, the branch that this one was forked from up to there, and
    /// so on. Empty if there is no such checkpoint. All checkpoints on a branch between two others are on the way, also those
    /// that were removed.
    async fn way(&self, place: &Place, from: CheckpointId) -> Result<Vec<Stretch>, SaveError>;

    /// The tasks that ran on top of a checkpoint: those still waiting to become a checkpoint
    /// (no `child`), and those that made one. Ordered by child, then by position.
    async fn tasks(&self, place: &Place, base: CheckpointId) -> Result<Vec<StoredTask>, SaveError>;

    /// What was written to channels by the tasks that made a checkpoint: the logs of its
    /// [`Item::Log`] and [`Item::Snapshot`] items, in the order of the channels' names.
    async fn logs(
        &self,
        place: &Place,
        id: CheckpointId,
    ) -> Result<Vec<(String, Vec<u8>)>, SaveError>;

    /// Stores checkpoints of one place, all or none, in the order given; a later one may continue an earlier one.
    ///
    /// Fails with [`SaveError::NoCheckpoint`] if a parent is not there.
    /// When the future is dropped before it is ready, they may be stored or not.
    async fn commit(&self, place: &Place, commits: Vec<Commit>) -> Result<(), SaveError>;

    /// Stores tasks that finished, paused or failed while their superstep goes on, and the answers they were given.
    /// They wait at `base` until a commit with that parent takes them along; a second save of a task replaces the first.
    /// With base 0 they wait for the first checkpoint of a lineage.
    ///
    /// Fails with [`SaveError::Conflict`] if the place is not as the writer has [seen](Seen) it: another writer's results
    /// and answers are never replaced. Each save counts.
    async fn save_tasks(
        &self,
        place: &Place,
        seen: Seen,
        base: CheckpointId,
        tasks: Vec<StoredTask>,
    ) -> Result<(), SaveError>;

    /// Copies a thread with all its namespaces, and with all that waits in them. The copy remembers the
    /// [origin](Loaded::origin) of what it is a copy of, so that what waits is found under the ids it has.
    ///
    /// Fails with [`SaveError::Exists`] if there is something under the new name, and with [`SaveError::NoThread`] if there is nothing
    /// under the old one.
    async fn copy_thread(&self, thread: &str, to: &str) -> Result<(), SaveError>;

    /// Removes a thread with all its namespaces. An unknown thread is no error.
    async fn delete_thread(&self, thread: &str) -> Result<(), SaveError>;

    /// Removes checkpoints of one place, all or none, with the tasks that made them and those that wait at them; ids that are not there
    /// are no error. The others load as before: what they need of the removed ones stays. An id is never given again.
    async fn remove(&self, place: &Place, ids: Vec<CheckpointId>) -> Result<(), SaveError>;

    /// The places that were written to, by thread and then by namespace, after one of them or from the first, at most `limit`.
    async fn places(&self, after: Option<&Place>, limit: usize) -> Result<Vec<Place>, SaveError>;

    /// All that is stored of a thread, as of one moment; `None` if it is not there.
    async fn export(&self, thread: &str) -> Result<Option<StoredThread>, SaveError>;

    /// Stores a thread under a name as it was exported, all or nothing.
    ///
    /// Fails with [`SaveError::Exists`] if there is something under the name.
    async fn import(&self, thread: &str, stored: StoredThread) -> Result<(), SaveError>;

    /// How much a thread stores.
    async fn size(&self, thread: &str) -> Result<Size, SaveError>;
}

/// One checkpoint to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The new checkpoint: the successor of the newest one in its place. Anything else is a [`SaveError::Conflict`].
    pub id: CheckpointId,
    /// Which place it is meant for, see [`Loaded::born`]: another one under that name is a conflict as well. A place that is new is born with
    /// it. Without one any place will do.
    pub born: Option<u64>,
    /// The checkpoint it continues, which need not be the newest.
    pub parent: Option<CheckpointId>,
    /// When it was made, in milliseconds of Unix time.
    pub time: u64,
    /// A framed [`Header`](crate::Header).
    pub header: Vec<u8>,
    /// What happened to the channels that changed. Each stands here once; of several the last counts.
    pub items: Vec<(String, Item)>,
    /// The tasks that made it, in canonical order. Those of the same id that wait at the parent
    /// (at 0, if there is none) are replaced; others go on waiting.
    pub tasks: Vec<StoredTask>,
}

/// What a checkpoint says about a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// Its value from here on.
    Value(Vec<u8>),
    /// It is empty from here on.
    Empty,
    /// What was written to it here, to be folded into what was before.
    Log(Vec<u8>),
    /// What was written to it here, and the value after that.
    Snapshot {
        /// The writes.
        log: Vec<u8>,
        /// The value they led to.
        value: Vec<u8>,
    },
}

/// A place in few bytes. Two that are equal stand for the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// How far it is.
    pub seen: Seen,
    /// See [`Loaded::born`].
    pub born: u64,
}

/// What a writer knows of a place: enough to notice that another one was there meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The newest checkpoint that there ever was; 0 if none.
    pub newest: CheckpointId,
    /// How many saves of tasks there were since: those that [`Loaded`] told of, and the writer's own.
    pub saves: u64,
    /// Which place it is, see [`Loaded::born`]; without one any of that name will do.
    pub born: Option<u64>,
}

/// A task's record, and where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTask {
    /// The task.
    pub id: TaskId,
    /// Its position in the canonical order of its superstep.
    pub position: u32,
    /// The checkpoint it took part in making; `None` while it waits. A checkpointer sets it when it reads, and ignores it when it writes.
    pub child: Option<CheckpointId>,
    /// A framed record that only the engine reads.
    pub record: Vec<u8>,
}

/// A checkpoint as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Its id.
    pub id: CheckpointId,
    /// The one it continues.
    pub parent: Option<CheckpointId>,
    /// When it was made, in milliseconds of Unix time.
    pub time: u64,
    /// The newest checkpoint that the place ever had, which need not be this one, nor be there still.
    pub newest: CheckpointId,
    /// How many saves of tasks the place has seen since its newest checkpoint.
    pub saves: u64,
    /// Tells the place from another one that was, or will be, there under its name: after a thread was deleted and begun anew
    /// it is another number.
    pub born: u64,
    /// The name of the thread that this one was copied from; of a copy of a copy, the first.
    pub origin: Option<String>,
    /// Its framed header.
    pub header: Vec<u8>,
    /// Every channel that has an item on the way from the root to here.
    pub channels: BTreeMap<String, Channel>,
    /// The tasks that wait at it, by position.
    pub pending: Vec<StoredTask>,
}

/// What is stored of one channel, as of one checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The newest value on the way here, if there is one and the channel was not emptied after it.
    pub value: Option<(CheckpointId, Vec<u8>)>,
    /// The logs after that value (or after the channel was emptied, or all), oldest first.
    pub logs: Vec<(CheckpointId, Vec<u8>)>,
}

/// A checkpoint in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: CheckpointId,
    /// The one it continues, which may be gone.
    pub parent: Option<CheckpointId>,
    /// When it was made, in milliseconds of Unix time.
    pub time: u64,
    /// The branch that it is on, named after the first checkpoint there. The ids on a branch have no gaps but those of checkpoints
    /// that were removed.
    pub branch: CheckpointId,
    /// Where that branch was forked from; nothing if it starts at a root.
    pub fork: Option<CheckpointId>,
    /// Its framed header.
    pub header: Vec<u8>,
}

/// Why something could not be stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// Another writer was there first; what this one wanted to store is not stored.
    #[error("{place} was changed by another writer since it was read")]
    Conflict {
        /// Where.
        place: Place,
        /// The id that this writer's next checkpoint has, as far as it knew.
        expected: CheckpointId,
        /// What the place holds now; 0 if nothing.
        newest: CheckpointId,
    },
    /// A checkpoint to build on is not there.
    #[error("{place} has no checkpoint {id}")]
    NoCheckpoint {
        /// Where.
        place: Place,
        /// The checkpoint that was named.
        id: CheckpointId,
    },
    /// A thread to be copied to is there already.
    #[error("thread `{thread}` exists already: a copy needs a name of its own")]
    Exists {
        /// The thread.
        thread: String,
    },
    /// A thread to be copied is not there.
    #[error("there is no thread `{thread}` to copy")]
    NoThread {
        /// The thread.
        thread: String,
    },
    /// Stored bytes are damaged, or no store of ours.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// What was read.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process holds the store, longer than we wait.
    #[error("{what} is locked by another process")]
    Locked {
        /// What was to be opened or written.
        what: String,
    },
    /// The store failed.
    #[error("{what} failed")]
    Backend {
        /// What was tried.
        what: String,
        /// What the backend said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A number that tells a place from others of its name.
pub(crate) fn birth() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The number that a new place is to have, if its first commits say so.
pub(crate) fn birth_in(commits: &[Commit]) -> u64 {
    commits
        .iter()
        .find_map(|commit| commit.born)
        .unwrap_or_else(birth)
}

/// Whether commits may be stored in a place whose newest checkpoint ever is `newest`, 0 if it had none. `has` says whether a checkpoint is there.
pub(crate) fn check_commits<E: From<SaveError>>(
    place: &Place,
    there: Seen,
    commits: &[Commit],
    has: impl Fn(CheckpointId) -> Result<bool, E>,
) -> Result<(), E> {
    let newest = there.newest;
    let mut before = newest;
    for commit in commits {
        if commit.id != before.next() || is_another(commit.born, there.born) {
            return Err(conflict(place, commit.id, newest).into());
        }
        if let Some(parent) = commit.parent {
            // The one just before may be one of these commits.
            let comes = (newest.next()..=before).contains(&parent);
            if !comes && !has(parent)? {
                return Err(no_checkpoint(place, parent).into());
            }
        }
        before = commit.id;
    }
    Ok(())
}

/// Whether tasks may be stored at `base` of a place that is as `there`, by a writer who has `seen` it.
pub(crate) fn check_tasks<E: From<SaveError>>(
    place: &Place,
    there: Seen,
    seen: Seen,
    base: CheckpointId,
    has: impl Fn(CheckpointId) -> Result<bool, E>,
) -> Result<(), E> {
    let stale = (seen.newest, seen.saves) != (there.newest, there.saves);
    if stale || is_another(seen.born, there.born) {
        return Err(conflict(place, seen.newest.next(), there.newest).into());
    }
    match base {
        CheckpointId(0) => Ok(()),
        base if has(base)? => Ok(()),
        base => Err(no_checkpoint(place, base).into()),
    }
}

/// Whether a place is meant that is not the one there.
fn is_another(meant: Option<u64>, there: Option<u64>) -> bool {
    meant.is_some_and(|meant| there.is_some_and(|there| there != meant))
}

fn no_checkpoint(place: &Place, id: CheckpointId) -> SaveError {
    SaveError::NoCheckpoint {
        place: place.clone(),
        id,
    }
}

fn conflict(place: &Place, expected: CheckpointId, newest: CheckpointId) -> SaveError {
    SaveError::Conflict {
        place: place.clone(),
        expected,
        newest,
    }
}
