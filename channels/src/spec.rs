//! The erased declaration of a channel.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::channel::{Channel, Write, WriteError};
use crate::delta::Snapshots;
use crate::ephemeral::Ephemeral;
use crate::fold::{ErasedFold, Fold, Start, Typed};
use crate::last_value::{LastValue, check_type};
use crate::reduce::Reduce;
use crate::topic::Topic;
use crate::{CodecError, Conversions, Data, Type, Value, append};

/// The name of a channel or node: constant, or made at run time.
pub type Name = Cow<'static, str>;

/// The rule of a channel. See the table on the [crate's page](crate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// One writer a superstep.
    LastValue,
    /// The last of many writers, for one superstep.
    AnyValue,
    /// One writer, for one superstep.
    Ephemeral,
    /// One writer, never stored.
    Untracked,
    /// A list of one superstep's writes.
    Topic,
    /// A fold, stored whole when it changed.
    Reduce,
    /// A fold, stored as its writes and now and then whole.
    Delta(Snapshots),
}

/// A channel's name, kind, types and fold: all the engine needs to know of it.
///
/// Made from a [`Key`](crate::Key), or here for names that exist at run time only.
#[derive(Clone)]
pub struct ChannelSpec {
    name: Name,
    kind: Kind,
    guard: bool,
    value: Type,
    fold: Option<Arc<dyn ErasedFold>>,
    conversions: Conversions,
    schema: Option<Arc<serde_json::Value>>,
}

impl ChannelSpec {
    fn plain<T: Data>(name: impl Into<Name>, kind: Kind) -> Self {
        ChannelSpec {
            name: name.into(),
            kind,
            guard: kind != Kind::AnyValue,
            value: Type::of::<T>(),
            fold: None,
            conversions: Conversions::new(),
            schema: None,
        }
    }

    fn folding<V: Data, U: Data>(
        name: impl Into<Name>,
        kind: Kind,
        start: Start<V, U>,
        fold: impl Fold<V, U>,
    ) -> Self {
        ChannelSpec {
            name: name.into(),
            kind,
            guard: false,
            value: Type::of::<V>(),
            fold: Some(Arc::new(Typed { start, fold })),
            conversions: Conversions::new(),
            schema: None,
        }
    }

    /// A value with one writer a superstep.
    pub fn last<T: Data>(name: impl Into<Name>) -> Self {
        Self::plain::<T>(name, Kind::LastValue)
    }

    /// Whichever value came last, for one superstep.
    pub fn any<T: Data>(name: impl Into<Name>) -> Self {
        Self::plain::<T>(name, Kind::AnyValue)
    }

    /// A value with one writer, for one superstep.
    pub fn ephemeral<T: Data>(name: impl Into<Name>) -> Self {
        Self::plain::<T>(name, Kind::Ephemeral)
    }

    /// A value that is never stored.
    pub fn untracked<T: Data>(name: impl Into<Name>) -> Self {
        Self::plain::<T>(name, Kind::Untracked)
    }

    /// A list of what one superstep wrote. `fold` collects: [`append`] for a list of `T`.
    pub fn topic<V: Data + Default, U: Data>(name: impl Into<Name>, fold: impl Fold<V, U>) -> Self {
        Self::folding(name, Kind::Topic, Start::Zero(V::default), fold)
    }

    /// A fold that starts from the type's default.
    pub fn reduce<V: Data + Default, U: Data>(
        name: impl Into<Name>,
        fold: impl Fold<V, U>,
    ) -> Self {
        Self::folding(name, Kind::Reduce, Start::Zero(V::default), fold)
    }

    /// A fold that starts empty and takes its first update as it is.
    pub fn reduce_from_first<V: Data>(name: impl Into<Name>, fold: impl Fold<V, V>) -> Self {
        Self::folding(name, Kind::Reduce, Start::First(|update| update), fold)
    }

    /// A fold that starts from a value of its own.
    pub fn reduce_from<V: Data, U: Data>(
        name: impl Into<Name>,
        zero: fn() -> V,
        fold: impl Fold<V, U>,
    ) -> Self {
        Self::folding(name, Kind::Reduce, Start::Zero(zero), fold)
    }

    /// Makes a reducing channel a delta channel: its writes are stored instead of its value.
    /// Other kinds stay what they are.
    #[must_use]
    pub fn as_delta(mut self, snapshots: Snapshots) -> Self {
        if let Kind::Reduce | Kind::Delta(_) = self.kind {
            self.kind = Kind::Delta(snapshots);
        }
        self
    }

    /// Lets several nodes write the channel in one superstep: the last one in canonical order wins.
    /// Reducing channels take many writers anyway.
    #[must_use]
    pub fn unguarded(mut self) -> Self {
        self.guard = false;
        self
    }

    /// Also reads what was stored when the channel had other types: its values and what was written to it.
    #[must_use]
    pub fn converting(mut self, conversions: Conversions) -> Self {
        self.conversions = self.conversions.and(conversions);
        self
    }

    /// Says what values of the channel look like, as a JSON schema: for those who look at a graph. Nothing is checked by it.
    #[must_use]
    pub fn schema(mut self, schema: serde_json::Value) -> Self {
        self.schema = Some(Arc::new(schema));
        self
    }

    /// The JSON schema of its values: as it was given, else one that takes everything and has the type's name as title.
    pub fn json_schema(&self) -> serde_json::Value {
        match &self.schema {
            Some(schema) => (**schema).clone(),
            None => serde_json::json!({ "title": self.value.name() }),
        }
    }

    /// The name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The rule.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The type of the value that is read.
    pub fn value_type(&self) -> Type {
        self.value
    }

    /// The type of a plain write; for reducing channels it may differ from the value's.
    pub fn update_type(&self) -> Type {
        self.fold
            .as_ref()
            .map_or(self.value, |fold| fold.update_type())
    }

    /// Whether a value stored under this name of a type can be read as one of the channel's.
    pub fn reads_value(&self, stored: &str) -> bool {
        self.conversions.reads(stored, self.value_type())
    }

    /// Whether a plain write stored under this name of a type can be read as one of the channel's.
    pub fn reads_update(&self, stored: &str) -> bool {
        self.conversions.reads(stored, self.update_type())
    }

    /// Reads a stored value, whose type had the name `stored`.
    pub fn read_value(&self, stored: &str, bytes: &[u8]) -> Result<Value, CodecError> {
        self.conversions.read(stored, bytes, self.value_type())
    }

    /// Reads a stored plain write, whose type had the name `stored`.
    pub fn read_update(&self, stored: &str, bytes: &[u8]) -> Result<Value, CodecError> {
        self.conversions.read(stored, bytes, self.update_type())
    }

    /// Whether a write has the type that the channel takes.
    pub fn check(&self, write: &Write) -> Result<(), WriteError> {
        let expected = match write {
            Write::Plain(_) => self.update_type(),
            Write::Overwrite(_) => self.value_type(),
        };
        check_type(&self.name, expected, write.value())
    }

    /// Whether two declarations of one name mean the same channel: same kind, same guard, same types.
    /// Folds cannot be compared: of two that differ, the first declaration's counts.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.guard == other.guard
            && self.value == other.value
            && self.update_type() == other.update_type()
    }

    /// A cell for this channel, empty or at its zero value.
    pub fn cell(&self) -> Box<dyn Channel> {
        let Some(fold) = &self.fold else {
            let last = LastValue {
                name: self.name.clone(),
                value_type: self.value,
                guard: self.guard,
                value: None,
            };
            return match self.kind {
                Kind::Ephemeral | Kind::AnyValue => Box::new(Ephemeral(last)),
                _ => Box::new(last),
            };
        };
        let reduce = Reduce {
            name: self.name.clone(),
            value_type: self.value,
            fold: Arc::clone(fold),
            value: None,
        };
        match self.kind {
            Kind::Topic => Box::new(Topic(reduce)),
            _ => Box::new(reduce),
        }
    }
}

impl fmt::Debug for ChannelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}<{:?}>", self.name, self.kind, self.value)?;
        if self.update_type() != self.value {
            write!(f, " written as {:?}", self.update_type())?;
        }
        let guards = matches!(
            self.kind,
            Kind::LastValue | Kind::Ephemeral | Kind::Untracked
        );
        if guards && !self.guard {
            f.write_str(", unguarded")?;
        }
        Ok(())
    }
}

impl Kind {
    /// Whether a superstep without a write empties the channel.
    pub fn is_transient(self) -> bool {
        matches!(self, Kind::AnyValue | Kind::Ephemeral | Kind::Topic)
    }
}

/// The declaration of a topic of `T`.
pub(crate) fn topic_of<T: Data>(name: Name) -> ChannelSpec {
    ChannelSpec::topic::<Vec<T>, Vec<T>>(name, append)
}
