//! A directory of the host as the file system of an agent.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, OpenOptions};

use super::path::shown;
use super::{FileError, Kind, VirtualPath};

/// A directory of the host; nothing outside it can be reached.
///
/// Every access goes through a handle of the directory, so a link that is swapped in at the
/// wrong moment leads nowhere either. Links that stay inside work, also absolute ones. Only
/// regular files are opened: a FIFO, socket or device would block or have effects.
///
/// The file system may be changed by others at any time; an operation sees each file as it is
/// when it gets there. All operations block: call them on a thread that may.
#[derive(Debug)]
pub struct Disk {
    dir: Dir,
    /// The root as given and with its links resolved: what an absolute link may begin with.
    roots: [PathBuf; 2],
}

impl Disk {
    /// Opens `root`, a directory of the host that exists.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, FileError> {
        let root = root.as_ref();
        Self::at(root).map_err(|source| FileError::Io {
            path: root.display().to_string(),
            source,
        })
    }

    fn at(root: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        Ok(Self {
            dir,
            roots: [std::path::absolute(root)?, root.canonicalize()?],
        })
    }

    /// The handle of the root.
    pub(super) fn handle(&self) -> &Dir {
        &self.dir
    }

    /// What may stand before a path of this disk in the file system of the host.
    pub(super) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Opens a regular file for reading; with its size.
    pub(super) fn open_file(&self, path: &VirtualPath) -> Result<(File, u64), FileError> {
        let real = self.resolve(path)?;
        regular(path, &real.meta)?;
        let file =
            open_regular(&self.dir, &real.path).map_err(|error| FileError::at(path, error))?;
        let meta = file
            .metadata()
            .map_err(|error| FileError::at(path, error))?;
        let size = regular(path, &meta)?;
        Ok((file.into_std(), size))
    }

    /// Opens a directory.
    pub(super) fn open_dir(&self, path: &VirtualPath) -> Result<Dir, FileError> {
        let real = self.resolve(path)?;
        if !real.meta.is_dir() {
            return Err(FileError::NotADirectory { path: path.clone() });
        }
        self.dir
            .open_dir(named(&real.path))
            .map_err(|error| FileError::at(path, error))
    }

    /// What the entry at `path` is, given its own metadata; links are followed for the answer.
    pub(super) fn kind(&self, path: &VirtualPath, meta: &Metadata) -> Kind {
        if !meta.is_symlink() {
            return Kind::of(meta);
        }
        match self.resolve(path) {
            Ok(real) => {
                let target = shown(&format!("/{}", real.path.to_string_lossy()));
                match Kind::of(&real.meta) {
                    Kind::File { size } => Kind::FileLink { size, target },
                    Kind::Directory => Kind::DirectoryLink { target },
                    other => other,
                }
            }
            Err(FileError::OutsideRoot { .. }) => Kind::OutsideLink,
            Err(FileError::BrokenLink { .. } | FileError::NotFound { .. }) => Kind::BrokenLink,
            Err(_) => Kind::Unreadable,
        }
    }
}

/// Opens a file that was seen to be regular, without following or waiting for what it may have
/// become since; the caller looks at the handle again.
pub(super) fn open_regular(dir: &Dir, name: &Path) -> io::Result<cap_std::fs::File> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true).follow(FollowSymlinks::No);
    dir.open_with(name, &options)
}

/// The size of a regular file; refuses anything else.
pub(super) fn regular(path: &VirtualPath, meta: &Metadata) -> Result<u64, FileError> {
    let kind = match Kind::of(meta) {
        Kind::File { size } => return Ok(size),
        Kind::Directory => "a directory",
        _ => "a FIFO, socket or device",
    };
    Err(FileError::NotAFile {
        path: path.clone(),
        kind,
    })
}

/// The root's own path is empty, which the system does not take.
pub(super) fn named(real: &Path) -> &Path {
    if real.as_os_str().is_empty() {
        Path::new(".")
    } else {
        real
    }
}
