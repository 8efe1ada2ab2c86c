//! The engine through its public surface.
#![allow(missing_docs)]

mod boundaries;
mod compile_fail;
mod crash;
mod dynamic;
mod laws;
mod process;
mod report;
mod reports;
mod surface;
