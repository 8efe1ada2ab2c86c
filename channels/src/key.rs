//! The typed, constant address of a channel.

use std::fmt;
use std::marker::PhantomData;

use crate::spec::{ChannelSpec, Name, topic_of};
use crate::{Data, Snapshots};

/// A channel's address: a name, the type that is read (`V`) and the type that is written (`U`).
///
/// `const` and `Copy`, so that a typo in a name or a type is a compile error where the key is used.
/// It carries the rule too: one constant declares a channel completely.
///
/// ```
/// use std::collections::BTreeSet;
/// use superstep_channels::{Key, append};
///
/// const TOPIC: Key<String> = Key::last("topic");
/// const LINES: Key<Vec<String>> = Key::reduce("lines", append);
/// // What is written need not be what is read.
/// const SEEN: Key<BTreeSet<u32>, u32> = Key::reduce("seen", |set, item| {
///     set.insert(item);
/// });
/// assert_eq!(SEEN.name(), "seen");
/// ```
pub struct Key<V, U = V> {
    name: &'static str,
    rule: Rule<V, U>,
    types: PhantomData<fn(U) -> V>,
}

enum Rule<V, U> {
    Spec(fn(Name) -> ChannelSpec),
    Reduce(fn() -> V, fn(&mut V, U)),
    Delta(fn() -> V, fn(&mut V, U), Snapshots),
}

impl<T: Data> Key<T> {
    const fn plain(name: &'static str, spec: fn(Name) -> ChannelSpec) -> Self {
        Key {
            name,
            rule: Rule::Spec(spec),
            types: PhantomData,
        }
    }

    /// A value with one writer a superstep; it stays until the next write.
    pub const fn last(name: &'static str) -> Self {
        Self::plain(name, ChannelSpec::last::<T>)
    }

    /// Whichever value came last, for the next superstep only.
    pub const fn any(name: &'static str) -> Self {
        Self::plain(name, ChannelSpec::any::<T>)
    }

    /// A value with one writer, for the next superstep only.
    pub const fn ephemeral(name: &'static str) -> Self {
        Self::plain(name, ChannelSpec::ephemeral::<T>)
    }

    /// A value with one writer that is never stored: gone after a pause or a restart.
    pub const fn untracked(name: &'static str) -> Self {
        Self::plain(name, ChannelSpec::untracked::<T>)
    }
}

impl<T: Data> Key<Vec<T>> {
    /// What all writers of one superstep wrote, for the next one.
    pub const fn topic(name: &'static str) -> Self {
        Self::plain(name, topic_of::<T>)
    }
}

impl<V: Data + Default, U: Data> Key<V, U> {
    /// A value that every write is folded into, from the type's default on.
    pub const fn reduce(name: &'static str, fold: fn(&mut V, U)) -> Self {
        Key {
            name,
            rule: Rule::Reduce(V::default, fold),
            types: PhantomData,
        }
    }

    /// The same, stored as its writes: a superstep stores what it added, not the whole value.
    pub const fn delta(name: &'static str, fold: fn(&mut V, U)) -> Self {
        Self::delta_with(name, fold, Snapshots::Amortised)
    }

    /// The same with a snapshot policy of your choice.
    pub const fn delta_with(name: &'static str, fold: fn(&mut V, U), snapshots: Snapshots) -> Self {
        Key {
            name,
            rule: Rule::Delta(V::default, fold, snapshots),
            types: PhantomData,
        }
    }
}

impl<V, U> Key<V, U> {
    /// The channel's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<V: Data, U: Data> Key<V, U> {
    /// The erased declaration.
    pub fn spec(&self) -> ChannelSpec {
        let name = Name::Borrowed(self.name);
        match self.rule {
            Rule::Spec(spec) => spec(name),
            Rule::Reduce(zero, fold) => ChannelSpec::reduce_from(name, zero, fold),
            Rule::Delta(zero, fold, snapshots) => {
                ChannelSpec::reduce_from(name, zero, fold).as_delta(snapshots)
            }
        }
    }
}

impl<V, U> Clone for Key<V, U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, U> Copy for Key<V, U> {}

impl<V, U> Clone for Rule<V, U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, U> Copy for Rule<V, U> {}

impl<V, U> fmt::Debug for Key<V, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.name)
    }
}
