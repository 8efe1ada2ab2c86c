//! A graph nested in a thread, as callers see it.

use std::fmt;

use futures::future::BoxFuture;
use superstep_channels::Json;
use superstep_checkpoint::CheckpointId;

use crate::amendment::StateUpdate;
use crate::error::RunError;
use crate::snapshot::Snapshot;
use crate::thread::Thread;

/// What a graph nested in a thread has stored: its state, its history, and changes of it by hand.
/// See [`Thread::nested`](crate::Thread::nested).
///
/// It does not run by itself: run the thread, or [go back](crate::Thread::at_nested) to one of its checkpoints.
#[derive(Clone)]
pub struct Nested(Thread<Json>);

impl Nested {
    pub(crate) fn new(thread: Thread<Json>) -> Self {
        Nested(thread)
    }

    /// The namespace of its checkpoints.
    pub fn namespace(&self) -> &str {
        self.0.namespace()
    }

    /// The same as of one of its checkpoints. See [`Thread::at`](crate::Thread::at).
    #[must_use]
    pub fn at(&self, checkpoint: CheckpointId) -> Self {
        Nested(self.0.at(checkpoint))
    }

    /// Its state. See [`Thread::state`](crate::Thread::state).
    pub async fn state(&self) -> Result<Snapshot, RunError> {
        self.0.state().await
    }

    /// Its state with those of graphs nested in it. See [`Thread::state_nested`](crate::Thread::state_nested).
    pub async fn state_nested(&self) -> Result<Snapshot, RunError> {
        self.clone().expanded().await
    }

    /// Boxed, because graphs nest to any depth.
    pub(crate) fn expanded(self) -> BoxFuture<'static, Result<Snapshot, RunError>> {
        Box::pin(async move { self.0.state_nested().await })
    }

    /// The records of its checkpoints. See [`Thread::history`](crate::Thread::history).
    pub async fn history(&self, limit: usize) -> Result<Vec<Snapshot>, RunError> {
        self.0.history(limit).await
    }

    /// Changes its state by hand. See [`Thread::update`](crate::Thread::update).
    pub async fn update(&self, update: impl Into<StateUpdate>) -> Result<CheckpointId, RunError> {
        self.0.update(update).await
    }

    /// Changes its state by hand several times. See [`Thread::update_all`](crate::Thread::update_all).
    pub async fn update_all<U: IntoIterator<Item = StateUpdate>>(
        &self,
        supersteps: impl IntoIterator<Item = U>,
    ) -> Result<CheckpointId, RunError> {
        self.0.update_all(supersteps).await
    }
}

impl fmt::Debug for Nested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Nested").field(&self.namespace()).finish()
    }
}
