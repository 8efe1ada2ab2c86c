//! Events that are stored with the checkpoints of a thread, so that a reader who was cut off can go on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use superstep_channels::Json;
use superstep_checkpoint::CheckpointId;

use crate::event::Part;

/// The id of a logged event: the checkpoint that the outermost graph stood on, and its number there.
/// It is the same in the stream and in the log, and ids grow along a thread. As text: `12-3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId {
    /// The checkpoint; 0 before the first.
    pub checkpoint: CheckpointId,
    /// Its number among the events told on that checkpoint, from 0.
    pub index: u32,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.checkpoint, self.index)
    }
}

/// Text that is no [`EventId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no event id: a checkpoint and a number are expected, as in `12-3`")]
pub struct ParseEventIdError(String);

impl FromStr for EventId {
    type Err = ParseEventIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once('-').and_then(|(checkpoint, index)| {
            Some(EventId {
                checkpoint: CheckpointId(checkpoint.parse().ok()?),
                index: index.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| ParseEventIdError(text.to_owned()))
    }
}

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Logged {
    /// Its id.
    pub id: EventId,
    /// What it says, in the form of [`Part::json`].
    pub part: Json,
}

impl Logged {
    /// A part that has an id, in the form in which it is stored.
    pub(crate) fn of(part: &Part) -> Option<Self> {
        Some(Logged {
            id: part.id?,
            part: Json(part.json()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let id = EventId {
            checkpoint: CheckpointId(12),
            index: 3,
        };
        assert_eq!(id.to_string(), "12-3");
        assert_eq!("12-3".parse(), Ok(id));
        for text in ["", "12", "-3", "12-", "a-3", "12-3-4", "12--3"] {
            assert!(text.parse::<EventId>().is_err(), "{text}");
        }
    }
}
