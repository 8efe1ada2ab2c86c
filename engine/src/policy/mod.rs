//! What happens around a node: retries, time limits, cached results.

mod cached;
mod limits;
mod retry;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use superstep_checkpoint::TaskId;
use tokio::runtime::Handle;

pub use cached::Cached;
pub(crate) use cached::{call_key, key};
pub use limits::TimeLimit;
use limits::{Idle, within};
pub use retry::Retry;

use crate::attempt::{Given, guard};
use crate::context::{Context, Scope};
use crate::error::TaskError;
use crate::executor::{Executor, Task, TaskOutcome};

/// What happens around a node: when it runs again after a failure, how long it may take, whether its result is kept for
/// equal inputs, and whether it blocks its thread.
///
/// ```
/// use std::time::Duration;
/// use superstep::prelude::*;
/// use superstep::{Policy, Retry};
///
/// const FETCH: Node<()> = Node::new("fetch");
/// async fn fetch(_: (), cx: Context) -> NodeResult {
///     if cx.attempt() < 3 {
///         return Err("not there yet".into());
///     }
///     Ok(Update::new())
/// }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let patient = Policy::new()
///     .retry(Retry::times(3))
///     .run_timeout(Duration::from_secs(30));
/// let graph = Graph::<()>::builder()
///     .node(FETCH, fetch)
///     .policy(FETCH, patient)
///     .entry(FETCH)
///     .build()?;
/// assert!(graph.detached().start(()).await?.done().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    retries: Vec<Retry>,
    run_timeout: Option<Duration>,
    idle: Option<Idle>,
    pub(crate) cached: Option<Cached>,
    blocking: Option<bool>,
}

impl Policy {
    /// One attempt without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs the node again after a failure. Of several retries the first whose predicate takes the error decides;
    /// attempts count over all of them.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retries.push(retry);
        self
    }

    /// How long one attempt may take.
    #[must_use]
    pub fn run_timeout(mut self, limit: Duration) -> Self {
        self.run_timeout = Some(limit);
        self
    }

    /// How long an attempt may give no sign of life: an event it emits, a nested run that begins or ends, a
    /// [`heartbeat`](Context::heartbeat).
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle = Some(Idle {
            limit,
            heartbeat_only: false,
        });
        self
    }

    /// How long an attempt may go without a [`heartbeat`](Context::heartbeat); nothing else counts.
    #[must_use]
    pub fn heartbeat_timeout(mut self, limit: Duration) -> Self {
        self.idle = Some(Idle {
            limit,
            heartbeat_only: true,
        });
        self
    }

    /// Keeps results for equal inputs.
    #[must_use]
    pub fn cached(mut self, cached: Cached) -> Self {
        self.cached = Some(cached);
        self
    }

    /// The node blocks its thread or computes for long: it runs on a thread where it holds up nobody.
    /// It needs a Tokio runtime. A thread cannot be stopped: after a timeout the run goes on without it, but it runs to its end.
    #[must_use]
    pub fn blocking(mut self) -> Self {
        self.blocking = Some(true);
        self
    }

    /// This policy, with what it does not say taken from `defaults`.
    pub(crate) fn or(&self, defaults: &Policy) -> Policy {
        let own = self.clone();
        Policy {
            retries: match own.retries.is_empty() {
                true => defaults.retries.clone(),
                false => own.retries,
            },
            run_timeout: own.run_timeout.or(defaults.run_timeout),
            idle: own.idle.or(defaults.idle),
            cached: own.cached.or_else(|| defaults.cached.clone()),
            blocking: own.blocking.or(defaults.blocking),
        }
    }

    /// Whether it asks for nothing.
    pub(crate) fn is_plain(&self) -> bool {
        let Policy {
            retries,
            run_timeout,
            idle,
            cached,
            blocking,
        } = self;
        retries.is_empty()
            && run_timeout.is_none()
            && idle.is_none()
            && cached.is_none()
            && blocking.is_none()
    }

    /// How long to wait before the next attempt, if there is to be one after `attempts` of them.
    fn again(&self, error: &TaskError, attempts: u32, task: TaskId) -> Option<Duration> {
        let retry = self.retries.iter().find(|retry| retry.takes(error))?;
        retry.delay(attempts, task)
    }
}

/// Runs a task of a node under its policy.
pub(crate) fn perform(
    policy: Arc<Policy>,
    executor: Arc<dyn Executor>,
    task: Task,
    scope: Arc<Scope>,
) -> BoxFuture<'static, TaskOutcome> {
    attempts(policy, task.id, move |number, watched| {
        let cx = Context::of_attempt(&task, Arc::clone(&scope), number, watched);
        (cx.clone(), executor.execute(task.clone(), cx))
    })
}

/// Makes attempts under a policy until one succeeds, asks, or is the last. `start` gets the number of the attempt and whether
/// somebody waits for its signs of life.
pub(crate) fn attempts<T: Given>(
    policy: Arc<Policy>,
    task: TaskId,
    start: impl Fn(u32, bool) -> (Context, BoxFuture<'static, TaskOutcome<T>>) + Send + 'static,
) -> BoxFuture<'static, TaskOutcome<T>> {
    Box::pin(async move {
        let mut number = 0;
        loop {
            number += 1;
            let (cx, run) = start(number, policy.idle.is_some());
            let outcome = attempt(&policy, run, &cx).await;
            let TaskOutcome::Failed(error) = outcome else {
                return outcome;
            };
            let Some(delay) = policy.again(&error, number, task) else {
                return TaskOutcome::Failed(error);
            };
            if !delay.is_zero() {
                match guard(|| tokio::time::sleep(delay)) {
                    Ok(pause) => pause.await,
                    Err(no_timer) => return TaskOutcome::Failed(no_timer),
                }
            }
        }
    })
}

/// One attempt, within its time limits.
async fn attempt<T: Given>(
    policy: &Policy,
    run: BoxFuture<'static, TaskOutcome<T>>,
    cx: &Context,
) -> TaskOutcome<T> {
    let run = match policy.blocking {
        Some(true) => aside(run),
        _ => run,
    };
    match (policy.run_timeout, policy.idle) {
        (None, None) => run.await,
        (limit, idle) => within(run, limit, idle, cx).await,
    }
}

/// Runs a future on a thread that may be blocked.
fn aside<T: Given>(run: BoxFuture<'static, TaskOutcome<T>>) -> BoxFuture<'static, TaskOutcome<T>> {
    Box::pin(async move {
        let Ok(runtime) = Handle::try_current() else {
            return TaskOutcome::Failed(TaskError::NoRuntime);
        };
        let inside = runtime.clone();
        let ended = runtime.spawn_blocking(move || inside.block_on(run)).await;
        ended.unwrap_or_else(|lost| TaskOutcome::Failed(TaskError::lost(lost)))
    })
}
