//! What was typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Checks, draws and runs workflows that are written down in JSON.
///
/// A run is a thread in a SQLite file. It can be killed, and goes on with `proceed`; where it asks something, it ends with exit
/// code 3 and goes on with `answer`, in another process if you like.
#[derive(Debug, Parser)]
#[command(name = "embed", version)]
pub(crate) struct Args {
    /// The workflow
    pub(crate) file: PathBuf,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Says whether the file is a workflow, or all that is wrong with it
    Check,
    /// Draws it
    Draw {
        /// In which language
        #[arg(long, value_enum, default_value_t = Form::Mermaid)]
        form: Form,
    },
    /// Starts a run
    Run {
        #[command(flatten)]
        place: Place,
        /// Channels to begin with, as a JSON object
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
    },
    /// Answers what a run asks, and goes on
    Answer {
        #[command(flatten)]
        place: Place,
        /// An answer as JSON, or as QUESTION=JSON if there are several questions
        #[arg(required = true)]
        answers: Vec<String>,
    },
    /// Goes on with a run that was killed, or failed, or stopped before a node
    Proceed {
        #[command(flatten)]
        place: Place,
    },
    /// Shows where a run stands, as JSON
    State {
        #[command(flatten)]
        place: Place,
    },
    /// Lists the checkpoints of a run, the newest first
    History {
        #[command(flatten)]
        place: Place,
    },
    /// Says why the nodes that are due are due
    Why {
        #[command(flatten)]
        place: Place,
        /// At an older checkpoint, as the history lists it
        #[arg(long, value_name = "CHECKPOINT")]
        checkpoint: Option<u64>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Place {
    /// The run's name
    #[arg(long)]
    pub(crate) thread: String,
    /// Where runs and what they write are kept
    #[arg(long, value_name = "DIR", default_value = "embed")]
    pub(crate) out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Mermaid,
    Dot,
    Json,
}

impl Command {
    /// The run that it is about.
    pub(crate) fn place(&self) -> Option<&Place> {
        match self {
            Command::Check | Command::Draw { .. } => None,
            Command::Run { place, .. }
            | Command::Answer { place, .. }
            | Command::Proceed { place }
            | Command::State { place }
            | Command::History { place }
            | Command::Why { place, .. } => Some(place),
        }
    }
}
