//! Ids in results: tokens while a case runs, placeholders once all of its results are known.
//!
//! A token is a string, or a part of a namespace, between two characters that no data has. So an id
//! is never mistaken for data, whatever it looks like.

use std::collections::HashMap;
use std::fmt::Display;

use serde_json::Value;

const OPEN: char = '\u{E000}';
const CLOSE: char = '\u{E001}';

/// What an id stands for. The first letter of its placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A checkpoint, `C1`.
    Checkpoint,
    /// A task, `T1`.
    Task,
    /// A question, `I1`.
    Interrupt,
    /// A message whose id was generated, `M1`.
    Message,
}

impl Kind {
    fn letter(self) -> char {
        match self {
            Kind::Checkpoint => 'C',
            Kind::Task => 'T',
            Kind::Interrupt => 'I',
            Kind::Message => 'M',
        }
    }
}

/// The token of an id. Equal tokens get equal placeholders.
///
/// ```
/// use superstep_conformance::ids::{Kind, number, token};
///
/// let mut results = [serde_json::json!([token(Kind::Task, 77), token(Kind::Task, 5)])];
/// number(&mut results);
/// assert_eq!(results, [serde_json::json!(["T1", "T2"])]);
/// ```
pub fn token(kind: Kind, raw: impl Display) -> String {
    format!("{OPEN}{}{raw}{CLOSE}", kind.letter())
}

/// Whether a text is the token of an id of this kind.
pub fn is_token(kind: Kind, text: &str) -> bool {
    let inner = text
        .strip_prefix(OPEN)
        .and_then(|text| text.strip_suffix(CLOSE));
    inner.is_some_and(|inner| inner.starts_with(kind.letter()))
}

/// Turns the placeholders of a recorded result into tokens: strings that are a letter and digits,
/// and such parts of a namespace (`node:T3|inner:T5`). Recorded data has no other such strings.
pub fn mark(value: &mut Value) {
    each_string(value, &mut |text| {
        if is_placeholder(text) {
            *text = format!("{OPEN}{text}{CLOSE}");
        } else if text.contains(':') {
            *text = mark_namespace(text);
        }
    });
}

fn mark_namespace(text: &str) -> String {
    let part = |part: &str| match part.split_once(':') {
        Some((node, task)) if is_placeholder(task) => format!("{node}:{OPEN}{task}{CLOSE}"),
        _ => part.to_owned(),
    };
    text.split('|').map(part).collect::<Vec<_>>().join("|")
}

fn is_placeholder(text: &str) -> bool {
    let mut chars = text.chars();
    let letter = chars.next().is_some_and(|first| "CTIM".contains(first));
    letter && text.len() > 1 && chars.all(|digit| digit.is_ascii_digit())
}

/// Replaces every token by its placeholder: numbered by kind in the order of first appearance,
/// results in order, keys sorted, arrays in order.
pub fn number(results: &mut [Value]) {
    let mut numbers = HashMap::<String, String>::new();
    let mut counts = HashMap::<char, usize>::new();
    for result in results {
        result.sort_all_objects();
        each_string(result, &mut |text| {
            *text = replace(text, |id| {
                let numbered = || {
                    let letter = id.chars().next().unwrap_or('?');
                    let count = counts.entry(letter).or_default();
                    *count += 1;
                    format!("{letter}{count}")
                };
                numbers
                    .entry(id.to_owned())
                    .or_insert_with(numbered)
                    .clone()
            });
        });
    }
}

/// The ids in a value, in the order that [`number`] meets them. Each starts with its kind's letter.
pub(crate) fn ids_in(value: &Value) -> Vec<String> {
    let mut value = value.clone();
    value.sort_all_objects();
    let mut found = Vec::new();
    each_string(&mut value, &mut |text| {
        replace(text, |id| {
            found.push(id.to_owned());
            String::new()
        });
    });
    found
}

/// The text that things are sorted by: JSON with sorted keys, spaces after `,` and `:`, non-ASCII
/// characters escaped, and every id replaced by its letter and `?`.
pub(crate) fn masked(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    each_string(&mut value, &mut |text| {
        *text = replace(text, |id| id.chars().take(1).chain(['?']).collect());
    });
    spaced(&value)
}

fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(spaced).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let entry =
                |(key, value): (&String, &Value)| format!("{}: {}", quoted(key), spaced(value));
            format!(
                "{{{}}}",
                map.iter().map(entry).collect::<Vec<_>>().join(", ")
            )
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let json = Value::from(text).to_string();
    let mut ascii = String::with_capacity(json.len());
    let mut units = [0; 2];
    for character in json.chars() {
        if character.is_ascii() && character != '\u{7f}' {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut units) {
                ascii += &format!("\\u{unit:04x}");
            }
        }
    }
    ascii
}

fn each_string(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_string(item, change)),
        Value::Object(map) => map.values_mut().for_each(|item| each_string(item, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text with every token (what is between its marks) replaced.
fn replace(text: &str, mut with: impl FnMut(&str) -> String) -> String {
    let mut pieces = text.split(OPEN);
    let mut replaced = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_once(CLOSE) {
            Some((id, rest)) => {
                replaced += &with(id);
                replaced += rest;
            }
            None => replaced += piece,
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_are_numbered_by_first_appearance() {
        let t = |raw| token(Kind::Task, raw);
        let c = token(Kind::Checkpoint, 9);
        let mut results = [
            json!({"z": t("x"), "a": [t("y"), c], "ns": format!("n:{}|m:{}", t("z"), t("y"))}),
            json!([t("x"), "x", token(Kind::Interrupt, "x")]),
        ];
        number(&mut results);
        let expected = [
            json!({"a": ["T1", "C1"], "ns": "n:T2|m:T1", "z": "T3"}),
            json!(["T3", "x", "I1"]),
        ];
        assert_eq!(results, expected);
    }

    #[test]
    fn marking_finds_ids_and_nothing_else() {
        let mut value = json!(["C1", "T", "x:T2|1|y:T13", "branch:to:T", "T1x", {"M2": "M2"}]);
        let text = value.to_string();
        mark(&mut value);
        assert_eq!(ids_in(&value), ["C1", "T2", "T13", "M2"]);
        assert_eq!(value.to_string().replace([OPEN, CLOSE], ""), text);
    }

    #[test]
    fn masked_text() {
        let id = token(Kind::Interrupt, "abc");
        let value = json!({"value": ["ä\n\"😀", null], "id": id, "ns": format!("n:{}", token(Kind::Task, 1))});
        let expected = r#"{"id": "I?", "ns": "n:T?", "value": ["\u00e4\n\"\ud83d\ude00", null]}"#;
        assert_eq!(masked(&value), expected);
    }
}
