//! `golden engine DIR [--topic T,…] [--case NAME]`: performs recorded cases and says which differ.
//! `golden results DIR --case NAME`: performs one and prints our results, in the form of the recorded ones.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use superstep_conformance::corpus::{Differences, cases};
use superstep_conformance::normal::normal;
use superstep_conformance::report::Report;
use superstep_conformance::spec::Case;
use superstep_conformance::{adapter, run};

const USAGE: &str =
    "usage: golden engine DIR [--topic T,...] [--case NAME]\n       golden results DIR --case NAME";
const LIMIT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((mode, rest)) if mode == "engine" => engine(rest),
        Some((mode, rest)) if mode == "results" => results(rest),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the engine's cases and says how many failed.
fn engine(arguments: &[String]) -> Result<usize, Box<dyn Error>> {
    let selection = Selection::parse(arguments)?;
    let differences = Differences::ours()?;
    let mut report = Report::default();
    for mut case in selection.cases()? {
        differences.apply(&mut case)?;
        let case = Arc::new(case);
        let result = run::run(Arc::clone(&case), adapter::perform, LIMIT);
        if let Some(line) = report.add(&case, result) {
            println!("{line}");
        }
    }
    println!("{report}");
    Ok(report.failed())
}

/// Prints our results of the selected cases, as a line of JSON for each.
fn results(arguments: &[String]) -> Result<usize, Box<dyn Error>> {
    for case in Selection::parse(arguments)?.cases()? {
        let mut got = Vec::new();
        let ended = adapter::perform(&case, &mut got);
        println!("{}", serde_json::Value::from(normal(got)?));
        ended.map_err(|error| error.to_string())?;
    }
    Ok(0)
}

/// Which cases are run.
#[derive(Default)]
struct Selection {
    directory: PathBuf,
    topics: Option<Vec<String>>,
    case: Option<String>,
}

impl Selection {
    fn parse(arguments: &[String]) -> Result<Self, Box<dyn Error>> {
        let mut arguments = arguments.iter();
        let mut selection = Selection {
            directory: arguments.next().ok_or(USAGE)?.into(),
            ..Selection::default()
        };
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or(USAGE)?;
            match option.as_str() {
                "--topic" => selection.topics = Some(value.split(',').map(str::to_owned).collect()),
                "--case" => selection.case = Some(value.clone()),
                other => return Err(format!("unknown option `{other}`\n{USAGE}").into()),
            }
        }
        Ok(selection)
    }

    fn cases(&self) -> Result<Vec<Case>, Box<dyn Error>> {
        let mut cases = cases(&self.directory)?;
        for topic in self.topics.iter().flatten() {
            if !cases.iter().any(|case| case.topic == *topic) {
                return Err(format!("no case has the topic `{topic}`").into());
            }
        }
        cases.retain(|case| self.wants(case));
        match cases.is_empty() {
            true => Err(format!("no such case below {}", self.directory.display()).into()),
            false => Ok(cases),
        }
    }

    fn wants(&self, case: &Case) -> bool {
        let topic = self
            .topics
            .as_ref()
            .is_none_or(|topics| topics.contains(&case.topic));
        topic && self.case.as_ref().is_none_or(|name| *name == case.name)
    }
}
