//! Measures one graph at one size: `point WORKLOAD SIZE [SAVER [RUNS]]`.
//!
//! Prints one line of JSON: the medians over the runs of processor time (of all threads) and of wall time, for each unit
//! of work. One run before them warms up.

use std::process::ExitCode;

use serde_json::json;
use superstep_benches::{Bench, Chain, Driver, Error, FanOut, Saver, Tally, Wide, processor_us};

const USAGE: &str = "usage: point loop|fan_out|chain|wide SIZE [none|memory|sqlite [RUNS]]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let size: u64 = argument(1).ok_or(USAGE)?.parse()?;
    let saver = argument(2).unwrap_or("none");
    let runs: usize = argument(3).unwrap_or("3").parse()?;
    let [cpu, wall] = match argument(0) {
        Some("loop") => measure(Tally::new(size)?, saver, runs)?,
        Some("fan_out") => measure(FanOut::new(size)?, saver, runs)?,
        Some("chain") => measure(Chain::new(size)?, saver, runs)?,
        Some("wide") => measure(Wide::new(300, size)?, saver, runs)?,
        _ => return Err(USAGE.into()),
    };
    let line = json!({
        "workload": argument(0),
        "size": size,
        "saver": saver,
        "runs": runs,
        "per_unit_us": cpu / size as f64,
        "per_unit_wall_us": wall / size as f64,
    });
    println!("{line}");
    Ok(())
}

/// The medians of processor time and wall time of a run, in microseconds.
fn measure(bench: impl Bench, saver: &str, runs: usize) -> Result<[f64; 2], Error> {
    let mut driver = Driver::new(bench, Saver::named(saver)?)?;
    driver.run()?;
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let before = processor_us();
        wall.push(driver.run()?.as_secs_f64() * 1e6);
        cpu.push(processor_us() - before);
    }
    Ok([median(cpu), median(wall)])
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}
