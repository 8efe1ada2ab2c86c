//! How nodes see the channels.

use std::cell::Cell;
use std::sync::Arc;

use superstep_channels::{ChannelSpec, Data, Json, Key, Name, Type, Value};

use crate::error::ReadError;
use crate::update::Update;

/// Which channels a type reads.
#[derive(Clone, Debug)]
pub enum Schema {
    /// These, which it declares at the same time.
    Channels(Vec<ChannelSpec>),
    /// Whatever channels the graph has.
    All,
    /// None: it is a payload, not a state.
    Payload,
}

/// What a node can take as its input: a [`State`], or a [`Payload`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the input of a node",
    note = "derive `State` to read channels, or write `impl Payload for {Self} {{}}` so that `send` can carry it"
)]
pub trait Input: Send + Sized + 'static {
    /// The channels it reads.
    fn schema() -> Schema;

    /// Reads it from the channels.
    fn read(view: &View<'_>) -> Result<Self, ReadError>;

    /// The type of what can be sent to a node with this input.
    fn payload_type() -> Type;

    /// Takes it out of what was sent to `node`.
    fn from_payload(payload: Value, node: &Name) -> Result<Self, ReadError>;
}

/// An input that is read from the channels, so that edges can lead to its node.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not read the state",
    label = "a node with this input is reached by `send` only",
    note = "edges, entries, `goto` and branches lead to nodes whose input derives `State`"
)]
pub trait Reads: Input {}

/// A typed view of the channels: what a run starts from and ends with, and what nodes read.
///
/// Derive it: each field is a channel, and `#[derive(State)]` makes a constant [`Key`] for it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the state of a graph",
    note = "a graph's state is a struct with `#[derive(State)]`, or `Json` for a graph made at run time"
)]
pub trait State: Reads + Data + Into<Update> {}

/// What `send` can carry to a node that does not read the state.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use superstep::prelude::*;
///
/// #[derive(Clone, Serialize, Deserialize)]
/// struct Page {
///     number: u32,
/// }
/// impl Payload for Page {}
///
/// const PRINT: Node<Page> = Node::new("print");
/// ```
pub trait Payload: Data {}

macro_rules! payloads {
    ($($type:ty),*) => { $(impl Payload for $type {})* };
}
payloads!(
    bool, char, i8, i16, i32, i64, u8, u16, u32, u64, usize, f32, f64, String
);
impl<T: Data> Payload for Vec<T> {}
impl<T: Data> Payload for Option<T> {}
impl<T: Data> Payload for Arc<T> where Arc<T>: Data {}
impl<A: Data, B: Data> Payload for (A, B) {}
impl<A: Data, B: Data, C: Data> Payload for (A, B, C) {}

impl<T: Payload> Input for T {
    fn schema() -> Schema {
        Schema::Payload
    }

    fn read(_: &View<'_>) -> Result<Self, ReadError> {
        // The builder lets no edge lead to a payload node; a `goto` by name can.
        Err(ReadError::Payload(Type::of::<T>().name().to_owned()))
    }

    fn payload_type() -> Type {
        Type::of::<T>()
    }

    fn from_payload(payload: Value, node: &Name) -> Result<Self, ReadError> {
        payload_as(payload, node)
    }
}

/// Takes a payload out as a `T`.
#[doc(hidden)]
pub fn payload_as<T: Data>(payload: Value, node: &Name) -> Result<T, ReadError> {
    payload.take().map_err(|wrong| ReadError::Type {
        what: node.clone(),
        expected: Type::of::<T>().name().to_owned(),
        found: wrong.type_of().name().to_owned(),
    })
}

/// The state of a node that reads nothing.
impl Input for () {
    fn schema() -> Schema {
        Schema::Channels(Vec::new())
    }

    fn read(_: &View<'_>) -> Result<Self, ReadError> {
        Ok(())
    }

    fn payload_type() -> Type {
        Type::of::<()>()
    }

    fn from_payload(_: Value, _: &Name) -> Result<Self, ReadError> {
        Ok(())
    }
}

impl Reads for () {}

impl State for () {}

impl From<()> for Update {
    fn from((): ()) -> Self {
        Update::new()
    }
}

/// The state of a graph made at run time: an object with all channels that hold something.
impl Input for Json {
    fn schema() -> Schema {
        Schema::All
    }

    fn read(view: &View<'_>) -> Result<Self, ReadError> {
        view.json().map(Json)
    }

    fn payload_type() -> Type {
        Type::of::<Json>()
    }

    fn from_payload(payload: Value, node: &Name) -> Result<Self, ReadError> {
        payload_as(payload, node)
    }
}

impl Reads for Json {}

impl State for Json {}

/// Each member of the object is written to the channel of its name.
/// Anything but an object is written to the channel with the empty name, which no graph has.
impl From<Json> for Update {
    fn from(json: Json) -> Self {
        match json.0 {
            serde_json::Value::Object(members) => members
                .into_iter()
                .fold(Update::new(), |update, (name, value)| {
                    update.put_value(name, Value::new(Json(value)))
                }),
            other => Update::new().put_value("", Value::new(Json(other))),
        }
    }
}

/// The values of some channels at one moment: names shared, values shared, cheap to clone.
#[derive(Clone, Debug)]
pub struct Fields {
    pub(crate) names: Arc<[Name]>,
    pub(crate) values: Vec<Option<Value>>,
}

impl Fields {
    /// A view that types are read from.
    pub fn view(&self) -> View<'_> {
        View {
            fields: self,
            next: Cell::new(0),
        }
    }

    /// The typed value of a channel, or `None` if it is empty.
    pub fn value<V: Data, U>(&self, key: Key<V, U>) -> Result<Option<V>, ReadError> {
        self.view().optional(key)
    }

    /// Reads a typed state.
    pub fn read<I: Input>(&self) -> Result<I, ReadError> {
        I::read(&self.view())
    }

    /// The channels that hold something, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Value)> {
        let pairs = self.names.iter().zip(&self.values);
        pairs.filter_map(|(name, value)| Some((name, value.as_ref()?)))
    }

    /// The value of a channel.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter()
            .find_map(|(known, value)| (known == name).then_some(value))
    }

    /// An object with all channels that hold something.
    pub fn json(&self) -> Result<serde_json::Value, superstep_channels::CodecError> {
        let members = self
            .iter()
            .map(|(name, value)| Ok((name.to_string(), value.to_json()?)));
        members
            .collect::<Result<_, _>>()
            .map(serde_json::Value::Object)
    }
}

/// What [`Input::read`] reads from.
#[derive(Debug)]
pub struct View<'a> {
    fields: &'a Fields,
    /// Types read their channels in the order they declare them, so the next one is mostly right here.
    next: Cell<usize>,
}

impl View<'_> {
    /// All that can be read.
    pub fn fields(&self) -> &Fields {
        self.fields
    }

    /// The value of a channel; an error if it is empty.
    pub fn get<V: Data, U>(&self, key: Key<V, U>) -> Result<V, ReadError> {
        let name = Name::Borrowed(key.name());
        self.optional(key)?.ok_or(ReadError::Empty(name))
    }

    /// The value of a channel, or the type's default if it is empty.
    pub fn get_or_default<V: Data + Default, U>(&self, key: Key<V, U>) -> Result<V, ReadError> {
        Ok(self.optional(key)?.unwrap_or_default())
    }

    fn optional<V: Data, U>(&self, key: Key<V, U>) -> Result<Option<V>, ReadError> {
        let at = self.position(key.name())?;
        let Some(value) = self.fields.values.get(at).and_then(Option::as_ref) else {
            return Ok(None);
        };
        match value.get::<V>() {
            Some(value) => Ok(Some(value.clone())),
            None => Err(ReadError::Type {
                what: key.name().into(),
                expected: Type::of::<V>().name().to_owned(),
                found: value.type_of().name().to_owned(),
            }),
        }
    }

    fn position(&self, name: &'static str) -> Result<usize, ReadError> {
        let names = &self.fields.names;
        let here = self.next.get();
        let at = match names.get(here) {
            Some(known) if known == name => Some(here),
            _ => names.iter().position(|known| known == name),
        };
        let at = at.ok_or(ReadError::Unknown(Name::Borrowed(name)))?;
        self.next.set(at + 1);
        Ok(at)
    }

    fn json(&self) -> Result<serde_json::Value, ReadError> {
        self.fields.json().map_err(|error| ReadError::Type {
            what: "state".into(),
            expected: "JSON".into(),
            found: error.to_string(),
        })
    }
}
