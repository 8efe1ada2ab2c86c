//! A thread: one long-lived run of a graph, and what callers do with it.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll};

use futures::future::BoxFuture;
use futures::stream::Stream;
use superstep_checkpoint::{CheckpointId, Checkpointer, Header, Place};

use crate::amendment::StateUpdate;
use crate::ask::{Answer, Ask};
use crate::context::Scope;
use crate::control::Control;
use crate::durability::Durability;
use crate::error::RunError;
use crate::event::{Modes, Part};
use crate::event_log::{EventId, Logged};
use crate::explanation::Explanation;
use crate::graph::Graph;
use crate::kept::Kept;
use crate::nested_thread::Nested;
use crate::run::{Breakpoints, Enter, Given, LeftBehind, Options, Run, Stop, events};
use crate::sink::Sink;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::update::Update;
use superstep_channels::{Json, Name};
use tracing::Instrument as _;

/// How many headers are read at once while a history is filtered.
const PAGE: usize = 256;

/// One long-lived run of a graph, addressed by the id under which its checkpoints are stored.
///
/// A handle keeps in memory how its last run left the thread, once that is done, and the next run goes on from there without
/// reading it again, unless somebody else was there. So a handle that is kept open pays for what changes, and not for the length
/// of the thread. Its clones share that memory.
///
/// A thread has one writer at a time: of two runs that overlap, one ends with
/// [`RunError::ThreadConflict`].
pub struct Thread<S> {
    graph: Graph<S>,
    saver: Option<Arc<dyn Checkpointer>>,
    place: Place,
    at: Option<CheckpointId>,
    /// A checkpoint of a nested graph that was gone back to, with its namespace.
    pin: Option<(Arc<str>, CheckpointId)>,
    kept: Kept,
    left: LeftBehind,
}

impl<S: State> Thread<S> {
    pub(crate) fn new(graph: Graph<S>, saver: Option<Arc<dyn Checkpointer>>, place: Place) -> Self {
        Thread {
            graph,
            saver,
            place,
            at: None,
            pin: None,
            kept: Kept::default(),
            left: LeftBehind::default(),
        }
    }

    /// Its id, under which it is stored.
    pub fn id(&self) -> &str {
        &self.place.thread
    }

    /// The same thread as of an older checkpoint: reading shows it as it was then, and running from it
    /// opens a branch. What came after it stays where it is.
    #[must_use]
    pub fn at(&self, checkpoint: CheckpointId) -> Self {
        Thread {
            at: Some(checkpoint),
            ..self.clone()
        }
    }

    /// The same thread as of a checkpoint of a graph nested in it, and of the checkpoint that this one was made on:
    /// running from it opens a branch. A graph that keeps its state in the thread
    /// ([`Nesting::PerThread`](crate::Nesting::PerThread)) goes on from that checkpoint; one that starts anew in each call does so.
    #[must_use]
    pub fn at_nested(&self, namespace: impl Into<Arc<str>>, checkpoint: CheckpointId) -> Self {
        Thread {
            pin: Some((namespace.into(), checkpoint)),
            ..self.clone()
        }
    }

    /// What a graph nested in this thread has stored. The namespace is that of a [`TaskState`](crate::TaskState), of a question
    /// or of a [`Part`] of a stream. Fails if the graph there is not known: a node that runs a graph in its function says
    /// so with [`calls`](crate::GraphBuilder::calls).
    pub fn nested(&self, namespace: impl Into<Arc<str>>) -> Result<Nested, RunError> {
        let namespace = namespace.into();
        let own = parts(&self.place.namespace).count();
        let inside = self.graph.core.inside(parts(&namespace).skip(own));
        let core = inside.ok_or_else(|| RunError::UnknownNamespace {
            namespace: namespace.to_string(),
        })?;
        Ok(Nested::new(Thread {
            graph: Graph::of(core),
            saver: self.saver.clone(),
            place: Place {
                thread: Arc::clone(&self.place.thread),
                namespace,
            },
            at: None,
            pin: None,
            kept: Kept::default(),
            left: self.left.clone(),
        }))
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.place.namespace
    }

    /// Runs the graph on new input. Channels keep what earlier runs left in them; work that an earlier run
    /// left unfinished is dropped.
    pub fn start(&self, input: impl Into<Update>) -> RunBuilder<S> {
        self.builder(Enter::Input(input.into()))
    }

    /// Goes on where the thread stands: after a crash, an error, a limit or a breakpoint.
    /// Finished tasks are not run again. On a thread [`at`](Thread::at) a checkpoint all its tasks run again,
    /// and ask again.
    pub fn proceed(&self) -> RunBuilder<S> {
        self.go(Vec::new(), None)
    }

    /// Answers open questions and goes on. Questions that get no answer stay open.
    /// On a thread [`at`](Thread::at) a checkpoint its tasks run again, and what they asked last there
    /// can be answered anew, whatever was answered then. Questions of nested graphs cannot: replay the checkpoint instead.
    pub fn resume(&self, answers: impl IntoIterator<Item = Answer>) -> RunBuilder<S> {
        self.go(answers.into_iter().collect(), None)
    }

    /// Edits the state, answers, and goes on. The edit is part of the next checkpoint; tasks that wait go on waiting,
    /// and a `goto` or `send` in it runs beside them.
    pub fn command(
        &self,
        edit: Update,
        answers: impl IntoIterator<Item = Answer>,
    ) -> RunBuilder<S> {
        self.go(answers.into_iter().collect(), Some(edit))
    }

    fn go(&self, answers: Vec<Answer>, edit: Option<Update>) -> RunBuilder<S> {
        self.builder(Enter::Go {
            answers,
            edit,
            addressed: self.at.is_some() || self.pin.is_some(),
        })
    }

    fn builder(&self, enter: Enter) -> RunBuilder<S> {
        RunBuilder {
            thread: self.clone(),
            enter,
            options: Options::default(),
        }
    }

    /// Changes the state by hand, as if a node had written it, and makes a checkpoint of that, which it names.
    /// Where the thread goes next is decided behind that node. Nothing runs until the thread
    /// [proceeds](Thread::proceed).
    ///
    /// Tasks that waited stay behind at the checkpoint before: their results, their questions and what commands
    /// wrote there. On a thread [`at`](Thread::at) a checkpoint the update opens a branch there.
    ///
    /// ```
    /// use superstep::StateUpdate;
    /// use superstep::prelude::*;
    ///
    /// const NOTE: Key<String> = Key::last("note");
    /// const WRITE: Node<()> = Node::new("write");
    /// const PRINT: Node<()> = Node::new("print");
    /// async fn nothing(_: (), _: Context) -> NodeResult {
    ///     Ok(Update::new())
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = Graph::<()>::builder()
    ///     .channel(NOTE.spec())
    ///     .node(WRITE, nothing)
    ///     .node(PRINT, nothing)
    ///     .entry(WRITE)
    ///     .edge(WRITE, PRINT)
    ///     .build()?;
    /// let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    /// let note = Update::new().put(NOTE, "by hand".to_string());
    /// thread.update(StateUpdate::new(note).as_node(WRITE)).await?;
    /// let state = thread.state().await?;
    /// assert_eq!(state.values.value(NOTE)?, Some("by hand".to_string()));
    /// assert_eq!(state.next().collect::<Vec<_>>(), ["print"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update(&self, update: impl Into<StateUpdate>) -> Result<CheckpointId, RunError> {
        self.update_all([[update.into()]]).await
    }

    /// Changes the state by hand several times, all or not at all: each list is applied as one superstep.
    /// Gives the last checkpoint.
    pub async fn update_all<U: IntoIterator<Item = StateUpdate>>(
        &self,
        supersteps: impl IntoIterator<Item = U>,
    ) -> Result<CheckpointId, RunError> {
        let lists = supersteps
            .into_iter()
            .map(|list| list.into_iter().collect());
        self.open_to_update().await?.update(lists.collect()).await
    }

    /// Ends the superstep that the thread is in: what finished tasks have written is applied, tasks that
    /// ask, failed or did not run are dropped.
    pub async fn finish_waiting(&self) -> Result<CheckpointId, RunError> {
        let what = "updating a thread's state";
        self.stored(what)?;
        self.open(Sink::default(), self.at)
            .await?
            .finish_waiting()
            .await
    }

    /// Makes a copy of the newest checkpoint, or of the one that the thread is [`at`](Thread::at), as the newest one:
    /// the same state on the same parent, whose tasks run and ask anew. Gives the copy.
    pub async fn copy_checkpoint(&self) -> Result<CheckpointId, RunError> {
        self.stored("copying a checkpoint")?;
        let scope = self.scope(Sink::default(), &Options::default());
        let core = Arc::clone(&self.graph.core);
        let run = Run::open_to_copy(core, self.place.clone(), scope, self.at);
        run.await?.copy().await
    }

    async fn open_to_update(&self) -> Result<Run, RunError> {
        self.stored("updating a thread's state")?;
        let scope = self.scope(Sink::default(), &Options::default());
        let core = Arc::clone(&self.graph.core);
        Run::open_to_update(core, self.place.clone(), scope, self.at).await
    }

    /// The thread's state: as it is now, or the record of the checkpoint it is [`at`](Thread::at).
    pub async fn state(&self) -> Result<Snapshot, RunError> {
        self.stored("reading a thread's state")?;
        let run = self.open(Sink::default(), self.at).await?;
        match self.at {
            None => run.live(),
            Some(_) => run.record().await,
        }
    }

    /// The events that runs of this thread [logged](RunBuilder::log), after one of them or from the first, oldest first, at most `limit`:
    /// those on the way to the newest checkpoint. Reading on after the last one gives what came since; a run that goes on
    /// has stored its events up to its last commit.
    pub async fn events(
        &self,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<Vec<Logged>, RunError> {
        let saver = self.stored("reading a thread's events")?;
        events(&**saver, &self.place, after, limit).await
    }

    /// The thread's state with the states of the graphs nested in its tasks, down to the innermost.
    pub async fn state_nested(&self) -> Result<Snapshot, RunError> {
        let mut state = self.state().await?;
        for task in &mut state.tasks {
            if let Some(namespace) = &task.namespace {
                let nested = self.nested(namespace.as_str())?;
                task.nested = Some(Box::new(nested.expanded().await?));
            }
        }
        Ok(state)
    }

    /// Says why the tasks that are due are due, and which tasks wrote what before: of the newest checkpoint, or of the one that
    /// the thread is [`at`](Thread::at). It is worked out from what is stored.
    pub async fn explain(&self) -> Result<Explanation, RunError> {
        self.stored("explaining a checkpoint")?;
        self.open(Sink::default(), self.at).await?.explain().await
    }

    /// The records of the thread's checkpoints, newest first, at most `limit`; from the one before
    /// the checkpoint it is [`at`](Thread::at), if it is.
    pub async fn history(&self, limit: usize) -> Result<Vec<Snapshot>, RunError> {
        self.history_where(limit, |_| true).await
    }

    /// The same for checkpoints whose header passes a filter: by what made them, by superstep, by what was noted with their run.
    /// What does not pass is not loaded.
    ///
    /// ```
    /// use superstep::checkpoint::Source;
    /// # use superstep::{RunError, Thread, State};
    /// # async fn edits<S: State>(thread: Thread<S>) -> Result<(), RunError> {
    /// let by_hand = thread.history_where(10, |header| header.source == Source::Update).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn history_where(
        &self,
        limit: usize,
        filter: impl Fn(&Header) -> bool,
    ) -> Result<Vec<Snapshot>, RunError> {
        let saver = self.stored("reading a thread's history")?;
        let mut history = Vec::new();
        let mut before = self.at;
        while history.len() < limit {
            let page = saver.list(&self.place, before, PAGE.min(limit)).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            for listed in page {
                let header = Header::open(&listed.header).map_err(|error| RunError::Stored {
                    what: format!("the header of checkpoint {} cannot be read", listed.id),
                    source: error.into(),
                })?;
                if history.len() < limit && filter(&header) {
                    let run = self.open(Sink::default(), Some(listed.id)).await?;
                    history.push(run.record().await?);
                }
            }
        }
        Ok(history)
    }

    /// Copies the thread as it is, with its history, its nested graphs and what waits in it, under another name.
    /// From there on the two have nothing to do with each other, but tasks that waited have the same ids in both.
    pub async fn copy_to(&self, id: impl Into<Arc<str>>) -> Result<Self, RunError> {
        let id = id.into();
        let saver = self.stored("copying a thread")?;
        saver.copy_thread(&self.place.thread, &id).await?;
        Ok(Thread {
            place: Place::root(id),
            at: None,
            pin: None,
            kept: Kept::default(),
            ..self.clone()
        })
    }

    /// Removes all that is stored of the thread, nested graphs included.
    pub async fn delete(&self) -> Result<(), RunError> {
        let saver = self.stored("deleting a thread")?;
        Ok(saver.delete_thread(&self.place.thread).await?)
    }

    fn stored(&self, what: &'static str) -> Result<&Arc<dyn Checkpointer>, RunError> {
        self.saver.as_ref().ok_or(RunError::NoCheckpointer { what })
    }

    async fn open(&self, sink: Sink, at: Option<CheckpointId>) -> Result<Run, RunError> {
        let scope = self.scope(sink, &Options::default());
        let core = Arc::clone(&self.graph.core);
        Run::open(core, self.place.clone(), scope, Options::default(), at).await
    }

    fn scope(&self, sink: Sink, options: &Options) -> Scope {
        Scope {
            saver: self.saver.clone(),
            sink,
            limit: options.limit,
            durability: options.durability,
            control: options.control.clone(),
            inside: Default::default(),
            context: options.context.0.clone(),
            run: options.run.clone(),
            metadata: Arc::clone(&options.metadata),
            remaining: options.limit,
            journal: Default::default(),
            answers: Arc::default(),
            parents: Arc::default(),
            task: None,
            behind: Default::default(),
            replays: false,
            pins: Arc::default(),
            busy: Arc::default(),
            rejected: Arc::default(),
            left: self.left.clone(),
        }
    }

    async fn open_with(&self, sink: Sink, options: Options) -> Result<Run, RunError> {
        let mut scope = self.scope(sink, &options);
        let at = match &self.pin {
            None => self.at,
            Some((namespace, checkpoint)) => {
                let (at, pins) = self.pins(namespace, *checkpoint).await?;
                scope.pins = Arc::new(pins);
                at
            }
        };
        if let (None, None, Some(saver)) = (at, &self.pin, &self.saver)
            && let Some(run) = self.kept(&**saver).await?
        {
            return Ok(run.go_on(scope, options));
        }
        let core = Arc::clone(&self.graph.core);
        Run::open(core, self.place.clone(), scope, options, at).await
    }

    /// The thread as the last run left it, if nothing happened to it since.
    async fn kept(&self, saver: &dyn Checkpointer) -> Result<Option<Run>, RunError> {
        self.left.wait(&self.place).await;
        Ok(self.kept.take(saver).await?)
    }

    /// Keeps the thread as a run left it, if that says all there is to say about it.
    fn keep(&self, run: Run) {
        if run.is_settled() {
            let idle = Options::default();
            let scope = self.scope(Sink::default(), &idle);
            self.kept.put(run.rest(scope, idle));
        }
    }

    /// The checkpoint of this graph that a nested one was made on, and those of all graphs between.
    async fn pins(
        &self,
        namespace: &Arc<str>,
        checkpoint: CheckpointId,
    ) -> Result<(Option<CheckpointId>, HashMap<String, CheckpointId>), RunError> {
        let saver = self.stored("going back to a nested checkpoint")?;
        let place = Place {
            thread: Arc::clone(&self.place.thread),
            namespace: Arc::clone(namespace),
        };
        let found = saver.list(&place, Some(checkpoint.next()), 1).await?.pop();
        let found = found.filter(|found| found.id == checkpoint);
        let found = found.ok_or_else(|| RunError::UnknownCheckpoint {
            place: place.to_string(),
            id: checkpoint,
        })?;
        let header = Header::open(&found.header).map_err(|error| RunError::Stored {
            what: format!("the header of checkpoint {checkpoint} cannot be read ({place})"),
            source: error.into(),
        })?;
        let mut pins: HashMap<String, CheckpointId> = header.parents.into_iter().collect();
        let at = pins.remove(&*self.place.namespace);
        pins.insert(namespace.to_string(), checkpoint);
        Ok((at, pins))
    }
}

/// The parts of a namespace, outermost first.
fn parts(namespace: &str) -> impl Iterator<Item = &str> {
    namespace.split('|').filter(|part| !part.is_empty())
}

impl<S> Clone for Thread<S> {
    fn clone(&self) -> Self {
        Thread {
            graph: self.graph.clone(),
            saver: self.saver.clone(),
            place: self.place.clone(),
            at: self.at,
            pin: self.pin.clone(),
            kept: self.kept.clone(),
            left: self.left.clone(),
        }
    }
}

impl<S> fmt::Debug for Thread<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread")
            .field("graph", &self.graph)
            .field("place", &self.place)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// How a run ended that did not fail.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome<S> {
    /// Nothing is due any more.
    Done(S),
    /// Tasks wait for answers.
    Paused(Vec<Ask>),
    /// The run stopped at a breakpoint before or after these nodes.
    Breakpoint(Vec<Name>),
    /// The run was to stop after its superstep; these nodes are due.
    Drained(Vec<Name>),
}

impl<S> Outcome<S> {
    /// The final state, if the graph is done.
    pub fn done(self) -> Option<S> {
        match self {
            Outcome::Done(state) => Some(state),
            _ => None,
        }
    }

    /// The open questions; none if the run did not pause.
    pub fn asks(&self) -> &[Ask] {
        match self {
            Outcome::Paused(asks) => asks,
            _ => &[],
        }
    }
}

/// A run that is about to begin: await it for its outcome, or [`stream`](RunBuilder::stream) it.
#[must_use = "a run does nothing until it is awaited or streamed"]
#[derive(Debug)]
pub struct RunBuilder<S> {
    thread: Thread<S>,
    enter: Enter,
    options: Options,
}

impl<S: State> RunBuilder<S> {
    /// How many supersteps of nodes this run may take; if more are due then, it ends with
    /// [`RunError::Limit`] and can be taken up again. Nested graphs count for themselves.
    pub fn limit(mut self, supersteps: u32) -> Self {
        self.options.limit = supersteps;
        self
    }

    /// Says when the run is stored; [`Durability::Sync`] unless it is said.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// Gives a handle that can stop the run.
    pub fn control(mut self, control: &Control) -> Self {
        self.options.control = control.clone();
        self
    }

    /// Gives nodes, also those of nested graphs, something to use: clients, settings, secrets. Nothing of it is stored.
    /// Nodes take it with [`Context::context`](crate::Context::context).
    pub fn context<T: Any + Send + Sync>(mut self, context: T) -> Self {
        self.options.context = Given(Some(Arc::new(context)));
        self
    }

    /// Names the run. Started again under the id of the run that the thread did last, it does not take its input a second time,
    /// but goes on with that run, or gives what it ended with: so a caller that lost the answer can ask again.
    pub fn id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.options.run = Some(id.into());
        self
    }

    /// Notes something with the run: it is stored with each of its checkpoints, and its nodes can read it.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        let metadata = Arc::make_mut(&mut self.options.metadata);
        metadata.insert(key.into(), Json(value.into()));
        self
    }

    /// Stops before a superstep that would run one of these nodes.
    pub fn stop_before(mut self, nodes: impl Into<Breakpoints>) -> Self {
        self.options.before = Some(nodes.into());
        self
    }

    /// Stops after a superstep that ran one of these nodes.
    pub fn stop_after(mut self, nodes: impl Into<Breakpoints>) -> Self {
        self.options.after = Some(nodes.into());
        self
    }

    /// Stores events of these modes, those of nested graphs too, with the checkpoints of the thread, in the same commits.
    /// [`Thread::events`] reads them back, and the parts of a stream carry their ids: a reader who was cut off
    /// goes on after the last one it saw. It needs a checkpointer.
    pub fn log(mut self, modes: Modes) -> Self {
        self.options.log = Some(modes);
        self
    }

    /// Splits into the run and a watch of it, which may be slow: when more than `capacity` parts wait, the oldest are dropped, and the
    /// watch is told how many ([`Event::Lagged`](crate::Event::Lagged)). Await or spawn the run; dropping the watch does not end it.
    pub fn watch(
        self,
        modes: Modes,
        capacity: usize,
    ) -> (BoxFuture<'static, Result<Outcome<S>, RunError>>, Watch) {
        let sink = Sink::new(modes, true, Some(capacity.max(1)), self.options.log);
        let ender = Ender(sink.clone());
        let reader = Reader(sink.clone());
        let run = Box::pin(async move {
            let _ender = ender;
            self.run(sink).await
        });
        (run, Watch(reader))
    }

    /// Runs and tells what happens meanwhile.
    pub fn stream(self, modes: Modes) -> RunStream<S> {
        self.into_stream(modes, false)
    }

    /// Runs and tells what happens meanwhile, in nested graphs too.
    pub fn stream_nested(self, modes: Modes) -> RunStream<S> {
        self.into_stream(modes, true)
    }

    fn into_stream(self, modes: Modes, nested: bool) -> RunStream<S> {
        let sink = Sink::new(modes, nested, None, self.options.log);
        RunStream {
            progress: Mutex::new(Progress::Running(Box::pin(self.run(sink.clone())))),
            reader: Reader(sink),
        }
    }

    async fn run(self, sink: Sink) -> Result<Outcome<S>, RunError> {
        let thread = &self.thread;
        if let Enter::Go { .. } = self.enter {
            thread.stored("going on with a thread")?;
        }
        self.options.check(&thread.graph.core)?;
        if self.options.log.is_some() {
            thread.stored("logging events")?;
        }
        let mut run = thread.open_with(sink, self.options).await?;
        let span = run.run_span();
        let stop = async {
            run.enter(self.enter).await?;
            run.drive().await
        };
        let stop = stop.instrument(span).await?;
        Ok(match stop {
            Stop::Done => {
                let state = run.state()?;
                thread.keep(run);
                Outcome::Done(state)
            }
            Stop::Paused(asks) => Outcome::Paused(asks),
            Stop::Breakpoint(nodes) => Outcome::Breakpoint(nodes),
            Stop::Drained(nodes) => Outcome::Drained(nodes),
            Stop::Parent { node, .. } => return Err(RunError::NoParent { node }),
        })
    }
}

impl<S: State> IntoFuture for RunBuilder<S> {
    type Output = Result<Outcome<S>, RunError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let sink = Sink::unread(self.options.log);
        Box::pin(self.run(sink))
    }
}

impl<S> Unpin for RunStream<S> {}

/// A run as a stream of its events; afterwards it has the [`outcome`](RunStream::outcome).
///
/// The run moves while the stream is polled: who reads slowly slows it down, and dropping the stream cancels it.
pub struct RunStream<S> {
    /// In a mutex only so that the stream is `Sync` although the run is not.
    progress: Mutex<Progress<S>>,
    reader: Reader,
}

/// The end of a stream that is read; when it goes, nothing more is queued.
struct Reader(Sink);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Tells the watch when its run is over, however it ends.
struct Ender(Sink);

impl Drop for Ender {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What happens in a run that goes on by itself, nested graphs included. It ends with the run.
/// See [`RunBuilder::watch`].
pub struct Watch(Reader);

impl Stream for Watch {
    type Item = Part;

    fn poll_next(self: Pin<&mut Self>, waker: &mut task::Context<'_>) -> Poll<Option<Part>> {
        let sink = &self.0.0;
        sink.register(waker.waker());
        // Whether it ended is asked first: what came before is still there.
        let ended = sink.has_ended();
        match sink.take() {
            Some(part) => Poll::Ready(Some(part)),
            None if ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

enum Progress<S> {
    Running(BoxFuture<'static, Result<Outcome<S>, RunError>>),
    Ended(Result<Outcome<S>, RunError>),
}

impl<S: State> RunStream<S> {
    /// Runs to the end, dropping events that were not read, and says how it ended.
    pub async fn outcome(self) -> Result<Outcome<S>, RunError> {
        drop(self.reader);
        match self
            .progress
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
        {
            Progress::Running(run) => run.await,
            Progress::Ended(outcome) => outcome,
        }
    }
}

impl<S: State> Stream for RunStream<S> {
    type Item = Part;

    fn poll_next(self: Pin<&mut Self>, waker: &mut task::Context<'_>) -> Poll<Option<Part>> {
        let RunStream { progress, reader } = self.get_mut();
        let sink = &reader.0;
        if let Some(part) = sink.take() {
            return Poll::Ready(Some(part));
        }
        sink.register(waker.waker());
        let progress = progress.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Progress::Running(run) = progress
            && let Poll::Ready(outcome) = run.as_mut().poll(waker)
        {
            *progress = Progress::Ended(outcome);
        }
        match (sink.take(), progress) {
            (Some(part), _) => Poll::Ready(Some(part)),
            (None, Progress::Ended(_)) => Poll::Ready(None),
            (None, Progress::Running(_)) => Poll::Pending,
        }
    }
}

impl<S> fmt::Debug for RunStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").finish_non_exhaustive()
    }
}
