//! Graphs inside graphs.

use std::sync::Arc;

use futures::future::BoxFuture;
use superstep_channels::Type;
use superstep_checkpoint::Place;

use crate::ask::Ask;
use crate::context::{Context, Parked, Scope};
use crate::error::{ReadError, RunError};
use crate::graph::{Core, Graph};
use crate::node::{ErasedNode, NodeResult, TaskInput};
use crate::run::{Breakpoints, Enter, Options, Run, Stop};
use crate::state::{Fields, Schema, State};
use crate::update::Update;

/// How a nested run ended.
pub(crate) enum End {
    Done(Box<Run>),
    Paused(Vec<Ask>),
}

/// Runs a nested graph: from its input the first time, from where it stands when it has checkpoints already.
pub(crate) async fn run(
    core: Arc<Core>,
    place: Place,
    scope: Scope,
    input: Update,
) -> Result<End, RunError> {
    let options = Options {
        limit: scope.limit,
        durability: scope.durability,
        before: Breakpoints::None,
        after: Breakpoints::None,
    };
    let mut run = Run::open(core, place, scope, options, None).await?;
    let enter = if run.is_empty() {
        Enter::Input(input)
    } else {
        Enter::Go {
            answers: Vec::new(),
            edit: None,
            addressed: false,
        }
    };
    run.enter(enter).await?;
    Ok(match run.drive().await? {
        Stop::Paused(asks) => End::Paused(asks),
        // A nested run has no breakpoints.
        Stop::Done | Stop::Breakpoint(_) => End::Done(Box::new(run)),
    })
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

    fn call(
        &self,
        input: TaskInput,
        cx: Context,
    ) -> Result<BoxFuture<'static, NodeResult>, ReadError> {
        let input = match input {
            TaskInput::State(fields) => shared(&self.0.core, &fields),
            TaskInput::Payload(value) => S::from_payload(value, cx.node())?.into(),
        };
        let core = Arc::clone(&self.0.core);
        Ok(Box::pin(async move {
            let place = cx.next_nested_place();
            let end = run(core, place, cx.scope().clone(), input).await?;
            match end {
                End::Done(run) => Ok(shared(cx.graph(), &run.output())),
                End::Paused(asks) => cx.park(Parked::Asks(asks)).await,
            }
        }))
    }
}

/// Writes the fields that a graph has channels for: going down they are the inner graph's input,
/// coming up they are an ordinary update, so a reducer that both graphs share folds them in.
/// A value that is no update of its channel replaces the channel's value.
fn shared(graph: &Core, fields: &Fields) -> Update {
    let mut update = Update::new();
    for (name, value) in fields.iter() {
        let Some(spec) = graph.channel_at.get(name).map(|&at| &graph.channels[at]) else {
            continue;
        };
        update = if spec.update_type() == value.type_of() {
            update.put_value(name.clone(), value.clone())
        } else {
            update.overwrite_value(name.clone(), value.clone())
        };
    }
    update
}
