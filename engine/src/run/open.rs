//! Taking up a thread where a checkpoint left it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use superstep_channels::{Name, Write};
use superstep_checkpoint::{
    Channel as Stored, CheckpointId, Checkpointer, Head, Header, Loaded, Place, Seen, Source,
    StoredTask, decode_log, decode_value,
    frame::{self, FrameError},
};

use super::amend::{changed_in, without_edits};
use super::apply::{Due, Routing, write};
use super::durable::Unsaved;
use super::edit::EDIT;
use super::inbox::Inbox;
use super::log::{LOG, logged};
use super::save::{Dirty, Growth, SENDS, StoredWaiting, WAITING};
use super::{Options, Run, START};
use crate::context::Scope;
use crate::control::Inside;
use crate::error::RunError;
use crate::graph::{ChannelIx, Core};
use crate::record::{Done, Record, RecordState, StoredSend, load_send};

impl Run {
    /// Opens a place at its newest checkpoint or at the one named. An empty place gives a run that has nothing yet.
    pub(crate) async fn open(
        core: Arc<Core>,
        place: Place,
        scope: Scope,
        options: Options,
        at: Option<CheckpointId>,
    ) -> Result<Run, RunError> {
        let mut run = Run::fresh(core, place, scope, options);
        let Some(saver) = run.scope.saver.clone() else {
            return Ok(run);
        };
        match run.load(&*saver, at).await? {
            Some(loaded) => run.restore(loaded, &*saver).await?,
            // All that was there may have been removed.
            None => run.follow(saver.head(&run.place).await?),
        }
        Ok(run)
    }

    /// What it stores comes after what is there.
    fn follow(&mut self, head: Option<Head>) {
        if let Some(Head { seen, born }) = head {
            self.newest = Some(seen.newest).filter(|newest| newest.0 > 0);
            self.saves = seen.saves;
            self.born = born;
        }
    }

    /// Opens a place as if nothing were there: what it runs opens a branch from the root.
    pub(crate) async fn open_anew(
        core: Arc<Core>,
        place: Place,
        scope: Scope,
        options: Options,
    ) -> Result<Run, RunError> {
        let mut run = Run::fresh(core, place, scope, options);
        if let Some(saver) = run.scope.saver.clone()
            && let Some(newest) = run.load(&*saver, None).await?
        {
            if let Some(origin) = &newest.origin {
                run.origin = origin.as_str().into();
            }
            run.newest = Some(newest.newest);
            run.saves = newest.saves;
            run.born = newest.born;
        }
        Ok(run)
    }

    /// Opens a place to update its state by hand: what waits at the checkpoint is known, but edits are left behind.
    pub(crate) async fn open_to_update(
        core: Arc<Core>,
        place: Place,
        scope: Scope,
        at: Option<CheckpointId>,
    ) -> Result<Run, RunError> {
        let mut run = Run::fresh(core, place, scope, Options::default());
        if let Some(saver) = run.scope.saver.clone()
            && let Some(mut loaded) = run.load(&*saver, at).await?
        {
            loaded.pending = without_edits(loaded.pending)?;
            run.restore(loaded, &*saver).await?;
        }
        Ok(run)
    }

    /// Opens a place to copy a checkpoint: without what waits there, and with what the checkpoint changed as new.
    pub(crate) async fn open_to_copy(
        core: Arc<Core>,
        place: Place,
        scope: Scope,
        at: Option<CheckpointId>,
    ) -> Result<Run, RunError> {
        let mut run = Run::fresh(core, place, scope, Options::default());
        let loaded = match run.scope.saver.clone() {
            Some(saver) => run.load(&*saver, at).await?.zip(Some(saver)),
            None => None,
        };
        let Some((mut loaded, saver)) = loaded else {
            run.not_empty()?;
            return Ok(run);
        };
        loaded.pending.clear();
        let mut dirty = Dirty::default();
        for name in changed_in(&loaded) {
            match name {
                SENDS => dirty.sends = true,
                WAITING => dirty.waiting = true,
                name => dirty.channels.extend(run.core.channel(name)?),
            }
        }
        run.restore(loaded, &*saver).await?;
        run.dirty = dirty;
        Ok(run)
    }

    /// An error if the place holds no checkpoint.
    pub(super) fn not_empty(&self) -> Result<(), RunError> {
        match self.base {
            Some(_) => Ok(()),
            None => Err(RunError::NothingToDo {
                place: self.place.to_string(),
            }),
        }
    }

    /// Reads a checkpoint: the newest one, if there is any, or the one named, which must be there.
    pub(super) async fn load(
        &self,
        saver: &dyn Checkpointer,
        at: Option<CheckpointId>,
    ) -> Result<Option<Loaded>, RunError> {
        self.scope.left.wait(&self.place).await;
        let loaded = saver.load(&self.place, at).await?;
        match (loaded, at) {
            (None, Some(id)) => Err(RunError::UnknownCheckpoint {
                place: self.place.to_string(),
                id,
            }),
            (loaded, _) => Ok(loaded),
        }
    }

    fn fresh(core: Arc<Core>, place: Place, scope: Scope, options: Options) -> Run {
        Run {
            cells: core.cells(),
            routing: Routing::new(&core),
            growth: vec![Growth::default(); core.channels.len()],
            inbox: Inbox::new(scope.saver.is_some()),
            core,
            origin: Arc::clone(&place.thread),
            place,
            scope,
            options,
            newest: None,
            saves: 0,
            born: RandomState::new().build_hasher().finish(),
            stored: false,
            base: None,
            parent: None,
            source: Source::Input,
            time: 0,
            step: -2,
            metadata: Default::default(),
            run_id: None,
            copy_of: None,
            ran: Vec::new(),
            records: HashMap::new(),
            edits: Vec::new(),
            dirty: Dirty::default(),
            start_is_due: None,
            inside: Inside::default(),
            unsaved: Unsaved::default(),
            held: Vec::new(),
            taken: 0,
            replays: false,
            passes_breakpoint: false,
        }
    }

    async fn restore(&mut self, loaded: Loaded, saver: &dyn Checkpointer) -> Result<(), RunError> {
        let header = Header::open(&loaded.header).map_err(self.unreadable("its header"))?;
        self.check_graph(&header)?;
        if let Some(origin) = &loaded.origin {
            self.origin = origin.as_str().into();
        }
        self.follow(Some(Head {
            seen: Seen {
                newest: loaded.newest,
                saves: loaded.saves,
                born: Some(loaded.born),
            },
            born: loaded.born,
        }));
        self.time = loaded.time;
        self.base = Some(loaded.id);
        self.parent = loaded.parent;
        self.source = header.source;
        // Whoever opens a nested graph by itself does not know what is around it; its checkpoint does.
        if self.scope.task.is_none() {
            self.scope.task = header.task;
            self.scope.parents = header.parents.into();
        }
        self.metadata = header.metadata;
        self.run_id = header.run;
        self.ran = header.ran.into_iter().map(Name::from).collect();
        self.step = step(header.step).map_err(self.unreadable("its header"))?;
        for (name, stored) in &loaded.channels {
            match name.as_str() {
                SENDS => self.restore_sends(stored)?,
                WAITING => self.restore_waiting(stored, header.version)?,
                name => self.restore_channel(name, stored, &loaded.channels)?,
            }
        }
        if header.next == [START] {
            self.start_is_due = Some(self.load_start(saver).await?);
        } else {
            self.restore_due(&header.next)?;
        }
        self.stand(0);
        self.restore_pending(loaded.pending)?;
        self.use_answers();
        Ok(())
    }

    /// Whether the thread is one of this graph, in this version or an earlier one.
    fn check_graph(&self, header: &Header) -> Result<(), RunError> {
        let core = &self.core;
        if !core.is_called(&header.graph) {
            return Err(RunError::OtherGraph {
                place: self.place.to_string(),
                stored: header.graph.clone(),
                graph: core.name.clone(),
            });
        }
        if header.version > core.version {
            return Err(RunError::NewerGraph {
                place: self.place.to_string(),
                graph: core.name.clone(),
                stored: header.version,
                known: core.version,
            });
        }
        Ok(())
    }

    fn restore_channel(
        &mut self,
        name: &str,
        stored: &Stored,
        all: &BTreeMap<String, Stored>,
    ) -> Result<(), RunError> {
        let Some(at) = self.core.channel(name)? else {
            return Ok(());
        };
        let core = Arc::clone(&self.core);
        let spec = &core.channels[at];
        let renamed = spec.name() != name;
        if renamed {
            // The first checkpoint since it was renamed stored it whole under its new name.
            if all.contains_key(&**spec.name()) {
                return Ok(());
            }
            self.dirty.channels.insert(at);
        }
        let mut growth = Growth {
            renamed,
            ..Growth::default()
        };
        if let Some((id, bytes)) = &stored.value {
            let value = decode_value(bytes, spec).map_err(RunError::unreadable(name, *id))?;
            self.cells[at].restore(Some(value));
            growth.snapshot = bytes.len() as u64;
        }
        for (id, bytes) in &stored.logs {
            let batches = decode_log(bytes, spec).map_err(RunError::unreadable(name, *id))?;
            for batch in batches.into_iter().filter(|batch| !batch.is_empty()) {
                write(&core, self.cells[at].as_mut(), at, batch)?;
            }
            growth.writes += 1;
            growth.bytes += bytes.len() as u64;
        }
        self.growth[at] = growth;
        Ok(())
    }

    fn restore_sends(&mut self, stored: &Stored) -> Result<(), RunError> {
        let Some((id, bytes)) = &stored.value else {
            return Ok(());
        };
        let sends: Vec<StoredSend> =
            frame::decode(bytes, SENDS).map_err(RunError::unreadable(SENDS, *id))?;
        for send in &sends {
            let found = load_send(&self.core, send)?;
            self.dirty.sends |= found.is_none();
            self.routing.sends.extend(found);
        }
        Ok(())
    }

    /// Arrivals at a join that an earlier version of the graph had lead nowhere now.
    fn restore_waiting(&mut self, stored: &Stored, version: u32) -> Result<(), RunError> {
        let Some((id, bytes)) = &stored.value else {
            return Ok(());
        };
        let waiting: StoredWaiting =
            frame::decode(bytes, WAITING).map_err(RunError::unreadable(WAITING, *id))?;
        for (name, edge) in waiting.deferred {
            let node = self.core.node(&name)?;
            self.dirty.waiting |= node.is_none();
            self.routing
                .waiting
                .extend(node.map(|node| Due { node, edge }));
        }
        for (name, sources) in waiting.joins {
            let at = self.core.joins.iter().position(|join| join.name == name);
            let Some(at) = at else {
                if version < self.core.version {
                    self.dirty.waiting = true;
                    continue;
                }
                return Err(RunError::unknown("join", &name));
            };
            for source in sources {
                let Some(node) = self.core.node(&source)? else {
                    continue;
                };
                let arrived = &mut self.routing.arrived[at];
                if arrived.contains(&node) || !self.core.joins[at].sources.contains(&node) {
                    return Err(RunError::unknown(&format!("arrival at `{name}`:"), &source));
                }
                arrived.push(node);
            }
        }
        Ok(())
    }

    /// What led to a node is not stored; a complete join before it says enough.
    fn restore_due(&mut self, next: &[String]) -> Result<(), RunError> {
        for name in next {
            let Some(node) = self.core.node(name)? else {
                continue;
            };
            if self.routing.due.iter().any(|due| due.node == node) {
                return Err(RunError::unknown("a second task of node", name));
            }
            let joins = 0..self.core.joins.len();
            let mut complete = joins.filter(|&at| self.routing.is_complete(&self.core, at));
            let edge = !complete.any(|at| self.core.joins[at].target == node);
            self.routing.due.push(Due { node, edge });
        }
        Ok(())
    }

    fn restore_pending(&mut self, pending: Vec<StoredTask>) -> Result<(), RunError> {
        for task in pending {
            let record = Record::open(&task.record)?;
            if record.node == LOG {
                let known = logged(&record)?;
                let here = known
                    .iter()
                    .filter(|event| Some(event.id.checkpoint) == self.base);
                let next = here.map(|event| event.id.index.saturating_add(1)).max();
                self.stand(next.unwrap_or_default());
            } else if let RecordState::Returned { .. } = record.state {
                self.inbox.journal.know(task.id, record);
            } else if record.node == EDIT {
                let edit = self.waiting_result(&record)?;
                self.take_edit(task.id, edit.unwrap_or_default())?;
            } else {
                self.records.insert(task.id, record);
            }
        }
        Ok(())
    }

    /// The input that this checkpoint holds as due: it stands with the task that applied it.
    async fn load_start(&self, saver: &dyn Checkpointer) -> Result<Done, RunError> {
        let Some(base) = self.base else {
            return Ok(Done::default());
        };
        // With a copy of such a checkpoint it stands itself: nothing has applied it yet.
        let before = self.parent.unwrap_or(CheckpointId(0));
        let mut tasks = saver.tasks(&self.place, base).await?;
        tasks.extend(
            (saver.tasks(&self.place, before).await?.into_iter())
                .filter(|task| task.child == Some(base)),
        );
        for task in tasks {
            let record = Record::open(&task.record)?;
            if let (START, Some(child)) = (record.node.as_str(), task.child) {
                let mut logs = self.logs_of(saver, child).await?;
                let done = self.result(&record, |channel| logs.get_mut(&channel)?.tasks.next())?;
                return Ok(done.unwrap_or_default());
            }
        }
        Err(RunError::unknown("input of checkpoint", &base.to_string()))
    }

    /// The writes to delta channels that a checkpoint was made with.
    pub(super) async fn logs_of(
        &self,
        saver: &dyn Checkpointer,
        id: CheckpointId,
    ) -> Result<Logs, RunError> {
        let mut logs = Logs::new();
        for (name, bytes) in saver.logs(&self.place, id).await? {
            let Some(channel) = self.core.channel(&name)? else {
                continue;
            };
            let logged = self
                .logged(channel, &bytes)
                .map_err(RunError::unreadable(&name, id))?;
            logs.insert(channel, logged);
        }
        Ok(logs)
    }

    /// Takes a stored log apart.
    pub(super) fn logged(&self, channel: ChannelIx, log: &[u8]) -> Result<Logged, FrameError> {
        let mut batches = decode_log(log, &self.core.channels[channel])?;
        let tasks = batches.pop().unwrap_or_default();
        Ok(Logged {
            edits: batches.concat().into_iter(),
            tasks: tasks.into_iter(),
        })
    }

    pub(super) fn unreadable<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        &self,
        what: &str,
    ) -> impl FnOnce(E) -> RunError + use<E> {
        let what = format!("{what} cannot be read ({})", self.place);
        move |source| RunError::Stored {
            what,
            source: source.into(),
        }
    }
}

/// The logged writes of one checkpoint, by channel.
pub(super) type Logs = HashMap<ChannelIx, Logged>;

/// What was written to one channel: by edits first, in a batch each, then by the tasks, in the last batch.
pub(super) struct Logged {
    pub(super) edits: std::vec::IntoIter<Write>,
    pub(super) tasks: std::vec::IntoIter<Write>,
}

/// The number of a superstep, if it is one that a thread can have reached and count on from.
fn step(step: i64) -> Result<i64, String> {
    let fits = (-1..=i64::MAX / 2).contains(&step);
    fits.then_some(step)
        .ok_or_else(|| format!("no superstep has the number {step}"))
}
