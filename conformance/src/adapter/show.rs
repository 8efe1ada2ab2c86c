//! The engine's snapshots and events in the form of results.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use superstep::channels::{CodecError, Json, Name, Value as Erased, Write};
use superstep::checkpoint::{CheckpointId, Source, TaskId};
use superstep::{self as engine, Ask, Part, TaskInput};

use super::fault::bare_name;
use super::rules::Rules;
use crate::ids::{Kind, token};
use crate::result::{Address, Event, Interrupt, Nested, Parent, Snapshot, TaskState};
use crate::spec::Mode;

type Shown<T> = Result<T, CodecError>;

/// What the reference calls the trigger of a task that was sent.
const SENT: &str = "__pregel_push";
/// And the engine.
const SEND: &str = "send";
const INTERRUPT: &str = "__interrupt__";

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
    fn checkpoint(self, namespace: &str, id: CheckpointId) -> String {
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
pub(super) fn snapshot(place: Place<'_>, read: &engine::Snapshot, view: View) -> Shown<Snapshot> {
    let rules = place.rules;
    let ordered = ordered(rules, &read.tasks, Order::Definition);
    let due = ordered
        .iter()
        .filter(|task| view == View::Record || !task.finished);
    let next = due.map(|task| task.node.to_string()).collect();
    let tasks: Vec<TaskState> = ordered
        .iter()
        .map(|state| task(place, state))
        .collect::<Shown<_>>()?;
    Ok(Snapshot {
        values: rules.seen(read.values.json()?),
        next,
        interrupts: tasks
            .iter()
            .flat_map(|task| task.interrupts.clone())
            .collect(),
        tasks,
        ..bare(place, read)
    })
}

/// A snapshot's fixed part.
fn bare(place: Place<'_>, read: &engine::Snapshot) -> Snapshot {
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
enum Order {
    /// As a state that is read lists them.
    Definition,
    /// As a run lists them, which knows what changed.
    Name,
}

impl Order {
    /// A run that goes on from an edited state or a fork does not know what changed there.
    fn of_run(source: Option<Source>, forks: bool) -> Self {
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

fn ordered<'a>(
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

fn task(place: Place<'_>, state: &engine::TaskState) -> Shown<TaskState> {
    let id = token(Kind::Task, state.id);
    let separator = if place.namespace.is_empty() { "" } else { "|" };
    let address = |_| Address {
        ns: format!(
            "{}{separator}{}:{id}",
            namespace(place.namespace),
            state.node
        ),
    };
    let nested = place.rules.inside(&state.node).map(address);
    let writes = state.writes.as_ref();
    Ok(TaskState {
        name: state.node.to_string(),
        error: state.error.as_deref().map(bare_name),
        interrupts: questions(&state.asks),
        result: writes
            .map(|writes| result(place.rules, writes))
            .transpose()?,
        state: nested.map(Nested::Address),
        id,
    })
}

/// What a task wrote, as an object; several writes to one key are marked.
fn result(rules: &Rules, writes: &[(Name, Write)]) -> Shown<Value> {
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
fn update(rules: &Rules, writes: &[(Name, Write)]) -> Shown<Value> {
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

/// Turns the parts of a stream into the events of some modes.
pub(super) struct Events<'a> {
    rules: &'a Rules,
    thread: &'a str,
    modes: &'a [Mode],
    /// Whether the run starts by forking.
    forks: bool,
    /// The latest values of each graph.
    values: HashMap<String, Value>,
    /// The checkpoint that each graph stands on.
    stands: HashMap<String, Box<engine::Snapshot>>,
    /// Tasks that begin and results that are handed back; told together.
    begun: Vec<Part>,
    shown: Vec<Event>,
}

impl<'a> Events<'a> {
    pub(super) fn new(rules: &'a Rules, thread: &'a str, modes: &'a [Mode], forks: bool) -> Self {
        Events {
            rules,
            thread,
            modes,
            forks,
            values: HashMap::new(),
            stands: HashMap::new(),
            begun: Vec::new(),
            shown: Vec::new(),
        }
    }

    /// The latest values of the outermost graph, an empty object before the first; and the events.
    pub(super) fn finish(mut self) -> Shown<(Value, Vec<Event>)> {
        self.tell_begun()?;
        let output = self.values.remove("").unwrap_or_else(|| json!({}));
        Ok((output, self.shown))
    }

    /// Takes the next part.
    pub(super) fn add(&mut self, part: Part) -> Shown<()> {
        if let engine::Event::TaskStarted { .. } | engine::Event::Update { cached: true, .. } =
            part.event
        {
            self.begun.push(part);
            return Ok(());
        }
        self.tell_begun()?;
        self.tell(&part)
    }

    /// Tells of tasks that begin in the order of the reference, which counts those among them whose results
    /// are only handed back.
    fn tell_begun(&mut self) -> Shown<()> {
        let begun = std::mem::take(&mut self.begun);
        let Some(first) = begun.first() else {
            return Ok(());
        };
        let ns = Arc::clone(&first.namespace);
        let rules = self.rules.at(&ns);
        let (mut starts, known): (Vec<Part>, Vec<Part>) = begun
            .into_iter()
            .partition(|part| started(&part.event).is_some());
        if let Some(on) = self.stands.get(&*ns) {
            let finished = on.tasks.iter().filter(|task| task.finished);
            for task in finished {
                starts.push(handed_back(&ns, rules, on, task)?);
            }
            let order = Order::of_run(on.source, self.forks);
            let ids: Vec<_> = ordered(rules, &on.tasks, order)
                .iter()
                .map(|task| task.id)
                .collect();
            starts.sort_by_key(|part| ids.iter().position(|id| Some(*id) == started(&part.event)));
        }
        starts
            .iter()
            .chain(&known)
            .try_for_each(|part| self.tell(part))
    }

    fn tell(&mut self, part: &Part) -> Shown<()> {
        let ns = &*part.namespace;
        let rules = self.rules.at(ns);
        match &part.event {
            engine::Event::Values(fields) => {
                let values = rules.seen(fields.json()?);
                self.values.insert(ns.to_owned(), values.clone());
                self.show(Mode::Values, ns, values);
            }
            engine::Event::Update {
                node,
                writes,
                cached,
            } => {
                let mut data = json!({ &**node: update(rules, writes)? });
                if *cached {
                    data["__metadata__"] = json!({ "cached": true });
                }
                self.show(Mode::Updates, ns, data);
            }
            engine::Event::Custom { node, value } => {
                self.show(Mode::Custom, ns, json!({ "node": node, "value": value }));
            }
            engine::Event::TaskStarted { .. } | engine::Event::TaskEnded { .. } => {
                let (kind, step, data) = task_event(rules, &part.event)?;
                self.show(Mode::Tasks, ns, data.clone());
                self.debug(ns, kind, step, data);
            }
            engine::Event::Checkpoint(read) => {
                let data = self.checkpoint(rules, read, ns)?;
                self.stands.insert(ns.to_owned(), read.clone());
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

    /// A checkpoint as its event shows it: without open questions beside those of the tasks.
    fn checkpoint(&self, rules: &Rules, read: &engine::Snapshot, namespace: &str) -> Shown<Value> {
        let order = Order::of_run(read.source, self.forks);
        let place = Place {
            rules,
            thread: self.thread,
            namespace,
        };
        let ordered = ordered(rules, &read.tasks, order);
        let mut tasks = ordered
            .iter()
            .map(|state| task(place, state))
            .collect::<Shown<Vec<_>>>()?;
        for task in &mut tasks {
            if task.error.is_some() {
                task.interrupts.clear();
                task.result = None;
            }
            if let (Some(Value::Object(members)), false) = (&mut task.result, namespace.is_empty())
            {
                members.retain(|key, _| rules.gives(key));
            }
            task.result = task.result.take().filter(|result| *result != json!({}));
        }
        let snapshot = Snapshot {
            values: rules.seen(read.values.json()?),
            next: ordered.iter().map(|task| task.node.to_string()).collect(),
            tasks,
            ..bare(place, read)
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

/// The start or the end of a task: what debug calls it, its superstep, and what it says.
fn task_event(rules: &Rules, event: &engine::Event) -> Shown<(&'static str, i64, Value)> {
    Ok(match event {
        engine::Event::TaskStarted {
            task,
            node,
            input,
            triggers,
            step,
        } => {
            let input = match input {
                TaskInput::State(fields) => rules.seen(fields.json()?),
                TaskInput::Payload(value) => value.to_json()?,
            };
            let triggers = if is_sent(triggers) {
                vec![SENT.to_owned()]
            } else {
                rules.triggers(node).to_vec()
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
                "id": token(Kind::Task, task), "name": node, "result": result(rules, writes)?,
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

fn is_sent(triggers: &[String]) -> bool {
    triggers == [SEND]
}

/// The task that begins.
fn started(event: &engine::Event) -> Option<TaskId> {
    match event {
        engine::Event::TaskStarted { task, .. } => Some(*task),
        _ => None,
    }
}

/// What the reference tells of the start of a task that finished in an earlier run.
fn handed_back(
    ns: &Arc<str>,
    rules: &Rules,
    on: &engine::Snapshot,
    task: &engine::TaskState,
) -> Shown<Part> {
    let (input, triggers) = match &task.send {
        Some((_, payload)) => (payload.clone(), vec![SEND.to_owned()]),
        None => {
            let mut input = rules.seen(on.values.json()?);
            if let Some(members) = input.as_object_mut() {
                members.retain(|key, _| rules.reads(&task.node).contains(key));
            }
            (Erased::new(Json(input)), Vec::new())
        }
    };
    let event = engine::Event::TaskStarted {
        task: task.id,
        node: task.node.clone(),
        input: TaskInput::Payload(input),
        triggers,
        step: on.step + 1,
    };
    Ok(Part {
        namespace: Arc::clone(ns),
        event,
    })
}
