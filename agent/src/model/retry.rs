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
