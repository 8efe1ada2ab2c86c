//! The engine through its public surface.
#![allow(missing_docs)]

mod report;
