//! What an entry of a directory is.

use std::fmt;

use cap_std::fs::Metadata;

/// What stands behind a name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A regular file.
    File {
        /// Size in bytes.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A link to a regular file inside the root: it can be used like the file.
    FileLink {
        /// Size of the file in bytes.
        size: u64,
        /// Where the link leads in the end.
        target: String,
    },
    /// A link to a directory inside the root. It can be used like the directory, but a search
    /// does not enter it: what is there is found under its own name, and only once.
    DirectoryLink {
        /// Where the link leads in the end.
        target: String,
    },
    /// A link that leaves the root: every use is refused.
    OutsideLink,
    /// A link whose target is missing or leads back to the link.
    BrokenLink,
    /// A FIFO, socket or device: never opened.
    Special,
    /// The file system denies access, or fails.
    Unreadable,
    /// Something whose name no [`VirtualPath`](super::VirtualPath) can hold, so that no call can
    /// name it.
    Unnameable,
    /// A directory too far down for a search to enter.
    TooDeep,
    /// A file without text, in a search for text.
    Binary,
    /// A `.gitignore` file that can not be used: unreadable, or too large.
    BadIgnoreFile,
}

impl Kind {
    /// The kind of an entry that is no link.
    pub(super) fn of(meta: &Metadata) -> Self {
        if meta.is_file() {
            Self::File { size: meta.len() }
        } else if meta.is_dir() {
            Self::Directory
        } else {
            Self::Special
        }
    }
}

/// What stands behind the name in a listing: `name` and this make a line.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { size } => write!(f, " ({size} bytes)"),
            Self::Directory => f.write_str("/"),
            Self::FileLink { size, target } => write!(f, " -> {target} ({size} bytes)"),
            Self::DirectoryLink { target } => write!(f, " -> {}/", target.trim_end_matches('/')),
            Self::OutsideLink => f.write_str(" (link that leads outside the root)"),
            Self::BrokenLink => f.write_str(" (broken link)"),
            Self::Special => f.write_str(" (FIFO, socket or device)"),
            Self::Unreadable => f.write_str(" (can not be read)"),
            Self::Unnameable => f.write_str(" (name can not be used in a path)"),
            Self::TooDeep => f.write_str("/ (too many directories deep)"),
            Self::Binary => f.write_str(" (binary)"),
            Self::BadIgnoreFile => f.write_str(" (can not be used: its rules were not applied)"),
        }
    }
}
