//! Writes a text, with what channels hold, into a file of the run.

use std::io::Write;

use serde::Deserialize;
use serde_json::Value as JsonValue;
use superstep::channels::Json;
use superstep::document::BoxError;
use superstep::{Context, Handler, NodeResult};
use superstep_examples::failed::Failed;

use super::{filled, put};
use crate::workflow::{Folders, is_plain};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteText {
    /// How the file's name ends; it begins with the name of the run.
    name: String,
    /// `{channel}` in it stands for what the channel holds.
    text: String,
    /// The channel for the file's path.
    into: String,
}

pub(super) fn make(with: WriteText) -> Result<impl Handler<Json>, BoxError> {
    is_plain(&with.name)?;
    Ok(move |Json(state): Json, cx: Context| {
        let with = with.clone();
        async move { write(&with, &state, &cx) }
    })
}

/// If the run dies right after, the same is written again: the file is there whole, before and after.
fn write(with: &WriteText, state: &JsonValue, cx: &Context) -> NodeResult {
    let folder = &cx.context::<Folders>()?.write;
    let path = folder.join(format!("{}-{}", cx.thread(), with.name));
    let failed = |error: &dyn std::error::Error| Failed::file("cannot write", &path, error);
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    let text = filled(&with.text, state)?;
    file.write_all(text.as_bytes())
        .map_err(|error| failed(&error))?;
    file.as_file().sync_all().map_err(|error| failed(&error))?;
    file.persist(&path).map_err(|error| failed(&error))?;
    Ok(put(&with.into, path.display().to_string()))
}
