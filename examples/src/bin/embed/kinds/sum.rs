//! Adds up a column.

use serde::Deserialize;
use superstep::channels::Json;
use superstep::document::BoxError;
use superstep::{Context, Handler, NodeResult};

use super::{put, rows};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sum {
    rows: String,
    column: String,
    /// The channel for the sum.
    into: String,
}

pub(super) fn make(with: Sum) -> Result<impl Handler<Json>, BoxError> {
    Ok(move |Json(state): Json, _: Context| {
        let with = with.clone();
        async move { sum(&with, &state) }
    })
}

fn sum(with: &Sum, state: &serde_json::Value) -> NodeResult {
    let mut sum = 0.0;
    for (at, row) in rows(state, &with.rows)?.iter().enumerate() {
        let number = row[&with.column].as_f64();
        sum += number.ok_or_else(|| {
            let (row, column) = (at + 1, &with.column);
            format!("row {row} has no number in column `{column}`")
        })?;
    }
    Ok(put(&with.into, sum))
}
