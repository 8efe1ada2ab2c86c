//! Handing to the checkpointer what is to be stored, when the run's [`Durability`] says so.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{Either, select};

use superstep_checkpoint::{
    CheckpointId, Checkpointer, Commit, Place, SaveError, Seen, StoredTask, decode_log, encode_log,
};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::Run;
use super::save::Dirty;
use crate::durability::Durability;
use crate::error::{RunError, stored};
use crate::graph::ChannelIx;
use crate::journal::Entry;
use crate::nesting::Nesting;

/// How many saves may be outstanding behind a run.
const OUTSTANDING: usize = 8;

/// What a run has not stored yet.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    /// Saves on their way, once there was one.
    backlog: Option<Backlog>,
    /// The one checkpoint that is stored at the end.
    exit: Option<Exit>,
    /// Results that are stored beside it.
    tasks: Vec<StoredTask>,
}

/// The supersteps of a run that are stored together.
#[derive(Debug, Default)]
struct Exit {
    parent: Option<CheckpointId>,
    /// The input, if the run began with one.
    input: Option<StoredTask>,
    /// What each superstep wrote to delta channels.
    logs: BTreeMap<ChannelIx, Vec<Vec<u8>>>,
    /// A reducer failed: the channels are not what any superstep left.
    broken: bool,
}

/// A save to be made.
#[derive(Debug)]
pub(crate) enum Save {
    Commits(Vec<Commit>),
    Tasks(Seen, CheckpointId, Vec<StoredTask>),
    /// Nothing: what stands before it is stored.
    Mark(oneshot::Sender<()>),
    /// Nothing, and nothing comes after it.
    End,
}

impl Save {
    async fn make(self, saver: &dyn Checkpointer, place: &Place) -> Result<(), SaveError> {
        match self {
            Save::Commits(commits) => saver.commit(place, commits).await,
            Save::Tasks(seen, base, tasks) => saver.save_tasks(place, seen, base, tasks).await,
            Save::End => Ok(()),
            Save::Mark(reached) => {
                // Nobody waits any more.
                let _ = reached.send(());
                Ok(())
            }
        }
    }
}

/// Makes saves in order, beside the run.
#[derive(Debug)]
struct Backlog {
    place: Place,
    left: LeftBehind,
    saves: mpsc::Sender<Save>,
    /// Told when the run is dropped: tasks that somebody keeps alive still hold the queue.
    dropped: Arc<Notify>,
    worker: Option<Worker>,
}

type Worker = JoinHandle<Result<(), SaveError>>;

/// The workers of runs that were dropped, as long as they store what those had handed in. Whoever opens such a place waits for them,
/// or the two would get in each other's way.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftBehind(Arc<Mutex<Vec<(Place, Worker)>>>);

impl LeftBehind {
    /// Waits until nothing is on its way to a place.
    pub(crate) async fn wait(&self, place: &Place) {
        let workers: Vec<_> = self.lock().extract_if(.., |(at, _)| at == place).collect();
        for (_, worker) in workers {
            // What it could not store is lost with the run that was dropped; whoever reads on sees what is there.
            let _ = worker.await;
        }
    }

    fn add(&self, place: Place, worker: Worker) {
        let mut left = self.lock();
        left.retain(|(_, worker)| !worker.is_finished());
        left.push((place, worker));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Place, Worker)>> {
        // Held over single changes only.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.dropped.notify_one();
            self.left.add(self.place.clone(), worker);
        }
    }
}

impl Backlog {
    fn start(
        saver: Arc<dyn Checkpointer>,
        place: Place,
        around: Behind,
        left: LeftBehind,
    ) -> Result<Self, RunError> {
        let runtime = Handle::try_current().map_err(|_| RunError::NoRuntime)?;
        let (saves, mut queue) = mpsc::channel::<Save>(OUTSTANDING);
        let (dropped, stored_in) = (Arc::new(Notify::new()), place.clone());
        let told = Arc::clone(&dropped);
        let worker = async move {
            around.catch_up().await?;
            loop {
                let next = match select(pin!(queue.recv()), pin!(told.notified())).await {
                    Either::Left((next, _)) => Some(next),
                    Either::Right(_) => None,
                };
                match next {
                    // The run was dropped: what it handed in is stored, and nothing comes after it.
                    None => queue.close(),
                    Some(None | Some(Save::End)) => return Ok(()),
                    Some(Some(save)) => save.make(&*saver, &stored_in).await?,
                }
            }
        };
        let worker = Some(runtime.spawn(worker.in_current_span()));
        Ok(Backlog {
            place,
            left,
            saves,
            dropped,
            worker,
        })
    }

    /// Waits until everything is stored; the error of the first save that failed.
    async fn finish(mut self) -> Result<(), RunError> {
        // Tasks that somebody keeps alive still hold the queue, so it is told to end. A worker that ended by itself hears nothing.
        let _ = self.saves.send(Save::End).await;
        let Some(worker) = &mut self.worker else {
            return Ok(());
        };
        let ended = worker.await;
        self.worker = None;
        // The worker awaits the checkpointer only: it panics if that does, and ends early with its runtime.
        ended.map_err(|lost| {
            RunError::Save(SaveError::Backend {
                what: "storing behind the run".into(),
                source: lost.into(),
            })
        })??;
        Ok(())
    }
}

/// What a run did and did not store yet, for graphs nested in it: they store nothing before what they stand on is stored.
#[derive(Clone, Debug, Default)]
pub(crate) enum Behind {
    /// Nothing.
    #[default]
    Nothing,
    /// What is on its way.
    Outstanding(mpsc::Sender<Save>),
    /// What it puts off to its end.
    PutOff(mpsc::UnboundedSender<Entry>),
}

impl Behind {
    /// Waits until what the run has done so far is stored.
    pub(crate) async fn catch_up(&self) -> Result<(), SaveError> {
        let (reply, reached) = oneshot::channel();
        let told = match self {
            Behind::Nothing => return Ok(()),
            Behind::Outstanding(saves) => saves.send(Save::Mark(reply)).await.is_ok(),
            Behind::PutOff(entries) => entries.send(Entry::CatchUp(reply)).is_ok(),
        };
        match told && reached.await.is_ok() {
            true => Ok(()),
            false => Err(SaveError::Backend {
                what: "storing what the graph around stands on".into(),
                source: "its run ended before".into(),
            }),
        }
    }
}

impl Run {
    /// What this run did and did not store yet.
    pub(super) fn behind(&self) -> Behind {
        let outstanding = self.unsaved.backlog.as_ref();
        match (self.inbox.sender(), outstanding) {
            (Some(entries), _) if self.stores_at_exit() => Behind::PutOff(entries),
            (_, Some(backlog)) => Behind::Outstanding(backlog.saves.clone()),
            _ => Behind::Nothing,
        }
    }

    pub(super) fn stores_at_exit(&self) -> bool {
        self.scope.durability == Durability::Exit && self.scope.saver.is_some()
    }

    /// Whether the run, once it is done, need not have been stored: what it led to stands with the task around it.
    pub(super) fn leaves_no_trace(&self) -> bool {
        self.stores_at_exit()
            && !self.place.namespace.is_empty()
            && self.core.nesting != Nesting::PerThread
    }

    /// Stores checkpoints, and tells what was kept until they are.
    pub(super) async fn store(
        &mut self,
        commits: impl IntoIterator<Item = Commit>,
    ) -> Result<(), RunError> {
        let commits: Vec<Commit> = commits.into_iter().collect();
        if !commits.is_empty() {
            self.save(Save::Commits(commits)).await?;
            self.saves = 0;
        }
        self.tell_held();
        Ok(())
    }

    /// Stores records of tasks at the checkpoint that the run stands on.
    pub(super) async fn save_records(&mut self, records: Vec<StoredTask>) -> Result<(), RunError> {
        if records.is_empty() || self.scope.saver.is_none() {
            return Ok(());
        }
        if self.stores_at_exit() {
            let tasks = &mut self.unsaved.tasks;
            tasks.retain(|known| records.iter().all(|record| record.id != known.id));
            tasks.extend(records);
            return Ok(());
        }
        self.save_tasks(records).await
    }

    async fn save_tasks(&mut self, records: Vec<StoredTask>) -> Result<(), RunError> {
        if let (Some(seen), Some(base)) = (self.seen(), self.base) {
            self.save(Save::Tasks(seen, base, records)).await?;
            self.saves += 1;
        }
        Ok(())
    }

    async fn save(&mut self, save: Save) -> Result<(), RunError> {
        let Some(saver) = &self.scope.saver else {
            return Ok(());
        };
        let around = &self.scope.behind;
        if self.scope.durability != Durability::Async {
            around.catch_up().await?;
            let span = self.save_span();
            return Ok(save.make(&**saver, &self.place).instrument(span).await?);
        }
        let backlog = match &mut self.unsaved.backlog {
            Some(backlog) => backlog,
            none => {
                let (saver, place) = (Arc::clone(saver), self.place.clone());
                let left = self.scope.left.clone();
                none.insert(Backlog::start(saver, place, around.clone(), left)?)
            }
        };
        if backlog.saves.send(save).await.is_err() {
            self.finish_backlog().await?;
        }
        Ok(())
    }

    /// Notes that a superstep is part of the checkpoint that is stored at the end.
    pub(super) fn put_off(&mut self) {
        let exit = self.unsaved.exit.get_or_insert_with(|| Exit {
            parent: self.base,
            ..Exit::default()
        });
        for (channel, log) in std::mem::take(&mut self.dirty.logs) {
            exit.logs.entry(channel).or_default().push(log);
        }
        // They led to it, and are part of it.
        self.unsaved.tasks.clear();
    }

    /// What the checkpoint that is stored at the end continues.
    pub(super) fn exit_parent(&self) -> Option<CheckpointId> {
        let exit = self.unsaved.exit.as_ref();
        exit.map_or(self.base, |exit| exit.parent)
    }

    /// Notes the input as what led from the parent to the checkpoint that is stored at the end.
    pub(super) fn put_off_input(&mut self, input: StoredTask) {
        if let Some(exit) = &mut self.unsaved.exit {
            exit.input = Some(input);
        }
    }

    /// Notes that the channels cannot be stored any more.
    pub(super) fn give_up_exit(&mut self) {
        if let Some(exit) = &mut self.unsaved.exit {
            exit.broken = true;
        }
    }

    /// Stores what is outstanding: the last thing that a run does, however it ended.
    pub(crate) async fn close(&mut self) -> Result<(), RunError> {
        if self.unsaved.exit.as_ref().is_some_and(|exit| exit.broken) {
            return Ok(());
        }
        self.store_put_off().await?;
        let mut tasks = std::mem::take(&mut self.unsaved.tasks);
        tasks.extend(self.log_record()?);
        if !tasks.is_empty() {
            self.save_tasks(tasks).await?;
        }
        self.finish_backlog().await
    }

    /// Stores the supersteps that were put off, as one checkpoint.
    pub(super) async fn store_put_off(&mut self) -> Result<(), RunError> {
        if let Some(exit) = self.unsaved.exit.take() {
            let commit = self.exit_commit(exit)?;
            self.dirty = Dirty::default();
            self.save(Save::Commits(vec![commit])).await?;
            self.newest = self.base;
            self.saves = 0;
        }
        Ok(())
    }

    async fn finish_backlog(&mut self) -> Result<(), RunError> {
        match self.unsaved.backlog.take() {
            Some(backlog) => backlog.finish().await,
            None => Ok(()),
        }
    }

    fn exit_commit(&mut self, exit: Exit) -> Result<Commit, RunError> {
        for (channel, logs) in exit.logs {
            let log = self.joined(channel, &logs)?;
            self.dirty.logs.insert(channel, log);
        }
        let commit = Commit {
            id: self.base.unwrap_or(CheckpointId(1)),
            born: Some(self.born),
            parent: exit.parent,
            time: self.time,
            header: self.header(self.source, self.step)?,
            items: self.items()?,
            tasks: exit.input.into_iter().collect(),
        };
        Ok(commit)
    }

    /// The logs of several supersteps as one.
    fn joined(&self, channel: ChannelIx, logs: &[Vec<u8>]) -> Result<Vec<u8>, RunError> {
        let spec = &self.core.channels[channel];
        let mut batches = Vec::new();
        for log in logs {
            let read = decode_log(log, spec).map_err(self.unreadable("what tasks wrote"))?;
            batches.extend(read);
        }
        let what = format!("writes to channel `{}` cannot be stored", spec.name());
        encode_log(spec.update_type().name(), &batches).map_err(stored(what))
    }
}
