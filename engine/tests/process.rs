//! Processes of their own: this test binary runs itself again, with one of its ignored tests as the entry.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use superstep::checkpoint::{Checkpointer, PostgresCheckpointer, SqliteCheckpointer};

const FOLDER: &str = "SUPERSTEP_TEST_FOLDER";
const ORDER: &str = "SUPERSTEP_TEST_ORDER";

/// Runs the ignored test `entry` in a new process and waits for its end.
/// It finds `folder` and `order` with [`assignment`].
pub(crate) fn run(entry: &str, folder: &Path, order: &str) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            entry,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(FOLDER, folder)
        .env(ORDER, order)
        .stdout(Stdio::null())
        .status()
        .unwrap()
}

/// The folder and the order that the parent process gave.
pub(crate) fn assignment() -> (PathBuf, String) {
    let folder = std::env::var_os(FOLDER).expect("only another test starts this one");
    (folder.into(), std::env::var(ORDER).unwrap())
}

/// Runs a future on a runtime of one thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// The file with the URL of the database, if the folder's store is one.
const URL: &str = "url";

/// Has the folder's store be this database.
pub(crate) fn use_database(folder: &Path, url: &str) {
    std::fs::write(folder.join(URL), url).unwrap();
}

/// Opens the folder's store: a SQLite file, unless it was said which database.
pub(crate) async fn open(folder: &Path) -> Arc<dyn Checkpointer> {
    match std::fs::read_to_string(folder.join(URL)) {
        Ok(url) => Arc::new(PostgresCheckpointer::connect(&url).await.unwrap()),
        Err(_) => Arc::new(SqliteCheckpointer::open(folder.join("threads.db")).unwrap()),
    }
}
