//! Graphs whose cost is all the engine's own: their nodes do next to nothing.
//!
//! `cargo bench -p superstep-benches` measures them. The program `point` measures one of them at one size and prints
//! one line of JSON, to stand beside another engine's figure or to run under a profiler.

mod chain;
mod fan_out;
mod run;
mod tally;
mod text;
mod wide;

pub use chain::Chain;
pub use fan_out::FanOut;
pub use run::{Bench, Driver, Error, Saver, processor_us};
pub use tally::Tally;
pub use text::text;
pub use wide::Wide;
