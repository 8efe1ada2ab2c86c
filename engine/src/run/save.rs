//! What a superstep stores: the channels that changed, and the tasks that changed them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use superstep_channels::{Kind, Snapshots, Value, Write};
use superstep_checkpoint::{
    CheckpointId, Commit, Header, Item, Source, StoredTask, TaskId, decode_log, encode_log, frame,
};

use super::apply::{Applied, Grouped, Routing, fold, split};
use super::execute::{Ended, Finished, Settled};
use super::open::Logs;
use super::plan::{Path, Planned};
use super::{Run, START};
use crate::error::{RunError, stored};
use crate::graph::{ChannelIx, Core, Exits, NodeIx};
use crate::record::{Record, RecordState, StoredSend, store_done, store_send};

/// The hidden channel of payloads on their way.
pub(super) const SENDS: &str = "__sends__";
/// The hidden channel of joins and deferred nodes that wait.
pub(super) const WAITING: &str = "__waiting__";

/// The log of a delta channel since its last snapshot, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    pub(super) writes: u32,
    pub(super) bytes: u64,
    pub(super) snapshot: u64,
    /// It is stored under a former name so far, so it is stored whole next.
    pub(super) renamed: bool,
}

/// What changed since the last checkpoint.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    pub(super) channels: BTreeSet<ChannelIx>,
    /// The writes to delta channels, encoded before they were folded in.
    pub(super) logs: BTreeMap<ChannelIx, Vec<u8>>,
    pub(super) sends: bool,
    pub(super) waiting: bool,
}

/// The stored form of [`Routing`]'s slow part.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct StoredWaiting {
    pub(super) deferred: Vec<(String, bool)>,
    pub(super) joins: Vec<(String, Vec<String>)>,
}

impl Run {
    /// Applies the results of a superstep and saves what they made.
    pub(super) async fn settle(&mut self, results: Vec<Settled>) -> Result<(), RunError> {
        let tasks = self.records_of(&results)?;
        let put_off = self.stores_at_exit().then(|| results.clone());
        self.note_ran(&results);
        self.replays = false;
        let core = Arc::clone(&self.core);
        let nowhere = Exits::default();
        let applied = results.into_iter().map(|settled| Applied {
            node: Some(settled.task.node),
            on_state: settled.task.path.is_state(),
            exits: match (&settled.failed, &settled.task.path) {
                (None, Path::State | Path::Send(..)) => &core.nodes[settled.task.node].exits,
                _ => &nowhere,
            },
            done: settled.done,
        });
        let writes = match self.apply(applied.collect()) {
            Ok(writes) => writes,
            Err(refused) => {
                match put_off {
                    Some(results) => self.keep_refused(&results).await?,
                    None => self.save_refused(tasks).await?,
                }
                return Err(refused);
            }
        };
        let commit = self.commit(Source::Loop, tasks)?;
        self.hold_values(&writes);
        self.store(commit).await
    }

    /// Notes the nodes that ran, for who updates the state by hand after them.
    fn note_ran(&mut self, results: &[Settled]) {
        if self.scope.saver.is_none() {
            return;
        }
        self.ran.clear();
        self.ran.extend(
            results
                .iter()
                .map(|settled| self.core.node_name(settled.task.node).clone()),
        );
        self.ran.sort_unstable();
        self.ran.dedup();
    }

    /// Saves results that do not go together at the checkpoint they ran on: with a graph that can take them
    /// the thread goes on without running the tasks again.
    async fn save_refused(&mut self, mut tasks: Vec<StoredTask>) -> Result<(), RunError> {
        let mut logs = Logs::new();
        for (&channel, bytes) in &self.dirty.logs {
            let logged = self.logged(channel, bytes);
            logs.insert(
                channel,
                logged.map_err(self.unreadable("what tasks wrote"))?,
            );
        }
        for task in &mut tasks {
            let mut record = Record::open(&task.record)?;
            if let Some(done) =
                self.result(&record, |channel| logs.get_mut(&channel)?.tasks.next())?
            {
                record.state = store_done(&self.core, &done, false)?;
            }
            task.record = record.seal()?;
        }
        self.save_records(tasks).await
    }

    /// Folds results into the channels and moves the routing on. Gives the channels that were written.
    pub(super) fn apply(&mut self, results: Vec<Applied<'_>>) -> Result<Vec<ChannelIx>, RunError> {
        let (writes, routing) = split(&self.core, &self.routing, results);
        if self.stores_at_exit() {
            // What is refused must leave the channels as they are: they are stored at the end.
            for (&channel, writes) in &writes {
                self.cells[channel].check(writes)?;
            }
        }
        self.log(&writes)?;
        let written: Vec<ChannelIx> = writes.keys().copied().collect();
        let emptied = match fold(&self.core, &mut self.cells, writes) {
            Ok(emptied) => emptied,
            Err(refused) => {
                self.give_up_exit();
                return Err(refused.into());
            }
        };
        if self.scope.saver.is_some() {
            let changed = written.iter().copied().chain(emptied);
            self.dirty.channels.extend(changed);
        }
        self.reroute(routing);
        Ok(written)
    }

    pub(super) fn reroute(&mut self, routing: Routing) {
        self.dirty.sends |= !(self.routing.sends.is_empty() && routing.sends.is_empty());
        self.dirty.waiting |=
            self.routing.waiting != routing.waiting || self.routing.arrived != routing.arrived;
        self.routing = routing;
    }

    /// Encodes the writes to delta channels, with those of edits before them.
    pub(super) fn log(&mut self, writes: &Grouped) -> Result<(), RunError> {
        if self.scope.saver.is_none() {
            return Ok(());
        }
        for (&channel, own) in writes {
            let spec = &self.core.channels[channel];
            if !matches!(spec.kind(), Kind::Delta(_)) {
                continue;
            }
            let mut batches = self.edited(channel);
            batches.push(own.clone());
            let what = format!("writes to channel `{}` cannot be stored", spec.name());
            let log = encode_log(spec.update_type().name(), &batches);
            let log = log.map_err(stored(what.clone()))?;
            let proof = &self.core.proofs.updates[channel];
            proof
                .check(&log, || decode_log(&log, spec).map(drop))
                .map_err(|error| RunError::Stored {
                    what: format!("{what}: they could not be read back"),
                    source: error.into(),
                })?;
            self.dirty.logs.insert(channel, log);
        }
        Ok(())
    }

    fn edited(&self, channel: ChannelIx) -> Vec<Vec<Write>> {
        let batches = self.edits.iter().map(|edit| edit.writes_to(channel));
        batches.filter(|batch| !batch.is_empty()).collect()
    }

    /// The commit of a checkpoint on top of the present one, and the step to it.
    pub(super) fn commit(
        &mut self,
        source: Source,
        tasks: Vec<StoredTask>,
    ) -> Result<Option<Commit>, RunError> {
        let id = self.newest.map_or(CheckpointId(1), CheckpointId::next);
        let step = self.step + 1;
        let time = now();
        let stood_on = self.base;
        let commit = match self.scope.saver {
            None => None,
            Some(_) if self.stores_at_exit() => {
                self.put_off();
                self.parent = self.exit_parent();
                self.base = Some(id);
                None
            }
            Some(_) => {
                let log = self.log_record()?;
                let commit = Commit {
                    id,
                    born: Some(self.born),
                    parent: self.base,
                    time,
                    header: self.header(source, step)?,
                    items: self.items()?,
                    tasks: self
                        .edit_records()?
                        .into_iter()
                        .chain(tasks)
                        .chain(log)
                        .collect(),
                };
                self.parent = self.base;
                self.base = Some(id);
                self.newest = Some(id);
                self.dirty = Dirty::default();
                Some(commit)
            }
        };
        self.stored = true;
        self.time = time;
        self.step = step;
        self.source = source;
        // Supersteps that are stored together stand on one checkpoint.
        if self.base != stood_on {
            self.stand(0);
        }
        self.edits.clear();
        self.records.clear();
        self.inbox.journal.forget();
        Ok(commit)
    }

    pub(super) fn header(&self, source: Source, step: i64) -> Result<Vec<u8>, RunError> {
        let by_hand = matches!(source, Source::Update | Source::Fork);
        let header = Header {
            source,
            step,
            graph: self.core.name.clone(),
            version: self.core.version,
            next: self.next_names(),
            ran: self.ran.iter().map(ToString::to_string).collect(),
            parents: self.scope.parents.to_vec(),
            run: match &*self.place.namespace {
                // What was changed by hand is still the thread that the run led to: it is not to run again.
                "" if by_hand => self.run_id.clone(),
                "" => self.scope.run.as_deref().map(str::to_owned),
                // The run is the thread's, and not of a graph in it.
                _ => None,
            },
            metadata: (*self.scope.metadata).clone(),
            copy_of: self.copy_of,
            task: self.scope.task,
        };
        header.seal().map_err(|error| RunError::Stored {
            what: "a checkpoint's header cannot be stored".into(),
            source: error.into(),
        })
    }

    /// What there is to say about each channel that changed.
    pub(super) fn items(&mut self) -> Result<Vec<(String, Item)>, RunError> {
        let mut items = Vec::new();
        for channel in std::mem::take(&mut self.dirty.channels) {
            if self.core.is_stored(channel) {
                let item = self.item(channel)?;
                items.push((self.core.channels[channel].name().to_string(), item));
            }
        }
        if self.dirty.sends {
            items.push((SENDS.into(), self.sends_item()?));
        }
        if self.dirty.waiting {
            let waiting = self.stored_waiting();
            items.push((
                WAITING.into(),
                Item::Value(encode_hidden(WAITING, &waiting)?),
            ));
        }
        Ok(items)
    }

    fn item(&mut self, channel: ChannelIx) -> Result<Item, RunError> {
        let spec = &self.core.channels[channel];
        let value = self.cells[channel].value();
        let Kind::Delta(snapshots) = spec.kind() else {
            return match value {
                Some(value) => Ok(Item::Value(seal(&self.core, channel, &value)?)),
                None => Ok(Item::Empty),
            };
        };
        match (self.dirty.logs.remove(&channel), value) {
            (Some(log), Some(value)) => self.delta_item(channel, snapshots, log, &value),
            (None, Some(value)) => self.snapshot_of(channel, &value).map(Item::Value),
            (_, None) => Ok(Item::Empty),
        }
    }

    fn delta_item(
        &mut self,
        channel: ChannelIx,
        snapshots: Snapshots,
        log: Vec<u8>,
        value: &Value,
    ) -> Result<Item, RunError> {
        let growth = &mut self.growth[channel];
        growth.writes += 1;
        growth.bytes += log.len() as u64;
        if !(growth.renamed || snapshots.due(growth.writes, growth.bytes, growth.snapshot)) {
            return Ok(Item::Log(log));
        }
        let value = self.snapshot_of(channel, value)?;
        Ok(Item::Snapshot { log, value })
    }

    fn snapshot_of(&mut self, channel: ChannelIx, value: &Value) -> Result<Vec<u8>, RunError> {
        let bytes = seal(&self.core, channel, value)?;
        self.growth[channel] = Growth {
            snapshot: bytes.len() as u64,
            ..Growth::default()
        };
        Ok(bytes)
    }

    fn sends_item(&self) -> Result<Item, RunError> {
        if self.routing.sends.is_empty() {
            return Ok(Item::Empty);
        }
        let sends = self.routing.sends.iter();
        let sends: Vec<StoredSend> = sends
            .map(|(node, payload)| store_send(&self.core, *node, payload))
            .collect::<Result<_, _>>()?;
        Ok(Item::Value(encode_hidden(SENDS, &sends)?))
    }

    fn stored_waiting(&self) -> StoredWaiting {
        let name = |node: &NodeIx| self.core.node_name(*node).to_string();
        let waiting = self.routing.waiting.iter();
        let arrived = self.routing.arrived.iter().zip(&self.core.joins);
        StoredWaiting {
            deferred: waiting.map(|due| (name(&due.node), due.edge)).collect(),
            joins: arrived
                .filter(|(sources, _)| !sources.is_empty())
                .map(|(sources, join)| (join.name.clone(), sources.iter().map(name).collect()))
                .collect(),
        }
    }

    /// The names of the nodes that are due on the state; of the hidden start while the input is not applied.
    fn next_names(&self) -> Vec<String> {
        if self.start_is_due.is_some() {
            return vec![START.into()];
        }
        let due = self.routing.due.iter();
        due.map(|due| self.core.node_name(due.node).to_string())
            .collect()
    }

    /// The records of tasks that make a checkpoint.
    fn records_of(&self, results: &[Settled]) -> Result<Vec<StoredTask>, RunError> {
        // Of a run that is stored at its end, only what its last superstep left has a checkpoint to stand at.
        if self.scope.saver.is_none() || self.stores_at_exit() {
            return Ok(Vec::new());
        }
        self.records(results, true)
    }

    fn records(&self, results: &[Settled], logged: bool) -> Result<Vec<StoredTask>, RunError> {
        let records = results.iter().zip(0..).map(|(settled, position)| {
            let Settled { task, done, failed } = settled;
            let state = match failed {
                Some(_) => RecordState::Failed,
                None => store_done(&self.core, done, logged)?,
            };
            let mut record = self.describe(task, state);
            record.error = failed.clone().or(record.error);
            stored_task(task.id, position, &record)
        });
        records.collect()
    }

    /// The same for a run that is stored at its end.
    async fn keep_refused(&mut self, results: &[Settled]) -> Result<(), RunError> {
        let records = self.records(results, false)?;
        self.save_records(records).await
    }

    /// A task's record with what is known of its failures, questions and answers.
    pub(super) fn describe(&self, task: &Planned, state: RecordState) -> Record {
        let known = self.records.get(&task.id);
        Record {
            node: task.name.to_string(),
            state,
            error: known.and_then(|record| record.error.clone()),
            asks: known.map(|record| record.asks.clone()).unwrap_or_default(),
            answers: known
                .map(|record| record.answers.clone())
                .unwrap_or_default(),
        }
    }

    /// Saves results at the checkpoint they ran on, to wait there for the rest of the superstep.
    pub(super) async fn save_results<'a>(
        &mut self,
        results: impl IntoIterator<Item = (usize, &'a Finished)>,
    ) -> Result<(), RunError> {
        if self.scope.saver.is_none() {
            return Ok(());
        }
        let mut records = Vec::new();
        for (position, finished) in results {
            let record = self.pending_record(finished)?;
            records.push(stored_task(finished.task.id, position as u32, &record)?);
            self.records.insert(finished.task.id, record);
        }
        self.save_records(records).await
    }

    fn pending_record(&self, finished: &Finished) -> Result<Record, RunError> {
        let state = match &finished.ended {
            Ended::Done(done) => store_done(&self.core, done, false)?,
            Ended::Asked(_) | Ended::Stopped(_) | Ended::Parent(_) | Ended::Failed(_) => {
                RecordState::Open
            }
            Ended::Rescued(_) => RecordState::Failed,
        };
        let mut record = self.describe(&finished.task, state);
        let rejected = self.scope.rejected();
        record.answers.retain(|(id, _)| !rejected.contains(id));
        match &finished.ended {
            Ended::Done(_) | Ended::Stopped(_) | Ended::Parent(_) => {}
            Ended::Asked(asks) => record.asks.clone_from(asks),
            Ended::Failed(error) => record.error = Some(error.to_string()),
            Ended::Rescued(error) => record.error = Some(error.clone()),
        }
        Ok(record)
    }
}

pub(super) fn stored_task(
    id: TaskId,
    position: u32,
    record: &Record,
) -> Result<StoredTask, RunError> {
    Ok(StoredTask {
        id,
        position,
        child: None,
        record: record.seal()?,
    })
}

/// The time, in milliseconds of Unix time.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// A channel's value in its frame.
fn seal(core: &Core, channel: ChannelIx, value: &Value) -> Result<Vec<u8>, RunError> {
    let name = core.channels[channel].name();
    let what = format!("the value of channel `{name}` cannot be stored");
    let payload = core.proofs.values[channel]
        .encode(value)
        .map_err(stored(what))?;
    Ok(frame::seal(value.type_of().name(), &payload))
}

fn encode_hidden<T: serde::Serialize>(name: &str, value: &T) -> Result<Vec<u8>, RunError> {
    frame::encode(name, value).map_err(|error| RunError::Stored {
        what: format!("`{name}` cannot be stored"),
        source: error.into(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::json;
    use superstep_channels::{ChannelSpec, Json, Snapshots, Value, append, fold_with};

    use crate::prelude::*;

    fn push(list: &mut Json, item: Json) -> Result<(), &'static str> {
        list.0.as_array_mut().ok_or("not a list")?.push(item.0);
        Ok(())
    }

    /// Two nodes that write the same two channels: one that takes both, and `winner`.
    fn graph(winner: ChannelSpec, ran: &Arc<AtomicU32>) -> Graph<Json> {
        let log = ChannelSpec::reduce_from("log", || Json(json!([])), fold_with(push));
        let names = ["a", "b"];
        let mut builder = Graph::<Json>::builder()
            .channel(log.as_delta(Snapshots::Amortised))
            .channel(winner);
        for name in names {
            let ran = Arc::clone(ran);
            let run = move |_: Json, _: Context| {
                ran.fetch_add(1, Ordering::Relaxed);
                let update = Update::new().put_value("log", Value::new(Json(json!(name))));
                async move { Ok(update.put_value("winner", Value::new(vec![name.to_owned()]))) }
            };
            builder = builder
                .node(Node::<Json>::new(name), run)
                .entry(Node::<Json>::new(name));
        }
        builder.build().unwrap()
    }

    #[tokio::test]
    async fn results_that_do_not_go_together_wait_for_a_graph_that_takes_them() {
        let (saver, ran) = (MemoryCheckpointer::default(), Arc::default());
        let guarded = graph(ChannelSpec::last::<Vec<String>>("winner"), &ran);
        let refused = guarded
            .thread(&saver, "t")
            .start(Update::new())
            .await
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "channel `winner` got 2 writes in one superstep but takes one: \
             let one node write it, or give it a reducer"
        );

        let open = graph(ChannelSpec::reduce("winner", append::<Vec<String>>), &ran);
        let outcome = open.thread(&saver, "t").proceed().await.unwrap();
        let expected = json!({ "log": ["a", "b"], "winner": ["a", "b"] });
        assert_eq!(outcome.done(), Some(Json(expected)));
        assert_eq!(ran.load(Ordering::Relaxed), 2);
    }
}
