//! Results that are kept for equal inputs, in the same file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};

use super::SqliteCheckpointer;
use crate::{Cache, CacheKey, SaveError};

/// Milliseconds of Unix time; a clock before 1970 reads as 1970, one beyond all numbers as the end of time.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    millis(since.unwrap_or_default())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Results stay until they are too old or all are cleared; put with a time to live they are removed by a later put.
#[async_trait]
impl Cache for SqliteCheckpointer {
    async fn get(&self, CacheKey(key): CacheKey) -> Result<Option<Vec<u8>>, SaveError> {
        self.0.writer.settle().await?;
        self.read(move |db| {
            let found = db
                .prepare_cached(
                    "SELECT bytes FROM cache WHERE key = ?1 AND (until IS NULL OR until > ?2)",
                )?
                .query_row(params![key, now()], |row| row.get(0))
                .optional()?;
            Ok(found)
        })
        .await
    }

    async fn put(
        &self,
        CacheKey(key): CacheKey,
        bytes: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<(), SaveError> {
        self.write(move |db| {
            let now = now();
            let until = ttl.map(|ttl| now.saturating_add(millis(ttl)));
            db.prepare_cached("DELETE FROM cache WHERE until <= ?1")?
                .execute([now])?;
            db.prepare_cached("REPLACE INTO cache(key, until, bytes) VALUES(?1, ?2, ?3)")?
                .execute(params![key, until, bytes])?;
            Ok(())
        })
        .await
    }

    async fn clear(&self) -> Result<(), SaveError> {
        self.write(|db| {
            db.prepare_cached("DELETE FROM cache")?.execute([])?;
            Ok(())
        })
        .await
    }
}
