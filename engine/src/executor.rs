//! Where tasks run.

use std::fmt;

use futures::future::BoxFuture;
use std::sync::Arc;
use superstep_channels::Name;
use superstep_checkpoint::{CheckpointId, Place, TaskId};

use crate::ask::Ask;
use crate::attempt::Attempt;
use crate::context::Context;
use crate::error::TaskError;
use crate::graph::Core;
use crate::handler::NodeFailure;
use crate::node::TaskInput;
use crate::update::Update;

/// Runs one task to its outcome: in this process, or by sending it elsewhere.
///
/// A task is data: with its graph, node and input another machine can run it. Its id is the same on every attempt.
pub trait Executor: Send + Sync + fmt::Debug {
    /// Runs the task. Dropping the future abandons it.
    fn execute(&self, task: Task, cx: Context) -> BoxFuture<'static, TaskOutcome>;
}

/// Runs tasks where the engine runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess;

impl Executor for InProcess {
    fn execute(&self, task: Task, cx: Context) -> BoxFuture<'static, TaskOutcome> {
        Box::pin(Attempt::new(task, cx))
    }
}

/// One node to be run on one input.
#[derive(Clone)]
pub struct Task {
    /// A hash of place, checkpoint and path: use it as an idempotency key.
    pub id: TaskId,
    /// The node.
    pub node: Name,
    /// The thread and namespace.
    pub place: Place,
    /// The checkpoint it runs on; `None` on a thread that is not stored.
    pub checkpoint: Option<CheckpointId>,
    /// The number of the superstep.
    pub step: i64,
    /// What the node runs on.
    pub input: TaskInput,
    /// How the node failed, if it is its error handler that is to run.
    pub failure: Option<NodeFailure>,
    pub(crate) graph: Arc<Core>,
    pub(crate) at: usize,
}

impl Task {
    /// The name and version of the graph.
    pub fn graph(&self) -> (&str, u32) {
        (&self.graph.name, self.graph.version)
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("id", &self.id)
            .field("node", &self.node)
            .field("place", &self.place)
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

/// How a task ended.
#[derive(Debug)]
pub enum TaskOutcome<T = Update> {
    /// The node returned.
    Done(T),
    /// The node waits for answers; it starts from the top when they are there.
    Asked(Vec<Ask>),
    /// A graph inside the node stopped at a breakpoint before or after these of its nodes.
    Stopped(Vec<Name>),
    /// The node failed.
    Failed(TaskError),
}
