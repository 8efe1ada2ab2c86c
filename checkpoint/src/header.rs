//! The part of a checkpoint that does not depend on the channels.

use serde::{Deserialize, Serialize};

use crate::CheckpointId;

/// What made a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Source {
    /// New input came in.
    Input,
    /// A superstep ended.
    Loop,
    /// Somebody edited the state by hand.
    Update,
    /// An older checkpoint was taken up again.
    Fork,
}

/// The small fixed part of a checkpoint: what it costs besides the channels that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// What made it.
    pub source: Source,
    /// The number of the superstep that ended here: -1 for the first input, then counting on over all runs.
    pub step: i64,
    /// The graph that ran.
    pub graph: String,
    /// The graph's version, as its author counts.
    pub version: u32,
    /// The nodes that are due next, in the order of their names.
    pub next: Vec<String>,
    /// The checkpoints of the enclosing graphs, outermost first, each with its namespace.
    pub parents: Vec<(String, CheckpointId)>,
}
