//! Writes a text, with what channels hold, into a channel.

use serde::Deserialize;
use superstep::channels::Json;
use superstep::document::BoxError;
use superstep::{Context, Handler};

use super::{filled, put};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    /// `{channel}` in it stands for what the channel holds.
    text: String,
    into: String,
}

pub(super) fn make(with: Note) -> Result<impl Handler<Json>, BoxError> {
    Ok(move |Json(state): Json, _: Context| {
        let with = with.clone();
        async move { Ok(put(&with.into, filled(&with.text, &state)?)) }
    })
}
