//! What a reducer must keep, to be tried in a test.

use crate::{ChannelSpec, CodecError, Data, Key, Name, Value, Write, WriteError};

/// A law that a reducer broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokenLaw {
    /// The fold depends on something besides its arguments.
    #[error("channel `{channel}`: folding the same {updates} updates again gives another value")]
    Unstable {
        /// The channel.
        channel: Name,
        /// How many updates there are.
        updates: usize,
    },
    /// A value that was stored and read in between leads elsewhere, so a thread that was opened again differs from one that was not.
    #[error(
        "channel `{channel}`: a value that was stored after {cut} of {updates} updates and read again leads elsewhere"
    )]
    Lossy {
        /// The channel.
        channel: Name,
        /// After how many updates it was stored.
        cut: usize,
        /// How many updates there are.
        updates: usize,
    },
    /// The channel refused an update.
    #[error(transparent)]
    Refused(#[from] WriteError),
    /// A value cannot be stored.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl ChannelSpec {
    /// Tries what the engine relies on, for a test of yours: folding `updates` one by one and at once gives the same value, and so
    /// does a value that was stored and read after any part of them: `fold(read(store(fold(s, a))), b) == fold(s, a ++ b)`.
    ///
    /// Values are compared by their JSON form.
    pub fn check_laws(&self, updates: &[Value]) -> Result<(), BrokenLaw> {
        let whole = self.folded(None, updates)?;
        let (channel, count) = (self.name(), updates.len());
        for cut in 0..=count {
            let (before, after) = updates.split_at(cut);
            let half = self.folded(None, before)?;
            let again = self.folded(half.clone(), after)?;
            if json(&again)? != json(&whole)? {
                let (channel, updates) = (channel.clone(), count);
                return Err(BrokenLaw::Unstable { channel, updates });
            }
            let stored = half.map(|value| value.encode()).transpose()?;
            let read = stored.map(|bytes| self.value_type().decode(&bytes));
            let reopened = self.folded(read.transpose()?, after)?;
            if json(&reopened)? != json(&whole)? {
                return Err(BrokenLaw::Lossy {
                    channel: channel.clone(),
                    cut,
                    updates: count,
                });
            }
        }
        Ok(())
    }

    fn folded(&self, from: Option<Value>, updates: &[Value]) -> Result<Option<Value>, WriteError> {
        let mut cell = self.cell();
        if from.is_some() {
            cell.restore(from);
        }
        if !updates.is_empty() {
            cell.write(updates.iter().cloned().map(Write::Plain).collect())?;
        }
        Ok(cell.value())
    }
}

fn json(value: &Option<Value>) -> Result<Option<serde_json::Value>, CodecError> {
    value.as_ref().map(Value::to_json).transpose()
}

impl<V: Data, U: Data> Key<V, U> {
    /// Tries on these updates what the engine relies on. See [`ChannelSpec::check_laws`].
    ///
    /// ```
    /// use superstep_channels::{Key, append};
    ///
    /// const LINES: Key<Vec<String>> = Key::delta("lines", append);
    /// let words = ["a", "b", "c"].map(|word| vec![word.to_owned()]);
    /// LINES.check_laws(words)?;
    /// # Ok::<(), superstep_channels::BrokenLaw>(())
    /// ```
    pub fn check_laws(&self, updates: impl IntoIterator<Item = U>) -> Result<(), BrokenLaw> {
        let updates: Vec<Value> = updates.into_iter().map(Value::new).collect();
        self.spec().check_laws(&updates)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde::{Deserialize, Serialize};

    use super::*;

    /// Forgets a part of itself when it is stored.
    #[derive(Clone, Default, Serialize, Deserialize)]
    struct Forgetful {
        sum: u32,
        #[serde(skip)]
        odd: bool,
    }

    const FORGETFUL: Key<Forgetful, u32> = Key::delta("forgetful", |all, one| {
        all.sum += if all.odd { 2 * one } else { one };
        all.odd = !all.odd;
    });

    static CALLS: AtomicU32 = AtomicU32::new(0);
    const COUNTS: Key<Vec<u32>, u32> = Key::delta("counts", |all, one| {
        all.push(one + CALLS.fetch_add(1, Ordering::Relaxed));
    });

    #[test]
    fn a_reducer_that_breaks_a_law_is_told_which() {
        let error = FORGETFUL.check_laws([1, 2, 3]).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"channel `forgetful`: a value that was stored after 1 of 3 updates and read again leads elsewhere");
        let error = COUNTS.check_laws([1, 2, 3]).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"channel `counts`: folding the same 3 updates again gives another value");
    }

    #[test]
    fn folds_that_keep_them_pass() {
        const SUM: Key<u64, u32> = Key::reduce("sum", |sum, one| *sum += u64::from(one));
        SUM.check_laws([1, 2, 3]).unwrap();
        SUM.check_laws([]).unwrap();
    }
}
