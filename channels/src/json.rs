//! JSON values that survive a binary format.

use std::cmp::Ordering;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, SeqAccess, VariantAccess, Visitor,
};
use serde::ser::{Error as _, SerializeSeq, SerializeTuple};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Number, Value};

/// How deep arrays and objects may nest, in both directions: hostile bytes
/// cannot exhaust the stack. The same bound as `serde_json`'s parser.
pub const MAX_DEPTH: usize = 128;

/// A JSON value that can be a channel's value or part of one.
///
/// A bare [`serde_json::Value`] asks its format "what comes next?", which a
/// binary format cannot answer. `Json` writes itself as a tagged value there
/// (integers, unsigned integers and floats kept apart, key order kept), and
/// as plain JSON in a format that people read.
///
/// ```
/// use superstep_channels::{Json, Value};
///
/// let json = Json(serde_json::json!({ "n": 1, "list": [true, null, 2.5] }));
/// let bytes = Value::new(json.clone()).encode()?;
/// let back = superstep_channels::Type::of::<Json>().decode(&bytes)?;
/// assert_eq!(back.get::<Json>(), Some(&json));
/// # Ok::<(), superstep_channels::CodecError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Json(pub Value);

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Json(value)
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        json.0
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Json {
    /// How two values compare: numbers by what they are worth, however they are written, and texts by their characters; nothing else is less or
    /// more than anything.
    pub fn order(one: &Value, other: &Value) -> Option<Ordering> {
        match (one, other) {
            // Whole numbers as such: as floats some that differ would be equal.
            (Value::Number(one), Value::Number(other)) => match (one.as_i128(), other.as_i128()) {
                (Some(one), Some(other)) => Some(one.cmp(&other)),
                _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
            },
            (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }

    /// Whether two values are equal, numbers by what they are worth, at any depth.
    pub fn equal(one: &Value, other: &Value) -> bool {
        match (one, other) {
            (Value::Number(_), Value::Number(_)) => {
                Json::order(one, other) == Some(Ordering::Equal)
            }
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len()
                    && one
                        .iter()
                        .zip(other)
                        .all(|(one, other)| Json::equal(one, other))
            }
            (Value::Object(one), Value::Object(other)) => {
                let same = |(key, value): (&String, &Value)| {
                    other
                        .get(key)
                        .is_some_and(|other| Json::equal(value, other))
                };
                one.len() == other.len() && one.iter().all(same)
            }
            _ => one == other,
        }
    }
}

const NAME: &str = "Json";
const TAGS: [&str; 8] = [
    "null", "bool", "int", "uint", "float", "string", "array", "object",
];

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.0.serialize(serializer)
        } else {
            Tagged(&self.0, 0).serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            Value::deserialize(deserializer).map(Json)
        } else {
            TaggedSeed(0).deserialize(deserializer).map(Json)
        }
    }
}

struct Tagged<'a>(&'a Value, usize);

impl Serialize for Tagged<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Tagged(value, depth) = *self;
        if depth > MAX_DEPTH {
            return Err(S::Error::custom(too_deep()));
        }
        match value {
            Value::Null => s.serialize_unit_variant(NAME, 0, TAGS[0]),
            Value::Bool(b) => s.serialize_newtype_variant(NAME, 1, TAGS[1], b),
            Value::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(i), _, _) => s.serialize_newtype_variant(NAME, 2, TAGS[2], &i),
                (None, Some(u), _) => s.serialize_newtype_variant(NAME, 3, TAGS[3], &u),
                (None, None, Some(f)) => s.serialize_newtype_variant(NAME, 4, TAGS[4], &f),
                (None, None, None) => Err(S::Error::custom("a number beyond 64 bits")),
            },
            Value::String(text) => s.serialize_newtype_variant(NAME, 5, TAGS[5], text),
            Value::Array(items) => {
                s.serialize_newtype_variant(NAME, 6, TAGS[6], &Items(items, depth + 1))
            }
            Value::Object(map) => {
                s.serialize_newtype_variant(NAME, 7, TAGS[7], &Entries(map, depth + 1))
            }
        }
    }
}

struct Items<'a>(&'a [Value], usize);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut seq = s.serialize_seq(Some(self.0.len()))?;
        for item in self.0 {
            seq.serialize_element(&Tagged(item, self.1))?;
        }
        seq.end()
    }
}

struct Entries<'a>(&'a Map<String, Value>, usize);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut seq = s.serialize_seq(Some(self.0.len()))?;
        for (key, value) in self.0 {
            seq.serialize_element(&Entry(key, value, self.1))?;
        }
        seq.end()
    }
}

struct Entry<'a>(&'a str, &'a Value, usize);

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut pair = s.serialize_tuple(2)?;
        pair.serialize_element(self.0)?;
        pair.serialize_element(&Tagged(self.1, self.2))?;
        pair.end()
    }
}

fn too_deep() -> String {
    format!("JSON nested deeper than {MAX_DEPTH} levels")
}

/// Reads one tagged value that stands `0` levels below the outermost.
#[derive(Clone, Copy)]
struct TaggedSeed(usize);

impl<'de> DeserializeSeed<'de> for TaggedSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.0 > MAX_DEPTH {
            return Err(D::Error::custom(too_deep()));
        }
        deserializer.deserialize_enum(NAME, &TAGS, self)
    }
}

impl<'de> Visitor<'de> for TaggedSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tagged JSON value")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Value, A::Error> {
        let (Tag(tag), content) = data.variant()?;
        let below = TaggedSeed(self.0 + 1);
        Ok(match tag {
            0 => {
                content.unit_variant()?;
                Value::Null
            }
            1 => Value::Bool(content.newtype_variant()?),
            2 => Value::Number(content.newtype_variant::<i64>()?.into()),
            3 => Value::Number(content.newtype_variant::<u64>()?.into()),
            4 => Value::Number(
                Number::from_f64(content.newtype_variant()?)
                    .ok_or_else(|| A::Error::custom("a float that JSON cannot hold"))?,
            ),
            5 => Value::String(content.newtype_variant()?),
            6 => Value::Array(content.newtype_variant_seed(ItemsSeed(below))?),
            7 => Value::Object(content.newtype_variant_seed(EntriesSeed(below))?),
            other => return Err(A::Error::custom(format!("unknown JSON tag {other}"))),
        })
    }
}

struct Tag(u64);

impl<'de> Deserialize<'de> for Tag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TagVisitor;
        impl Visitor<'_> for TagVisitor {
            type Value = Tag;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the tag of a JSON value")
            }
            fn visit_u64<E>(self, tag: u64) -> Result<Tag, E> {
                Ok(Tag(tag))
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Tag, E> {
                let tag = TAGS.iter().position(|known| *known == name);
                tag.map(|at| Tag(at as u64))
                    .ok_or_else(|| E::unknown_variant(name, &TAGS))
            }
        }
        deserializer.deserialize_identifier(TagVisitor)
    }
}

struct ItemsSeed(TaggedSeed);

impl<'de> DeserializeSeed<'de> for ItemsSeed {
    type Value = Vec<Value>;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Vec<Value>, D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed {
    type Value = Vec<Value>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of tagged JSON values")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Value>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.0)? {
            items.push(item);
        }
        Ok(items)
    }
}

struct EntriesSeed(TaggedSeed);

impl<'de> DeserializeSeed<'de> for EntriesSeed {
    type Value = Map<String, Value>;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EntriesSeed {
    type Value = Map<String, Value>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of keys and tagged JSON values")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut entries = Map::new();
        while let Some((key, value)) = seq.next_element_seed(EntrySeed(self.0))? {
            entries.insert(key, value);
        }
        Ok(entries)
    }
}

struct EntrySeed(TaggedSeed);

impl<'de> DeserializeSeed<'de> for EntrySeed {
    type Value = (String, Value);
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for EntrySeed {
    type Value = (String, Value);
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key and a tagged JSON value")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let key = seq
            .next_element()?
            .ok_or_else(|| A::Error::custom("an object entry without a key"))?;
        let value = seq
            .next_element_seed(self.0)?
            .ok_or_else(|| A::Error::custom("an object entry without a value"))?;
        Ok((key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Type, Value as Cell};
    use proptest::prelude::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            proptest::num::f64::NORMAL.prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((".*", inner), 0..8)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn binary_round_trip(value in any_json()) {
            let json = Json(value);
            let bytes = Cell::new(json.clone()).encode().unwrap();
            let back = Type::of::<Json>().decode(&bytes).unwrap();
            prop_assert_eq!(back.get::<Json>(), Some(&json));
        }

        #[test]
        fn hostile_bytes_are_an_error_or_a_value(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Type::of::<Json>().decode(&bytes);
        }
    }

    #[test]
    fn readable_form_is_plain_json() {
        let json = Json(serde_json::json!({"b": [1, null], "a": "x"}));
        assert_eq!(
            serde_json::to_string(&json).unwrap(),
            r#"{"b":[1,null],"a":"x"}"#
        );
    }

    fn nested(levels: usize) -> Json {
        Json((0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner])))
    }

    #[test]
    fn depth_is_bounded_when_writing() {
        assert!(Cell::new(nested(MAX_DEPTH)).encode().is_ok());
        let error = Cell::new(nested(MAX_DEPTH + 1)).encode().unwrap_err();
        assert!(error.to_string().contains("deeper than 128"), "{error}");
    }

    #[test]
    fn depth_is_bounded_when_reading() {
        // tag 6 (array) with one element, a million times over
        let bytes = [6u8, 1].repeat(1_000_000);
        let error = Type::of::<Json>().decode(&bytes).unwrap_err();
        assert!(error.to_string().contains("deeper than 128"), "{error}");
    }
}
