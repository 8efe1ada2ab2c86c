//! The two threads that own the connections.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::{File, Stop};
use crate::SaveError;

/// How many jobs may queue before callers wait in line.
const QUEUE: usize = 1024;

/// How many changes go to the disk together at most.
const GROUP: usize = 256;

/// A thread that works off a queue. Dropping it waits until the queue is empty.
struct Worker<J> {
    queue: Option<mpsc::Sender<J>>,
    thread: Option<JoinHandle<()>>,
    file: Arc<File>,
}

impl<J: Send + 'static> Worker<J> {
    fn start(
        name: &str,
        file: Arc<File>,
        serve: impl FnOnce(mpsc::Receiver<J>) + Send + 'static,
    ) -> Result<Self, SaveError> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || serve(jobs))
            .map_err(|error| file.failed("starting a thread for", error.to_string()))?;
        Ok(Worker {
            queue: Some(queue),
            thread: Some(thread),
            file,
        })
    }

    /// Hands in a job and waits for what it sends back.
    async fn run<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> J) -> Result<T, SaveError> {
        let gone = || self.file.failed("using", "its thread has ended".into());
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        let (done, answer) = oneshot::channel();
        queue.send(job(done)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

impl<J> Drop for Worker<J> {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say: whoever waited for a job of a thread that broke was told.
            let _ = thread.join();
        }
    }
}

type Query = Box<dyn FnOnce(&Connection) + Send>;

/// Answers queries one by one, each on one state of the file.
pub(super) struct Reader(Worker<Query>);

impl Reader {
    pub(super) fn start(db: Connection, file: Arc<File>) -> Result<Self, SaveError> {
        let serve = move |mut queries: mpsc::Receiver<Query>| {
            while let Some(query) = queries.blocking_recv() {
                query(&db);
            }
        };
        Worker::start("sqlite-reader", file, serve).map(Reader)
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, SaveError> {
        let job = |done: oneshot::Sender<_>| -> Query {
            Box::new(move |db| {
                let snapshot = db.unchecked_transaction().map_err(Stop::from);
                // The caller may have stopped waiting.
                let _ = done.send(snapshot.and_then(|snapshot| query(&snapshot)));
            })
        };
        let failed = |stop| self.0.file.save_error("reading", stop);
        self.0.run(job).await?.map_err(failed)
    }
}

type Change = Box<dyn FnOnce(&Connection) -> Result<(), Stop> + Send>;

struct Job {
    change: Change,
    done: Caller,
}

/// Who waits for a change, and that it is not made yet.
struct Caller(oneshot::Sender<Result<(), SaveError>>, Unsettled);

/// Counts as long as it lives.
struct Unsettled(Arc<AtomicUsize>);

impl Unsettled {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Unsettled(Arc::clone(count))
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes changes, several in one transaction when several are waiting.
pub(super) struct Writer {
    worker: Worker<Job>,
    unsettled: Arc<AtomicUsize>,
}

impl Writer {
    pub(super) fn start(mut db: Connection, file: Arc<File>) -> Result<Self, SaveError> {
        let named = Arc::clone(&file);
        let serve = move |mut jobs: mpsc::Receiver<Job>| {
            while let Some(first) = jobs.blocking_recv() {
                serve_group(&mut db, first, &mut jobs, &named);
            }
        };
        Ok(Writer {
            worker: Worker::start("sqlite-writer", file, serve)?,
            unsettled: Arc::default(),
        })
    }

    /// Waits until the changes that are queued now are made.
    pub(super) async fn settle(&self) -> Result<(), SaveError> {
        match self.unsettled.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ => self.run(|_| Ok(())).await,
        }
    }

    pub(super) async fn run(
        &self,
        change: impl FnOnce(&Connection) -> Result<(), Stop> + Send + 'static,
    ) -> Result<(), SaveError> {
        let change = Box::new(change);
        let unsettled = Unsettled::new(&self.unsettled);
        let job = |done| Job {
            change,
            done: Caller(done, unsettled),
        };
        self.worker.run(job).await?
    }
}

fn serve_group(db: &mut Connection, first: Job, jobs: &mut mpsc::Receiver<Job>, file: &File) {
    // The lock is taken first: what comes in while we wait for it joins the group.
    let begun = db.transaction_with_behavior(TransactionBehavior::Immediate);
    let waiting = iter::from_fn(|| jobs.try_recv().ok());
    let (changes, callers): (Vec<_>, Vec<_>) = iter::once(first)
        .chain(waiting)
        .take(GROUP)
        .map(|job| (job.change, job.done))
        .unzip();
    let failed = |error: &_| file.sqlite_error("writing", error);
    let outcomes: Vec<Result<(), SaveError>> = match begun.and_then(|tx| run_group(tx, changes)) {
        Ok(outcomes) => outcomes
            .into_iter()
            .map(|outcome| outcome.map_err(|stop| file.save_error("writing", stop)))
            .collect(),
        Err(error) => callers.iter().map(|_| Err(failed(&error))).collect(),
    };
    for (Caller(caller, unsettled), outcome) in callers.into_iter().zip(outcomes) {
        drop(unsettled);
        // The caller may have stopped waiting.
        let _ = caller.send(outcome);
    }
}

/// Makes every change that can be made and commits them together. An error means that nothing was stored.
fn run_group(
    mut tx: Transaction<'_>,
    changes: Vec<Change>,
) -> rusqlite::Result<Vec<Result<(), Stop>>> {
    let mut outcomes = Vec::with_capacity(changes.len());
    for change in changes {
        let savepoint = tx.savepoint()?;
        let outcome = match change(&savepoint) {
            Ok(()) => Ok(savepoint.commit()?),
            // On a full disk, for example, SQLite gives up the whole transaction.
            Err(Stop::Sqlite(error)) if savepoint.is_autocommit() => return Err(error),
            Err(stop) => savepoint.finish().map(|()| Err(stop))?,
        };
        outcomes.push(outcome);
    }
    tx.commit()?;
    Ok(outcomes)
}
