//! What every checkpointer must keep, checked on all of them.

mod model;
mod rules;
#[cfg(feature = "sqlite")]
mod sqlite;
