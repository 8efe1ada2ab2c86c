//! What every checkpointer and every store must keep, for those who write one.
//!
//! A test of one's own checkpointer runs every rule on a new, empty one:
//!
//! ```
//! use superstep_checkpoint::{MemoryCheckpointer, conformance};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! for rule in conformance::RULES {
//!     println!("{rule}");
//!     conformance::check(rule, &MemoryCheckpointer::new()).await;
//! }
//! # }
//! ```
//!
//! [`Watched`] stands between a checkpointer and whoever uses it, and fails, delays or tears what goes through it: by that one finds out
//! what becomes of a program whose store fails at any moment.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a rule that is not kept is a panic"
)]

mod rules;
mod stores;
mod watched;

pub use rules::{RULES, check, everything};
pub use stores::{STORE_RULES, check_store};
pub use watched::{Call, Fault, Faults, Watch, Watched};
