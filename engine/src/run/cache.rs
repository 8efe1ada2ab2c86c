//! Results that are kept for equal inputs.

use superstep_checkpoint::CacheKey;

use super::Run;
use super::execute::{Ended, Finished};
use super::plan::{Path, Planned};
use crate::error::{RunError, stored};
use crate::policy::{Cached, key};
use crate::record::{Done, Record, RecordState, load_done, store_done};

impl Run {
    /// The result that is kept for the input of a task, if there is one. What cannot be read counts as not there, and is told.
    pub(super) async fn find_cached(&self, task: &Planned) -> Result<Option<Finished>, RunError> {
        let Some((cached, key)) = self.cache_of(task)? else {
            return Ok(None);
        };
        let found = match cached.store.get(key).await {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => self.read_cached(&bytes),
            Err(error) => Err(error.into()),
        };
        Ok(match found {
            Ok(done) => Some(Finished {
                task: task.clone(),
                ended: Ended::Done(done),
                saved: false,
                kept: true,
            }),
            Err(error) => {
                self.tell_cache_failed(task, &error);
                None
            }
        })
    }

    /// Keeps the results of tasks that ran. A cache that fails fails no run, but it is told.
    pub(super) async fn keep_cached(&self, results: &[Finished]) -> Result<(), RunError> {
        for finished in results {
            let Finished { task, ended, .. } = finished;
            let (Ended::Done(done), false) = (ended, finished.saved || finished.kept) else {
                continue;
            };
            let Some((cached, key)) = self.cache_of(task)? else {
                continue;
            };
            let record = Record::new(&*task.name, store_done(&self.core, done, false)?).seal()?;
            if let Err(error) = cached.store.put(key, record, cached.ttl).await {
                self.tell_cache_failed(task, &error.into());
            }
        }
        Ok(())
    }

    /// Where results of a task are kept; nothing for error handlers, whose input is a failure.
    fn cache_of(&self, task: &Planned) -> Result<Option<(&Cached, CacheKey)>, RunError> {
        let node = &self.core.nodes[task.node];
        let cached = node
            .policy
            .as_ref()
            .and_then(|policy| policy.cached.as_ref());
        let (Some(cached), Path::State | Path::Send(..)) = (cached, &task.path) else {
            return Ok(None);
        };
        let key = key(&self.core, node, cached, &self.input(task));
        let what = format!("the input of node `{}` cannot be looked up", task.name);
        Ok(Some((cached, key.map_err(stored(what))?)))
    }

    fn read_cached(&self, bytes: &[u8]) -> Result<Done, RunError> {
        match Record::open(bytes)?.state {
            RecordState::Done { writes, targets } => {
                load_done(&self.core, writes, targets, |_| None)
            }
            RecordState::Open | RecordState::Failed | RecordState::Returned { .. } => {
                Err(RunError::unknown("a result that is kept for", "an input"))
            }
        }
    }
}
