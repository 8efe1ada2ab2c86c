//! Storing events with the checkpoints that they tell of, and reading them back.

use superstep_channels::{Data, Type, Value};
use superstep_checkpoint::{CheckpointId, Checkpointer, Place, StoredTask};

use super::Run;
use super::plan::task_id;
use super::save::stored_task;
use crate::error::{RunError, stored};
use crate::event_log::{EventId, Logged};
use crate::record::{Record, RecordState, TypedBytes};

/// The name under which events are stored; no node can have it.
pub(super) const LOG: &str = "__log__";

impl Run {
    /// What was told and is not stored yet, as a task of the superstep.
    pub(super) fn log_record(&self) -> Result<Option<StoredTask>, RunError> {
        if !self.place.namespace.is_empty() || !self.scope.sink.logs() {
            return Ok(None);
        }
        let parts = self.scope.sink.take_log();
        let Some(first) = parts.first() else {
            return Ok(None);
        };
        let id = task_id(self.moment(), LOG, Some(first.id.index as usize));
        let value = TypedBytes::checked(&Value::new(parts)).map_err(stored("events"))?;
        let record = Record::new(LOG, RecordState::Returned { value });
        stored_task(id, u32::MAX, &record).map(Some)
    }

    /// Says what the run stands on, and how many events are stored there.
    pub(super) fn stand(&self, stored: u32) {
        if self.place.namespace.is_empty() {
            let base = self.base.unwrap_or(CheckpointId(0));
            self.scope.sink.stand_on(base, stored);
        }
    }
}

/// The events in a record, if it is one of the log.
pub(super) fn logged(record: &Record) -> Result<Vec<Logged>, RunError> {
    let RecordState::Returned { value } = &record.state else {
        return Ok(Vec::new());
    };
    let read = value.read(|name, bytes| match name == list().name() {
        true => list().decode(bytes),
        false => Err(superstep_channels::CodecError {
            type_name: list().name().to_owned(),
            reason: format!("what is stored is a `{name}`"),
        }),
    });
    let read = read.map_err(stored("stored events cannot be read"))?;
    Ok(taken(read))
}

fn list() -> Type {
    Type::of::<Vec<Logged>>()
}

fn taken<T: Data + Default>(value: Value) -> T {
    value.take().unwrap_or_default()
}

/// The logged events of a thread on the way to its newest checkpoint, oldest first, at most `limit`.
pub(crate) async fn events(
    saver: &dyn Checkpointer,
    place: &Place,
    after: Option<EventId>,
    limit: usize,
) -> Result<Vec<Logged>, RunError> {
    let way = way(saver, place).await?;
    let from = after.map_or(CheckpointId(0), |after| after.checkpoint);
    // What is told of a run that is stored at its end stands with the checkpoint before.
    let begin = match way.binary_search(&from) {
        Ok(at) => at.saturating_sub(1),
        Err(_) => {
            return Err(RunError::UnknownEvent {
                place: place.to_string(),
                id: after.map_or_else(String::new, |id| id.to_string()),
            });
        }
    };
    let mut found = Vec::new();
    for &base in &way[begin..] {
        for task in saver.tasks(place, base).await? {
            if task
                .child
                .is_some_and(|child| way.binary_search(&child).is_err())
            {
                continue;
            }
            let record = Record::open(&task.record)?;
            if record.node == LOG {
                found.extend(logged(&record)?);
            }
        }
        found.retain(|logged| after.is_none_or(|after| logged.id > after));
        found.sort_by_key(|logged| logged.id);
        found.dedup_by_key(|logged| logged.id);
        if found.len() >= limit {
            found.truncate(limit);
            break;
        }
    }
    Ok(found)
}

/// The checkpoints on the way to the newest one, oldest first, after 0, which stands for none.
async fn way(saver: &dyn Checkpointer, place: &Place) -> Result<Vec<CheckpointId>, RunError> {
    let mut way = Vec::new();
    let mut next = None;
    for listed in saver.list(place, None, usize::MAX).await? {
        if next.is_none_or(|wanted| wanted == Some(listed.id)) {
            way.push(listed.id);
            next = Some(listed.parent);
        }
    }
    way.push(CheckpointId(0));
    way.reverse();
    Ok(way)
}
