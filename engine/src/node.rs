//! Nodes: names with a type, and the functions behind them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::BoxFuture;
use superstep_channels::{Data, Name, Type, Value};

use crate::context::Context;
use crate::error::{NodeError, ReadError};
use crate::graph::Core;
use crate::state::{Fields, Input, Reads, Schema};
use crate::update::Update;

/// What a node returns.
pub type NodeResult = Result<Update, NodeError>;

/// A node's name and the type of its input.
///
/// A node whose input is a [`State`](crate::State) reads the channels and can stand at the end of an edge.
/// A node whose input is any other type is reached by [`send`](Update::send) only.
pub struct Node<I> {
    name: Name,
    input: PhantomData<fn(I)>,
}

impl<I> Node<I> {
    /// A node with a constant name.
    pub const fn new(name: &'static str) -> Self {
        Node {
            name: Name::Borrowed(name),
            input: PhantomData,
        }
    }

    /// A node whose name is made at run time.
    pub fn named(name: impl Into<Name>) -> Self {
        Node {
            name: name.into(),
            input: PhantomData,
        }
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }
}

impl<I: Data> Node<I> {
    /// This node with a payload: what [`send`](Update::send) sends, for branches that send.
    pub fn with(self, payload: I) -> Target {
        Target::Send(self.name, Value::new(payload))
    }
}

impl<I> Clone for Node<I> {
    fn clone(&self) -> Self {
        Node::named(self.name.clone())
    }
}

impl<I> fmt::Debug for Node<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.name)
    }
}

/// Where a run goes next.
#[derive(Clone, Debug)]
pub enum Target {
    /// A node, on the state.
    Node(Name),
    /// A node, on a payload of its own.
    Send(Name, Value),
}

impl<I: Reads> From<Node<I>> for Target {
    fn from(node: Node<I>) -> Self {
        Target::Node(node.name)
    }
}

/// What a branch may return: nothing, a node, a [`Target`], or any number of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where to go next",
    note = "return a `Node` that reads the state, `node.with(payload)`, or an `Option`, `Vec`, array or `Result` of them"
)]
pub trait Targets {
    /// Adds the targets to a list.
    fn collect(self, into: &mut Vec<Target>) -> Result<(), NodeError>;
}

impl Targets for Target {
    fn collect(self, into: &mut Vec<Target>) -> Result<(), NodeError> {
        into.push(self);
        Ok(())
    }
}

impl<I: Reads> Targets for Node<I> {
    fn collect(self, into: &mut Vec<Target>) -> Result<(), NodeError> {
        into.push(self.into());
        Ok(())
    }
}

impl<T: Targets> Targets for Option<T> {
    fn collect(self, into: &mut Vec<Target>) -> Result<(), NodeError> {
        self.map_or(Ok(()), |target| target.collect(into))
    }
}

impl<T: Targets> Targets for Vec<T> {
    fn collect(self, into: &mut Vec<Target>) -> Result<(), NodeError> {
        self.into_iter().try_for_each(|target| target.collect(into))
    }
}

impl<T: Targets, const N: usize> Targets for [T; N] {
    fn collect(self, into: &mut Vec<Target>) -> Result<(), NodeError> {
        self.into_iter().try_for_each(|target| target.collect(into))
    }
}

impl<T: Targets, E: Into<NodeError>> Targets for Result<T, E> {
    fn collect(self, into: &mut Vec<Target>) -> Result<(), NodeError> {
        self.map_err(Into::into)?.collect(into)
    }
}

/// An `async fn(Input, Context) -> NodeResult`. Nobody implements it by hand.
#[diagnostic::on_unimplemented(
    message = "this function cannot be a node with input `{I}`",
    label = "not an `async fn({I}, Context) -> NodeResult`",
    note = "a node is an `async fn` that takes the node's input type and a `Context` and returns a `NodeResult`"
)]
pub trait Handler<I>: Send + Sync + 'static {
    /// Calls the function.
    fn call(&self, input: I, cx: Context) -> BoxFuture<'static, NodeResult>;
}

impl<I, F, R> Handler<I> for F
where
    F: Fn(I, Context) -> R + Send + Sync + 'static,
    R: Running + Send + 'static,
{
    fn call(&self, input: I, cx: Context) -> BoxFuture<'static, NodeResult> {
        Box::pin(self(input, cx))
    }
}

/// What an `async fn` of a node returns. A name of its own lets the compiler say what is wrong with another.
#[diagnostic::on_unimplemented(
    message = "a node is an `async fn` that returns a `NodeResult`; this function returns `{Self}`",
    label = "not an `async fn(_, Context) -> NodeResult`"
)]
pub trait Running: Future<Output = NodeResult> {}

#[diagnostic::do_not_recommend]
impl<R: Future<Output = NodeResult>> Running for R {}

/// What a task runs on: the channels its node reads as they were when the superstep began, or a payload.
#[derive(Clone, Debug)]
pub enum TaskInput {
    /// The channels.
    State(Fields),
    /// What was sent.
    Payload(Value),
}

/// A [`Handler`] whose input type is known at run time only.
pub(crate) trait ErasedNode: Send + Sync {
    fn schema(&self) -> Schema;
    /// The type of what can be sent to it.
    fn payload_type(&self) -> Type;
    /// The graph that it is.
    fn inside(&self) -> Option<Arc<Core>> {
        None
    }
    fn call(
        &self,
        input: TaskInput,
        cx: Context,
    ) -> Result<BoxFuture<'static, NodeResult>, ReadError>;
}

struct Typed<I, H>(H, PhantomData<fn(I)>);

impl<I: Input, H: Handler<I>> ErasedNode for Typed<I, H> {
    fn schema(&self) -> Schema {
        I::schema()
    }

    fn payload_type(&self) -> Type {
        I::payload_type()
    }

    fn call(
        &self,
        input: TaskInput,
        cx: Context,
    ) -> Result<BoxFuture<'static, NodeResult>, ReadError> {
        let input = match input {
            TaskInput::State(fields) => I::read(&fields.view())?,
            TaskInput::Payload(value) => I::from_payload(value, cx.node())?,
        };
        Ok(self.0.call(input, cx))
    }
}

pub(crate) fn erase<I: Input>(handler: impl Handler<I>) -> Arc<dyn ErasedNode> {
    Arc::new(Typed(handler, PhantomData))
}
