//! A random history, compared with a naive model that keeps a full map of channels per checkpoint.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use superstep_checkpoint::{
    Channel, CheckpointId, Checkpointer, Commit, Item, Listed, Loaded, MemoryCheckpointer, Place,
    Seen, Size, StoredTask, TaskId,
};

#[derive(Clone, Debug)]
enum Op {
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
    Delete {
        place: usize,
    },
}

/// A commit before it has a number: the items name their channel by index.
type Plan = (Parent, Vec<(usize, Item)>, Vec<StoredTask>);

#[derive(Clone, Copy, Debug)]
enum Parent {
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
        1 => (0..3usize).prop_map(|place| Op::Delete { place }),
    ]
}

/// One place, as plainly as it can be kept.
#[derive(Default)]
struct Model {
    saves: u64,
    checkpoints: Vec<(Commit, BTreeMap<String, Channel>)>,
    tasks: Vec<(CheckpointId, StoredTask)>,
}

impl Model {
    fn newest(&self) -> u64 {
        self.checkpoints.len() as u64
    }

    /// Gives a plan its number and its parent.
    fn commit(
        &self,
        nth: u64,
        parent: Parent,
        items: &[(usize, Item)],
        tasks: &[StoredTask],
    ) -> Commit {
        let newest = self.newest() + nth;
        let parent = match parent {
            Parent::Newest if newest > 0 => Some(newest),
            Parent::Any(index) if newest > 0 => Some(index.index(newest as usize) as u64 + 1),
            _ => None,
        };
        Commit {
            id: CheckpointId(newest + 1),
            parent: parent.map(CheckpointId),
            header: format!("header {}", newest + 1).into(),
            items: items
                .iter()
                .map(|(at, item)| (CHANNELS[*at].into(), item.clone()))
                .collect(),
            tasks: tasks.to_vec(),
        }
    }

    fn add(&mut self, commit: Commit) {
        self.saves = 0;
        let mut channels = match commit.parent {
            Some(parent) => self.checkpoints[parent.0 as usize - 1].1.clone(),
            None => BTreeMap::new(),
        };
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
        self.checkpoints.push((commit, channels));
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
        let (commit, channels) = self
            .checkpoints
            .get(usize::try_from(id.0).ok()?.checked_sub(1)?)?;
        Some(Loaded {
            id,
            parent: commit.parent,
            newest: CheckpointId(self.newest()),
            saves: self.saves,
            born: 0,
            origin: None,
            header: commit.header.clone(),
            channels: channels.clone(),
            pending: self
                .tasks(id)
                .into_iter()
                .filter(|task| task.child.is_none())
                .collect(),
        })
    }

    fn list(&self) -> Vec<Listed> {
        let newest_first = self.checkpoints.iter().rev();
        newest_first
            .map(|(commit, _)| Listed {
                id: commit.id,
                parent: commit.parent,
                header: commit.header.clone(),
            })
            .collect()
    }

    fn measure(&self, size: &mut Size) {
        size.namespaces += u64::from(self.newest() > 0);
        size.checkpoints += self.newest();
        for (commit, _) in &self.checkpoints {
            size.header_bytes += commit.header.len() as u64;
            let items: BTreeMap<_, _> = commit.items.iter().cloned().collect();
            size.item_bytes += items.values().map(item_bytes).sum::<u64>();
        }
        size.task_bytes += self
            .tasks
            .iter()
            .map(|(_, task)| task.record.len() as u64)
            .sum::<u64>();
    }
}

fn item_bytes(item: &Item) -> u64 {
    match item {
        Item::Value(bytes) | Item::Log(bytes) => bytes.len() as u64,
        Item::Empty => 0,
        Item::Snapshot { log, value } => (log.len() + value.len()) as u64,
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
            let newest = models[place].newest();
            let base = CheckpointId(base.index(newest as usize + 1) as u64);
            let seen = Seen {
                newest: CheckpointId(newest),
                saves: models[place].saves + u64::from(stale),
            };
            let stored = store
                .save_tasks(&places()[place], seen, base, tasks.clone())
                .await;
            assert_eq!(stored.is_ok(), !stale, "{stored:?}");
            if !stale {
                models[place].put_tasks(base, None, &tasks);
                models[place].saves += 1;
            }
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

async fn compare(store: &impl Checkpointer, models: &[Model; 3]) {
    for (place, model) in places().iter().zip(models) {
        let newest = model.newest();
        let load = store.load(place, None).await.unwrap();
        assert_eq!(load, model.load(CheckpointId(newest)));
        assert_eq!(
            store.list(place, None, usize::MAX).await.unwrap(),
            model.list()
        );
        for id in (0..newest + 2).map(CheckpointId) {
            assert_eq!(store.load(place, Some(id)).await.unwrap(), model.load(id));
            assert_eq!(store.tasks(place, id).await.unwrap(), model.tasks(id));
        }
        let mut size = Size::default();
        for (other, model) in places().iter().zip(models) {
            if other.thread == place.thread {
                model.measure(&mut size);
            }
        }
        assert_eq!(store.size(&place.thread).await.unwrap(), size);
    }
}

async fn run(store: &impl Checkpointer, ops: Vec<Op>) -> [Model; 3] {
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
    fn memory_is_like_the_model(ops in prop::collection::vec(any_op(), 0..30)) {
        block_on(run(&MemoryCheckpointer::new(), ops));
    }
}

#[cfg(feature = "sqlite")]
proptest! {
    // Each commit is a write to the disk.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn sqlite_is_like_the_model(ops in prop::collection::vec(any_op(), 0..30)) {
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
