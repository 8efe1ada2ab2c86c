//! A deep-agent harness compiled onto the superstep engine.

pub mod files;
pub mod message;
pub mod model;
