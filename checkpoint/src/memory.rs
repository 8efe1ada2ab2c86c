//! Checkpoints in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use crate::lineage::Broken;
use crate::saver::{birth, birth_in, check_commits, check_tasks};
use crate::{
    CheckpointId, Checkpointer, Commit, Head, Listed, Loaded, Place, SaveError, Seen, Size,
    StoredPlace, StoredTask, StoredThread, Stretch,
};

/// Keeps checkpoints in memory: for tests, and for runs that need not survive the process.
///
/// A clone shares what the original holds.
///
/// ```
/// use superstep_checkpoint::{Checkpointer, MemoryCheckpointer, Place};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryCheckpointer::new();
/// assert!(store.load(&Place::root("t"), None).await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryCheckpointer {
    threads: Arc<DashMap<Arc<str>, Thread>>,
    /// How many checkpoints a place keeps, if it is bounded.
    bound: Option<usize>,
}

impl MemoryCheckpointer {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store that keeps the last `checkpoints` of each place, at least one; of older ones, what those need. Up to twice as many
    /// may be there before the old ones go.
    pub fn bounded(checkpoints: usize) -> Self {
        MemoryCheckpointer {
            bound: Some(checkpoints.max(1)),
            ..Self::default()
        }
    }

    fn read<T: Default>(&self, place: &Place, read: impl FnOnce(&History) -> T) -> T {
        self.threads
            .get(&*place.thread)
            .and_then(|thread| thread.get(&*place.namespace).map(read))
            .unwrap_or_default()
    }

    /// Changes a place, which is made if it is not there, and then has this number.
    fn change<T>(
        &self,
        place: &Place,
        born: impl FnOnce() -> u64,
        change: impl FnOnce(&mut StoredPlace, u64) -> T,
    ) -> T {
        let mut thread = self.threads.entry(Arc::clone(&place.thread)).or_default();
        let history = thread.entry(Arc::clone(&place.namespace));
        let history = history.or_insert_with(|| History {
            born: born(),
            place: StoredPlace::default(),
        });
        change(&mut history.place, history.born)
    }

    fn insert(&self, thread: &str, places: Thread) -> Result<(), SaveError> {
        match self.threads.entry(thread.into()) {
            Entry::Occupied(_) => Err(SaveError::Exists {
                thread: thread.to_owned(),
            }),
            Entry::Vacant(free) => {
                free.insert(places);
                Ok(())
            }
        }
    }

    fn keep_within_bounds(&self, place: &mut StoredPlace) {
        let Some(bound) = self.bound else {
            return;
        };
        if place.checkpoints.len() > 2 * bound {
            let old = place.checkpoints.keys().rev().skip(bound);
            place.remove(&old.copied().collect());
        }
    }
}

impl fmt::Debug for MemoryCheckpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryCheckpointer({} threads)", self.threads.len())
    }
}

fn damaged(place: &Place) -> impl Fn(Broken) -> SaveError {
    move |broken| SaveError::Damaged {
        what: place.to_string(),
        reason: broken.to_string(),
    }
}

/// The places of one thread, by namespace.
type Thread = BTreeMap<Arc<str>, History>;

/// One place.
#[derive(Debug)]
struct History {
    /// See [`Loaded::born`].
    born: u64,
    place: StoredPlace,
}

#[async_trait]
impl Checkpointer for MemoryCheckpointer {
    async fn load(
        &self,
        place: &Place,
        at: Option<CheckpointId>,
    ) -> Result<Option<Loaded>, SaveError> {
        let loaded = self.read(place, |History { born, place }| {
            let born = *born;
            let loaded = place.load(at).transpose();
            loaded.map(|loaded| loaded.map(|loaded| Loaded { born, ..loaded }))
        });
        loaded.transpose().map_err(damaged(place))
    }

    async fn head(&self, place: &Place) -> Result<Option<Head>, SaveError> {
        Ok(self.read(place, |History { born, place }| {
            Some(Head {
                seen: Seen {
                    born: Some(*born),
                    ..place.seen
                },
                born: *born,
            })
        }))
    }

    async fn list(
        &self,
        place: &Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<Listed>, SaveError> {
        Ok(self.read(place, |history| history.place.list(before, limit)))
    }

    async fn way(&self, place: &Place, from: CheckpointId) -> Result<Vec<Stretch>, SaveError> {
        let way = self.read(place, |History { place, .. }| {
            place.stretch(from).map(|from| place.way(from))
        });
        Ok(way.transpose().map_err(damaged(place))?.unwrap_or_default())
    }

    async fn tasks(&self, place: &Place, base: CheckpointId) -> Result<Vec<StoredTask>, SaveError> {
        Ok(self.read(place, |history| history.place.tasks(base)))
    }

    async fn logs(
        &self,
        place: &Place,
        id: CheckpointId,
    ) -> Result<Vec<(String, Vec<u8>)>, SaveError> {
        Ok(self.read(place, |history| history.place.logs(id)))
    }

    async fn commit(&self, place: &Place, commits: Vec<Commit>) -> Result<(), SaveError> {
        let born = birth_in(&commits);
        self.change(
            place,
            || born,
            |stored, born| {
                let has = |id| Ok::<_, SaveError>(stored.checkpoints.contains_key(&id));
                let there = Seen {
                    born: Some(born),
                    ..stored.seen
                };
                check_commits(place, there, &commits, has)?;
                commits.into_iter().for_each(|commit| stored.add(commit));
                self.keep_within_bounds(stored);
                Ok(())
            },
        )
    }

    async fn save_tasks(
        &self,
        place: &Place,
        seen: Seen,
        base: CheckpointId,
        tasks: Vec<StoredTask>,
    ) -> Result<(), SaveError> {
        let born = seen.born.unwrap_or_else(birth);
        self.change(
            place,
            || born,
            |stored, born| {
                let has = |id| Ok::<_, SaveError>(stored.checkpoints.contains_key(&id));
                let there = Seen {
                    born: Some(born),
                    ..stored.seen
                };
                check_tasks(place, there, seen, base, has)?;
                stored.seen.saves += 1;
                stored.put_tasks(base, None, tasks);
                Ok(())
            },
        )
    }

    async fn copy_thread(&self, thread: &str, to: &str) -> Result<(), SaveError> {
        let stored = self.export(thread).await?.ok_or(SaveError::NoThread {
            thread: thread.to_owned(),
        })?;
        self.import(to, stored).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaveError> {
        self.threads.remove(thread);
        Ok(())
    }

    async fn remove(&self, place: &Place, ids: Vec<CheckpointId>) -> Result<(), SaveError> {
        if let Some(mut thread) = self.threads.get_mut(&*place.thread)
            && let Some(history) = thread.get_mut(&*place.namespace)
        {
            history
                .place
                .remove(&ids.into_iter().filter(|id| id.0 > 0).collect());
        }
        Ok(())
    }

    async fn places(&self, after: Option<&Place>, limit: usize) -> Result<Vec<Place>, SaveError> {
        let mut places = Vec::new();
        for thread in self.threads.iter() {
            places.extend(thread.value().keys().map(|namespace| Place {
                thread: Arc::clone(thread.key()),
                namespace: Arc::clone(namespace),
            }));
        }
        places.retain(|place| after.is_none_or(|after| place > after));
        places.sort();
        places.truncate(limit);
        Ok(places)
    }

    async fn export(&self, thread: &str) -> Result<Option<StoredThread>, SaveError> {
        Ok(self.threads.get(thread).map(|thread| {
            let places = thread.iter();
            let places = places.map(|(name, history)| {
                let mut place = history.place.clone();
                place.origin.get_or_insert_with(|| thread.key().to_string());
                (name.to_string(), place)
            });
            StoredThread {
                places: places.collect(),
            }
        }))
    }

    async fn import(&self, thread: &str, stored: StoredThread) -> Result<(), SaveError> {
        let places = stored.places.into_iter();
        let places = places.map(|(name, mut place)| {
            place.origin.take_if(|origin| origin == thread);
            let born = birth();
            (name.into(), History { born, place })
        });
        self.insert(thread, places.collect())
    }

    async fn size(&self, thread: &str) -> Result<Size, SaveError> {
        let mut size = Size::default();
        if let Some(thread) = self.threads.get(thread) {
            for (namespace, history) in thread.iter() {
                size.shares.extend(history.place.shares(namespace));
            }
        }
        Ok(size)
    }
}
