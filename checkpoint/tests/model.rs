//! A random history, compared with a naive model that keeps a full map of channels per checkpoint.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use superstep_checkpoint::{
    Channel, CheckpointId, Checkpointer, Commit, Item, Kind, Listed, Loaded, MemoryCheckpointer,
    Place, Seen, Share, StoredTask, TaskId,
};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Commit {
        place: usize,
        commits: Vec<Plan>,
        stale: bool,
    },
    SaveTasks {
        place: usize,
        base: Index,
        tasks: Vec<StoredTask>,
        stale: bool,
    },
    Remove {
        place: usize,
        ids: Vec<Index>,
    },
    Delete {
        place: usize,
    },
}

/// A commit before it has a number: the items name their channel by index.
pub(crate) type Plan = (Parent, Vec<(usize, Item)>, Vec<StoredTask>);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Parent {
    Newest,
    Any(Index),
    None,
}

/// Two namespaces of one thread, and another thread.
fn places() -> [Place; 3] {
    let nested = Place {
        namespace: "node:1".into(),
        ..Place::root("one")
    };
    [Place::root("one"), nested, Place::root("two")]
}

const CHANNELS: [&str; 3] = ["a", "b", "c"];

fn any_item() -> impl Strategy<Value = Item> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..3);
    prop_oneof![
        2 => bytes().prop_map(Item::Value),
        1 => Just(Item::Empty),
        4 => bytes().prop_map(Item::Log),
        1 => (bytes(), bytes()).prop_map(|(log, value)| Item::Snapshot { log, value }),
    ]
}

fn any_tasks() -> impl Strategy<Value = Vec<StoredTask>> {
    let task = (0..4u8, 0..4u32, any::<u8>()).prop_map(|(id, position, record)| StoredTask {
        id: TaskId([id; 16]),
        position,
        child: None,
        record: vec![record],
    });
    prop::collection::vec(task, 0..4)
}

fn any_parent() -> impl Strategy<Value = Parent> {
    prop_oneof![
        6 => Just(Parent::Newest),
        3 => any::<Index>().prop_map(Parent::Any),
        1 => Just(Parent::None),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    let items = prop::collection::vec((0..CHANNELS.len(), any_item()), 0..3);
    let commits = prop::collection::vec((any_parent(), items, any_tasks()), 1..3);
    let stale = || prop::bool::weighted(0.1);
    prop_oneof![
        12 => (0..3usize, commits, stale())
            .prop_map(|(place, commits, stale)| Op::Commit { place, commits, stale }),
        4 => (0..3usize, any::<Index>(), any_tasks(), stale())
            .prop_map(|(place, base, tasks, stale)| Op::SaveTasks { place, base, tasks, stale }),
        2 => (0..3usize, prop::collection::vec(any::<Index>(), 1..6))
            .prop_map(|(place, ids)| Op::Remove { place, ids }),
        1 => (0..3usize).prop_map(|place| Op::Delete { place }),
    ]
}

/// One place, as plainly as it can be kept.
#[derive(Default)]
pub(crate) struct Model {
    newest: u64,
    saves: u64,
    checkpoints: BTreeMap<CheckpointId, Stored>,
    tasks: Vec<(CheckpointId, StoredTask)>,
}

#[derive(Clone)]
struct Stored {
    commit: Commit,
    channels: BTreeMap<String, Channel>,
    branch: CheckpointId,
    fork: Option<CheckpointId>,
}

impl Model {
    /// Gives a plan its number and its parent.
    fn commit(
        &self,
        nth: u64,
        parent: Parent,
        items: &[(usize, Item)],
        tasks: &[StoredTask],
    ) -> Commit {
        let newest = self.newest + nth;
        let there =
            |id: &u64| *id > self.newest || self.checkpoints.contains_key(&CheckpointId(*id));
        let parent = match parent {
            Parent::Newest => Some(newest),
            Parent::Any(index) if newest > 0 => Some(index.index(newest as usize) as u64 + 1),
            _ => None,
        };
        let parent = parent.filter(|id| *id > 0).filter(there);
        Commit {
            id: CheckpointId(newest + 1),
            born: None,
            parent: parent.map(CheckpointId),
            time: newest,
            header: format!("header {}", newest + 1).into(),
            items: items
                .iter()
                .map(|(at, item)| (CHANNELS[*at].into(), item.clone()))
                .collect(),
            tasks: tasks.to_vec(),
        }
    }

    fn add(&mut self, commit: Commit) {
        let parent = commit
            .parent
            .map(|parent| self.checkpoints[&parent].clone());
        let (branch, fork) = match &parent {
            Some(parent) if parent.commit.id.0 == self.newest => (parent.branch, parent.fork),
            _ => (commit.id, commit.parent),
        };
        let mut channels = parent.map(|parent| parent.channels).unwrap_or_default();
        self.newest = commit.id.0;
        self.saves = 0;
        // Of a channel named twice the last counts.
        for (name, item) in commit.items.iter().cloned().collect::<BTreeMap<_, _>>() {
            let channel = channels.entry(name).or_default();
            match item {
                Item::Log(log) => channel.logs.push((commit.id, log)),
                Item::Empty => *channel = Channel::default(),
                Item::Value(value) | Item::Snapshot { value, .. } => {
                    *channel = Channel {
                        value: Some((commit.id, value)),
                        logs: vec![],
                    };
                }
            }
        }
        let base = commit.parent.unwrap_or(CheckpointId(0));
        self.put_tasks(base, Some(commit.id), &commit.tasks);
        let stored = Stored {
            commit,
            channels,
            branch,
            fork,
        };
        self.checkpoints.insert(stored.commit.id, stored);
    }

    fn remove(&mut self, ids: &[CheckpointId]) {
        let ids: Vec<_> = ids.iter().filter(|id| id.0 > 0).collect();
        let gone = |id: &CheckpointId| ids.contains(&id);
        let newest = CheckpointId(self.newest);
        let there = self.checkpoints.contains_key(&newest);
        self.saves += u64::from(there && gone(&newest));
        self.checkpoints.retain(|id, _| !gone(id));
        self.tasks
            .retain(|(base, task)| !gone(&task.child.unwrap_or(*base)));
    }

    fn put_tasks(&mut self, base: CheckpointId, child: Option<CheckpointId>, tasks: &[StoredTask]) {
        for task in tasks {
            let replaced =
                |old: &StoredTask| old.id == task.id && (old.child.is_none() || old.child == child);
            self.tasks
                .retain(|(at, old)| !(*at == base && replaced(old)));
            self.tasks.push((
                base,
                StoredTask {
                    child,
                    ..task.clone()
                },
            ));
        }
    }

    fn tasks(&self, base: CheckpointId) -> Vec<StoredTask> {
        let at_base = self.tasks.iter().filter(|(at, _)| *at == base);
        let mut tasks: Vec<_> = at_base.map(|(_, task)| task.clone()).collect();
        tasks.sort_by_key(|task| (task.child, task.position, task.id));
        tasks
    }

    fn load(&self, id: CheckpointId) -> Option<Loaded> {
        let stored = self.checkpoints.get(&id)?;
        Some(Loaded {
            id,
            parent: stored.commit.parent,
            time: stored.commit.time,
            newest: CheckpointId(self.newest),
            saves: self.saves,
            born: 0,
            origin: None,
            header: stored.commit.header.clone(),
            channels: stored.channels.clone(),
            pending: self
                .tasks(id)
                .into_iter()
                .filter(|task| task.child.is_none())
                .collect(),
        })
    }

    fn list(&self) -> Vec<Listed> {
        let newest_first = self.checkpoints.values().rev();
        newest_first
            .map(|stored| Listed {
                id: stored.commit.id,
                parent: stored.commit.parent,
                time: stored.commit.time,
                branch: stored.branch,
                fork: stored.fork,
                header: stored.commit.header.clone(),
            })
            .collect()
    }

    /// What has to be there: what a checkpoint itself wrote, and what any of them sees.
    fn shares(&self, namespace: &str) -> Vec<Share> {
        let (mut values, mut logs) = (BTreeMap::new(), BTreeMap::new());
        for (id, stored) in &self.checkpoints {
            for (name, channel) in &stored.channels {
                let value = channel.value.iter();
                values.extend(value.map(|(id, bytes)| ((name.clone(), *id), bytes.len())));
                let log = channel.logs.iter();
                logs.extend(log.map(|(id, bytes)| ((name.clone(), *id), bytes.len())));
            }
            let items: BTreeMap<_, _> = stored.commit.items.iter().cloned().collect();
            for (name, item) in items {
                if let Item::Snapshot { log, .. } = item {
                    logs.insert((name, *id), log.len());
                }
            }
        }
        let headers = self
            .checkpoints
            .values()
            .map(|stored| stored.commit.header.len());
        let headers = headers.map(|length| (Kind::Header, String::new(), length));
        let tasks = self.tasks.iter().map(|(_, task)| task.record.len());
        let tasks = tasks.map(|length| (Kind::Task, String::new(), length));
        let values = values
            .into_iter()
            .map(|((name, _), length)| (Kind::Value, name, length));
        let logs = logs
            .into_iter()
            .map(|((name, _), length)| (Kind::Log, name, length));
        let mut sums: BTreeMap<(Kind, String), (u64, u64)> = BTreeMap::new();
        for (kind, name, length) in headers.chain(values).chain(logs).chain(tasks) {
            let sum = sums.entry((kind, name)).or_default();
            *sum = (sum.0 + 1, sum.1 + length as u64);
        }
        let share = |((kind, channel), (count, bytes))| Share {
            namespace: namespace.to_owned(),
            kind,
            channel,
            count,
            bytes,
        };
        sums.into_iter().map(share).collect()
    }
}

/// Does the same to the store and to the model; they must agree whether it works.
async fn apply(store: &impl Checkpointer, models: &mut [Model; 3], op: Op) {
    match op {
        Op::Commit {
            place,
            commits,
            stale,
        } => {
            let model = &models[place];
            let mut commits: Vec<Commit> = (0..)
                .zip(&commits)
                .map(|(nth, (parent, items, tasks))| model.commit(nth, *parent, items, tasks))
                .collect();
            if stale {
                commits.last_mut().unwrap().id.0 -= 1;
            }
            let stored = store.commit(&places()[place], commits.clone()).await;
            assert_eq!(stored.is_ok(), !stale, "{stored:?}");
            if !stale {
                commits
                    .into_iter()
                    .for_each(|commit| models[place].add(commit));
            }
        }
        Op::SaveTasks {
            place,
            base,
            tasks,
            stale,
        } => {
            let newest = models[place].newest;
            let base = CheckpointId(base.index(newest as usize + 1) as u64);
            let there = base.0 == 0 || models[place].checkpoints.contains_key(&base);
            let seen = Seen {
                newest: CheckpointId(newest),
                saves: models[place].saves + u64::from(stale),
                born: None,
            };
            let stored = store
                .save_tasks(&places()[place], seen, base, tasks.clone())
                .await;
            assert_eq!(stored.is_ok(), !stale && there, "{stored:?}");
            if !stale && there {
                models[place].put_tasks(base, None, &tasks);
                models[place].saves += 1;
            }
        }
        Op::Remove { place, ids } => {
            let newest = models[place].newest as usize;
            let ids = ids
                .into_iter()
                .map(|id| CheckpointId(id.index(newest + 1) as u64));
            let ids: Vec<_> = ids.collect();
            store.remove(&places()[place], ids.clone()).await.unwrap();
            models[place].remove(&ids);
        }
        Op::Delete { place } => {
            let thread = &places()[place].thread;
            store.delete_thread(thread).await.unwrap();
            for (place, model) in places().iter().zip(models) {
                if place.thread == *thread {
                    *model = Model::default();
                }
            }
        }
    }
}

async fn load(
    store: &impl Checkpointer,
    place: &Place,
    at: Option<CheckpointId>,
) -> Option<Loaded> {
    let loaded = store.load(place, at).await.unwrap();
    loaded.map(|loaded| Loaded { born: 0, ..loaded })
}

async fn compare(store: &impl Checkpointer, models: &[Model; 3]) {
    for (place, model) in places().iter().zip(models) {
        let last = model.checkpoints.keys().next_back();
        let expected = last.and_then(|last| model.load(*last));
        assert_eq!(load(store, place, None).await, expected);
        assert_eq!(
            store.list(place, None, usize::MAX).await.unwrap(),
            model.list()
        );
        for id in (0..model.newest + 2).map(CheckpointId) {
            assert_eq!(load(store, place, Some(id)).await, model.load(id));
            assert_eq!(store.tasks(place, id).await.unwrap(), model.tasks(id));
        }
        let mut shares = Vec::new();
        for (other, model) in places().iter().zip(models) {
            if other.thread == place.thread {
                shares.extend(model.shares(&other.namespace));
            }
        }
        let size = store.size(&place.thread).await.unwrap();
        assert_eq!(size.shares, shares);
    }
}

/// A random history.
pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(any_op(), 0..30)
}

pub(crate) async fn run(store: &impl Checkpointer, ops: Vec<Op>) -> [Model; 3] {
    let mut models = Default::default();
    for op in ops {
        apply(store, &mut models, op).await;
    }
    compare(store, &models).await;
    models
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

proptest! {
    #[test]
    fn memory_is_like_the_model(ops in ops()) {
        block_on(run(&MemoryCheckpointer::new(), ops));
    }
}

proptest! {
    // Each commit is a write to the disk.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn sqlite_is_like_the_model(ops in ops()) {
        use superstep_checkpoint::SqliteCheckpointer;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("threads.db");
        let store = SqliteCheckpointer::open(&path).unwrap();
        let models = block_on(run(&store, ops));
        drop(store);
        let reopened = SqliteCheckpointer::open(&path).unwrap();
        block_on(compare(&reopened, &models));
    }
}
