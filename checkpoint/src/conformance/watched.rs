//! A checkpointer or store around another one, that sees every call and can make it fail.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use crate::store::{Change, Namespace, Row, StoreBackend};
use crate::{
    CheckpointId, Checkpointer, Commit, Head, Listed, Loaded, Place, SaveError, Seen, Size,
    StoredTask, StoredThread, Stretch,
};

/// A call of a checkpointer, as a [`Watch`] sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Call {
    /// [`Checkpointer::load`].
    Load(Place),
    /// [`Checkpointer::head`].
    Head(Place),
    /// [`Checkpointer::list`], [`way`](Checkpointer::way), [`tasks`](Checkpointer::tasks), [`logs`](Checkpointer::logs), [`places`](Checkpointer::places),
    /// [`export`](Checkpointer::export) or [`size`](Checkpointer::size), or what reads of a [`StoreBackend`].
    Read,
    /// [`Checkpointer::commit`].
    Commit(Place, Vec<Commit>),
    /// [`Checkpointer::save_tasks`].
    SaveTasks(Place, Vec<StoredTask>),
    /// [`StoreBackend::write`].
    Change(Vec<Change>),
    /// [`StoreBackend::sweep`], [`Checkpointer::copy_thread`], [`delete_thread`](Checkpointer::delete_thread), [`remove`](Checkpointer::remove) or
    /// [`import`](Checkpointer::import).
    Maintain,
}

impl Call {
    /// Whether the call changes what is stored.
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Call::Commit(..) | Call::SaveTasks(..) | Call::Change(_) | Call::Maintain
        )
    }
}

/// What a [`Watch`] does to a call before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is made.
    None,
    /// It is not made, and fails.
    Fail,
    /// It is made, and fails nevertheless: the caller cannot know.
    FailAfter,
    /// It is not made and never returns, as if the process had died before.
    Crash,
    /// It is made and never returns, as if the process had died after.
    CrashAfter,
    /// Of several commits, or several tasks, only the first half is stored; then it fails. No checkpointer may ever do this.
    Tear,
}

/// Sees calls.
#[async_trait]
pub trait Watch: Send + Sync {
    /// A call that is about to be made, and what is to be done to it. It may take its time.
    async fn before(&self, call: &Call) -> Fault {
        let _ = call;
        Fault::None
    }

    /// A call that was made and succeeded.
    async fn after(&self, call: &Call) {
        let _ = call;
    }
}

/// A [`Watch`] that asks a function, given the call and how many there were before it.
pub struct Faults<F> {
    plan: F,
    calls: AtomicU64,
}

impl<F: Fn(&Call, u64) -> Fault + Send + Sync> Faults<F> {
    /// A watch that does as planned.
    pub fn new(plan: F) -> Self {
        Faults {
            plan,
            calls: AtomicU64::new(0),
        }
    }
}

#[async_trait]
impl<F: Fn(&Call, u64) -> Fault + Send + Sync> Watch for Faults<F> {
    async fn before(&self, call: &Call) -> Fault {
        (self.plan)(call, self.calls.fetch_add(1, Ordering::Relaxed))
    }
}

/// A checkpointer, or the backend of a long-term store, whose calls somebody watches. A clone shares the watch.
///
/// ```
/// use superstep_checkpoint::conformance::{Call, Fault, Faults, Watched};
/// use superstep_checkpoint::{Checkpointer, MemoryCheckpointer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let second = Faults::new(|_: &Call, before| if before == 1 { Fault::Fail } else { Fault::None });
/// let store = Watched::new(MemoryCheckpointer::new(), second);
/// assert!(store.delete_thread("t").await.is_ok());
/// assert!(store.delete_thread("t").await.is_err());
/// # }
/// ```
pub struct Watched<C> {
    inner: C,
    watch: Arc<dyn Watch>,
}

impl<F> fmt::Debug for Faults<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}

impl<C> Watched<C> {
    /// Puts a watch around a checkpointer.
    pub fn new(inner: C, watch: impl Watch + 'static) -> Self {
        Watched {
            inner,
            watch: Arc::new(watch),
        }
    }

    async fn call<T>(
        &self,
        call: Call,
        made: impl Future<Output = Result<T, SaveError>>,
    ) -> Result<T, SaveError> {
        let fault = self.watch.before(&call).await;
        self.faulty(fault, call, made).await
    }

    async fn faulty<T>(
        &self,
        fault: Fault,
        call: Call,
        made: impl Future<Output = Result<T, SaveError>>,
    ) -> Result<T, SaveError> {
        match fault {
            Fault::Crash => std::future::pending::<()>().await,
            Fault::Fail => return Err(planned()),
            Fault::None | Fault::FailAfter | Fault::CrashAfter | Fault::Tear => {}
        }
        let made = made.await?;
        match fault {
            Fault::CrashAfter => std::future::pending::<()>().await,
            Fault::FailAfter | Fault::Tear => return Err(planned()),
            Fault::None | Fault::Fail | Fault::Crash => {}
        }
        self.watch.after(&call).await;
        Ok(made)
    }
}

fn planned() -> SaveError {
    SaveError::Backend {
        what: "a call that was to fail".into(),
        source: "as planned".into(),
    }
}

/// What is left of what was to be stored, torn or not.
fn torn<T>(mut all: Vec<T>, fault: Fault) -> Vec<T> {
    if fault == Fault::Tear {
        all.truncate(all.len() / 2);
    }
    all
}

impl<C: Clone> Clone for Watched<C> {
    fn clone(&self) -> Self {
        Watched {
            inner: self.inner.clone(),
            watch: Arc::clone(&self.watch),
        }
    }
}

impl<C: fmt::Debug> fmt::Debug for Watched<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.inner).finish()
    }
}

#[async_trait]
impl<C: Checkpointer> Checkpointer for Watched<C> {
    async fn load(
        &self,
        place: &Place,
        at: Option<CheckpointId>,
    ) -> Result<Option<Loaded>, SaveError> {
        self.call(Call::Load(place.clone()), self.inner.load(place, at))
            .await
    }

    async fn head(&self, place: &Place) -> Result<Option<Head>, SaveError> {
        self.call(Call::Head(place.clone()), self.inner.head(place))
            .await
    }

    async fn list(
        &self,
        place: &Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<Listed>, SaveError> {
        self.call(Call::Read, self.inner.list(place, before, limit))
            .await
    }

    async fn way(&self, place: &Place, from: CheckpointId) -> Result<Vec<Stretch>, SaveError> {
        self.call(Call::Read, self.inner.way(place, from)).await
    }

    async fn tasks(&self, place: &Place, base: CheckpointId) -> Result<Vec<StoredTask>, SaveError> {
        self.call(Call::Read, self.inner.tasks(place, base)).await
    }

    async fn logs(
        &self,
        place: &Place,
        id: CheckpointId,
    ) -> Result<Vec<(String, Vec<u8>)>, SaveError> {
        self.call(Call::Read, self.inner.logs(place, id)).await
    }

    async fn commit(&self, place: &Place, commits: Vec<Commit>) -> Result<(), SaveError> {
        let call = Call::Commit(place.clone(), commits.clone());
        let fault = self.watch.before(&call).await;
        let made = self.inner.commit(place, torn(commits, fault));
        self.faulty(fault, call, made).await
    }

    async fn save_tasks(
        &self,
        place: &Place,
        seen: Seen,
        base: CheckpointId,
        tasks: Vec<StoredTask>,
    ) -> Result<(), SaveError> {
        let call = Call::SaveTasks(place.clone(), tasks.clone());
        let fault = self.watch.before(&call).await;
        let made = self.inner.save_tasks(place, seen, base, torn(tasks, fault));
        self.faulty(fault, call, made).await
    }

    async fn copy_thread(&self, thread: &str, to: &str) -> Result<(), SaveError> {
        self.call(Call::Maintain, self.inner.copy_thread(thread, to))
            .await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaveError> {
        self.call(Call::Maintain, self.inner.delete_thread(thread))
            .await
    }

    async fn remove(&self, place: &Place, ids: Vec<CheckpointId>) -> Result<(), SaveError> {
        self.call(Call::Maintain, self.inner.remove(place, ids))
            .await
    }

    async fn places(&self, after: Option<&Place>, limit: usize) -> Result<Vec<Place>, SaveError> {
        self.call(Call::Read, self.inner.places(after, limit)).await
    }

    async fn export(&self, thread: &str) -> Result<Option<StoredThread>, SaveError> {
        self.call(Call::Read, self.inner.export(thread)).await
    }

    async fn import(&self, thread: &str, stored: StoredThread) -> Result<(), SaveError> {
        self.call(Call::Maintain, self.inner.import(thread, stored))
            .await
    }

    async fn size(&self, thread: &str) -> Result<Size, SaveError> {
        self.call(Call::Read, self.inner.size(thread)).await
    }
}

#[async_trait]
impl<B: StoreBackend> StoreBackend for Watched<B> {
    async fn write(&self, changes: Vec<Change>) -> Result<(), SaveError> {
        let call = Call::Change(changes.clone());
        let fault = self.watch.before(&call).await;
        let made = self.inner.write(torn(changes, fault));
        self.faulty(fault, call, made).await
    }

    async fn get(&self, namespace: &Namespace, key: &str) -> Result<Option<Row>, SaveError> {
        self.call(Call::Read, self.inner.get(namespace, key)).await
    }

    async fn scan(
        &self,
        prefix: &Namespace,
        after: Option<(&Namespace, &str)>,
        limit: usize,
        vectors: bool,
    ) -> Result<Vec<Row>, SaveError> {
        let made = self.inner.scan(prefix, after, limit, vectors);
        self.call(Call::Read, made).await
    }

    async fn namespaces(&self, prefix: &Namespace, now: u64) -> Result<Vec<Namespace>, SaveError> {
        self.call(Call::Read, self.inner.namespaces(prefix, now))
            .await
    }

    async fn sweep(&self, now: u64) -> Result<u64, SaveError> {
        self.call(Call::Maintain, self.inner.sweep(now)).await
    }
}
