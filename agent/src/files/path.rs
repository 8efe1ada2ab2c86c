//! Paths as a model writes them.

use std::fmt;

use super::FileError;

const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;
/// How much of a bad path or pattern an error repeats.
const MAX_SHOWN: usize = 200;

/// A path below the root of a backend: `/` is the root itself.
///
/// `src/main.rs`, `/src//./main.rs` and `/src/main.rs/` are the same path;
/// `.` and the empty text are the root. A component `..` is refused wherever it stands, also
/// where it would stay inside: after a link, `a/../b` has two meanings, and no caller needs it.
/// Refused as well: control characters and line separators (they would forge lines in a
/// listing), backslashes, drive letters, a leading `~`, more than 4,096 bytes in all or 255 in
/// one name.
///
/// ```
/// use superstep_agent::files::VirtualPath;
///
/// let path = VirtualPath::parse("app/./[...slug]//page.tsx")?;
/// assert_eq!(path.as_str(), "/app/[...slug]/page.tsx");
/// assert!(VirtualPath::parse("/app/../page.tsx").is_err());
/// # Ok::<(), superstep_agent::files::FileError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPath(String);

impl VirtualPath {
    /// Reads a path as written; errors with [`FileError::InvalidPath`].
    pub fn parse(written: &str) -> Result<Self, FileError> {
        match problem(written) {
            Some(problem) => Err(FileError::InvalidPath {
                path: shown(written),
                problem,
            }),
            None => Ok(Self::from_names(names(written))),
        }
    }

    /// The root.
    pub fn root() -> Self {
        Self("/".into())
    }

    /// The path from the root, with a leading `/` and no trailing one.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last component; the root has none.
    pub fn name(&self) -> Option<&str> {
        self.names().next_back()
    }

    /// The components, from the root down.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// The directory that holds this path, and the name in it; the root has neither.
    pub fn split(&self) -> Option<(Self, &str)> {
        let (parent, name) = self
            .0
            .rsplit_once('/')
            .filter(|(_, name)| !name.is_empty())?;
        let parent = if parent.is_empty() { "/" } else { parent };
        Some((Self(parent.into()), name))
    }

    /// The path of `name` in this directory; errors where [`parse`](Self::parse) would refuse
    /// the result, or where `name` is not one component.
    pub fn join(&self, name: &str) -> Result<Self, FileError> {
        let joined = Self::parse(&format!("{}/{name}", self.0))?;
        match joined.split() {
            Some((parent, last)) if parent == *self && last == name => Ok(joined),
            _ => Err(FileError::InvalidPath {
                path: shown(name),
                problem: "is not one name",
            }),
        }
    }

    /// What remains of this path below `base`; empty for `base` itself, `None` when not below it.
    pub fn below(&self, base: &Self) -> Option<&str> {
        let rest = self.0.strip_prefix(base.0.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
    }

    fn from_names<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let path: String = names.flat_map(|name| ["/", name]).collect();
        if path.is_empty() {
            Self::root()
        } else {
            Self(path)
        }
    }
}

impl fmt::Display for VirtualPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text in one line and of bounded length, for an error or a listing.
pub(super) fn shown(text: &str) -> String {
    let mut line = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == MAX_SHOWN {
            line.push('…');
            break;
        }
        if breaks_line(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

fn names(written: &str) -> impl Iterator<Item = &str> {
    written
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".")
}

fn problem(written: &str) -> Option<&'static str> {
    if written.len() > MAX_PATH {
        Some("is longer than 4096 bytes")
    } else if written.contains(breaks_line) {
        Some("holds a control character: use printable characters only")
    } else if written.contains('\\') {
        Some("holds a backslash: separate names with `/`")
    } else if has_drive(written) {
        Some("begins with a drive letter: paths begin at the root `/`")
    } else if written.starts_with('~') {
        Some("begins with `~`: there is no home directory, paths begin at the root `/`")
    } else if names(written).any(|name| name == "..") {
        Some("holds `..`: write the path from the root `/`")
    } else if names(written).any(|name| name.len() > MAX_NAME) {
        Some("holds a name of more than 255 bytes")
    } else {
        None
    }
}

fn has_drive(written: &str) -> bool {
    let first = written.split('/').next().unwrap_or_default().as_bytes();
    matches!(first, [letter, b':'] if letter.is_ascii_alphabetic())
}

fn breaks_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}
