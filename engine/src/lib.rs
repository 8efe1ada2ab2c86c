//! A Pregel engine for stateful, long-running, interruptible workflows.

// Indices into a graph's own lists come from the graph itself: `build` makes them, and names are
// turned into indices at the border. Everything that comes from outside is looked up by name.

extern crate self as superstep;

mod ask;
mod attempt;
mod context;
mod error;
mod event;
mod executor;
mod graph;
mod nested;
mod node;
mod record;
mod run;
mod snapshot;
mod state;
mod thread;
mod update;

pub use ask::{Answer, Ask, AskId, ParseAskIdError};
pub use context::Context;
pub use error::{
    AnswerError, BuildError, Failure, NodeError, Problem, ReadError, RunError, TaskError,
};
pub use event::{Event, Modes, Part};
pub use executor::{Executor, InProcess, Task, TaskOutcome};
pub use graph::{Graph, GraphBuilder};
pub use node::{Handler, Node, NodeResult, Target, Targets, TaskInput};
pub use run::{Breakpoints, DEFAULT_LIMIT};
pub use snapshot::{Snapshot, TaskState};
#[doc(hidden)]
pub use state::payload_as;
pub use state::{Fields, Input, Payload, Reads, Schema, State, View};
pub use superstep_channels as channels;
pub use superstep_checkpoint as checkpoint;
pub use superstep_derive::State;
pub use thread::{Outcome, RunBuilder, RunStream, Thread};
pub use update::Update;

/// What a file that defines a graph imports.
pub mod prelude {
    pub use crate::channels::{ChannelSpec, Json, Key, Snapshots, append};
    pub use crate::checkpoint::MemoryCheckpointer;
    pub use crate::{
        Answer, Ask, Context, Event, Graph, Modes, Node, NodeResult, Outcome, Payload, RunError,
        State, Update,
    };
}
