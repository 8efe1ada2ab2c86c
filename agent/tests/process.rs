//! Tests that go on in a new process: this binary runs itself again, with one test and one stage of it.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const STAGE: &str = "AGENT_TEST_STAGE";
const FOLDER: &str = "AGENT_TEST_FOLDER";
/// Stands before a report, since the test harness writes to the same stream.
const MARK: &str = "@@report ";

/// Plays a test whose stages run in processes of their own and share a folder.
///
/// `parent` says which stages run and looks at what they report; `stage` is what a child process does.
/// `test` is the test function itself: its path is the name that the harness knows it by.
pub(crate) fn play<T>(
    test: T,
    stage: impl AsyncFnOnce(String, PathBuf) -> Value,
    parent: impl AsyncFnOnce(Stages),
) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    let (Ok(name), Some(folder)) = (env::var(STAGE), env::var_os(FOLDER)) else {
        let path = std::any::type_name_of_val(&test);
        let (_, path) = path.split_once("::").unwrap();
        return runtime.block_on(parent(Stages {
            test: path.to_owned(),
            folder: tempfile::tempdir().unwrap(),
        }));
    };
    report(&runtime.block_on(stage(name, folder.into())));
}

/// Tells the parent process.
pub(crate) fn report(value: &Value) {
    println!("{MARK}{value}");
}

/// The stages of one test.
pub(crate) struct Stages {
    test: String,
    folder: TempDir,
}

impl Stages {
    /// The folder that all stages share.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a stage to its end.
    pub(crate) fn run(&self, stage: &str) -> Value {
        let mut child = self.spawn(stage);
        let report = heard(&mut child);
        assert!(child.wait().unwrap().success(), "{stage}");
        report
    }

    /// Runs a stage until it reports from the middle of its work, and kills it there.
    pub(crate) fn kill(&self, stage: &str) -> Value {
        let mut child = self.spawn(stage);
        let report = heard(&mut child);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "{stage} was not killed");
        report
    }

    fn spawn(&self, stage: &str) -> Child {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", &self.test, "--nocapture"])
            .env(STAGE, stage)
            .env(FOLDER, self.folder())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

/// Waits for a report; the output is read no further, so a child says little after it.
fn heard(child: &mut Child) -> Value {
    let output = BufReader::new(child.stdout.as_mut().unwrap());
    let mut seen = String::new();
    for line in output.lines() {
        let line = line.unwrap();
        if let Some((_, report)) = line.split_once(MARK) {
            return serde_json::from_str(report).unwrap();
        }
        seen.push_str(&line);
        seen.push('\n');
    }
    panic!("a stage ended without a report:\n{seen}")
}
