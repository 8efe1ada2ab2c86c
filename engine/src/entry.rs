//! A function as a whole graph.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use superstep_channels::{ChannelSpec, Data, Key, Name, Type, Value};
use superstep_checkpoint::Checkpointer;

use crate::context::Context;
use crate::error::{BuildError, NodeError, ReadError};
use crate::graph::Graph;
use crate::node::{Node, NodeResult};
use crate::state::{Input, Reads, Schema, State, View, payload_as};
use crate::thread::Thread;
use crate::update::Update;

/// A function as a whole graph: it takes an input and what its last run left, calls [routines](Context::call), takes
/// [steps](Context::step), asks, and gives a result.
///
/// Its threads do what those of any graph do: they pause, go on after a crash, stream, and keep a history.
/// It is started with a [call](Entry::call), and its [`Returned`] state has the result.
///
/// ```
/// use superstep::entry::Entry;
/// use superstep::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Counts up from where its last run ended.
/// let count = Entry::new("count", |more: u32, last: Option<u32>, _: Context| async move {
///     Ok(last.unwrap_or_default() + more)
/// })?;
/// let thread = count.thread(&MemoryCheckpointer::new(), "t");
/// assert_eq!(thread.start(count.call(3)).await?.done().and_then(|state| state.result), Some(3));
/// assert_eq!(thread.start(count.call(4)).await?.done().and_then(|state| state.result), Some(7));
/// # Ok(())
/// # }
/// ```
pub struct Entry<A, R, P = R> {
    graph: Graph<Returned<R>>,
    types: PhantomData<fn(A) -> P>,
}

const INPUT: &str = "input";
const RESULT: &str = "result";
const PREVIOUS: &str = "previous";

impl<A: Data, R: Data> Entry<A, R> {
    /// An entry whose result is also what the next run finds as left.
    pub fn new<F, T>(name: impl Into<Name>, function: F) -> Result<Self, BuildError>
    where
        F: Fn(A, Option<R>, Context) -> T + Send + Sync + 'static,
        T: Future<Output = Result<R, NodeError>> + Send + 'static,
    {
        let function = Arc::new(function);
        Entry::saving(name, move |input, previous, cx| {
            let running = function(input, previous, cx);
            async move {
                let result = running.await?;
                Ok((result.clone(), result))
            }
        })
    }
}

impl<A: Data, R: Data, P: Data> Entry<A, R, P> {
    /// An entry that gives a result, and leaves something else for its next run.
    pub fn saving<F, T>(name: impl Into<Name>, function: F) -> Result<Self, BuildError>
    where
        F: Fn(A, Option<P>, Context) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(R, P), NodeError>> + Send + 'static,
    {
        let name = name.into();
        let node = Node::<Given<A, P>>::named(name.clone());
        let function = Arc::new(function);
        let run = move |given: Given<A, P>, cx: Context| {
            let running = function(given.input, given.previous, cx);
            async move { finish::<R, P>(running.await?) }
        };
        let graph = Graph::<Returned<R>>::builder()
            .named(name, 1)
            .node(node.clone(), run)
            .entry(node)
            .build()?;
        Ok(Entry {
            graph,
            types: PhantomData,
        })
    }

    /// What a run of it on this input is started with.
    pub fn call(&self, input: A) -> Call<A> {
        Call(input)
    }

    /// The entry as a graph: to be nested, drawn, or given another executor.
    pub fn graph(&self) -> &Graph<Returned<R>> {
        &self.graph
    }

    /// A thread of it. See [`Graph::thread`].
    pub fn thread<C: Checkpointer + Clone + 'static>(
        &self,
        saver: &C,
        id: impl Into<Arc<str>>,
    ) -> Thread<Returned<R>> {
        self.graph.thread(saver, id)
    }

    /// A thread that is stored nowhere. See [`Graph::detached`].
    pub fn detached(&self) -> Thread<Returned<R>> {
        self.graph.detached()
    }
}

impl<A, R, P> fmt::Debug for Entry<A, R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.graph.name()).finish()
    }
}

fn finish<R: Data, P: Data>((result, left): (R, P)) -> NodeResult {
    let update = Update::new().put_value(RESULT, Value::new(result));
    Ok(update.put_value(PREVIOUS, Value::new(left)))
}

/// What an entry is started with. See [`Entry::call`].
#[derive(Clone, Debug)]
pub struct Call<A>(A);

impl<A: Data> From<Call<A>> for Update {
    fn from(call: Call<A>) -> Self {
        Update::new().put_value(INPUT, Value::new(call.0))
    }
}

/// The state of an entry, as its callers see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Returned<R> {
    /// What it gave last; nothing while its first run is not done.
    pub result: Option<R>,
}

impl<R: Data> Input for Returned<R> {
    fn schema() -> Schema {
        Schema::Channels(vec![ChannelSpec::last::<R>(RESULT)])
    }

    fn read(view: &View<'_>) -> Result<Self, ReadError> {
        let result = view.fields().value(Key::<R>::last(RESULT))?;
        Ok(Returned { result })
    }

    fn payload_type() -> Type {
        Type::of::<Self>()
    }

    fn from_payload(payload: Value, node: &Name) -> Result<Self, ReadError> {
        payload_as(payload, node)
    }
}

impl<R: Data> Reads for Returned<R> {}

impl<R: Data> State for Returned<R> {}

impl<R: Data> From<Returned<R>> for Update {
    fn from(state: Returned<R>) -> Self {
        match state.result {
            Some(result) => Update::new().put_value(RESULT, Value::new(result)),
            None => Update::new(),
        }
    }
}

/// What the function runs on.
#[derive(Clone, Serialize, Deserialize)]
struct Given<A, P> {
    input: A,
    previous: Option<P>,
}

impl<A: Data, P: Data> Input for Given<A, P> {
    fn schema() -> Schema {
        Schema::Channels(vec![
            ChannelSpec::last::<A>(INPUT),
            ChannelSpec::last::<P>(PREVIOUS),
        ])
    }

    fn read(view: &View<'_>) -> Result<Self, ReadError> {
        Ok(Given {
            input: view.get(Key::<A>::last(INPUT))?,
            previous: view.fields().value(Key::<P>::last(PREVIOUS))?,
        })
    }

    fn payload_type() -> Type {
        Type::of::<Self>()
    }

    fn from_payload(payload: Value, node: &Name) -> Result<Self, ReadError> {
        payload_as(payload, node)
    }
}

impl<A: Data, P: Data> Reads for Given<A, P> {}
