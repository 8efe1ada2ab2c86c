//! One cell of state: every kind of channel, its fold and its rules.
//!
//! A *channel* keeps one named value of a running graph. Nodes never change it directly:
//! they return writes, and when a superstep ends all writes to one channel are handed to it together,
//! in canonical order. What the kind of the channel does with none, one or many writes is its *rule*.
//!
//! | you want | declare | none written | one | many |
//! |---|---|---|---|---|
//! | a value with one writer a superstep | [`Key::last`] | keeps | replaces | [`WriteError::Conflict`] |
//! | whichever came last | [`Key::any`] | empties | replaces | the last one wins |
//! | a signal for the next superstep only | [`Key::ephemeral`] | empties | replaces | [`WriteError::Conflict`] |
//! | something never stored (a handle, a secret) | [`Key::untracked`] | keeps | replaces | [`WriteError::Conflict`] |
//! | a mailbox that empties itself | [`Key::topic`] | empties | fills | collects in order |
//! | a value that grows or sums up | [`Key::reduce`] | keeps | folds | folds in order |
//! | the same, stored as its writes | [`Key::delta`] | keeps | folds | folds in order |
//!
//! A [`Key`] is the typed, constant address of a channel; a [`ChannelSpec`] is its erased declaration,
//! which can also be made at run time; a [`Channel`] is the live cell.
//!
//! ```
//! use superstep_channels::{Key, Value, Write, append};
//!
//! const LOG: Key<Vec<String>> = Key::reduce("log", append);
//!
//! let mut cell = LOG.spec().cell();
//! let writes = [vec!["a".to_string()], vec!["b".to_string()]];
//! cell.write(writes.into_iter().map(|w| Write::Plain(Value::new(w))).collect())?;
//! assert_eq!(format!("{:?}", cell.value()), r#"Some(["a","b"])"#);
//! # Ok::<(), superstep_channels::WriteError>(())
//! ```
//!
//! **This crate does not know** where values are stored, what a graph is, or that anything is async.

mod bounded;
mod channel;
mod conversion;
mod delta;
mod ephemeral;
mod fold;
mod json;
mod key;
mod last_value;
mod laws;
mod list;
mod reduce;
mod spec;
mod topic;
mod value;

pub use channel::{Channel, Write, WriteError};
pub use conversion::Conversions;
pub use delta::Snapshots;
pub use fold::{Fold, append, fold_with};
pub use json::{Json, MAX_DEPTH};
pub use key::Key;
pub use laws::BrokenLaw;
pub use list::{Iter, List};
pub use spec::{ChannelSpec, Kind, Name};
pub use value::{CodecError, Data, Type, Value};
