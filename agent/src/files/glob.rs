//! Finding files by the pattern of their path.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use super::kept::Kept;
use super::pattern::Pattern;
use super::walk::Walk;
use super::{Disk, FileError, Kind, MAX_TEXT, Skipped, VirtualPath, root_path};

const MAX_FILES: usize = 1000;
/// What a line takes beside the path.
const FILE_EXTRA: usize = 32;

/// Which files to find.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct GlobArgs {
    /// Pattern of the files: `*` and `?` stay within one name, `**` stands for any directories,
    /// `[ab]` and `{a,b}` for alternatives (`?` and `[ab]` for ASCII only). Without a slash it is held against the name of each
    /// file, at any depth; with one, against its path below `path`; with a leading slash, against
    /// its path from the root. Only files are found, no directories.
    pub pattern: String,
    /// Directory to search, from the root `/`.
    #[serde(default = "root_path")]
    pub path: String,
    /// Also search `.git`, and what `.gitignore` files exclude.
    #[serde(default)]
    pub ignored: bool,
}

impl Default for GlobArgs {
    fn default() -> Self {
        Self {
            pattern: String::new(),
            path: root_path(),
            ignored: false,
        }
    }
}

/// The files that match a pattern, sorted by path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GlobResult {
    /// The first files, at most 1,000.
    pub files: Vec<FoundFile>,
    /// How many more match.
    pub more: u64,
    /// What could not be searched.
    pub skipped: Skipped,
}

/// One file that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundFile {
    /// Where it is.
    pub path: VirtualPath,
    /// A [`Kind::File`] or [`Kind::FileLink`].
    pub kind: Kind,
}

/// Finds files by pattern. Names with a leading dot are found like others.
pub fn glob(disk: &Disk, args: &GlobArgs) -> Result<GlobResult, FileError> {
    let base = VirtualPath::parse(&args.path)?;
    let pattern = Pattern::new(&args.pattern)?;
    let mut kept = Kept::new(MAX_FILES, MAX_TEXT);
    let mut walk = Walk::new(disk, &base, args.ignored)?;
    for found in walk
        .by_ref()
        .filter(|found| pattern.matches(&base, &found.path))
    {
        let bytes = found.path.as_str().len() + FILE_EXTRA;
        kept.offer(found.path, bytes, || found.kind);
    }
    let (files, more) = kept.finish();
    let files = files
        .into_iter()
        .map(|(path, kind)| FoundFile { path, kind })
        .collect();
    Ok(GlobResult {
        files,
        more,
        skipped: walk.finish(),
    })
}

/// The files as the model reads them.
impl fmt::Display for GlobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "files that match: {}",
            self.files.len() as u64 + self.more
        )?;
        for FoundFile { path, kind } in &self.files {
            write!(f, "\n{path}{kind}")?;
        }
        if self.more > 0 {
            write!(f, "\n({} more: narrow the pattern or the path)", self.more)?;
        }
        self.skipped.fmt(f)
    }
}
