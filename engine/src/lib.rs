//! A Pregel engine for stateful, long-running, interruptible workflows.
//!
//! A [`Graph`] is built once from async functions, its *nodes*. A [`Thread`] is one long-lived run of it.
//! It moves in *supersteps*: plan which nodes are due, run them concurrently on the same frozen state,
//! fold what they wrote into the channels of the state, save a checkpoint; until nothing is due or a node asks.
//!
//! | you want | take |
//! |---|---|
//! | a state with types | `#[derive(State)]`, see [`State`](derive@State) |
//! | a graph that comes from data at run time | [`document`]; or by hand `Graph<`[`Json`](channels::Json)`>`, [`Node::named`], [`ChannelSpec`](channels::ChannelSpec) |
//! | to go on to a fixed node, or to one of several | [`edge`](GraphBuilder::edge), [`branch`](GraphBuilder::branch), [`Update::goto`] |
//! | to wait for several nodes | [`join`](GraphBuilder::join), [`defer`](GraphBuilder::defer) |
//! | many tasks of one node, each with its own input | [`Update::send`] |
//! | to ask a human, or anybody outside | [`Context::interrupt`], then [`Thread::resume`] |
//! | a graph inside a graph | [`subgraph`](GraphBuilder::subgraph), or [`Context::run`] inside a node |
//! | to do something once although its node runs again | [`Context::step`] |
//! | to call functions as tasks of their own, side by side | [`Context::call`], [`Routine`] |
//! | to write a workflow as one function | [`entry`] |
//! | to try again, to limit time, to keep results for equal inputs | [`policy`](GraphBuilder::policy), [`Policy`] |
//! | to do something else when a node fails | [`on_error`](GraphBuilder::on_error) |
//! | to look into a graph inside a thread, or go back in it | [`Thread::nested`], [`Thread::at_nested`] |
//! | to watch a run | [`RunBuilder::stream`], [`Context::emit`] |
//! | to watch a run that does not wait | [`RunBuilder::watch`] |
//! | to read events again after the connection was cut | [`RunBuilder::log`], [`Thread::events`] |
//! | to stop a run | [`Control`] |
//! | to start a run twice and have it once | [`RunBuilder::id`] |
//! | to go on after a crash, an error or a limit | [`Thread::proceed`] |
//! | to know why a node ran | [`Thread::explain`] |
//! | to see a graph | [`Graph::mermaid`], [`Graph::dot`], [`Graph::to_json`], [`Graph::warnings`] |
//! | to look back, or to go on from back there | [`Thread::history`], [`Thread::at`] |
//! | to trade safety for speed | [`Durability`] |
//! | to keep threads in a file | `SqliteCheckpointer`, with the feature `sqlite` of `superstep-checkpoint` |
//! | to open threads that an earlier version of the graph stored | [`Migration`] |
//! | to run tasks on other machines | [`Executor`] |
//!
//! State changes exactly once, side effects happen at least once: a node whose result was not saved before a crash
//! runs again, and so does a node that asked. [`Context::task`] is the key by which a side effect knows that it
//! happened already.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use superstep::prelude::*;
//!
//! #[derive(State, Clone, Default, Serialize, Deserialize)]
//! struct Count {
//!     value: u32,
//! }
//!
//! const UP: Node<Count> = Node::new("up");
//!
//! async fn up(count: Count, _: Context) -> NodeResult {
//!     Ok(Update::new().put(Count::VALUE, count.value + 1))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = Graph::<Count>::builder()
//!     .node(UP, up)
//!     .entry(UP)
//!     .branch(UP, |count| (count.value < 3).then_some(UP))
//!     .build()?;
//! let thread = graph.thread(&MemoryCheckpointer::new(), "count-to-three");
//! let outcome = thread.start(Count::default()).await?;
//! assert_eq!(outcome.done().map(|count| count.value), Some(3));
//! # Ok(())
//! # }
//! ```
//!
//! **This crate does not know** what a message, a model, a prompt, a tool or a token is; it has no HTTP,
//! no database driver and no global state, and it reads a clock only where a policy is about time.

// Indices into a graph's own lists come from the graph itself: `build` makes them, and names are
// turned into indices at the border. Everything that comes from outside is looked up by name.

extern crate self as superstep;

mod amendment;
mod ask;
mod attempt;
mod call;
mod check;
mod context;
mod control;
pub mod document;
mod durability;
pub mod entry;
mod error;
mod event;
mod event_log;
mod executor;
mod explanation;
mod graph;
mod handler;
mod journal;
mod kept;
mod migration;
mod nested;
mod nested_thread;
mod nesting;
mod node;
mod policy;
mod record;
mod routine;
mod run;
mod sink;
mod snapshot;
mod state;
mod thread;
mod update;

pub use amendment::StateUpdate;
pub use ask::{Answer, Ask, AskId, ParseAskIdError};
pub use check::Checked;
pub use context::Context;
pub use control::Control;
pub use durability::Durability;
pub use error::{
    AnswerError, BuildError, Failure, NodeError, Problem, ReadError, RunError, TaskError,
    UpdateError,
};
pub use event::{Event, Modes, Part};
pub use event_log::{EventId, Logged, ParseEventIdError};
pub use executor::{Executor, InProcess, Task, TaskOutcome};
pub use explanation::{Because, Change, Explanation, Reason};
pub use graph::{Graph, GraphBuilder, Warning};
pub use handler::{NodeFailure, Rescue};
pub use migration::Migration;
pub use nested_thread::Nested;
pub use nesting::Nesting;
pub use node::{Handler, Node, NodeResult, Target, Targets, TaskInput};
pub use policy::{Cached, Policy, Retry, TimeLimit};
pub use routine::Routine;
pub use run::{Breakpoints, DEFAULT_LIMIT};
pub use snapshot::{Snapshot, TaskState};
#[doc(hidden)]
pub use state::payload_as;
pub use state::{Fields, Input, Payload, Reads, Schema, State, View};
pub use superstep_channels as channels;
pub use superstep_checkpoint as checkpoint;
pub use superstep_derive::State;
pub use thread::{Outcome, RunBuilder, RunStream, Thread, Watch};
pub use update::Update;

/// What a file that defines a graph imports.
pub mod prelude {
    pub use crate::channels::{ChannelSpec, Json, Key, List, Snapshots, append};
    pub use crate::checkpoint::MemoryCheckpointer;
    pub use crate::{
        Answer, Ask, Context, Event, Graph, Modes, Node, NodeResult, Outcome, Payload, RunError,
        State, Update,
    };
}
