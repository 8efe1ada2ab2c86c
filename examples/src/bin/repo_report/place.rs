//! Where a thread's files lie.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use superstep::checkpoint::SqliteCheckpointer;

use crate::args::Args;
use crate::job::Job;
use superstep_examples::failed::Failed;

/// The thread, its database, and the report it writes.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) thread: String,
    pub(crate) database: PathBuf,
    pub(crate) report: PathBuf,
}

impl Place {
    pub(crate) fn new(args: &Args) -> Result<Self, Failed> {
        let out = args.out.clone().unwrap_or_else(state_directory);
        let thread = match &args.thread {
            Some(thread) => thread.clone(),
            None => new_thread(args.dir.as_deref())?,
        };
        if thread.is_empty()
            || !thread
                .chars()
                .all(|c| c.is_alphanumeric() || "-_.".contains(c))
        {
            return Err(Failed::new(format!(
                "`{thread}` is no thread id: letters, digits, `-`, `_` and `.` only"
            )));
        }
        if args.thread.is_none() {
            fs::create_dir_all(&out).map_err(|error| Failed::file("cannot make", &out, &error))?;
        }
        let out = canonical(&out)?;
        Ok(Place {
            database: out.join("threads.db"),
            report: out.join(format!("report-{thread}.md")),
            thread,
        })
    }

    pub(crate) fn open(&self) -> Result<SqliteCheckpointer, Failed> {
        SqliteCheckpointer::open(&self.database).map_err(Failed::from)
    }

    /// What the database takes on the disk, the part that is not yet moved into its main file included.
    pub(crate) fn database_bytes(&self) -> u64 {
        let log = self.database.with_extension("db-wal");
        let sizes =
            [&self.database, &log].map(|file| fs::metadata(file).map_or(0, |found| found.len()));
        sizes.iter().sum()
    }

    /// A job for a new thread.
    pub(crate) fn new_job(&self, args: &Args) -> Result<Job, Failed> {
        let dir = args.dir.as_deref().unwrap_or(Path::new("."));
        let root = canonical(dir)?;
        if root.to_str().is_none() {
            return Err(Failed::new(format!(
                "the path of {} is not UTF-8",
                dir.display()
            )));
        }
        Ok(Job {
            root,
            ask: args.ask,
        })
    }
}

pub(crate) fn canonical(path: &Path) -> Result<PathBuf, Failed> {
    path.canonicalize()
        .map_err(|error| Failed::file("cannot open", path, &error))
}

/// Named after the directory, the moment and the process, so that it can be told from all others and typed.
fn new_thread(dir: Option<&Path>) -> Result<String, Failed> {
    let root = canonical(dir.unwrap_or(Path::new(".")))?;
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .take(24)
        .collect();
    let moment = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // An id that began with `-` would be taken for an option.
    let name = if name.is_empty() { "dir" } else { &name };
    Ok(format!(
        "{name}-{:x}-{:x}",
        moment.as_millis(),
        process::id()
    ))
}

/// Where programs of a user keep what they must not lose.
fn state_directory() -> PathBuf {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    // Relative paths do not count there.
    let state = state.filter(|state| state.is_absolute());
    state
        .or(home)
        .unwrap_or_else(|| PathBuf::from("."))
        .join("superstep")
}
