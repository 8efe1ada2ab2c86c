//! One search of a part of the tree, past the bounds of a single result.

use std::collections::BTreeSet;

use super::call::{self, Call};
use super::desk::Desk;
use super::result::{Entry, Hits, Kind, entry, hits, listing, matches};
use super::scope::{Scope, join};

/// How often a long listing is gone on with.
const MAX_LISTINGS: usize = 4;

/// How many results one search may take.
const MAX_VISITS: usize = 100;

/// What is searched for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal {
    /// Every file.
    Files,
    /// Lines that say what is to be done.
    Todos,
    /// The number of lines of all files.
    Lines,
}

impl Goal {
    fn call(self, base: &str, scope: &Scope) -> Call {
        match self {
            Goal::Files => call::glob(base, scope),
            Goal::Todos => call::grep(base, scope, r"\b(TODO|FIXME)\b", 500),
            Goal::Lines => call::grep(base, scope, "^", 1),
        }
    }

    /// From how many lines on nothing more is asked for.
    fn enough(self) -> usize {
        match self {
            Goal::Files => 20_000,
            Goal::Todos => 500,
            Goal::Lines => 1,
        }
    }

    /// The path that a line begins with, or a shorter one.
    fn path(self, line: &str) -> Option<String> {
        match self {
            Goal::Files => entry(line).map(|entry| entry.name),
            Goal::Todos | Goal::Lines => matches(line).next().map(|(path, ..)| path.to_owned()),
        }
    }
}

/// What a search gave so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// How many hits there are; `None` when the search was not made, or failed.
    pub(super) total: Option<u64>,
    /// How many files were looked into, by a search of text.
    pub(super) searched: u64,
    /// The hits that were shown, as the tool wrote them.
    pub(super) lines: BTreeSet<String>,
    /// Path and reason of what could not be searched.
    pub(super) skipped: BTreeSet<(String, String)>,
    /// How many of those there are, named or not.
    pub(super) skipped_total: u64,
    /// Why parts of it are missing.
    pub(super) failures: Vec<String>,
}

/// Searches a part. A result that is cut is followed into the directories that it did not reach.
pub(super) fn search(desk: &mut Desk<'_>, goal: Goal, part: &Scope) -> Found {
    let mut search = Search {
        desk,
        goal,
        visits: 0,
        found: Found::default(),
    };
    search.visit(part.directory(), part);
    search.found
}

struct Search<'s, 'a> {
    desk: &'s mut Desk<'a>,
    goal: Goal,
    visits: usize,
    found: Found,
}

impl Search<'_, '_> {
    /// `base` must be known not to be excluded: files were found below it.
    fn visit(&mut self, base: &str, scope: &Scope) {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return;
        }
        let text = match self.desk.ask(self.goal.call(base, scope)) {
            Some(Ok(text)) => text,
            Some(Err(problem)) => return self.found.failures.push(problem.into_owned()),
            None => return,
        };
        let Some(hits) = hits(&text) else {
            return self
                .found
                .failures
                .push(format!("a result can not be understood: {text}"));
        };
        self.found.take(&hits);
        let cut = (hits.lines.len() as u64) < hits.total;
        if cut && self.found.lines.len() < self.goal.enough() {
            let reached = hits.lines.last().and_then(|line| self.goal.path(line));
            self.narrow(scope, &reached.unwrap_or_default());
        }
    }

    /// Visits the parts of `scope` that a result, sorted by path up to `reached`, did not show.
    fn narrow(&mut self, scope: &Scope, reached: &str) {
        let Scope::Below(directory) = scope else {
            return;
        };
        self.visit(directory, &Scope::Direct(directory.clone()));
        for child in subdirectories(self.desk, directory) {
            // No path below `child` sorts after this text.
            let end = format!("{child}0");
            if *reached < *end {
                self.visit(directory, &Scope::Below(child));
            }
        }
    }
}

impl Found {
    fn take(&mut self, hits: &Hits<'_>) {
        // The first result is that of the whole part.
        if self.total.is_none() {
            self.total = Some(hits.total);
            self.searched = hits.searched.unwrap_or_default();
            self.skipped_total = hits.more_skipped.saturating_add(hits.skipped.len() as u64);
        }
        self.lines
            .extend(hits.lines.iter().map(|line| (*line).to_owned()));
        self.skipped.extend(
            hits.skipped
                .iter()
                .map(|entry| (entry.name.to_owned(), reason(&entry.kind).to_owned())),
        );
    }
}

/// Why something is not read.
pub(super) fn reason(kind: &Kind) -> &str {
    match kind {
        Kind::Other(reason) => reason,
        Kind::DirectoryLink => "link to a directory: not followed",
        Kind::File { .. } | Kind::FileLink | Kind::Directory => "not searched",
    }
}

fn subdirectories(desk: &mut Desk<'_>, directory: &str) -> Vec<String> {
    let listed = list(desk, directory).and_then(Result::ok);
    let entries = listed.into_iter().flat_map(|listed| listed.entries);
    entries
        .filter(|entry| entry.kind == Kind::Directory)
        .map(|entry| join(directory, &entry.name))
        .collect()
}

/// The entries of a directory, as far as they are known.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) entries: Vec<Entry>,
    /// There are entries that are not shown.
    pub(super) cut: bool,
}

/// Lists a directory; a long listing is gone on with for a while.
pub(super) fn list(desk: &mut Desk<'_>, directory: &str) -> Option<Result<Listed, String>> {
    let mut listed = Listed {
        entries: Vec::new(),
        cut: false,
    };
    let mut after = None;
    for _ in 0..MAX_LISTINGS {
        let text = match desk.ask(call::ls(directory, after.as_deref()))? {
            Ok(text) => text,
            Err(problem) => return Some(Err(problem.into_owned())),
        };
        let Some(listing) = listing(&text) else {
            return Some(Err(format!("a listing can not be understood: {text}")));
        };
        listed.entries.extend(listing.entries);
        listed.cut = listing.after.is_some() || listing.damaged;
        match listing.after {
            Some(last) => after = Some(last.to_owned()),
            None => break,
        }
    }
    Some(Ok(listed))
}
