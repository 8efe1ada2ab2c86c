//! A graph in words: its JSON, and what looks wrong with it.

use std::fmt;

use petgraph::visit::Bfs;
use serde_json::{Value as JsonValue, json};
use superstep_channels::{ChannelSpec, Name};

use super::draw::declared;
use super::{ChannelSet, Core, Exits, Graph, NodeDef};
use crate::nesting::Nesting;

/// Something about a graph that may be a mistake. See [`Graph::warnings`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// No edge, join or declared target leads to the node from the entries, so that only a `goto`, a `send` or a free branch can.
    Unreached(Name),
    /// A join waits for a node that is not reached, so it may never be full.
    UnreachedSource {
        /// The node behind the join.
        target: Name,
        /// The node that it waits for.
        source: Name,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Unreached(node) => write!(
                f,
                "nothing that is declared leads to `{node}`: only a goto, a send or a free branch can"
            ),
            Warning::UnreachedSource { target, source } => write!(
                f,
                "the join into `{target}` waits for `{source}`, to which nothing that is declared leads"
            ),
        }
    }
}

impl<S> Graph<S> {
    /// What looks wrong with the graph but need not be.
    pub fn warnings(&self) -> Vec<Warning> {
        let core = &self.core;
        let drawing = declared(core);
        let mut reached = vec![false; core.nodes.len()];
        let mut search = Bfs::new(&drawing, petgraph::graph::NodeIndex::new(0));
        while let Some(at) = search.next(&drawing) {
            if let Some(reached) = at.index().checked_sub(1).and_then(|at| reached.get_mut(at)) {
                *reached = true;
            }
        }
        let name = |at: usize| core.node_name(at).clone();
        let unreached = |at: &usize| !reached[*at];
        let nodes = (0..core.nodes.len()).filter(unreached);
        let mut warnings: Vec<Warning> = nodes.map(|at| Warning::Unreached(name(at))).collect();
        for join in &core.joins {
            let sources = join.sources.iter().copied().filter(unreached);
            warnings.extend(sources.map(|source| Warning::UnreachedSource {
                target: name(join.target),
                source: name(source),
            }));
        }
        warnings
    }

    /// The JSON schema of what a caller may give: an object with a property for each channel.
    /// What values of a channel look like is what [`ChannelSpec::schema`] says.
    pub fn input_schema(&self) -> JsonValue {
        match &self.core.input {
            Some(input) => schema(&self.core, input),
            None => self.state_schema(),
        }
    }

    /// The JSON schema of what callers get.
    pub fn output_schema(&self) -> JsonValue {
        schema(&self.core, &self.core.output)
    }

    /// The JSON schema of the whole state.
    pub fn state_schema(&self) -> JsonValue {
        schema(&self.core, &self.core.everything)
    }

    /// The graph as JSON: its `name` and `version`, its `channels` with their rules and types, its `nodes` with what they read and
    /// where they lead, what is `entry`, and its `input` and `output`. A node that is or calls a graph has that as `graph`.
    pub fn to_json(&self) -> JsonValue {
        graph(&self.core)
    }
}

fn schema(core: &Core, channels: &ChannelSet) -> JsonValue {
    let properties = channels.channels.iter().map(|&at| {
        let spec = &core.channels[at];
        (spec.name().to_string(), spec.json_schema())
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": core.name,
        "type": "object",
        "properties": properties.collect::<serde_json::Map<_, _>>(),
        "additionalProperties": false,
    })
}

fn graph(core: &Core) -> JsonValue {
    let nodes: JsonValue = core.nodes.iter().map(|def| node(core, def)).collect();
    let channels: JsonValue = core.channels.iter().map(channel).collect();
    json!({
        "name": core.name,
        "version": core.version,
        "channels": channels,
        "nodes": nodes,
        "entry": exits(core, &core.entry),
        "input": core.input.as_ref().map(|input| &*input.names),
        "output": &*core.output.names,
        "nesting": match core.nesting {
            Nesting::PerCall => "per_call",
            Nesting::PerThread => "per_thread",
            Nesting::Unstored => "unstored",
        },
        "stop_before": core.before.json(),
        "stop_after": core.after.json(),
    })
}

fn channel(spec: &ChannelSpec) -> JsonValue {
    json!({
        "name": spec.name(),
        "rule": format!("{:?}", spec.kind()),
        "value": spec.value_type().name(),
        "update": spec.update_type().name(),
    })
}

fn node(core: &Core, def: &NodeDef) -> JsonValue {
    let mut node = json!({
        "name": def.name,
        "reads": &*def.reads.names,
        "deferred": def.deferred,
        "exits": exits(core, &def.exits),
        "handles_errors": def.handler.is_some(),
        "tags": def.tags,
        "metadata": def.metadata,
    });
    if let Some(inside) = &def.inside {
        node["graph"] = graph(inside);
    }
    node
}

fn exits(core: &Core, exits: &Exits) -> JsonValue {
    let name = |at: &usize| core.node_name(*at);
    let joins = exits.joins.iter().map(|&at| {
        let join = &core.joins[at];
        json!({
            "to": name(&join.target),
            "with": join.sources.iter().map(name).collect::<Vec<_>>(),
        })
    });
    let labels = exits.labels.iter();
    let leads = exits.leads.as_ref();
    json!({
        "edges": exits.edges.iter().map(name).collect::<Vec<_>>(),
        "joins": joins.collect::<Vec<_>>(),
        "branches": exits.branches.len(),
        "labels": labels.map(|(label, to)| json!({ "label": label, "to": name(to) })).collect::<Vec<_>>(),
        "leads_to": leads.map(|leads| leads.iter().map(name).collect::<Vec<_>>()),
    })
}
