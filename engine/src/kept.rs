//! What a thread handle keeps from one run to the next.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use superstep_checkpoint::{Checkpointer, SaveError};

use crate::run::Run;

/// Keeps the thread as the last run left it, so that the next one need not read it. Whether it still is so is asked before.
/// Handles that were cloned from each other share it.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Option<Box<Run>>>>);

impl Kept {
    /// Takes what was kept, if the store says that nothing happened to the thread since.
    pub(crate) async fn take(&self, saver: &dyn Checkpointer) -> Result<Option<Run>, SaveError> {
        let Some(run) = self.take_any() else {
            return Ok(None);
        };
        let now = saver.head(run.place()).await?;
        Ok((now.is_some() && now == run.head()).then_some(*run))
    }

    pub(crate) fn put(&self, run: Run) {
        *self.lock() = Some(Box::new(run));
    }

    fn take_any(&self) -> Option<Box<Run>> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Run>>> {
        // Held to put and to take only.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}
