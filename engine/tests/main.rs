//! The engine through its public surface.
#![allow(missing_docs)]

mod crash;
mod process;
mod report;
mod reports;
