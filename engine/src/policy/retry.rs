//! When a failed attempt is followed by another.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use superstep_checkpoint::TaskId;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::TaskError;

/// When and how often a node runs again after it failed.
///
/// The n-th attempt after a failure begins `initial * factor^(n-1)` later, but at most `max` later; with jitter up to
/// a second is added, which depends on the task and the attempt alone.
#[derive(Clone)]
pub struct Retry {
    attempts: u32,
    initial: Duration,
    factor: f64,
    max: Duration,
    jitter: bool,
    on: Arc<dyn Fn(&TaskError) -> bool + Send + Sync>,
}

impl Retry {
    /// Up to `attempts` attempts in all, the first of them included; half a second after the first failure, twice as long
    /// after each further one, at most 128 s, without jitter.
    ///
    /// It takes what a node returned as its error and what took too long. It does not take panics, updates that do not
    /// fit the graph, and answers that the node cannot read: another attempt would end the same way.
    pub fn times(attempts: u32) -> Self {
        Retry {
            attempts,
            initial: Duration::from_millis(500),
            factor: 2.0,
            max: Duration::from_secs(128),
            jitter: false,
            on: Arc::new(is_passing),
        }
    }

    /// How long to wait after the first failure, how much longer after each further one, and how long at most.
    #[must_use]
    pub fn backoff(mut self, initial: Duration, factor: f64, max: Duration) -> Self {
        self.initial = initial;
        self.factor = factor;
        self.max = max;
        self
    }

    /// Adds up to a second to each wait, so that tasks that failed together do not come back together.
    #[must_use]
    pub fn jitter(mut self) -> Self {
        self.jitter = true;
        self
    }

    /// Which errors it takes, in place of those said at [`times`](Retry::times). An error that a node returned is a
    /// [`TaskError::Node`], and [`NodeError::get_ref`](crate::NodeError::get_ref) gives it as it was.
    #[must_use]
    pub fn on(mut self, takes: impl Fn(&TaskError) -> bool + Send + Sync + 'static) -> Self {
        self.on = Arc::new(takes);
        self
    }

    pub(super) fn takes(&self, error: &TaskError) -> bool {
        // A wrong answer does not get right by itself; its question stands.
        !matches!(error, TaskError::BadAnswer { .. }) && (self.on)(error)
    }

    /// How long to wait after this many attempts; nothing if they were all.
    pub(super) fn delay(&self, attempts: u32, task: TaskId) -> Option<Duration> {
        if attempts >= self.attempts {
            return None;
        }
        let exponent = i32::try_from(attempts.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.initial.as_secs_f64() * self.factor.powi(exponent);
        // Infinite, negative or not a number: as long as it may be.
        let grown = Duration::try_from_secs_f64(seconds).unwrap_or(self.max);
        let jitter = match self.jitter {
            true => scatter(task, attempts),
            false => Duration::ZERO,
        };
        Some(grown.min(self.max).saturating_add(jitter))
    }
}

/// Whether another attempt may end otherwise.
fn is_passing(error: &TaskError) -> bool {
    matches!(error, TaskError::Node(_) | TaskError::TimedOut { .. })
}

/// Up to a second, the same for the same attempt at the same task.
fn scatter(task: TaskId, attempt: u32) -> Duration {
    let mut bytes = [0; 20];
    bytes[..16].copy_from_slice(&task.0);
    bytes[16..].copy_from_slice(&attempt.to_be_bytes());
    Duration::from_millis(xxh3_64(&bytes) % 1000)
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("attempts", &self.attempts)
            .field("initial", &self.initial)
            .field("factor", &self.factor)
            .field("max", &self.max)
            .field("jitter", &self.jitter)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_the_longest() {
        let task = TaskId([7; 16]);
        let retry = Retry::times(6).backoff(Duration::from_secs(1), 3.0, Duration::from_secs(20));
        let waits: Vec<_> = (1..7).map(|attempts| retry.delay(attempts, task)).collect();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let expected = [
            seconds(1),
            seconds(3),
            seconds(9),
            seconds(20),
            seconds(20),
            None,
        ];
        assert_eq!(waits, expected);
    }

    #[test]
    fn odd_factors_wait_as_long_as_it_may_be() {
        for factor in [f64::NAN, f64::INFINITY, -2.0] {
            let max = Duration::from_secs(5);
            let retry = Retry::times(9).backoff(Duration::from_secs(1), factor, max);
            assert_eq!(retry.delay(2, TaskId([0; 16])), Some(max));
        }
        let longest = Retry::times(9).backoff(Duration::MAX, 2.0, Duration::MAX);
        let wait = longest.jitter().delay(3, TaskId([7; 16]));
        assert_eq!(wait, Some(Duration::MAX));
    }

    #[test]
    fn jitter_depends_on_task_and_attempt_alone() {
        let wait = |task: u8, attempt| {
            Retry::times(9)
                .backoff(Duration::ZERO, 1.0, Duration::ZERO)
                .jitter()
                .delay(attempt, TaskId([task; 16]))
                .unwrap()
        };
        assert_eq!(wait(1, 1), wait(1, 1));
        assert_ne!(wait(1, 1), wait(2, 1));
        assert_ne!(wait(1, 1), wait(1, 2));
        assert!((0..50).all(|task| wait(task, 1) < Duration::from_secs(1)));
    }
}
