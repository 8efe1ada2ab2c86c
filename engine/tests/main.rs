//! The engine through its public surface.
#![allow(missing_docs)]

mod crash;
mod dynamic;
mod laws;
mod process;
mod report;
mod reports;
mod surface;
