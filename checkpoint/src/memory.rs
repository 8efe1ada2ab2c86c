//! Checkpoints that live as long as the process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use crate::lineage::{self, Broken, Found, Gathered, Link, Stretch};
use crate::saver::{check_commits, check_tasks};
use crate::{
    Channel, CheckpointId, Checkpointer, Commit, Head, Item, Listed, Loaded, Place, SaveError,
    Seen, Size, StoredTask, TaskId,
};

/// Keeps checkpoints in memory: for tests, and for runs that need not survive the process.
///
/// A clone shares the store. Threads do not block each other.
///
/// ```
/// use superstep_checkpoint::{Checkpointer, MemoryCheckpointer, Place};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), superstep_checkpoint::SaveError> {
/// let store = MemoryCheckpointer::new();
/// assert_eq!(store.load(&Place::root("report-7"), None).await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryCheckpointer {
    threads: Arc<DashMap<Arc<str>, Thread>>,
    /// How many places were made.
    births: Arc<AtomicU64>,
}

impl MemoryCheckpointer {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// What `read` finds in a place; nothing if the place is unknown.
    fn read<T: Default>(&self, place: &Place, read: impl FnOnce(&History) -> T) -> T {
        self.threads
            .get(&place.thread)
            .and_then(|thread| thread.get(&place.namespace).map(read))
            .unwrap_or_default()
    }

    fn change<T>(&self, place: &Place, change: impl FnOnce(&mut History) -> T) -> T {
        let mut thread = self.threads.entry(Arc::clone(&place.thread)).or_default();
        let history = thread.entry(Arc::clone(&place.namespace));
        change(history.or_insert_with(|| History {
            born: self.birth(),
            ..History::default()
        }))
    }

    fn birth(&self) -> u64 {
        self.births.fetch_add(1, Ordering::Relaxed)
    }
}

impl fmt::Debug for MemoryCheckpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryCheckpointer({} threads)", self.threads.len())
    }
}

#[async_trait]
impl Checkpointer for MemoryCheckpointer {
    async fn load(
        &self,
        place: &Place,
        at: Option<CheckpointId>,
    ) -> Result<Option<Loaded>, SaveError> {
        self.read(place, |history| history.load(at).transpose())
            .transpose()
            .map_err(|broken| SaveError::Damaged {
                what: place.to_string(),
                reason: broken.to_string(),
            })
    }

    async fn head(&self, place: &Place) -> Result<Option<Head>, SaveError> {
        Ok(self.read(place, |history| {
            let head = Head {
                seen: history.seen(),
                born: history.born,
            };
            (head.seen.newest.0 > 0).then_some(head)
        }))
    }

    async fn list(
        &self,
        place: &Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<Listed>, SaveError> {
        Ok(self.read(place, |history| history.list(before, limit)))
    }

    async fn tasks(&self, place: &Place, base: CheckpointId) -> Result<Vec<StoredTask>, SaveError> {
        Ok(self.read(place, |history| history.tasks(base)))
    }

    async fn logs(
        &self,
        place: &Place,
        id: CheckpointId,
    ) -> Result<Vec<(String, Vec<u8>)>, SaveError> {
        Ok(self.read(place, |history| history.logs(id)))
    }

    async fn commit(&self, place: &Place, commits: Vec<Commit>) -> Result<(), SaveError> {
        self.change(place, |history| {
            check_commits(place, history.newest(), &commits)?;
            commits.into_iter().for_each(|commit| history.add(commit));
            Ok(())
        })
    }

    async fn save_tasks(
        &self,
        place: &Place,
        seen: Seen,
        base: CheckpointId,
        tasks: Vec<StoredTask>,
    ) -> Result<(), SaveError> {
        self.change(place, |history| {
            check_tasks(place, history.seen(), seen, base)?;
            history.saves += 1;
            history.put_tasks(base, None, tasks);
            Ok(())
        })
    }

    async fn copy_thread(&self, thread: &str, to: &str) -> Result<(), SaveError> {
        let origin = Arc::<str>::from(thread);
        let copied = self.threads.get(thread).map(|thread| thread.clone());
        let mut copied = copied.ok_or_else(|| SaveError::NoThread {
            thread: thread.to_owned(),
        })?;
        for history in copied.values_mut() {
            history.born = self.birth();
            history.origin.get_or_insert_with(|| Arc::clone(&origin));
        }
        match self.threads.entry(to.into()) {
            Entry::Occupied(_) => Err(SaveError::Exists {
                thread: to.to_owned(),
            }),
            Entry::Vacant(free) => {
                free.insert(copied);
                Ok(())
            }
        }
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaveError> {
        self.threads.remove(thread);
        Ok(())
    }

    async fn size(&self, thread: &str) -> Result<Size, SaveError> {
        let mut size = Size::default();
        if let Some(thread) = self.threads.get(thread) {
            thread
                .values()
                .for_each(|history| history.measure(&mut size));
        }
        Ok(size)
    }
}

/// The places of one thread, by namespace.
type Thread = BTreeMap<Arc<str>, History>;

/// One place.
#[derive(Clone, Default)]
struct History {
    /// See [`Loaded::born`].
    born: u64,
    /// The thread that it was copied from.
    origin: Option<Arc<str>>,
    /// In order; the first has id 1.
    checkpoints: Vec<Checkpoint>,
    /// By channel, then by branch and checkpoint: what a load looks for lies side by side.
    items: BTreeMap<String, BTreeMap<(CheckpointId, CheckpointId), Item>>,
    /// By base, then by child and task.
    tasks: BTreeMap<CheckpointId, BTreeMap<(Option<CheckpointId>, TaskId), StoredTask>>,
    /// How often tasks were saved since the newest checkpoint.
    saves: u64,
}

#[derive(Clone)]
struct Checkpoint {
    link: Link,
    header: Vec<u8>,
}

impl Checkpoint {
    fn listed(&self, id: CheckpointId) -> Listed {
        Listed {
            id,
            parent: self.link.parent,
            header: self.header.clone(),
        }
    }
}

impl History {
    fn seen(&self) -> Seen {
        Seen {
            newest: self.newest(),
            saves: self.saves,
        }
    }

    fn newest(&self) -> CheckpointId {
        CheckpointId(self.checkpoints.len() as u64)
    }

    fn checkpoint(&self, id: CheckpointId) -> Option<&Checkpoint> {
        let index = usize::try_from(id.0.checked_sub(1)?).ok()?;
        self.checkpoints.get(index)
    }

    fn load(&self, at: Option<CheckpointId>) -> Result<Option<Loaded>, Broken> {
        let id = at.unwrap_or(self.newest());
        let Some(checkpoint) = self.checkpoint(id) else {
            return Ok(None);
        };
        let link = |id| {
            self.checkpoint(id)
                .map(|found| found.link)
                .ok_or(Broken(id))
        };
        let way = lineage::way(id, link)?;
        let channels = self
            .items
            .iter()
            .filter_map(|(name, items)| Some((name.clone(), channel(items, &way)?)))
            .collect();
        let mut pending = self.tasks(id);
        pending.retain(|task| task.child.is_none());
        Ok(Some(Loaded {
            id,
            parent: checkpoint.link.parent,
            newest: self.newest(),
            saves: self.saves,
            born: self.born,
            origin: self.origin.as_deref().map(str::to_owned),
            header: checkpoint.header.clone(),
            channels,
            pending,
        }))
    }

    fn list(&self, before: Option<CheckpointId>, limit: usize) -> Vec<Listed> {
        let end = self.newest().next();
        let end = before.map_or(end, |before| before.min(end));
        (1..end.0)
            .rev()
            .take(limit)
            .map(CheckpointId)
            .filter_map(|id| Some(self.checkpoint(id)?.listed(id)))
            .collect()
    }

    fn tasks(&self, base: CheckpointId) -> Vec<StoredTask> {
        let tasks = self.tasks.get(&base).into_iter().flat_map(BTreeMap::values);
        let mut tasks: Vec<StoredTask> = tasks.cloned().collect();
        tasks.sort_by_key(|task| (task.child, task.position, task.id));
        tasks
    }

    fn logs(&self, id: CheckpointId) -> Vec<(String, Vec<u8>)> {
        let Some(checkpoint) = self.checkpoint(id) else {
            return Vec::new();
        };
        let key = (checkpoint.link.branch, id);
        let log = |item: &Item| match item {
            Item::Log(log) | Item::Snapshot { log, .. } => Some(log.clone()),
            Item::Value(_) | Item::Empty => None,
        };
        let items = self.items.iter();
        items
            .filter_map(|(name, items)| Some((name.clone(), log(items.get(&key)?)?)))
            .collect()
    }

    fn add(&mut self, commit: Commit) {
        let newest = self.newest();
        let last = self.checkpoints.last().map(|last| (newest, last.link));
        let link = Link::of(commit.id, commit.parent, last);
        for (name, item) in commit.items {
            let items = self.items.entry(name).or_default();
            items.insert((link.branch, commit.id), item);
        }
        let base = commit.parent.unwrap_or(CheckpointId(0));
        self.put_tasks(base, Some(commit.id), commit.tasks);
        self.saves = 0;
        self.checkpoints.push(Checkpoint {
            link,
            header: commit.header,
        });
    }

    fn put_tasks(
        &mut self,
        base: CheckpointId,
        child: Option<CheckpointId>,
        tasks: Vec<StoredTask>,
    ) {
        let stored = self.tasks.entry(base).or_default();
        for task in tasks {
            stored.remove(&(None, task.id));
            stored.insert((child, task.id), StoredTask { child, ..task });
        }
    }

    fn measure(&self, size: &mut Size) {
        size.namespaces += u64::from(!self.checkpoints.is_empty());
        size.checkpoints += self.newest().0;
        size.header_bytes += total(self.checkpoints.iter().map(|c| c.header.len()));
        size.item_bytes += total(
            self.items
                .values()
                .flat_map(BTreeMap::values)
                .map(item_bytes),
        );
        size.task_bytes += total(
            self.tasks
                .values()
                .flat_map(BTreeMap::values)
                .map(|t| t.record.len()),
        );
    }
}

fn channel(
    items: &BTreeMap<(CheckpointId, CheckpointId), Item>,
    way: &[Stretch],
) -> Option<Channel> {
    let mut gathered = Gathered::default();
    let newest_first = way.iter().flat_map(|stretch| {
        let first = (stretch.branch, CheckpointId(0));
        items.range(first..=(stretch.branch, stretch.upto)).rev()
    });
    for ((_, at), item) in newest_first {
        if gathered.older(*at, found(item)) {
            break;
        }
    }
    gathered.finish()
}

fn found(item: &Item) -> Found {
    match item {
        Item::Value(value) | Item::Snapshot { value, .. } => Found::Value(value.clone()),
        Item::Empty => Found::Empty,
        Item::Log(log) => Found::Log(log.clone()),
    }
}

fn item_bytes(item: &Item) -> usize {
    match item {
        Item::Value(bytes) | Item::Log(bytes) => bytes.len(),
        Item::Empty => 0,
        Item::Snapshot { log, value } => log.len() + value.len(),
    }
}

fn total(lengths: impl Iterator<Item = usize>) -> u64 {
    lengths.map(|length| length as u64).sum()
}
