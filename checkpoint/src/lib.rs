//! What is saved of a workflow, as which bytes, and where.
//!
//! A *thread* is one long-lived run of a workflow; nested workflows keep their own checkpoints
//! under the same thread, each in its own *namespace*. Thread and namespace together are a [`Place`].
//! At the end of every superstep the engine hands a [`Checkpointer`] one [`Commit`]:
//! the header, the channels that changed, and the results of the tasks that changed them.
//! It becomes visible as a whole or not at all.
//!
//! **This crate does not know** what a graph or a node is. To a checkpointer everything is bytes;
//! the bytes are [`frame`]s: checked, versioned, and named after the type inside.

mod cache;
mod coded;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod frame;
mod header;
mod ids;
mod lineage;
mod log;
mod memory;
mod nested;
#[cfg(feature = "postgres")]
mod postgres;
mod saver;
mod shared;
mod size;
#[cfg(feature = "sqlite")]
mod sqlite;
pub mod store;
mod stored;
mod upkeep;
mod view;

pub use cache::{Cache, CacheKey, MemoryCache};
#[cfg(feature = "zstd")]
pub use coded::Zstd;
#[cfg(feature = "encryption")]
pub use coded::{AesGcm, KeyError};
pub use coded::{Codec, Coded};
pub use header::{Header, Source};
pub use ids::{CheckpointId, Place, TaskId};
pub use lineage::Stretch;
pub use log::{decode_log, decode_value, encode_log};
pub use memory::MemoryCheckpointer;
pub use nested::{Relation, relation};
#[cfg(feature = "postgres")]
pub use postgres::PostgresCheckpointer;
pub use saver::{
    Channel, Checkpointer, Commit, Head, Item, Listed, Loaded, SaveError, Seen, StoredTask,
};
pub use size::{Kind, Share, Size};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteCheckpointer, SqliteOptions, Synchronous};
pub use stored::{StoredCheckpoint, StoredPlace, StoredThread};
pub use upkeep::{
    ArchiveError, Finding, Plan, Prune, delete_runs, find, read_archive, threads, verify,
    write_archive,
};
pub use view::view;

/// Its examples are tests.
#[cfg(all(doctest, feature = "conformance"))]
#[doc = include_str!("../README.md")]
struct Readme;
