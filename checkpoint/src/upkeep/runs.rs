//! Deleting what certain runs left.

use super::PAGE;
use super::find::threads;
use crate::{Checkpointer, Place, SaveError};

/// Removes the checkpoints that runs with one of these ids made in a thread, nested graphs' included, and says how many there were.
/// Checkpoints of other runs stay as they are, also if they build on these: what they need of them stays.
/// The thread then stands at the newest one that is left.
pub async fn delete_runs(
    saver: &dyn Checkpointer,
    thread: &str,
    runs: &[&str],
) -> Result<usize, SaveError> {
    let mut count = 0;
    for place in threads(saver).await?.remove(thread).unwrap_or_default() {
        count += delete_in(saver, &place, runs).await?;
    }
    Ok(count)
}

async fn delete_in(
    saver: &dyn Checkpointer,
    place: &Place,
    runs: &[&str],
) -> Result<usize, SaveError> {
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let page = saver.list(place, before, PAGE).await?;
        let Some(last) = page.last() else {
            break;
        };
        before = Some(last.id);
        for listed in page {
            let run = listed.open(place)?.run;
            if run.is_some_and(|run| runs.contains(&run.as_str())) {
                ids.push(listed.id);
            }
        }
    }
    let count = ids.len();
    if count > 0 {
        saver.remove(place, ids).await?;
    }
    Ok(count)
}
