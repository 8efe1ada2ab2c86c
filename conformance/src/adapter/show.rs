//! The engine's snapshots and events in the form of results.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};
use superstep::channels::{CodecError, Name, Value as Erased};
use superstep::checkpoint::{CheckpointId, Source};
use superstep::{self as engine, Ask, Part, TaskInput};

use super::fault::bare_name;
use super::rules::Rules;
use crate::ids::{Kind, token};
use crate::result::{Address, Event, Interrupt, Nested, Parent, Snapshot, TaskState};
use crate::spec::Mode;

type Shown<T> = Result<T, CodecError>;

/// What the reference calls the trigger of a task that was sent.
const SENT: &str = "__pregel_push";
const INTERRUPT: &str = "__interrupt__";

/// A checkpoint's id. Those of nested graphs are counted anew in each namespace.
pub(super) fn checkpoint(namespace: &str, id: CheckpointId) -> String {
    token(Kind::Checkpoint, format!("{namespace}/{id}"))
}

/// An open question.
pub(super) fn question(ask: &Ask) -> Interrupt {
    Interrupt {
        id: token(Kind::Interrupt, ask.id),
        value: ask.payload.0.clone(),
    }
}

fn questions(asks: &[Ask]) -> Vec<Interrupt> {
    asks.iter().map(question).collect()
}

/// A namespace with the tasks in it as tokens.
fn namespace(text: &str) -> String {
    let part = |part: &str| match part.split_once(':') {
        Some((node, task)) => format!("{node}:{}", token(Kind::Task, task)),
        None => part.to_owned(),
    };
    text.split('|').map(part).collect::<Vec<_>>().join("|")
}

/// Which state a snapshot shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The present one: what is open still.
    Live,
    /// A checkpoint with all that became of its tasks.
    Record,
}

/// A state that was read.
pub(super) fn snapshot(rules: &Rules, read: &engine::Snapshot, view: View) -> Shown<Snapshot> {
    let ordered = ordered(rules, &read.tasks);
    let due = ordered.iter().filter(|task| view == View::Record || !task.finished);
    let next = due.map(|task| task.node.to_string()).collect();
    let tasks: Vec<TaskState> =
        ordered.iter().map(|state| task(rules, state, "")).collect::<Shown<_>>()?;
    Ok(Snapshot {
        values: rules.seen(read.values.json()?),
        next,
        interrupts: tasks.iter().flat_map(|task| task.interrupts.clone()).collect(),
        tasks,
        ..bare(read, "")
    })
}

/// A snapshot's fixed part.
fn bare(read: &engine::Snapshot, namespace: &str) -> Snapshot {
    let parent = |(ns, id): &(String, CheckpointId)| Parent {
        ns: self::namespace(ns),
        id: checkpoint(ns, *id),
    };
    Snapshot {
        values: Value::Null,
        next: Vec::new(),
        id: read.checkpoint.map(|id| checkpoint(namespace, id)),
        parent: read.parent.map(|id| checkpoint(namespace, id)),
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

/// Tasks in the order of the reference: sends, then nodes as they were defined.
fn ordered<'a>(rules: &Rules, tasks: &'a [engine::TaskState]) -> Vec<&'a engine::TaskState> {
    let mut tasks: Vec<_> = tasks.iter().collect();
    tasks.sort_by_key(|task| match task.send {
        Some(at) => (0, Some(at)),
        None => (1, rules.position(&task.node)),
    });
    tasks
}

fn task(rules: &Rules, state: &engine::TaskState, around: &str) -> Shown<TaskState> {
    let id = token(Kind::Task, state.id);
    let separator = if around.is_empty() { "" } else { "|" };
    let address = || Address {
        ns: format!("{}{separator}{}:{id}", namespace(around), state.node),
    };
    let nests = rules.nests.contains(&*state.node) && state.writes.is_none();
    let writes = state.writes.as_ref();
    Ok(TaskState {
        name: state.node.to_string(),
        error: state.error.as_deref().map(bare_name),
        interrupts: questions(&state.asks),
        result: writes.map(|writes| result(writes)).transpose()?,
        state: nests.then(address).map(Nested::Address),
        id,
    })
}

/// What a task wrote, as an object; several writes to one key are marked.
fn result(writes: &[(Name, Erased)]) -> Shown<Value> {
    let mut by_key = BTreeMap::<&str, Vec<Value>>::new();
    for (key, value) in writes {
        by_key.entry(key).or_default().push(value.to_json()?);
    }
    let members = by_key.into_iter().map(|(key, mut values)| {
        let last = values.pop().unwrap_or_default();
        let several = !values.is_empty();
        values.push(last.clone());
        let value = if several { json!({ "$writes": values }) } else { last };
        (key.to_owned(), value)
    });
    Ok(members.collect::<Map<_, _>>().into())
}

/// What a task wrote, as the updates mode shows it.
fn update(writes: &[(Name, Erased)]) -> Shown<Value> {
    if writes.is_empty() {
        return Ok(Value::Null);
    }
    let members: Vec<(String, Value)> = writes
        .iter()
        .map(|(key, value)| Ok((key.to_string(), value.to_json()?)))
        .collect::<Shown<_>>()?;
    let map: Map<String, Value> = members.iter().cloned().collect();
    Ok(if map.len() == members.len() {
        map.into()
    } else {
        let single = |(key, value): (String, Value)| Value::from(Map::from_iter([(key, value)]));
        members.into_iter().map(single).collect()
    })
}

/// Turns the parts of a stream into the events of some modes.
pub(super) struct Events<'a> {
    rules: &'a Rules,
    modes: &'a [Mode],
    /// The latest values of each graph.
    values: HashMap<String, Value>,
    pub(super) shown: Vec<Event>,
}

impl<'a> Events<'a> {
    pub(super) fn new(rules: &'a Rules, modes: &'a [Mode]) -> Self {
        Events {
            rules,
            modes,
            values: HashMap::new(),
            shown: Vec::new(),
        }
    }

    /// The latest values of the outermost graph; an empty object before the first.
    pub(super) fn output(&mut self) -> Value {
        self.values.remove("").unwrap_or_else(|| json!({}))
    }

    pub(super) fn add(&mut self, part: &Part) -> Shown<()> {
        let ns = &*part.namespace;
        match &part.event {
            engine::Event::Values(fields) => {
                let values = self.rules.seen(fields.json()?);
                self.values.insert(ns.to_owned(), values.clone());
                self.show(Mode::Values, ns, values);
            }
            engine::Event::Update { node, writes } => {
                let update = update(writes)?;
                self.show(Mode::Updates, ns, json!({ &**node: update }));
            }
            engine::Event::Custom { node, value } => {
                self.show(Mode::Custom, ns, json!({ "node": node, "value": value }));
            }
            engine::Event::TaskStarted { .. } | engine::Event::TaskEnded { .. } => {
                let (kind, step, data) = self.task(&part.event)?;
                self.show(Mode::Tasks, ns, data.clone());
                self.debug(ns, kind, step, data);
            }
            engine::Event::Checkpoint(read) => {
                let data = self.checkpoint(read, ns)?;
                self.show(Mode::Checkpoints, ns, data.clone());
                self.debug(ns, "checkpoint", read.step, data);
            }
            engine::Event::Paused(asks) => self.paused(ns, asks),
            _ => {}
        }
        Ok(())
    }

    fn show(&mut self, mode: Mode, ns: &str, data: Value) {
        if self.modes.contains(&mode) {
            self.shown.push(Event {
                mode: format!("{mode:?}").to_lowercase(),
                data,
                ns: namespace(ns),
            });
        }
    }

    fn debug(&mut self, ns: &str, kind: &str, step: i64, payload: Value) {
        let data = json!({ "type": kind, "step": step, "payload": payload });
        self.show(Mode::Debug, ns, data);
    }

    fn task(&self, event: &engine::Event) -> Shown<(&'static str, i64, Value)> {
        Ok(match event {
            engine::Event::TaskStarted {
                task,
                node,
                input,
                triggers,
                step,
            } => {
                let input = match input {
                    TaskInput::State(fields) => self.rules.seen(fields.json()?),
                    TaskInput::Payload(value) => value.to_json()?,
                };
                let triggers = if *triggers == ["send"] {
                    vec![SENT.to_owned()]
                } else {
                    self.rules.triggers(node).to_vec()
                };
                let data = json!({
                    "id": token(Kind::Task, task), "name": node, "input": input, "triggers": triggers,
                });
                ("task", *step, data)
            }
            engine::Event::TaskEnded {
                task,
                node,
                writes,
                error,
                asks,
                step,
            } => {
                let mut data = json!({
                    "id": token(Kind::Task, task), "name": node, "result": result(writes)?,
                });
                if let Some(error) = error {
                    data["error"] = bare_name(error).into();
                }
                if !asks.is_empty() {
                    data["interrupts"] = json!(questions(asks));
                }
                ("task_result", *step, data)
            }
            _ => ("", 0, Value::Null),
        })
    }

    /// A checkpoint as its event shows it: without open questions beside those of the tasks.
    fn checkpoint(&self, read: &engine::Snapshot, ns: &str) -> Shown<Value> {
        let ordered = ordered(self.rules, &read.tasks);
        let mut tasks =
            ordered.iter().map(|state| task(self.rules, state, ns)).collect::<Shown<Vec<_>>>()?;
        for task in &mut tasks {
            if task.error.is_some() {
                task.interrupts.clear();
                task.result = None;
            }
            task.result = task.result.take().filter(|result| *result != json!({}));
        }
        let snapshot = Snapshot {
            values: self.rules.seen(read.values.json()?),
            next: ordered.iter().map(|task| task.node.to_string()).collect(),
            tasks,
            ..bare(read, ns)
        };
        Ok(json!(snapshot))
    }

    /// One event for each task that asks; none asks at a breakpoint.
    fn paused(&mut self, ns: &str, asks: &[Ask]) {
        if asks.is_empty() {
            self.show(Mode::Updates, ns, json!({ INTERRUPT: [] }));
        }
        for asks in asks.chunk_by(|a, b| from_one_task(ns, a, b)) {
            let questions = json!(questions(asks));
            let mut values = self.values.get(ns).cloned().unwrap_or_else(|| json!({}));
            values[INTERRUPT] = questions.clone();
            self.show(Mode::Values, ns, values);
            self.show(Mode::Updates, ns, json!({ INTERRUPT: questions }));
        }
    }
}

/// Whether two questions came up through the same task of the graph in this namespace.
fn from_one_task(ns: &str, a: &Ask, b: &Ask) -> bool {
    let task = |ask: &Ask| {
        let inner = ask.namespace.strip_prefix(ns)?.trim_start_matches('|');
        let first = inner.split('|').next()?;
        (!first.is_empty()).then(|| first.to_owned())
    };
    task(a).is_some() && task(a) == task(b)
}
