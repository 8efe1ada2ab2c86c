//! What the example programs share.

pub mod failed;
pub mod planner;

/// The README's code, compiled and run with the doc tests: this crate has all that it uses.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
