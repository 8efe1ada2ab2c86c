//! Graphs inside graphs.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{self, Poll};

use futures::future::BoxFuture;
use superstep_channels::Type;
use superstep_checkpoint::{CheckpointId, Checkpointer, Header, Place, Relation, relation};
use tracing::Instrument as _;

use crate::context::{Context, Parked, Scope};
use crate::control::Drive;
use crate::error::{Failure, ReadError, RunError, TaskError};
use crate::graph::{Core, Graph};
use crate::nesting::Nesting;
use crate::node::{ErasedNode, NodeResult, TaskInput};
use crate::run::{Enter, Options, Run, Stop};
use crate::state::{Fields, Schema, State};
use crate::update::Update;

/// How a nested run ended.
pub(crate) enum End {
    Done(Box<Run>),
    Parked(Parked),
}

/// Where a nested run begins.
enum From {
    /// Where the same task left it.
    Newest,
    /// With new input on what an earlier task left, or on nothing.
    Input(Option<CheckpointId>),
    /// At a checkpoint that was gone back to.
    Pinned(CheckpointId),
}

/// Runs a graph inside a task. The run around can move it too: if it is cancelled while the node holds this without polling it, what
/// finished inside is stored nevertheless.
pub(crate) async fn start(cx: &Context, core: Arc<Core>, input: Update) -> Result<End, RunError> {
    let cx = cx.clone();
    let inside = cx.scope().inside.clone();
    // Boxed: a nested run contains nodes that contain nested runs.
    let run: BoxFuture<'static, _> = Box::pin(async move { run(&cx, core, input).await });
    let driven = Arc::new(Driven(Mutex::new(Progress::Running(run))));
    inside.add(Arc::downgrade(&driven) as Weak<dyn Drive>);
    poll_fn(|waker| driven.ended(waker)).await
}

/// A nested run that several may poll.
struct Driven(Mutex<Progress>);

enum Progress {
    Running(BoxFuture<'static, Result<End, RunError>>),
    Ended(Option<Result<End, RunError>>),
}

impl Driven {
    fn poll(&self, waker: &mut task::Context<'_>) -> MutexGuard<'_, Progress> {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Progress::Running(run) = &mut *progress
            && let Poll::Ready(ended) = run.as_mut().poll(waker)
        {
            *progress = Progress::Ended(Some(ended));
        }
        progress
    }

    /// How it ended, for who holds it.
    fn ended(&self, waker: &mut task::Context<'_>) -> Poll<Result<End, RunError>> {
        match &mut *self.poll(waker) {
            // Nobody polls a future that ended.
            Progress::Ended(ended) => ended.take().map_or(Poll::Pending, Poll::Ready),
            Progress::Running(_) => Poll::Pending,
        }
    }
}

impl Drive for Driven {
    fn drive(&self, waker: &mut task::Context<'_>) {
        drop(self.poll(waker));
    }
}

/// Runs a graph: from its input the first time, from where it stands when the task ran it before.
async fn run(cx: &Context, core: Arc<Core>, input: Update) -> Result<End, RunError> {
    let place = cx.next_nested_place(core.nesting);
    let mut scope = Scope {
        task: Some((cx.task(), cx.superstep())),
        ..cx.scope().clone()
    };
    if core.nesting == Nesting::Unstored {
        scope.saver = None;
    }
    let _busy = Busy::enter(&core, &place, &scope)?;
    let _inside = scope.inside.enter();
    let options = Options {
        limit: scope.limit,
        durability: scope.durability,
        ..Options::default()
    };
    let from = from(core.nesting, cx.place(), &place, &scope).await?;
    let go = |addressed| Enter::Go {
        answers: Vec::new(),
        edit: None,
        addressed,
    };
    let (mut run, enter) = match from {
        From::Newest => (
            Run::open(core, place, scope, options, None).await?,
            go(false),
        ),
        From::Pinned(at) => {
            // Answers that came with it are for what is asked there.
            let replays = scope.answers.is_empty();
            (
                Run::open(core, place, scope, options, Some(at)).await?,
                go(replays),
            )
        }
        From::Input(None) => {
            let run = Run::open_anew(core, place, scope, options).await?;
            (run, Enter::Input(input))
        }
        From::Input(at) => {
            let run = Run::open(core, place, scope, options, at).await?;
            (run, Enter::Input(input))
        }
    };
    let span = run.run_span();
    let stop = async {
        run.enter(enter).await?;
        run.drive().await
    };
    let stop = match stop.instrument(span).await {
        Err(RunError::Tasks(failures)) => match wrong_answer(&failures) {
            // A wrong answer is nobody's failure: its question stands, and nobody around is to take it for something else.
            Some(error) => return Ok(End::Parked(Parked::Failed(error))),
            None => return Err(RunError::Tasks(failures)),
        },
        ended => ended?,
    };
    Ok(match stop {
        Stop::Done => End::Done(Box::new(run)),
        Stop::Paused(asks) => End::Parked(Parked::Asks(asks)),
        Stop::Breakpoint(nodes) => End::Parked(Parked::Stopped(nodes)),
        Stop::Parent { update, .. } => End::Parked(Parked::Returned(update)),
        // Only the outermost graph drains.
        Stop::Drained(nodes) => End::Parked(Parked::Stopped(nodes)),
    })
}

fn wrong_answer(failures: &[Failure]) -> Option<TaskError> {
    failures.iter().find_map(|failure| match &failure.error {
        TaskError::BadAnswer { ask, reason } => Some(TaskError::BadAnswer {
            ask: *ask,
            reason: format!("{reason} (node `{}`)", failure.node),
        }),
        _ => None,
    })
}

/// Where a run in `place` begins, inside a task of the graph in `around`.
async fn from(
    nesting: Nesting,
    around: &Place,
    place: &Place,
    scope: &Scope,
) -> Result<From, RunError> {
    let Some(saver) = &scope.saver else {
        return Ok(From::Input(None));
    };
    if let Some(&pinned) = scope.pins.get(&*place.namespace) {
        return Ok(From::Pinned(pinned));
    }
    if nesting == Nesting::PerThread {
        // What it kept is told by where the graph around stands, so that has to be stored.
        scope.behind.catch_up().await?;
    }
    let mut before = None;
    while let Some(listed) = saver.list(place, before, 1).await?.pop() {
        before = Some(listed.id);
        let header = listed.open(place)?;
        match header.task == scope.task {
            true if !scope.replays => return Ok(From::Newest),
            // What the task itself did is what is to be done anew.
            true => {}
            false => {
                if is_on_the_way(&**saver, around, scope, &header).await? {
                    return Ok(From::Input(Some(listed.id)));
                }
            }
        }
    }
    Ok(From::Input(None))
}

/// Whether what a task of the graph around left is part of that graph's history up to where it stands now.
async fn is_on_the_way(
    saver: &dyn Checkpointer,
    around: &Place,
    scope: &Scope,
    left: &Header,
) -> Result<bool, RunError> {
    let (Some(_), Some((_, now))) = (left.parents.last(), scope.parents.last()) else {
        // Neither stands in a graph that is stored.
        return Ok(left.parents.is_empty() == scope.parents.is_empty());
    };
    Ok(match relation(saver, around, *now, left).await? {
        Relation::Before => true,
        Relation::On => !scope.replays,
        Relation::Beside(_) | Relation::Apart => false,
    })
}

/// Holds the place of a graph that keeps one history while it runs.
struct Busy {
    scope: Scope,
    namespace: Arc<str>,
}

impl Busy {
    fn enter(core: &Core, place: &Place, scope: &Scope) -> Result<Option<Self>, RunError> {
        if core.nesting != Nesting::PerThread {
            return Ok(None);
        }
        let namespace = Arc::clone(&place.namespace);
        let mut busy = scope.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if !busy.insert(Arc::clone(&namespace)) {
            return Err(RunError::NestedTwice {
                place: place.to_string(),
            });
        }
        Ok(Some(Busy {
            scope: scope.clone(),
            namespace,
        }))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut busy = self
            .scope
            .busy
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        busy.remove(&self.namespace);
    }
}

/// A graph as a node: it starts from the channels it shares with the graph around it,
/// and what it ends with is written back to them.
pub(crate) struct Subgraph<S>(pub(crate) Graph<S>);

impl<S: State> ErasedNode for Subgraph<S> {
    fn schema(&self) -> Schema {
        S::schema()
    }

    fn payload_type(&self) -> Type {
        S::payload_type()
    }

    fn inside(&self) -> Option<Arc<Core>> {
        Some(Arc::clone(&self.0.core))
    }

    fn call(
        &self,
        input: TaskInput,
        cx: Context,
    ) -> Result<BoxFuture<'static, NodeResult>, ReadError> {
        let core = Arc::clone(&self.0.core);
        let input = match input {
            TaskInput::State(fields) => shared(&core, &fields, |channel| core.takes(channel)),
            TaskInput::Payload(value) => S::from_payload(value, cx.node())?.into(),
        };
        Ok(Box::pin(async move {
            match start(&cx, core, input).await? {
                End::Done(run) => Ok(shared(cx.graph(), &run.output(), |_| true)),
                End::Parked(why) => cx.park(why).await,
            }
        }))
    }
}

/// Writes the fields that a graph has channels for: going down they are the inner graph's input,
/// coming up they are an ordinary update, so a reducer that both graphs share folds them in.
/// A value that is no update of its channel replaces the channel's value.
fn shared(graph: &Core, fields: &Fields, takes: impl Fn(usize) -> bool) -> Update {
    let mut update = Update::new();
    for (name, value) in fields.iter() {
        let Some(&at) = graph.channel_at.get(name).filter(|at| takes(**at)) else {
            continue;
        };
        let spec = &graph.channels[at];
        update = if spec.update_type() == value.type_of() {
            update.put_value(name.clone(), value.clone())
        } else {
            update.overwrite_value(name.clone(), value.clone())
        };
    }
    update
}
