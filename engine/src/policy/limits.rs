//! How long an attempt may take.

use std::fmt;
use std::time::Duration;

use futures::future::{BoxFuture, Either, pending, select};
use tokio::time::{Instant, sleep_until};

use crate::attempt::guard;
use crate::context::Context;
use crate::error::TaskError;
use crate::executor::TaskOutcome;

/// Which limit an attempt reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// The one for the whole attempt.
    Run,
    /// The one for going without a sign of life.
    Idle,
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeLimit::Run => "it ran longer than",
            TimeLimit::Idle => "it gave no sign of life for",
        })
    }
}

/// How long an attempt may give no sign of life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) limit: Duration,
    pub(super) heartbeat_only: bool,
}

/// Runs one attempt, and drops it when it reaches a limit.
pub(super) async fn within<T>(
    run: BoxFuture<'static, TaskOutcome<T>>,
    limit: Option<Duration>,
    idle: Option<Idle>,
    cx: &Context,
) -> TaskOutcome<T> {
    // Whether there is a timer shows when the first one is made.
    if let Err(no_timer) = guard(|| drop(tokio::time::sleep(Duration::ZERO))) {
        return TaskOutcome::Failed(no_timer);
    }
    let whole = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => pending().await,
        }
        (TimeLimit::Run, limit.unwrap_or_default())
    };
    let silent = async {
        match idle {
            Some(idle) => silence(idle, cx).await,
            None => pending().await,
        }
        (
            TimeLimit::Idle,
            idle.map(|idle| idle.limit).unwrap_or_default(),
        )
    };
    let limits = select(Box::pin(whole), Box::pin(silent));
    match select(run, limits).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right((reached, _)) => {
            let (limit, after) = reached.factor_first().0;
            TaskOutcome::Failed(TaskError::TimedOut { limit, after })
        }
    }
}

/// Ends when the attempt has given no sign of life for as long as it may.
async fn silence(idle: Idle, cx: &Context) {
    let begun = Instant::now();
    loop {
        let last = cx.last_sign(idle.heartbeat_only).unwrap_or(begun);
        // A limit beyond all time is none.
        match last.checked_add(idle.limit) {
            Some(until) => sleep_until(until).await,
            None => pending().await,
        }
        if cx.last_sign(idle.heartbeat_only).unwrap_or(begun) == last {
            return;
        }
    }
}
