//! Entries in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Change, Namespace, Row, StoreBackend, Vectors};
use crate::SaveError;

/// Keeps entries as long as the process lives. A clone shares them.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Rows>>);

type Rows = BTreeMap<(Namespace, String), Row>;

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        // No change leaves a row half made.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStore({} entries)", self.lock().len())
    }
}

fn change(rows: &mut Rows, change: Change) {
    match change {
        Change::Put(mut row) => {
            let key = (row.namespace.clone(), row.key.clone());
            if let Some(before) = rows.get(&key).filter(|before| before.lives_at(row.updated)) {
                row.created = before.created;
            }
            rows.insert(key, row);
        }
        Change::Refresh {
            namespace,
            key,
            expires,
        } => {
            if let Some(row) = rows.get_mut(&(namespace, key)) {
                row.expires = Some(expires);
            }
        }
        Change::Delete { namespace, key } => {
            rows.remove(&(namespace, key));
        }
    }
}

#[async_trait]
impl StoreBackend for MemoryStore {
    async fn write(&self, changes: Vec<Change>) -> Result<(), SaveError> {
        let mut rows = self.lock();
        changes.into_iter().for_each(|one| change(&mut rows, one));
        Ok(())
    }

    async fn get(&self, namespace: &Namespace, key: &str) -> Result<Option<Row>, SaveError> {
        let rows = self.lock();
        let row = rows.get(&(namespace.clone(), key.to_owned()));
        Ok(row.map(|row| without_vectors(row, false)))
    }

    async fn scan(
        &self,
        prefix: &Namespace,
        after: Option<(&Namespace, &str)>,
        limit: usize,
        vectors: bool,
    ) -> Result<Vec<Row>, SaveError> {
        let start = match after {
            Some((namespace, key)) => Bound::Excluded((namespace.clone(), key.to_owned())),
            None => Bound::Included((prefix.clone(), String::new())),
        };
        let rows = self.lock();
        let rows = rows.range((start, Bound::Unbounded)).map(|(_, row)| row);
        let rows = rows.take_while(|row| row.namespace.is_under(prefix));
        let rows = rows.take(limit).map(|row| without_vectors(row, vectors));
        Ok(rows.collect())
    }

    async fn namespaces(&self, prefix: &Namespace, now: u64) -> Result<Vec<Namespace>, SaveError> {
        let rows = self.lock();
        let live = rows
            .values()
            .filter(|row| row.lives_at(now) && row.namespace.is_under(prefix));
        let mut namespaces: Vec<Namespace> = live.map(|row| row.namespace.clone()).collect();
        namespaces.dedup();
        Ok(namespaces)
    }

    async fn sweep(&self, now: u64) -> Result<u64, SaveError> {
        let mut rows = self.lock();
        let before = rows.len();
        rows.retain(|_, row| row.lives_at(now));
        Ok((before - rows.len()) as u64)
    }
}

fn without_vectors(row: &Row, vectors: bool) -> Row {
    Row {
        vectors: if vectors {
            row.vectors.clone()
        } else {
            Vectors::new()
        },
        ..row.clone()
    }
}
