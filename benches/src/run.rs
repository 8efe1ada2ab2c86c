//! One run of one graph, and what has to come out of it.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use superstep::checkpoint::{Checkpointer, MemoryCheckpointer};
use superstep::{Graph, State, Thread};
use superstep_checkpoint::SqliteCheckpointer;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A failure of the benchmark itself.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A graph to be measured, and the check that it did its work.
pub trait Bench {
    /// The graph's state.
    type State: State;

    /// The graph.
    fn graph(&self) -> &Graph<Self::State>;

    /// Runs it once to its end, and fails if the result is wrong.
    fn run(&self, thread: &Thread<Self::State>) -> impl Future<Output = Result<(), Error>>;

    /// How many supersteps a run takes, the input not counted.
    fn supersteps(&self) -> u64;
}

/// The processor time of all threads of this process so far, in microseconds.
pub fn processor_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Where a run keeps its checkpoints.
#[derive(Debug)]
pub enum Saver {
    /// Nowhere.
    None,
    /// In memory, a new store for each run.
    Memory,
    /// In a file of its own on the disk of the temporary folder, a new thread for each run.
    Sqlite(SqliteCheckpointer, TempDir),
}

impl Saver {
    /// A saver by name: `none`, `memory` or `sqlite`.
    pub fn named(name: &str) -> Result<Self, Error> {
        match name {
            "none" => Ok(Saver::None),
            "memory" => Ok(Saver::Memory),
            "sqlite" => {
                let folder = tempfile::tempdir()?;
                let store = SqliteCheckpointer::open(folder.path().join("threads.db"))?;
                Ok(Saver::Sqlite(store, folder))
            }
            other => Err(format!("no saver `{other}`: none, memory or sqlite").into()),
        }
    }
}

/// Runs a graph again and again, each time on a thread of its own.
pub struct Driver<B> {
    bench: B,
    saver: Saver,
    runtime: Runtime,
    runs: u64,
}

impl<B: Bench> Driver<B> {
    /// A driver on a runtime of one thread.
    pub fn new(bench: B, saver: Saver) -> Result<Self, Error> {
        Ok(Driver {
            bench,
            saver,
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
            runs: 0,
        })
    }

    /// Runs the graph once and says how long that took.
    /// Fails if the result is wrong, or if the saver does not hold one checkpoint for each superstep and two for the input.
    pub fn run(&mut self) -> Result<Duration, Error> {
        self.runs += 1;
        let id = format!("run-{}", self.runs);
        let graph = self.bench.graph();
        match &self.saver {
            Saver::None => self.time(&graph.detached()),
            Saver::Memory => {
                let store = MemoryCheckpointer::new();
                let took = self.time(&graph.thread(&store, &*id))?;
                self.check_stored(&store, &id)?;
                Ok(took)
            }
            Saver::Sqlite(store, _) => {
                let took = self.time(&graph.thread(store, &*id))?;
                self.check_stored(store, &id)?;
                Ok(took)
            }
        }
    }

    fn time(&self, thread: &Thread<B::State>) -> Result<Duration, Error> {
        let start = Instant::now();
        self.runtime.block_on(self.bench.run(thread))?;
        Ok(start.elapsed())
    }

    fn check_stored(&self, store: &impl Checkpointer, thread: &str) -> Result<(), Error> {
        let stored = self.runtime.block_on(store.size(thread))?.checkpoints();
        expect("checkpoints", stored, self.bench.supersteps() + 2)
    }
}

impl<B> fmt::Debug for Driver<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("saver", &self.saver)
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

/// An error if something came out otherwise than it should.
pub(crate) fn expect<T: PartialEq + fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}").into())
}
