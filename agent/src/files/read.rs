//! Reading a text file page by page.

use std::fmt;
use std::io::{self, BufRead};

use schemars::JsonSchema;
use serde::Deserialize;

use super::lines::{Lines, Piece, whole_chars};
use super::source::Source;
use super::{Disk, FileError, MAX_TEXT, VirtualPath};

const DEFAULT_LIMIT: usize = 2000;
/// What a row takes beside its text: number, tab and end.
const ROW_EXTRA: usize = 24;
const CHUNK: usize = 64 * 1024;

/// What to read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ReadArgs {
    /// Path of the file, from the root `/`.
    pub path: String,
    /// Number of lines to pass over; 0 begins at the first line.
    #[serde(default)]
    pub offset: u64,
    /// Number of lines to read, at least 1. A page may end earlier, and then says how to go on.
    #[serde(default = "default_limit")]
    pub limit: usize,
    /// Number of bytes to pass over in the first of these lines. Only needed to go on inside a
    /// very long line, as the page before says.
    #[serde(default)]
    pub column: u64,
}

impl Default for ReadArgs {
    fn default() -> Self {
        Self {
            path: String::new(),
            offset: 0,
            limit: DEFAULT_LIMIT,
            column: 0,
        }
    }
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

/// A part of a text file, as numbered lines.
///
/// Lines end with LF or CRLF, and are shown without; invalid UTF-8 is shown as `U+FFFD`.
/// Reading on from [`resume`](Page::resume) until it is `None` shows every byte once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The file.
    pub path: VirtualPath,
    /// How many lines the file has.
    pub lines: u64,
    /// How many bytes of the first row's line were passed over.
    pub column: u64,
    /// The lines; the last one may be cut.
    pub rows: Vec<Row>,
    /// Where to read on; `None` when the file ends here.
    pub resume: Option<Resume>,
}

/// One line of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Number of the line, from 1.
    pub number: u64,
    /// Its text, without the line's end.
    pub text: String,
}

/// Where the next page begins: the arguments to call with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resume {
    /// Lines to pass over.
    pub offset: u64,
    /// Bytes of the next line to pass over.
    pub column: u64,
}

/// Reads a page of a text file.
///
/// The whole file is passed through once for each page, since the page tells how many lines
/// there are. A column behind the end of its line stands for the begin of the next.
pub fn read(disk: &Disk, args: &ReadArgs) -> Result<Page, FileError> {
    let path = VirtualPath::parse(&args.path)?;
    let source = Source::open_text(disk, &path)?;
    let page = paginate(&path, source.lines, args).map_err(|error| FileError::at(&path, error))?;
    if args.offset > 0 && args.offset >= page.lines {
        return Err(FileError::PastEnd {
            path,
            offset: args.offset,
            lines: page.lines,
        });
    }
    Ok(page)
}

fn paginate<R: BufRead>(path: &VirtualPath, lines: Lines<R>, args: &ReadArgs) -> io::Result<Page> {
    let mut pager = Pager {
        lines,
        column: 0,
        rows: Vec::new(),
        room: MAX_TEXT,
    };
    while pager.lines.finished() < args.offset && pager.lines.skip_line()? {}
    pager.skip_bytes(args.column)?;
    let column = pager.column;
    let end = pager.fill(args.limit.max(1))?;
    let lines = pager.lines.count_rest()?;
    let resume = (end.offset < lines).then_some(end);
    Ok(Page {
        path: path.clone(),
        lines,
        column,
        rows: pager.rows,
        resume,
    })
}

struct Pager<R> {
    lines: Lines<R>,
    /// Bytes of the current line that were passed over.
    column: u64,
    rows: Vec<Row>,
    room: usize,
}

impl<R: BufRead> Pager<R> {
    fn skip_bytes(&mut self, column: u64) -> io::Result<()> {
        let mut text = Vec::new();
        while self.column < column {
            let left = usize::try_from(column - self.column).unwrap_or(CHUNK);
            match self.lines.piece(left.min(CHUNK), &mut text)? {
                Some(Piece::Part) => self.column += text.len() as u64,
                Some(Piece::End) | None => {
                    self.column = 0;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads up to `limit` rows that fit, and says where it stopped.
    fn fill(&mut self, limit: usize) -> io::Result<Resume> {
        let mut text = Vec::new();
        while self.rows.len() < limit && self.room > ROW_EXTRA {
            let offset = self.lines.finished();
            match self.lines.piece(self.room - ROW_EXTRA, &mut text)? {
                Some(Piece::End) => self.push(offset + 1, &text),
                Some(Piece::Part) if self.rows.is_empty() => {
                    text.truncate(whole_chars(&text));
                    self.push(offset + 1, &text);
                    return Ok(Resume {
                        offset,
                        column: self.column + text.len() as u64,
                    });
                }
                Some(Piece::Part) => return Ok(Resume { offset, column: 0 }),
                None => break,
            }
        }
        Ok(Resume {
            offset: self.lines.finished(),
            column: 0,
        })
    }

    fn push(&mut self, number: u64, text: &[u8]) {
        self.room -= text.len() + ROW_EXTRA;
        self.rows.push(Row {
            number,
            text: String::from_utf8_lossy(text).into_owned(),
        });
    }
}

/// The page as the model reads it.
impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            lines,
            column,
            ..
        } = self;
        let (Some(first), Some(last)) = (self.rows.first(), self.rows.last()) else {
            return match lines {
                0 => write!(f, "`{path}` is empty"),
                _ => write!(f, "`{path}` has {lines} lines, and nothing follows there"),
            };
        };
        write!(
            f,
            "`{path}`, lines {}-{} of {lines}",
            first.number, last.number
        )?;
        if *column > 0 {
            write!(f, ", line {} from byte {column} on", first.number)?;
        }
        f.write_str(":")?;
        for Row { number, text } in &self.rows {
            write!(f, "\n{number:>6}\t{text}")?;
        }
        match self.resume {
            Some(Resume { offset, column: 0 }) => {
                write!(f, "\n(more follows: read on with offset {offset})")
            }
            Some(Resume { offset, column }) => {
                write!(
                    f,
                    "\n(the line goes on: read on with offset {offset} and column {column})"
                )
            }
            None => Ok(()),
        }
    }
}
