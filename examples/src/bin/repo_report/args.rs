//! What was typed.

use std::path::PathBuf;

use clap::{Parser, ValueEnum, value_parser};

/// Surveys a directory with an agent and writes a Markdown report of it.
///
/// Without a model it uses a built-in planner: no key, no network. State is kept in a SQLite file,
/// so a run that was killed goes on with --thread.
#[derive(Debug, Parser)]
#[command(name = "repo_report", version)]
pub(crate) struct Args {
    /// The directory to survey [default: the current one, or the thread's own]
    pub(crate) dir: Option<PathBuf>,

    /// A model in the planner's place: openai:NAME, with OPENAI_API_KEY and, for another server, OPENAI_BASE_URL
    #[arg(long, value_name = "PROVIDER:NAME")]
    pub(crate) model: Option<String>,

    /// Gives a model up that sends nothing, or fails again and again, for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = value_parser!(u64).range(1..=900))]
    pub(crate) timeout: u64,

    /// Goes on with this thread instead of starting one
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,

    /// Pauses before the report is written
    #[arg(long, conflicts_with = "thread")]
    pub(crate) ask: bool,

    /// Answers the question that the thread waits on
    #[arg(long, value_name = "YES|NO", requires = "thread")]
    pub(crate) answer: Option<YesNo>,

    /// Where reports and the database are kept [default: superstep/ in the user's state directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    Yes,
    No,
}
