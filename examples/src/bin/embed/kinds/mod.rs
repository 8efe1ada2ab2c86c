//! The kinds of nodes that workflows are made of. Each is a type with its parameters, and a function.

mod ask;
mod keep;
mod note;
mod read_csv;
mod set;
mod sum;
mod write_text;

use serde_json::Value as JsonValue;
use superstep::Update;
use superstep::channels::{Json, Value};
use superstep::document::Registry;

pub(crate) fn register(registry: Registry) -> Registry {
    registry
        .kind("read_csv", read_csv::make)
        .kind("keep", keep::make)
        .kind("sum", sum::make)
        .kind("note", note::make)
        .kind("ask", ask::make)
        .kind("set", set::make)
        .kind("write_text", write_text::make)
}

fn put(channel: &str, value: impl Into<JsonValue>) -> Update {
    Update::new().put_value(channel.to_owned(), Value::new(Json(value.into())))
}

/// The rows in a channel.
fn rows<'a>(state: &'a JsonValue, channel: &str) -> Result<&'a Vec<JsonValue>, String> {
    let rows = state[channel].as_array();
    rows.ok_or_else(|| format!("channel `{channel}` holds no rows but {}", state[channel]))
}

/// The text with each `{channel}` replaced by what the channel holds.
fn filled(text: &str, state: &JsonValue) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (channel, after) = after
            .split_once('}')
            .ok_or_else(|| format!("a `{{` without its `}}` in `{text}`"))?;
        filled.push_str(before);
        match &state[channel] {
            JsonValue::String(text) => filled.push_str(text),
            JsonValue::Array(items) if items.first().is_some_and(JsonValue::is_string) => {
                let lines = items.iter().filter_map(JsonValue::as_str);
                filled.push_str(&lines.collect::<Vec<_>>().join("\n"));
            }
            other => filled.push_str(&other.to_string()),
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}
