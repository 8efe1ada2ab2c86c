//! Runs one thread for very long: `soak [SUPERSTEPS [none|sqlite]]`, a million and `sqlite` unless said otherwise.
//!
//! The state is bounded: counters, and a delta channel that keeps the last 16 numbers. On a stored thread the graph asks
//! every thousand supersteps, the run ends, and the next one opens the thread anew. Each tenth of the way prints the memory of
//! the process and the time of a superstep since the one before. It fails if the memory has grown by more than a tenth
//! between the first and the last. Linux only: elsewhere the memory is not known.

use std::fs;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use superstep::RunBuilder;
use superstep::checkpoint::SqliteCheckpointer;
use superstep::prelude::*;
use superstep_benches::Error;

const USAGE: &str = "usage: soak [SUPERSTEPS [none|sqlite]]";
/// Supersteps from one question to the next.
const ROUND: u64 = 1000;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Soaked {
    n: u64,
    until: u64,
    asks: bool,
    #[delta(keep_last)]
    recent: Vec<u64>,
}

fn keep_last(recent: &mut Vec<u64>, more: Vec<u64>) {
    recent.extend(more);
    let over = recent.len().saturating_sub(16);
    recent.drain(..over);
}

/// What was measured at each tenth.
struct Tenths(Mutex<Vec<Tenth>>);

struct Tenth {
    supersteps: u64,
    at: Instant,
    kib: u64,
}

impl Tenths {
    fn measure(&self, supersteps: u64) -> std::io::Result<()> {
        let tenth = Tenth {
            supersteps,
            at: Instant::now(),
            kib: resident_kib()?,
        };
        let mut tenths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = tenths.last() {
            let steps = tenth.supersteps - last.supersteps;
            let took = tenth.at.duration_since(last.at).as_secs_f64() * 1e6;
            println!(
                "{supersteps:>9} supersteps  {:>7} KiB  {:>8.2} us a superstep",
                tenth.kib,
                took / steps as f64
            );
        }
        tenths.push(tenth);
        Ok(())
    }

    /// Whether the memory stayed what it was at the first tenth.
    fn check(&self) -> Result<(), Error> {
        let tenths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [_, first, .., last] = tenths.as_slice() else {
            return Err("too few supersteps to compare".into());
        };
        match last.kib <= first.kib + first.kib / 10 {
            true => Ok(()),
            false => Err(format!("the memory grew from {} to {} KiB", first.kib, last.kib).into()),
        }
    }
}

fn resident_kib() -> std::io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
    number.ok_or_else(|| std::io::Error::other("no VmRSS in /proc/self/status"))
}

const COUNT: Node<Soaked> = Node::new("count");

async fn count(state: Soaked, cx: Context) -> NodeResult {
    let n = state.n + 1;
    if state.asks && n.is_multiple_of(ROUND) {
        cx.interrupt::<bool>("go on?").await;
    }
    if n.is_multiple_of(state.until / 10) {
        cx.context::<Arc<Tenths>>()?.measure(n)?;
    }
    Ok(Update::new().put(Soaked::N, n).put(Soaked::RECENT, vec![n]))
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    match runtime
        .map_err(Error::from)
        .and_then(|runtime| runtime.block_on(soak()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn soak() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let supersteps = arguments.first().map(|text| text.parse::<u64>());
    let supersteps = supersteps.transpose().map_err(|_| USAGE)?;
    let until = supersteps.unwrap_or(1_000_000).next_multiple_of(10 * ROUND);
    let graph = Graph::<Soaked>::builder()
        .node(COUNT, count)
        .entry(COUNT)
        .branch(COUNT, |state| (state.n < state.until).then_some(COUNT))
        .build()?;
    let folder = tempfile::tempdir()?;
    let store = SqliteCheckpointer::open(folder.path().join("threads.db"))?;
    let (thread, asks) = match arguments.get(1).map_or("sqlite", String::as_str) {
        "none" => (graph.detached(), false),
        "sqlite" => (graph.thread(&store, "soak"), true),
        _ => return Err(USAGE.into()),
    };
    let tenths = Arc::new(Tenths(Mutex::default()));
    tenths.measure(0)?;
    let input = Soaked {
        until,
        asks,
        ..Soaked::default()
    };
    let ready = |run: RunBuilder<Soaked>| run.limit(u32::MAX).context(Arc::clone(&tenths));
    let mut outcome = ready(thread.start(input)).await?;
    while !outcome.asks().is_empty() {
        outcome = ready(thread.resume([Answer::only(true)])).await?;
    }
    let end = outcome.done().ok_or("it did not get done")?;
    if (end.n, end.recent) != (until, (until - 15..=until).collect()) {
        return Err("it counted wrong".into());
    }
    tenths.check()
}
