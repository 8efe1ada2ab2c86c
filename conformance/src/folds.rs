//! The reducers of the recorded cases, over JSON.

use serde_json::{Map, Value, json};
use superstep_channels::Json;

use crate::expr;
use crate::ids::{self, Kind};
use crate::spec::Fold;

/// A write that a reducer cannot fold in.
#[derive(Debug, thiserror::Error)]
#[error("cannot fold {update} into {value}: {rule}")]
pub struct FoldError {
    value: String,
    update: String,
    rule: &'static str,
}

/// A reducer's function.
pub type Function = fn(&mut Json, Json) -> Result<(), FoldError>;

impl Fold {
    /// Where the fold starts unless it is told to start empty.
    pub fn zero(self) -> fn() -> Json {
        match self {
            Fold::Add | Fold::Max => || Json(json!(0)),
            Fold::Append | Fold::Union | Fold::ById | Fold::Messages => || Json(json!([])),
            Fold::Merge => || Json(json!({})),
            Fold::Concat => || Json(json!("")),
        }
    }

    /// How one write is folded in. After an error the value is as it was.
    pub fn function(self) -> Function {
        match self {
            Fold::Add => |value, update| replace(value, update, "+ takes two of a kind", sum),
            Fold::Max => |value, update| replace(value, update, "max takes two integers", greater),
            Fold::Concat => {
                |value, update| replace(value, update, "concat takes two strings", concat)
            }
            Fold::Append => |value, update| extend(value, update, "append takes two lists", append),
            Fold::Union => |value, update| extend(value, update, "union takes two lists", union),
            Fold::ById => |value, update| {
                extend(
                    value,
                    update,
                    "by_id takes two lists of objects with an `id`",
                    by_id,
                )
            },
            Fold::Messages => |value, update| {
                let update = Json(listed(update.0));
                extend(
                    value,
                    update,
                    "messages have a `role`, a `content` and an `id`",
                    messages,
                )
            },
            Fold::Merge => |value, update| match (&mut value.0, update.0) {
                (Value::Object(map), Value::Object(right)) => {
                    map.extend(right);
                    Ok(())
                }
                (value, update) => Err(refused(value, &update, "merge takes two objects")),
            },
        }
    }
}

/// Gives every message of a write that has no id a generated one. That is done before the write is
/// stored, so that folding it again gives the same. `next` makes the ids.
pub fn assign_ids(update: &mut Value, mut next: impl FnMut() -> u64) {
    let messages = match update {
        Value::Array(messages) => messages.iter_mut().collect(),
        single => vec![single],
    };
    for message in messages.into_iter().filter_map(Value::as_object_mut) {
        let id = message.entry("id").or_insert(Value::Null);
        if id.is_null() {
            *id = ids::token(Kind::Message, next()).into();
        }
    }
}

/// Takes the ids away that [`assign_ids`] gave to the messages of a write.
pub fn without_given_ids(update: &mut Value) {
    let messages = match update {
        Value::Array(messages) => messages.iter_mut().collect(),
        single => vec![single],
    };
    let given = |id: &Value| {
        id.as_str()
            .is_some_and(|id| ids::is_token(Kind::Message, id))
    };
    for message in messages.into_iter().filter_map(Value::as_object_mut) {
        // What was read from the state has a type; its id is its own.
        if message.contains_key("role") && message.get("id").is_some_and(given) {
            message.shift_remove("id");
        }
    }
}

fn refused(value: &Value, update: &Value, rule: &'static str) -> FoldError {
    FoldError {
        value: value.to_string(),
        update: update.to_string(),
        rule,
    }
}

fn replace(
    value: &mut Json,
    update: Json,
    rule: &'static str,
    fold: fn(&Value, &Value) -> Option<Value>,
) -> Result<(), FoldError> {
    let folded = fold(&value.0, &update.0);
    value.0 = folded.ok_or_else(|| refused(&value.0, &update.0, rule))?;
    Ok(())
}

fn sum(left: &Value, right: &Value) -> Option<Value> {
    let known = !left.is_null() && !right.is_null();
    known.then(|| expr::add(left.clone(), right.clone()).ok())?
}

fn greater(left: &Value, right: &Value) -> Option<Value> {
    Some(left.as_i64()?.max(right.as_i64()?).into())
}

fn concat(left: &Value, right: &Value) -> Option<Value> {
    Some((left.as_str()?.to_owned() + right.as_str()?).into())
}

/// Folds item by item; `fold` says whether it could.
fn extend(
    value: &mut Json,
    update: Json,
    rule: &'static str,
    fold: fn(&mut Vec<Value>, Value) -> Option<()>,
) -> Result<(), FoldError> {
    let (Value::Array(list), Value::Array(items)) = (&mut value.0, &update.0) else {
        return Err(refused(&value.0, &update.0, rule));
    };
    let before = list.clone();
    let folded = items.iter().try_for_each(|item| fold(list, item.clone()));
    if folded.is_none() {
        *list = before;
    }
    folded.ok_or_else(|| refused(&value.0, &update.0, rule))
}

fn append(list: &mut Vec<Value>, item: Value) -> Option<()> {
    list.push(item);
    Some(())
}

fn union(list: &mut Vec<Value>, item: Value) -> Option<()> {
    if !list.contains(&item) {
        list.push(item);
    }
    Some(())
}

fn by_id(list: &mut Vec<Value>, item: Value) -> Option<()> {
    let id = item.get("id")?;
    let removed = item.get("remove") == Some(&Value::Bool(true));
    if removed && id == "__all__" {
        list.clear();
    } else if removed {
        list.retain(|known| known.get("id") != Some(id));
    } else {
        put(list, item);
    }
    Some(())
}

fn messages(list: &mut Vec<Value>, item: Value) -> Option<()> {
    put(list, shown(&item)?);
    Some(())
}

/// Replaces the item with the same id, or appends.
fn put(list: &mut Vec<Value>, item: Value) {
    let same = |known: &&mut Value| known.get("id") == item.get("id");
    match list.iter_mut().find(same) {
        Some(known) => *known = item,
        None => list.push(item),
    }
}

/// A message as it reads in the state. One that reads so already may be written again.
fn shown(message: &Value) -> Option<Value> {
    let kind = match message.get("role").or(message.get("type"))?.as_str()? {
        "user" | "human" => "human",
        "ai" => "ai",
        _ => return None,
    };
    let id = message.get("id").filter(|id| id.is_string())?;
    let content = message.get("content")?;
    let shown = [("type", &kind.into()), ("id", id), ("content", content)];
    let entry = |(key, value): (&str, &Value)| (key.to_owned(), value.clone());
    Some(shown.into_iter().map(entry).collect::<Map<_, _>>().into())
}

fn listed(update: Value) -> Value {
    match update {
        single @ Value::Object(_) => Value::Array(vec![single]),
        list => list,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(fold: Fold, updates: Value) -> Result<Value, String> {
        let mut value = fold.zero()();
        for update in updates.as_array().unwrap() {
            fold.function()(&mut value, Json(update.clone())).map_err(|error| error.to_string())?;
        }
        Ok(value.0)
    }

    #[test]
    fn each_fold_from_its_zero() {
        let cases = [
            (Fold::Add, json!([2, -5]), json!(-3)),
            (Fold::Max, json!([-1, 4, 2]), json!(4)),
            (Fold::Concat, json!(["a", "b"]), json!("ab")),
            (Fold::Append, json!([[1, 2], [], [1]]), json!([1, 2, 1])),
            (Fold::Union, json!([[1, 2], [3, 1, 3]]), json!([1, 2, 3])),
            (
                Fold::Merge,
                json!([{"a": 1, "b": 1}, {"b": 2}]),
                json!({"a": 1, "b": 2}),
            ),
        ];
        for (fold, updates, value) in cases {
            assert_eq!(folded(fold, updates), Ok(value), "{fold:?}");
        }
    }

    #[test]
    fn by_id_replaces_appends_and_removes() {
        let written = json!([
            [{"id": "1", "v": "a"}, {"id": "2", "v": "b"}],
            [{"id": "1", "v": "A"}, {"id": "2", "remove": true}, {"id": "9", "remove": true}, {"id": "3"}],
        ]);
        assert_eq!(
            folded(Fold::ById, written),
            Ok(json!([{"id": "1", "v": "A"}, {"id": "3"}]))
        );
        let emptied =
            json!([[{"id": "1"}], [{"id": "2"}, {"id": "__all__", "remove": true}, {"id": "3"}]]);
        assert_eq!(folded(Fold::ById, emptied), Ok(json!([{"id": "3"}])));
    }

    #[test]
    fn messages_replace_and_append() {
        let written = json!([
            {"role": "user", "content": "q", "id": "1"},
            [{"role": "ai", "content": "a", "id": "2"}, {"role": "user", "content": "Q", "id": "1"}],
        ]);
        let read = json!([
            {"type": "human", "id": "1", "content": "Q"},
            {"type": "ai", "id": "2", "content": "a"},
        ]);
        assert_eq!(folded(Fold::Messages, written), Ok(read.clone()));
        assert_eq!(folded(Fold::Messages, json!([read.clone()])), Ok(read));
    }

    #[test]
    fn missing_ids_are_assigned_once() {
        let mut numbers = 0..;
        let mut update =
            json!([{"role": "ai"}, {"role": "ai", "id": "x"}, {"role": "ai", "id": null}]);
        let id = |n: u64| ids::token(Kind::Message, n);
        assign_ids(&mut update, || numbers.next().unwrap());
        let assigned = json!([
            {"role": "ai", "id": id(0)},
            {"role": "ai", "id": "x"},
            {"role": "ai", "id": id(1)},
        ]);
        assert_eq!(update, assigned);
        assign_ids(&mut update, || numbers.next().unwrap());
        assert_eq!(update, assigned);
    }

    #[test]
    fn a_refused_write_changes_nothing() {
        let cases = [
            (
                Fold::Add,
                json!(1),
                json!(null),
                "cannot fold null into 1: + takes two of a kind",
            ),
            (
                Fold::Add,
                json!(i64::MAX),
                json!(1),
                "cannot fold 1 into 9223372036854775807: + takes two of a kind",
            ),
            (
                Fold::Max,
                json!(0),
                json!("1"),
                r#"cannot fold "1" into 0: max takes two integers"#,
            ),
            (
                Fold::Append,
                json!([]),
                json!(1),
                "cannot fold 1 into []: append takes two lists",
            ),
            (
                Fold::ById,
                json!([{"id": 1}]),
                json!([{"id": 2}, {"v": 1}]),
                r#"cannot fold [{"id":2},{"v":1}] into [{"id":1}]: by_id takes two lists of objects with an `id`"#,
            ),
            (
                Fold::Messages,
                json!([]),
                json!({"role": "ai", "content": "x"}),
                r#"cannot fold [{"role":"ai","content":"x"}] into []: messages have a `role`, a `content` and an `id`"#,
            ),
            (
                Fold::Merge,
                json!({}),
                json!([]),
                "cannot fold [] into {}: merge takes two objects",
            ),
        ];
        for (fold, before, update, message) in cases {
            let mut value = Json(before.clone());
            let error = fold.function()(&mut value, Json(update)).unwrap_err();
            assert_eq!((error.to_string().as_str(), value.0), (message, before));
        }
    }
}
