//! From a document to a graph, or to everything that is wrong with it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as JsonValue;
use superstep_channels::{ChannelSpec, Json, Name, Snapshots, fold_with};

use super::predicate::{Call, Condition, Predicate};
use super::registry::{BadParameters, Made};
use super::{Branch, Channel, Document, DocumentError, DocumentProblem, Node, Registry, Rule};
use crate::context::Context;
use crate::graph::{Graph, GraphBuilder};
use crate::node::Node as EngineNode;
use crate::policy::{Policy, Retry};

impl Document {
    /// Makes the graph, with what the registry knows. Everything that is wrong is reported at once.
    pub fn build(&self, registry: &Registry) -> Result<Graph<Json>, DocumentError> {
        let mut problems = Problems::default();
        let builder = Graph::<Json>::builder().named(self.name.clone(), self.version);
        let builder = self.channels(builder, registry, &mut problems);
        let builder = self.nodes(builder, registry, &mut problems);
        let builder = self.ways(builder);
        let builder = self.branches(builder, registry, &mut problems);
        let builder = self.borders(builder);
        match builder.build() {
            Ok(graph) if problems.0.is_empty() => return Ok(graph),
            Ok(_) => {}
            Err(error) => {
                let of_graph = error.problems.iter().map(ToString::to_string);
                of_graph.for_each(|what| problems.add(String::new(), what));
            }
        }
        Err(DocumentError {
            problems: problems.0,
        })
    }

    fn channels(
        &self,
        builder: GraphBuilder<Json>,
        registry: &Registry,
        problems: &mut Problems,
    ) -> GraphBuilder<Json> {
        self.channels
            .iter()
            .fold(builder, |builder, (name, channel)| {
                let path = format!("channels.{name}");
                match spec(name, channel, registry) {
                    Ok(spec) => builder.channel(spec),
                    Err((member, what)) => {
                        problems.add(format!("{path}.{member}"), what);
                        builder
                    }
                }
            })
    }

    fn nodes(
        &self,
        builder: GraphBuilder<Json>,
        registry: &Registry,
        problems: &mut Problems,
    ) -> GraphBuilder<Json> {
        let nodes = self.nodes.iter().enumerate();
        nodes.fold(builder, |builder, (at, node)| {
            let path = format!("nodes[{at}]");
            let made = match registry.find_kind(&node.kind) {
                Ok(make) => problems.of_parameters(make(&node.with), format!("{path}.with")),
                Err(what) => {
                    problems.add(format!("{path}.kind"), what);
                    None
                }
            };
            // A node that could not be made stands in, so that what leads to it is no problem of its own.
            let made = made.unwrap_or_else(nothing);
            add(builder, node, made)
        })
    }

    fn ways(&self, builder: GraphBuilder<Json>) -> GraphBuilder<Json> {
        let entries = self.entries.iter();
        let builder = entries.fold(builder, |builder, name| builder.entry(named(name)));
        let edges = self.edges.iter();
        let builder = edges.fold(builder, |builder, (from, to)| {
            builder.edge(named(from), named(to))
        });
        let joins = self.joins.iter();
        joins.fold(builder, |builder, join| {
            builder.join(join.from.iter().map(|name| named(name)), named(&join.to))
        })
    }

    fn branches(
        &self,
        builder: GraphBuilder<Json>,
        registry: &Registry,
        problems: &mut Problems,
    ) -> GraphBuilder<Json> {
        let branches = self.branches.iter().enumerate();
        branches.fold(builder, |builder, (at, branch)| {
            let path = format!("branches[{at}]");
            self.check(branch, &path, problems);
            let decide = decide(branch, &path, registry, problems);
            let decide = move |Json(state): Json| decide(&state);
            let targets = labels(branch);
            match &branch.from {
                Some(from) => builder.branch_to(named(from), decide, targets),
                None => builder.entry_branch_to(decide, targets),
            }
        })
    }

    /// Whether what a branch says makes sense.
    fn check(&self, branch: &Branch, path: &str, problems: &mut Problems) {
        let mut before: Vec<&Predicate> = Vec::new();
        for (at, case) in branch.when.iter().enumerate() {
            let path = format!("{path}.when[{at}].if");
            for channel in case.holds.channels() {
                if !self.channels.contains_key(&channel) {
                    problems.add(path.clone(), format!("`{channel}` is no channel"));
                }
            }
            if before.contains(&&case.holds) {
                let what = "the same condition stands before it, so this one decides nothing";
                problems.add(path, what.into());
            }
            before.push(&case.holds);
        }
    }

    fn borders(&self, builder: GraphBuilder<Json>) -> GraphBuilder<Json> {
        let builder = match &self.input {
            Some(input) => builder.input(input.clone()),
            None => builder,
        };
        let builder = match &self.output {
            Some(output) => builder.output(output.clone()),
            None => builder,
        };
        builder
            .stop_before(self.stop_before.clone())
            .stop_after(self.stop_after.clone())
    }
}

#[derive(Default)]
struct Problems(Vec<DocumentProblem>);

impl Problems {
    fn add(&mut self, path: String, what: String) {
        self.0.push(DocumentProblem { path, what });
    }

    fn of_parameters<T>(&mut self, made: Result<T, BadParameters>, path: String) -> Option<T> {
        made.map_err(|bad| self.add(format!("{path}{}", bad.path), bad.what))
            .ok()
    }
}

fn named(name: &str) -> EngineNode<Json> {
    EngineNode::named(name.to_owned())
}

fn nothing() -> Made {
    Arc::new(|_, _| Box::pin(async { Ok(crate::Update::new()) }))
}

/// The declaration of a channel, or what is wrong and with which member.
fn spec(
    name: &str,
    channel: &Channel,
    registry: &Registry,
) -> Result<ChannelSpec, (&'static str, String)> {
    let folds = matches!(channel.rule, Rule::Topic | Rule::Reduce);
    let fold = match (&channel.fold, folds) {
        (Some(fold), true) => Some(registry.find_fold(fold).map_err(|what| ("fold", what))?),
        (None, false) => None,
        (None, true) => return Err(("fold", "a channel of this rule needs a fold".into())),
        (Some(_), false) => return Err(("fold", "a channel of this rule has no fold".into())),
    };
    if channel.delta && channel.rule != Rule::Reduce {
        return Err((
            "delta",
            "only a `reduce` channel can be stored as its writes".into(),
        ));
    }
    let one_writer = matches!(channel.rule, Rule::Last | Rule::Ephemeral | Rule::Untracked);
    if channel.many_writers && !one_writer {
        let what = "a channel of this rule takes many writers anyway";
        return Err(("many_writers", what.into()));
    }
    let name = name.to_owned();
    let spec = match (channel.rule, fold) {
        (Rule::Topic, Some(fold)) => ChannelSpec::topic::<Json, Json>(name, fold_with(fold)),
        (_, Some(fold)) => ChannelSpec::reduce::<Json, Json>(name, fold_with(fold)),
        (Rule::Any, None) => ChannelSpec::any::<Json>(name),
        (Rule::Ephemeral, None) => ChannelSpec::ephemeral::<Json>(name),
        (Rule::Untracked, None) => ChannelSpec::untracked::<Json>(name),
        (_, None) => ChannelSpec::last::<Json>(name),
    };
    let spec = match (channel.delta, channel.many_writers) {
        (true, _) => spec.as_delta(Snapshots::Amortised),
        (false, true) => spec.unguarded(),
        (false, false) => spec,
    };
    Ok(match &channel.schema {
        Some(schema) => spec.schema(schema.clone()),
        None => spec,
    })
}

fn add(builder: GraphBuilder<Json>, node: &Node, made: Made) -> GraphBuilder<Json> {
    let name = named(&node.name);
    let run = move |state: Json, cx: Context| made(state, cx);
    let mut builder = match &node.reads {
        Some(reads) => builder.node_reading(name.clone(), reads.clone(), run),
        None => builder.node(name.clone(), run),
    };
    if node.defer {
        builder = builder.defer(name.clone());
    }
    if let Some(leads) = &node.leads_to {
        builder = builder.leads_to(name.clone(), leads.iter().map(|name| named(name)));
    }
    let metadata = node.metadata.iter();
    builder = metadata.fold(builder, |builder, (key, value)| {
        builder.metadata(name.clone(), key.clone(), value.clone())
    });
    builder
        .tags(name.clone(), node.tags.iter().cloned())
        .policy(name, policy(node))
}

fn policy(node: &Node) -> Policy {
    let mut policy = Policy::new();
    if let Some(retry) = &node.retry {
        policy = policy.retry(Retry::times(retry.attempts).backoff(
            Duration::from_millis(retry.initial_ms),
            retry.factor,
            Duration::from_millis(retry.max_ms),
        ));
    }
    if let Some(ms) = node.run_timeout_ms {
        policy = policy.run_timeout(Duration::from_millis(ms));
    }
    if let Some(ms) = node.idle_timeout_ms {
        policy = policy.idle_timeout(Duration::from_millis(ms));
    }
    match node.blocking {
        true => policy.blocking(),
        false => policy,
    }
}

/// The label of each case, and of what comes if none holds: its condition as people read it. Conditions that read alike are
/// numbered, so that each label leads where its own case does.
fn case_labels(branch: &Branch) -> Vec<String> {
    let texts = branch.when.iter().map(|case| case.holds.to_string());
    let texts: Vec<String> = texts.chain(["else".to_owned()]).collect();
    let mut labels: Vec<String> = Vec::with_capacity(texts.len());
    for text in &texts {
        let mut label = text.clone();
        let mut number = 1;
        // A number could make it like a condition that reads so.
        while labels.contains(&label) || (number > 1 && texts.contains(&label)) {
            number += 1;
            label = format!("{text} ({number})");
        }
        labels.push(label);
    }
    labels
}

/// The nodes of a branch, each with the condition that leads to it.
fn labels(branch: &Branch) -> Vec<(String, EngineNode<Json>)> {
    let cases = branch.when.iter().map(|case| Some(&case.to));
    let targets = cases.chain([branch.otherwise.as_ref()]);
    let all = case_labels(branch).into_iter().zip(targets);
    all.flat_map(|(label, targets)| {
        let names = targets.into_iter().flat_map(|targets| targets.names());
        names.map(move |name| (label.clone(), named(name)))
    })
    .collect()
}

/// The function of a branch: the first condition that holds, as a label.
fn decide(
    branch: &Branch,
    path: &str,
    registry: &Registry,
    problems: &mut Problems,
) -> impl Fn(&JsonValue) -> Option<Name> + Send + Sync + 'static {
    let mut call = |known: &Call, path: String| -> Condition {
        let made = match registry.find_condition(&known.name) {
            Ok(make) => problems.of_parameters(make(&known.with), format!("{path}.with")),
            Err(what) => {
                problems.add(format!("{path}.name"), what);
                None
            }
        };
        made.unwrap_or_else(|| Box::new(|_| false))
    };
    let labels = case_labels(branch);
    let cases = branch.when.iter().zip(&labels).enumerate();
    let cases: Vec<(Condition, Option<Name>)> = cases
        .map(|(at, (case, label))| {
            let path = format!("{path}.when[{at}].if");
            let leads = !case.to.names().is_empty();
            let label = leads.then(|| label.clone().into());
            (case.holds.ready(&path, &mut call), label)
        })
        .collect();
    let otherwise = branch.otherwise.as_ref();
    let otherwise = otherwise
        .filter(|targets| !targets.names().is_empty())
        .and_then(|_| labels.last().cloned().map(Name::from));
    move |state| {
        let first = cases.iter().find(|(holds, _)| holds(state));
        first.map_or_else(|| otherwise.clone(), |(_, label)| label.clone())
    }
}
