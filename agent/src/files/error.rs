//! What can go wrong with a file.

use std::io;

use super::VirtualPath;

/// Why a file operation was refused or failed. The text is one line for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The path can not be one of this backend.
    #[error("`{path}` is not a valid path: it {problem}")]
    InvalidPath {
        /// The path as written, in one line, cut when long.
        path: String,
        /// What is wrong, as the rest of a sentence that begins with "it".
        problem: &'static str,
    },
    /// Nothing is there.
    #[error("`{path}` does not exist: list its directory with ls, or search with glob")]
    NotFound {
        /// The path asked for.
        path: VirtualPath,
    },
    /// A link on the way leads to nothing, or round in a circle.
    #[error(
        "`{path}` goes through a broken link: its target is missing, or leads back to the link"
    )]
    BrokenLink {
        /// The path asked for.
        path: VirtualPath,
    },
    /// A link on the way leaves the root.
    #[error("`{path}` leads outside the root through a link: only files below `/` can be used")]
    OutsideRoot {
        /// The path asked for.
        path: VirtualPath,
    },
    /// A file was needed and this is something else.
    #[error("`{path}` is {kind}: name a regular file")]
    NotAFile {
        /// The path asked for.
        path: VirtualPath,
        /// What it is, with its article.
        kind: &'static str,
    },
    /// A directory was needed and this is something else.
    #[error("`{path}` is not a directory: name a directory, or read it as a file")]
    NotADirectory {
        /// The path asked for.
        path: VirtualPath,
    },
    /// The file holds no text.
    #[error("`{path}` is not text: {kind}, {size} bytes")]
    Binary {
        /// The path asked for.
        path: VirtualPath,
        /// What the first bytes look like.
        kind: &'static str,
        /// Size in bytes.
        size: u64,
    },
    /// The file system denies access.
    #[error("`{path}` can not be accessed: the file system denies permission")]
    Unreadable {
        /// The path asked for.
        path: VirtualPath,
    },
    /// The file is already there and may not be replaced.
    #[error("`{path}` exists already: edit it, choose another path, or set overwrite to true")]
    Exists {
        /// The path asked for.
        path: VirtualPath,
    },
    /// Reading would begin behind the last line.
    #[error("`{path}` ends before offset {offset}: its number of lines is {lines}")]
    PastEnd {
        /// The path asked for.
        path: VirtualPath,
        /// The first line asked for, counted from 0.
        offset: u64,
        /// How many lines there are.
        lines: u64,
    },
    /// The search pattern can not be used.
    #[error("`{pattern}` is not a valid pattern: {problem}")]
    InvalidPattern {
        /// The pattern as written, in one line, cut when long.
        pattern: String,
        /// What is wrong.
        problem: String,
    },
    /// The operating system failed in another way.
    #[error("`{path}` failed: {source}")]
    Io {
        /// The path asked for; the root's own path when the root could not be opened.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    /// The error that `source`, met at `path`, stands for.
    pub(super) fn at(path: &VirtualPath, source: io::Error) -> Self {
        let path = path.clone();
        match source.kind() {
            // A name below a file does not exist either.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound { path },
            // The directory handle refuses an escape itself, without asking the system.
            io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => {
                Self::OutsideRoot { path }
            }
            io::ErrorKind::PermissionDenied => Self::Unreadable { path },
            io::ErrorKind::AlreadyExists => Self::Exists { path },
            _ => Self::Io {
                path: path.to_string(),
                source,
            },
        }
    }
}
