//! Finding threads and checkpoints.

use std::collections::BTreeMap;

use superstep_channels::Json;

use super::PAGE;
use crate::{CheckpointId, Checkpointer, Header, Listed, Place, SaveError};

/// The threads in a store, in order, each with its places.
pub async fn threads(saver: &dyn Checkpointer) -> Result<BTreeMap<String, Vec<Place>>, SaveError> {
    let mut threads: BTreeMap<String, Vec<Place>> = BTreeMap::new();
    let mut after = None;
    loop {
        let page = saver.places(after.as_ref(), PAGE).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(threads);
        };
        after = Some(last);
        for place in page {
            let places = threads.entry(place.thread.to_string()).or_default();
            places.push(place);
        }
    }
}

/// The checkpoints of a place, newest first, older than `before` if given, at most `limit`, whose metadata has every key of the filter with
/// that value. Keys are compared as a whole: a dot or a quote in one is just a character.
///
/// ```
/// use superstep_checkpoint::{MemoryCheckpointer, Place, find};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), superstep_checkpoint::SaveError> {
/// let store = MemoryCheckpointer::new();
/// let filter = [("tenant".to_owned(), superstep_channels::Json("acme".into()))].into();
/// assert!(find(&store, &Place::root("t"), &filter, None, 10).await?.is_empty());
/// # Ok(())
/// # }
/// ```
pub async fn find(
    saver: &dyn Checkpointer,
    place: &Place,
    filter: &BTreeMap<String, Json>,
    mut before: Option<CheckpointId>,
    limit: usize,
) -> Result<Vec<(Listed, Header)>, SaveError> {
    let mut found = Vec::new();
    while found.len() < limit {
        let page = saver.list(place, before, PAGE).await?;
        let Some(last) = page.last() else {
            break;
        };
        before = Some(last.id);
        for listed in page {
            let header = listed.open(place)?;
            let has = |(key, value): (&String, &Json)| header.metadata.get(key) == Some(value);
            if filter.iter().all(has) && found.len() < limit {
                found.push((listed, header));
            }
        }
    }
    Ok(found)
}
