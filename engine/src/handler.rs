//! What runs in place of a node that failed.

use std::marker::PhantomData;

use futures::future::BoxFuture;
use superstep_channels::{Name, Type, Value};

use crate::context::Context;
use crate::error::ReadError;
use crate::node::{NodeResult, Running, TaskInput};
use crate::state::{Input, Schema};

/// How a node failed, for its error handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFailure {
    /// The node.
    pub node: Name,
    /// What its last error said, with the errors that led to it.
    pub error: String,
}

/// An `async fn(Input, NodeFailure, Context) -> NodeResult`: an error handler. Nobody implements it by hand.
#[diagnostic::on_unimplemented(
    message = "this function cannot handle errors of a node with input `{I}`",
    label = "not an `async fn({I}, NodeFailure, Context) -> NodeResult`",
    note = "a handler is an `async fn` that takes the node's input type, a `NodeFailure` and a `Context`"
)]
pub trait Rescue<I>: Send + Sync + 'static {
    /// Calls the function.
    fn call(&self, input: I, failure: NodeFailure, cx: Context) -> BoxFuture<'static, NodeResult>;
}

impl<I, F, R> Rescue<I> for F
where
    F: Fn(I, NodeFailure, Context) -> R + Send + Sync + 'static,
    R: Running + Send + 'static,
{
    fn call(&self, input: I, failure: NodeFailure, cx: Context) -> BoxFuture<'static, NodeResult> {
        Box::pin(self(input, failure, cx))
    }
}

/// A handler under its name; the type of its input is known at run time only.
pub(crate) struct ErrorHandler {
    name: Name,
    run: Box<dyn ErasedRescue>,
}

trait ErasedRescue: Send + Sync {
    fn schema(&self) -> Schema;
    fn payload_type(&self) -> Type;
    fn call(
        &self,
        input: TaskInput,
        failure: NodeFailure,
        cx: Context,
    ) -> Result<BoxFuture<'static, NodeResult>, ReadError>;
}

struct Typed<I, H>(H, PhantomData<fn(I)>);

impl<I: Input, H: Rescue<I>> ErasedRescue for Typed<I, H> {
    fn schema(&self) -> Schema {
        I::schema()
    }

    fn payload_type(&self) -> Type {
        I::payload_type()
    }

    fn call(
        &self,
        input: TaskInput,
        failure: NodeFailure,
        cx: Context,
    ) -> Result<BoxFuture<'static, NodeResult>, ReadError> {
        let input = match input {
            TaskInput::State(fields) => I::read(&fields.view())?,
            TaskInput::Payload(value) => I::from_payload(value, cx.node())?,
        };
        Ok(self.0.call(input, failure, cx))
    }
}

impl ErrorHandler {
    /// The handler of one node.
    pub(crate) fn of_node<I: Input>(node: &str, handler: impl Rescue<I>) -> Self {
        ErrorHandler {
            name: format!("__error_handler__{node}").into(),
            run: Box::new(Typed(handler, PhantomData)),
        }
    }

    /// The handler of all nodes that have none.
    pub(crate) fn of_graph<I: Input>(handler: impl Rescue<I>) -> Self {
        ErrorHandler {
            name: "__default_error_handler__".into(),
            run: Box::new(Typed(handler, PhantomData)),
        }
    }

    /// What it is called in events and records; no node can have such a name.
    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// What it reads beside what the node does.
    pub(crate) fn schema(&self) -> Schema {
        self.run.schema()
    }

    /// Whether it can take what was sent to the node.
    pub(crate) fn takes(&self, payload: &Value) -> bool {
        payload.type_of() == self.run.payload_type()
    }

    pub(crate) fn call(
        &self,
        input: TaskInput,
        failure: NodeFailure,
        cx: Context,
    ) -> Result<BoxFuture<'static, NodeResult>, ReadError> {
        self.run.call(input, failure, cx)
    }
}
