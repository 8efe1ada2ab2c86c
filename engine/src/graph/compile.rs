//! From a description to a graph, or to everything that is wrong with it.

use std::collections::HashMap;
use std::sync::Arc;

use superstep_channels::{ChannelSpec, Conversions, Kind, Name, Snapshots};

use super::builder::{Declared, Description, Note};
use super::{ChannelIx, ChannelSet, Core, Exits, FormerNames, Join, NodeDef, NodeIx, Proofs};
use crate::error::{BuildError, Problem};
use crate::migration::{Migration, first_name};
use crate::policy::Policy;
use crate::run::Breakpoints;
use crate::state::Schema;

/// Checks a description and makes the graph of it.
pub(super) fn compile(described: Description) -> Result<Core, BuildError> {
    let mut problems = Vec::new();
    let node_at = index_nodes(&described, &mut problems);
    let mut channels = Channels::merge(&described, &mut problems);
    channels.as_deltas(&described.deltas, &mut problems);
    channels.convert(&described.migration, &mut problems);
    let wiring = Wiring::connect(&described, &node_at, &mut problems);
    let core = assemble(described, node_at, channels, wiring, &mut problems);
    if problems.is_empty() {
        return Ok(core);
    }
    Err(BuildError {
        graph: core.name,
        problems,
    })
}

fn index_nodes(described: &Description, problems: &mut Vec<Problem>) -> HashMap<Name, NodeIx> {
    let mut node_at = HashMap::new();
    for (at, Declared { name, .. }) in described.nodes.iter().enumerate() {
        if is_bad_name(name) {
            problems.push(Problem::BadName(name.clone()));
        }
        if node_at.insert(name.clone(), at).is_some() {
            problems.push(Problem::DuplicateNode(name.clone()));
        }
    }
    let deferred = described.deferred.iter();
    let unknown = deferred.filter(|name| !node_at.contains_key(*name));
    problems.extend(unknown.cloned().map(Problem::UnknownDeferred));
    if described.entries.is_empty() && !described.branches.iter().any(|(from, _)| from.is_none()) {
        problems.push(Problem::NoEntry);
    }
    node_at
}

/// Names have a meaning in namespaces, where a number is that of a call.
fn is_bad_name(name: &str) -> bool {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    is_number || name.starts_with("__") || name.contains(['|', ':'])
}

/// All channels that the state, the nodes and the caller declare, each once, in the order of declaration.
struct Channels {
    specs: Vec<ChannelSpec>,
    at: HashMap<Name, ChannelIx>,
}

impl Channels {
    fn merge(described: &Description, problems: &mut Vec<Problem>) -> Self {
        let of_nodes = described.nodes.iter().map(|node| node.run.schema());
        let of_handlers = described
            .handlers
            .iter()
            .map(|(_, handler)| handler.schema());
        let of_default = described
            .default_handler
            .iter()
            .map(|handler| handler.schema());
        let schemas = std::iter::once(described.state.clone())
            .chain(of_nodes)
            .chain(of_handlers)
            .chain(of_default);
        let declared = schemas.flat_map(|schema| match schema {
            Schema::Channels(specs) => specs,
            Schema::All | Schema::Payload => Vec::new(),
        });
        let mut channels = Channels {
            specs: Vec::new(),
            at: HashMap::new(),
        };
        for spec in declared.chain(described.channels.iter().cloned()) {
            channels.add(spec, problems);
        }
        channels
    }

    fn add(&mut self, spec: ChannelSpec, problems: &mut Vec<Problem>) {
        let name = spec.name().clone();
        match self.at.get(&name).map(|&at| &self.specs[at]) {
            Some(known) if known.agrees_with(&spec) => {}
            Some(known) => problems.push(Problem::ChannelConflict {
                channel: name,
                first: format!("{known:?}"),
                second: format!("{spec:?}"),
            }),
            None => {
                if name.is_empty() || name.starts_with("__") {
                    problems.push(Problem::BadName(name.clone()));
                }
                self.at.insert(name, self.specs.len());
                self.specs.push(spec);
            }
        }
    }

    /// Has channels stored as their writes.
    fn as_deltas(&mut self, deltas: &[(Name, Snapshots)], problems: &mut Vec<Problem>) {
        for (name, snapshots) in deltas {
            let spec = self.at.get(name).and_then(|&at| self.specs.get_mut(at));
            let folds =
                |spec: &&mut ChannelSpec| matches!(spec.kind(), Kind::Reduce | Kind::Delta(_));
            match spec.filter(folds) {
                Some(spec) => *spec = spec.clone().as_delta(*snapshots),
                None => problems.push(Problem::NoFold(name.clone())),
            }
        }
    }

    /// Lets the channels read what they held in earlier versions of the graph.
    fn convert(&mut self, migration: &Migration, problems: &mut Vec<Problem>) {
        for (name, conversions) in &migration.values {
            match self.at.get(name).and_then(|&at| self.specs.get_mut(at)) {
                Some(spec) => *spec = spec.clone().converting(conversions.clone()),
                None => problems.push(Problem::LostConversion(name.clone())),
            }
        }
    }

    fn all(&self) -> ChannelSet {
        ChannelSet {
            names: self.specs.iter().map(|spec| spec.name().clone()).collect(),
            channels: (0..self.specs.len()).collect(),
        }
    }

    /// What a type reads.
    fn of_schema(&self, schema: &Schema) -> ChannelSet {
        match schema {
            Schema::All => self.all(),
            Schema::Payload => self.set([]),
            Schema::Channels(specs) => self.set(specs.iter().map(|spec| self.at[spec.name()])),
        }
    }

    /// The channels of these names, for `user`.
    fn named(&self, user: &Name, names: Vec<Name>, problems: &mut Vec<Problem>) -> ChannelSet {
        let mut found = Vec::with_capacity(names.len());
        for channel in names {
            match self.at.get(&channel) {
                Some(&at) => found.push(at),
                None => problems.push(Problem::UnknownChannel {
                    user: user.clone(),
                    channel,
                }),
            }
        }
        self.set(found)
    }

    fn set(&self, channels: impl IntoIterator<Item = ChannelIx>) -> ChannelSet {
        let channels: Arc<[ChannelIx]> = channels.into_iter().collect();
        let names = channels.iter().map(|&at| self.specs[at].name().clone());
        ChannelSet {
            names: names.collect(),
            channels,
        }
    }
}

/// What leaves each node and the start, and where several paths are waited for.
struct Wiring {
    nodes: Vec<Exits>,
    entry: Exits,
    joins: Vec<Join>,
}

impl Wiring {
    fn connect(
        described: &Description,
        node_at: &HashMap<Name, NodeIx>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut find = |name: &Name, problem: fn(Name) -> Problem| {
            let found = node_at.get(name).copied();
            if found.is_none() {
                problems.push(problem(name.clone()));
            }
            found
        };
        let mut wiring = Wiring {
            nodes: described.nodes.iter().map(|_| Exits::default()).collect(),
            entry: Exits::default(),
            joins: Vec::new(),
        };
        wiring.edges(described, &mut find);
        wiring.branches(described, &mut find);
        for (from, to) in &described.joins {
            wiring.join(from, to, &described.migration, &mut find);
        }
        let empty = described.joins.iter().filter(|(from, _)| from.is_empty());
        problems.extend(empty.map(|(_, to)| Problem::EmptyJoin(to.clone())));
        wiring
    }

    fn edges(&mut self, described: &Description, find: &mut Find<'_>) {
        for name in &described.entries {
            self.entry.edges.extend(find(name, Problem::UnknownEntry));
        }
        for (from, to) in &described.edges {
            let from = find(from, Problem::UnknownSource);
            let to = find(to, Problem::UnknownTarget);
            if let Some((from, to)) = from.zip(to) {
                self.nodes[from].edges.push(to);
            }
        }
    }

    fn branches(&mut self, described: &Description, find: &mut Find<'_>) {
        for (from, decision) in &described.branches {
            let targets = decision.targets.iter().flatten();
            let labels: Vec<(Name, NodeIx)> = targets
                .filter_map(|(label, to)| Some((label.clone(), find(to, Problem::UnknownTarget)?)))
                .collect();
            let exits = match from {
                None => Some(&mut self.entry),
                Some(name) => find(name, Problem::UnknownSource).map(|at| &mut self.nodes[at]),
            };
            if let Some(exits) = exits {
                exits.branches.push(Arc::clone(&decision.decide));
                exits.labels.extend(labels);
            }
        }
        for (from, targets) in &described.leads {
            let from = find(from, Problem::UnknownSource);
            let targets = targets.iter();
            let targets: Vec<NodeIx> = targets
                .filter_map(|to| find(to, Problem::UnknownTarget))
                .collect();
            if let Some(from) = from {
                let leads = &mut self.nodes[from].leads;
                leads.get_or_insert_default().extend(targets);
            }
        }
    }

    fn join(&mut self, from: &[Name], to: &Name, migration: &Migration, find: &mut Find<'_>) {
        let mut sources: Vec<NodeIx> = Vec::new();
        for name in from {
            let found = find(name, Problem::UnknownSource);
            sources.extend(found.filter(|source| !sources.contains(source)));
        }
        let Some(target) = find(to, Problem::UnknownTarget) else {
            return;
        };
        // A checkpoint finds a join by its name, so one that is said twice counts once.
        let same = |join: &Join| join.target == target && join.sources == sources;
        if self.joins.iter().any(same) {
            return;
        }
        for &source in &sources {
            self.nodes[source].joins.push(self.joins.len());
        }
        let key = |name: &Name| first_name(migration, name);
        let keys: Vec<Name> = from.iter().map(key).collect();
        self.joins.push(Join {
            name: join_name(&keys, &key(to)),
            sources,
            target,
        });
    }
}

/// Finds a node, or notes what is wrong with naming it.
type Find<'a> = dyn FnMut(&Name, fn(Name) -> Problem) -> Option<NodeIx> + 'a;

/// What a join is called in checkpoints; no two joins of a graph are called the same.
fn join_name(sources: &[Name], target: &Name) -> String {
    let escaped = sources
        .iter()
        .map(|name| name.replace('\\', r"\\").replace('+', r"\+"));
    format!("join:{}:{target}", escaped.collect::<Vec<_>>().join("+"))
}

/// Puts the parts together. Only what names channels can still be wrong.
fn assemble(
    described: Description,
    node_at: HashMap<Name, NodeIx>,
    channels: Channels,
    wiring: Wiring,
    problems: &mut Vec<Problem>,
) -> Core {
    let state = channels.of_schema(&described.state);
    let input = described
        .input
        .map(|names| channels.named(&described.name, names, problems));
    let unknown = |stops: &Breakpoints| stops.unknown_in(&node_at).cloned();
    let stops = [unknown(&described.before), unknown(&described.after)];
    problems.extend(stops.into_iter().flatten().map(Problem::UnknownBreakpoint));
    let calls = described.calls.iter().map(|(node, _)| node);
    let about = described.about.iter().map(|(node, _)| node);
    let unknown = calls
        .chain(about)
        .filter(|node| !node_at.contains_key(*node));
    problems.extend(unknown.cloned().map(Problem::UnknownSource));
    let output = match described.output {
        Some(names) => channels.named(&described.name, names, problems),
        None => state.clone(),
    };
    let state = match described.state {
        Schema::All => output.clone(),
        Schema::Channels(_) | Schema::Payload => state,
    };
    let deferred = described.deferred;
    let migration = described.migration;
    let lost = migration
        .payloads
        .iter()
        .filter(|(name, _)| !node_at.contains_key(name));
    problems.extend(lost.map(|(name, _)| Problem::LostConversion(name.clone())));
    let payloads = |node: &Name| {
        let of_node = migration.payloads.iter().filter(|(name, _)| name == node);
        of_node.fold(Conversions::new(), |all, (_, more)| all.and(more.clone()))
    };
    let policy = |node: &Name| {
        let mut of_node = described
            .policies
            .iter()
            .rev()
            .filter(|(name, _)| name == node);
        let own = of_node.next().map(|(_, policy)| policy);
        let policy = own.unwrap_or(&Policy::new()).or(&described.default_policy);
        (!policy.is_plain()).then(|| Arc::new(policy))
    };
    let handler = |node: &Name| {
        let mut of_node = described
            .handlers
            .iter()
            .rev()
            .filter(|(name, _)| name == node);
        let own = of_node.next().map(|(_, handler)| handler);
        own.or(described.default_handler.as_ref()).cloned()
    };
    for name in described
        .policies
        .iter()
        .map(|(name, _)| name)
        .chain(described.handlers.iter().map(|(name, _)| name))
    {
        if !node_at.contains_key(name) {
            problems.push(Problem::UnknownPolicy(name.clone()));
        }
    }
    let inside = |node: &Declared| {
        let mut calls = described.calls.iter();
        let called = calls.find(|(name, _)| *name == node.name);
        let called = called.map(|(_, core)| Arc::clone(core));
        node.run.inside().or(called)
    };
    let nodes = described.nodes.into_iter().zip(wiring.nodes);
    let nodes: Vec<NodeDef> = nodes
        .map(|(node, exits)| {
            let reads = match &node.reads {
                Some(names) => channels.named(&node.name, names.clone(), problems),
                None => channels.of_schema(&node.run.schema()),
            };
            let handler = handler(&node.name).map(|handler| {
                let reads = match handler.schema() {
                    Schema::All => reads.clone(),
                    schema => channels.of_schema(&schema),
                };
                (handler, reads)
            });
            let about = described
                .about
                .iter()
                .filter(|(name, _)| *name == node.name);
            let (mut tags, mut metadata) = (Vec::new(), serde_json::Map::new());
            for (_, note) in about {
                match note {
                    Note::Tag(tag) => tags.push(tag.clone()),
                    Note::Member(key, value) => {
                        metadata.insert(key.clone(), value.clone());
                    }
                }
            }
            NodeDef {
                tags,
                metadata,
                reads,
                handler,
                deferred: deferred.contains(&node.name),
                key: first_name(&migration, &node.name),
                policy: policy(&node.name),
                payloads: payloads(&node.name),
                inside: inside(&node),
                name: node.name,
                run: node.run,
                exits,
            }
        })
        .collect();
    let former = FormerNames {
        channels: migration.former_channels(&channels.at, problems),
        nodes: migration.former_nodes(&node_at, problems),
        graphs: migration.graphs,
    };
    let transient = |at: &ChannelIx| channels.specs[*at].kind().is_transient();
    Core {
        proofs: Proofs::new(channels.specs.len(), nodes.len()),
        name: described.name.into_owned(),
        version: described.version,
        rank: ranks(&nodes),
        transient: (0..channels.specs.len()).filter(transient).collect(),
        everything: channels.all(),
        channels: channels.specs,
        channel_at: channels.at,
        nodes,
        node_at,
        joins: wiring.joins,
        entry: wiring.entry,
        input,
        output,
        state,
        nesting: described.nesting,
        before: described.before,
        after: described.after,
        executor: described.executor,
        former,
    }
}

/// Each node's position in the order of names.
fn ranks(nodes: &[NodeDef]) -> Vec<u32> {
    let mut by_name: Vec<NodeIx> = (0..nodes.len()).collect();
    by_name.sort_by(|&a, &b| nodes[a].name.cmp(&nodes[b].name));
    let mut ranks = vec![0; nodes.len()];
    for (rank, at) in (0..).zip(by_name) {
        ranks[at] = rank;
    }
    ranks
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
