//! What the engine costs, for each superstep or task.

#![expect(clippy::expect_used, reason = "a bench cannot return an error")]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use superstep_benches::{Bench, Chain, Driver, FanOut, Saver, Tally, Wide};

/// Measures a graph; criterion shows the time of a run and how many of its units that is a second.
fn measure(criterion: &mut Criterion, name: &str, units: u64, bench: impl Bench, saver: &str) {
    let saver = Saver::named(saver).expect("a saver");
    let mut driver = Driver::new(bench, saver).expect("a runtime");
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(units));
    group.bench_function(units.to_string(), |bencher| {
        bencher.iter_custom(|runs| {
            let run = |_| driver.run().expect("a run with the right result");
            (0..runs).map(run).sum::<Duration>()
        });
    });
}

fn engine(criterion: &mut Criterion) {
    const N: u64 = 1000;
    let tally = || Tally::new(N).expect("a loop");
    let wide = || Wide::new(300, N).expect("a loop");
    measure(criterion, "superstep", N, tally(), "none");
    let fan_out = FanOut::new(N).expect("a fan-out");
    measure(criterion, "fan_out", N, fan_out, "none");
    measure(
        criterion,
        "chain",
        100,
        Chain::new(100).expect("a chain"),
        "none",
    );
    measure(criterion, "wide", N, wide(), "none");
    measure(criterion, "memory_superstep", N, tally(), "memory");
    measure(criterion, "memory_wide", N, wide(), "memory");
    measure(criterion, "sqlite_superstep", N, tally(), "sqlite");
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = engine
}
criterion_main!(benches);
