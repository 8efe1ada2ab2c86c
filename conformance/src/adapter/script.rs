//! Performs the actions of a script, one after the other, on the threads of one graph.

use std::collections::HashMap;

use futures::StreamExt as _;
use serde_json::{Map, Value};
use superstep::channels::Json;
use superstep::checkpoint::{Cache as _, CheckpointId, MemoryCheckpointer};
use superstep::{
    Answer, Ask, AskId, Modes, Nested, Outcome as Ended, RunBuilder, RunError, StateUpdate,
    TaskState, Thread, Update,
};

use super::build::Built;
use super::events::{Events, Found};
use super::fault::{failure, unknown_interrupt};
use super::rules::{ARGUMENT, Rules};
use super::show::{Place, question, snapshot};
use super::world::World;
use super::{BoxError, Lacking};
use crate::expr::{Env, Val};
use crate::ops::{self, Command};
use crate::result::{Answered, Done, Dump, Failure, HistoryRead, Outcome, StateRead, Written};
use crate::spec::{
    self, Action, Breakpoints, Durability, Invoke, Mode, ReadHistory, ReadState, Ref, Saver,
};

const START: &str = "__start__";
const END: &str = "__end__";
/// The node that a copy of a checkpoint counts as written by.
const COPY: &str = "__copy__";

/// A graph, its threads, and what the script has seen of them so far.
pub(super) struct Session {
    built: Built,
    saver: Option<MemoryCheckpointer>,
    world: World,
    /// Questions in the order in which they surfaced.
    asked: Vec<(Value, AskId)>,
    /// Checkpoints by the names they were saved under, with their namespaces.
    saved: HashMap<String, (String, CheckpointId)>,
}

/// What an action ends with short of a result: a recorded failure, or an error of ours.
enum Stop {
    Failed(Failure),
    Broken(BoxError),
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Self {
        failure(error).map_or_else(Stop::Broken, Stop::Failed)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

macro_rules! broken {
    ($($error:ty),*) => { $(
        impl From<$error> for Stop {
            fn from(error: $error) -> Self {
                Stop::Broken(error.into())
            }
        }
    )* };
}
broken!(
    Lacking,
    crate::expr::EvalError,
    superstep::channels::CodecError,
    super::fault::Fault
);

/// The recorded form of an action's end.
fn answered<T>(result: Result<T, Stop>) -> Result<Answered<T>, BoxError> {
    match result {
        Ok(gave) => Ok(Answered::Gave(gave)),
        Err(Stop::Failed(error)) => Ok(Answered::Failed { error }),
        Err(Stop::Broken(error)) => Err(error),
    }
}

impl Session {
    pub(super) fn new(saver: Saver, built: Built, world: World) -> Self {
        Session {
            built,
            saver: match saver {
                Saver::Memory => Some(MemoryCheckpointer::default()),
                Saver::None => None,
            },
            world,
            asked: Vec::new(),
            saved: HashMap::new(),
        }
    }

    pub(super) async fn perform(
        mut self,
        script: &[Action],
        results: &mut Vec<Outcome>,
    ) -> Result<(), BoxError> {
        for action in script {
            let done = self.action(action).await?;
            if let Some(lacking) = self.world.lacking() {
                return Err(lacking.into());
            }
            results.push(Outcome::Done(Box::new(done)));
        }
        Ok(())
    }

    async fn action(&mut self, action: &Action) -> Result<Done, BoxError> {
        Ok(match action {
            Action::Invoke(invoke) => self.invoke(invoke).await?,
            Action::State(read) => Done::State(answered(self.state(read).await)?),
            Action::History(read) => Done::History(answered(self.history(read).await)?),
            Action::Update(update) => Done::Update(answered(self.update(update).await)?),
            Action::Bulk(bulk) => Done::Bulk(answered(self.bulk(bulk).await)?),
            // Its form is that of another layout; no comparison looks at it.
            Action::Raw(_) => Done::Raw(Answered::Gave(Dump {
                checkpoints: Vec::new(),
            })),
            Action::ClearCache(_) => {
                self.world.cache.clear().await?;
                Done::ClearCache {}
            }
        })
    }

    async fn invoke(&mut self, invoke: &Invoke) -> Result<Done, BoxError> {
        let mut events = invoke.stream.as_ref().map(|_| Vec::new());
        let mut output = None;
        let mut interrupts = None;
        let error = match self.run(invoke, &mut events).await {
            Ok((values, asks)) if events.is_none() => {
                output = Some(self.output(values));
                let asks: Vec<_> = asks.iter().map(question).collect();
                interrupts = Some(asks).filter(|asks| !asks.is_empty());
                None
            }
            Ok(_) => None,
            Err(Stop::Failed(failure)) => Some(failure),
            Err(Stop::Broken(error)) => return Err(error),
        };
        Ok(Done::Invoke {
            output,
            interrupts,
            events,
            error,
            ran: self.world.take_ran(),
        })
    }

    /// Runs, and gives the last values and the open questions.
    async fn run(
        &mut self,
        invoke: &Invoke,
        events: &mut Option<Vec<crate::result::Event>>,
    ) -> Result<(Value, Vec<Ask>), Stop> {
        let thread = self.thread(&invoke.thread, invoke.at.as_ref()).await?;
        let found = match (invoke.durability, &self.saver) {
            (Durability::Exit, Some(_)) => Some(Found {
                newest: newest(&self.thread(&invoke.thread, None).await?).await?,
                parent: parent(&thread).await?,
            }),
            _ => None,
        };
        let run = self.options(self.enter(&thread, invoke).await?, invoke);
        let asked = invoke.stream.as_deref().unwrap_or_default();
        // Values are the output, and checkpoints tell how tasks are ordered.
        let always = Modes::VALUES | Modes::CHECKPOINTS;
        let modes = asked
            .iter()
            .fold(always, |modes, mode| modes | of_mode(*mode));
        let mut stream = match invoke.subgraphs {
            true => run.stream_nested(modes),
            false => run.stream(modes),
        };
        let mut seen = Events::new(
            &self.built.rules,
            &invoke.thread,
            asked,
            invoke.at.is_some(),
            found,
        );
        while let Some(part) = stream.next().await {
            seen.add(part)?;
        }
        let surfaced = seen.surfaced();
        self.asked
            .extend(surfaced.iter().map(|ask| (ask.payload.0.clone(), ask.id)));
        let (values, shown) = seen.finish()?;
        if let Some(events) = events {
            *events = shown;
        }
        let outcome = stream.outcome().await?;
        if let Ended::Drained(_) = outcome {
            return Err(Failure::GraphDrained {}.into());
        }
        let asks = outcome.asks().to_vec();
        Ok((values, asks))
    }

    fn output(&self, values: Value) -> Value {
        let Value::Object(mut members) = values else {
            return values;
        };
        if let Some(output) = &self.built.output {
            members.retain(|key, _| output.contains(key));
        }
        members.into()
    }

    fn options(&self, run: RunBuilder<Json>, invoke: &Invoke) -> RunBuilder<Json> {
        // The engine refuses breakpoints at nodes that are not there; the reference lets them pass.
        let known = |names: &Vec<String>| {
            let there = |name: &&String| self.built.graph.nodes().any(|node| node == name.as_str());
            let names = names.iter().filter(there).cloned();
            names.collect::<Vec<_>>().into()
        };
        let stop = |chosen: &Option<Breakpoints>, declared: &Vec<String>| match chosen {
            Some(Breakpoints::All) => superstep::Breakpoints::All,
            Some(Breakpoints::Nodes(nodes)) => known(nodes),
            None => known(declared),
        };
        let durability = match invoke.durability {
            Durability::Sync => superstep::Durability::Sync,
            Durability::Async => superstep::Durability::Async,
            Durability::Exit => superstep::Durability::Exit,
        };
        run.limit(invoke.recursion_limit)
            .durability(durability)
            .stop_before(stop(&invoke.interrupt_before, &self.built.before))
            .stop_after(stop(&invoke.interrupt_after, &self.built.after))
    }

    /// The run that an action asks for.
    async fn enter(
        &self,
        thread: &Thread<Json>,
        invoke: &Invoke,
    ) -> Result<RunBuilder<Json>, Stop> {
        if let Some(command) = &invoke.command {
            return self.command(thread, command, invoke).await;
        }
        let input = invoke.input.as_ref().map(|input| input.eval(&self.env()));
        match input.transpose()? {
            None | Some(Val::Json(Value::Null)) if self.saver.is_none() => {
                Err(Failure::EmptyInput {}.into())
            }
            None | Some(Val::Json(Value::Null)) => Ok(thread.proceed()),
            Some(Val::Json(argument)) if self.built.rules.entry => {
                let argument = superstep::channels::Value::new(Json(argument));
                Ok(thread.start(Update::new().put_value(ARGUMENT, argument)))
            }
            Some(input) => Ok(thread.start(self.built.rules.input(ops::writes(input)?))),
        }
    }

    async fn command(
        &self,
        thread: &Thread<Json>,
        command: &spec::Command,
        invoke: &Invoke,
    ) -> Result<RunBuilder<Json>, Stop> {
        if command.parent {
            return Err(Failure::InvalidUpdate {}.into());
        }
        let edit = Command::eval(command.update.as_ref(), command.goto.as_ref(), &self.env())?;
        let answers = match self.saver {
            Some(_) => self.answers(thread, command, invoke).await?,
            None => Vec::new(),
        };
        if edit == Command::default() {
            return Ok(thread.resume(answers));
        }
        let edit = self.built.rules.command(Update::new(), edit)?;
        Ok(thread.command(edit, answers))
    }

    /// The answers of a command. Those that nobody waits for are dropped, unless it is strict.
    async fn answers(
        &self,
        thread: &Thread<Json>,
        command: &spec::Command,
        invoke: &Invoke,
    ) -> Result<Vec<Answer>, Stop> {
        let (strict, addressed) = (invoke.strict, invoke.at.is_some());
        let open = open(thread, addressed).await?;
        let by_id = match (&command.resume, &command.resume_map) {
            (None, None) => return Ok(Vec::new()),
            (_, Some(map)) => self.by_payload(map)?,
            (Some(resume), None) => match resume.json(&self.env())? {
                Value::Null => return Ok(Vec::new()),
                Value::Object(map) if let Some(by_id) = ids(&map) => by_id,
                _ if open.is_empty() => return Ok(Vec::new()),
                _ if strict && open.len() > 1 => {
                    return Err(unknown_interrupt("ambiguous").into());
                }
                value => return Ok(vec![Answer::only(value)]),
            },
        };
        if strict && by_id.is_empty() {
            return Err(unknown_interrupt("empty_map").into());
        }
        let wanted = by_id
            .into_iter()
            .filter(|(id, _)| strict || open.contains(id));
        Ok(wanted.map(|(id, value)| Answer::to(id, value)).collect())
    }

    fn by_payload(&self, map: &[spec::Answer]) -> Result<Vec<(AskId, Value)>, Stop> {
        let mut answers = Vec::new();
        for spec::Answer { payload, value } in map {
            let latest = self.asked.iter().rev().find(|(known, _)| known == payload);
            let (_, id) = latest.ok_or_else(|| {
                Stop::Broken(format!("no question {payload} has surfaced").into())
            })?;
            answers.push((*id, value.json(&self.env())?));
        }
        Ok(answers)
    }

    async fn state(&mut self, read: &ReadState) -> Result<StateRead, Stop> {
        self.stored()?;
        let namespace = self.namespace(&read.thread, read.ns.as_deref(), read.ns_raw.as_deref());
        let view = self
            .view(&read.thread, namespace.await?, read.at.as_ref())
            .await?;
        let state = view.state(read.subgraphs).await?;
        match &read.pick {
            None => self.save(read.save.as_deref(), &view.namespace, state.checkpoint),
            Some(path) => {
                let (namespace, picked) = pick(&state, path);
                self.save(read.save.as_deref(), &namespace, picked);
            }
        }
        let snapshot = snapshot(self.place(&read.thread, &view.namespace), &state)?;
        Ok(StateRead { snapshot })
    }

    async fn history(&mut self, read: &ReadHistory) -> Result<HistoryRead, Stop> {
        self.stored()?;
        let namespace = self.namespace(&read.thread, read.ns.as_deref(), read.ns_raw.as_deref());
        let view = self
            .view(&read.thread, namespace.await?, read.before.as_ref())
            .await?;
        let states = view.history().await?;
        let pick = usize::try_from(read.pick.unwrap_or(0)).unwrap_or(0);
        let picked = states.get(pick).and_then(|state| state.checkpoint);
        self.save(read.save.as_deref(), &view.namespace, picked);
        let place = self.place(&read.thread, &view.namespace);
        let shown = states.iter().map(|state| snapshot(place, state));
        let mut snapshots = shown.collect::<Result<Vec<_>, _>>()?;
        if let Some(filter) = &read.filter {
            snapshots.retain(|snapshot| matches(snapshot, filter));
        }
        snapshots.truncate(read.limit.unwrap_or(usize::MAX));
        Ok(HistoryRead { snapshots })
    }

    async fn update(&mut self, update: &spec::UpdateState) -> Result<Written, Stop> {
        self.stored()?;
        let ns = self.namespace(
            &update.thread,
            update.ns.as_deref(),
            update.ns_raw.as_deref(),
        );
        let view = self
            .view(&update.thread, ns.await?, update.at.as_ref())
            .await?;
        let id = match (update.as_node.as_deref(), &view.graph) {
            (Some(END), View::Root(thread)) if update.values.is_none() => {
                thread.finish_waiting().await?
            }
            (Some(COPY), View::Root(thread)) => thread.copy_checkpoint().await?,
            (author, graph) => {
                let rules = self.built.rules.at(&view.namespace);
                let update = self.state_update(rules, update.values.as_ref(), author)?;
                match graph {
                    View::Root(thread) => thread.update(update).await?,
                    View::Nested(nested) => nested.update(update).await?,
                }
            }
        };
        Ok(self.written(&update.thread, &view.namespace, update.save.as_deref(), id))
    }

    async fn bulk(&mut self, bulk: &spec::Bulk) -> Result<Written, Stop> {
        self.stored()?;
        let thread = self.thread(&bulk.thread, None).await?;
        let one = |update: &spec::BulkUpdate| {
            self.state_update(
                &self.built.rules,
                update.values.as_ref(),
                update.as_node.as_deref(),
            )
        };
        let lists = bulk.supersteps.iter();
        let lists = lists
            .map(|list| list.iter().map(one).collect())
            .collect::<Result<Vec<Vec<StateUpdate>>, Stop>>()?;
        let id = thread.update_all(lists).await?;
        Ok(self.written(&bulk.thread, "", bulk.save.as_deref(), id))
    }

    fn written(
        &mut self,
        thread: &str,
        namespace: &str,
        save: Option<&str>,
        id: CheckpointId,
    ) -> Written {
        self.save(save, namespace, Some(id));
        let checkpoint = self.place(thread, namespace).checkpoint(namespace, id);
        Written { checkpoint }
    }

    fn state_update(
        &self,
        rules: &Rules,
        values: Option<&crate::expr::Expr>,
        author: Option<&str>,
    ) -> Result<StateUpdate, Stop> {
        let values = values.map(|values| values.eval(&self.env())).transpose()?;
        let writes = ops::writes(values.unwrap_or(Val::Json(Value::Null)))?;
        Ok(match author {
            None => StateUpdate::new(rules.update(writes)),
            Some(START) => StateUpdate::new(rules.input(writes)).as_start(),
            Some(node) => {
                let node = superstep::Node::<Json>::named(node.to_owned());
                StateUpdate::new(rules.update(writes)).as_node(node)
            }
        })
    }

    fn place<'a>(&'a self, thread: &'a str, namespace: &'a str) -> Place<'a> {
        Place {
            rules: self.built.rules.at(namespace),
            thread,
            namespace,
        }
    }

    fn stored(&self) -> Result<(), Stop> {
        match self.saver {
            Some(_) => Ok(()),
            None => Err(Failure::NoCheckpointer {}.into()),
        }
    }

    fn save(&mut self, name: Option<&str>, namespace: &str, id: Option<CheckpointId>) {
        if let (Some(name), Some(id)) = (name, id) {
            self.saved
                .insert(name.to_owned(), (namespace.to_owned(), id));
        }
    }

    fn head(&self, name: &str) -> Thread<Json> {
        match &self.saver {
            Some(saver) => self.built.graph.thread(saver, name),
            None => self.built.graph.detached(),
        }
    }

    /// The thread to be run: as of a checkpoint of its own, or of a graph inside it.
    async fn thread(&self, name: &str, at: Option<&Ref>) -> Result<Thread<Json>, Stop> {
        let thread = self.head(name);
        Ok(match at {
            None => thread,
            Some(Ref::Saved(saved)) => match self.saved.get(saved) {
                Some((namespace, id)) if namespace.is_empty() => thread.at(*id),
                Some((namespace, id)) => thread.at_nested(namespace.as_str(), *id),
                None => return Err(no_checkpoint(at)),
            },
            Some(Ref::K(place)) => {
                let id = place_in(&thread.history(usize::MAX).await?, *place);
                thread.at(id.ok_or_else(|| no_checkpoint(at))?)
            }
        })
    }

    /// The namespace that an action is about.
    async fn namespace(
        &self,
        thread: &str,
        path: Option<&[String]>,
        raw: Option<&str>,
    ) -> Result<String, Stop> {
        let Some(path) = path else {
            return Ok(raw.unwrap_or_default().to_owned());
        };
        let state = self.head(thread).state_nested().await?;
        Ok(pick(&state, path).0)
    }

    /// A graph to be read, as of a checkpoint of its own.
    async fn view(
        &self,
        thread: &str,
        namespace: String,
        at: Option<&Ref>,
    ) -> Result<Viewed, Stop> {
        let saved = match at {
            Some(Ref::Saved(name)) => {
                let saved = self.saved.get(name).cloned();
                Some(saved.ok_or_else(|| no_checkpoint(at))?)
            }
            _ => None,
        };
        let namespace = saved
            .as_ref()
            .map_or(namespace, |(namespace, _)| namespace.clone());
        let head = self.head(thread);
        let graph = match namespace.is_empty() {
            true => View::Root(head),
            false => View::Nested(head.nested(namespace.as_str())?),
        };
        let head = Viewed { graph, namespace };
        let id = match (at, saved) {
            (None, _) => return Ok(head),
            (Some(Ref::K(place)), _) => place_in(&head.history().await?, *place),
            (Some(Ref::Saved(_)), saved) => saved.map(|(_, id)| id),
        };
        Ok(head.at(id.ok_or_else(|| no_checkpoint(at))?))
    }

    fn env(&self) -> Env {
        Env::new(Value::Object(Map::new()), self.world.counters.clone())
    }
}

/// A graph that is read.
struct Viewed {
    graph: View,
    namespace: String,
}

enum View {
    Root(Thread<Json>),
    Nested(Nested),
}

impl Viewed {
    fn at(self, id: CheckpointId) -> Self {
        let graph = match self.graph {
            View::Root(thread) => View::Root(thread.at(id)),
            View::Nested(nested) => View::Nested(nested.at(id)),
        };
        Viewed { graph, ..self }
    }

    async fn state(&self, nested: bool) -> Result<superstep::Snapshot, RunError> {
        match (&self.graph, nested) {
            (View::Root(thread), false) => thread.state().await,
            (View::Root(thread), true) => thread.state_nested().await,
            (View::Nested(graph), false) => graph.state().await,
            (View::Nested(graph), true) => graph.state_nested().await,
        }
    }

    async fn history(&self) -> Result<Vec<superstep::Snapshot>, RunError> {
        match &self.graph {
            View::Root(thread) => thread.history(usize::MAX).await,
            View::Nested(nested) => nested.history(usize::MAX).await,
        }
    }
}

fn no_checkpoint(at: Option<&Ref>) -> Stop {
    Stop::Broken(format!("there is no checkpoint {at:?}").into())
}

/// The namespace and the checkpoint of the graph in the waiting task of this node, of its node, and so on.
fn pick(state: &superstep::Snapshot, path: &[String]) -> (String, Option<CheckpointId>) {
    let mut picked = (String::new(), state.checkpoint);
    let mut inside = Some(state);
    for name in path {
        let tasks = inside.into_iter().flat_map(|state| &state.tasks);
        let mut waiting = tasks.filter(|task| task.node == name.as_str() && !task.finished);
        let Some(task) = waiting.next() else {
            return (String::new(), None);
        };
        inside = task.nested.as_deref();
        let namespace = task.namespace.clone().unwrap_or_default();
        picked = (namespace, inside.and_then(|state| state.checkpoint));
    }
    picked
}

/// The newest checkpoint of a thread.
async fn newest(thread: &Thread<Json>) -> Result<Option<CheckpointId>, Stop> {
    let newest = thread.history(usize::MAX).await?;
    Ok(newest.first().and_then(|newest| newest.checkpoint))
}

/// The parent of the checkpoint that a thread stands on.
async fn parent(thread: &Thread<Json>) -> Result<Option<CheckpointId>, Stop> {
    Ok(thread.state().await.ok().and_then(|state| state.parent))
}

/// The questions that can be answered on a thread: those that are open, and of an addressed checkpoint
/// those of its own graph that were answered since.
async fn open(thread: &Thread<Json>, addressed: bool) -> Result<Vec<AskId>, Stop> {
    let state = thread.state().await?;
    let again = |ask: &&Ask| addressed && ask.namespace.is_empty();
    let can_be = |task: &TaskState| {
        let asks = task.asks.iter().filter(|ask| !task.finished || again(ask));
        asks.map(|ask| ask.id).collect::<Vec<_>>()
    };
    Ok(state.tasks.iter().flat_map(can_be).collect())
}

/// An object whose keys all look like ids of questions counts as answers by id, even an empty one.
fn ids(map: &Map<String, Value>) -> Option<Vec<(AskId, Value)>> {
    let entry = |(key, value): (&String, &Value)| Some((key.parse().ok()?, value.clone()));
    map.iter().map(entry).collect()
}

fn place_in(history: &[superstep::Snapshot], place: i64) -> Option<CheckpointId> {
    let from_end = if place < 0 { history.len() as i64 } else { 0 };
    let at = usize::try_from(place + from_end).ok()?;
    history.get(at)?.checkpoint
}

fn matches(snapshot: &crate::result::Snapshot, filter: &Map<String, Value>) -> bool {
    filter.iter().all(|(key, wanted)| match key.as_str() {
        "source" => snapshot.source.as_deref() == wanted.as_str(),
        "step" => snapshot.step == wanted.as_i64(),
        _ => false,
    })
}

fn of_mode(mode: Mode) -> Modes {
    match mode {
        Mode::Values => Modes::VALUES,
        Mode::Updates => Modes::UPDATES,
        Mode::Tasks => Modes::TASKS,
        Mode::Checkpoints => Modes::CHECKPOINTS,
        Mode::Custom => Modes::CUSTOM,
        Mode::Debug => Modes::TASKS | Modes::CHECKPOINTS,
    }
}
