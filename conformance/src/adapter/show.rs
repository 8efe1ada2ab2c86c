//! The engine's snapshots in the form of results.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use superstep::channels::{CodecError, Name, Write};
use superstep::checkpoint::{CheckpointId, Source};
use superstep::{self as engine, Ask};

use super::fault::bare_name;
use super::rules::{RESULT, Rules};
use crate::ids::{Kind, token};
use crate::result::{Address, Interrupt, Nested, Parent, Snapshot, TaskState};

pub(super) type Shown<T> = Result<T, CodecError>;

/// Where something that is shown comes from.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// The rules of the graph.
    pub(super) rules: &'a Rules,
    pub(super) thread: &'a str,
    pub(super) namespace: &'a str,
}

impl Place<'_> {
    /// A checkpoint's id. Each namespace of each thread counts its own.
    pub(super) fn checkpoint(self, namespace: &str, id: CheckpointId) -> String {
        token(
            Kind::Checkpoint,
            format!("{}/{namespace}/{id}", self.thread),
        )
    }
}

/// An open question.
pub(super) fn question(ask: &Ask) -> Interrupt {
    Interrupt {
        id: token(Kind::Interrupt, ask.id),
        value: ask.payload.0.clone(),
    }
}

pub(super) fn questions(asks: &[Ask]) -> Vec<Interrupt> {
    asks.iter().map(question).collect()
}

/// A namespace with the tasks in it as tokens.
pub(super) fn namespace(text: &str) -> String {
    let part = |part: &str| match part.split_once(':') {
        Some((node, task)) => format!("{node}:{}", token(Kind::Task, task)),
        None => part.to_owned(),
    };
    text.split('|').map(part).collect::<Vec<_>>().join("|")
}

/// A state that was read.
pub(super) fn snapshot(place: Place<'_>, read: &engine::Snapshot) -> Shown<Snapshot> {
    let rules = place.rules;
    let ordered = ordered(rules, &read.tasks, Order::Definition);
    // The engine says which nodes are due, in its order; the reference lists them in the order of definition.
    let mut due: Vec<String> = read.next().map(ToString::to_string).collect();
    let mut next = Vec::new();
    for task in &ordered {
        if let Some(at) = due.iter().position(|name| *name == *task.node) {
            next.push(due.swap_remove(at));
        }
    }
    let tasks: Vec<TaskState> = ordered
        .iter()
        .map(|state| task(place, state))
        .collect::<Shown<_>>()?;
    let nothing = read.checkpoint.is_none() && !place.namespace.is_empty();
    Ok(Snapshot {
        values: match nothing {
            true => json!({}),
            false => rules.seen(read.values.json()?),
        },
        next,
        ns: (!place.namespace.is_empty()).then(|| namespace(place.namespace)),
        interrupts: tasks
            .iter()
            .flat_map(|task| task.interrupts.clone())
            .collect(),
        tasks,
        ..bare(place, read)
    })
}

/// A snapshot's fixed part.
pub(super) fn bare(place: Place<'_>, read: &engine::Snapshot) -> Snapshot {
    let own = |id| place.checkpoint(place.namespace, id);
    let parent = |(ns, id): &(String, CheckpointId)| Parent {
        ns: namespace(ns),
        id: place.checkpoint(ns, *id),
    };
    Snapshot {
        values: Value::Null,
        next: Vec::new(),
        id: read.checkpoint.map(own),
        parent: read.parent.map(own),
        source: read.source.map(|source| self::source(source).to_owned()),
        step: read.checkpoint.map(|_| read.step),
        tasks: Vec::new(),
        interrupts: Vec::new(),
        ns: None,
        parents: read.parents.iter().map(parent).collect(),
        delta_counters: BTreeMap::new(),
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Input => "input",
        Source::Loop => "loop",
        Source::Update => "update",
        Source::Fork => "fork",
        _ => "unknown",
    }
}

/// The order of tasks that are no sends; sends come before them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// As a state that is read lists them.
    Definition,
    /// As a run lists them, which knows what changed.
    Name,
}

impl Order {
    /// A run that goes on from an edited state or a fork does not know what changed there.
    pub(super) fn of_run(source: Option<Source>, forks: bool) -> Self {
        match source {
            Some(Source::Update | Source::Fork) if !forks => Order::Definition,
            _ => Order::Name,
        }
    }

    fn key(self, rules: &Rules, node: &str) -> (Option<usize>, String) {
        match self {
            Order::Definition => (rules.position(node), String::new()),
            Order::Name => (None, node.to_owned()),
        }
    }
}

pub(super) fn ordered<'a>(
    rules: &Rules,
    tasks: &'a [engine::TaskState],
    order: Order,
) -> Vec<&'a engine::TaskState> {
    let mut tasks: Vec<_> = tasks.iter().collect();
    tasks.sort_by_key(|task| match &task.send {
        Some((at, _)) => (0, (Some(*at), String::new())),
        None => (1, order.key(rules, &task.node)),
    });
    tasks
}

pub(super) fn task(place: Place<'_>, state: &engine::TaskState) -> Shown<TaskState> {
    let id = token(Kind::Task, state.id);
    let separator = if place.namespace.is_empty() { "" } else { "|" };
    let address = |_| Address {
        ns: format!(
            "{}{separator}{}:{id}",
            namespace(place.namespace),
            state.node
        ),
    };
    let nested = match (
        &state.nested,
        &state.namespace,
        place.rules.inside(&state.node),
    ) {
        (_, _, None) => None,
        (Some(read), Some(namespace), Some(rules)) => {
            let inside = Place {
                rules,
                thread: place.thread,
                namespace,
            };
            Some(Nested::Expanded(Box::new(snapshot(inside, read)?)))
        }
        (_, _, Some(_)) => Some(Nested::Address(address(()))),
    };
    let writes = state.writes.as_ref();
    Ok(TaskState {
        name: state.node.to_string(),
        error: state.error.as_deref().map(bare_name),
        interrupts: questions(&state.asks),
        result: writes
            .map(|writes| result(place.rules, writes))
            .transpose()?,
        state: nested,
        id,
    })
}

/// What a task wrote, as an object; several writes to one key are marked.
pub(super) fn result(rules: &Rules, writes: &[(Name, Write)]) -> Shown<Value> {
    if rules.entry {
        return result_of(writes);
    }
    let mut by_key = BTreeMap::<&str, Vec<Value>>::new();
    for (key, value) in writes {
        by_key
            .entry(key)
            .or_default()
            .push(written(rules, key, value)?);
    }
    let members = by_key.into_iter().map(|(key, mut values)| {
        let last = values.pop().unwrap_or_default();
        let several = !values.is_empty();
        values.push(last.clone());
        let value = if several {
            json!({ "$writes": values })
        } else {
            last
        };
        (key.to_owned(), value)
    });
    Ok(members.collect::<Map<_, _>>().into())
}

fn written(rules: &Rules, key: &str, write: &Write) -> Shown<Value> {
    let value = rules.written(key, write.value().to_json()?);
    Ok(match write {
        Write::Plain(_) => value,
        Write::Overwrite(_) => json!({ "$overwrite": value }),
    })
}

/// What a task wrote, as the updates mode shows it.
pub(super) fn update(rules: &Rules, writes: &[(Name, Write)]) -> Shown<Value> {
    if rules.entry {
        return result_of(writes);
    }
    if writes.is_empty() {
        return Ok(Value::Null);
    }
    let members: Vec<(String, Value)> = writes
        .iter()
        .map(|(key, write)| Ok((key.to_string(), written(rules, key, write)?)))
        .collect::<Shown<_>>()?;
    let map: Map<String, Value> = members.iter().cloned().collect();
    Ok(if map.len() == members.len() {
        map.into()
    } else {
        let single = |(key, value): (String, Value)| Value::from(Map::from_iter([(key, value)]));
        members.into_iter().map(single).collect()
    })
}

/// What an entry gave.
fn result_of(writes: &[(Name, Write)]) -> Shown<Value> {
    let mut writes = writes.iter();
    let result = writes.find(|(name, _)| name == RESULT);
    result.map_or(Ok(Value::Null), |(_, write)| write.value().to_json())
}
