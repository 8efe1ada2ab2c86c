//! Looking after what is stored, on any checkpointer.

mod archive;
mod find;
mod prune;
mod runs;
mod verify;

pub use archive::{ArchiveError, read_archive, write_archive};
pub use find::{find, threads};
pub use prune::{Plan, Prune};
pub use runs::delete_runs;
pub use verify::{Finding, verify};

/// How many places or checkpoints are listed at a time.
const PAGE: usize = 256;
