//! Listing a directory.

use std::ffi::{OsStr, OsString};
use std::fmt;

use cap_std::fs::DirEntry;
use schemars::JsonSchema;
use serde::Deserialize;

use super::kept::Kept;
use super::path::shown;
use super::{Disk, FileError, Kind, MAX_TEXT, VirtualPath, root_path};

const MAX_ENTRIES: usize = 1000;
/// What a line takes beside the name and a link's target.
const ENTRY_EXTRA: usize = 48;

/// Which directory to list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct LsArgs {
    /// Path of the directory, from the root `/`.
    #[serde(default = "root_path")]
    pub path: String,
    /// List only names that sort after this one. Only needed to go on with a long directory, as
    /// the listing before says.
    #[serde(default)]
    pub after: Option<String>,
}

impl Default for LsArgs {
    fn default() -> Self {
        Self {
            path: root_path(),
            after: None,
        }
    }
}

/// The entries of a directory, sorted by name, hidden ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The directory.
    pub path: VirtualPath,
    /// Its entries, at most 1,000.
    pub entries: Vec<Entry>,
    /// How many entries follow these.
    pub more: u64,
}

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its name; one that can not be used in a path is shown escaped.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// Lists the entries of a directory.
pub fn ls(disk: &Disk, args: &LsArgs) -> Result<Listing, FileError> {
    let path = VirtualPath::parse(&args.path)?;
    let dir = disk.open_dir(&path)?;
    let failed = |error| FileError::at(&path, error);
    let after = args.after.as_deref().map(OsStr::new);
    let mut kept: Kept<OsString, DirEntry> = Kept::new(MAX_ENTRIES, MAX_TEXT);
    for entry in dir.entries().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if after.is_none_or(|after| *name > *after) {
            let bytes = name.len() + ENTRY_EXTRA;
            kept.offer(name, bytes, || entry);
        }
    }
    let (entries, more) = kept.finish();
    let entries = entries
        .into_iter()
        .map(|(name, entry)| describe(disk, &path, &name, &entry));
    let entries = entries.collect();
    Ok(Listing {
        path,
        entries,
        more,
    })
}

fn describe(disk: &Disk, parent: &VirtualPath, name: &OsStr, entry: &DirEntry) -> Entry {
    let Some(path) = name.to_str().and_then(|name| parent.join(name).ok()) else {
        return Entry {
            name: shown(&name.to_string_lossy()),
            kind: Kind::Unnameable,
        };
    };
    let kind = match entry.metadata() {
        Ok(meta) => disk.kind(&path, &meta),
        Err(_) => Kind::Unreadable,
    };
    Entry {
        name: path.name().unwrap_or_default().to_owned(),
        kind,
    }
}

/// The listing as the model reads it.
impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            entries,
            more,
        } = self;
        write!(f, "entries of `{path}`: {}", entries.len())?;
        for Entry { name, kind } in entries {
            write!(f, "\n{name}{kind}")?;
        }
        match entries.last() {
            Some(last) if *more > 0 => {
                write!(
                    f,
                    "\n({more} more: list again with after \"{}\")",
                    last.name
                )
            }
            _ => Ok(()),
        }
    }
}
