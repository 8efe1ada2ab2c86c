//! A workflow that was loaded, and runs of it.

use std::fs;
use std::path::{Path, PathBuf};

use superstep::channels::Json;
use superstep::checkpoint::SqliteCheckpointer;
use superstep::document::{Document, Registry};
use superstep::{Graph, Thread};
use superstep_examples::failed::Failed;

use crate::args::Place;
use crate::{conditions, kinds};

#[derive(Debug)]
pub(crate) struct Workflow {
    pub(crate) graph: Graph<Json>,
    /// The folder that it lies in.
    folder: PathBuf,
}

/// Where nodes read and write. Each run gives it to them as its context.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    /// What they read lies below this.
    pub(crate) read: PathBuf,
    /// What they write goes here.
    pub(crate) write: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) thread: Thread<Json>,
    pub(crate) folders: Folders,
}

impl Workflow {
    pub(crate) fn load(file: &Path) -> Result<Self, Failed> {
        let text =
            fs::read_to_string(file).map_err(|error| Failed::file("cannot read", file, &error))?;
        let wrong = |error| Failed::because(file.display().to_string(), &error);
        let document = Document::from_json(&text).map_err(wrong)?;
        let registry = conditions::register(kinds::register(Registry::new()));
        let graph = document.build(&registry).map_err(wrong)?;
        let folder = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Workflow { graph, folder })
    }

    /// Opens the place of a run, which may be new.
    pub(crate) fn open(&self, place: &Place) -> Result<Run, Failed> {
        is_plain(&place.thread)?;
        let out = &place.out;
        fs::create_dir_all(out).map_err(|error| Failed::file("cannot make", out, &error))?;
        let store = SqliteCheckpointer::open(out.join("runs.db"))?;
        Ok(Run {
            thread: self.graph.thread(&store, place.thread.as_str()),
            folders: Folders {
                read: self.folder.clone(),
                write: out.clone(),
            },
        })
    }
}

/// Runs name files, so their names are such as any file may have.
pub(crate) fn is_plain(name: &str) -> Result<(), Failed> {
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    match !name.is_empty() && name.chars().all(plain) {
        true => Ok(()),
        false => Err(Failed::new(format!(
            "`{name}` is no name: letters, digits, `-`, `_` and `.` only"
        ))),
    }
}

impl Run {
    /// The thread, if there is one.
    pub(crate) async fn known(&self) -> Result<&Thread<Json>, Failed> {
        match self.thread.state().await?.checkpoint {
            Some(_) => Ok(&self.thread),
            None => {
                let (id, out) = (self.thread.id(), self.folders.write.display());
                Err(Failed::new(format!("there is no run `{id}` in {out}")))
            }
        }
    }
}
