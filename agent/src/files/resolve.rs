//! Where a path leads, through links that stay inside the root.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::Metadata;

use super::disk::named;
use super::{Disk, FileError, VirtualPath};

/// How many links one path may go through; the usual limit of Linux.
const MAX_LINKS: usize = 40;

/// A place below the root with no link in its path, and what is there.
///
/// Others may change the tree meanwhile: whoever opens the place goes through the directory
/// handle, which holds even then.
pub(super) struct Real {
    pub(super) path: PathBuf,
    pub(super) meta: Metadata,
}

impl Disk {
    /// Follows `path` to the end.
    pub(super) fn resolve(&self, path: &VirtualPath) -> Result<Real, FileError> {
        let failed = |error| FileError::at(path, error);
        let mut trail = Trail::new(self, path).map_err(failed)?;
        while let Some(step) = trail.next_name() {
            match trail.follow(step.name) {
                Ok(()) => {}
                Err(error) if step.of_link && is_missing(&error) => {
                    return Err(FileError::BrokenLink { path: path.clone() });
                }
                Err(error) => return Err(failed(error)),
            }
            if trail.links > MAX_LINKS {
                return Err(FileError::BrokenLink { path: path.clone() });
            }
        }
        Ok(trail.real)
    }
}

struct Trail<'a> {
    disk: &'a Disk,
    real: Real,
    /// Names to go on with; the last `written` of them are of the path, others of links.
    pending: VecDeque<OsString>,
    written: usize,
    links: usize,
}

struct Step {
    name: OsString,
    of_link: bool,
}

impl<'a> Trail<'a> {
    fn new(disk: &'a Disk, path: &VirtualPath) -> io::Result<Self> {
        let real = Real {
            path: PathBuf::new(),
            meta: disk.handle().dir_metadata()?,
        };
        let pending: VecDeque<_> = path.names().map(OsString::from).collect();
        let written = pending.len();
        Ok(Self {
            disk,
            real,
            pending,
            written,
            links: 0,
        })
    }

    fn next_name(&mut self) -> Option<Step> {
        let name = self.pending.pop_front()?;
        let of_link = self.pending.len() >= self.written;
        self.written = self.written.min(self.pending.len());
        Some(Step { name, of_link })
    }

    fn follow(&mut self, name: OsString) -> io::Result<()> {
        if name == ".." {
            return self.leave();
        }
        let next = self.real.path.join(&name);
        let meta = self.disk.handle().symlink_metadata(&next)?;
        if meta.is_symlink() {
            return self.enter_link(&next);
        }
        self.real = Real { path: next, meta };
        Ok(())
    }

    fn enter_link(&mut self, link: &Path) -> io::Result<()> {
        self.links += 1;
        let target = self.disk.handle().read_link_contents(link)?;
        let target = if target.has_root() {
            self.restart(&target)?
        } else {
            target
        };
        for component in target.components().rev() {
            if component != Component::CurDir {
                self.pending.push_front(component.as_os_str().to_owned());
            }
        }
        Ok(())
    }

    /// Goes back to the root for an absolute target, and gives what remains of it.
    fn restart(&mut self, target: &Path) -> io::Result<PathBuf> {
        let below = self
            .disk
            .roots()
            .iter()
            .find_map(|root| target.strip_prefix(root).ok());
        let below = below.ok_or_else(outside)?;
        self.real = Real {
            path: PathBuf::new(),
            meta: self.disk.handle().dir_metadata()?,
        };
        Ok(below.to_owned())
    }

    /// One directory up.
    fn leave(&mut self) -> io::Result<()> {
        if !self.real.path.pop() {
            return Err(outside());
        }
        self.real.meta = self
            .disk
            .handle()
            .symlink_metadata(named(&self.real.path))?;
        Ok(())
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The same error that the directory handle gives for an escape.
fn outside() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}
