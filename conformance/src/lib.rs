//! Runs recorded cases against the engine and reports which differ.
//!
//! A case is a graph, a script and what came of it; `README.md` explains the files. What is here
//! reads cases, interprets their bodies and compares results. It knows nothing of the engine: that
//! is in [`adapter`] alone.

pub mod adapter;
pub mod compare;
pub mod corpus;
pub mod expr;
pub mod folds;
pub mod ids;
pub mod normal;
pub mod ops;
pub mod order;
pub mod report;
pub mod result;
pub mod run;
pub mod spec;
