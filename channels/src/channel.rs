//! The trait every kind of channel implements, and what is handed to it.

use std::fmt;

use crate::{Name, Value};

/// One write to a channel.
#[derive(Clone, Debug)]
pub enum Write {
    /// Goes through the channel's rule.
    Plain(Value),
    /// Becomes the channel's value as it is; the other writes of the superstep are dropped.
    Overwrite(Value),
}

impl Write {
    /// The value that is written.
    pub fn value(&self) -> &Value {
        match self {
            Write::Plain(value) | Write::Overwrite(value) => value,
        }
    }
}

/// A live cell: the value of one channel in one running graph.
///
/// The engine calls either [`write`](Channel::write) or [`expire`](Channel::expire) once a superstep.
pub trait Channel: Send + Sync + fmt::Debug {
    /// Whether the rule takes these writes of one superstep; a reducer may still fail on them.
    fn check(&self, writes: &[Write]) -> Result<(), WriteError>;

    /// Applies all writes of one superstep, at least one, in canonical order.
    /// After an error the cell is as it was before.
    fn write(&mut self, writes: Vec<Write>) -> Result<(), WriteError>;

    /// The value now; `None` when the channel is empty.
    fn value(&self) -> Option<Value>;

    /// A superstep ended in which nobody wrote. Says whether that emptied the cell.
    fn expire(&mut self) -> bool {
        false
    }

    /// Sets the cell to what a checkpoint holds: a value, or empty.
    fn restore(&mut self, stored: Option<Value>);

    /// A second cell with the same value, to try writes on.
    fn duplicate(&self) -> Box<dyn Channel>;
}

/// Writes of one superstep that a channel's rule refuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Several writers where the channel takes one.
    #[error(
        "channel `{channel}` got {writers} writes in one superstep but takes one: \
         let one node write it, or give it a reducer"
    )]
    Conflict {
        /// The channel.
        channel: Name,
        /// How many wrote.
        writers: usize,
    },
    /// Several overwrites, so that it would depend on the order which one stays.
    #[error("channel `{channel}` was overwritten {times} times in one superstep; once is allowed")]
    Overwrites {
        /// The channel.
        channel: Name,
        /// How many times.
        times: usize,
    },
    /// A value of another type than the channel's.
    #[error("channel `{channel}` takes `{expected}`, not `{found}`")]
    WrongType {
        /// The channel.
        channel: Name,
        /// The type it takes.
        expected: String,
        /// The type of the value that was written.
        found: String,
    },
    /// The reducer itself failed.
    #[error("the reducer of channel `{channel}` failed")]
    Fold {
        /// The channel.
        channel: Name,
        /// What the reducer said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
