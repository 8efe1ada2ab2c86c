//! The agent crate from outside: one binary, one module per subject.

// The lints' exception for tests does not reach the helpers of integration tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent_http;
mod agent_loop;
mod growth;
mod ids;
mod layers;
mod model_http;
mod pauses;
mod process;
mod provider;
mod subagents;
mod support;
