//! Asking again.

use std::time::Duration;

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use super::{ChatModel, ChunkStream, ModelError, Request};

/// How often and for how long a request is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often in all, the first time included; 0 counts as 1.
    pub attempts: u32,
    /// No attempt starts later than this after the first one.
    pub budget: Duration,
    /// The first wait; each further one is twice as long. Chance makes a wait up to twice as long again.
    pub first_wait: Duration,
    /// The longest wait, unless the provider asks for more.
    pub longest_wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: 4,
            budget: Duration::from_secs(120),
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(20),
        }
    }
}

/// A model that asks again when the one inside fails with a [retryable](ModelError::is_retryable) error.
///
/// It waits as long as the provider wants, or by exponential back-off. When the next attempt would be one too many
/// or too late, the error comes back at once. Once a chunk was handed out it never asks again: the reply's
/// beginning would come twice.
#[derive(Clone, Debug)]
pub struct Retrying<M> {
    model: M,
    retry: Retry,
}

impl<M: ChatModel> Retrying<M> {
    /// Wraps a model.
    pub fn new(model: M, retry: Retry) -> Self {
        Retrying { model, retry }
    }
}

#[async_trait]
impl<M: ChatModel> ChatModel for Retrying<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn stream(&self, request: Request) -> Result<ChunkStream, ModelError> {
        let start = Instant::now();
        let mut waits = self.retry.waits();
        loop {
            let error = match begin(&self.model, request.clone()).await {
                Err(error) if error.is_retryable() => error,
                result => return result,
            };
            let Some(wait) = waits.next() else {
                return Err(error);
            };
            let wait = error.retry_after().unwrap_or(wait);
            if start.elapsed().saturating_add(wait) > self.retry.budget {
                return Err(error);
            }
            sleep(wait).await;
        }
    }
}

impl Retry {
    fn waits(self) -> impl Iterator<Item = Duration> {
        let retries = self.attempts.saturating_sub(1);
        ExponentialBuilder::default()
            .with_min_delay(self.first_wait)
            .with_max_delay(self.longest_wait)
            .with_max_times(usize::try_from(retries).unwrap_or(usize::MAX))
            .with_jitter()
            .build()
    }
}

/// Starts a reply and waits for its first chunk, since many failures show up only there.
async fn begin(model: &impl ChatModel, request: Request) -> Result<ChunkStream, ModelError> {
    let mut chunks = model.stream(request).await?;
    let first = chunks.next().await.transpose()?;
    Ok(stream::iter(first.map(Ok)).chain(chunks).boxed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use crate::model::{ScriptedModel, Turn, complete};

    const RETRY: Retry = Retry {
        attempts: 4,
        budget: Duration::from_secs(60),
        first_wait: Duration::from_secs(1),
        longest_wait: Duration::from_secs(2),
    };

    fn limited(seconds: u64) -> ModelError {
        ModelError::RateLimited {
            said: "slow down".into(),
            retry_after: Some(Duration::from_secs(seconds)),
        }
    }

    fn lost() -> ModelError {
        ModelError::Transport("lost".into())
    }

    /// The result, how many requests it took, and the seconds.
    async fn run(
        script: impl IntoIterator<Item = Turn>,
    ) -> (Result<Message, ModelError>, usize, f64) {
        let model = Retrying::new(ScriptedModel::new(script), RETRY);
        let start = Instant::now();
        let result = complete(&model, Request::default()).await;
        let seconds = start.elapsed().as_secs_f64();
        (result, model.model.requests().len(), seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn the_provider_says_how_long() {
        let (result, requests, seconds) = run([limited(50).into(), Message::ai("Hi").into()]).await;
        assert_eq!((result.unwrap().text().as_ref(), requests), ("Hi", 2));
        assert!((50.0..50.1).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_beyond_the_budget_is_not_begun() {
        for seconds in [61, u64::MAX] {
            assert_eq!(
                run([limited(seconds).into()]).await,
                (Err(limited(seconds)), 1, 0.0)
            );
        }
        let (result, requests, seconds) = run([limited(40), limited(40)].map(Turn::from)).await;
        assert_eq!((result, requests), (Err(limited(40)), 2));
        assert!((40.0..40.1).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_up_to_the_longest() {
        let (result, requests, seconds) = run(vec![lost().into(); 5]).await;
        assert_eq!((result, requests), (Err(lost()), 4));
        // 1 + 2 + 2, and chance up to as much again.
        assert!((5.0..=10.1).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_tried_again() {
        let refused = ModelError::Refused("no".into());
        assert_eq!(run([refused.clone().into()]).await, (Err(refused), 1, 0.0));
        let cut = ModelError::Interrupted {
            partial: Box::new(Message::ai("Hel")),
            cause: Box::new(lost()),
        };
        assert_eq!(run([cut.clone().into()]).await, (Err(cut), 1, 0.0));
    }
}
