//! Functions that nodes call as tasks of their own.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::BoxFuture;
use superstep_channels::{Data, Name, Value};

use crate::context::Context;
use crate::error::NodeError;
use crate::policy::Policy;

/// A function that nodes [call](Context::call) as a task of its own: with an id, events, questions and a stored result.
///
/// It runs in the superstep of its caller. When the caller runs again, after a question, a failure or a crash,
/// results that are stored are handed out and not computed again.
///
/// ```
/// use superstep::prelude::*;
/// use superstep::Routine;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let double = Routine::new("double", |number: u32, _: Context| async move { Ok(2 * number) });
/// const SUM: Node<()> = Node::new("sum");
/// const TOTAL: Key<u32> = Key::last("total");
/// let graph = Graph::<()>::builder()
///     .channel(TOTAL.spec())
///     .node(SUM, move |_: (), cx: Context| {
///         let double = double.clone();
///         async move {
///             let calls = [1, 2, 3].map(|number| cx.call(&double, number));
///             let doubled = futures::future::try_join_all(calls).await?;
///             Ok(Update::new().put(TOTAL, doubled.iter().sum()))
///         }
///     })
///     .entry(SUM)
///     .build()?;
/// let thread = graph.thread(&MemoryCheckpointer::new(), "t");
/// thread.start(()).await?;
/// assert_eq!(thread.state().await?.values.value(TOTAL)?, Some(12));
/// # Ok(())
/// # }
/// ```
pub struct Routine<A, R> {
    pub(crate) name: Name,
    pub(crate) policy: Arc<Policy>,
    pub(crate) run: Arc<dyn Body<A>>,
    result: PhantomData<fn() -> R>,
}

/// The function of a routine, its result erased.
pub(crate) trait Body<A>: Send + Sync {
    fn call(&self, argument: A, cx: Context) -> BoxFuture<'static, Result<Value, NodeError>>;
}

impl<A, R, F, T> Body<A> for (F, PhantomData<fn() -> R>)
where
    F: Fn(A, Context) -> T + Send + Sync,
    T: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: Data,
{
    fn call(&self, argument: A, cx: Context) -> BoxFuture<'static, Result<Value, NodeError>> {
        let running = (self.0)(argument, cx);
        Box::pin(async move { running.await.map(Value::new) })
    }
}

impl<A: Data, R: Data> Routine<A, R> {
    /// A routine of this name.
    pub fn new<F, T>(name: impl Into<Name>, function: F) -> Self
    where
        F: Fn(A, Context) -> T + Send + Sync + 'static,
        T: Future<Output = Result<R, NodeError>> + Send + 'static,
    {
        Routine {
            name: name.into(),
            policy: Arc::default(),
            run: Arc::new((function, PhantomData::<fn() -> R>)),
            result: PhantomData,
        }
    }

    /// Says what happens around it: retries, time limits, kept results.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Arc::new(policy);
        self
    }
}

impl<A, R> Clone for Routine<A, R> {
    fn clone(&self) -> Self {
        Routine {
            name: self.name.clone(),
            policy: Arc::clone(&self.policy),
            run: Arc::clone(&self.run),
            result: PhantomData,
        }
    }
}

impl<A, R> fmt::Debug for Routine<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Routine({})", self.name)
    }
}
