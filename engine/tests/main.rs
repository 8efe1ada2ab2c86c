//! The engine through its public surface.
#![allow(missing_docs)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed helper is a failed test"
)]

mod boundaries;
mod compile_fail;
mod control;
mod crash;
mod crowd;
mod describing;
mod document;
mod found;
mod growth;
mod handles;
mod journal;
mod laws;
mod migration;
mod nesting;
mod policies;
mod process;
mod report;
mod reports;
#[path = "../../checkpoint/tests/server.rs"]
mod server;
mod surface;
mod tracing;
mod updates;
