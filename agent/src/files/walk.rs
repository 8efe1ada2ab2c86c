//! All files below a directory, in bounded memory.

use std::{fmt, io};

use cap_std::fs::{Dir, DirEntry, ReadDir};
use ignore::gitignore::Gitignore;

use super::disk::regular;
use super::ignored::{is_ignored, rules_in};
use super::kept::Kept;
use super::path::shown;
use super::{Disk, FileError, Kind, VirtualPath};

/// Directories are held open down to this depth.
const MAX_DEPTH: usize = 128;
const MAX_SKIPPED: usize = 20;
const MAX_SKIPPED_BYTES: usize = 8_000;

/// A regular file that a walk found, or a link to one.
pub(super) struct Found {
    pub(super) path: VirtualPath,
    pub(super) kind: Kind,
}

/// Goes through a tree, in no order, and gives the files in it.
///
/// A link to a file counts as that file. A link to a directory is not entered: what it leads to
/// is found under its own name. What can not be searched is put down as skipped, and the walk
/// goes on. `.git`, and what `.gitignore` files of the tree say, is passed over without a word,
/// unless `ignored` files are wanted too.
pub(super) struct Walk<'a> {
    disk: &'a Disk,
    ignored: bool,
    /// Rules of the directories above the one that is searched.
    above: Vec<Gitignore>,
    open: Vec<OpenDir>,
    /// The search is of this one file.
    single: Option<Found>,
    skipped: Kept<String, Kind>,
}

struct OpenDir {
    path: VirtualPath,
    entries: ReadDir,
    rules: Option<Gitignore>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        disk: &'a Disk,
        base: &VirtualPath,
        ignored: bool,
    ) -> Result<Self, FileError> {
        let mut walk = Self {
            disk,
            ignored,
            above: Vec::new(),
            open: Vec::new(),
            single: None,
            skipped: Kept::new(MAX_SKIPPED, MAX_SKIPPED_BYTES),
        };
        let real = disk.resolve(base)?;
        if real.meta.is_dir() {
            walk.start(base)?;
        } else {
            let kind = Kind::File {
                size: regular(base, &real.meta)?,
            };
            walk.single = Some(Found {
                path: base.clone(),
                kind,
            });
        }
        Ok(walk)
    }

    fn start(&mut self, base: &VirtualPath) -> Result<(), FileError> {
        self.rules_above(base);
        let dir = self.disk.open_dir(base)?;
        self.enter(base.clone(), &dir)
            .map_err(|error| FileError::at(base, error))
    }

    fn enter(&mut self, path: VirtualPath, dir: &Dir) -> io::Result<()> {
        let entries = dir.entries()?;
        let rules = self.rules(dir, &path);
        self.open.push(OpenDir {
            path,
            entries,
            rules,
        });
        Ok(())
    }

    /// Collects the rules of the directories that lead to `path`, from the root down.
    fn rules_above(&mut self, path: &VirtualPath) {
        if let Some((parent, _)) = path.split() {
            self.rules_above(&parent);
            let rules = match self.disk.open_dir(&parent) {
                Ok(dir) => self.rules(&dir, &parent),
                Err(_) => self.no_rules(&parent),
            };
            self.above.extend(rules);
        }
    }

    fn rules(&mut self, dir: &Dir, path: &VirtualPath) -> Option<Gitignore> {
        if self.ignored {
            return None;
        }
        rules_in(dir, path).unwrap_or_else(|_| self.no_rules(path))
    }

    fn no_rules(&mut self, path: &VirtualPath) -> Option<Gitignore> {
        self.put_down(inside(path, ".gitignore"), Kind::BadIgnoreFile);
        None
    }

    /// Deals with one entry of the innermost open directory; gives it when it is a file.
    fn meet(&mut self, entry: &DirEntry) -> Option<Found> {
        let name = entry.file_name();
        let parent = &self.open.last()?.path;
        let Some(path) = name.to_str().and_then(|name| parent.join(name).ok()) else {
            self.put_down(
                inside(parent, &shown(&name.to_string_lossy())),
                Kind::Unnameable,
            );
            return None;
        };
        let kind = match entry.metadata() {
            Ok(meta) => self.disk.kind(&path, &meta),
            Err(_) => Kind::Unreadable,
        };
        if self.passes_over(&path, kind == Kind::Directory) {
            return None;
        }
        match kind {
            Kind::File { .. } | Kind::FileLink { .. } => return Some(Found { path, kind }),
            Kind::Directory => self.descend(path, entry),
            other => self.put_down(path, other),
        }
        None
    }

    fn passes_over(&self, path: &VirtualPath, is_dir: bool) -> bool {
        let rules = self
            .above
            .iter()
            .chain(self.open.iter().filter_map(|dir| dir.rules.as_ref()));
        !self.ignored && (path.name() == Some(".git") || is_ignored(rules, path, is_dir))
    }

    fn descend(&mut self, path: VirtualPath, entry: &DirEntry) {
        if self.open.len() >= MAX_DEPTH {
            self.put_down(path, Kind::TooDeep);
        } else if entry
            .open_dir()
            .and_then(|dir| self.enter(path.clone(), &dir))
            .is_err()
        {
            self.put_down(path, Kind::Unreadable);
        }
    }

    /// Puts down that something was not searched.
    pub(super) fn put_down(&mut self, path: impl fmt::Display, kind: Kind) {
        let path = path.to_string();
        self.skipped.offer(path.clone(), path.len(), || kind);
    }

    pub(super) fn finish(self) -> Skipped {
        let (entries, more) = self.skipped.finish();
        Skipped { entries, more }
    }
}

/// A path for people: `name` need not be one that can be used.
fn inside(directory: &VirtualPath, name: &str) -> String {
    format!("{}/{name}", directory.as_str().trim_end_matches('/'))
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some(single) = self.single.take() {
            return Some(single);
        }
        loop {
            match self.open.last_mut()?.entries.next() {
                Some(Ok(entry)) => {
                    if let Some(found) = self.meet(&entry) {
                        return Some(found);
                    }
                }
                Some(Err(_)) => {
                    let broken = self.open.pop()?;
                    self.put_down(broken.path, Kind::Unreadable);
                }
                None => {
                    self.open.pop();
                }
            }
        }
    }
}

/// What a search did not look into, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// The first of them by path, and what is there.
    pub entries: Vec<(String, Kind)>,
    /// How many others there were.
    pub more: u64,
}

/// Lines to follow a result; nothing when nothing was skipped.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.entries.is_empty() {
            return Ok(());
        }
        f.write_str("\nnot searched:")?;
        for (path, kind) in &self.entries {
            write!(f, "\n{path}{kind}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n({more} more)"),
        }
    }
}
