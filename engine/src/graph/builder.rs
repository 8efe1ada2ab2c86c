//! Describing a graph, and checking the description.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use superstep_channels::{ChannelSpec, Name};

use super::{Branch, ChannelSet, Core, Exits, Graph, Join, NodeDef, NodeIx, Proofs};
use crate::error::{BuildError, NodeError, Problem};
use crate::executor::{Executor, InProcess};
use crate::nested::Subgraph;
use crate::node::{ErasedNode, Handler, Node, Targets, erase};
use crate::state::{Fields, Input, Reads, Schema, State};

/// The description of a graph. Nothing is checked until [`build`](GraphBuilder::build), which reports all problems at once.
pub struct GraphBuilder<S> {
    name: Name,
    version: u32,
    channels: Vec<ChannelSpec>,
    output: Option<Vec<Name>>,
    nodes: Vec<Declared>,
    deferred: Vec<Name>,
    entries: Vec<Name>,
    edges: Vec<(Name, Name)>,
    joins: Vec<(Vec<Name>, Name)>,
    branches: Vec<(Option<Name>, Branch)>,
    executor: Arc<dyn Executor>,
    state: PhantomData<fn() -> S>,
}

struct Declared {
    name: Name,
    run: Arc<dyn ErasedNode>,
    reads: Option<Vec<Name>>,
}

impl<S: State> GraphBuilder<S> {
    pub(super) fn new() -> Self {
        GraphBuilder {
            name: "graph".into(),
            version: 1,
            channels: Vec::new(),
            output: None,
            nodes: Vec::new(),
            deferred: Vec::new(),
            entries: Vec::new(),
            edges: Vec::new(),
            joins: Vec::new(),
            branches: Vec::new(),
            executor: Arc::new(InProcess),
            state: PhantomData,
        }
    }

    /// Names the graph, and says which version of it this is: both are stored with every checkpoint.
    #[must_use]
    pub fn named(mut self, name: impl Into<Name>, version: u32) -> Self {
        self.name = name.into();
        self.version = version;
        self
    }

    /// Declares a channel beyond those of the state types.
    #[must_use]
    pub fn channel(mut self, spec: ChannelSpec) -> Self {
        self.channels.push(spec);
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

    fn add(&mut self, name: Name, run: Arc<dyn ErasedNode>, reads: Option<Vec<Name>>) {
        self.nodes.push(Declared { name, run, reads });
    }

    /// Lets a node wait until nothing else is due, sends included: it collects what branches of different length bring.
    #[must_use]
    pub fn defer<I: Reads>(mut self, node: Node<I>) -> Self {
        self.deferred.push(node.name().clone());
        self
    }

    /// Says which node runs first. Several entries run side by side.
    #[must_use]
    pub fn entry<I: Reads>(mut self, node: Node<I>) -> Self {
        self.entries.push(node.name().clone());
        self
    }

    /// Runs `to` in the superstep after `from`.
    #[must_use]
    pub fn edge<A, B: Reads>(mut self, from: Node<A>, to: Node<B>) -> Self {
        self.edges.push((from.name().clone(), to.name().clone()));
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
        self.joins.push((sources.collect(), to.name().clone()));
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
        self.branches
            .push((Some(from.name().clone()), erase_branch(decide)));
        self
    }

    /// Decides on the input where to begin.
    #[must_use]
    pub fn entry_branch<T: Targets>(
        mut self,
        decide: impl Fn(S) -> T + Send + Sync + 'static,
    ) -> Self {
        self.branches.push((None, erase_branch(decide)));
        self
    }

    /// Limits what callers, streams and enclosing graphs get to see to these channels.
    #[must_use]
    pub fn output<C: Into<Name>>(mut self, channels: impl IntoIterator<Item = C>) -> Self {
        self.output = Some(channels.into_iter().map(Into::into).collect());
        self
    }

    /// Runs the tasks elsewhere than in this process.
    #[must_use]
    pub fn executor(mut self, executor: impl Executor + 'static) -> Self {
        self.executor = Arc::new(executor);
        self
    }

    /// Checks the description and makes the graph of it, or says everything that is wrong.
    pub fn build(self) -> Result<Graph<S>, BuildError> {
        let mut problems = Vec::new();
        let node_at = self.index_nodes(&mut problems);
        let channels = self.merge_channels(&mut problems);
        let exits = self.connect(&node_at, &mut problems);
        let core = self.assemble(node_at, channels, exits, &mut problems);
        if problems.is_empty() {
            Ok(Graph::new(core))
        } else {
            Err(BuildError {
                graph: core.name,
                problems,
            })
        }
    }

    fn index_nodes(&self, problems: &mut Vec<Problem>) -> HashMap<Name, NodeIx> {
        let mut node_at = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            if node.name.is_empty() || node.name.starts_with("__") || node.name.contains(['|', ':'])
            {
                problems.push(Problem::BadName(node.name.clone()));
            }
            if node_at.insert(node.name.clone(), at).is_some() {
                problems.push(Problem::DuplicateNode(node.name.clone()));
            }
        }
        let unknown = self
            .deferred
            .iter()
            .filter(|name| !node_at.contains_key(*name));
        problems.extend(unknown.cloned().map(Problem::UnknownDeferred));
        if self.entries.is_empty() && !self.branches.iter().any(|(from, _)| from.is_none()) {
            problems.push(Problem::NoEntry);
        }
        node_at
    }

    /// All channels that the state, the nodes and the caller declare, each once, in the order of declaration.
    fn merge_channels(&self, problems: &mut Vec<Problem>) -> Vec<ChannelSpec> {
        let schemas = std::iter::once(S::schema()).chain(self.nodes.iter().map(|n| n.run.schema()));
        let declared = schemas.flat_map(|schema| match schema {
            Schema::Channels(specs) => specs,
            Schema::All | Schema::Payload => Vec::new(),
        });
        let mut channels: Vec<ChannelSpec> = Vec::new();
        for spec in declared.chain(self.channels.iter().cloned()) {
            match channels.iter().find(|known| known.name() == spec.name()) {
                Some(known) if known.agrees_with(&spec) => {}
                Some(known) => problems.push(Problem::ChannelConflict {
                    channel: spec.name().clone(),
                    first: format!("{known:?}"),
                    second: format!("{spec:?}"),
                }),
                None => {
                    if spec.name().is_empty() || spec.name().starts_with("__") {
                        problems.push(Problem::BadName(spec.name().clone()));
                    }
                    channels.push(spec);
                }
            }
        }
        channels
    }

    /// What leaves each node, and last what leaves the start.
    fn connect(
        &self,
        node_at: &HashMap<Name, NodeIx>,
        problems: &mut Vec<Problem>,
    ) -> (Vec<Exits>, Exits, Vec<Join>) {
        let mut find = |name: &Name, problem: fn(Name) -> Problem| {
            let found = node_at.get(name).copied();
            if found.is_none() {
                problems.push(problem(name.clone()));
            }
            found
        };
        let mut exits: Vec<Exits> = self.nodes.iter().map(|_| Exits::default()).collect();
        let mut entry = Exits::default();
        for name in &self.entries {
            entry.edges.extend(find(name, Problem::UnknownEntry));
        }
        for (from, to) in &self.edges {
            let from = find(from, Problem::UnknownSource);
            let to = find(to, Problem::UnknownTarget);
            if let Some((from, to)) = from.zip(to)
                && let Some(exits) = exits.get_mut(from)
            {
                exits.edges.push(to);
            }
        }
        for (from, branch) in &self.branches {
            let exits = match from {
                None => Some(&mut entry),
                Some(name) => find(name, Problem::UnknownSource).and_then(|at| exits.get_mut(at)),
            };
            if let Some(exits) = exits {
                exits.branches.push(Arc::clone(branch));
            }
        }
        let mut joins = Vec::new();
        for (from, to) in &self.joins {
            let mut sources: Vec<NodeIx> = Vec::new();
            for source in from
                .iter()
                .filter_map(|name| find(name, Problem::UnknownSource))
            {
                if !sources.contains(&source) {
                    sources.push(source);
                }
            }
            let Some(target) = find(to, Problem::UnknownTarget) else {
                continue;
            };
            let same = |join: &Join| join.target == target && join.sources == sources;
            // A checkpoint finds a join by its name, so one that is said twice counts once.
            if joins.iter().any(same) {
                continue;
            }
            for &source in &sources {
                if let Some(exits) = exits.get_mut(source) {
                    exits.joins.push(joins.len());
                }
            }
            joins.push(Join {
                name: join_name(from, to),
                sources,
                target,
            });
        }
        let empty = self.joins.iter().filter(|(from, _)| from.is_empty());
        problems.extend(empty.map(|(_, to)| Problem::EmptyJoin(to.clone())));
        (exits, entry, joins)
    }

    fn assemble(
        self,
        node_at: HashMap<Name, NodeIx>,
        channels: Vec<ChannelSpec>,
        (exits, entry, joins): (Vec<Exits>, Exits, Vec<Join>),
        problems: &mut Vec<Problem>,
    ) -> Core {
        let channel_at: HashMap<Name, usize> = channels
            .iter()
            .enumerate()
            .map(|(at, spec)| (spec.name().clone(), at))
            .collect();
        let resolve = |user: &Name, names: Vec<Name>, problems: &mut Vec<Problem>| {
            let mut found = Vec::with_capacity(names.len());
            for channel in names {
                match channel_at.get(&channel) {
                    Some(&at) => found.push(at),
                    None => problems.push(Problem::UnknownChannel {
                        user: user.clone(),
                        channel,
                    }),
                }
            }
            ChannelSet {
                names: found
                    .iter()
                    .filter_map(|&at| channels.get(at))
                    .map(|s| s.name().clone())
                    .collect(),
                channels: found.into(),
            }
        };
        let everything = || {
            channels
                .iter()
                .map(|spec| spec.name().clone())
                .collect::<Vec<_>>()
        };
        let of_schema = |schema: Schema| match schema {
            Schema::Channels(specs) => specs.iter().map(|spec| spec.name().clone()).collect(),
            Schema::All => everything(),
            Schema::Payload => Vec::new(),
        };
        let limited = self
            .output
            .map(|names| resolve(&self.name, names, problems));
        let state = resolve(&self.name, of_schema(S::schema()), problems);
        let output = limited.unwrap_or_else(|| state.clone());
        let state = match S::schema() {
            Schema::All => output.clone(),
            Schema::Channels(_) | Schema::Payload => state,
        };
        let everything = resolve(&self.name, everything(), problems);
        let deferred = self.deferred;
        let nodes: Vec<NodeDef> = self
            .nodes
            .into_iter()
            .zip(exits)
            .map(|(node, exits)| {
                let reads = node.reads.unwrap_or_else(|| of_schema(node.run.schema()));
                NodeDef {
                    reads: resolve(&node.name, reads, problems),
                    deferred: deferred.contains(&node.name),
                    name: node.name,
                    run: node.run,
                    exits,
                }
            })
            .collect();
        let transient = (0..channels.len())
            .filter(|&at| {
                channels
                    .get(at)
                    .is_some_and(|spec| spec.kind().is_transient())
            })
            .collect();
        Core {
            proofs: Proofs::new(channels.len(), nodes.len()),
            name: self.name.into_owned(),
            version: self.version,
            rank: ranks(&nodes),
            transient,
            channels,
            channel_at,
            nodes,
            node_at,
            joins,
            entry,
            output,
            state,
            everything,
            executor: self.executor,
        }
    }
}

/// What a join is called in checkpoints; no two joins of a graph are called the same.
fn join_name(sources: &[Name], target: &Name) -> String {
    let escaped = sources
        .iter()
        .map(|name| name.replace('\\', r"\\").replace('+', r"\+"));
    format!("join:{}:{target}", escaped.collect::<Vec<_>>().join("+"))
}

/// Each node's position in the order of names.
fn ranks(nodes: &[NodeDef]) -> Vec<u32> {
    let mut by_name: Vec<NodeIx> = (0..nodes.len()).collect();
    by_name.sort_by_key(|&at| nodes.get(at).map(|node| node.name.clone()));
    let mut ranks = vec![0; nodes.len()];
    for (rank, at) in (0..).zip(by_name) {
        if let Some(slot) = ranks.get_mut(at) {
            *slot = rank;
        }
    }
    ranks
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
            .field("name", &self.name)
            .field(
                "nodes",
                &self.nodes.iter().map(|node| &node.name).collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn joins_of_odd_names_have_names_of_their_own() {
        let lists: [&[&'static str]; 6] = [
            &["a+b"],
            &["a", "b"],
            &["a+", "b"],
            &["a", "+b"],
            &[r"a\", "b"],
            &[r"a\+b"],
        ];
        let owned = |list: &[&'static str]| -> Vec<Name> {
            list.iter().map(|name| Name::from(*name)).collect()
        };
        let names = lists.map(|list| join_name(&owned(list), &"c".into()));
        assert_eq!(names[1], "join:a+b:c");
        assert_eq!(HashSet::from(names).len(), 6);
    }
}
