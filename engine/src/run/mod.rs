//! One run of a graph: plan, run, apply, save, until nothing is due.

mod again;
mod amend;
mod apply;
mod cache;
mod durable;
mod edit;
mod enter;
mod execute;
mod explain;
mod inbox;
mod log;
mod open;
mod plan;
mod read;
mod route;
mod save;
mod tell;
mod trace;

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use superstep_channels::{Channel, Json, Name};
use superstep_checkpoint::{CheckpointId, Place, TaskId};

use crate::ask::Ask;
use crate::context::Scope;
use crate::control::{Control, Inside};
use crate::durability::Durability;
use crate::error::{ReadError, RunError};
use crate::event::{Event, Modes};
use crate::graph::{Core, NodeIx};
use crate::record::{Done, Record};
use crate::state::{Fields, Input};
use crate::update::Update;

use tracing::Instrument as _;

use apply::Routing;
use durable::Unsaved;
pub(crate) use durable::{Behind, LeftBehind};
use edit::Edit;
pub(crate) use enter::Enter;
use inbox::Inbox;
pub(crate) use log::events;
use plan::Planned;
use save::{Dirty, Growth};

/// The name of the hidden task that applies the input.
pub(crate) const START: &str = "__start__";

/// A run in progress: the channels as they are now, and the checkpoint they stand on.
pub(crate) struct Run {
    core: Arc<Core>,
    place: Place,
    /// The thread whose name is in the ids of tasks: this one, or the one that it was copied from.
    origin: Arc<str>,
    scope: Scope,
    options: Options,
    /// The newest checkpoint of the place: what the next one must follow.
    newest: Option<CheckpointId>,
    /// How many saves of tasks the place has seen since then, ours included.
    saves: u64,
    /// Which of the places that were under its name it is: a new one is born with this number.
    born: u64,
    /// Whether the run stored a checkpoint.
    stored: bool,
    /// The checkpoint the run stands on.
    base: Option<CheckpointId>,
    /// The checkpoint before that.
    parent: Option<CheckpointId>,
    /// What made the checkpoint the run stands on.
    source: superstep_checkpoint::Source,
    /// When that was, in milliseconds of Unix time.
    time: u64,
    /// The superstep that ended there.
    step: i64,
    /// What was noted with the run that made it.
    metadata: BTreeMap<String, Json>,
    /// The id of that run.
    run_id: Option<String>,
    /// The checkpoint that the next one is a copy of.
    copy_of: Option<CheckpointId>,
    /// The nodes that ran last on the way there, by name.
    ran: Vec<Name>,
    cells: Vec<Box<dyn Channel>>,
    routing: Routing,
    /// How the stored logs of delta channels have grown since their last snapshot.
    growth: Vec<Growth>,
    /// What is stored of tasks on this checkpoint that did not make another one yet.
    records: HashMap<TaskId, Record>,
    /// Edits of the state that are part of the next checkpoint.
    edits: Vec<Edit>,
    /// What changed since the checkpoint.
    dirty: Dirty,
    /// The input, while the checkpoint only holds it as due. Seen when an older checkpoint is addressed.
    start_is_due: Option<Done>,
    /// Results within the tasks that run, to be stored.
    inbox: Inbox,
    /// Graphs that run inside its tasks.
    inside: Inside,
    /// What is not stored yet.
    unsaved: Unsaved,
    /// Events that wait until what they tell of is stored.
    held: Vec<(Modes, Event)>,
    /// Supersteps taken in this run.
    taken: u32,
    /// The tasks of the first superstep run anew, with all that is nested in them.
    replays: bool,
    /// The first superstep of a run without new input passes its breakpoints.
    passes_breakpoint: bool,
}

/// What a caller chooses for one run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) limit: u32,
    pub(crate) durability: Durability,
    /// Where to stop, if not where the graph says.
    pub(crate) before: Option<Breakpoints>,
    pub(crate) after: Option<Breakpoints>,
    /// What is logged.
    pub(crate) log: Option<Modes>,
    pub(crate) control: Control,
    pub(crate) context: Given,
    /// The id of the run.
    pub(crate) run: Option<Arc<str>>,
    pub(crate) metadata: Arc<BTreeMap<String, Json>>,
}

/// What a caller gave for nodes to use.
#[derive(Clone, Default)]
pub(crate) struct Given(pub(crate) Option<Arc<dyn Any + Send + Sync>>);

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "given" } else { "nothing" })
    }
}

/// Supersteps a run may take unless it says otherwise.
pub const DEFAULT_LIMIT: u32 = 10_000;

impl Default for Options {
    fn default() -> Self {
        Options {
            limit: DEFAULT_LIMIT,
            durability: Durability::Sync,
            before: None,
            after: None,
            log: None,
            control: Control::new(),
            context: Given::default(),
            run: None,
            metadata: Arc::default(),
        }
    }
}

impl Options {
    /// Whether the graph has the nodes that the options name.
    pub(crate) fn check(&self, core: &Core) -> Result<(), RunError> {
        let stops = self.before.iter().chain(&self.after);
        let unknown = stops
            .filter_map(|stops| stops.unknown_in(&core.node_at))
            .next();
        unknown.map_or(Ok(()), |node| {
            Err(RunError::UnknownBreakpoint {
                graph: core.name.clone(),
                node: node.clone(),
            })
        })
    }
}

/// The nodes that a run stops at.
#[derive(Clone, Debug, Default)]
pub enum Breakpoints {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// These.
    Nodes(Vec<Name>),
}

impl Breakpoints {
    fn hit(&self, node: &Name) -> bool {
        match self {
            Breakpoints::None => false,
            Breakpoints::All => true,
            Breakpoints::Nodes(names) => names.contains(node),
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        match self {
            Breakpoints::None => serde_json::json!([]),
            Breakpoints::All => "*".into(),
            Breakpoints::Nodes(names) => serde_json::json!(names),
        }
    }

    /// The first node that is named but not there.
    pub(crate) fn unknown_in(&self, nodes: &HashMap<Name, NodeIx>) -> Option<&Name> {
        match self {
            Breakpoints::None | Breakpoints::All => None,
            Breakpoints::Nodes(names) => names.iter().find(|name| !nodes.contains_key(*name)),
        }
    }

    fn hits<'a>(&self, tasks: impl IntoIterator<Item = &'a Planned>) -> Vec<Name> {
        let names = tasks.into_iter().map(|task| &task.name);
        names.filter(|name| self.hit(name)).cloned().collect()
    }
}

impl<N: Into<Name>, I: IntoIterator<Item = N>> From<I> for Breakpoints {
    fn from(names: I) -> Self {
        Breakpoints::Nodes(names.into_iter().map(Into::into).collect())
    }
}

/// Why a run stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Nothing is due.
    Done,
    /// Tasks ask.
    Paused(Vec<Ask>),
    /// These nodes are due, or ran, and have a breakpoint.
    Breakpoint(Vec<Name>),
    /// The run is to stop before these nodes, which are due.
    Drained(Vec<Name>),
    /// A node ended the graph with an update of the graph around.
    Parent {
        /// The node.
        node: Name,
        update: Box<Update>,
    },
}

impl Run {
    /// Runs supersteps until one has a reason to stop, and stores what is not stored by then.
    pub(crate) async fn drive(&mut self) -> Result<Stop, RunError> {
        let ended = self.supersteps().await;
        if !(matches!(ended, Ok(Stop::Done)) && self.leaves_no_trace()) {
            self.close().await?;
        }
        ended
    }

    async fn supersteps(&mut self) -> Result<Stop, RunError> {
        loop {
            self.scope.sink.read().await;
            self.check_cancelled()?;
            let tasks = self.plan();
            self.tell_checkpoint(&tasks)?;
            if let Some(stop) = self.stop_before(&tasks)? {
                return Ok(stop);
            }
            let span = self.superstep_span();
            if let Some(stop) = self.superstep(tasks).instrument(span).await? {
                return Ok(stop);
            }
        }
    }

    /// Whether there is a reason not to run the tasks that are due.
    fn stop_before(&mut self, tasks: &[Planned]) -> Result<Option<Stop>, RunError> {
        if tasks.is_empty() {
            return Ok(Some(Stop::Done));
        }
        self.count(tasks)?;
        Ok(self
            .breakpoint_before(tasks)
            .or_else(|| self.drained(tasks)))
    }

    /// One superstep: everything it does, in order.
    async fn superstep(&mut self, tasks: Vec<Planned>) -> Result<Option<Stop>, RunError> {
        let results = self.execute(tasks).await?;
        let results = match self.done_or_stop(results)? {
            ControlFlow::Continue(results) => results,
            ControlFlow::Break(stop) => return Ok(Some(stop)),
        };
        let ran = results.iter().map(|settled| &settled.task);
        let after = self.options.after.as_ref().unwrap_or(&self.core.after);
        let ran = after.hits(ran);
        self.settle(results).await?;
        self.breakpoint_after(ran)
    }

    /// The state as the type that the graph was made for.
    pub(crate) fn state<S: Input>(&self) -> Result<S, ReadError> {
        self.core.read(&self.core.state, &self.cells).read()
    }

    /// The output channels as they are now.
    pub(crate) fn output(&self) -> Fields {
        self.core.read(&self.core.output, &self.cells)
    }

    /// Counts a superstep against the limit of the run.
    fn count(&mut self, tasks: &[Planned]) -> Result<(), RunError> {
        if self.taken == self.options.limit {
            return Err(RunError::Limit {
                limit: self.taken,
                next: tasks.iter().map(|task| task.name.to_string()).collect(),
            });
        }
        self.taken += 1;
        Ok(())
    }

    fn drained(&self, tasks: &[Planned]) -> Option<Stop> {
        let drains = self.scope.control.drains() && self.place.namespace.is_empty();
        drains.then(|| Stop::Drained(tasks.iter().map(|task| task.name.clone()).collect()))
    }

    fn check_cancelled(&self) -> Result<(), RunError> {
        match self.scope.control.is_cancelled() {
            true => Err(self.cancelled()),
            false => Ok(()),
        }
    }

    fn cancelled(&self) -> RunError {
        RunError::Cancelled {
            place: self.place.to_string(),
        }
    }

    fn breakpoint_before(&mut self, tasks: &[Planned]) -> Option<Stop> {
        if std::mem::take(&mut self.passes_breakpoint) {
            return None;
        }
        let before = self.options.before.as_ref().unwrap_or(&self.core.before);
        self.stop_at(before.hits(tasks))
    }

    fn breakpoint_after(&self, ran: Vec<Name>) -> Result<Option<Stop>, RunError> {
        let stop = self.stop_at(ran);
        if stop.is_some() {
            self.tell_checkpoint(&self.plan())?;
        }
        Ok(stop)
    }

    fn stop_at(&self, nodes: Vec<Name>) -> Option<Stop> {
        if nodes.is_empty() {
            return None;
        }
        // A nested graph stops the graphs around it: the outermost tells.
        if self.place.namespace.is_empty() {
            self.tell_paused(&[]);
        }
        Some(Stop::Breakpoint(nodes))
    }
}
