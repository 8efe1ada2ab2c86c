//! Long-term memory across threads: JSON documents under keys in namespaces.
//!
//! A [`Store`] is what programs use; where it keeps its entries is a [`StoreBackend`]: [`MemoryStore`], a SQLite file, PostgreSQL.
//! Everything that decides an answer (filters, order, time to live, similarity) is done in the `Store`, so all backends give the same ones.

mod backend;
mod filter;
mod memory;
mod namespace;
mod search;
mod similar;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod tables;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::SaveError;

pub use backend::{Change, Row, StoreBackend, Vectors};

pub use filter::{Filter, FilterError};
pub use memory::MemoryStore;
pub use namespace::{Namespace, NamespaceError, Segment};
pub use search::{Found, Listing, Search};
pub use similar::Embed;

use similar::Index;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use tables::{StoredRow, stored_namespace};

/// Documents that outlive a thread: what an agent knows of its user, say.
///
/// ```
/// use serde_json::json;
/// use superstep_checkpoint::store::{MemoryStore, Search, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), superstep_checkpoint::store::StoreError> {
/// let store = Store::new(MemoryStore::new());
/// store.put(["users", "ada"], "likes", json!({ "food": "rice", "rank": 3 })).await?;
/// let found = store.search(Search::under(["users"]).at_least("rank", 2)).await?;
/// assert_eq!(found[0].entry.value["food"], "rice");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    backend: Arc<dyn StoreBackend>,
    index: Option<Arc<Index>>,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

/// A document with what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where it is.
    pub namespace: Namespace,
    /// Its name there.
    pub key: String,
    /// The document.
    pub value: Value,
    /// When it was first put there.
    pub created: SystemTime,
    /// When it was last put there.
    pub updated: SystemTime,
    /// When it will be gone, if nothing happens to it.
    pub expires: Option<SystemTime>,
}

/// How something is put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// How long it stays; without one until it is deleted.
    pub ttl: Option<Duration>,
    /// It is not to be found by similarity, though the store has an index.
    pub unindexed: bool,
}

/// One operation of a [batch](Store::batch).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Op {
    /// [`Store::get`], or [`Store::get_refreshing`].
    Get {
        /// Where.
        namespace: Namespace,
        /// Which.
        key: String,
        /// Whether its time to live begins anew.
        refresh: bool,
    },
    /// [`Store::put_with`].
    Put {
        /// Where.
        namespace: Namespace,
        /// Under which key.
        key: String,
        /// The document.
        value: Value,
        /// How.
        how: Put,
    },
    /// [`Store::delete`].
    Delete {
        /// Where.
        namespace: Namespace,
        /// Which.
        key: String,
    },
    /// [`Store::search`].
    Search(Search),
    /// [`Store::namespaces`].
    Namespaces(Listing),
}

/// What became of an [`Op`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// Of a get.
    Entry(Option<Entry>),
    /// Of a search.
    Found(Vec<Found>),
    /// Of a listing.
    Namespaces(Vec<Namespace>),
    /// Of a put or a delete.
    Done,
}

/// Why a store could not do as it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// What it is kept in failed.
    #[error(transparent)]
    Backend(#[from] SaveError),
    /// A namespace that nothing can be in.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A search by similarity in a store without an index.
    #[error("the store has no index: a search by similarity needs one (`Store::indexed`)")]
    NoIndex,
    /// The embedding function failed.
    #[error("the embedding function failed")]
    Embedding(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The embedding function did not give what it should.
    #[error("the embedding function gave {found} where {expected} was to be")]
    Embedded {
        /// What was to be.
        expected: String,
        /// What it gave.
        found: String,
    },
}

impl Store {
    /// A store that keeps its entries in a backend.
    pub fn new(backend: impl StoreBackend + 'static) -> Self {
        Store {
            backend: Arc::new(backend),
            index: None,
            clock: Arc::new(SystemTime::now),
        }
    }

    /// Makes entries that are put from now on findable by similarity. What is compared is the text of these top-level fields of a document, each for itself;
    /// without fields the document as a whole.
    #[must_use]
    pub fn indexed<F: Into<String>>(
        mut self,
        embed: impl Embed + 'static,
        fields: impl IntoIterator<Item = F>,
    ) -> Self {
        self.index = Some(Arc::new(Index {
            embed: Box::new(embed),
            fields: fields.into_iter().map(Into::into).collect(),
        }));
        self
    }

    /// Takes the time from somewhere else: for tests of what expires.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Puts a document, which stays until it is replaced or deleted.
    pub async fn put(
        &self,
        namespace: impl Into<Namespace>,
        key: impl Into<String>,
        value: Value,
    ) -> Result<(), StoreError> {
        self.put_with(namespace, key, value, Put::default()).await
    }

    /// Puts a document, and says how.
    pub async fn put_with(
        &self,
        namespace: impl Into<Namespace>,
        key: impl Into<String>,
        value: Value,
        how: Put,
    ) -> Result<(), StoreError> {
        let (namespace, key) = (namespace.into(), key.into());
        let op = Op::Put {
            namespace,
            key,
            value,
            how,
        };
        self.batch(vec![op]).await.map(drop)
    }

    /// The entry under a key.
    pub async fn get(
        &self,
        namespace: impl Into<Namespace>,
        key: &str,
    ) -> Result<Option<Entry>, StoreError> {
        self.read(&namespace.into(), key, false).await
    }

    /// The same, and its time to live begins anew.
    pub async fn get_refreshing(
        &self,
        namespace: impl Into<Namespace>,
        key: &str,
    ) -> Result<Option<Entry>, StoreError> {
        self.read(&namespace.into(), key, true).await
    }

    /// Removes the entry under a key. One that is not there is no error.
    pub async fn delete(
        &self,
        namespace: impl Into<Namespace>,
        key: impl Into<String>,
    ) -> Result<(), StoreError> {
        let (namespace, key) = (namespace.into(), key.into());
        self.batch(vec![Op::Delete { namespace, key }])
            .await
            .map(drop)
    }

    /// Does several things: the reads see what was there before, in the order given; then all changes are made, or none. Of several changes
    /// to one entry the last counts.
    pub async fn batch(&self, ops: Vec<Op>) -> Result<Vec<Reply>, StoreError> {
        let mut replies = Vec::with_capacity(ops.len());
        let mut changes = Vec::new();
        for op in ops {
            replies.push(match op {
                Op::Get {
                    namespace,
                    key,
                    refresh,
                } => Reply::Entry(self.read(&namespace, &key, refresh).await?),
                Op::Search(search) => Reply::Found(self.search(search).await?),
                Op::Namespaces(listing) => Reply::Namespaces(self.namespaces(listing).await?),
                Op::Put {
                    namespace,
                    key,
                    value,
                    how,
                } => {
                    changes.push(self.put_change(namespace, key, value, how).await?);
                    Reply::Done
                }
                Op::Delete { namespace, key } => {
                    namespace.check()?;
                    changes.push(Change::Delete { namespace, key });
                    Reply::Done
                }
            });
        }
        if !changes.is_empty() {
            self.backend.write(changes).await?;
        }
        Ok(replies)
    }

    /// Removes what has expired, and says how much that was. Nobody sees it before either; this gives back the room.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        Ok(self.backend.sweep(self.now()).await?)
    }

    async fn put_change(
        &self,
        namespace: Namespace,
        key: String,
        value: Value,
        how: Put,
    ) -> Result<Change, StoreError> {
        namespace.check()?;
        let now = self.now();
        let ttl = how.ttl.map(millis);
        let vectors = match &self.index {
            Some(index) if !how.unindexed => index.vectors_of(&value).await?,
            _ => Vec::new(),
        };
        Ok(Change::Put(Row {
            namespace,
            key,
            value,
            created: now,
            updated: now,
            ttl,
            expires: ttl.map(|ttl| after(now, ttl)),
            vectors,
        }))
    }

    async fn read(
        &self,
        namespace: &Namespace,
        key: &str,
        refresh: bool,
    ) -> Result<Option<Entry>, StoreError> {
        namespace.check()?;
        let now = self.now();
        let row = self.backend.get(namespace, key).await?;
        let Some(row) = row.filter(|row| row.lives_at(now)) else {
            return Ok(None);
        };
        if refresh {
            self.refresh([&row], now).await?;
        }
        Ok(Some(self.entry(row, refresh.then_some(now))))
    }

    /// Lets the time to live of rows begin anew.
    async fn refresh(
        &self,
        rows: impl IntoIterator<Item = &Row>,
        now: u64,
    ) -> Result<(), StoreError> {
        let changes = rows.into_iter().filter_map(|row| {
            Some(Change::Refresh {
                namespace: row.namespace.clone(),
                key: row.key.clone(),
                expires: after(now, row.ttl?),
            })
        });
        let changes: Vec<_> = changes.collect();
        match changes.is_empty() {
            true => Ok(()),
            false => Ok(self.backend.write(changes).await?),
        }
    }

    fn entry(&self, row: Row, refreshed: Option<u64>) -> Entry {
        let expires = match (row.ttl, refreshed) {
            (Some(ttl), Some(now)) => Some(after(now, ttl)),
            _ => row.expires,
        };
        Entry {
            namespace: row.namespace,
            key: row.key,
            value: row.value,
            created: moment(row.created),
            updated: moment(row.updated),
            expires: expires.map(moment),
        }
    }

    fn now(&self) -> u64 {
        let since = (self.clock)().duration_since(UNIX_EPOCH);
        millis(since.unwrap_or_default())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.backend).finish()
    }
}

/// Milliseconds as every backend can keep them.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).map_or(LATEST, |millis| millis.min(LATEST))
}

/// The last moment that is told apart, in milliseconds of Unix time.
const LATEST: u64 = i64::MAX as u64;

fn after(now: u64, ttl: u64) -> u64 {
    now.saturating_add(ttl).min(LATEST)
}

fn moment(millis: u64) -> SystemTime {
    let moment = UNIX_EPOCH.checked_add(Duration::from_millis(millis));
    moment.unwrap_or(UNIX_EPOCH)
}
