//! Running the thread, and looking at it now and then.

use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

use superstep::checkpoint::{Checkpointer, Kind, Place};
use superstep_benches::{Error, processor_us};
use tokio::runtime::Runtime;

use crate::policy::Policy;
use crate::store::{SaverKind, Store};
use crate::theory::{self, Sizes};
use crate::workload::{StateKind, THREAD, Turns, thread};

/// How a thread grew.
pub(crate) struct Curve {
    pub(crate) state: StateKind,
    pub(crate) policy: Policy,
    pub(crate) saver: SaverKind,
    pub(crate) payload: usize,
    pub(crate) points: Vec<Point>,
}

/// The thread after so many turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) turns: u64,
    /// Bytes of text that came in.
    pub(crate) payload: u64,
    pub(crate) sizes: Sizes,
    pub(crate) expected: Sizes,
    pub(crate) file: u64,
    /// Medians of the turns since the point before, in microseconds.
    pub(crate) cpu_us: f64,
    pub(crate) wall_us: f64,
    /// Reading all of it by a program that was just started, in microseconds.
    pub(crate) open_us: f64,
}

impl Curve {
    /// The exponent of the bytes' growth over the last tenth of the scale: 1 is linear, 2 quadratic.
    pub(crate) fn exponent(&self) -> Option<f64> {
        let last = self.points.last()?;
        let late = self
            .points
            .iter()
            .filter(|point| 10 * point.turns >= last.turns);
        let logs: Vec<(f64, f64)> = late
            .map(|point| ((point.turns as f64).ln(), (point.sizes.total() as f64).ln()))
            .collect();
        let count = logs.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|log| log.0), mean(|log| log.1));
        let covariance: f64 = logs.iter().map(|log| (log.0 - x) * (log.1 - y)).sum();
        let variance: f64 = logs.iter().map(|log| (log.0 - x).powi(2)).sum();
        (variance > 0.0).then(|| covariance / variance)
    }
}

/// Where to look: at 1, 2, 5, 10, … in finer steps, and at the end.
fn marks(turns: u64) -> Vec<u64> {
    let mut marks: Vec<u64> =
        [1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 500, 700]
            .into_iter()
            .chain((0..5).flat_map(|power| {
                [10, 15, 20, 30, 50, 70].map(|step| step * 100 * 10_u64.pow(power))
            }))
            .filter(|mark| *mark < turns)
            .collect();
    marks.push(turns);
    marks
}

pub(crate) fn measure(
    state: StateKind,
    policy: Policy,
    saver: SaverKind,
    turns: u64,
    payload: usize,
    url: Option<&str>,
) -> Result<Curve, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let store = Store::new(saver, url, &runtime)?;
    if runtime
        .block_on(store.saver().head(&Place::root(THREAD)))?
        .is_some()
    {
        return Err(
            format!("the database has a thread `{THREAD}` already: delete it first").into(),
        );
    }
    let growing = thread(state, policy, payload, &store.saver())?;
    let mut expected = theory::Thread::new(state, policy, payload);
    let mut curve = Curve {
        state,
        policy,
        saver,
        payload,
        points: Vec::new(),
    };
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    let marks = marks(turns);
    for number in 0..turns {
        let (before, start) = (processor_us(), Instant::now());
        runtime.block_on(growing.turn(number))?;
        wall.push(start.elapsed().as_secs_f64() * 1e6);
        cpu.push(processor_us() - before);
        let expected = expected.turn(number)?;
        if marks.binary_search(&(number + 1)).is_ok() {
            progress(policy, number + 1, turns);
            curve.points.push(Point {
                turns: number + 1,
                payload: state.payload(payload) * (number + 1),
                sizes: sizes(&runtime, &store)?,
                expected,
                file: store.file_bytes(),
                cpu_us: median(&mut cpu),
                wall_us: median(&mut wall),
                open_us: opening(&runtime, &*growing, &store)?,
            });
        }
    }
    progress_ends();
    Ok(curve)
}

fn sizes(runtime: &Runtime, store: &Store) -> Result<Sizes, Error> {
    let size = runtime.block_on(store.saver().size(THREAD))?;
    Ok(Sizes {
        headers: size.bytes_of(Kind::Header),
        values: size.bytes_of(Kind::Value),
        logs: size.bytes_of(Kind::Log),
        tasks: size.bytes_of(Kind::Task),
    })
}

/// The median of five, each with the store opened anew.
fn opening(runtime: &Runtime, growing: &dyn Turns, store: &Store) -> Result<f64, Error> {
    let mut took = Vec::new();
    for _ in 0..5 {
        let saver = store.reopened(runtime)?;
        let start = Instant::now();
        runtime.block_on(growing.open(&saver))?;
        took.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&mut took))
}

/// The median, which leaves nothing behind.
fn median(values: &mut Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2).copied();
    values.clear();
    middle.unwrap_or(f64::NAN)
}

fn progress(policy: Policy, done: u64, turns: u64) {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r{policy}: {done} of {turns} turns ");
    }
}

fn progress_ends() {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K");
    }
}
