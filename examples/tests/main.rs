//! The examples at work: their shared parts, and the programs as a user runs them.

// The lints' exception for tests does not reach the helpers of integration tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(unix)]

mod asked;
mod embed;
mod killed;
mod planner;
mod program;
// The agent's own tests need all of it.
#[allow(dead_code)]
#[path = "../../agent/tests/provider.rs"]
mod provider;
mod reading;
mod refused;
mod served;
mod survey;
