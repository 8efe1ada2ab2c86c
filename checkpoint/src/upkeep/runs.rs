//! Deleting what certain runs left.

use std::collections::{BTreeMap, BTreeSet};

use super::PAGE;
use super::find::threads;
use crate::{CheckpointId, Checkpointer, Header, Place, SaveError};

/// Removes the checkpoints that runs with one of these ids made in a thread, those of nested graphs that were made on them included, and
/// says how many there were. Checkpoints of other runs stay as they are, also if they build on these: what they need of them stays.
/// The thread then stands at the newest one that is left.
pub async fn delete_runs(
    saver: &dyn Checkpointer,
    thread: &str,
    runs: &[&str],
) -> Result<usize, SaveError> {
    let mut places = threads(saver).await?.remove(thread).unwrap_or_default();
    // A graph is nested in one whose namespace is shorter.
    places.sort_by_key(|place| place.namespace.len());
    let mut removed: BTreeMap<String, BTreeSet<CheckpointId>> = BTreeMap::new();
    for place in places {
        let goes = |header: &Header| match header.parents.last() {
            None => header.run.as_deref().is_some_and(|run| runs.contains(&run)),
            Some((around, made_on)) => {
                let around = removed.get(around);
                around.is_some_and(|removed| removed.contains(made_on))
            }
        };
        let ids = ids_where(saver, &place, goes).await?;
        if !ids.is_empty() {
            saver.remove(&place, ids.iter().copied().collect()).await?;
        }
        removed.insert(place.namespace.to_string(), ids);
    }
    Ok(removed.values().map(BTreeSet::len).sum())
}

async fn ids_where(
    saver: &dyn Checkpointer,
    place: &Place,
    goes: impl Fn(&Header) -> bool,
) -> Result<BTreeSet<CheckpointId>, SaveError> {
    let (mut ids, mut before) = (BTreeSet::new(), None);
    loop {
        let page = saver.list(place, before, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(ids);
        };
        before = Some(last.id);
        for listed in page {
            if goes(&listed.open(place)?) {
                ids.insert(listed.id);
            }
        }
    }
}
