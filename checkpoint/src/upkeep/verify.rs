//! Finding damage.

use std::collections::BTreeSet;
use std::fmt;

use crate::frame::{self, FrameError};
use crate::lineage::Fate;
use crate::stored::{shape, stretch};
use crate::{Checkpointer, Header, Item, Place, SaveError, StoredPlace};

/// Something that is wrong in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// What is wrong with what.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// Looks for damage in a thread: checksums, headers that cannot be read, checkpoints whose way to the root is broken, items and tasks
/// that belong to nothing. What the types inside make of their bytes is not tried.
///
/// An empty list means that all is well. Other threads are not looked at, so damage in one does not hide the others.
pub async fn verify(saver: &dyn Checkpointer, thread: &str) -> Result<Vec<Finding>, SaveError> {
    let mut findings = Vec::new();
    let Some(stored) = saver.export(thread).await? else {
        return Ok(findings);
    };
    for (namespace, stored) in &stored.places {
        let place = Place {
            thread: thread.into(),
            namespace: namespace.as_str().into(),
        };
        let problems = problems(stored).into_iter();
        findings.extend(problems.map(|problem| Finding {
            place: place.clone(),
            problem,
        }));
    }
    Ok(findings)
}

fn problems(stored: &StoredPlace) -> Vec<String> {
    let mut problems = Vec::new();
    checkpoints(stored, &mut problems);
    items(stored, &mut problems);
    tasks(stored, &mut problems);
    problems
}

fn checkpoints(stored: &StoredPlace, problems: &mut Vec<String>) {
    for (id, checkpoint) in &stored.checkpoints {
        if let Err(error) = Header::open(&checkpoint.header) {
            problems.push(format!("the header of checkpoint {id}: {error}"));
        }
        if *id > stored.seen.newest {
            problems.push(format!("checkpoint {id} is newer than the newest"));
        }
        if checkpoint.parent.is_some_and(|parent| parent >= *id) {
            problems.push(format!("checkpoint {id} is older than its parent"));
        }
        let way = stored.stretch(*id).map(|from| stored.way(from));
        if let Some(Err(broken)) = way {
            problems.push(format!("the way to checkpoint {id}: {broken}"));
        }
    }
    let ids: BTreeSet<_> = stored.checkpoints.keys().copied().collect();
    let branches = stored.left().branches();
    for branch in stored.branches.keys() {
        if !branches.contains(branch) && !ids.is_empty() {
            problems.push(format!("nothing is on the branch from checkpoint {branch}"));
        }
    }
}

fn items(stored: &StoredPlace, problems: &mut Vec<String>) {
    let left = stored.left();
    for (channel, items) in &stored.items {
        let shapes: Vec<_> = items
            .iter()
            .map(|(at, item)| (stretch(*at), shape(item)))
            .collect();
        let fates = left.fates(&shapes);
        for (((_, id), item), fate) in items.iter().zip(fates) {
            let what = format!("channel `{channel}` at checkpoint {id}");
            if fate == Fate::Drop {
                problems.push(format!("{what} is seen from nowhere"));
            }
            for (part, bytes) in parts(item) {
                if let Err(error) = intact(bytes) {
                    problems.push(format!("the {part} of {what}: {error}"));
                }
            }
        }
    }
}

fn parts(item: &Item) -> Vec<(&'static str, &[u8])> {
    match item {
        Item::Value(value) => vec![("value", value)],
        Item::Log(log) => vec![("log", log)],
        Item::Snapshot { log, value } => vec![("log", log), ("value", value)],
        Item::Empty => vec![],
    }
}

fn tasks(stored: &StoredPlace, problems: &mut Vec<String>) {
    let there = |id| stored.checkpoints.contains_key(id);
    for (base, tasks) in &stored.tasks {
        for task in tasks.values() {
            let what = format!("task {} on checkpoint {base}", task.id);
            if let Err(error) = intact(&task.record) {
                problems.push(format!("{what}: {error}"));
            }
            let belongs = match &task.child {
                Some(child) => there(child),
                None => base.0 == 0 || there(base),
            };
            if !belongs {
                problems.push(format!("{what} belongs to no checkpoint"));
            }
        }
    }
}

fn intact(bytes: &[u8]) -> Result<(), FrameError> {
    frame::type_name(bytes).map(drop)
}
