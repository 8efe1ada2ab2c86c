//! The program `repo_report`, run as a user runs it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use tempfile::TempDir;

use crate::reading::put;

/// A directory to survey, beside one for what the program writes.
pub(crate) struct Home(TempDir);

/// How a process ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A few parts with a few marks in them.
pub(crate) const PROJECT: [(&str, &str); 4] = [
    ("README.md", "# Tides\n\nPredicts the tide.\n"),
    (
        "src/main.rs",
        "//! Starts.\n\nfn main() {} // TODO: start\n",
    ),
    ("src/moon.py", "# FIXME: which moon\n"),
    ("docs/guide.md", "# Guide\n"),
];

impl Home {
    pub(crate) fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let home = Home(tempfile::tempdir().unwrap());
        fs::create_dir(home.dir()).unwrap();
        for (path, content) in files {
            put(&home.dir(), path, content);
        }
        home
    }

    /// What is surveyed.
    pub(crate) fn dir(&self) -> PathBuf {
        self.0.path().join("project")
    }

    /// Where the program writes; it makes this directory.
    pub(crate) fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.out().join("threads.db")
    }

    /// The program with these arguments, knowing no model.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_repo_report"));
        command.arg("--out").arg(self.out()).args(args);
        command
            .current_dir(self.0.path())
            .env_remove("OPENAI_API_KEY")
            .env_remove("OPENAI_BASE_URL")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        run(self.command(args))
    }

    /// A new thread, run to its end.
    pub(crate) fn survey(&self) -> Ran {
        self.run([self.dir()])
    }

    /// Goes on with a thread.
    pub(crate) fn go_on(&self, thread: &str) -> Ran {
        self.run(["--thread", thread])
    }

    /// The text without the paths that differ from one test run to the next.
    pub(crate) fn plain(&self, text: &str) -> String {
        text.replace(self.0.path().to_str().unwrap(), "HOME")
    }

    /// Where the report of this thread goes.
    pub(crate) fn report_of(&self, thread: &str) -> PathBuf {
        self.out().join(format!("report-{thread}.md"))
    }
}

pub(crate) fn run(mut command: Command) -> Ran {
    command.output().unwrap().into()
}

/// Runs until a line of the error output is the last one wanted, and kills the process then.
pub(crate) fn kill_at(mut command: Command, mut is_last: impl FnMut(&str) -> bool) -> Ran {
    let mut child = spawn(&mut command);
    let mut from = BufReader::new(child.stderr.take().unwrap());
    let mut stderr = String::new();
    loop {
        let at = stderr.len();
        if from.read_line(&mut stderr).unwrap() == 0 {
            break;
        }
        if is_last(&stderr[at..]) {
            child.kill().unwrap();
            break;
        }
    }
    // What it said until the signal arrived counts as well.
    from.read_to_string(&mut stderr).unwrap();
    let rest = child.wait_with_output().unwrap();
    Ran {
        stderr,
        ..Ran::from(rest)
    }
}

/// Kills the process after so many lines of its error output.
pub(crate) fn kill_after(command: Command, lines: usize) -> Ran {
    let mut left = lines;
    kill_at(command, |_| {
        left -= 1;
        left == 0
    })
}

/// Starts the process, with both outputs to be read.
pub(crate) fn spawn(command: &mut Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Ran {
            status: output.status,
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// What stands behind this label on the standard output.
    pub(crate) fn result(&self, label: &str) -> Option<&str> {
        let mut lines = self.stdout.lines();
        lines.find_map(|line| Some(line.strip_prefix(label)?.strip_prefix(':')?.trim_start()))
    }

    pub(crate) fn thread(&self) -> &str {
        self.result("thread").unwrap()
    }

    /// The report, after a run that wrote one.
    pub(crate) fn report(&self) -> String {
        assert_eq!(self.status.code(), Some(0), "{self:#?}");
        fs::read_to_string(Path::new(self.result("report").unwrap())).unwrap()
    }

    /// The lines that say what began.
    pub(crate) fn progress(&self) -> Vec<&str> {
        let lines = self.stderr.lines();
        lines
            .filter(|line| line.starts_with("superstep "))
            .collect()
    }

    /// What the one line says that ends a run in vain; besides it there is only progress.
    pub(crate) fn error(&self) -> &str {
        assert_eq!(self.status.code(), Some(1), "{self:#?}");
        let mut lines: Vec<&str> = self.stderr.lines().collect();
        let last = lines.pop().unwrap();
        assert_eq!(lines, self.progress(), "{self:#?}");
        last.strip_prefix("error: ").unwrap()
    }
}
