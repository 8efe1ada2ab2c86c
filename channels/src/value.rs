//! A value of any serializable type behind one pointer.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::bounded::Bounded;

/// What a channel can hold: anything that serializes, clones and crosses threads.
///
/// Implemented for every such type; nobody implements it by hand.
/// A bare `serde_json::Value` does not come back from a binary format: wrap it in [`Json`](crate::Json).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept in a channel",
    note = "a channel's value needs `Serialize`, `DeserializeOwned`, `Clone`, `Send`, `Sync` and `'static`"
)]
pub trait Data: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Data for T {}

/// Bytes or JSON that are no value of the wanted type, or a value that has no such form.
#[derive(Debug, thiserror::Error)]
#[error("{type_name}: {reason}")]
pub struct CodecError {
    /// The type that was to be written or read.
    pub type_name: String,
    /// What went wrong.
    pub reason: String,
}

/// A value whose type is known at run time only: cheap to clone, shared behind an [`Arc`].
///
/// ```
/// use superstep_channels::Value;
///
/// let value = Value::new(vec![1u32, 2]);
/// assert_eq!(value.get::<Vec<u32>>(), Some(&vec![1, 2]));
/// assert_eq!(value.get::<String>(), None);
/// ```
#[derive(Clone)]
pub struct Value(Arc<dyn Erased>);

trait Erased: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    fn type_of(&self) -> Type;
    fn encode(&self) -> Result<Vec<u8>, CodecError>;
    fn to_json(&self) -> Result<serde_json::Value, CodecError>;
}

impl<T: Data> Erased for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn type_of(&self) -> Type {
        Type::of::<T>()
    }

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        bincode::serde::encode_to_vec(self, config()).map_err(failed::<T>)
    }

    fn to_json(&self) -> Result<serde_json::Value, CodecError> {
        serde_json::to_value(self).map_err(failed::<T>)
    }
}

/// No single value may claim more memory than this while it is read.
const MAX_BYTES: usize = 1 << 30;

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_BYTES>()
}

fn failed<T>(error: impl fmt::Display) -> CodecError {
    CodecError {
        type_name: short_name(type_name::<T>()),
        reason: error.to_string(),
    }
}

impl Value {
    /// Wraps a value.
    pub fn new<T: Data>(value: T) -> Self {
        Value(Arc::new(value))
    }

    /// The value, if it is a `T`.
    pub fn get<T: Data>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }

    /// Takes the value out, cloning it only when somebody else holds it too.
    /// Gives itself back when it is no `T`.
    pub fn take<T: Data>(self) -> Result<T, Self> {
        self.shared().map(Arc::unwrap_or_clone)
    }

    /// The value as a shared pointer, or itself when it is no `T`.
    fn shared<T: Data>(self) -> Result<Arc<T>, Self> {
        if self.get::<T>().is_none() {
            return Err(self);
        }
        // The check above leaves only the case that succeeds.
        Arc::clone(&self.0)
            .into_any()
            .downcast::<T>()
            .map_err(|_| Value(Arc::clone(&self.0)))
            .inspect(|_| drop(self))
    }

    /// Changes the value in place, cloning it first only when somebody else holds it too.
    /// Gives itself back when it is no `T`.
    pub fn modify<T: Data, R>(self, change: impl FnOnce(&mut T) -> R) -> Result<(Self, R), Self> {
        let mut shared = self.shared::<T>()?;
        let result = change(Arc::make_mut(&mut shared));
        Ok((Value(shared), result))
    }

    /// The type of the value inside.
    pub fn type_of(&self) -> Type {
        self.0.type_of()
    }

    /// The binary form: bincode, without any header. See [`Type::decode`].
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        self.0.encode()
    }

    /// The form that people and streams read.
    pub fn to_json(&self) -> Result<serde_json::Value, CodecError> {
        self.0.to_json()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_json() {
            Ok(json) => write!(f, "{json}"),
            Err(_) => write!(f, "<{}>", self.type_of().name()),
        }
    }
}

/// A type as a value: what it is called and how it comes back from bytes or JSON.
#[derive(Clone, Copy)]
pub struct Type {
    id: fn() -> TypeId,
    full_name: fn() -> &'static str,
    decode: fn(&[u8]) -> Result<Value, CodecError>,
    from_json: fn(serde_json::Value) -> Result<Value, CodecError>,
}

impl Type {
    /// The type `T`.
    pub const fn of<T: Data>() -> Self {
        Type {
            id: TypeId::of::<T>,
            full_name: type_name::<T>,
            decode: decode::<T>,
            from_json: from_json::<T>,
        }
    }

    /// The name without module paths, as it stands in stored frames: `Vec<Message>`.
    /// Moving a type to another module keeps old checkpoints readable; renaming it does not.
    pub fn name(&self) -> &'static str {
        known_name((self.full_name)())
    }

    /// Reads [`Value::encode`]'s bytes back; all of them must be used up.
    pub fn decode(&self, bytes: &[u8]) -> Result<Value, CodecError> {
        (self.decode)(bytes)
    }

    /// Reads a value of this type from JSON.
    pub fn from_json(&self, json: serde_json::Value) -> Result<Value, CodecError> {
        (self.from_json)(json)
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        (self.id)() == (other.id)()
    }
}

impl Eq for Type {}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value that was read no deeper than it may nest.
struct Read<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::deserialize(Bounded::new(from)).map(Read)
    }
}

fn decode<T: Data>(bytes: &[u8]) -> Result<Value, CodecError> {
    let (Read(value), used) =
        bincode::serde::decode_from_slice::<Read<T>, _>(bytes, config()).map_err(failed::<T>)?;
    if used < bytes.len() {
        return Err(failed::<T>(format!(
            "{} bytes left over",
            bytes.len() - used
        )));
    }
    Ok(Value::new(value))
}

fn from_json<T: Data>(json: serde_json::Value) -> Result<Value, CodecError> {
    serde_json::from_value::<T>(json)
        .map(Value::new)
        .map_err(failed::<T>)
}

/// The short form of a type's name. It is asked for with every value that is read, so it is made once: there are only so many types.
fn known_name(full: &'static str) -> &'static str {
    static KNOWN: RwLock<BTreeMap<(usize, usize), &str>> = RwLock::new(BTreeMap::new());
    let at = (full.as_ptr().addr(), full.len());
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(short) = known.get(&at) {
        return short;
    }
    drop(known);
    let short: &'static str = short_name(full).leak();
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    known.entry(at).or_insert(short)
}

/// Strips module paths: `alloc::vec::Vec<my::Message>` becomes `Vec<Message>`.
fn short_name(full: &str) -> String {
    let mut short = String::with_capacity(full.len());
    let mut segment = 0;
    for character in full.chars() {
        short.push(character);
        if short.ends_with("::") {
            short.truncate(segment);
        } else if !(character.is_alphanumeric() || character == '_' || character == ':') {
            segment = short.len();
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_paths() {
        let name = Type::of::<Vec<Option<(String, crate::Json)>>>().name();
        assert_eq!(name, "Vec<Option<(String, Json)>>");
    }

    #[test]
    fn modify_in_place_when_unshared() {
        let value = Value::new(vec![1u8]);
        let before: *const Vec<u8> = value.get().unwrap();
        let (value, ()) = value.modify(|list: &mut Vec<u8>| list.push(2)).unwrap();
        assert!(std::ptr::eq(before, value.get::<Vec<u8>>().unwrap()));
        let held = value.clone();
        let (value, ()) = value.modify(|list: &mut Vec<u8>| list.push(3)).unwrap();
        assert_eq!(held.get(), Some(&vec![1u8, 2]));
        assert_eq!(value.get(), Some(&vec![1u8, 2, 3]));
    }

    #[test]
    fn leftover_bytes_are_an_error() {
        let mut bytes = Value::new(7u32).encode().unwrap();
        bytes.push(0);
        let error = Type::of::<u32>().decode(&bytes).unwrap_err();
        assert_eq!(error.to_string(), "u32: 1 bytes left over");
    }

    #[test]
    fn a_huge_length_is_an_error_not_an_allocation() {
        // 253 announces a 64-bit length.
        let bytes = [253, 255, 255, 255, 255, 255, 255, 255, 127];
        assert!(Type::of::<Vec<u64>>().decode(&bytes).is_err());
        assert!(Type::of::<String>().decode(&bytes).is_err());
    }
}
