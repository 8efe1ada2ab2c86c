//! Keeps the rows with more than so much in a column.

use serde::Deserialize;
use serde_json::Value as JsonValue;
use superstep::channels::Json;
use superstep::document::BoxError;
use superstep::{Context, Handler};

use super::{put, rows};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Keep {
    rows: String,
    column: String,
    greater: f64,
    /// The channel for those rows.
    into: String,
}

pub(super) fn make(with: Keep) -> Result<impl Handler<Json>, BoxError> {
    Ok(move |Json(state): Json, _: Context| {
        let with = with.clone();
        async move {
            let over = |row: &&JsonValue| {
                let number = row[&with.column].as_f64();
                number.is_some_and(|number| number > with.greater)
            };
            let kept: Vec<JsonValue> = rows(&state, &with.rows)?
                .iter()
                .filter(over)
                .cloned()
                .collect();
            Ok(put(&with.into, kept))
        }
    })
}
