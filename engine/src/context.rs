//! What a node can do besides computing.

use std::any::{Any, type_name};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::{self, ThreadId};

use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use superstep_channels::{Json, Name};
use superstep_checkpoint::{CheckpointId, Checkpointer, Place, TaskId};
use tokio::time::Instant;

use crate::ask::{Answered, Ask, AskId};
use crate::control::{Control, Inside};
use crate::durability::Durability;
use crate::error::{RunError, TaskError};
use crate::event::{Event, Modes};
use crate::executor::Task;
use crate::graph::{Core, Graph};
use crate::journal::Journal;
use crate::nested;
use crate::nesting::Nesting;
use crate::run::{Behind, LeftBehind};
use crate::sink::Sink;
use crate::state::State;
use crate::update::Update;

/// A node's handle to the run it is part of. Cheap to clone; every task has its own.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    task: TaskId,
    node: Name,
    /// The node's position in its graph.
    at: usize,
    place: Place,
    step: i64,
    attempt: u32,
    /// Somebody waits for signs of life.
    watched: bool,
    graph: Arc<Core>,
    scope: Arc<Scope>,
    /// Who called it, if it is a routine.
    caller: Option<Context>,
    scratch: Mutex<Scratch>,
}

/// What a run hands to every task, and a task to the graphs nested in it.
#[derive(Clone)]
pub(crate) struct Scope {
    pub(crate) saver: Option<Arc<dyn Checkpointer>>,
    pub(crate) sink: Sink,
    pub(crate) limit: u32,
    pub(crate) durability: Durability,
    /// Stops the run.
    pub(crate) control: Control,
    /// The nested runs in the run that the task is part of.
    pub(crate) inside: Inside,
    /// What the caller gave for nodes to use.
    pub(crate) context: Option<Arc<dyn Any + Send + Sync>>,
    /// The id of the run.
    pub(crate) run: Option<Arc<str>>,
    /// What the caller noted with the run.
    pub(crate) metadata: Arc<BTreeMap<String, Json>>,
    /// How many supersteps the graph may take after this one.
    pub(crate) remaining: u32,
    /// Results within tasks.
    pub(crate) journal: Journal,
    /// Answers that were given but not used up yet.
    pub(crate) answers: Arc<HashMap<AskId, Answered>>,
    /// The enclosing graphs' namespaces and checkpoints, outermost first.
    pub(crate) parents: Arc<[(String, CheckpointId)]>,
    /// The task of the enclosing graph that the graph runs in, and its superstep.
    pub(crate) task: Option<(TaskId, i64)>,
    /// What the graph around did and did not store yet.
    pub(crate) behind: Behind,
    /// The task runs anew on a checkpoint that was gone back to: so does what is nested in it.
    pub(crate) replays: bool,
    /// Checkpoints that nested graphs are to go back to, by namespace.
    pub(crate) pins: Arc<HashMap<String, CheckpointId>>,
    /// The namespaces of graphs that keep one history and run now. Shared by the whole run.
    pub(crate) busy: Arc<Mutex<HashSet<Arc<str>>>>,
    /// What dropped runs left to be stored. Shared by all runs of a handle.
    pub(crate) left: LeftBehind,
    /// Answers that a node could not read. Shared by the whole run.
    pub(crate) rejected: Arc<Mutex<Vec<AskId>>>,
}

impl Scope {
    fn reject(&self, id: AskId) {
        self.rejected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(id);
    }

    /// The answers that no node could read: they are dropped, their questions stay open.
    pub(crate) fn rejected(&self) -> Vec<AskId> {
        self.rejected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// What happens in one attempt.
#[derive(Default)]
struct Scratch {
    questions: u32,
    calls: u32,
    /// How many steps were taken, and how many routines called.
    steps: u32,
    routines: u32,
    /// The threads on which a step is being polled.
    stepping: Vec<ThreadId>,
    /// Routines that were called and are to be run.
    called: Vec<BoxFuture<'static, ()>>,
    asks: Vec<Ask>,
    failure: Option<TaskError>,
    stopped: Option<Vec<Name>>,
    returned: Option<Box<Update>>,
    waker: Option<Waker>,
    /// When it last gave a sign of life, and when it last said so itself.
    sign: Option<Instant>,
    heartbeat: Option<Instant>,
}

/// Why a node does not go on.
pub(crate) enum Parked {
    Asks(Vec<Ask>),
    Failed(TaskError),
    /// A nested graph stopped at a breakpoint before or after these nodes.
    Stopped(Vec<Name>),
    /// A nested graph ended with this in place of what the node would return.
    Returned(Box<Update>),
}

impl Context {
    /// The context of the only attempt at a task.
    pub(crate) fn new(task: &Task, scope: Arc<Scope>) -> Self {
        Context::of_attempt(task, scope, 1, false)
    }

    /// The context of one of several attempts.
    pub(crate) fn of_attempt(task: &Task, scope: Arc<Scope>, attempt: u32, watched: bool) -> Self {
        Context(Arc::new(Inner {
            task: task.id,
            node: task.node.clone(),
            at: task.at,
            place: task.place.clone(),
            step: task.step,
            attempt,
            watched,
            graph: Arc::clone(&task.graph),
            scope,
            caller: None,
            scratch: Mutex::default(),
        }))
    }

    /// The context of an attempt at a routine that this task called.
    pub(crate) fn of_call(&self, id: TaskId, routine: &Name, attempt: u32, watched: bool) -> Self {
        let Inner {
            place,
            step,
            graph,
            scope,
            ..
        } = &*self.0;
        Context(Arc::new(Inner {
            task: id,
            node: routine.clone(),
            // A routine is no node.
            at: usize::MAX,
            place: place.clone(),
            step: *step,
            attempt,
            watched,
            graph: Arc::clone(graph),
            scope: Arc::clone(scope),
            caller: Some(self.clone()),
            scratch: Mutex::default(),
        }))
    }

    /// The node that runs.
    pub fn node(&self) -> &Name {
        &self.0.node
    }

    /// The task's id, the same on every attempt: use it as the idempotency key of a side effect.
    pub fn task(&self) -> TaskId {
        self.0.task
    }

    /// The thread, as its user named it.
    pub fn thread(&self) -> &str {
        &self.0.place.thread
    }

    /// The namespace of the graph that runs; empty for the outermost.
    pub fn namespace(&self) -> &str {
        &self.0.place.namespace
    }

    /// The number of the superstep.
    pub fn superstep(&self) -> i64 {
        self.0.step
    }

    /// Stops the run after this superstep of the outermost graph. See [`Control::drain`].
    pub fn drain(&self) {
        self.scope().control.drain();
    }

    /// Whether the run was [cancelled](Control::cancel), for code that looks now and then. What awaits is dropped anyway.
    pub fn is_cancelled(&self) -> bool {
        self.scope().control.is_cancelled()
    }

    /// What the caller gave with [`RunBuilder::context`](crate::RunBuilder::context): clients, settings, secrets. Nothing of it is stored.
    pub fn context<T: Any + Send + Sync>(&self) -> Result<Arc<T>, TaskError> {
        let given = self.scope().context.clone();
        let given = given.and_then(|given| given.downcast().ok());
        given.ok_or(TaskError::NoContext {
            wanted: type_name::<T>(),
        })
    }

    /// The id that the caller gave the run.
    pub fn run_id(&self) -> Option<&str> {
        self.scope().run.as_deref()
    }

    /// What the caller noted with the run. It is stored with each of its checkpoints.
    pub fn metadata(&self) -> &BTreeMap<String, Json> {
        &self.scope().metadata
    }

    /// How many supersteps the graph may take after this one before it reaches its limit.
    pub fn remaining_supersteps(&self) -> u32 {
        self.scope().remaining
    }

    /// Whether the limit allows no superstep after this one.
    pub fn is_last_superstep(&self) -> bool {
        self.remaining_supersteps() == 0
    }

    /// Which attempt at the task this is: 1 for the first since the task was started or taken up again.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Says that the node is alive, for its [idle timeout](crate::Policy::idle_timeout).
    pub fn heartbeat(&self) {
        if self.0.watched {
            let now = Instant::now();
            let mut scratch = self.scratch();
            scratch.heartbeat = Some(now);
            scratch.sign = Some(now);
        }
    }

    /// Notes that the node does something that shows outside.
    fn sign_of_life(&self) {
        if self.0.watched {
            self.scratch().sign = Some(Instant::now());
        }
    }

    /// When the attempt last gave a sign of life.
    pub(crate) fn last_sign(&self, heartbeat_only: bool) -> Option<Instant> {
        let scratch = self.scratch();
        match heartbeat_only {
            true => scratch.heartbeat,
            false => scratch.sign,
        }
    }

    /// Sends an event of the node's own to whoever streams `custom`.
    /// A value that has no JSON form shows as its error.
    pub fn emit(&self, event: &(impl Serialize + ?Sized)) {
        self.sign_of_life();
        self.0
            .scope
            .sink
            .emit(Modes::CUSTOM, &self.0.place, || Event::Custom {
                node: self.0.node.clone(),
                value: serde_json::to_value(event)
                    .unwrap_or_else(|error| serde_json::Value::String(error.to_string())),
            });
    }

    /// Asks the outside and waits for the answer.
    ///
    /// The run pauses here: the other tasks of the superstep finish, everything is saved, and the run ends with
    /// [`Outcome::Paused`](crate::Outcome::Paused). When an answer is there, in this process or another, the node
    /// starts again **from the top** and this call returns the answer. So what stands before it runs once more:
    /// let the node do its side effects after it, or in a node of their own.
    ///
    /// The questions of a task are told apart by their order, so ask them in the same order every time.
    /// An answer counts for the question that was answered: if the node asks something else in its place now,
    /// it is asked anew. So put nothing into a question that changes by itself, such as the time.
    /// An answer that is no `A` fails the task; the question stays open.
    pub fn interrupt<A: DeserializeOwned + Send + 'static>(
        &self,
        question: &(impl Serialize + ?Sized),
    ) -> BoxFuture<'static, A> {
        let cx = self.clone();
        if let Err(error) = self.is_no_step_in_a_step("asks") {
            return Box::pin(async move { cx.park(Parked::Failed(error)).await });
        }
        let index = {
            let mut scratch = self.scratch();
            scratch.questions += 1;
            scratch.questions - 1
        };
        let id = AskId::new(self.0.task, index);
        let found = self.answer(id, question);
        Box::pin(async move {
            match found {
                Ok(answer) => answer,
                Err(parked) => cx.park(parked).await,
            }
        })
    }

    fn answer<A: DeserializeOwned>(
        &self,
        id: AskId,
        question: &(impl Serialize + ?Sized),
    ) -> Result<A, Parked> {
        let payload = serde_json::to_value(question)
            .map_err(|error| Parked::Failed(TaskError::Node(error.into())))?;
        match self.0.scope.answers.get(&id) {
            Some(known) if known.question.0 == payload => {
                A::deserialize(&known.answer.0).map_err(|error| {
                    self.0.scope.reject(id);
                    Parked::Failed(TaskError::BadAnswer {
                        ask: id,
                        reason: error.to_string(),
                    })
                })
            }
            known => {
                // What was answered was another question.
                if known.is_some() {
                    self.0.scope.reject(id);
                }
                Err(Parked::Asks(vec![Ask {
                    id,
                    task: self.0.task,
                    node: self.0.node.to_string(),
                    namespace: self.0.place.namespace.to_string(),
                    payload: Json(payload),
                }]))
            }
        }
    }

    /// Runs another graph inside this node and returns what it ends with.
    ///
    /// It keeps its own checkpoints below this task: when the node is run again after a crash or a pause, the inner
    /// run goes on where it was. A question inside it pauses this node too.
    /// The inner runs of a node are told apart by their order.
    pub async fn run<S: State>(
        &self,
        graph: &Graph<S>,
        input: impl Into<Update>,
    ) -> Result<S, RunError> {
        if let Err(error) = self.is_no_step_in_a_step("runs a graph") {
            return self.park(Parked::Failed(error)).await;
        }
        let core = Arc::clone(&graph.core);
        self.sign_of_life();
        let ended = nested::start(self, core, input.into()).await;
        self.sign_of_life();
        match ended? {
            nested::End::Done(run) => Ok(run.state()?),
            nested::End::Parked(why) => self.park(why).await,
        }
    }

    /// Where the next graph inside this task keeps its checkpoints.
    pub(crate) fn next_nested_place(&self, nesting: Nesting) -> Place {
        let call = {
            let mut scratch = self.scratch();
            scratch.calls += 1;
            scratch.calls - 1
        };
        let Inner { place, task, .. } = &*self.0;
        let mut namespace = nested_namespace(&place.namespace, self.key(), *task, nesting);
        if call > 0 {
            namespace.push_str(&format!("|{call}"));
        }
        Place {
            thread: Arc::clone(&place.thread),
            namespace: namespace.into(),
        }
    }

    /// The place of the graph that the node is part of.
    pub(crate) fn place(&self) -> &Place {
        &self.0.place
    }

    /// What the node is called in namespaces.
    fn key(&self) -> &Name {
        let Inner {
            graph,
            node,
            at,
            caller,
            ..
        } = &*self.0;
        match caller {
            // What a routine runs is found under the node that called it.
            Some(caller) => caller.key(),
            None => graph.nodes.get(*at).map_or(node, |known| &known.key),
        }
    }

    /// Does the work of a step, and knows meanwhile that it does.
    pub(crate) async fn in_step<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        poll_fn(|waker| {
            self.scratch().stepping.push(thread::current().id());
            let _within = Within(self);
            work.as_mut().poll(waker)
        })
        .await
    }

    /// An error if this is done within a step of the task.
    pub(crate) fn is_no_step_in_a_step(&self, what: &'static str) -> Result<(), TaskError> {
        // Others that have the context may use it meanwhile, on other threads.
        let within = self.scratch().stepping.contains(&thread::current().id());
        match within {
            true => Err(TaskError::InStep { what }),
            false => Ok(()),
        }
    }

    /// The graph that the node is part of.
    pub(crate) fn graph(&self) -> &Core {
        &self.0.graph
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// Leaves word why the node stops, and never returns: the engine drops the node.
    pub(crate) async fn park<T>(&self, why: Parked) -> T {
        self.leave(why);
        pending().await
    }

    /// Leaves word to who called this routine.
    pub(crate) fn leave_to_caller(&self, why: Parked) {
        if let Some(caller) = &self.0.caller {
            caller.leave(why);
        }
    }

    /// Leaves word why the node stops.
    pub(crate) fn leave(&self, why: Parked) {
        let mut scratch = self.scratch();
        match why {
            Parked::Asks(asks) => scratch.asks.extend(asks),
            Parked::Failed(error) => scratch.failure = Some(error),
            Parked::Stopped(nodes) => scratch.stopped = Some(nodes),
            Parked::Returned(update) => scratch.returned = Some(update),
        }
        // The node may poll this from a task of its own making.
        if let Some(waker) = &scratch.waker {
            waker.wake_by_ref();
        }
    }

    /// Whether the node stopped.
    pub(crate) fn is_parked(&self) -> bool {
        let scratch = self.scratch();
        let Scratch {
            asks,
            failure,
            stopped,
            returned,
            ..
        } = &*scratch;
        failure.is_some() || returned.is_some() || stopped.is_some() || !asks.is_empty()
    }

    pub(crate) fn next_step(&self) -> u32 {
        let mut scratch = self.scratch();
        scratch.steps += 1;
        scratch.steps - 1
    }

    pub(crate) fn next_call(&self) -> u32 {
        let mut scratch = self.scratch();
        scratch.routines += 1;
        scratch.routines - 1
    }

    /// Hands a routine to the attempt, which runs it.
    pub(crate) fn start_call(&self, running: BoxFuture<'static, ()>) {
        self.sign_of_life();
        let mut scratch = self.scratch();
        scratch.called.push(running);
        if let Some(waker) = &scratch.waker {
            waker.wake_by_ref();
        }
    }

    pub(crate) fn take_called(&self) -> Vec<BoxFuture<'static, ()>> {
        std::mem::take(&mut self.scratch().called)
    }

    pub(crate) fn tell(&self, modes: Modes, event: impl FnOnce() -> Event) {
        self.0.scope.sink.emit(modes, &self.0.place, event);
    }

    pub(crate) fn tell_cache_failed(&self, name: &Name, error: String) {
        self.tell(Modes::TASKS, || Event::CacheFailed {
            node: name.clone(),
            error,
        });
    }

    pub(crate) fn register(&self, waker: &Waker) {
        let mut scratch = self.scratch();
        match &mut scratch.waker {
            Some(known) => known.clone_from(waker),
            slot => *slot = Some(waker.clone()),
        }
    }

    pub(crate) fn parked(&self) -> Option<Parked> {
        let mut scratch = self.scratch();
        if let Some(error) = scratch.failure.take() {
            return Some(Parked::Failed(error));
        }
        if let Some(update) = scratch.returned.take() {
            return Some(Parked::Returned(update));
        }
        let asks = std::mem::take(&mut scratch.asks);
        let stopped = scratch.stopped.take().map(Parked::Stopped);
        (!asks.is_empty()).then_some(Parked::Asks(asks)).or(stopped)
    }

    fn scratch(&self) -> MutexGuard<'_, Scratch> {
        // The lock is held over plain assignments only, so a poisoned scratch is still whole.
        self.0
            .scratch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step of a context is being polled on this thread as long as this lives.
struct Within<'a>(&'a Context);

impl Drop for Within<'_> {
    fn drop(&mut self) {
        let own = thread::current().id();
        let mut scratch = self.0.scratch();
        let last = scratch.stepping.iter().rposition(|at| *at == own);
        if let Some(at) = last {
            scratch.stepping.remove(at);
        }
    }
}

/// The namespace of the first graph that a task runs.
pub(crate) fn nested_namespace(around: &str, node: &str, task: TaskId, nesting: Nesting) -> String {
    let (around, own) = match nesting {
        Nesting::PerCall | Nesting::Unstored => (around.to_owned(), format!("{node}:{task}")),
        // Tasks come and go; what is kept in the thread is named by nodes alone.
        Nesting::PerThread => {
            let nodes = around
                .split('|')
                .map(|part| part.split(':').next().unwrap_or(part));
            (nodes.collect::<Vec<_>>().join("|"), node.to_owned())
        }
    };
    match around.is_empty() {
        true => own,
        false => format!("{around}|{own}"),
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("node", &self.0.node)
            .field("task", &self.0.task)
            .field("place", &self.0.place)
            .finish_non_exhaustive()
    }
}

/// Polls a future once.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|waker| match Pin::new(&mut *future).poll(waker) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
