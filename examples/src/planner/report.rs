//! The report: what the overview and the surveys tell, as Markdown.

use std::collections::BTreeMap;
use std::iter;

use super::about::About;
use super::markdown::{code, code_cell, plain};
use super::scope::Scope;
use super::survey::{Language, Survey, Todo, sum};
use super::surveyor::{largest, sorted};

/// How many languages stand in the row of a part.
const MAX_ROW: usize = 4;

/// What the coordinator saw itself.
#[derive(Debug)]
pub(super) struct Overview {
    pub(super) project: About,
    /// Directories of the root in which no file is found.
    pub(super) excluded: Vec<String>,
    /// Directories of the root that could not be looked into.
    pub(super) unknown: Vec<String>,
    /// What lies in the root and is not read: path and reason.
    pub(super) unread: Vec<(String, String)>,
    /// The root has more entries than were listed.
    pub(super) cut: bool,
}

/// What became of a part.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) part: Vec<Scope>,
    /// The facts, or why there are none.
    pub(super) survey: Result<Survey, String>,
}

/// Writes the report.
pub(super) fn write(overview: &Overview, outcomes: &[Outcome]) -> String {
    let surveys: Vec<&Survey> = outcomes
        .iter()
        .filter_map(|outcome| outcome.survey.as_ref().ok())
        .collect();
    let sections = [
        head(&overview.project),
        totals(&surveys),
        parts(outcomes),
        languages(&surveys),
        todos(&surveys),
        largest_files(&surveys),
        unread(overview, &surveys),
        limits(overview, outcomes),
    ];
    sections.concat()
}

/// A number with its noun.
pub(super) fn counted(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

fn head(project: &About) -> String {
    let name = project.name.as_deref().unwrap_or("a directory");
    let purpose = match &project.purpose {
        Some(purpose) => format!("> {}", plain(purpose)),
        None => "No README or manifest says what this is.".to_owned(),
    };
    format!("# Report on {}\n\n{purpose}\n", plain(name))
}

fn totals(surveys: &[&Survey]) -> String {
    let rows = [
        ("Files", total(surveys, |survey| survey.files)),
        ("Bytes", total(surveys, |survey| survey.bytes)),
        ("Lines of text", total(surveys, |survey| survey.lines)),
        ("TODO and FIXME", total(surveys, Survey::all_todos)),
    ];
    let rows = rows.map(|(name, number)| {
        format!(
            "- {name}: {number}
"
        )
    });
    format!(
        "
{}",
        rows.concat()
    )
}

fn total(surveys: &[&Survey], fact: fn(&Survey) -> u64) -> u64 {
    sum(surveys.iter().map(|survey| fact(survey)))
}

fn parts(outcomes: &[Outcome]) -> String {
    let mut text = "\n## Parts\n\n".to_owned();
    if outcomes.is_empty() {
        return text + "There are no files.\n";
    }
    text += "| Part | Files | Bytes | Lines | Languages |\n|---|---:|---:|---:|---|\n";
    let mut words = String::new();
    for Outcome { part, survey } in outcomes {
        let name: Vec<_> = part
            .iter()
            .map(|scope| code_cell(local(&scope.to_string())))
            .collect();
        let name = name.join(", ");
        let row = match survey {
            Ok(survey) => format!(
                "{} | {} | {} | {}",
                survey.files,
                survey.bytes,
                survey.lines,
                mix(&survey.languages)
            ),
            Err(_) => "? | ? | ? | not surveyed, see below".to_owned(),
        };
        text += &format!("| {name} | {row} |\n");
        for (path, about) in survey.iter().flat_map(|survey| &survey.about) {
            words += &format!("- {}: {}\n", code(local(path)), plain(about));
        }
    }
    match words.is_empty() {
        true => text,
        false => text + "\nWhat the parts say of themselves:\n\n" + &words,
    }
}

fn mix(languages: &[Language]) -> String {
    let names = languages.iter().take(MAX_ROW);
    let names = names.map(|language| format!("{} ({})", plain(&language.name), language.files));
    let mut names: Vec<_> = names.collect();
    if languages.len() > MAX_ROW {
        names.push(format!("{} more", languages.len() - MAX_ROW));
    }
    names.join(", ")
}

fn languages(surveys: &[&Survey]) -> String {
    let mut all: BTreeMap<&str, Language> = BTreeMap::new();
    for language in surveys.iter().flat_map(|survey| &survey.languages) {
        let sum = all.entry(&language.name).or_default();
        sum.name = language.name.clone();
        sum.add(language.files, language.bytes);
    }
    let rows = sorted(all.into_values().collect());
    let rows = rows.iter().map(|language| {
        format!(
            "| {} | {} | {} |\n",
            plain(&language.name),
            language.files,
            language.bytes
        )
    });
    table(
        "Languages",
        "| Language | Files | Bytes |\n|---|---:|---:|\n",
        rows,
    )
}

fn todos(surveys: &[&Survey]) -> String {
    let mut todos: Vec<&Todo> = surveys.iter().flat_map(|survey| &survey.todos).collect();
    todos.sort();
    let rows = todos.iter().map(|Todo { path, line, text }| {
        let entry = format!("{}:{line}: {text}", local(path));
        format!("- {}\n", code(&entry))
    });
    list(
        "TODO and FIXME",
        rows.collect(),
        total(surveys, |survey| survey.more_todos),
    )
}

/// A list, and how many entries it should have beside these.
fn list(title: &str, rows: Vec<String>, more: u64) -> String {
    let total = (rows.len() as u64).saturating_add(more);
    let rows = match (rows.is_empty(), more) {
        (true, 0) => "None.\n".to_owned(),
        (_, 0) => rows.concat(),
        _ => format!("{}\nLeft out here: {more}.\n", rows.concat()),
    };
    format!("\n## {title} ({total})\n\n{rows}")
}

fn largest_files(surveys: &[&Survey]) -> String {
    let all = surveys
        .iter()
        .flat_map(|survey| survey.largest.iter().cloned());
    let rows = largest(all);
    let rows = rows
        .iter()
        .map(|(path, bytes)| format!("| {} | {bytes} |\n", code_cell(local(path))));
    table("Largest files", "| Path | Bytes |\n|---|---:|\n", rows)
}

fn table(title: &str, head: &str, rows: impl Iterator<Item = String>) -> String {
    let rows: String = rows.collect();
    match rows.is_empty() {
        true => format!("\n## {title}\n\nNone.\n"),
        false => format!("\n## {title}\n\n{head}{rows}"),
    }
}

fn unread(overview: &Overview, surveys: &[&Survey]) -> String {
    let all = surveys.iter().flat_map(|survey| &survey.unread);
    let mut all: Vec<_> = all.chain(&overview.unread).collect();
    all.sort();
    let rows = all.iter().map(|(path, reason)| note(path, &plain(reason)));
    list(
        "Not read",
        rows.collect(),
        total(surveys, |survey| survey.more_unread),
    )
}

/// What the report does not tell.
fn limits(overview: &Overview, outcomes: &[Outcome]) -> String {
    let git = "- `.git` and what `.gitignore` files exclude is not in this report.\n".to_owned();
    let empty = overview
        .excluded
        .iter()
        .map(|path| note(path, "empty, or excluded"));
    let unknown = overview.unknown.iter().map(|path| {
        note(
            path,
            "not surveyed: whether it is excluded could not be told",
        )
    });
    let cut = overview.cut.then(|| {
        note(
            "/",
            "has more entries than were listed; the others are not in this report",
        )
    });
    let parts = outcomes.iter().flat_map(part_limits);
    let notes: String = iter::once(git)
        .chain(empty)
        .chain(unknown)
        .chain(cut)
        .chain(parts)
        .collect();
    format!("\n## Limits\n\n{notes}")
}

fn part_limits(outcome: &Outcome) -> Vec<String> {
    let names: Vec<_> = outcome.part.iter().map(Scope::to_string).collect();
    let names: Vec<_> = names.iter().map(|name| local(name)).collect();
    let name = names.join(", ");
    let survey = match &outcome.survey {
        Ok(survey) => survey,
        Err(problem) => return vec![note(&name, &format!("not surveyed: {}", plain(problem)))],
    };
    let problems = survey.problems.iter();
    let mut notes: Vec<_> = problems
        .map(|(name, problem)| note(name, &plain(problem)))
        .collect();
    if survey.links > 0 {
        let links = counted(survey.links, "link");
        notes.push(note(
            &name,
            &format!("{links} to files: only the lines count here"),
        ));
    }
    if survey.listed < survey.files {
        let Survey { listed, files, .. } = survey;
        let words = format!(
            "bytes, languages and largest files are of the first {listed} of {files} files"
        );
        notes.push(note(&name, &words));
    }
    notes
}

fn note(name: &str, words: &str) -> String {
    format!("- {}: {words}\n", code(local(name)))
}

/// A path as it stands in the directory that is reported on.
fn local(path: &str) -> &str {
    match path.strip_prefix('/') {
        Some("") | None => path,
        Some(path) => path,
    }
}
