//! Writes a constant.

use serde::Deserialize;
use serde_json::Value as JsonValue;
use superstep::channels::Json;
use superstep::document::BoxError;
use superstep::{Context, Handler};

use super::put;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    value: JsonValue,
    into: String,
}

pub(super) fn make(with: Set) -> Result<impl Handler<Json>, BoxError> {
    Ok(move |_: Json, _: Context| {
        let update = put(&with.into, with.value.clone());
        async move { Ok(update) }
    })
}
