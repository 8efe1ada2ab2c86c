//! All that is stored of a place, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::lineage::{self, Broken, Fate, Fork, Found, Gathered, Left, Link, Shape, Stretch};
use crate::{
    Channel, CheckpointId, Commit, Item, Kind, Listed, Loaded, Seen, Share, StoredTask, TaskId,
};

/// All that is stored of a thread: what moves from one store to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredThread {
    /// By namespace.
    pub places: BTreeMap<String, StoredPlace>,
}

/// All that is stored of one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPlace {
    /// The thread that it was written under, whose name is in the ids of its tasks.
    pub origin: Option<String>,
    /// How far it is.
    pub seen: Seen,
    /// Where each branch was forked from: a checkpoint, and the branch that it is on.
    pub branches: BTreeMap<CheckpointId, Option<(CheckpointId, CheckpointId)>>,
    /// The checkpoints.
    pub checkpoints: BTreeMap<CheckpointId, StoredCheckpoint>,
    /// What they say about channels: by channel, then by branch and checkpoint.
    pub items: BTreeMap<String, BTreeMap<(CheckpointId, CheckpointId), Item>>,
    /// The tasks, by the checkpoint they ran on (0: none), then by the checkpoint they made and by id.
    pub tasks: BTreeMap<CheckpointId, BTreeMap<(Option<CheckpointId>, TaskId), StoredTask>>,
}

/// What is stored of one checkpoint itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCheckpoint {
    /// The one it continues, which may be gone.
    pub parent: Option<CheckpointId>,
    /// The branch that it is on.
    pub branch: CheckpointId,
    /// When it was made, in milliseconds of Unix time.
    pub time: u64,
    /// Its framed header.
    pub header: Vec<u8>,
}

type Items = BTreeMap<(CheckpointId, CheckpointId), Item>;

impl StoredPlace {
    /// The newest checkpoint that is still there.
    pub(crate) fn last(&self) -> Option<CheckpointId> {
        self.checkpoints.keys().next_back().copied()
    }

    /// A checkpoint as a part of its branch.
    pub(crate) fn stretch(&self, id: CheckpointId) -> Option<Stretch> {
        let branch = self.checkpoints.get(&id)?.branch;
        Some(Stretch { branch, upto: id })
    }

    fn fork(&self, branch: CheckpointId) -> Result<Fork, Broken> {
        let fork = self.branches.get(&branch).ok_or(Broken(branch))?;
        Ok(fork.map(|(upto, branch)| Stretch { branch, upto }))
    }

    pub(crate) fn way(&self, from: Stretch) -> Result<Vec<Stretch>, Broken> {
        lineage::way(from, |branch| self.fork(branch))
    }

    /// See [`Checkpointer::load`](crate::Checkpointer::load). A stored place has no birth: the number is 0.
    pub(crate) fn load(&self, at: Option<CheckpointId>) -> Result<Option<Loaded>, Broken> {
        let Some(id) = at.or(self.last()) else {
            return Ok(None);
        };
        let (Some(checkpoint), Some(from)) = (self.checkpoints.get(&id), self.stretch(id)) else {
            return Ok(None);
        };
        let way = self.way(from)?;
        let items = self.items.iter();
        let mut pending = self.tasks(id);
        pending.retain(|task| task.child.is_none());
        Ok(Some(Loaded {
            id,
            parent: checkpoint.parent,
            time: checkpoint.time,
            newest: self.seen.newest,
            saves: self.seen.saves,
            born: 0,
            origin: self.origin.clone(),
            header: checkpoint.header.clone(),
            channels: items
                .filter_map(|(name, items)| Some((name.clone(), channel(items, &way)?)))
                .collect(),
            pending,
        }))
    }

    pub(crate) fn list(&self, before: Option<CheckpointId>, limit: usize) -> Vec<Listed> {
        let before = before.unwrap_or(CheckpointId(u64::MAX));
        let older = self.checkpoints.range(..before).rev().take(limit);
        let listed = older.map(|(id, checkpoint)| Listed {
            id: *id,
            parent: checkpoint.parent,
            time: checkpoint.time,
            branch: checkpoint.branch,
            fork: self
                .branches
                .get(&checkpoint.branch)
                .copied()
                .flatten()
                .map(|(fork, _)| fork),
            header: checkpoint.header.clone(),
        });
        listed.collect()
    }

    pub(crate) fn tasks(&self, base: CheckpointId) -> Vec<StoredTask> {
        let tasks = self.tasks.get(&base).into_iter().flat_map(BTreeMap::values);
        let mut tasks: Vec<StoredTask> = tasks.cloned().collect();
        tasks.sort_by_key(|task| (task.child, task.position, task.id));
        tasks
    }

    pub(crate) fn logs(&self, id: CheckpointId) -> Vec<(String, Vec<u8>)> {
        let Some(at) = self.stretch(id) else {
            return Vec::new();
        };
        let log = |item: &Item| match item {
            Item::Log(log) | Item::Snapshot { log, .. } => Some(log.clone()),
            Item::Value(_) | Item::Empty => None,
        };
        let items = self.items.iter();
        items
            .filter_map(|(name, items)| Some((name.clone(), log(items.get(&(at.branch, id))?)?)))
            .collect()
    }

    /// Adds a checkpoint that may be added.
    pub(crate) fn add(&mut self, commit: Commit) {
        let (id, parent) = (commit.id, commit.parent);
        let newest = self.stretch(self.seen.newest);
        let link = Link::of(id, parent, newest);
        if link.branch == id {
            let fork = parent.and_then(|parent| self.stretch(parent));
            self.branches
                .insert(id, fork.map(|fork| (fork.upto, fork.branch)));
        }
        for (name, item) in commit.items {
            let items = self.items.entry(name).or_default();
            items.insert((link.branch, id), item);
        }
        self.put_tasks(parent.unwrap_or_default(), Some(id), commit.tasks);
        self.seen = Seen {
            newest: id,
            ..Seen::default()
        };
        let checkpoint = StoredCheckpoint {
            parent,
            branch: link.branch,
            time: commit.time,
            header: commit.header,
        };
        self.checkpoints.insert(id, checkpoint);
    }

    pub(crate) fn put_tasks(
        &mut self,
        base: CheckpointId,
        child: Option<CheckpointId>,
        tasks: Vec<StoredTask>,
    ) {
        if tasks.is_empty() {
            return;
        }
        let stored = self.tasks.entry(base).or_default();
        for task in tasks {
            stored.remove(&(None, task.id));
            stored.insert((child, task.id), StoredTask { child, ..task });
        }
    }

    pub(crate) fn remove(&mut self, ids: &BTreeSet<CheckpointId>) {
        let last = self.last().filter(|last| *last == self.seen.newest);
        if last.is_some_and(|last| ids.contains(&last)) {
            // Who stands on it is to notice.
            self.seen.saves += 1;
        }
        self.checkpoints.retain(|id, _| !ids.contains(id));
        for (base, tasks) in &mut self.tasks {
            tasks.retain(|(child, _), _| !ids.contains(&child.unwrap_or(*base)));
        }
        self.tasks.retain(|_, tasks| !tasks.is_empty());
        let left = self.left();
        self.branches
            .retain(|branch, _| left.branches().contains(branch));
        for items in self.items.values_mut() {
            let shapes: Vec<_> = items
                .iter()
                .map(|(at, item)| (stretch(*at), shape(item)))
                .collect();
            for ((at, _), fate) in shapes.iter().zip(left.fates(&shapes)) {
                let at = (at.branch, at.upto);
                match fate {
                    Fate::Keep => {}
                    Fate::Drop => drop(items.remove(&at)),
                    Fate::Trim => {
                        if let Some(item) = items.get_mut(&at) {
                            trim(item);
                        }
                    }
                }
            }
        }
        self.items.retain(|_, items| !items.is_empty());
    }

    pub(crate) fn left(&self) -> Left {
        let forks = self.branches.iter().map(|(branch, fork)| {
            let fork = fork.map(|(upto, branch)| Stretch { branch, upto });
            (*branch, fork)
        });
        let checkpoints = self.checkpoints.iter().map(|(id, checkpoint)| Stretch {
            branch: checkpoint.branch,
            upto: *id,
        });
        Left {
            checkpoints: checkpoints.collect(),
            forks: forks.collect(),
        }
    }

    /// What is stored, by kind and channel.
    pub(crate) fn shares(&self, namespace: &str) -> Vec<Share> {
        let share = |kind, channel: &str, lengths: Vec<usize>| Share {
            namespace: namespace.to_owned(),
            kind,
            channel: channel.to_owned(),
            count: lengths.len() as u64,
            bytes: lengths.iter().map(|length| *length as u64).sum(),
        };
        let headers = self.checkpoints.values().map(|c| c.header.len()).collect();
        let mut shares = vec![share(Kind::Header, "", headers)];
        for (name, items) in &self.items {
            let values = items.values().filter_map(|item| match item {
                Item::Value(value) | Item::Snapshot { value, .. } => Some(value.len()),
                Item::Empty | Item::Log(_) => None,
            });
            shares.push(share(Kind::Value, name, values.collect()));
            let logs = items.values().filter_map(|item| match item {
                Item::Log(log) | Item::Snapshot { log, .. } => Some(log.len()),
                Item::Empty | Item::Value(_) => None,
            });
            shares.push(share(Kind::Log, name, logs.collect()));
        }
        let records = self.tasks.values().flat_map(BTreeMap::values);
        shares.push(share(
            Kind::Task,
            "",
            records.map(|task| task.record.len()).collect(),
        ));
        shares.retain(|share| share.count > 0);
        shares.sort();
        shares
    }
}

pub(crate) fn stretch((branch, upto): (CheckpointId, CheckpointId)) -> Stretch {
    Stretch { branch, upto }
}

pub(crate) fn shape(item: &Item) -> Shape {
    match item {
        Item::Value(_) | Item::Empty => Shape::Whole,
        Item::Snapshot { .. } => Shape::Snapshot,
        Item::Log(_) => Shape::Log,
    }
}

fn trim(item: &mut Item) {
    if let Item::Snapshot { value, .. } = item {
        *item = Item::Value(std::mem::take(value));
    }
}

fn channel(items: &Items, way: &[Stretch]) -> Option<Channel> {
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
