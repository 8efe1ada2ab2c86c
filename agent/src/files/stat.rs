//! What a file is like, without its text.

use super::source::Source;
use super::{Disk, FileError, VirtualPath};

/// Size and shape of a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// Size in bytes.
    pub size: u64,
    /// Number of lines, the last one with or without its end; `None` for a file without text.
    pub lines: Option<u64>,
}

/// Looks at a regular file; reads it through to count its lines, when it is text.
pub fn stat(disk: &Disk, path: &VirtualPath) -> Result<Stat, FileError> {
    let mut source = Source::open(disk, path)?;
    let lines = match source.binary {
        Some(_) => None,
        None => Some(
            source
                .lines
                .count_rest()
                .map_err(|error| FileError::at(path, error))?,
        ),
    };
    Ok(Stat {
        size: source.size,
        lines,
    })
}
