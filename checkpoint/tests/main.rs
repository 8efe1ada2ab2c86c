//! What every checkpointer must keep, checked on all of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed helper is a failed test"
)]

mod model;
mod rules;
#[cfg(feature = "sqlite")]
mod sqlite;
