//! Conditions on documents.

use std::cmp::Ordering;

use serde_json::Value;
use superstep_channels::Json;

/// What the top-level fields of a document must be. All conditions must hold; a field's name is compared as a whole, so a dot in it is just a
/// character.
///
/// ```
/// use serde_json::json;
/// use superstep_checkpoint::store::Filter;
///
/// let filter = Filter::from_json(&json!({ "kind": "note", "rank": { "$gte": 2, "$lt": 5 } }))?;
/// assert!(filter.matches(&json!({ "kind": "note", "rank": 2.0 })));
/// assert!(!filter.matches(&json!({ "kind": "note", "rank": "2" })));
/// # Ok::<(), superstep_checkpoint::store::FilterError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter(Vec<(String, Operator, Value)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Is,
    IsNot,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// A filter that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// It is no object.
    #[error("a filter is an object of fields and what they must be")]
    NoObject,
    /// It has an operator that is not known.
    #[error(
        "field `{field}` has the operator `{operator}`: known are $eq, $ne, $lt, $lte, $gt and $gte"
    )]
    UnknownOperator {
        /// The field.
        field: String,
        /// The operator.
        operator: String,
    },
}

impl Filter {
    /// No conditions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the JSON form: by field a value that it must equal, or an object of operators (`$eq`, `$ne`, `$lt`, `$lte`, `$gt`, `$gte`) and
    /// values. An object whose keys do not begin with `$` is a value.
    pub fn from_json(json: &Value) -> Result<Self, FilterError> {
        let mut filter = Filter::new();
        for (field, wanted) in json.as_object().ok_or(FilterError::NoObject)? {
            let operators = wanted
                .as_object()
                .filter(|map| map.keys().any(|key| key.starts_with('$')));
            match operators {
                None => filter.0.push((field.clone(), Operator::Is, wanted.clone())),
                Some(operators) => {
                    for (name, value) in operators {
                        let operator =
                            Operator::named(name).ok_or_else(|| FilterError::UnknownOperator {
                                field: field.clone(),
                                operator: name.clone(),
                            })?;
                        filter.0.push((field.clone(), operator, value.clone()));
                    }
                }
            }
        }
        Ok(filter)
    }

    fn and(
        mut self,
        field: impl Into<String>,
        operator: Operator,
        value: impl Into<Value>,
    ) -> Self {
        self.0.push((field.into(), operator, value.into()));
        self
    }

    /// The field equals the value. Numbers are equal if they have the same value.
    #[must_use]
    pub fn is(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.and(field, Operator::Is, value)
    }

    /// The field is something else, or is not there.
    #[must_use]
    pub fn is_not(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.and(field, Operator::IsNot, value)
    }

    /// The field is less: a number than a number, a text than a text. Nothing else is less or more than anything.
    #[must_use]
    pub fn less(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.and(field, Operator::Less, value)
    }

    /// The field is less, or equal.
    #[must_use]
    pub fn at_most(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.and(field, Operator::AtMost, value)
    }

    /// The field is more.
    #[must_use]
    pub fn more(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.and(field, Operator::More, value)
    }

    /// The field is more, or equal.
    #[must_use]
    pub fn at_least(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.and(field, Operator::AtLeast, value)
    }

    /// Whether a document meets all conditions.
    pub fn matches(&self, document: &Value) -> bool {
        self.0.iter().all(|(field, operator, wanted)| {
            let found = document.as_object().and_then(|fields| fields.get(field));
            operator.holds(found, wanted)
        })
    }
}

impl Operator {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "$eq" => Operator::Is,
            "$ne" => Operator::IsNot,
            "$lt" => Operator::Less,
            "$lte" => Operator::AtMost,
            "$gt" => Operator::More,
            "$gte" => Operator::AtLeast,
            _ => return None,
        })
    }

    fn holds(self, found: Option<&Value>, wanted: &Value) -> bool {
        let equal = found.is_some_and(|found| Json::equal(found, wanted));
        let order = found.and_then(|found| Json::order(found, wanted));
        match self {
            Operator::Is => equal,
            Operator::IsNot => !equal,
            Operator::Less => order == Some(Ordering::Less),
            Operator::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::More => order == Some(Ordering::Greater),
            Operator::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_hold_or_not() {
        let document = json!({ "n": 2, "big": 9_007_199_254_740_993_u64, "text": "b", "none": null, "list": [1], "a.b": 1, "a": { "b": 2 } });
        let cases = [
            (json!({}), true),
            (json!({ "n": 2.0 }), true),
            (json!({ "n": { "$gt": 1, "$lt": 3 } }), true),
            (json!({ "n": { "$gt": 2 } }), false),
            (json!({ "n": { "$gte": 2 } }), true),
            (json!({ "n": { "$lte": 1.5 } }), false),
            (json!({ "n": { "$ne": 2 } }), false),
            (json!({ "n": "2" }), false),
            (json!({ "n": { "$lt": "3" } }), false),
            (json!({ "big": 9_007_199_254_740_992_u64 }), false),
            (json!({ "text": { "$gt": "a" } }), true),
            (json!({ "none": null }), true),
            (json!({ "missing": null }), false),
            (json!({ "missing": { "$ne": 1 } }), true),
            (json!({ "missing": { "$lt": 1 } }), false),
            (json!({ "list": [1] }), true),
            (json!({ "a.b": 1 }), true),
            (json!({ "a": { "b": 2 } }), true),
            (json!({ "a": { "$eq": { "b": 2 } } }), true),
        ];
        for (filter, expected) in cases {
            let read = Filter::from_json(&filter).unwrap();
            assert_eq!(read.matches(&document), expected, "{filter}");
        }
        assert!(!Filter::new().is("n", 1).matches(&json!([1])));
    }

    #[test]
    fn what_is_no_filter_is_an_error() {
        let error = Filter::from_json(&json!([])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a filter is an object of fields and what they must be"
        );
        let error = Filter::from_json(&json!({ "a": { "$like": "x" } })).unwrap_err();
        assert_eq!(
            error.to_string(),
            "field `a` has the operator `$like`: known are $eq, $ne, $lt, $lte, $gt and $gte"
        );
    }
}
