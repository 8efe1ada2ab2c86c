//! The files of an agent: a directory of the host, and what a model can do in it.
//!
//! Each operation is a plain function over a [`Disk`]. Its arguments are a struct that a model
//! fills in, with the schema's descriptions in its field comments. Its result has fields for
//! code, and prints as the text for the model. Errors print as one line for the model.
//!
//! All of it takes hostile input: paths are checked by [`VirtualPath`], links are held inside
//! the root by [`Disk`], patterns are bounded. Memory does not grow with a file, a directory or
//! a tree: files are streamed, and of a long result only the first part is kept, in order.
//!
//! ```
//! use superstep_agent::files::{Disk, ReadArgs, WriteArgs, read, write};
//!
//! let root = tempfile::tempdir()?;
//! let disk = Disk::open(root.path())?;
//! let args = WriteArgs { path: "notes/plan.md".into(), content: "one\ntwo\n".into(), overwrite: false };
//! assert_eq!(write(&disk, &args)?.to_string(), "wrote `/notes/plan.md`, bytes: 8, lines: 2");
//! let page = read(&disk, &ReadArgs { path: "/notes/plan.md".into(), ..Default::default() })?;
//! assert_eq!(page.to_string(), "`/notes/plan.md`, lines 1-2 of 2:\n     1\tone\n     2\ttwo");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod disk;
mod error;
mod glob;
mod grep;
mod ignored;
mod kept;
mod kind;
mod lines;
mod ls;
mod path;
mod pattern;
mod read;
mod resolve;
mod source;
mod stat;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod tools;
mod walk;
mod write;

pub use disk::Disk;
pub use error::FileError;
pub use glob::{FoundFile, GlobArgs, GlobResult, glob};
pub use grep::{GrepArgs, GrepResult, Match, grep};
pub use kind::Kind;
pub use ls::{Entry, Listing, LsArgs, ls};
pub use path::VirtualPath;
pub use read::{Page, ReadArgs, Resume, Row, read};
pub use stat::{Stat, stat};
pub use tools::read_tools;
pub use walk::Skipped;
pub use write::{WriteArgs, Written, write};

/// The text of one result stays below this, so that it is not moved out of the context again.
const MAX_TEXT: usize = 64_000;

/// The path of a call that names none.
fn root_path() -> String {
    "/".into()
}
