//! The engine's graph of a case's graph.

use std::sync::Arc;

use superstep::channels::Json;
use superstep::{
    BuildError, Context, Graph as EngineGraph, GraphBuilder, Nesting, Node as EngineNode,
};

use super::body::{Body, decide};
use super::rules::{Rules, first_call};
use super::world::World;
use super::{Lacking, channels, policies};
use crate::spec::{self, Checkpointer, Graph, Sources, Spec};

const START: &str = "__start__";
const END: &str = "__end__";

/// A graph with its rules.
pub(super) struct Built {
    pub(super) graph: EngineGraph<Json>,
    pub(super) rules: Arc<Rules>,
    /// The keys that callers see.
    pub(super) output: Option<Vec<String>>,
    /// Nodes to stop in front of and behind, unless a run says otherwise.
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
}

/// Why a graph could not be built.
pub(super) enum Refusal {
    /// It makes no sense.
    Invalid,
    /// It needs what the engine does not have.
    Lacking(Lacking),
}

impl From<Lacking> for Refusal {
    fn from(lacking: Lacking) -> Self {
        Refusal::Lacking(lacking)
    }
}

impl From<BuildError> for Refusal {
    fn from(_: BuildError) -> Self {
        Refusal::Invalid
    }
}

/// Builds the graph that the script runs. Callers see all its keys; the script leaves out what is no output.
pub(super) fn root(spec: &Graph, world: &World) -> Result<Built, Refusal> {
    let name = spec.name.as_deref().unwrap_or("main");
    let (builder, rules) = describe(name, spec, world, None)?;
    Ok(Built {
        graph: builder.build()?,
        rules,
        output: spec.output.clone(),
        before: spec.interrupt_before.clone(),
        after: spec.interrupt_after.clone(),
    })
}

/// Builds a graph that runs inside another, whose rules are those `around`.
pub(super) fn nested(name: &str, spec: &Graph, around: &Arc<Rules>) -> Result<Built, Refusal> {
    let name = spec.name.as_deref().unwrap_or(name);
    let (builder, rules) = describe(name, spec, &around.world, Some(around))?;
    let mut builder = builder
        .nesting(match spec.checkpointer {
            Checkpointer::Inherit => Nesting::PerCall,
            Checkpointer::Own => Nesting::PerThread,
            Checkpointer::Off => Nesting::Unstored,
        })
        .stop_before(spec.interrupt_before.clone())
        .stop_after(spec.interrupt_after.clone());
    if let Some(input) = &spec.input {
        builder = builder.input(input.clone());
    }
    if let Some(output) = &spec.output {
        builder = builder.output(output.clone());
    }
    Ok(Built {
        graph: builder.build()?,
        rules,
        output: None,
        before: Vec::new(),
        after: Vec::new(),
    })
}

fn describe(
    name: &str,
    spec: &Graph,
    world: &World,
    around: Option<&Arc<Rules>>,
) -> Result<(GraphBuilder<Json>, Arc<Rules>), Refusal> {
    let rules = Arc::new(Rules::new(spec, world, around));
    let mut builder = EngineGraph::builder().named(name.to_owned(), 1);
    for (key, channel) in &rules.channels {
        builder = builder.channel(channels::spec(key, channel)?);
    }
    for declared in &spec.nodes {
        builder = node(builder, name, declared, &rules)?;
    }
    builder = policies::add_defaults(builder, name, &spec.defaults, &rules);
    builder = edges(builder, spec);
    builder = branches(builder, spec, &rules)?;
    known(
        &rules,
        spec.interrupt_before.iter().chain(&spec.interrupt_after),
    )?;
    Ok((builder, rules))
}

fn node(
    builder: GraphBuilder<Json>,
    graph: &str,
    declared: &spec::Node,
    rules: &Arc<Rules>,
) -> Result<GraphBuilder<Json>, Refusal> {
    known(rules, declared.ends.iter().filter(|name| *name != END))?;
    let name = EngineNode::<Json>::named(declared.name.clone());
    let builder = match &declared.body {
        spec::Body::Ops(ops) => {
            let body = Arc::new(Body {
                label: format!("{graph}:{}", declared.name),
                ops: ops.clone(),
                delay: declared.delay,
                rules: Arc::clone(rules),
            });
            let run = move |input: Json, cx: Context| Arc::clone(&body).run(input, cx);
            let reads = rules.reads(&declared.name).to_vec();
            let builder = builder.node_reading(name.clone(), reads, run);
            match first_call(ops)
                .and_then(|called| Some((called, rules.world.library.get(called)?)))
            {
                Some((called, Spec::Graph(spec))) => {
                    builder.calls(name.clone(), &nested(called, spec, rules)?.graph)
                }
                _ => builder,
            }
        }
        spec::Body::Subgraph(inner) => match &**inner {
            Spec::Entry(_) => return Err(Lacking("entries as nodes").into()),
            Spec::Graph(inner) => {
                let inner = nested("main", inner, rules)?;
                builder.subgraph(name.clone(), &inner.graph)
            }
        },
    };
    let builder = policies::add(builder, graph, declared, rules);
    Ok(if declared.defer {
        builder.defer(name)
    } else {
        builder
    })
}

fn edges(mut builder: GraphBuilder<Json>, spec: &Graph) -> GraphBuilder<Json> {
    let named = |name: &String| EngineNode::<Json>::named(name.clone());
    for spec::Edge(from, to) in &spec.edges {
        builder = match from {
            Sources::One(from) if from == START => builder.entry(named(to)),
            // An edge from a node that is not there is found even if it leads to the end.
            Sources::One(from) if to == END && spec.nodes.iter().any(|node| node.name == *from) => {
                builder
            }
            Sources::One(from) => builder.edge(named(from), named(to)),
            Sources::All(from) => builder.join(from.iter().map(named), named(to)),
        };
    }
    builder
}

fn branches(
    mut builder: GraphBuilder<Json>,
    spec: &Graph,
    rules: &Arc<Rules>,
) -> Result<GraphBuilder<Json>, Refusal> {
    for branch in &spec.branches {
        let targets = branch.map.iter().flat_map(|map| map.values());
        known(rules, targets.filter(|name| *name != END))?;
        let decide = {
            let (branch, rules) = (branch.clone(), Arc::clone(rules));
            move |state: Json| decide(&branch, &rules, state)
        };
        builder = match branch.from.as_str() {
            START => builder.entry_branch(decide),
            from => builder.branch(EngineNode::<Json>::named(from.to_owned()), decide),
        };
    }
    Ok(builder)
}

fn known<'a>(rules: &Rules, names: impl IntoIterator<Item = &'a String>) -> Result<(), Refusal> {
    let mut names = names.into_iter();
    match names.all(|name| rules.position(name).is_some()) {
        true => Ok(()),
        false => Err(Refusal::Invalid),
    }
}
