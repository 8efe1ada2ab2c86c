//! Describing a graph.

use std::marker::PhantomData;
use std::sync::Arc;

use superstep_channels::{ChannelSpec, Name, Snapshots};

use super::compile::compile;
use super::{Branch, Core, Graph};
use crate::error::BuildError;
use crate::executor::{Executor, InProcess};
use crate::handler::ErrorHandler;
use crate::migration::Migration;
use crate::nested::Subgraph;
use crate::nesting::Nesting;
use crate::node::{ErasedNode, Handler, Node, erase};
use crate::policy::Policy;
use crate::run::Breakpoints;
use crate::state::{Input, Schema, State};

/// The description of a graph. Nothing is checked until [`build`](GraphBuilder::build), which reports all problems at once.
pub struct GraphBuilder<S> {
    pub(super) described: Description,
    state: PhantomData<fn() -> S>,
}

/// What was said of a graph, as it was said.
pub(super) struct Description {
    pub(super) name: Name,
    pub(super) version: u32,
    /// What the graph's state type reads.
    pub(super) state: Schema,
    pub(super) channels: Vec<ChannelSpec>,
    /// Channels that are stored as their writes, however they were declared.
    pub(super) deltas: Vec<(Name, Snapshots)>,
    pub(super) input: Option<Vec<Name>>,
    pub(super) output: Option<Vec<Name>>,
    pub(super) nesting: Nesting,
    pub(super) before: Breakpoints,
    pub(super) after: Breakpoints,
    /// The graphs that functions of nodes run.
    pub(super) calls: Vec<(Name, Arc<Core>)>,
    /// Where nodes may go besides their edges, if it was said.
    pub(super) leads: Vec<(Name, Vec<Name>)>,
    pub(super) about: Vec<(Name, Note)>,
    pub(super) nodes: Vec<Declared>,
    pub(super) deferred: Vec<Name>,
    pub(super) entries: Vec<Name>,
    pub(super) edges: Vec<(Name, Name)>,
    pub(super) joins: Vec<(Vec<Name>, Name)>,
    /// None stands for the start.
    pub(super) branches: Vec<(Option<Name>, Decision)>,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) migration: Migration,
    pub(super) policies: Vec<(Name, Policy)>,
    pub(super) default_policy: Policy,
    pub(super) handlers: Vec<(Name, Arc<ErrorHandler>)>,
    pub(super) default_handler: Option<Arc<ErrorHandler>>,
}

/// A branch, and where it can lead, if it was said: labels and nodes.
pub(super) struct Decision {
    pub(super) decide: Branch,
    pub(super) targets: Option<Vec<(Name, Name)>>,
}

/// Something said about a node.
pub(super) enum Note {
    Tag(Name),
    Member(String, serde_json::Value),
}

/// A node as it was declared.
pub(super) struct Declared {
    pub(super) name: Name,
    pub(super) run: Arc<dyn ErasedNode>,
    /// The channels it sees, if not those of its input type.
    pub(super) reads: Option<Vec<Name>>,
}

impl<S: State> GraphBuilder<S> {
    pub(super) fn new() -> Self {
        let described = Description {
            name: "graph".into(),
            version: 1,
            state: S::schema(),
            channels: Vec::new(),
            deltas: Vec::new(),
            input: None,
            output: None,
            nesting: Nesting::PerCall,
            before: Breakpoints::None,
            after: Breakpoints::None,
            calls: Vec::new(),
            leads: Vec::new(),
            about: Vec::new(),
            nodes: Vec::new(),
            deferred: Vec::new(),
            entries: Vec::new(),
            edges: Vec::new(),
            joins: Vec::new(),
            branches: Vec::new(),
            executor: Arc::new(InProcess),
            migration: Migration::new(),
            policies: Vec::new(),
            default_policy: Policy::new(),
            handlers: Vec::new(),
            default_handler: None,
        };
        GraphBuilder {
            described,
            state: PhantomData,
        }
    }

    /// Names the graph, and says which version of it this is: both are stored with every checkpoint.
    #[must_use]
    pub fn named(mut self, name: impl Into<Name>, version: u32) -> Self {
        self.described.name = name.into();
        self.described.version = version;
        self
    }

    /// Declares a channel beyond those of the state types.
    #[must_use]
    pub fn channel(mut self, spec: ChannelSpec) -> Self {
        self.described.channels.push(spec);
        self
    }

    /// Stores a channel that folds as its writes, and whole when this policy says so, however it was declared. What is stored already
    /// stays readable either way.
    #[must_use]
    pub fn as_delta(mut self, channel: impl Into<Name>, snapshots: Snapshots) -> Self {
        self.described.deltas.push((channel.into(), snapshots));
        self
    }

    /// Adds a node: an `async fn(input, Context) -> NodeResult`.
    #[must_use]
    pub fn node<I: Input>(mut self, node: Node<I>, function: impl Handler<I>) -> Self {
        self.add(node.name().clone(), erase(function), None);
        self
    }

    /// Adds a node of a graph made at run time, which sees these channels only.
    #[must_use]
    pub fn node_reading<I: Input, C: Into<Name>>(
        mut self,
        node: Node<I>,
        channels: impl IntoIterator<Item = C>,
        function: impl Handler<I>,
    ) -> Self {
        let reads = channels.into_iter().map(Into::into).collect();
        self.add(node.name().clone(), erase(function), Some(reads));
        self
    }

    /// Adds a whole graph as a node. It starts from the channels that both graphs have, keeps checkpoints of its own
    /// below the task, and what it ends with is written back.
    #[must_use]
    pub fn subgraph<T: State>(mut self, node: Node<T>, graph: &Graph<T>) -> Self {
        self.add(node.name().clone(), Arc::new(Subgraph(graph.clone())), None);
        self
    }

    /// Says which graph the function of a node runs with [`Context::run`](crate::Context::run) (of several, the first), so that
    /// states can show it and pictures draw it.
    #[must_use]
    pub fn calls<I, T>(mut self, node: Node<I>, graph: &Graph<T>) -> Self {
        let call = (node.name().clone(), Arc::clone(&graph.core));
        self.described.calls.push(call);
        self
    }

    /// Says what this graph keeps when it runs inside another. As the outermost graph of a thread it keeps everything.
    #[must_use]
    pub fn nesting(mut self, nesting: Nesting) -> Self {
        self.described.nesting = nesting;
        self
    }

    fn add(&mut self, name: Name, run: Arc<dyn ErasedNode>, reads: Option<Vec<Name>>) {
        self.described.nodes.push(Declared { name, run, reads });
    }

    /// Limits what callers and enclosing graphs may give to these channels: input that writes another is refused,
    /// and of an enclosing graph's channels only these are taken.
    #[must_use]
    pub fn input<C: Into<Name>>(mut self, channels: impl IntoIterator<Item = C>) -> Self {
        self.described.input = Some(channels.into_iter().map(Into::into).collect());
        self
    }

    /// Limits what callers, streams and enclosing graphs get to see to these channels.
    #[must_use]
    pub fn output<C: Into<Name>>(mut self, channels: impl IntoIterator<Item = C>) -> Self {
        self.described.output = Some(channels.into_iter().map(Into::into).collect());
        self
    }

    /// Says what changed since threads of this graph were stored, so that they can be opened.
    #[must_use]
    pub fn migrate(mut self, migration: Migration) -> Self {
        self.described.migration = migration;
        self
    }

    /// Runs the tasks elsewhere than in this process.
    #[must_use]
    pub fn executor(mut self, executor: impl Executor + 'static) -> Self {
        self.described.executor = Arc::new(executor);
        self
    }

    /// Checks the description and makes the graph of it, or says everything that is wrong.
    pub fn build(self) -> Result<Graph<S>, BuildError> {
        compile(self.described).map(Graph::new)
    }
}

impl<S> std::fmt::Debug for GraphBuilder<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphBuilder")
            .field("name", &self.described.name)
            .field(
                "nodes",
                &self
                    .described
                    .nodes
                    .iter()
                    .map(|node| &node.name)
                    .collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}
