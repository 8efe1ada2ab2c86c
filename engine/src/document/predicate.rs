//! Conditions on a state.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value as JsonValue};
use superstep_channels::Json;

/// A condition on the state of a graph, as JSON: `{ "equals": ["status", "open"] }`.
///
/// What is looked at is a channel by name, or with a `/` first a JSON pointer into the state: `/rows/0/amount`. What is not there
/// is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicate {
    /// It is there and not null.
    Exists(String),
    /// It is neither null, false, 0 nor empty.
    Truthy(String),
    /// It is this.
    Equals(String, JsonValue),
    /// It is a number greater than this.
    Greater(String, Number),
    /// It is a number less than this.
    Less(String, Number),
    /// It is a number, and at least this.
    AtLeast(String, Number),
    /// It is a number, and at most this.
    AtMost(String, Number),
    /// It is one of these.
    In(String, Vec<JsonValue>),
    /// The condition does not hold.
    Not(Box<Predicate>),
    /// All of them hold.
    All(Vec<Predicate>),
    /// One of them holds.
    Any(Vec<Predicate>),
    /// What the registry has under this name, made of these parameters.
    Call(Call),
}

/// A condition from the registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// What it is made of.
    #[serde(default)]
    pub with: JsonValue,
}

/// A condition that is ready to be asked.
pub(super) type Condition = Box<dyn Fn(&JsonValue) -> bool + Send + Sync>;

impl Predicate {
    /// Makes it ready. `call` finds a condition of the registry, with the path of its parameters.
    pub(super) fn ready(
        &self,
        path: &str,
        call: &mut dyn FnMut(&Call, String) -> Condition,
    ) -> Condition {
        match self.clone() {
            Predicate::Exists(what) => Box::new(move |state| !find(state, &what).is_null()),
            Predicate::Truthy(what) => Box::new(move |state| is_truthy(find(state, &what))),
            Predicate::Equals(what, wanted) => {
                Box::new(move |state| Json::equal(find(state, &what), &wanted))
            }
            Predicate::In(what, wanted) => Box::new(move |state| {
                let found = find(state, &what);
                wanted.iter().any(|wanted| Json::equal(found, wanted))
            }),
            Predicate::Greater(what, limit) => compare(what, limit, Ordering::is_gt),
            Predicate::Less(what, limit) => compare(what, limit, Ordering::is_lt),
            Predicate::AtLeast(what, limit) => compare(what, limit, Ordering::is_ge),
            Predicate::AtMost(what, limit) => compare(what, limit, Ordering::is_le),
            Predicate::Not(inner) => {
                let inner = inner.ready(&format!("{path}.not"), call);
                Box::new(move |state| !inner(state))
            }
            Predicate::All(each) => {
                let each = ready_all(&each, &format!("{path}.all"), call);
                Box::new(move |state| each.iter().all(|holds| holds(state)))
            }
            Predicate::Any(each) => {
                let each = ready_all(&each, &format!("{path}.any"), call);
                Box::new(move |state| each.iter().any(|holds| holds(state)))
            }
            Predicate::Call(known) => call(&known, format!("{path}.call")),
        }
    }

    /// The channels that it looks at.
    pub(super) fn channels(&self) -> Vec<String> {
        match self {
            Predicate::Exists(what)
            | Predicate::Truthy(what)
            | Predicate::Equals(what, _)
            | Predicate::Greater(what, _)
            | Predicate::Less(what, _)
            | Predicate::AtLeast(what, _)
            | Predicate::AtMost(what, _)
            | Predicate::In(what, _) => vec![channel(what)],
            Predicate::Not(inner) => inner.channels(),
            Predicate::All(each) | Predicate::Any(each) => {
                each.iter().flat_map(Predicate::channels).collect()
            }
            Predicate::Call(_) => Vec::new(),
        }
    }
}

/// As people read it, in pictures.
impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, each: &[Predicate], word: &str| {
            for (at, predicate) in each.iter().enumerate() {
                let before = if at == 0 { "" } else { word };
                match predicate {
                    Predicate::All(_) | Predicate::Any(_) => write!(f, "{before}({predicate})")?,
                    _ => write!(f, "{before}{predicate}")?,
                }
            }
            Ok(())
        };
        match self {
            Predicate::Exists(what) => write!(f, "{what} exists"),
            Predicate::Truthy(what) => write!(f, "{what}"),
            Predicate::Equals(what, wanted) => write!(f, "{what} = {wanted}"),
            Predicate::Greater(what, limit) => write!(f, "{what} > {limit}"),
            Predicate::Less(what, limit) => write!(f, "{what} < {limit}"),
            Predicate::AtLeast(what, limit) => write!(f, "{what} >= {limit}"),
            Predicate::AtMost(what, limit) => write!(f, "{what} <= {limit}"),
            Predicate::In(what, wanted) => {
                write!(f, "{what} in {}", JsonValue::from(wanted.clone()))
            }
            Predicate::Not(inner) => write!(f, "not ({inner})"),
            Predicate::All(each) if each.is_empty() => f.write_str("always"),
            Predicate::Any(each) if each.is_empty() => f.write_str("never"),
            Predicate::All(each) => list(f, each, " and "),
            Predicate::Any(each) => list(f, each, " or "),
            Predicate::Call(Call { name, with }) if with.is_null() => write!(f, "{name}"),
            Predicate::Call(Call { name, with }) => write!(f, "{name} {with}"),
        }
    }
}

fn ready_all(
    each: &[Predicate],
    path: &str,
    call: &mut dyn FnMut(&Call, String) -> Condition,
) -> Vec<Condition> {
    let each = each.iter().enumerate();
    each.map(|(at, predicate)| predicate.ready(&format!("{path}[{at}]"), call))
        .collect()
}

fn compare(what: String, limit: Number, holds: fn(Ordering) -> bool) -> Condition {
    let limit = JsonValue::Number(limit);
    Box::new(move |state| Json::order(find(state, &what), &limit).is_some_and(holds))
}

fn find<'a>(state: &'a JsonValue, what: &str) -> &'a JsonValue {
    let found = match what.starts_with('/') {
        true => state.pointer(what),
        false => state.get(what),
    };
    found.unwrap_or(&JsonValue::Null)
}

/// The channel that is looked at: the first part of a pointer, as it is called.
fn channel(what: &str) -> String {
    match what.strip_prefix('/') {
        None => what.to_owned(),
        Some(pointer) => {
            let first = pointer.split('/').next().unwrap_or_default();
            first.replace("~1", "/").replace("~0", "~")
        }
    }
}

fn is_truthy(value: &JsonValue) -> bool {
    match value {
        JsonValue::Null => false,
        JsonValue::Bool(is) => *is,
        JsonValue::Number(number) => number.as_f64() != Some(0.0),
        JsonValue::String(text) => !text.is_empty(),
        JsonValue::Array(items) => !items.is_empty(),
        JsonValue::Object(members) => !members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(predicate: JsonValue, state: &JsonValue) -> bool {
        let predicate: Predicate = serde_json::from_value(predicate).unwrap();
        let mut none = |_: &Call, _: String| -> Condition { Box::new(|_| true) };
        predicate.ready("", &mut none)(state)
    }

    #[test]
    fn conditions_hold_or_not() {
        let state = json!({ "n": 3, "big": 9_007_199_254_740_993_u64, "text": "", "rows": [{ "amount": 7.5 }], "a/b": null, "no": false });
        let cases = [
            (json!({ "exists": "n" }), true),
            (json!({ "exists": "a/b" }), false),
            (json!({ "exists": "/a~1b" }), false),
            (json!({ "truthy": "text" }), false),
            (json!({ "truthy": "rows" }), true),
            (json!({ "truthy": "no" }), false),
            (json!({ "equals": ["n", 3] }), true),
            (json!({ "equals": ["n", 3.0] }), true),
            (json!({ "in": ["n", [3.0]] }), true),
            (
                json!({ "greater": ["big", 9_007_199_254_740_992_u64] }),
                true,
            ),
            (
                json!({ "at_most": ["big", 9_007_199_254_740_992_u64] }),
                false,
            ),
            (json!({ "equals": ["n", "3"] }), false),
            (json!({ "equals": ["nothing", null] }), true),
            (json!({ "greater": ["/rows/0/amount", 7] }), true),
            (json!({ "greater": ["/rows/1/amount", 7] }), false),
            (json!({ "greater": ["text", 0] }), false),
            (json!({ "less": ["n", 3] }), false),
            (json!({ "at_most": ["n", 3] }), true),
            (json!({ "at_least": ["n", 3.5] }), false),
            (json!({ "in": ["n", [1, 3]] }), true),
            (json!({ "not": { "exists": "n" } }), false),
            (
                json!({ "all": [{ "exists": "n" }, { "truthy": "text" }] }),
                false,
            ),
            (
                json!({ "any": [{ "exists": "n" }, { "truthy": "text" }] }),
                true,
            ),
            (json!({ "all": [] }), true),
            (json!({ "any": [] }), false),
        ];
        for (predicate, expected) in cases {
            assert_eq!(holds(predicate.clone(), &state), expected, "{predicate}");
        }
    }
}
