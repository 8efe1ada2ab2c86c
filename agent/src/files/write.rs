//! Writing a file in one step.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, File, OpenOptions, Permissions};
use schemars::JsonSchema;
use serde::Deserialize;

use super::disk::regular;
use super::{Disk, FileError, VirtualPath};

/// What to write where.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct WriteArgs {
    /// Path of the file, from the root `/`. Missing directories are made.
    pub path: String,
    /// The whole text of the file.
    pub content: String,
    /// Replace the file if it exists; otherwise that is an error.
    #[serde(default)]
    pub overwrite: bool,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The file.
    pub path: VirtualPath,
    /// Its size.
    pub bytes: usize,
    /// Its number of lines, the last one with or without its end.
    pub lines: usize,
}

/// Writes a whole file, so that others see either what was there or all of `content`, also
/// after a crash.
///
/// Permissions of a replaced file are kept. A path that ends in a link is refused, wherever the
/// link leads: write to its target instead. Without `overwrite`, of several writers at the same
/// time one wins and the others get [`FileError::Exists`].
///
/// A crash in the middle may leave a file `.superstep-*.tmp` beside the target.
pub fn write(disk: &Disk, args: &WriteArgs) -> Result<Written, FileError> {
    let path = VirtualPath::parse(&args.path)?;
    let Some((parent, name)) = path.split() else {
        return Err(FileError::NotAFile {
            path,
            kind: "a directory",
        });
    };
    let failed = |error| FileError::at(&path, error);
    let dir = make_dir(disk, &parent)?;
    let replaced = replaced(disk, &dir, &path, name)?;
    if replaced.is_some() && !args.overwrite {
        return Err(FileError::Exists { path });
    }
    let draft = Draft::new(&dir, &args.content, replaced).map_err(failed)?;
    draft.publish(name, args.overwrite).map_err(failed)?;
    let (bytes, lines) = (args.content.len(), args.content.lines().count());
    Ok(Written { path, bytes, lines })
}

/// Opens the directory at `path`, and makes what is missing of it.
fn make_dir(disk: &Disk, path: &VirtualPath) -> Result<Dir, FileError> {
    let (parent, name) = match (disk.open_dir(path), path.split()) {
        (Err(FileError::NotFound { .. }), Some(split)) => split,
        (opened, _) => return opened,
    };
    let parent = make_dir(disk, &parent)?;
    match parent.create_dir(name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(FileError::at(path, error))
        }
        // Made, or made meanwhile by somebody else.
        _ => parent
            .open_dir_nofollow(name)
            .map_err(|error| FileError::at(path, error)),
    }
}

/// The permissions of the file that is there; anything but a regular file is refused.
fn replaced(
    disk: &Disk,
    dir: &Dir,
    path: &VirtualPath,
    name: &str,
) -> Result<Option<Permissions>, FileError> {
    match dir.symlink_metadata(name) {
        Ok(meta) if meta.is_symlink() => {
            // A link that leaves the root, or leads nowhere, is the graver error.
            disk.resolve(path)?;
            Err(FileError::NotAFile {
                path: path.clone(),
                kind: "a link",
            })
        }
        Ok(meta) => regular(path, &meta).map(|_| Some(meta.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::at(path, error)),
    }
}

/// The new text under a passing name, which is gone when the draft is.
struct Draft<'a> {
    dir: &'a Dir,
    name: String,
}

impl<'a> Draft<'a> {
    fn new(dir: &'a Dir, content: &str, permissions: Option<Permissions>) -> io::Result<Self> {
        let (draft, mut file) = Self::create(dir)?;
        file.write_all(content.as_bytes())?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        Ok(draft)
    }

    /// Creates a file under a name that nobody uses.
    fn create(dir: &'a Dir) -> io::Result<(Self, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".superstep-{}-{number}.tmp", std::process::id());
            match dir.open_with(&name, &options) {
                Ok(file) => return Ok((Self { dir, name }, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn publish(self, name: &str, overwrite: bool) -> io::Result<()> {
        if overwrite {
            self.dir.rename(&self.name, self.dir, name)?;
        } else {
            // Unlike a rename, this fails when somebody else was faster.
            self.dir.hard_link(&self.name, self.dir, name)?;
        }
        sync(self.dir)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = self.dir.remove_file(&self.name);
    }
}

/// Makes the new entry of the directory last; elsewhere than on Unix the system sees to that.
fn sync(dir: &Dir) -> io::Result<()> {
    if cfg!(unix) {
        dir.open(".")?.sync_all()
    } else {
        Ok(())
    }
}

/// What was written, as the model reads it.
impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, bytes, lines } = self;
        write!(f, "wrote `{path}`, bytes: {bytes}, lines: {lines}")
    }
}
