//! What the runner prints.

use std::collections::BTreeMap;
use std::fmt;

use crate::compare::is_optional;
use crate::run::Failure;
use crate::spec::Case;

/// Counts, by topic and in all.
#[derive(Debug, Default)]
pub struct Report {
    topics: BTreeMap<String, Count>,
    skipped: usize,
}

#[derive(Debug, Default)]
struct Count {
    passed: usize,
    failed: usize,
}

impl Report {
    /// Counts a case in, and gives the line to print if it failed.
    pub fn add(&mut self, case: &Case, result: Result<(), Failure>) -> Option<String> {
        self.skipped += case
            .expected
            .iter()
            .filter(|outcome| is_optional(outcome))
            .count();
        let count = self.topics.entry(case.topic.clone()).or_default();
        match result {
            Ok(()) => count.passed += 1,
            Err(_) => count.failed += 1,
        }
        result
            .err()
            .map(|failure| format!("{}: {failure}", case.name))
    }

    /// How many cases failed.
    pub fn failed(&self) -> usize {
        self.topics.values().map(|count| count.failed).sum()
    }

    fn passed(&self) -> usize {
        self.topics.values().map(|count| count.passed).sum()
    }
}

/// A line for each topic, one on what was skipped, and the total as the last.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (topic, Count { passed, failed }) in &self.topics {
            writeln!(f, "{topic}: {passed} passed, {failed} failed")?;
        }
        writeln!(f, "{} results of `raw` actions skipped", self.skipped)?;
        write!(f, "{} passed, {} failed", self.passed(), self.failed())
    }
}
