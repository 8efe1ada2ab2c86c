//! How what a nested graph left hangs on the graph around it.

use crate::{CheckpointId, Checkpointer, Header, Listed, Place, SaveError, Source, Stretch};

/// What a checkpoint of a nested graph has to do with one of the graph around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It was made by a task that is part of that checkpoint's history: a run from there finds it.
    Before,
    /// It was made on that checkpoint itself.
    On,
    /// It was made on a checkpoint of its history, by a task that did not lead there: the child that others led to.
    Beside(CheckpointId),
    /// It was made elsewhere.
    Apart,
}

/// How a nested graph's checkpoint hangs on the checkpoint `now` of the graph `around`.
///
/// A checkpoint that is on the way but was removed is taken for one that the task led to: [`Prune`](crate::Prune) removes along with it
/// what led elsewhere.
pub async fn relation(
    saver: &dyn Checkpointer,
    around: &Place,
    now: CheckpointId,
    left: &Header,
) -> Result<Relation, SaveError> {
    let Some(&(_, made_on)) = left.parents.last() else {
        return Ok(Relation::Apart);
    };
    if made_on == now {
        return Ok(Relation::On);
    }
    let Some(child) = child_on_the_way(saver, around, made_on, now).await? else {
        return Ok(Relation::Apart);
    };
    let Some(header) = header_of(saver, around, child).await? else {
        return Ok(Relation::Before);
    };
    let by_hand = matches!(header.source, Source::Fork | Source::Update);
    let Some((task, _)) = left.task.filter(|_| !by_hand) else {
        return Ok(Relation::Beside(child));
    };
    let tasks = saver.tasks(around, made_on).await?;
    let mut led_there = tasks.iter().filter(|task| task.child == Some(child));
    // Of the tasks of a run that was stored at its end only the input is known; whatever else it did led there.
    let unknown = led_there.clone().next().is_none();
    Ok(match unknown || led_there.any(|known| known.id == task) {
        true => Relation::Before,
        false => Relation::Beside(child),
    })
}

/// The child of one checkpoint on the way to another; nothing if it does not lie there.
async fn child_on_the_way(
    saver: &dyn Checkpointer,
    around: &Place,
    made_on: CheckpointId,
    now: CheckpointId,
) -> Result<Option<CheckpointId>, SaveError> {
    let mut way = saver.way(around, now).await?.into_iter();
    // Where what was passed so far begins.
    let mut after = now;
    while let Some(Stretch { branch, upto }) = way.next() {
        if upto == made_on {
            return Ok((after > made_on).then_some(after));
        }
        if (branch..upto).contains(&made_on) {
            return Ok(Some(made_on.next()));
        }
        after = branch;
        let first = header_of(saver, around, branch).await?;
        if let Some(copied) = first.and_then(|first| first.copy_of) {
            // A copy stands for what it is a copy of, as long as that is there.
            let copied = saver.way(around, copied).await?;
            if !copied.is_empty() {
                way = copied.into_iter();
            }
        }
    }
    Ok(None)
}

/// The header of a checkpoint; nothing if it is not there.
async fn header_of(
    saver: &dyn Checkpointer,
    place: &Place,
    id: CheckpointId,
) -> Result<Option<Header>, SaveError> {
    let listed = saver.list(place, Some(id.next()), 1).await?.pop();
    let listed = listed.filter(|listed| listed.id == id);
    listed.map(|listed| listed.open(place)).transpose()
}

impl Listed {
    /// Reads its header. The place is for the error.
    pub fn open(&self, place: &Place) -> Result<Header, SaveError> {
        Header::open(&self.header).map_err(|error| SaveError::Damaged {
            what: format!("the header of checkpoint {} of {place}", self.id),
            reason: error.to_string(),
        })
    }
}
