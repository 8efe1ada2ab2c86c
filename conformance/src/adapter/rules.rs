//! What the reference does with updates, inputs and targets before they reach its channels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use superstep::channels::{Json, Value as Erased};
use superstep::{self as engine, Context, Routine, Target, Update};

use super::entry::routine;
use super::fault::Fault;
use super::world::World;
use crate::expr::Val;
use crate::folds::{assign_ids, without_given_ids};
use crate::ops::{self, Command, Item, Return, Write};
use crate::spec::{Body, Channel, Entry, Fold, Graph, Node, Op, Sources, Spec, Task};

const END: &str = "__end__";

/// The channels of an entry.
pub(super) const ARGUMENT: &str = "arg";
pub(super) const RESULT: &str = "result";
pub(super) const PREVIOUS: &str = "previous";

/// The names of a graph, and what is done with them.
pub(super) struct Rules {
    pub(super) world: World,
    /// Whether it is a functional entry, whose state is its result.
    pub(super) entry: bool,
    /// The name by which its bodies are counted.
    name: String,
    /// The tasks that its bodies may call.
    tasks: Vec<Task>,
    /// The rules of the graph around, if this one runs inside another.
    around: Option<Arc<Rules>>,
    pub(super) channels: BTreeMap<String, Channel>,
    /// The keys that the engine computes.
    computed: BTreeMap<String, Channel>,
    /// The keys an input may have.
    inputs: BTreeSet<String>,
    /// The keys that a graph around this one sees; all if there are none.
    output: Option<Vec<String>>,
    /// In the order of their definition.
    nodes: Vec<NodeRules>,
    /// The rules of the graphs inside nodes; of a node that calls several, those of the first.
    nested: BTreeMap<String, Arc<Rules>>,
}

/// What is known of a node by name.
struct NodeRules {
    name: String,
    /// The keys it sees that are channels.
    reads: Vec<String>,
    /// All keys it sees.
    sees: Vec<String>,
    /// All that can trigger it.
    triggers: Vec<String>,
}

impl Rules {
    pub(super) fn new(spec: &Graph, world: &World, around: Option<&Arc<Rules>>) -> Self {
        let private = spec.nodes.iter().flat_map(|node| &node.private);
        let declared = spec.channels.iter().chain(private);
        let channels: BTreeMap<_, _> = declared.map(|(k, c)| (k.clone(), c.clone())).collect();
        let is_computed = |_: &String, channel: &mut Channel| {
            matches!(channel, Channel::IsLastStep {} | Channel::RemainingSteps {})
        };
        let mut channels = channels;
        let computed: BTreeMap<_, _> = channels.extract_if(.., is_computed).collect();
        let inputs = spec.input.clone();
        let inputs = inputs.unwrap_or_else(|| spec.channels.keys().cloned().collect());
        let nodes = spec.nodes.iter().map(|node| NodeRules {
            name: node.name.clone(),
            reads: reads(spec, node)
                .into_iter()
                .filter(|key| !computed.contains_key(key))
                .collect(),
            sees: reads(spec, node),
            triggers: triggers(spec, &node.name),
        });
        let nodes: Vec<_> = nodes.collect();
        let nested = spec.nodes.iter().filter_map(|node| {
            let inner = inner(&node.body, &world.library)?;
            Some((node.name.clone(), Arc::new(Rules::new(inner, world, None))))
        });
        Rules {
            world: world.clone(),
            entry: false,
            name: spec.name.clone().unwrap_or_else(|| "main".to_owned()),
            tasks: spec.tasks.clone(),
            around: around.cloned(),
            channels,
            computed,
            inputs: inputs.into_iter().collect(),
            output: spec.output.clone(),
            nodes,
            nested: nested.collect(),
        }
    }

    /// The rules of a functional entry.
    pub(super) fn of_entry(spec: &Entry, world: &World) -> Self {
        let inside = first_call(&spec.ops).and_then(|called| match world.library.get(called)? {
            Spec::Graph(graph) => Some(Arc::new(Rules::new(graph, world, None))),
            Spec::Entry(_) => None,
        });
        Rules {
            world: world.clone(),
            entry: true,
            name: spec.name.clone(),
            tasks: spec.tasks.clone(),
            around: None,
            channels: BTreeMap::new(),
            computed: BTreeMap::new(),
            inputs: BTreeSet::new(),
            output: None,
            nodes: vec![NodeRules {
                name: spec.name.clone(),
                reads: vec![ARGUMENT.to_owned(), PREVIOUS.to_owned()],
                sees: Vec::new(),
                triggers: vec!["__start__".to_owned()],
            }],
            nested: inside
                .into_iter()
                .map(|rules| (spec.name.clone(), rules))
                .collect(),
        }
    }

    /// A task by name, in the engine's form.
    pub(super) fn routine(self: &Arc<Self>, name: &str) -> Option<Routine<Json, Json>> {
        let task = self.tasks.iter().find(|task| task.name == name)?;
        Some(routine(&self.name, task, self))
    }

    /// The rules of the graph inside a node.
    pub(super) fn inside(&self, node: &str) -> Option<&Rules> {
        self.nested.get(node).map(|rules| &**rules)
    }

    /// The rules of the graph in a namespace.
    pub(super) fn at(&self, namespace: &str) -> &Rules {
        let nodes = namespace
            .split('|')
            .filter_map(|part| part.split(':').next());
        nodes.fold(self, |rules, node| rules.inside(node).unwrap_or(rules))
    }

    /// What can trigger a node.
    pub(super) fn triggers(&self, node: &str) -> &[String] {
        let found = self.nodes.iter().find(|known| known.name == node);
        found.map_or(&[], |known| &known.triggers)
    }

    /// The values that the engine computes and that a node sees, by key.
    pub(super) fn managed(&self, node: &str, cx: &Context) -> Vec<(String, Value)> {
        let own = self.nodes.iter().find(|known| known.name == node);
        let keys = own.map(|known| known.sees.as_slice()).unwrap_or_default();
        let managed = keys.iter().filter_map(|key| {
            let left = cx.remaining_supersteps();
            let value = match self.computed.get(key)? {
                // The reference counts the start as a superstep.
                Channel::IsLastStep {} => (left == 1).into(),
                _ => left.into(),
            };
            Some((key.clone(), value))
        });
        managed.collect()
    }

    /// The keys that a node sees.
    pub(super) fn reads(&self, node: &str) -> &[String] {
        let found = self.nodes.iter().find(|known| known.name == node);
        found.map_or(&[], |known| &known.reads)
    }

    /// The position of a node in the order of definition.
    pub(super) fn position(&self, node: &str) -> Option<usize> {
        self.nodes.iter().position(|known| known.name == node)
    }

    /// Whether the graph around this one sees a key.
    pub(super) fn gives(&self, key: &str) -> bool {
        self.output
            .as_ref()
            .is_none_or(|output| output.iter().any(|known| known == key))
    }

    /// A state as bodies and results show it: a topic that holds nothing is not there.
    pub(super) fn seen(&self, state: Value) -> Value {
        if self.entry {
            return state.get(RESULT).cloned().unwrap_or_default();
        }
        let Value::Object(mut members) = state else {
            return state;
        };
        members.retain(|key, value| {
            let topic = matches!(self.channels.get(key), Some(Channel::Topic { .. }));
            let nothing = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            !(topic && nothing)
        });
        members.into()
    }

    /// What was written to a key, as results show it: without the ids that a messages reducer gave.
    pub(super) fn written(&self, key: &str, mut value: Value) -> Value {
        if let Some(Channel::Reduce {
            op: Fold::Messages, ..
        }) = self.channels.get(key)
        {
            without_given_ids(&mut value);
        }
        value
    }

    /// The update that new input makes.
    pub(super) fn input(&self, writes: Vec<(String, Write)>) -> Update {
        let known = writes
            .into_iter()
            .filter(|(key, _)| self.inputs.contains(key));
        self.write(Update::new(), known.collect())
    }

    /// The update of writes from outside.
    pub(super) fn update(&self, writes: Vec<(String, Write)>) -> Update {
        self.write(Update::new(), writes)
    }

    /// What is sent to a graph, without the keys that it does not take.
    fn accepted(&self, mut input: Value) -> Value {
        if let Some(members) = input.as_object_mut() {
            members.retain(|key, _| self.inputs.contains(key));
        }
        input
    }

    /// The update of what a body returned.
    pub(super) fn returned(&self, returned: Return) -> Result<Update, Fault> {
        match returned {
            Return::Command(command) => self.command(Update::new(), command),
            Return::Value(value) => Ok(self.write(Update::new(), self.plain(value)?)),
            Return::List(items) => self.list(items),
            Return::Parent(command) => {
                let around = self.around.as_ref().map(|around| {
                    let update = around.command(Update::new(), command);
                    update.map(|update| Update::new().in_parent(update))
                });
                // Without a graph around it fails whatever it says.
                around.unwrap_or_else(|| Ok(Update::new().in_parent(Update::new())))
            }
            // A task gives it to who called it.
            Return::Result { .. } => Ok(Update::new()),
        }
    }

    fn plain(&self, value: Val) -> Result<Vec<(String, Write)>, Fault> {
        ops::writes(value).map_err(|_| Fault::InvalidUpdate)
    }

    fn list(&self, items: Vec<Item>) -> Result<Update, Fault> {
        if !items.iter().any(|item| matches!(item, Item::Command(_))) {
            return Err(Fault::InvalidUpdate);
        }
        items
            .into_iter()
            .try_fold(Update::new(), |update, item| match item {
                Item::Update(value) => Ok(self.write(update, self.plain(value)?)),
                Item::Command(command) => self.command(update, command),
            })
    }

    /// Adds a command's writes and targets.
    pub(super) fn command(&self, update: Update, command: Command) -> Result<Update, Fault> {
        let targets = self.targets(command.goto)?;
        let update = self.write(update, command.writes);
        Ok(targets.into_iter().fold(update, Update::target))
    }

    /// Adds writes; keys that are no channel are dropped.
    fn write(&self, update: Update, writes: Vec<(String, Write)>) -> Update {
        writes.into_iter().fold(update, |update, (key, write)| {
            let Some(channel) = self.channels.get(&key) else {
                return update;
            };
            match self.prepared(channel, write) {
                Write::Plain(value) => update.put_value(key, Erased::new(Json(value))),
                Write::Overwrite(value) => update.overwrite_value(key, Erased::new(Json(value))),
            }
        })
    }

    fn prepared(&self, channel: &Channel, write: Write) -> Write {
        let (Channel::Reduce { op, .. } | Channel::Delta { op, .. }) = channel else {
            return write;
        };
        let mut write = overwritten(write);
        match (&mut write, channel) {
            (Write::Plain(value), _) if *op == Fold::Messages => {
                assign_ids(value, || self.world.next_message());
            }
            (Write::Overwrite(value), Channel::Delta { .. }) if value.is_null() => {
                *value = op.zero()().0;
            }
            _ => {}
        }
        write
    }

    /// The engine's targets; the end and unknown nodes are dropped.
    pub(super) fn targets(&self, targets: Vec<ops::Target>) -> Result<Vec<Target>, Fault> {
        let mut known = Vec::new();
        for target in targets {
            match target {
                ops::Target::Node(name) if self.position(&name).is_some() => {
                    known.push(engine::Node::<Json>::named(name).into());
                }
                ops::Target::Node(_) => {}
                ops::Target::Send(send) if send.node == END => return Err(Fault::InvalidUpdate),
                ops::Target::Send(send) => {
                    if send.timeout_ms.is_some() {
                        self.world.lacks("time limits");
                    }
                    if self.position(&send.node).is_some() {
                        let arg = match self.inside(&send.node) {
                            Some(inner) => inner.accepted(send.arg),
                            None => send.arg,
                        };
                        known.push(engine::Node::named(send.node).with(Json(arg)));
                    }
                }
            }
        }
        Ok(known)
    }
}

/// An overwrite can also be written as an object.
fn overwritten(write: Write) -> Write {
    let Write::Plain(Value::Object(members)) = &write else {
        return write;
    };
    overwrite_value(members).map_or(write.clone(), Write::Overwrite)
}

fn overwrite_value(members: &Map<String, Value>) -> Option<Value> {
    let tagged = members
        .get("type")
        .is_some_and(|tag| tag == "__overwrite__");
    match members.len() {
        1 => members.get("__overwrite__").cloned(),
        2 if tagged => members.get("value").cloned(),
        _ => None,
    }
}

fn reads(spec: &Graph, node: &Node) -> Vec<String> {
    let own = node.input.clone();
    let own = own.unwrap_or_else(|| spec.channels.keys().cloned().collect());
    let private = node.private.keys().filter(|key| !own.contains(key));
    own.iter().chain(private).cloned().collect()
}

/// The channels that trigger a node in the reference.
fn triggers(spec: &Graph, node: &str) -> Vec<String> {
    let joins = spec.edges.iter().filter(|edge| edge.1 == node);
    let joins = joins.filter_map(|edge| match &edge.0 {
        Sources::One(_) => None,
        Sources::All(sources) => Some(format!("join:{}:{node}", sources.join("+"))),
    });
    std::iter::once(format!("branch:to:{node}"))
        .chain(joins)
        .collect()
}

/// The graph that a body runs, or the first that it calls.
fn inner<'a>(body: &'a Body, library: &'a BTreeMap<String, Spec>) -> Option<&'a Graph> {
    let spec = match body {
        Body::Subgraph(spec) => &**spec,
        Body::Ops(ops) => library.get(first_call(ops)?)?,
    };
    match spec {
        Spec::Graph(graph) => Some(graph),
        Spec::Entry(_) => None,
    }
}

pub(super) fn first_call(ops: &[Op]) -> Option<&str> {
    ops.iter().find_map(|op| match op {
        Op::Call { graph, .. } => Some(graph.as_str()),
        Op::If {
            then, otherwise, ..
        } => first_call(then).or_else(|| first_call(otherwise)),
        _ => None,
    })
}
