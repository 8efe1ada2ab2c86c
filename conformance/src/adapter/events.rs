//! The engine's events in the form of results, in the order in which the reference tells them.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use superstep::channels::{Json, Value as Erased};
use superstep::checkpoint::{CheckpointId, TaskId};
use superstep::{self as engine, Ask, Part, TaskInput};

use super::fault::bare_name;
use super::rules::{ARGUMENT, Rules};
use super::show::{Order, Place, Shown, bare, namespace, ordered, questions, result, task, update};
use crate::ids::{Kind, token};
use crate::result::{Event, Snapshot};
use crate::spec::Mode;

/// What the reference calls the trigger of a task that was sent.
const SENT: &str = "__pregel_push";
/// And the engine.
const SEND: &str = "send";
const INTERRUPT: &str = "__interrupt__";

/// Turns the parts of a stream into the events of some modes.
pub(super) struct Events<'a> {
    rules: &'a Rules,
    thread: &'a str,
    modes: &'a [Mode],
    /// Whether the run starts by forking.
    forks: bool,
    /// Whether its supersteps are stored as one checkpoint. The engine tells of all of them under the id of that one;
    /// the reference gives each an id of its own.
    at_exit: Option<Found>,
    /// The latest values of each graph.
    values: HashMap<String, Value>,
    /// The checkpoint that was told of first in each namespace, and its parent.
    first: HashMap<String, (Option<CheckpointId>, Option<CheckpointId>)>,
    /// The checkpoints that were told of, by namespace and superstep.
    told: Vec<(String, CheckpointId, i64)>,
    /// Questions that came up to the outermost graph.
    asks: Vec<Ask>,
    /// The checkpoint that each graph stands on.
    stands: HashMap<String, Box<engine::Snapshot>>,
    /// Tasks that begin and results that are handed back; told together.
    begun: Vec<Part>,
    shown: Vec<Event>,
}

/// What a run found that is stored at its end.
pub(super) struct Found {
    /// The newest checkpoint.
    pub(super) newest: Option<CheckpointId>,
    /// The parent of the one that it started from.
    pub(super) parent: Option<CheckpointId>,
}

impl<'a> Events<'a> {
    pub(super) fn new(
        rules: &'a Rules,
        thread: &'a str,
        modes: &'a [Mode],
        forks: bool,
        at_exit: Option<Found>,
    ) -> Self {
        Events {
            rules,
            thread,
            modes,
            forks,
            at_exit,
            values: HashMap::new(),
            first: HashMap::new(),
            told: Vec::new(),
            asks: Vec::new(),
            stands: HashMap::new(),
            begun: Vec::new(),
            shown: Vec::new(),
        }
    }

    /// Questions in the order in which they surface in the reference: those of tasks that were sent come first.
    pub(super) fn surfaced(&self) -> Vec<Ask> {
        let tasks = self.stands.get("").into_iter().flat_map(|on| &on.tasks);
        let sent = tasks.filter(|task| task.send.is_some());
        let sent: Vec<String> = sent.map(|task| task.id.to_string()).collect();
        let is_sent = |ask: &Ask| {
            // Of a question in a nested graph, the outermost task is the first in its namespace.
            let first = ask.namespace.split('|').next().unwrap_or_default();
            let outermost = match first.rsplit_once(':') {
                Some((_, task)) => task.to_owned(),
                None => ask.task.to_string(),
            };
            sent.contains(&outermost)
        };
        let mut asks = self.asks.clone();
        asks.sort_by_key(|ask| !is_sent(ask));
        asks
    }

    /// The latest values of the outermost graph, an empty object before the first; and the events.
    pub(super) fn finish(mut self) -> Shown<(Value, Vec<Event>)> {
        self.tell_begun()?;
        if self.at_exit.is_some() {
            self.name_stored();
        }
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
        if is_fresh_rescue(&part.event) {
            return Ok(());
        }
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
            engine::Event::Returned {
                routine,
                value,
                cached,
                ..
            } => {
                let mut data = json!({ &**routine: value.to_json()? });
                if *cached {
                    data["__metadata__"] = json!({ "cached": true });
                }
                self.show(Mode::Updates, ns, data);
                if !cached {
                    let (kind, step, data) = task_event(rules, &part.event)?;
                    self.show(Mode::Tasks, ns, data.clone());
                    self.debug(ns, kind, step, data);
                }
            }
            engine::Event::TaskStarted { .. }
            | engine::Event::TaskEnded { .. }
            | engine::Event::Called { .. } => {
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
            engine::Event::Paused(asks) => {
                if ns.is_empty() {
                    self.asks.extend(asks.iter().cloned());
                }
                self.paused(ns, asks);
            }
            _ => {}
        }
        Ok(())
    }

    /// The token of a checkpoint of one superstep of a run that is stored at its end.
    fn of_step(&self, namespace: &str, id: CheckpointId, step: i64) -> (String, String) {
        let raw = format!("{}/{namespace}/{id}", self.thread);
        let of_step = token(Kind::Checkpoint, format!("{raw}@{step}"));
        (of_step, token(Kind::Checkpoint, raw))
    }

    /// Gives the checkpoints that are stored their own ids in all events: those that the run found, and of
    /// the supersteps that make one the last.
    fn name_stored(&mut self) {
        let is_stored = |(ns, id, step): &&(String, CheckpointId, i64)| {
            let last = self.stands.get(ns);
            last.is_none_or(|last| last.checkpoint != Some(*id) || last.step == *step)
        };
        let stored = self.told.iter().filter(is_stored);
        let stored: HashMap<String, String> = stored
            .map(|(ns, id, step)| self.of_step(ns, *id, *step))
            .collect();
        for event in &mut self.shown {
            each_text(&mut event.data, &mut |text| {
                if let Some(id) = stored.get(text) {
                    text.clone_from(id);
                }
            });
        }
    }

    /// Names the checkpoint and those around it by their supersteps.
    fn by_step(&mut self, snapshot: &mut Snapshot, read: &engine::Snapshot, namespace: &str) {
        if let Some(id) = read.checkpoint {
            snapshot.id = Some(self.of_step(namespace, id, read.step).0);
            self.told.push((namespace.to_owned(), id, read.step));
        }
        // What these events say in the reference; what is stored has the checkpoint that was found.
        let found = match (&self.at_exit, namespace) {
            (Some(found), "") => Some((found.newest, found.parent)),
            _ => self.first.get(namespace).copied(),
        };
        let of_id = |id| self.of_step(namespace, id, 0).1;
        if let Some((newest, parent)) = found
            && read.checkpoint > newest
        {
            snapshot.parent = parent.map(of_id);
        }
        let first = (read.checkpoint, read.parent);
        self.first.entry(namespace.to_owned()).or_insert(first);
        for (shown, (ns, id)) in snapshot.parents.iter_mut().zip(&read.parents) {
            if let Some(around) = self.stands.get(ns) {
                shown.id = self.of_step(ns, *id, around.step).0;
            }
        }
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
    fn checkpoint(
        &mut self,
        rules: &Rules,
        read: &engine::Snapshot,
        namespace: &str,
    ) -> Shown<Value> {
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
        let mut snapshot = Snapshot {
            values: rules.seen(read.values.json()?),
            next: ordered.iter().map(|task| task.node.to_string()).collect(),
            tasks,
            ..bare(place, read)
        };
        if self.at_exit.is_some() {
            self.by_step(&mut snapshot, read, namespace);
        }
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
                TaskInput::State(fields) if rules.entry => fields
                    .get(ARGUMENT)
                    .map(Erased::to_json)
                    .transpose()?
                    .unwrap_or_default(),
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
        engine::Event::Called {
            task,
            routine,
            argument,
            step,
        } => {
            let data = json!({
                "id": token(Kind::Task, task), "name": routine,
                "input": [[argument.to_json()?], {}], "triggers": [SENT],
            });
            ("task", *step, data)
        }
        engine::Event::Returned {
            task,
            routine,
            value,
            step,
            ..
        } => {
            let data = json!({
                "id": token(Kind::Task, task), "name": routine,
                "result": { "__return__": value.to_json()? },
            });
            ("task_result", *step, data)
        }
        engine::Event::TaskEnded {
            task,
            node,
            writes,
            error,
            asks,
            step,
        } => {
            let given = match (rules.entry, result(rules, writes)?) {
                (true, given) if error.is_none() && asks.is_empty() => json!({ "__end__": given }),
                (true, _) => json!({}),
                (false, given) => given,
            };
            let mut data = json!({
                "id": token(Kind::Task, task), "name": node, "result": given,
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

/// The start of an error handler right after the failure, which the reference does not tell.
fn is_fresh_rescue(event: &engine::Event) -> bool {
    match event {
        engine::Event::TaskStarted { triggers, .. } => triggers == &["failure"],
        _ => false,
    }
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
        id: None,
        namespace: Arc::clone(ns),
        event,
    })
}

fn each_text(value: &mut Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| each_text(member, change)),
        _ => {}
    }
}
