//! The examples' shared parts at work.

// The lints' exception for tests does not reach the helpers of integration tests.
#![allow(clippy::unwrap_used, clippy::panic)]

#[cfg(unix)]
mod planner;
