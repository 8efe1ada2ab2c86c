//! The coordinator: divides the tree, hands out the parts, and puts the report together.

use super::about::{About, is_manifest, is_readme, manifest, readme};
use super::call;
use super::desk::Desk;
use super::markdown::one_line;
use super::report::{self, Outcome, Overview};
use super::result::{Entry, Kind, entry, hits, page};
use super::scope::{Scope, join};
use super::search::{Listed, list, reason};
use super::survey::Survey;
use super::surveyor;

/// How many subagents work at a time.
const MAX_PARTS: usize = 12;
const MAX_FAILURE: usize = 300;
/// Until which turn each phase may ask; the text that ends the work is one turn more.
const LOOK: usize = 6;
const SURVEY: usize = 8;
const WRITE: usize = 10;

/// Does the next step of the work; gives the closing text.
pub(super) fn work(desk: &mut Desk<'_>) -> String {
    desk.ask_until(LOOK);
    let listed = list(desk, "/");
    let overview = desk.ask(call::glob("/", &Scope::root()));
    let listed = match listed {
        Some(Ok(listed)) => listed,
        Some(Err(problem)) => return unseen(&problem),
        None => return unseen("its listing did not come"),
    };
    let overview = overview.and_then(Result::ok).unwrap_or_default();
    let tree = divide(desk, &listed, &overview);
    let project = project(desk, &listed);
    if desk.waits() {
        return String::new();
    }
    desk.ask_until(SURVEY);
    let surveys = hand_out(desk, &tree.parts());
    if desk.waits() {
        return String::new();
    }
    let overview = Overview {
        project,
        excluded: tree.empty,
        unknown: tree.unknown,
        unread: unread(&listed),
        cut: listed.cut,
    };
    deliver(desk, &report::write(&overview, &surveys), &surveys)
}

fn unseen(problem: &str) -> String {
    format!(
        "The directory could not be looked at: {}",
        one_line(problem, MAX_FAILURE)
    )
}

/// The root, divided by what a search finds there.
#[derive(Debug, Default)]
struct Tree {
    /// Files lie directly in the root.
    loose: bool,
    /// Directories with files.
    full: Vec<String>,
    /// Directories without, or with excluded ones only.
    empty: Vec<String>,
    /// Directories that could not be looked into.
    unknown: Vec<String>,
}

fn divide(desk: &mut Desk<'_>, listed: &Listed, overview: &str) -> Tree {
    let mut tree = Tree::default();
    let loose = Scope::Direct("/".to_owned());
    let is_file = |entry: &Entry| matches!(entry.kind, Kind::File { .. } | Kind::FileLink);
    tree.loose =
        listed.entries.iter().any(is_file) && holds_files(desk, &loose, overview) != Some(false);
    let directories = listed
        .entries
        .iter()
        .filter(|entry| entry.kind == Kind::Directory);
    for path in directories.map(|entry| join("/", &entry.name)) {
        match holds_files(desk, &Scope::Below(path.clone()), overview) {
            Some(true) => tree.full.push(path),
            Some(false) => tree.empty.push(path),
            None => tree.unknown.push(path),
        }
    }
    tree
}

/// Does a search from the root find files there? Often the overview tells; where it is cut
/// before, a search for the files directly in the directory, or for all, does.
fn holds_files(desk: &mut Desk<'_>, scope: &Scope, overview: &str) -> Option<bool> {
    if let Some(hits) = hits(overview) {
        let mut paths = hits
            .lines
            .iter()
            .filter_map(|line| entry(line))
            .map(|entry| entry.name);
        if paths.any(|path| scope.rest(&path).is_some()) {
            return Some(true);
        }
        if hits.lines.len() as u64 == hits.total {
            return Some(false);
        }
    }
    let directory = scope.directory().to_owned();
    match any(desk, &Scope::Direct(directory))? {
        false if matches!(scope, Scope::Below(_)) => any(desk, scope),
        found => Some(found),
    }
}

fn any(desk: &mut Desk<'_>, scope: &Scope) -> Option<bool> {
    let text = desk.ask(call::glob("/", scope))?.ok()?;
    Some(hits(&text)?.total > 0)
}

impl Tree {
    /// What each subagent gets: the root's own files, then directories in order, as evenly as
    /// they come.
    fn parts(&self) -> Vec<Vec<Scope>> {
        let loose = self.loose.then(|| vec![Scope::Direct("/".to_owned())]);
        let room = MAX_PARTS - usize::from(self.loose);
        let size = self.full.len().div_ceil(room).max(1);
        let groups = self.full.chunks(size);
        let groups = groups.map(|group| group.iter().cloned().map(Scope::Below).collect());
        loose.into_iter().chain(groups).collect()
    }
}

/// What the files of the root say about the project: a README first, then a manifest.
fn project(desk: &mut Desk<'_>, listed: &Listed) -> About {
    let named = |fits: fn(&str) -> bool| {
        let mut entries = listed.entries.iter();
        entries.find(|entry| {
            fits(&entry.name) && matches!(entry.kind, Kind::File { .. } | Kind::FileLink)
        })
    };
    let mut read = |entry: Option<&Entry>, about: fn(&str, &[&str]) -> About| {
        let entry = entry?;
        let text = desk.ask(call::read(&join("/", &entry.name)))?.ok()?;
        Some(about(&entry.name, &page(&text)))
    };
    let readme = read(named(is_readme), |_, lines| readme(lines)).unwrap_or_default();
    let manifest = read(named(is_manifest), manifest).unwrap_or_default();
    About {
        name: readme.name.or(manifest.name),
        purpose: readme.purpose.or(manifest.purpose),
    }
}

/// Gives every part to a subagent, all in one turn.
fn hand_out(desk: &mut Desk<'_>, parts: &[Vec<Scope>]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for part in parts {
        let answer = desk.ask(call::task(&surveyor::brief(part)));
        let survey = match answer {
            Some(Ok(text)) => Survey::parse(&text)
                .ok_or_else(|| format!("the answer is no sheet of facts: {text}")),
            Some(Err(problem)) => Err(problem.into_owned()),
            None => Err("no answer came".to_owned()),
        };
        let survey = survey.map_err(|problem| one_line(&problem, MAX_FAILURE));
        outcomes.push(Outcome {
            part: part.clone(),
            survey,
        });
    }
    outcomes
}

/// What lies in the root and can not be read.
fn unread(listed: &Listed) -> Vec<(String, String)> {
    let other = listed
        .entries
        .iter()
        .filter(|entry| matches!(entry.kind, Kind::Other(_) | Kind::DirectoryLink));
    other
        .map(|entry| (join("/", &entry.name), reason(&entry.kind).to_owned()))
        .collect()
}

fn deliver(desk: &mut Desk<'_>, report: &str, surveys: &[Outcome]) -> String {
    desk.ask_until(WRITE);
    // A person may have edited the report before it was written: it is not written again.
    let answer = desk.last_answer("write_report");
    match answer.or_else(|| desk.ask(call::write_report(report))) {
        Some(Ok(answer)) => format!(
            "The report on {} is written: {}",
            report::counted(surveys.len() as u64, "part"),
            one_line(&answer, MAX_FAILURE)
        ),
        Some(Err(problem)) => {
            format!(
                "The report could not be written: {}",
                one_line(&problem, MAX_FAILURE)
            )
        }
        None => "The report could not be written: no answer came.".to_owned(),
    }
}
