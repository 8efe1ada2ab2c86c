//! Results that stand on their own before their task has ended: durable steps, and routines that nodes call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use superstep_channels::{Data, Name, Type, Value};
use superstep_checkpoint::TaskId;
use tokio::sync::{mpsc, oneshot};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::TaskError;
use crate::record::{Record, RecordState, TypedBytes};

/// What is known of results within the tasks of a superstep, and where new ones are handed in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    known: Arc<Mutex<HashMap<TaskId, Record>>>,
    /// Nothing on a thread that is not stored.
    entries: Option<mpsc::UnboundedSender<Entry>>,
}

/// What a task hands in to its run, and how it hears that it is stored.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A result.
    Result(TaskId, Record, oneshot::Sender<()>),
    /// Nothing: the task waits until everything is stored that its run did before it.
    CatchUp(oneshot::Sender<()>),
}

/// The id of the n-th step of a task, or of the n-th routine that it calls.
pub(crate) fn inner_id(task: TaskId, kind: &str, index: u32) -> TaskId {
    let mut bytes = task.0.to_vec();
    bytes.extend(kind.as_bytes());
    bytes.extend(index.to_be_bytes());
    TaskId(xxh3_128(&bytes).to_be_bytes())
}

impl Journal {
    pub(crate) fn new(entries: Option<mpsc::UnboundedSender<Entry>>) -> Self {
        Journal {
            known: Arc::default(),
            entries,
        }
    }

    /// Makes a stored result known.
    pub(crate) fn know(&self, id: TaskId, record: Record) {
        self.known().insert(id, record);
    }

    /// Forgets the results of a superstep that is over.
    pub(crate) fn forget(&self) {
        self.known().clear();
    }

    fn known(&self) -> MutexGuard<'_, HashMap<TaskId, Record>> {
        // Held over single changes only.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of an earlier attempt, if there is one: of this name and type.
    pub(crate) fn find(
        &self,
        id: TaskId,
        name: &Name,
        wanted: Type,
    ) -> Result<Option<Value>, TaskError> {
        let Some(record) = self.known().get(&id).cloned() else {
            return Ok(None);
        };
        if record.node != *name {
            return Err(TaskError::Changed {
                found: record.node.clone(),
                now: name.clone(),
            });
        }
        let RecordState::Returned { value } = &record.state else {
            return Ok(None);
        };
        let value = value.read(|stored, bytes| match stored == wanted.name() {
            true => wanted.decode(bytes),
            false => Err(superstep_channels::CodecError {
                type_name: wanted.name().to_owned(),
                reason: format!("what is stored is a `{stored}`"),
            }),
        });
        value.map(Some).map_err(|error| TaskError::Journal {
            name: name.clone(),
            reason: error.to_string(),
        })
    }

    /// Stores a result, and waits until it is.
    pub(crate) async fn store<T: Data>(
        &self,
        id: TaskId,
        name: &Name,
        value: &T,
    ) -> Result<(), TaskError> {
        self.store_value(id, name, &Value::new(value.clone())).await
    }

    pub(crate) async fn store_value(
        &self,
        id: TaskId,
        name: &Name,
        value: &Value,
    ) -> Result<(), TaskError> {
        let value = TypedBytes::checked(value).map_err(|error| TaskError::Journal {
            name: name.clone(),
            reason: error.to_string(),
        })?;
        let record = Record::new(&**name, RecordState::Returned { value });
        if let Some(entries) = &self.entries {
            let (stored, reply) = oneshot::channel();
            let record = record.clone();
            let entry = Entry::Result(id, record, stored);
            // If the run is gone, or could not store it, nobody hears of the result: the run fails or its task is dropped.
            if entries.send(entry).is_err() || reply.await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        self.know(id, record);
        Ok(())
    }
}
