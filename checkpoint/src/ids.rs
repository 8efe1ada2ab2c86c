//! How stored things are addressed.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A checkpoint within its [`Place`]: 1 for the first, and so on in the order of creation.
///
/// No clock and no random number takes part, so the same run gives the same ids.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct CheckpointId(pub u64);

impl CheckpointId {
    /// The id that follows in the same place.
    #[must_use]
    pub fn next(self) -> Self {
        CheckpointId(self.0.saturating_add(1))
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A task: a hash of thread, namespace, checkpoint and path, the same on every attempt.
/// Use it as the idempotency key of a side effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub [u8; 16]);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where the checkpoints of one graph lie: a thread, and a namespace within it.
///
/// The outermost graph has the empty namespace; a graph nested in it has
/// `node:task`, one nested in that `node:task|node:task`, and so on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The thread, as the user named it.
    pub thread: Arc<str>,
    /// The namespace; empty for the outermost graph.
    pub namespace: Arc<str>,
}

impl Place {
    /// The outermost place of a thread.
    pub fn root(thread: impl Into<Arc<str>>) -> Self {
        Place {
            thread: thread.into(),
            namespace: "".into(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "thread `{}`", self.thread),
            namespace => write!(f, "thread `{}`, namespace `{namespace}`", self.thread),
        }
    }
}
