//! Reads the recorded cases, and the list of those in which we differ on purpose.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::result::{Outcome, recorded};
use crate::spec::Case;

/// Why cases cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A file or directory is not readable.
    #[error("cannot read {}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not a case, or the list of differences is not one.
    #[error("{name}: {problem}")]
    Format {
        /// The file.
        name: String,
        /// Where in it, and what is wrong.
        problem: String,
    },
}

impl CorpusError {
    fn format(name: &str, problem: impl ToString) -> Self {
        CorpusError::Format {
            name: name.to_owned(),
            problem: problem.to_string(),
        }
    }
}

/// All cases below a directory, by name.
pub fn cases(directory: &Path) -> Result<Vec<Case>, CorpusError> {
    let mut cases = Vec::new();
    collect(directory, &mut cases)?;
    cases.sort_by(|left, right| left.name.cmp(&right.name));
    let twice = cases
        .windows(2)
        .find(|pair| matches!(pair, [left, right] if left.name == right.name));
    match twice {
        Some([case, ..]) => Err(CorpusError::format(&case.name, "two cases have this name")),
        _ => Ok(cases),
    }
}

fn collect(directory: &Path, cases: &mut Vec<Case>) -> Result<(), CorpusError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| CorpusError::Io { path, source }
    };
    for entry in directory.read_dir().map_err(failed(directory))? {
        let path = entry.map_err(failed(directory))?.path();
        if path.is_dir() {
            collect(&path, cases)?;
        } else if let Some(name) = case_name(&path) {
            let text = std::fs::read_to_string(&path).map_err(failed(&path))?;
            cases.push(parse(name, &text)?);
        }
    }
    Ok(())
}

fn case_name(path: &Path) -> Option<&str> {
    let json = path
        .extension()
        .is_some_and(|extension| extension == "json");
    let name = path.file_stem()?.to_str()?;
    (json && name != "differences").then_some(name)
}

/// Reads a case. Its name must be `name`, and it must have one result per action.
pub fn parse(name: &str, text: &str) -> Result<Case, CorpusError> {
    let case: Case = read(name, text)?;
    if case.name != name {
        let problem = format!("the case in this file calls itself `{}`", case.name);
        return Err(CorpusError::format(name, problem));
    }
    let refused = matches!(case.expected.as_slice(), [Outcome::Refused(_)]);
    let actions = if refused { 1 } else { case.script.len() };
    if case.expected.len() != actions || (refused && !case.script.is_empty()) {
        let (results, actions) = (case.expected.len(), case.script.len());
        return Err(CorpusError::format(
            name,
            format!("{results} results for {actions} actions"),
        ));
    }
    Ok(case)
}

fn read<'a, T: Deserialize<'a>>(name: &str, text: &'a str) -> Result<T, CorpusError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| CorpusError::format(name, error))?;
    deserializer
        .end()
        .map_err(|error| CorpusError::format(name, error))?;
    Ok(value)
}

/// The cases in which we differ from the reference on purpose.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Differences(BTreeMap<String, Difference>);

/// One of them: why, and what we do instead.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// Must not be empty.
    reason: String,
    /// All results.
    expected: Option<All>,
    /// Or some, by the index of their action.
    #[serde(default)]
    results: BTreeMap<usize, Single>,
    /// How many actions are performed, if what we do makes the rest of the script meaningless.
    until: Option<usize>,
}

/// Results whose placeholders have become tokens.
#[derive(Debug, Deserialize)]
struct All(#[serde(deserialize_with = "recorded")] Vec<Outcome>);

/// One such result.
#[derive(Debug, Deserialize)]
struct Single(#[serde(deserialize_with = "recorded")] Outcome);

impl Differences {
    /// The list that belongs to this engine, `engine/differences.json`.
    pub fn ours() -> Result<Self, CorpusError> {
        Self::parse(include_str!("../engine/differences.json"))
    }

    /// Reads a list. An entry has a reason, and either `expected` or `results`.
    pub fn parse(text: &str) -> Result<Self, CorpusError> {
        let differences: Self = read("differences", text)?;
        for (name, difference) in &differences.0 {
            if difference.reason.trim().is_empty() {
                return Err(CorpusError::format(name, "a difference needs a reason"));
            }
            if difference.expected.is_some() != difference.results.is_empty() {
                return Err(CorpusError::format(
                    name,
                    "has either `expected` or `results`",
                ));
            }
        }
        Ok(differences)
    }

    /// The cases of the list.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Puts our own results in place of the recorded ones, if the case is on the list.
    pub fn apply(&self, case: &mut Case) -> Result<(), CorpusError> {
        let Some(difference) = self.0.get(&case.name) else {
            return Ok(());
        };
        if let Some(All(expected)) = &difference.expected {
            case.expected.clone_from(expected);
        }
        if let Some(until) = difference.until {
            case.script.truncate(until);
            case.expected.truncate(until);
        }
        for (index, Single(ours)) in &difference.results {
            match case.expected.get_mut(*index) {
                Some(result) => result.clone_from(ours),
                None => {
                    return Err(CorpusError::format(
                        &case.name,
                        format!("has no action {index}"),
                    ));
                }
            }
        }
        Ok(())
    }
}
