//! What every checkpointer must keep, checked on all of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed helper is a failed test"
)]

#[cfg(all(feature = "zstd", feature = "encryption"))]
mod coded;
mod conformance;
mod model;
#[cfg(feature = "sqlite")]
mod sqlite;
mod upkeep;
