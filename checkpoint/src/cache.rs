//! Results that are kept for equal inputs: bytes under keys, for a while.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::SaveError;

/// What a result is kept under: a hash of all that it depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey(pub [u8; 16]);

impl fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Keeps bytes under keys, as long as it has room for them.
///
/// It may forget anything at any time, and never gives bytes that were put under another key.
#[async_trait]
pub trait Cache: Send + Sync + fmt::Debug {
    /// The bytes under a key, unless they are gone or older than they may be.
    async fn get(&self, key: CacheKey) -> Result<Option<Vec<u8>>, SaveError>;

    /// Keeps bytes, for at most `ttl` if it is given. They replace what was there.
    async fn put(
        &self,
        key: CacheKey,
        bytes: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<(), SaveError>;

    /// Forgets everything.
    async fn clear(&self) -> Result<(), SaveError>;
}

/// Keeps results as long as the process lives, up to a number of bytes; beyond it forgets what was put first.
///
/// A clone shares what is kept.
///
/// ```
/// use superstep_checkpoint::{Cache, CacheKey, MemoryCache};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), superstep_checkpoint::SaveError> {
/// let cache = MemoryCache::new(10);
/// let [a, b] = [CacheKey([1; 16]), CacheKey([2; 16])];
/// cache.put(a, vec![0; 6], None).await?;
/// cache.put(b, vec![0; 6], None).await?;
/// assert_eq!(cache.get(a).await?, None);
/// assert_eq!(cache.get(b).await?, Some(vec![0; 6]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryCache {
    kept: Arc<Mutex<Kept>>,
    max_bytes: usize,
}

#[derive(Default)]
struct Kept {
    entries: HashMap<CacheKey, Entry>,
    /// In the order in which they were put.
    order: BTreeMap<u64, CacheKey>,
    next: u64,
    bytes: usize,
}

struct Entry {
    bytes: Vec<u8>,
    order: u64,
    until: Option<Instant>,
}

impl MemoryCache {
    /// An empty cache for up to `max_bytes` bytes of results.
    pub fn new(max_bytes: usize) -> Self {
        MemoryCache {
            kept: Arc::default(),
            max_bytes,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing that can panic runs under the lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, key: CacheKey) {
        if let Some(entry) = self.entries.remove(&key) {
            self.order.remove(&entry.order);
            self.bytes -= entry.bytes.len();
        }
    }

    fn insert(&mut self, key: CacheKey, bytes: Vec<u8>, until: Option<Instant>) {
        let order = self.next;
        self.next += 1;
        self.bytes += bytes.len();
        self.order.insert(order, key);
        let entry = Entry {
            bytes,
            order,
            until,
        };
        self.entries.insert(key, entry);
    }

    fn shrink(&mut self, max_bytes: usize) {
        while self.bytes > max_bytes
            && let Some((_, &oldest)) = self.order.first_key_value()
        {
            self.remove(oldest);
        }
    }
}

#[async_trait]
impl Cache for MemoryCache {
    async fn get(&self, key: CacheKey) -> Result<Option<Vec<u8>>, SaveError> {
        let mut kept = self.kept();
        let entry = kept.entries.get(&key);
        let over = entry.and_then(|entry| entry.until);
        if over.is_some_and(|until| until <= Instant::now()) {
            kept.remove(key);
        }
        Ok(kept.entries.get(&key).map(|entry| entry.bytes.clone()))
    }

    async fn put(
        &self,
        key: CacheKey,
        bytes: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<(), SaveError> {
        // A time that no clock reaches is no limit.
        let until = ttl.and_then(|ttl| Instant::now().checked_add(ttl));
        let mut kept = self.kept();
        kept.remove(key);
        kept.insert(key, bytes, until);
        kept.shrink(self.max_bytes);
        Ok(())
    }

    async fn clear(&self) -> Result<(), SaveError> {
        *self.kept() = Kept::default();
        Ok(())
    }
}

impl fmt::Debug for MemoryCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (entries, bytes) = {
            let kept = self.kept();
            (kept.entries.len(), kept.bytes)
        };
        write!(f, "MemoryCache({entries} results, {bytes} bytes)")
    }
}
