//! How much a thread stores as it grows, and how long a turn takes then, by snapshot policy.
//!
//! `growth --turns 1000 --payload 500 --policy amortised --saver sqlite` runs a thread turn by turn and prints a table;
//! `--compare` does so for several policies, `--svg FILE` draws it, `--theory` says what it should be.

mod measure;
mod picture;
mod policy;
mod store;
mod table;
mod theory;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use superstep_benches::Error;

use measure::{Curve, measure};
use policy::Policy;
use store::SaverKind;
use workload::StateKind;

/// Runs a thread turn by turn, and shows what it stores and what a turn costs.
#[derive(Debug, Parser)]
#[command(name = "growth")]
struct Arguments {
    /// How many turns the thread has.
    #[arg(long, default_value_t = 1000)]
    turns: u64,
    /// How many bytes each message, file or value has.
    #[arg(long, default_value_t = 500)]
    payload: usize,
    /// When the growing channel is stored whole: amortised, every:K, bytes:N, never, or full (always, as a plain reducer).
    #[arg(long, default_value = "amortised")]
    policy: Policy,
    /// Where it is stored.
    #[arg(long, value_enum, default_value = "sqlite")]
    saver: SaverKind,
    /// The PostgreSQL database.
    #[arg(long)]
    url: Option<String>,
    /// What grows: a chat of two messages a turn, a map with a new file a turn, or 300 channels of which one changes.
    #[arg(long, value_enum, default_value = "chat")]
    state: StateKind,
    /// Runs this and all these policies, on a thread each: `--compare full,every:50,never`.
    #[arg(long, value_delimiter = ',', num_args = 0.., default_missing_value = "full,every:50,every:1000,never")]
    compare: Option<Vec<Policy>>,
    /// Draws the curves into this file.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Writes all that was measured into this file.
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Prints what the policy should store, beside what it did.
    #[arg(long)]
    theory: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    if arguments.turns == 0 {
        return Err("a thread needs at least one turn".into());
    }
    let mut policies = vec![arguments.policy];
    for policy in arguments.compare.iter().flatten() {
        if !policies.contains(policy) {
            policies.push(*policy);
        }
    }
    let mut curves: Vec<Curve> = Vec::new();
    for policy in policies {
        let curve = measure(
            arguments.state,
            policy,
            arguments.saver,
            arguments.turns,
            arguments.payload,
            arguments.url.as_deref(),
        )?;
        table::print(&curve, arguments.theory);
        curves.push(curve);
    }
    if let Some(file) = &arguments.csv {
        table::write_csv(file, &curves)?;
    }
    if let Some(file) = &arguments.svg {
        picture::draw(file, &curves)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(state: StateKind, policy: &str, turns: u64) -> Curve {
        let policy = policy.parse().unwrap();
        measure(state, policy, SaverKind::Memory, turns, 200, None).unwrap()
    }

    #[test]
    fn what_is_stored_is_what_theory_says() {
        for state in [StateKind::Chat, StateKind::Files, StateKind::Wide] {
            for policy in ["amortised", "full", "every:7", "bytes:5000", "never"] {
                let curve = curve(state, policy, 100);
                for point in &curve.points {
                    let (stored, expected) = (point.sizes, point.expected);
                    assert_eq!(
                        [stored.headers, stored.values, stored.logs, stored.tasks],
                        [
                            expected.headers,
                            expected.values,
                            expected.logs,
                            expected.tasks
                        ],
                        "{state:?}, {policy}, {} turns",
                        point.turns
                    );
                }
            }
        }
    }

    #[test]
    fn an_amortised_chat_stores_at_most_three_times_what_was_said() {
        let policy = "amortised".parse().unwrap();
        let curve = measure(StateKind::Chat, policy, SaverKind::Memory, 3000, 500, None).unwrap();
        for point in &curve.points {
            assert!(point.sizes.total() <= 3 * point.payload, "{point:?}");
        }
    }

    #[test]
    fn what_is_no_policy_is_an_error() {
        for text in ["", "every", "every:x", "bytes:-1", "never:3", "sometimes"] {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
        for text in ["amortised", "every:3", "bytes:9", "never", "full"] {
            assert_eq!(text.parse::<Policy>().unwrap().to_string(), text);
        }
    }
}
