//! Reads a table that lies beside the workflow.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value as JsonValue};
use superstep::channels::Json;
use superstep::document::BoxError;
use superstep::{Context, Handler, NodeResult};
use superstep_examples::failed::Failed;

use super::put;
use crate::workflow::Folders;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadCsv {
    /// Below the folder of the workflow.
    file: PathBuf,
    /// The channel for its rows: objects with the columns of the first line.
    into: String,
}

pub(super) fn make(with: ReadCsv) -> Result<impl Handler<Json>, BoxError> {
    let mut parts = with.file.components();
    if !parts.all(|part| matches!(part, Component::Normal(_))) {
        let what = "a file is named by a path below the workflow's folder";
        return Err(format!("`{}`: {what}", with.file.display()).into());
    }
    Ok(move |_: Json, cx: Context| {
        let (file, into) = (with.file.clone(), with.into.clone());
        async move { read(&file, &into, &cx) }
    })
}

fn read(file: &Path, into: &str, cx: &Context) -> NodeResult {
    let folders = cx.context::<Folders>()?;
    let failed = |error: &dyn std::error::Error| Failed::file("cannot read", file, error);
    // A link may lead elsewhere.
    let folder = folders
        .read
        .canonicalize()
        .map_err(|error| failed(&error))?;
    let path = folder.join(file).canonicalize();
    let path = path.map_err(|error| failed(&error))?;
    if !path.starts_with(&folder) {
        return Err(format!("`{}` leads out of the workflow's folder", file.display()).into());
    }
    let mut table = csv::Reader::from_path(&path).map_err(|error| failed(&error))?;
    let names = table.headers().map_err(|error| failed(&error))?.clone();
    let mut rows = Vec::new();
    for record in table.records() {
        let record = record.map_err(|error| failed(&error))?;
        let columns = names.iter().zip(&record);
        let row: Map<String, JsonValue> = columns
            .map(|(name, text)| (name.to_owned(), value(text)))
            .collect();
        rows.push(JsonValue::Object(row));
    }
    Ok(put(into, rows))
}

/// A number if it looks like one, otherwise text.
fn value(text: &str) -> JsonValue {
    let whole = text.parse::<i64>().ok().map(JsonValue::from);
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    whole
        .or_else(|| number().map(JsonValue::from))
        .unwrap_or_else(|| text.into())
}
