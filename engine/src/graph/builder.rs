//! Describing a graph.

use std::marker::PhantomData;
use std::sync::Arc;

use superstep_channels::{ChannelSpec, Name};

use super::compile::compile;
use super::{Branch, Core, Graph};
use crate::error::{BuildError, NodeError};
use crate::executor::{Executor, InProcess};
use crate::handler::{ErrorHandler, Rescue};
use crate::migration::Migration;
use crate::nested::Subgraph;
use crate::nesting::Nesting;
use crate::node::{ErasedNode, Handler, Node, Targets, erase};
use crate::policy::Policy;
use crate::run::Breakpoints;
use crate::state::{Fields, Input, Reads, Schema, State};

/// The description of a graph. Nothing is checked until [`build`](GraphBuilder::build), which reports all problems at once.
pub struct GraphBuilder<S> {
    described: Description,
    state: PhantomData<fn() -> S>,
}

/// What was said of a graph, as it was said.
pub(super) struct Description {
    pub(super) name: Name,
    pub(super) version: u32,
    /// What the graph's state type reads.
    pub(super) state: Schema,
    pub(super) channels: Vec<ChannelSpec>,
    pub(super) input: Option<Vec<Name>>,
    pub(super) output: Option<Vec<Name>>,
    pub(super) nesting: Nesting,
    pub(super) before: Breakpoints,
    pub(super) after: Breakpoints,
    /// The graphs that functions of nodes run.
    pub(super) calls: Vec<(Name, Arc<Core>)>,
    pub(super) nodes: Vec<Declared>,
    pub(super) deferred: Vec<Name>,
    pub(super) entries: Vec<Name>,
    pub(super) edges: Vec<(Name, Name)>,
    pub(super) joins: Vec<(Vec<Name>, Name)>,
    /// None stands for the start.
    pub(super) branches: Vec<(Option<Name>, Branch)>,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) migration: Migration,
    pub(super) policies: Vec<(Name, Policy)>,
    pub(super) default_policy: Policy,
    pub(super) handlers: Vec<(Name, Arc<ErrorHandler>)>,
    pub(super) default_handler: Option<Arc<ErrorHandler>>,
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
            input: None,
            output: None,
            nesting: Nesting::PerCall,
            before: Breakpoints::None,
            after: Breakpoints::None,
            calls: Vec::new(),
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

    /// Stops before a superstep that would run one of these nodes, unless a run says otherwise.
    #[must_use]
    pub fn stop_before(mut self, nodes: impl Into<Breakpoints>) -> Self {
        self.described.before = nodes.into();
        self
    }

    /// Stops after a superstep that ran one of these nodes, unless a run says otherwise.
    #[must_use]
    pub fn stop_after(mut self, nodes: impl Into<Breakpoints>) -> Self {
        self.described.after = nodes.into();
        self
    }

    fn add(&mut self, name: Name, run: Arc<dyn ErasedNode>, reads: Option<Vec<Name>>) {
        self.described.nodes.push(Declared { name, run, reads });
    }

    /// Lets a node wait until nothing else is due, sends included: it collects what branches of different length bring.
    #[must_use]
    pub fn defer<I: Reads>(mut self, node: Node<I>) -> Self {
        self.described.deferred.push(node.name().clone());
        self
    }

    /// Says what happens around a node: retries, time limits, cached results. Said twice, the last one counts.
    #[must_use]
    pub fn policy<I>(mut self, node: Node<I>, policy: Policy) -> Self {
        self.described.policies.push((node.name().clone(), policy));
        self
    }

    /// Says what happens around every node, as far as its own policy does not say it.
    #[must_use]
    pub fn defaults(mut self, policy: Policy) -> Self {
        self.described.default_policy = policy;
        self
    }

    /// Says what runs in the same superstep in place of a node that failed for good: after its retries, and not when it asks.
    ///
    /// The handler gets the input that the node had, and the failure. What it returns counts as if the node had
    /// returned it, except that the node's edges and branches are not followed: the handler says with `goto` where to go.
    /// If it fails, the run fails. The failure is stored before it starts, so after a crash it starts and not the node.
    #[must_use]
    pub fn on_error<I: Input>(mut self, node: Node<I>, handler: impl Rescue<I>) -> Self {
        let name = node.name().clone();
        let handler = Arc::new(ErrorHandler::of_node(&name, handler));
        self.described.handlers.push((name, handler));
        self
    }

    /// The same for every node that has no handler of its own. It gets what was sent to the node, if that has its
    /// input's type, and otherwise the state.
    #[must_use]
    pub fn default_on_error<I: Input>(mut self, handler: impl Rescue<I>) -> Self {
        self.described.default_handler = Some(Arc::new(ErrorHandler::of_graph(handler)));
        self
    }

    /// Says which node runs first. Several entries run side by side.
    #[must_use]
    pub fn entry<I: Reads>(mut self, node: Node<I>) -> Self {
        self.described.entries.push(node.name().clone());
        self
    }

    /// Runs `to` in the superstep after `from`.
    #[must_use]
    pub fn edge<A, B: Reads>(mut self, from: Node<A>, to: Node<B>) -> Self {
        self.described
            .edges
            .push((from.name().clone(), to.name().clone()));
        self
    }

    /// Runs `to` when all of `from` have run since it last ran, in whichever supersteps.
    #[must_use]
    pub fn join<A, B: Reads>(
        mut self,
        from: impl IntoIterator<Item = Node<A>>,
        to: Node<B>,
    ) -> Self {
        let sources = from.into_iter().map(|node| node.name().clone());
        self.described
            .joins
            .push((sources.collect(), to.name().clone()));
        self
    }

    /// Decides after `from`, on the state with that node's own writes in it, where to go.
    /// Writes of other nodes of the same superstep are not in it yet.
    #[must_use]
    pub fn branch<A, T: Targets>(
        mut self,
        from: Node<A>,
        decide: impl Fn(S) -> T + Send + Sync + 'static,
    ) -> Self {
        self.described
            .branches
            .push((Some(from.name().clone()), erase_branch(decide)));
        self
    }

    /// Decides on the input where to begin.
    #[must_use]
    pub fn entry_branch<T: Targets>(
        mut self,
        decide: impl Fn(S) -> T + Send + Sync + 'static,
    ) -> Self {
        self.described.branches.push((None, erase_branch(decide)));
        self
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

fn erase_branch<S: State, T: Targets>(decide: impl Fn(S) -> T + Send + Sync + 'static) -> Branch {
    Arc::new(move |fields: &Fields| {
        let mut targets = Vec::new();
        decide(fields.read::<S>().map_err(NodeError::from)?).collect(&mut targets)?;
        Ok(targets)
    })
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
