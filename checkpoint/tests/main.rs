//! What every checkpointer must keep, checked on all of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed helper is a failed test"
)]

mod coded;
mod conformance;
mod db;
mod model;
#[cfg(unix)]
mod postgres;
#[cfg(unix)]
mod server;
mod sql;
mod sqlite;
mod store;
mod upkeep;
