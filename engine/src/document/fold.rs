//! Folds of JSON values that every registry has.

use std::cmp::Ordering;

use serde_json::{Number, Value as JsonValue};
use superstep_channels::Json;

/// What a value cannot take in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FoldError(String);

/// A fold under its name.
pub(super) type JsonFold = fn(&mut Json, Json) -> Result<(), FoldError>;

/// The folds that every registry has.
pub(super) const KNOWN: [(&str, JsonFold); 6] = [
    ("append", append),
    ("sum", sum),
    ("max", |value, update| {
        choose(value, update, Ordering::is_gt)
    }),
    ("min", |value, update| {
        choose(value, update, Ordering::is_lt)
    }),
    ("merge", merge),
    ("concat", concat),
];

fn cannot(what: &str, value: &JsonValue) -> FoldError {
    let kind = match value {
        JsonValue::Null => "null",
        JsonValue::Bool(_) => "a truth value",
        JsonValue::Number(_) => "a number",
        JsonValue::String(_) => "a text",
        JsonValue::Array(_) => "a list",
        JsonValue::Object(_) => "an object",
    };
    FoldError(format!("{what}, not {kind}"))
}

fn append(value: &mut Json, update: Json) -> Result<(), FoldError> {
    if value.0.is_null() {
        value.0 = JsonValue::Array(Vec::new());
    }
    let JsonValue::Array(items) = &mut value.0 else {
        return Err(cannot("only a list can be appended to", &value.0));
    };
    match update.0 {
        JsonValue::Array(mut more) => items.append(&mut more),
        item => items.push(item),
    }
    Ok(())
}

fn sum(value: &mut Json, update: Json) -> Result<(), FoldError> {
    if value.0.is_null() {
        value.0 = 0.into();
    }
    let (JsonValue::Number(a), JsonValue::Number(b)) = (&value.0, &update.0) else {
        return Err(cannot("only numbers can be added", &update.0));
    };
    let sum = match (a.as_i128(), b.as_i128()) {
        // Whole numbers stay exact, as far as JSON has them here.
        (Some(a), Some(b)) => Number::from_i128(a + b),
        _ => a
            .as_f64()
            .zip(b.as_f64())
            .and_then(|(a, b)| Number::from_f64(a + b)),
    };
    let sum = sum.ok_or_else(|| FoldError("the sum is no number any more".into()))?;
    value.0 = sum.into();
    Ok(())
}

fn choose(value: &mut Json, update: Json, wins: fn(Ordering) -> bool) -> Result<(), FoldError> {
    if !update.0.is_number() {
        return Err(cannot("only numbers can be compared", &update.0));
    }
    if Json::order(&update.0, &value.0).is_none_or(wins) {
        *value = update;
    }
    Ok(())
}

fn merge(value: &mut Json, update: Json) -> Result<(), FoldError> {
    if value.0.is_null() {
        value.0 = JsonValue::Object(serde_json::Map::new());
    }
    match (&mut value.0, update.0) {
        (JsonValue::Object(members), JsonValue::Object(more)) => {
            members.extend(more);
            Ok(())
        }
        (_, other) => Err(cannot("only objects can be merged", &other)),
    }
}

fn concat(value: &mut Json, update: Json) -> Result<(), FoldError> {
    if value.0.is_null() {
        value.0 = "".into();
    }
    match (&mut value.0, update.0) {
        (JsonValue::String(text), JsonValue::String(more)) => {
            text.push_str(&more);
            Ok(())
        }
        (_, other) => Err(cannot("only texts can be joined", &other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn folded(name: &str, updates: &[JsonValue]) -> Result<JsonValue, String> {
        let (_, fold) = KNOWN.iter().find(|(known, _)| *known == name).unwrap();
        let mut value = Json(JsonValue::Null);
        for update in updates {
            fold(&mut value, Json(update.clone())).map_err(|error| error.to_string())?;
        }
        Ok(value.0)
    }

    #[test]
    fn each_fold_takes_what_it_is_for() {
        assert_eq!(
            folded("append", &[json!(1), json!([2, 3])]),
            Ok(json!([1, 2, 3]))
        );
        assert_eq!(folded("sum", &[json!(1), json!(2.5)]), Ok(json!(3.5)));
        assert_eq!(
            folded("sum", &[json!(i64::MAX), json!(1)]),
            Ok(json!(9_223_372_036_854_775_808_u64))
        );
        assert_eq!(folded("max", &[json!(1), json!(3), json!(2)]), Ok(json!(3)));
        let (less, more) = (
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_993_u64),
        );
        assert_eq!(
            folded("max", &[less.clone(), more.clone()]),
            Ok(more.clone())
        );
        assert_eq!(folded("min", &[more, less.clone()]), Ok(less));
        assert_eq!(
            folded("sum", &[json!(u64::MAX), json!(1)]),
            Err("the sum is no number any more".into())
        );
        assert_eq!(folded("min", &[json!(2), json!(1), json!(3)]), Ok(json!(1)));
        assert_eq!(
            folded("merge", &[json!({"a": 1}), json!({"b": 2})]),
            Ok(json!({"a": 1, "b": 2}))
        );
        assert_eq!(folded("concat", &[json!("a"), json!("b")]), Ok(json!("ab")));
        for name in ["sum", "max", "min", "merge", "concat"] {
            assert!(folded(name, &[json!([])]).is_err(), "{name}");
        }
        assert_eq!(
            folded("sum", &[json!(f64::MAX), json!(f64::MAX)]),
            Err("the sum is no number any more".into())
        );
    }
}
