//! Why nodes ran.

use superstep_channels::Name;
use superstep_checkpoint::{CheckpointId, TaskId};

/// Why the tasks that are due on a checkpoint are due, and what changed there. See [`Thread::explain`](crate::Thread::explain).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// The channels that its superstep wrote, by name.
    pub changed: Vec<Change>,
    /// The tasks that are due on it, in canonical order.
    pub due: Vec<Reason>,
}

/// A channel that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The channel.
    pub channel: Name,
    /// The tasks that wrote it, with their nodes, in the order in which the writes were folded in.
    pub by: Vec<(TaskId, String)>,
}

/// Why a task is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The task.
    pub task: TaskId,
    /// Its node.
    pub node: Name,
    /// What led to it; nothing if it has waited since an earlier checkpoint, or is the input.
    pub because: Vec<Because>,
}

/// One thing that led to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Because {
    /// An edge from a node that ran; of the input from the start.
    Edge {
        /// The task that ran.
        task: TaskId,
        /// Its node.
        node: String,
    },
    /// A join that this node made full.
    Join {
        /// The task that ran.
        task: TaskId,
        /// Its node.
        node: String,
    },
    /// A `goto` or a branch of a node that ran.
    Goto {
        /// The task that ran.
        task: TaskId,
        /// Its node.
        node: String,
    },
    /// A payload that was sent.
    Send {
        /// The task that sent it.
        task: TaskId,
        /// Its node.
        node: String,
    },
}
