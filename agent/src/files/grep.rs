//! Finding lines by their text.

use std::{fmt, io};

use regex::bytes::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use super::kept::Kept;
use super::lines::{Piece, whole_chars};
use super::pattern::{Pattern, common_problem, invalid};
use super::source::Source;
use super::walk::{Found, Walk};
use super::{Disk, FileError, Kind, MAX_TEXT, Skipped, VirtualPath, root_path};

const DEFAULT_LIMIT: usize = 200;
/// A longer line is searched in pieces of this size.
const MAX_LINE: usize = 1024 * 1024;
/// How much of a long line is shown, and how much of that stands before the match.
const SHOWN: usize = 400;
const SHOWN_BEFORE: usize = 100;
/// What a match takes beside path and text.
const MATCH_EXTRA: usize = 24;
/// Which lines to find.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct GrepArgs {
    /// Text to find within one line, with the same upper and lower case.
    pub pattern: String,
    /// File or directory to search, from the root `/`.
    #[serde(default = "root_path")]
    pub path: String,
    /// Search only files that match this glob pattern, such as `*.rs` or `src/**/*.rs`.
    #[serde(default)]
    pub glob: Option<String>,
    /// The pattern is a regular expression: Rust syntax, no back-references or look-around.
    #[serde(default)]
    pub regex: bool,
    /// Number of matching lines to show, at least 1. All are counted.
    #[serde(default = "default_limit")]
    pub limit: usize,
    /// Also search `.git`, and what `.gitignore` files exclude.
    #[serde(default)]
    pub ignored: bool,
}

impl Default for GrepArgs {
    fn default() -> Self {
        Self {
            pattern: String::new(),
            path: root_path(),
            glob: None,
            regex: false,
            limit: DEFAULT_LIMIT,
            ignored: false,
        }
    }
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

/// The lines that match, sorted by path and number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrepResult {
    /// The first lines.
    pub matches: Vec<Match>,
    /// How many more match.
    pub more: u64,
    /// How many files were searched.
    pub files: u64,
    /// How many lines were too long to be searched in one: a match across the border of two
    /// pieces of 1 MiB is missed there, and `^` and `$` also match at the border.
    pub long_lines: u64,
    /// What could not be searched.
    pub skipped: Skipped,
}

/// One line that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Match {
    /// The file.
    pub path: VirtualPath,
    /// Number of the line, from 1.
    pub line: u64,
    /// The line without its end; a long one is cut around the first match.
    pub text: String,
}

/// Finds lines in text files. A file with a NUL in its first 8 KB is skipped as binary.
pub fn grep(disk: &Disk, args: &GrepArgs) -> Result<GrepResult, FileError> {
    let base = VirtualPath::parse(&args.path)?;
    let glob = args.glob.as_deref().map(Pattern::new).transpose()?;
    let mut search = Search {
        regex: compile(args)?,
        kept: Kept::new(args.limit.max(1), MAX_TEXT),
        files: 0,
        long_lines: 0,
    };
    let mut walk = Walk::new(disk, &base, args.ignored)?;
    while let Some(found) = walk.next() {
        if glob
            .as_ref()
            .is_some_and(|glob| !glob.matches(&base, &found.path))
        {
            continue;
        }
        if let Err(kind) = search.file(disk, &found) {
            walk.put_down(found.path, kind);
        }
    }
    Ok(search.finish(walk.finish()))
}

fn compile(args: &GrepArgs) -> Result<Regex, FileError> {
    if let Some(problem) = common_problem(&args.pattern) {
        return Err(invalid(&args.pattern, problem));
    }
    let text = if args.regex {
        args.pattern.clone()
    } else {
        regex::escape(&args.pattern)
    };
    // The library bounds size and nesting of what it compiles, and searches in linear time.
    Regex::new(&text).map_err(|error| invalid(&args.pattern, regex_problem(&error)))
}

/// The error in one line: the parser's own text draws the expression with a marker below.
fn regex_problem(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

struct Search {
    regex: Regex,
    kept: Kept<(VirtualPath, u64), String>,
    files: u64,
    long_lines: u64,
}

impl Search {
    /// Searches one file; the error is what to put down for it.
    fn file(&mut self, disk: &Disk, found: &Found) -> Result<(), Kind> {
        match Source::open_text(disk, &found.path) {
            Ok(source) => {
                self.files += 1;
                self.text(source, &found.path).map_err(|_| Kind::Unreadable)
            }
            Err(FileError::Binary { .. }) => Err(Kind::Binary),
            Err(FileError::OutsideRoot { .. }) => Err(Kind::OutsideLink),
            Err(FileError::NotAFile { .. }) => Err(Kind::Special),
            Err(_) => Err(Kind::Unreadable),
        }
    }

    fn text(&mut self, mut source: Source, path: &VirtualPath) -> io::Result<()> {
        let mut text = Vec::new();
        loop {
            let line = source.lines.finished() + 1;
            match source.lines.piece(MAX_LINE, &mut text)? {
                Some(Piece::End) => {
                    self.piece(path, line, &text);
                }
                Some(Piece::Part) => self.long_line(&mut source, path, &mut text)?,
                None => return Ok(()),
            }
        }
    }

    /// Searches the pieces of a line until one matches, given the first.
    fn long_line(
        &mut self,
        source: &mut Source,
        path: &VirtualPath,
        text: &mut Vec<u8>,
    ) -> io::Result<()> {
        self.long_lines += 1;
        let line = source.lines.finished() + 1;
        let mut piece = Some(Piece::Part);
        while !self.piece(path, line, text) {
            if piece != Some(Piece::Part) {
                return Ok(());
            }
            piece = source.lines.piece(MAX_LINE, text)?;
        }
        if piece == Some(Piece::Part) {
            source.lines.skip_line()?;
        }
        Ok(())
    }

    fn piece(&mut self, path: &VirtualPath, line: u64, text: &[u8]) -> bool {
        let Some(at) = self.regex.find(text).map(|found| found.start()) else {
            return false;
        };
        let bytes = path.as_str().len() + text.len().min(SHOWN) + MATCH_EXTRA;
        self.kept
            .offer((path.clone(), line), bytes, || around(text, at));
        true
    }

    fn finish(self, skipped: Skipped) -> GrepResult {
        let (matches, more) = self.kept.finish();
        let matches = matches
            .into_iter()
            .map(|((path, line), text)| Match { path, line, text });
        let matches = matches.collect();
        GrepResult {
            matches,
            more,
            files: self.files,
            long_lines: self.long_lines,
            skipped,
        }
    }
}

/// The line, or the part of a long one that begins a little before `at`.
fn around(line: &[u8], at: usize) -> String {
    if line.len() <= SHOWN {
        return String::from_utf8_lossy(line).into_owned();
    }
    let begin = at.saturating_sub(SHOWN_BEFORE).min(line.len() - SHOWN);
    let begin = whole_chars(line.get(..begin).unwrap_or_default());
    let rest = line.get(begin..).unwrap_or_default();
    let part = rest.get(..SHOWN).unwrap_or(rest);
    let part = part.get(..whole_chars(part)).unwrap_or_default();
    let before = if begin > 0 { "…" } else { "" };
    let after = if begin + part.len() < line.len() {
        "…"
    } else {
        ""
    };
    format!("{before}{}{after}", String::from_utf8_lossy(part))
}

/// The lines as the model reads them.
impl fmt::Display for GrepResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            matches,
            more,
            files,
            long_lines,
            skipped,
        } = self;
        let total = matches.len() as u64 + more;
        write!(f, "lines that match: {total}, files searched: {files}")?;
        for Match { path, line, text } in matches {
            write!(f, "\n{path}:{line}: {text}")?;
        }
        if *more > 0 {
            write!(
                f,
                "\n({more} more: narrow the pattern or the path, or raise the limit)"
            )?;
        }
        if *long_lines > 0 {
            write!(f, "\n(lines over 1 MiB, searched in pieces: {long_lines})")?;
        }
        skipped.fmt(f)
    }
}
