//! What is stored, as JSON for people and tools.
//!
//! bincode does not say what its bytes are; the name of the type in the frame does. Of the types that this crate knows (numbers, text,
//! [`Json`], lists, sets, maps, options and tuples of them) the value is shown. Of others it shows the name, the length, and
//! what is legible. A program that has the types reads the state itself, with a typed JSON form of all of it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use superstep_channels::Json;

use crate::frame;
use crate::{Header, Loaded, StoredTask};

/// A checkpoint with its channels and what waits at it.
///
/// ```
/// use superstep_checkpoint::{CheckpointId, Checkpointer, Commit, Item, MemoryCheckpointer, Place, frame, view};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryCheckpointer::new();
/// let items = vec![("names".into(), Item::Value(frame::encode("Vec<String>", &vec!["Ada", "Bo"])?))];
/// let commit = Commit { id: CheckpointId(1), born: None, parent: None, time: 0, header: vec![], items, tasks: vec![] };
/// store.commit(&Place::root("t"), vec![commit]).await?;
/// let loaded = store.load(&Place::root("t"), None).await?.unwrap();
/// let shown = view(&loaded);
/// assert_eq!(shown["channels"]["names"]["value"], serde_json::json!(["Ada", "Bo"]));
/// # Ok(())
/// # }
/// ```
pub fn view(loaded: &Loaded) -> Value {
    let channels = loaded.channels.iter().map(|(name, channel)| {
        let mut shown = Map::new();
        if let Some((at, value)) = &channel.value {
            shown = framed(value);
            shown.insert("checkpoint".into(), at.0.into());
        }
        if !channel.logs.is_empty() {
            let log = |(at, bytes): &(crate::CheckpointId, Vec<u8>)| {
                let mut shown = writes(bytes);
                shown.insert("checkpoint".into(), at.0.into());
                Value::Object(shown)
            };
            shown.insert("writes".into(), channel.logs.iter().map(log).collect());
        }
        (name.clone(), Value::Object(shown))
    });
    json!({
        "checkpoint": loaded.id.0,
        "parent": loaded.parent.map(|parent| parent.0),
        "time_ms": loaded.time,
        "header": header(&loaded.header),
        "channels": channels.collect::<Map<_, _>>(),
        "waiting": loaded.pending.iter().map(task).collect::<Vec<_>>(),
    })
}

fn header(bytes: &[u8]) -> Value {
    let header = match Header::open(bytes) {
        Ok(header) => header,
        Err(error) => return json!({ "error": error.to_string() }),
    };
    let metadata = header.metadata.into_iter();
    let parents = header.parents.into_iter();
    json!({
        "source": format!("{:?}", header.source).to_lowercase(),
        "step": header.step,
        "graph": header.graph,
        "version": header.version,
        "next": header.next,
        "ran": header.ran,
        "parents": parents.map(|(namespace, id)| json!([namespace, id.0])).collect::<Vec<_>>(),
        "run": header.run,
        "metadata": metadata.map(|(key, Json(value))| (key, value)).collect::<Map<_, _>>(),
        "copy_of": header.copy_of.map(|id| id.0),
        "task": header.task.map(|(task, step)| json!({ "id": task.to_string(), "step": step })),
    })
}

fn task(task: &StoredTask) -> Value {
    let mut shown = framed(&task.record);
    shown.insert("id".into(), task.id.to_string().into());
    shown.insert("position".into(), task.position.into());
    Value::Object(shown)
}

/// A value in its frame.
fn framed(bytes: &[u8]) -> Map<String, Value> {
    let (name, payload) = match frame::open_as(bytes, "", |_| true) {
        Ok(found) => found,
        Err(error) => return damaged(bytes, &error.to_string()),
    };
    typed(name, payload)
}

/// The writes of one log.
fn writes(bytes: &[u8]) -> Map<String, Value> {
    let (name, payload) = match frame::open_as(bytes, "", |_| true) {
        Ok(found) => found,
        Err(error) => return damaged(bytes, &error.to_string()),
    };
    let batches =
        bincode::decode_from_slice::<Vec<Vec<(bool, Vec<u8>)>>, _>(payload, frame::config());
    let Ok((batches, _)) = batches else {
        return damaged(bytes, "it is no log");
    };
    let write = |(overwrites, bytes): &(bool, Vec<u8>)| match overwrites {
        true => json!({ "overwrites": framed(bytes) }),
        false => typed(name, bytes)
            .remove("value")
            .unwrap_or_else(|| legible(bytes).into()),
    };
    let all = batches.iter().flatten().map(write).collect();
    let mut shown = Map::new();
    shown.insert("type".into(), name.into());
    shown.insert("values".into(), Value::Array(all));
    shown
}

fn typed(name: &str, payload: &[u8]) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("type".into(), name.into());
    shown.insert("bytes".into(), payload.len().into());
    match Known::named(name).and_then(|known| known.read(payload)) {
        Some(value) => shown.insert("value".into(), value),
        None => shown.insert("legible".into(), legible(payload).into()),
    };
    shown
}

fn damaged(bytes: &[u8], reason: &str) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("error".into(), reason.into());
    shown.insert("bytes".into(), bytes.len().into());
    shown
}

/// The text in bytes: what has at least four characters in a row.
fn legible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let parts = text.split(|character: char| {
        character == char::REPLACEMENT_CHARACTER || (character.is_control() && character != '\n')
    });
    let parts: Vec<&str> = parts.filter(|part| part.chars().count() >= 4).collect();
    parts.join(" … ")
}

/// A type that can be read by its name.
#[derive(Debug, PartialEq)]
enum Known {
    Bool,
    Char,
    Signed,
    Unsigned,
    Byte(bool),
    Float(bool),
    Text,
    Json,
    Unit,
    Option(Box<Known>),
    List(Box<Known>),
    Map(Box<Known>, Box<Known>),
    Tuple(Vec<Known>),
}

/// Names nest no deeper than this.
const DEEPEST: usize = 32;

impl Known {
    fn named(name: &str) -> Option<Self> {
        Self::within(name, DEEPEST)
    }

    fn within(name: &str, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let of = |name: &str| Self::within(name, depth).map(Box::new);
        Some(match name {
            "bool" => Known::Bool,
            "char" => Known::Char,
            "i8" => Known::Byte(true),
            "u8" => Known::Byte(false),
            "i16" | "i32" | "i64" | "isize" => Known::Signed,
            "u16" | "u32" | "u64" | "usize" => Known::Unsigned,
            "f32" => Known::Float(false),
            "f64" => Known::Float(true),
            "String" | "str" => Known::Text,
            "Json" => Known::Json,
            "()" => Known::Unit,
            _ => {
                if let Some(inner) = name
                    .strip_prefix('(')
                    .and_then(|rest| rest.strip_suffix(')'))
                {
                    let parts = split(inner).into_iter();
                    return parts
                        .map(|part| Self::within(part, depth))
                        .collect::<Option<_>>()
                        .map(Known::Tuple);
                }
                let (outer, inner) = name.strip_suffix('>')?.split_once('<')?;
                let parts = split(inner);
                match (outer, &parts[..]) {
                    ("Option", [item]) => Known::Option(of(item)?),
                    ("Box" | "Arc", [item]) => *of(item)?,
                    ("Vec" | "List" | "VecDeque" | "BTreeSet", [item])
                    | ("HashSet", [item, ..]) => {
                        Known::List(of(item).filter(|item| item.takes_bytes())?)
                    }
                    ("BTreeMap", [key, value]) | ("HashMap", [key, value, ..]) => {
                        Known::Map(of(key).filter(|key| key.takes_bytes())?, of(value)?)
                    }
                    _ => return None,
                }
            }
        })
    }

    /// Of what takes no bytes, a few bytes can claim any number.
    fn takes_bytes(&self) -> bool {
        match self {
            Known::Unit => false,
            Known::Tuple(parts) => parts.iter().any(Known::takes_bytes),
            _ => true,
        }
    }

    fn read(&self, payload: &[u8]) -> Option<Value> {
        let (value, used) =
            bincode::serde::seed_decode_from_slice(Seed(self), payload, frame::config()).ok()?;
        (used == payload.len()).then_some(value)
    }
}

/// Splits at the commas that stand in no brackets.
fn split(names: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, character) in names.char_indices() {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(names[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = names[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

struct Seed<'a>(&'a Known);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        fn plain<'de, T: Deserialize<'de> + Serialize, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Value, D::Error> {
            let value = T::deserialize(from)?;
            serde_json::to_value(value).map_err(D::Error::custom)
        }
        match self.0 {
            Known::Bool => plain::<bool, _>(from),
            Known::Char => plain::<char, _>(from),
            Known::Byte(true) => plain::<i8, _>(from),
            Known::Byte(false) => plain::<u8, _>(from),
            // All of them are written in the same way.
            Known::Signed => plain::<i64, _>(from),
            Known::Unsigned => plain::<u64, _>(from),
            Known::Float(false) => plain::<f32, _>(from),
            Known::Float(true) => plain::<f64, _>(from),
            Known::Text => plain::<String, _>(from),
            Known::Json => plain::<Json, _>(from),
            Known::Unit => plain::<(), _>(from),
            Known::Option(_) => from.deserialize_option(self),
            Known::List(_) => from.deserialize_seq(self),
            Known::Map(..) => from.deserialize_map(self),
            Known::Tuple(parts) => from.deserialize_tuple(parts.len(), self),
        }
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        match self.0 {
            Known::Option(item) => Seed(item).deserialize(from),
            _ => Err(D::Error::custom("no option")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        match self.0 {
            Known::List(item) => {
                while let Some(value) = seq.next_element_seed(Seed(item))? {
                    items.push(value);
                }
            }
            Known::Tuple(parts) => {
                for part in parts {
                    items.extend(seq.next_element_seed(Seed(part))?);
                }
            }
            _ => return Err(A::Error::custom("no list")),
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Known::Map(key, value) = self.0 else {
            return Err(A::Error::custom("no map"));
        };
        let mut shown = Map::new();
        while let Some(key) = map.next_key_seed(Seed(key))? {
            let key = match key {
                Value::String(text) => text,
                other => other.to_string(),
            };
            shown.insert(key, map.next_value_seed(Seed(value))?);
        }
        Ok(Value::Object(shown))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use proptest::prelude::*;
    use superstep_channels::{Data, List, Value as Stored};

    use super::*;

    fn shown<T: Data>(value: T) -> Value {
        let stored = Stored::new(value);
        let bytes = frame::seal(stored.type_of().name(), &stored.encode().unwrap());
        Value::Object(framed(&bytes))
    }

    #[test]
    fn values_of_known_types_are_shown() {
        let cases = [
            (shown(-7i32), json!(-7)),
            (
                shown((1u8, -1i8, 300u64, 'x', true, ())),
                json!([1, -1, 300, "x", true, null]),
            ),
            (shown(vec![Some("a".to_owned()), None]), json!(["a", null])),
            (shown(List::from(vec![(1u32, 0.5f64)])), json!([[1, 0.5]])),
            (
                shown(BTreeMap::from([(3u16, vec![1.5f32])])),
                json!({ "3": [1.5] }),
            ),
            (
                shown(HashMap::from([(
                    "k".to_owned(),
                    Json(json!({ "deep": [1] })),
                )])),
                json!({ "k": { "deep": [1] } }),
            ),
            (shown(Box::new(9u64)), json!(9)),
        ];
        for (shown, expected) in cases {
            assert_eq!(shown["value"], expected, "{shown}");
        }
    }

    #[test]
    fn of_others_the_text_in_them() {
        #[derive(Clone, Serialize, Deserialize)]
        struct Message {
            role: u8,
            text: String,
        }
        let message = Message {
            role: 1,
            text: "hello there".into(),
        };
        insta::assert_snapshot!(shown(vec![message]), @r#"{"type":"Vec<Message>","bytes":14,"legible":"hello there"}"#);
        insta::assert_snapshot!(Value::Object(framed(b"nonsense")), @r#"{"error":"the bytes are no frame: they do not start with C5 53","bytes":8}"#);
        let cut = frame::seal("Vec<String>", &[9, 1]);
        insta::assert_snapshot!(Value::Object(framed(&cut)), @r#"{"type":"Vec<String>","bytes":2,"legible":""}"#);
    }

    #[test]
    fn names_that_nest_too_deep_are_not_followed() {
        let deep = format!("{}u8{}", "Vec<".repeat(5000), ">".repeat(5000));
        assert_eq!(Known::named(&deep), None);
        // A few bytes could claim any number of these.
        assert_eq!(Known::named("Vec<((), ())>"), None);
        let open = "(".repeat(5000);
        assert_eq!(Known::named(&open), None);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_shown_somehow(name in "(Vec<|Option<|\\(|u8|, |>|\\)|String|Json|BTreeMap<){0,12}", payload: Vec<u8>) {
            framed(&frame::seal(&name, &payload));
            writes(&frame::seal(&name, &payload));
        }
    }
}
