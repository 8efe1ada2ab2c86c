//! Finds the first action whose result differs.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::normal::normal;
use crate::result::{Done, Outcome};

/// How many characters of a value are shown.
const SHOWN: usize = 240;

/// The first action whose result is not the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The action's index in the script.
    pub action: usize,
    /// The action.
    pub kind: String,
    /// Where in its result.
    pub place: String,
    /// What was recorded there; nothing if there is nothing.
    pub expected: String,
    /// What we gave.
    pub got: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            action,
            kind,
            place,
            expected,
            got,
        } = self;
        write!(
            f,
            "action {action} ({kind}) at `{place}`: expected {expected}, got {got}"
        )
    }
}

/// Whether a result may be left out: a dump of what is stored depends on the layout.
pub fn is_optional(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done(done) if matches!(**done, Done::Raw(_)))
}

/// How much the reference has stored of delta channels since their last snapshots: when a snapshot is
/// due is each engine's own affair, so this is compared no more than a dump is.
const COUNTERS: &str = "delta_counters";

fn without_counters(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_counters),
        Value::Object(map) => {
            map.retain(|key, _| key != COUNTERS);
            map.values_mut().for_each(without_counters);
        }
        _ => {}
    }
}

/// Compares our results with the recorded ones; [optional](is_optional) ones count on neither side.
pub fn compare(
    expected: &[Outcome],
    got: Vec<Outcome>,
) -> Result<Option<Difference>, serde_json::Error> {
    let required = |outcome: &Outcome| !is_optional(outcome);
    let actions = (0..).zip(expected).filter(|(_, outcome)| required(outcome));
    let actions: Vec<usize> = actions.map(|(action, _)| action).collect();
    let mut expected = normal(
        expected
            .iter()
            .filter(|outcome| required(outcome))
            .cloned()
            .collect(),
    )?;
    let mut got = normal(got.into_iter().filter(required).collect())?;
    expected
        .iter_mut()
        .chain(&mut got)
        .for_each(without_counters);

    let difference = |index| {
        let sides = (expected.get(index), got.get(index));
        let (place, expected, got) = first_difference(sides.0, sides.1)?;
        Some(Difference {
            action: actions.get(index).copied().unwrap_or(index),
            kind: kind(sides.0.or(sides.1)?),
            place,
            expected: short(expected),
            got: short(got),
        })
    };
    Ok((0..expected.len().max(got.len())).find_map(difference))
}

fn kind(result: &Value) -> String {
    let action = result.get("do").and_then(Value::as_str);
    action.unwrap_or("build").to_owned()
}

type Sides<'a> = (String, Option<&'a Value>, Option<&'a Value>);

/// The first place where two values differ, and what is there. Objects must have sorted keys.
fn first_difference<'a>(left: Option<&'a Value>, right: Option<&'a Value>) -> Option<Sides<'a>> {
    if left == right {
        return None;
    }
    let inner = match (left, right) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            keys.into_iter().find_map(|key| {
                let found = first_difference(left.get(key), right.get(key));
                found.map(|(place, left, right)| (format!(".{key}{place}"), left, right))
            })
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => (0..left.len().max(right.len()))
            .find_map(|index| {
                let found = first_difference(left.get(index), right.get(index));
                found.map(|(place, left, right)| (format!("[{index}]{place}"), left, right))
            }),
        _ => None,
    };
    inner.or(Some((String::new(), left, right)))
}

fn short(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
