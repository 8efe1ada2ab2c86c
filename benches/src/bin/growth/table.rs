//! The figures as text.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use superstep_benches::Error;

use crate::measure::Curve;

/// Prints a curve, and beside it what it should be.
pub(crate) fn print(curve: &Curve, theory: bool) {
    let Curve {
        state,
        policy,
        saver,
        payload,
        ..
    } = curve;
    println!("{state:?}, {payload} bytes each, stored {policy} on {saver:?}");
    print!(
        "{:>7} {:>12} {:>12} {:>12} {:>10} {:>10} {:>12} {:>6} {:>8} {:>12} {:>9} {:>9} {:>9}",
        "turns",
        "text B",
        "values B",
        "logs B",
        "headers B",
        "tasks B",
        "stored B",
        "x text",
        "B/turn",
        "file B",
        "turn CPU",
        "turn",
        "open"
    );
    println!("{}", if theory { "   theory B  by theory" } else { "" });
    let mut before = (0, 0);
    for point in &curve.points {
        let stored = point.sizes.total();
        let each = (stored - before.1) / (point.turns - before.0);
        print!(
            "{:>7} {:>12} {:>12} {:>12} {:>10} {:>10} {:>12} {:>6.2} {:>8} {:>12} {:>6.0} us {:>6.0} us {:>6.2} ms",
            point.turns,
            point.payload,
            point.sizes.values,
            point.sizes.logs,
            point.sizes.headers,
            point.sizes.tasks,
            stored,
            stored as f64 / point.payload as f64,
            each,
            point.file,
            point.cpu_us,
            point.wall_us,
            point.open_us / 1000.0,
        );
        match theory {
            true => {
                let expected = point.expected.total();
                println!(
                    " {expected:>10} {:>+9.2} %",
                    100.0 * (stored as f64 / expected as f64 - 1.0)
                );
            }
            false => println!(),
        }
        before = (point.turns, stored);
    }
    if let Some(exponent) = curve.exponent() {
        println!("stored bytes grow with the turns to the power of {exponent:.3}\n");
    }
}

/// Writes all curves, a line for each point.
pub(crate) fn write_csv(file: &Path, curves: &[Curve]) -> Result<(), Error> {
    let mut csv = BufWriter::new(File::create(file)?);
    writeln!(
        csv,
        "policy,turns,text_bytes,header_bytes,value_bytes,log_bytes,task_bytes,stored_bytes,theory_bytes,file_bytes,turn_cpu_us,turn_us,open_us"
    )?;
    for curve in curves {
        for point in &curve.points {
            let sizes = point.sizes;
            writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{},{:.1},{:.1},{:.1}",
                curve.policy,
                point.turns,
                point.payload,
                sizes.headers,
                sizes.values,
                sizes.logs,
                sizes.tasks,
                sizes.total(),
                point.expected.total(),
                point.file,
                point.cpu_us,
                point.wall_us,
                point.open_us
            )?;
        }
    }
    Ok(csv.flush()?)
}
