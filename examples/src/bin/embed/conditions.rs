//! Conditions for branches, besides those that are built in.

use serde::Deserialize;
use serde_json::Value as JsonValue;
use superstep::document::Registry;

/// Some row of a channel has more than `limit` in a column.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyRowOver {
    rows: String,
    column: String,
    limit: f64,
}

pub(crate) fn register(registry: Registry) -> Registry {
    registry.condition("any_row_over", |with: AnyRowOver| {
        Ok(move |state: &JsonValue| {
            let rows = state[&with.rows].as_array().into_iter().flatten();
            let mut numbers = rows.filter_map(|row| row[&with.column].as_f64());
            numbers.any(|number| number > with.limit)
        })
    })
}
