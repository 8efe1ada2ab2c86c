//! What can go wrong when a graph is built, and when it runs.

use std::fmt;
use std::time::Duration;

use superstep_channels::{CodecError, Name, WriteError};
use superstep_checkpoint::{CheckpointId, SaveError, TaskId};

use tokio::task::JoinError;

use crate::ask::AskId;
use crate::attempt::panic_text;
use crate::policy::TimeLimit;

/// Everything that is wrong with a graph, found in one go.
#[derive(Debug)]
pub struct BuildError {
    /// The graph.
    pub graph: String,
    /// What is wrong with it; at least one thing.
    pub problems: Vec<Problem>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph `{}` cannot be built:", self.graph)?;
        for problem in &self.problems {
            write!(f, "\n- {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildError {}

/// One thing that is wrong with a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Nothing starts.
    #[error("no entry: say with `entry` which node runs first")]
    NoEntry,
    /// Two nodes of one name.
    #[error("node `{0}` is declared twice")]
    DuplicateNode(Name),
    /// A name that the engine keeps for itself.
    #[error(
        "`{0}` cannot be a name: names are no numbers and not empty, do not begin with `__`, and hold no `|` or `:`"
    )]
    BadName(Name),
    /// An edge, branch or join from a node that is not there.
    #[error("an edge leaves `{0}`, which is no node")]
    UnknownSource(Name),
    /// An entry that is not there.
    #[error("the entry `{0}` is no node")]
    UnknownEntry(Name),
    /// An edge or join to a node that is not there.
    #[error("an edge leads to `{0}`, which is no node")]
    UnknownTarget(Name),
    /// A node that is to be deferred and is not there.
    #[error("`{0}` is to wait until nothing else is due, but is no node")]
    UnknownDeferred(Name),
    /// A breakpoint at a node that is not there.
    #[error("a breakpoint names `{0}`, which is no node")]
    UnknownBreakpoint(Name),
    /// A policy or an error handler for a node that is not there.
    #[error("a policy or an error handler is for `{0}`, which is no node")]
    UnknownPolicy(Name),
    /// A join that waits for nobody.
    #[error("a join into `{0}` waits for no node")]
    EmptyJoin(Name),
    /// Two declarations of one channel that do not agree.
    #[error("channel `{channel}` is declared as `{first}` and as `{second}`")]
    ChannelConflict {
        /// The channel.
        channel: Name,
        /// One declaration.
        first: String,
        /// The other.
        second: String,
    },
    /// A former name that is in use.
    #[error(
        "the migration says `{0}` is a former name, but the graph has it, or the migration names it twice"
    )]
    FormerName(Name),
    /// A former name of something that is not there.
    #[error("the migration follows `{former}` to `{now}`, which the graph does not have")]
    LostName {
        /// The name that stored threads have.
        former: Name,
        /// Where the chain of names ends.
        now: Name,
    },
    /// A conversion for something that is not there.
    #[error("the migration converts what is stored of `{0}`, which the graph does not have")]
    LostConversion(Name),
    /// A channel that cannot be stored as its writes.
    #[error("`{0}` is to be stored as its writes, but is no channel that folds")]
    NoFold(Name),
    /// A node, input or output that names a channel nobody declared.
    #[error("`{user}` uses channel `{channel}`, which is not declared")]
    UnknownChannel {
        /// Who names it.
        user: Name,
        /// The channel.
        channel: Name,
    },
}

/// Why a run ended before its graph was done. What had been saved by then is there: run on with
/// [`Thread::proceed`](crate::Thread::proceed) once the cause is gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Tasks failed. Their siblings finished and will not run again.
    #[error("{}", describe(.0))]
    Tasks(Vec<Failure>),
    /// The writes of one superstep do not go together.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The state cannot be read as the type that was asked for.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The graph is not done after as many supersteps as the run may take.
    #[error("not done after {limit} supersteps; due next: {}", .next.join(", "))]
    Limit {
        /// The limit of this run.
        limit: u32,
        /// The nodes that are due.
        next: Vec<String>,
    },
    /// Input that names a channel the graph does not have.
    #[error("{}", unknown_input(.graph, .channel))]
    UnknownInput {
        /// The graph.
        graph: String,
        /// The channel.
        channel: Name,
    },
    /// Input that writes a channel that callers may not write.
    #[error(
        "the input writes channel `{channel}`, which graph `{graph}` does not take from outside"
    )]
    NotInput {
        /// The graph.
        graph: String,
        /// The channel.
        channel: Name,
    },
    /// Input that does not fit the graph in another way.
    #[error("the input does not fit: {0}")]
    Input(TaskError),
    /// The run was cancelled. What had finished is saved.
    #[error("the run on {place} was cancelled")]
    Cancelled {
        /// Where.
        place: String,
    },
    /// A graph that keeps its state in the thread, run by two tasks at once.
    #[error(
        "{place} is run by two tasks at once, but keeps one history: let one run after the other, give each a node of its own, \
         or let the graph start anew in each (`Nesting::PerCall`)"
    )]
    NestedTwice {
        /// Where it keeps its history.
        place: String,
    },
    /// A command to the enclosing graph in a graph that no other runs.
    #[error("node `{node}` gave a command to the graph around, but there is none")]
    NoParent {
        /// The node.
        node: Name,
    },
    /// An event id that is on no checkpoint of the thread as it is now.
    #[error("{place} has no event {id} on the way to its newest checkpoint")]
    UnknownEvent {
        /// Where it was looked for.
        place: String,
        /// Which.
        id: String,
    },
    /// A namespace that leads to no nested graph.
    #[error(
        "no graph is known at namespace `{namespace}`: nodes that call graphs say so with `calls`"
    )]
    UnknownNamespace {
        /// The namespace.
        namespace: String,
    },
    /// A breakpoint at a node that is not there, so that the run would never stop at it.
    #[error("a breakpoint names `{node}`, which is no node of graph `{graph}`")]
    UnknownBreakpoint {
        /// The graph.
        graph: String,
        /// The node.
        node: Name,
    },
    /// A run without input on a thread that holds nothing to go on from.
    #[error("{place} is empty: give it input first")]
    NothingToDo {
        /// The thread.
        place: String,
    },
    /// Answers that fit no question.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// An update of the state by hand that says too little or names what is not there.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// Something that needs a checkpointer, on a thread without one.
    #[error("{what} needs a thread with a checkpointer")]
    NoCheckpointer {
        /// What was tried.
        what: &'static str,
    },
    /// A checkpoint that is not there.
    #[error("{place} has no checkpoint {id}")]
    UnknownCheckpoint {
        /// Where it was looked for.
        place: String,
        /// Which.
        id: CheckpointId,
    },
    /// A thread of another graph.
    #[error(
        "{place} was stored by graph `{stored}`, and this is `{graph}`: if it was renamed, say so with `Migration::graph`"
    )]
    OtherGraph {
        /// Where.
        place: String,
        /// The graph that stored it.
        stored: String,
        /// The graph that was to open it.
        graph: String,
    },
    /// A thread that a later version of the graph stored.
    #[error(
        "{place} was stored by version {stored} of graph `{graph}`, and this is version {known}"
    )]
    NewerGraph {
        /// Where.
        place: String,
        /// The graph.
        graph: String,
        /// The version that stored it.
        stored: u32,
        /// The version that was to open it.
        known: u32,
    },
    /// Another run changed the thread meanwhile. Nothing of this superstep was stored.
    #[error(transparent)]
    ThreadConflict(SaveError),
    /// A thread cannot be copied: it is not there, or the copy's name is taken.
    #[error(transparent)]
    Copy(SaveError),
    /// The checkpointer failed.
    #[error("the checkpointer failed")]
    Save(#[source] SaveError),
    /// A value cannot be stored, or what is stored cannot be read.
    #[error("{what}")]
    Stored {
        /// What could not be written or read: names channel and checkpoint.
        what: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Several tasks have to wait at once, but no Tokio runtime is there to run them.
    #[error("tasks that wait need a Tokio runtime")]
    NoRuntime,
}

impl RunError {
    /// A checkpoint names something that the graph does not have.
    pub(crate) fn unknown(kind: &str, name: &str) -> Self {
        RunError::Stored {
            what: format!("the checkpoint names {kind} `{name}`"),
            source: "the graph does not have it".into(),
        }
    }

    /// A channel whose stored bytes cannot be read.
    pub(crate) fn unreadable<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        channel: &str,
        id: CheckpointId,
    ) -> impl FnOnce(E) -> Self + use<E> {
        let what = format!("channel `{channel}` as stored in checkpoint {id} cannot be read");
        move |source| RunError::Stored {
            what,
            source: source.into(),
        }
    }
}

impl From<SaveError> for RunError {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Conflict { .. } => RunError::ThreadConflict(error),
            SaveError::Exists { .. } | SaveError::NoThread { .. } => RunError::Copy(error),
            other => RunError::Save(other),
        }
    }
}

fn unknown_input(graph: &str, channel: &str) -> String {
    match channel {
        // What JSON that is no object becomes.
        "" => format!("the input of graph `{graph}` is no JSON object, so it names no channels"),
        channel => {
            format!("the input writes channel `{channel}`, which graph `{graph}` does not have")
        }
    }
}

fn describe(failures: &[Failure]) -> String {
    let each: Vec<String> = failures.iter().map(Failure::to_string).collect();
    each.join("; ")
}

/// A task that failed.
#[derive(Debug, thiserror::Error)]
#[error("node `{node}` failed: {error}")]
pub struct Failure {
    /// The node.
    pub node: Name,
    /// The task.
    pub task: TaskId,
    /// Why.
    pub error: TaskError,
}

/// Why a task failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The node, or a branch behind it, returned an error.
    #[error("{0}")]
    Node(NodeError),
    /// The node panicked.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The input could not be read from the state.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The update goes to a node that is not there.
    #[error("its update or branch leads to `{0}`, which is no node of this graph")]
    UnknownTarget(Name),
    /// The node goes to another node than it said it may.
    #[error(
        "its update or branch leads to `{0}`, which is none of the nodes that it was said to lead to"
    )]
    UndeclaredTarget(Name),
    /// The update writes a channel that is not there.
    #[error("its update writes channel `{0}`, which this graph does not have")]
    UnknownChannel(Name),
    /// Its update has a write that its channel refuses, by type or together with the node's other writes.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A node that uses what the caller of the run did not give.
    #[error("the caller of the run gave no `{wanted}`: give it with `RunBuilder::context`")]
    NoContext {
        /// The type.
        wanted: &'static str,
    },
    /// A step or a call in another order than when its results were stored.
    #[error(
        "it now comes to `{now}` where `{found}` is stored: steps and calls must come in the same order every time"
    )]
    Changed {
        /// What is stored.
        found: String,
        /// What the task came to.
        now: Name,
    },
    /// The result of a step or a routine cannot be stored or read back.
    #[error("the result of `{name}` cannot be kept: {reason}")]
    Journal {
        /// The step or routine.
        name: Name,
        /// Why.
        reason: String,
    },
    /// An attempt reached a time limit of its node's policy.
    #[error("{limit} {} s", after.as_secs_f64())]
    TimedOut {
        /// Which.
        limit: TimeLimit,
        /// How long it is.
        after: Duration,
    },
    /// A blocking node, but no Tokio runtime is there to run it aside.
    #[error("a node that blocks needs a Tokio runtime")]
    NoRuntime,
    /// A step did what would be lost when its result is handed out and the work is not.
    #[error(
        "a step {what}: when the node runs again the step does not, so do that beside it or in a routine"
    )]
    InStep {
        /// What it did.
        what: &'static str,
    },
    /// A step or a routine has a name that it cannot have.
    #[error(
        "`{name}` cannot be the name of a step or routine: `__` at the start is the engine's, `|` and `:` part namespaces"
    )]
    BadName {
        /// The name.
        name: Name,
    },
    /// The answer to a question has the wrong form. It was dropped, the question stands.
    #[error("the answer to question {ask} is not what the node takes: {reason}")]
    BadAnswer {
        /// The question.
        ask: AskId,
        /// What is wrong.
        reason: String,
    },
}

impl TaskError {
    /// What is left of a task that panicked outside the node, or whose runtime was shut down.
    pub(crate) fn lost(lost: JoinError) -> Self {
        TaskError::Panicked(match lost.try_into_panic() {
            Ok(panic) => panic_text(&*panic),
            Err(cancelled) => cancelled.to_string(),
        })
    }
}

/// Whatever a node returned as its error. Made from any error by `?`.
pub struct NodeError(Box<dyn std::error::Error + Send + Sync>);

impl NodeError {
    /// The error as it was returned.
    pub fn get_ref(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for NodeError {
    fn from(error: E) -> Self {
        NodeError(error.into())
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// A state that cannot be read as a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The channel is empty and has no default.
    #[error("channel `{0}` is empty: nothing has written it yet")]
    Empty(Name),
    /// A payload, where the state was to be read.
    #[error("a `{0}` is not read from the state: its node is reached by `send` only")]
    Payload(String),
    /// The graph has no such channel.
    #[error("channel `{0}` is not declared in this graph")]
    Unknown(Name),
    /// The channel or the payload has another type.
    #[error("`{what}` holds `{found}`, not `{expected}`")]
    Type {
        /// The channel or node.
        what: Name,
        /// The type that was asked for.
        expected: String,
        /// The type that is there.
        found: String,
    },
}

/// Answers that fit no question. Nothing was stored; the questions stand as they were.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// Nobody asks this (any more).
    #[error("no question {0} is open: it was answered, or the thread went on without it")]
    NotOpen(AskId),
    /// An answer without an id, and no question.
    #[error("no question is open")]
    NothingOpen,
    /// More answers than questions.
    #[error("more answers than open questions, of which there are {open}")]
    TooMany {
        /// How many are open.
        open: usize,
    },
    /// One answer without an id, and several questions.
    #[error("{open} questions are open: say by id which one is answered")]
    Ambiguous {
        /// How many are open.
        open: usize,
    },
}

/// An update of a thread's state by hand that says too little or names what is not there. Nothing was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// Nothing to apply.
    #[error("there is no update, or a superstep without one")]
    Empty,
    /// A node that is not there.
    #[error("the state is to be updated as `{node}`, which is no node of graph `{graph}`")]
    UnknownNode {
        /// The graph.
        graph: String,
        /// The node.
        node: String,
    },
    /// Several nodes ran last.
    #[error(
        "{} ran last: say with `as_node` which of them the update is from", .nodes.join(", ")
    )]
    Ambiguous {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// Several updates in one superstep, not all of which say whose they are.
    #[error("of several updates in one superstep each must say with `as_node` whose it is")]
    Unnamed,
}

/// Wraps an error of the value codec with what was being read or written.
pub(crate) fn stored(what: impl Into<String>) -> impl FnOnce(CodecError) -> RunError {
    let what = what.into();
    move |error| RunError::Stored {
        what,
        source: error.into(),
    }
}
