//! The surveyor: searches its part of the tree and answers with a sheet of facts.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::about::{first_words, rank};
use super::call;
use super::desk::Desk;
use super::language;
use super::markdown::{code, one_line, read_code};
use super::result::{Kind, entry, matches, page};
use super::scope::Scope;
use super::search::{Found, Goal, search};
use super::survey::{Language, Survey, Todo, sum};

/// With the answer itself, a turn more.
const TURNS: usize = 10;
const MAX_LARGEST: usize = 10;
const MAX_LANGUAGES: usize = 40;
const OTHERS: &str = "others";
const MAX_PROBLEMS: usize = 20;
const MAX_TEXT: usize = 200;
/// How much of a long line is shown before its mark.
const BEFORE_MARK: usize = 40;

/// Searches the parts that the brief names, or everything; gives the sheet.
pub(super) fn work(desk: &mut Desk<'_>) -> String {
    desk.ask_until(TURNS);
    let parts = parts(&desk.brief);
    let mut survey = Survey::default();
    let mut sizes = BTreeMap::new();
    for part in &parts {
        sizes.extend(survey_part(desk, part, &mut survey));
    }
    survey.languages = languages(&sizes);
    survey.largest = largest(sizes);
    survey.problems.truncate(MAX_PROBLEMS);
    survey.sheet(&parts)
}

/// The brief that names these parts.
pub(super) fn brief(parts: &[Scope]) -> String {
    let parts: Vec<_> = parts
        .iter()
        .map(|part| format!("- {}", code(&part.to_string())))
        .collect();
    format!(
        "Survey these files:\n{}\n\nTell how many files, bytes and lines there are, in which \
         languages; which files are the largest; where TODO and FIXME stand, with path and line; \
         and what could not be read.",
        parts.join("\n")
    )
}

fn parts(brief: &str) -> Vec<Scope> {
    let rows = brief
        .split('\n')
        .filter_map(|line| read_code(line.strip_prefix("- ")?));
    let parts: Vec<_> = rows.filter_map(|(part, _)| Scope::parse(part)).collect();
    match parts.is_empty() {
        true => vec![Scope::root()],
        false => parts,
    }
}

/// Adds the facts of one part; gives its files, with their sizes.
fn survey_part(desk: &mut Desk<'_>, part: &Scope, survey: &mut Survey) -> BTreeMap<String, u64> {
    let searches = [Goal::Files, Goal::Todos, Goal::Lines].map(|goal| search(desk, goal, part));
    let [files, todos, lines] = &searches;
    survey.problems.extend(problems(part, &searches));
    let (sizes, links) = sizes(files);
    let total = files.total.unwrap_or_default();
    survey.files = sum([survey.files, total.saturating_sub(links.len() as u64)]);
    survey.links += links.len() as u64;
    survey.listed += sizes.len() as u64;
    survey.bytes = sum([survey.bytes, sum(sizes.values().copied())]);
    survey.lines = sum([survey.lines, lines.total.unwrap_or_default()]);
    let known: BTreeSet<&str> = sizes.keys().chain(&links).map(String::as_str).collect();
    add_todos(todos, &known, &links, survey);
    add_unread(part, &searches, &known, survey);
    survey.about.extend(about(desk, part, &known));
    sizes
}

/// The regular files and their sizes, and the links to files.
fn sizes(files: &Found) -> (BTreeMap<String, u64>, BTreeSet<String>) {
    let (mut sizes, mut links) = (BTreeMap::new(), BTreeSet::new());
    for entry in files.lines.iter().filter_map(|line| entry(line)) {
        match entry.kind {
            Kind::File { size } => _ = sizes.insert(entry.name, size),
            _ => _ = links.insert(entry.name),
        }
    }
    (sizes, links)
}

fn problems(part: &Scope, searches: &[Found]) -> Vec<(String, String)> {
    let texts = searches.iter().flat_map(|found| {
        let failures = found
            .failures
            .iter()
            .map(|failure| one_line(failure, MAX_TEXT));
        let missed = found.total.is_none() && found.failures.is_empty();
        failures.chain(missed.then(|| "not searched within the bound on calls".to_owned()))
    });
    texts.map(|text| (part.to_string(), text)).collect()
}

fn add_todos(found: &Found, known: &BTreeSet<&str>, links: &BTreeSet<String>, survey: &mut Survey) {
    for line in &found.lines {
        match todo(line, known) {
            Some(todo) if links.contains(&todo.path) => {}
            Some(todo) => survey.todos.push(todo),
            None => {
                survey.more_todos += 1;
                let line = one_line(line, MAX_TEXT);
                survey
                    .problems
                    .push((line, "more than one place may be meant".to_owned()));
            }
        }
    }
    let total = found.total.unwrap_or_default();
    let hidden = total.saturating_sub(found.lines.len() as u64);
    survey.more_todos = sum([survey.more_todos, hidden]);
}

/// Reads a line of `grep`. Where a name or a text makes it ambiguous, the known files decide.
fn todo(line: &str, known: &BTreeSet<&str>) -> Option<Todo> {
    let all: Vec<_> = matches(line).collect();
    let exist: Vec<_> = all
        .iter()
        .filter(|(path, ..)| known.contains(path))
        .collect();
    let (path, line, text) = match (exist.as_slice(), all.as_slice()) {
        ([one], _) => **one,
        ([], [one]) => *one,
        _ => return None,
    };
    Some(Todo {
        path: path.to_owned(),
        line,
        text: one_line(&around_mark(text), MAX_TEXT),
    })
}

/// The text, or, where its mark would be cut off, the part of it that begins a little before the mark.
fn around_mark(text: &str) -> Cow<'_, str> {
    let marks = ["TODO", "FIXME"].iter().filter_map(|mark| text.find(mark));
    let before = marks
        .min()
        .and_then(|at| text.get(..at))
        .unwrap_or_default();
    let Some((begin, _)) = before.char_indices().rev().nth(BEFORE_MARK - 1) else {
        return text.into();
    };
    match text.get(begin..) {
        Some(part) if before.chars().count() > MAX_TEXT / 2 => format!("…{part}").into(),
        _ => text.into(),
    }
}

fn add_unread(part: &Scope, searches: &[Found; 3], known: &BTreeSet<&str>, survey: &mut Survey) {
    let [files, _, lines] = searches;
    // A search of the root's own files also passes over what lies elsewhere.
    let mine = |path: &str| matches!(part, Scope::Below(_)) || known.contains(path);
    let named: BTreeSet<_> = searches
        .iter()
        .flat_map(|found| &found.skipped)
        .filter(|(path, _)| mine(path))
        .collect();
    let total = match part {
        Scope::Below(_) => lines.skipped_total.max(files.skipped_total),
        Scope::Direct(_) => files
            .total
            .unwrap_or_default()
            .saturating_sub(lines.searched),
    };
    let unnamed = total.saturating_sub(named.len() as u64);
    survey.more_unread = sum([survey.more_unread, unnamed]);
    survey.unread.extend(named.into_iter().cloned());
}

/// Reads the file that most likely says what the part is for.
fn about(desk: &mut Desk<'_>, part: &Scope, known: &BTreeSet<&str>) -> Option<(String, String)> {
    let ranked = known
        .iter()
        .filter_map(|path| Some((rank(part.rest(path)?)?, *path)));
    let (_, path) = ranked.min()?;
    let text = desk.ask(call::read(path))?.ok()?;
    Some((path.to_owned(), first_words(path, &page(&text))?))
}

fn languages(sizes: &BTreeMap<String, u64>) -> Vec<Language> {
    let mut languages: BTreeMap<String, Language> = BTreeMap::new();
    for (path, size) in sizes {
        let name = language::of(path);
        let language = languages.entry(name.clone()).or_default();
        language.name = name;
        language.add(1, *size);
    }
    sorted(languages.into_values().collect())
}

/// The largest first; of very many, the small ones become one row at the end.
pub(super) fn sorted(mut languages: Vec<Language>) -> Vec<Language> {
    languages.sort_by_key(|language| {
        let Language { name, bytes, .. } = language;
        (name == OTHERS, Reverse(*bytes), name.clone())
    });
    if languages.len() > MAX_LANGUAGES {
        let rest = languages.split_off(MAX_LANGUAGES);
        languages.push(Language {
            name: OTHERS.to_owned(),
            files: sum(rest.iter().map(|language| language.files)),
            bytes: sum(rest.iter().map(|language| language.bytes)),
        });
    }
    languages
}

/// The largest first.
pub(super) fn largest(sizes: impl IntoIterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut sizes: Vec<_> = sizes.into_iter().collect();
    sizes.sort_by(|(a, x), (b, y)| (y, a).cmp(&(x, b)));
    sizes.truncate(MAX_LARGEST);
    sizes
}
