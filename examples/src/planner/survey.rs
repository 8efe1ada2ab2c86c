//! What a surveyor found out about its part, and the sheet it is told on.

use std::fmt;

use super::scope::Scope;
use super::sheet::{Section, sections};

const FACTS: &str = "Facts";
const ABOUT: &str = "About";
const LANGUAGES: &str = "Languages";
const LARGEST: &str = "Largest files";
const TODOS: &str = "TODO and FIXME";
const UNREAD: &str = "Not read";
const PROBLEMS: &str = "Problems";

/// The facts about a part of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// How many regular files there are.
    pub(super) files: u64,
    /// How many links to files there are; they count where they lead.
    pub(super) links: u64,
    /// How many of the files were seen by name: sizes and languages are of these.
    pub(super) listed: u64,
    pub(super) bytes: u64,
    /// Lines of all text files; a search of text goes through links to files too.
    pub(super) lines: u64,
    /// Path of a file, and what it says its directory is.
    pub(super) about: Vec<(String, String)>,
    pub(super) languages: Vec<Language>,
    /// Path and bytes, the largest first.
    pub(super) largest: Vec<(String, u64)>,
    pub(super) todos: Vec<Todo>,
    /// How many more there are.
    pub(super) more_todos: u64,
    /// Path and reason.
    pub(super) unread: Vec<(String, String)>,
    pub(super) more_unread: u64,
    /// What was tried in vain, and what came of it.
    pub(super) problems: Vec<(String, String)>,
}

/// The files of one language.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Language {
    pub(super) name: String,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// A line that says what is to be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Todo {
    pub(super) path: String,
    pub(super) line: u64,
    pub(super) text: String,
}

impl Survey {
    /// Reads a sheet; `None` when the text is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let sections = sections(text);
        let section = |title| sections.iter().find(|section| section.title == title);
        let facts = section(FACTS)?;
        let fact = |name| facts.get(name)?.parse::<u64>().ok();
        let rows = |title| {
            section(title)
                .map(|section| section.rows.clone())
                .unwrap_or_default()
        };
        let more = |title| section(title).map_or(0, Section::left_out);
        Some(Survey {
            files: fact("files")?,
            links: fact("links")?,
            listed: fact("listed")?,
            bytes: fact("bytes")?,
            lines: fact("lines")?,
            about: rows(ABOUT),
            languages: rows(LANGUAGES).into_iter().filter_map(language).collect(),
            largest: rows(LARGEST).into_iter().filter_map(sized).collect(),
            todos: rows(TODOS).into_iter().filter_map(todo).collect(),
            more_todos: more(TODOS),
            unread: rows(UNREAD),
            more_unread: more(UNREAD),
            problems: rows(PROBLEMS),
        })
    }

    /// How many lines say what is to be done, shown or not.
    pub(super) fn all_todos(&self) -> u64 {
        self.more_todos.saturating_add(self.todos.len() as u64)
    }

    /// The sheet, for these parts of the tree.
    pub(super) fn sheet(&self, parts: &[Scope]) -> String {
        let parts: Vec<_> = parts.iter().map(|part| format!("`{part}`")).collect();
        let sections = self.sections().map(|section| section.to_string());
        format!(
            "# Survey of {}\n\n{}",
            parts.join(", "),
            sections.join("\n")
        )
    }

    fn sections(&self) -> [Section; 7] {
        let todos = self.todos.iter();
        let todos = todos.map(|todo| (format!("{}:{}", todo.path, todo.line), todo.text.clone()));
        let languages = self.languages.iter();
        let largest = self.largest.iter();
        [
            Section::of(FACTS, self.facts()),
            Section::of(ABOUT, self.about.clone()),
            Section::of(
                LANGUAGES,
                languages
                    .map(|language| (language.name.clone(), language.to_string()))
                    .collect(),
            ),
            Section::of(
                LARGEST,
                largest
                    .map(|(path, bytes)| (path.clone(), format!("{bytes} bytes")))
                    .collect(),
            ),
            Section::new(TODOS, self.all_todos(), todos),
            Section::new(
                UNREAD,
                self.more_unread.saturating_add(self.unread.len() as u64),
                self.unread.clone(),
            ),
            Section::of(PROBLEMS, self.problems.clone()),
        ]
    }

    fn facts(&self) -> Vec<(String, String)> {
        let facts = [
            ("files", self.files),
            ("links", self.links),
            ("listed", self.listed),
            ("bytes", self.bytes),
            ("lines", self.lines),
        ];
        facts
            .map(|(name, fact)| (name.to_owned(), fact.to_string()))
            .to_vec()
    }
}

impl Language {
    /// Counts in more files.
    pub(super) fn add(&mut self, files: u64, bytes: u64) {
        self.files = self.files.saturating_add(files);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// The sum of numbers that others name: an absurd one must not end the work.
pub(super) fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files, {} bytes", self.files, self.bytes)
    }
}

fn language((name, text): (String, String)) -> Option<Language> {
    let (files, bytes) = text.strip_suffix(" bytes")?.split_once(" files, ")?;
    Some(Language {
        name,
        files: files.parse().ok()?,
        bytes: bytes.parse().ok()?,
    })
}

fn sized((path, text): (String, String)) -> Option<(String, u64)> {
    Some((path, text.strip_suffix(" bytes")?.parse().ok()?))
}

fn todo((place, text): (String, String)) -> Option<Todo> {
    let (path, line) = place.rsplit_once(':')?;
    Some(Todo {
        path: path.to_owned(),
        line: line.parse().ok()?,
        text,
    })
}
