//! Removing old checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use super::PAGE;
use super::find::threads;
use crate::nested::{Relation, relation};
use crate::{CheckpointId, Checkpointer, Header, Listed, Place, SaveError};

/// Which checkpoints of a thread may go.
///
/// What is left can be read, continued, forked and replayed as before: of the checkpoints that go, what others need stays. That is never
/// more than the values and logs that those others see, so no snapshot has to be made for it. The newest checkpoint of each graph
/// always stays.
///
/// Of a graph nested in the thread goes what no checkpoint that is left stands on.
///
/// ```
/// use superstep_checkpoint::{MemoryCheckpointer, Prune};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), superstep_checkpoint::SaveError> {
/// let store = MemoryCheckpointer::new();
/// let plan = Prune::keep_last(10).keep_heads().plan(&store, "t").await?;
/// println!("{} checkpoints would go", plan.checkpoints());
/// plan.carry_out(&store).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    last: Option<usize>,
    older_than: Option<SystemTime>,
    heads: bool,
}

impl Prune {
    /// All may go but the last so many.
    pub fn keep_last(checkpoints: usize) -> Self {
        Prune {
            last: Some(checkpoints),
            ..Prune::default()
        }
    }

    /// All may go that are older than a moment.
    pub fn older_than(moment: SystemTime) -> Self {
        Prune {
            older_than: Some(moment),
            ..Prune::default()
        }
    }

    /// Of those only the ones that are also older than a moment.
    #[must_use]
    pub fn and_older_than(self, moment: SystemTime) -> Self {
        Prune {
            older_than: Some(moment),
            ..self
        }
    }

    /// The last checkpoint of each branch stays.
    #[must_use]
    pub fn keep_heads(self) -> Self {
        Prune {
            heads: true,
            ..self
        }
    }

    /// Works out what goes from a thread, and changes nothing.
    pub async fn plan(&self, saver: &dyn Checkpointer, thread: &str) -> Result<Plan, SaveError> {
        let mut graphs = BTreeMap::new();
        for place in threads(saver).await?.remove(thread).unwrap_or_default() {
            let history = History::read(saver, &place).await?;
            graphs.insert(place, history);
        }
        // A graph is nested in one whose namespace is shorter.
        let mut order: Vec<Place> = graphs.keys().cloned().collect();
        order.sort_by_key(|place| place.namespace.len());
        let mut stays: BTreeMap<Place, BTreeSet<CheckpointId>> = BTreeMap::new();
        loop {
            let count =
                |stays: &BTreeMap<_, BTreeSet<_>>| stays.values().map(BTreeSet::len).sum::<usize>();
            let before = count(&stays);
            for place in &order {
                let own = self.stays_in(saver, place, &graphs, &mut stays).await?;
                stays.entry(place.clone()).or_default().extend(own);
            }
            // A nested graph may want a checkpoint of the one around it to stay.
            if before == count(&stays) {
                break;
            }
        }
        let removes = graphs.into_iter().filter_map(|(place, history)| {
            let ids = history.0.into_iter().map(|(listed, _)| listed.id);
            let stays = stays.remove(&place).unwrap_or_default();
            let ids: Vec<_> = ids.filter(|id| !stays.contains(id)).collect();
            (!ids.is_empty()).then_some((place, ids))
        });
        Ok(Plan {
            removes: removes.collect(),
        })
    }

    async fn stays_in(
        &self,
        saver: &dyn Checkpointer,
        place: &Place,
        graphs: &BTreeMap<Place, History>,
        stays: &mut BTreeMap<Place, BTreeSet<CheckpointId>>,
    ) -> Result<BTreeSet<CheckpointId>, SaveError> {
        let Some(history) = graphs.get(place) else {
            return Ok(BTreeSet::new());
        };
        let Some(around) = history.around(place) else {
            return Ok(self.chosen(history));
        };
        let now = stays.get(&around).cloned().unwrap_or_default();
        let mut own: BTreeSet<_> = history
            .0
            .first()
            .map(|(newest, _)| newest.id)
            .into_iter()
            .collect();
        let mut beside = Vec::new();
        for now in now {
            let mut on = false;
            for (listed, header) in &history.0 {
                match relation(saver, &around, now, header).await? {
                    Relation::Before => {
                        own.insert(listed.id);
                        break;
                    }
                    Relation::On if !on => {
                        on = true;
                        own.insert(listed.id);
                    }
                    Relation::On | Relation::Apart => {}
                    Relation::Beside(child) => beside.push((listed.id, child)),
                }
            }
        }
        // What says that something led elsewhere has to stay with it.
        let children = beside.iter().filter(|(id, _)| own.contains(id));
        let children = children.map(|(_, child)| *child);
        stays.entry(around).or_default().extend(children);
        Ok(own)
    }

    /// What stays of the outermost graph.
    fn chosen(&self, history: &History) -> BTreeSet<CheckpointId> {
        let parents: BTreeSet<_> = history
            .0
            .iter()
            .filter_map(|(listed, _)| listed.parent)
            .collect();
        let until = self.older_than.map(|moment| {
            let since = moment.duration_since(SystemTime::UNIX_EPOCH);
            since.map_or(0, |since| since.as_millis() as u64)
        });
        let stays = |(place, (listed, _)): &(usize, &(Listed, Header))| {
            let among_last = *place < self.last.unwrap_or(0).max(1);
            let young = until.is_some_and(|until| listed.time >= until);
            let head = self.heads && !parents.contains(&listed.id);
            among_last || young || head
        };
        let stays = history.0.iter().enumerate().filter(stays);
        stays.map(|(_, (listed, _))| listed.id).collect()
    }
}

/// The checkpoints of a place, newest first.
struct History(Vec<(Listed, Header)>);

impl History {
    async fn read(saver: &dyn Checkpointer, place: &Place) -> Result<Self, SaveError> {
        let mut all: Vec<(Listed, Header)> = Vec::new();
        loop {
            let before = all.last().map(|(listed, _)| listed.id);
            let page = saver.list(place, before, PAGE).await?;
            if page.is_empty() {
                return Ok(History(all));
            }
            for listed in page {
                let header = listed.open(place)?;
                all.push((listed, header));
            }
        }
    }

    /// The place of the graph around, if that is stored.
    fn around(&self, place: &Place) -> Option<Place> {
        let (_, newest) = self.0.first()?;
        let (namespace, _) = newest.parents.last()?;
        Some(Place {
            thread: place.thread.clone(),
            namespace: namespace.as_str().into(),
        })
    }
}

/// What is to be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The checkpoints that go, by place; newest first.
    pub removes: Vec<(Place, Vec<CheckpointId>)>,
}

impl Plan {
    /// How many checkpoints go.
    pub fn checkpoints(&self) -> usize {
        self.removes.iter().map(|(_, ids)| ids.len()).sum()
    }

    /// Removes them, a place at a time, nested graphs first.
    pub async fn carry_out(self, saver: &dyn Checkpointer) -> Result<(), SaveError> {
        for (place, ids) in self.removes.into_iter().rev() {
            saver.remove(&place, ids).await?;
        }
        Ok(())
    }
}
