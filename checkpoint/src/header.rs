//! The part of a checkpoint that does not depend on the channels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use superstep_channels::{CodecError, Json};

use crate::frame::{self, FrameError};
use crate::{CheckpointId, TaskId};

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The nodes that ran last on the way here, in the order of their names; an edit or a fork by hand changes nothing about that.
    pub ran: Vec<String>,
    /// The checkpoints of the enclosing graphs, outermost first, each with its namespace.
    pub parents: Vec<(String, CheckpointId)>,
    /// The id of the run that made it, if its caller gave one.
    pub run: Option<String>,
    /// What the caller of the run noted with it.
    pub metadata: BTreeMap<String, Json>,
    /// The checkpoint that it is a copy of.
    pub copy_of: Option<CheckpointId>,
    /// The task of the enclosing graph that it was made in, and the number of that one's superstep.
    pub task: Option<(TaskId, i64)>,
}

const NAME: &str = "Header";

impl Header {
    /// The framed form, for [`Commit::header`](crate::Commit::header).
    pub fn seal(&self) -> Result<Vec<u8>, CodecError> {
        frame::encode(NAME, self)
    }

    /// Reads the framed form back.
    pub fn open(bytes: &[u8]) -> Result<Self, FrameError> {
        frame::decode(bytes, NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_can_be_opened() {
        let header = Header {
            source: Source::Loop,
            step: -1,
            graph: "report".into(),
            version: 3,
            next: vec!["review".into()],
            ran: vec!["draft".into()],
            parents: vec![(String::new(), CheckpointId(300))],
            run: Some("r1".into()),
            metadata: BTreeMap::from([("k".into(), Json(true.into()))]),
            copy_of: Some(CheckpointId(7)),
            task: Some((TaskId(*b"sixteen bytes..."), 9)),
        };
        let bytes = header.seal().unwrap();
        assert_eq!(Header::open(&bytes).unwrap(), header);
        // Fixed: what a release has written stays readable.
        let payload = b"\x01\x01\x06report\x03\x01\x06review\x01\x05draft\x01\x00\xfb\x2c\x01\x01\x02r1\x01\x01k\x01\x01\x01\x07\x01sixteen bytes...\x12";
        assert_eq!(frame::open(&bytes, NAME).unwrap(), payload);
    }
}
