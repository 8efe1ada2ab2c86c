//! A graph as it runs: built once, shared by all its threads.

mod around;
mod builder;
mod compile;
mod describe;
mod draw;
mod wiring;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::marker::PhantomData;
use std::sync::Arc;

use superstep_channels::{Channel, ChannelSpec, Conversions, Kind, Name};
use superstep_checkpoint::{Checkpointer, Place};

pub use builder::GraphBuilder;
pub use describe::Warning;

use crate::error::{NodeError, RunError};
use crate::executor::Executor;
use crate::handler::ErrorHandler;
use crate::migration::Former;
use crate::nesting::Nesting;
use crate::node::{ErasedNode, Target};
use crate::policy::Policy;
use crate::record::Proof;
use crate::run::Breakpoints;
use crate::state::{Fields, State};
use crate::thread::Thread;

/// A graph that was checked and is ready to run. Cheap to clone.
///
/// `S` is the state a run starts from and ends with.
pub struct Graph<S> {
    pub(crate) core: Arc<Core>,
    state: PhantomData<fn() -> S>,
}

impl<S: State> Graph<S> {
    /// Starts the description of a graph.
    pub fn builder() -> GraphBuilder<S> {
        GraphBuilder::new()
    }

    /// A thread of this graph whose checkpoints lie in `saver` under `id`.
    /// Nothing happens until it is started; the thread may exist already.
    pub fn thread<C: Checkpointer + Clone + 'static>(
        &self,
        saver: &C,
        id: impl Into<Arc<str>>,
    ) -> Thread<S> {
        Thread::new(self.clone(), Some(Arc::new(saver.clone())), Place::root(id))
    }

    /// A thread that is stored nowhere: it can run, but not be taken up again.
    /// Its id is drawn by lot, so that its tasks have ids of their own too.
    pub fn detached(&self) -> Thread<S> {
        let lot = RandomState::new().build_hasher().finish();
        Thread::new(
            self.clone(),
            None,
            Place::root(format!("detached-{lot:016x}")),
        )
    }
}

impl<S> Graph<S> {
    pub(crate) fn of(core: Arc<Core>) -> Self {
        Graph {
            core,
            state: PhantomData,
        }
    }

    pub(crate) fn new(core: Core) -> Self {
        Graph {
            core: Arc::new(core),
            state: PhantomData,
        }
    }

    /// The graph's name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Its version.
    pub fn version(&self) -> u32 {
        self.core.version
    }

    /// The names of the nodes, in the order of their declaration.
    pub fn nodes(&self) -> impl Iterator<Item = &Name> {
        self.core.nodes.iter().map(|node| &node.name)
    }

    /// The channels that nodes read and write.
    pub fn channels(&self) -> &[ChannelSpec] {
        &self.core.channels
    }
}

impl<S> Clone for Graph<S> {
    fn clone(&self) -> Self {
        Graph {
            core: Arc::clone(&self.core),
            state: PhantomData,
        }
    }
}

impl<S> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("name", &self.core.name)
            .field("nodes", &self.nodes().collect::<Vec<_>>())
            .field("channels", &self.core.channels)
            .finish()
    }
}

/// The position of a node in the order of declaration.
pub(crate) type NodeIx = usize;
/// The position of a channel in the order of declaration.
pub(crate) type ChannelIx = usize;

/// The erased graph: nodes and channels are indices, names stand at the border only.
pub(crate) struct Core {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) channels: Vec<ChannelSpec>,
    pub(crate) channel_at: HashMap<Name, ChannelIx>,
    /// The channels that a superstep without a write empties.
    pub(crate) transient: Vec<ChannelIx>,
    pub(crate) nodes: Vec<NodeDef>,
    pub(crate) node_at: HashMap<Name, NodeIx>,
    /// Each node's position in the order of names, which is the canonical order of tasks.
    pub(crate) rank: Vec<u32>,
    pub(crate) joins: Vec<Join>,
    pub(crate) entry: Exits,
    /// The channels that callers may write, if not all.
    pub(crate) input: Option<ChannelSet>,
    /// What it keeps inside another graph.
    pub(crate) nesting: Nesting,
    pub(crate) before: Breakpoints,
    pub(crate) after: Breakpoints,
    /// The channels that callers and streams see.
    pub(crate) output: ChannelSet,
    /// The channels that the graph's state type reads; for JSON, the output.
    pub(crate) state: ChannelSet,
    pub(crate) proofs: Proofs,
    /// All channels.
    pub(crate) everything: ChannelSet,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) former: FormerNames,
}

/// Names that stored threads may still have.
pub(crate) struct FormerNames {
    pub(crate) graphs: Vec<Name>,
    pub(crate) channels: Former,
    pub(crate) nodes: Former,
}

/// What was seen to come back from its bytes: values and updates by channel, payloads by node.
pub(crate) struct Proofs {
    pub(crate) values: Vec<Proof>,
    pub(crate) updates: Vec<Proof>,
    pub(crate) payloads: Vec<Proof>,
}

impl Proofs {
    fn new(channels: usize, nodes: usize) -> Self {
        let none = |count| std::iter::repeat_with(Proof::default).take(count).collect();
        Proofs {
            values: none(channels),
            updates: none(channels),
            payloads: none(nodes),
        }
    }
}

/// A node with all that leads away from it.
pub(crate) struct NodeDef {
    pub(crate) name: Name,
    /// The first name it had: what the ids of its tasks and the namespaces in them are made of.
    pub(crate) key: Name,
    /// How payloads of earlier types are read.
    pub(crate) payloads: Conversions,
    pub(crate) run: Arc<dyn ErasedNode>,
    pub(crate) reads: ChannelSet,
    pub(crate) exits: Exits,
    /// Runs only when nothing else is due.
    pub(crate) deferred: bool,
    /// What happens around it, if anything does.
    pub(crate) policy: Option<Arc<Policy>>,
    /// What runs in its place when it failed for good, and what that reads.
    pub(crate) handler: Option<(Arc<ErrorHandler>, ChannelSet)>,
    pub(crate) tags: Vec<Name>,
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
    /// The graph that it is or runs.
    pub(crate) inside: Option<Arc<Core>>,
}

/// Where a run goes from a node, or from the start.
#[derive(Default)]
pub(crate) struct Exits {
    pub(crate) edges: Vec<NodeIx>,
    pub(crate) joins: Vec<usize>,
    pub(crate) branches: Vec<Branch>,
    /// Where branches can lead, as far as it was said: labels and nodes.
    pub(crate) labels: Vec<(Name, NodeIx)>,
    /// The only nodes that it may go to besides its edges, if it was said.
    pub(crate) leads: Option<Vec<NodeIx>>,
}

/// Decides on the state where to go.
pub(crate) type Branch = Arc<dyn Fn(&Fields) -> Result<Vec<Target>, NodeError> + Send + Sync>;

/// A node that waits for several others.
pub(crate) struct Join {
    pub(crate) name: String,
    pub(crate) sources: Vec<NodeIx>,
    pub(crate) target: NodeIx,
}

/// A set of channels that is read together.
#[derive(Clone)]
pub(crate) struct ChannelSet {
    pub(crate) names: Arc<[Name]>,
    pub(crate) channels: Arc<[ChannelIx]>,
}

impl Core {
    /// Whether the graph has this name, or had it once.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.former.graphs.iter().any(|former| former == name)
    }

    /// Fresh cells for all channels.
    pub(crate) fn cells(&self) -> Vec<Box<dyn Channel>> {
        self.channels.iter().map(ChannelSpec::cell).collect()
    }

    /// Reads some channels as they are now.
    pub(crate) fn read(&self, reads: &ChannelSet, cells: &[Box<dyn Channel>]) -> Fields {
        let value = |&at: &ChannelIx| cells.get(at).and_then(|cell| cell.value());
        Fields {
            names: Arc::clone(&reads.names),
            values: reads.channels.iter().map(value).collect(),
        }
    }

    /// The graph that the parts of a namespace lead to from here.
    pub(crate) fn inside<'a>(
        self: &Arc<Self>,
        mut parts: impl Iterator<Item = &'a str>,
    ) -> Option<Arc<Core>> {
        parts.try_fold(Arc::clone(self), |core, part| {
            // The number of a call: the same graph as far as anybody said.
            if part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Some(core);
            }
            let key = part.split(':').next()?;
            let node = core.nodes.iter().find(|node| node.key == key)?;
            node.inside.clone()
        })
    }

    /// Whether a caller may write a channel.
    pub(crate) fn takes(&self, channel: ChannelIx) -> bool {
        let input = self.input.as_ref();
        input.is_none_or(|input| input.channels.contains(&channel))
    }

    /// The name of a node that was planned.
    pub(crate) fn node_name(&self, node: NodeIx) -> &Name {
        &self.nodes[node].name
    }

    /// Finds a node that a checkpoint names; none if the node is gone and may be left out.
    pub(crate) fn node(&self, name: &str) -> Result<Option<NodeIx>, RunError> {
        let present = self.node_at.get(name).copied();
        let found = present.map(Some).or_else(|| self.former.nodes.get(name));
        found.ok_or_else(|| RunError::unknown("node", name))
    }

    /// Finds a channel that a checkpoint names; none if the channel is gone and may be left out.
    pub(crate) fn channel(&self, name: &str) -> Result<Option<ChannelIx>, RunError> {
        let present = self.channel_at.get(name).copied();
        let found = present.map(Some).or_else(|| self.former.channels.get(name));
        found.ok_or_else(|| RunError::unknown("channel", name))
    }

    /// Whether the channel's values are stored at all.
    pub(crate) fn is_stored(&self, channel: ChannelIx) -> bool {
        let spec = self.channels.get(channel);
        spec.is_some_and(|spec| spec.kind() != Kind::Untracked)
    }
}
