//! Where a store keeps its entries.

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;

use super::Namespace;
use crate::SaveError;

/// The vectors of an entry: of one that is indexed, one for each text that is compared.
pub type Vectors = Vec<Vec<f32>>;

/// Keeps the entries of a [`Store`](super::Store). It decides nothing: what has expired it keeps and gives, until it is swept.
#[async_trait]
pub trait StoreBackend: Send + Sync + fmt::Debug {
    /// Makes changes in the order given, all or none.
    async fn write(&self, changes: Vec<Change>) -> Result<(), SaveError>;

    /// The row under a key, without its vectors.
    async fn get(&self, namespace: &Namespace, key: &str) -> Result<Option<Row>, SaveError>;

    /// Rows of the namespaces that begin with these segments, in the order of namespace and key, after one of them or from the first, at
    /// most `limit`. With their vectors, if so asked.
    async fn scan(
        &self,
        prefix: &Namespace,
        after: Option<(&Namespace, &str)>,
        limit: usize,
        vectors: bool,
    ) -> Result<Vec<Row>, SaveError>;

    /// The namespaces that begin with these segments and hold a row that lives at a moment, in order.
    async fn namespaces(&self, prefix: &Namespace, now: u64) -> Result<Vec<Namespace>, SaveError>;

    /// Removes the rows that do not live at a moment, and says how many there were.
    async fn sweep(&self, now: u64) -> Result<u64, SaveError>;
}

/// A change of what is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Puts a row. It replaces one of its key, of which only the time of creation stays, if it still lives when the new one is put.
    Put(Row),
    /// Sets when a row expires, if it is there.
    Refresh {
        /// Where.
        namespace: Namespace,
        /// Which.
        key: String,
        /// In milliseconds of Unix time.
        expires: u64,
    },
    /// Removes a row, if it is there.
    Delete {
        /// Where.
        namespace: Namespace,
        /// Which.
        key: String,
    },
}

/// One entry as it is kept. Times are in milliseconds of Unix time.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where it is.
    pub namespace: Namespace,
    /// Its key.
    pub key: String,
    /// The document.
    pub value: Value,
    /// When it was first put.
    pub created: u64,
    /// When it was last put.
    pub updated: u64,
    /// How long it lives after it was put or refreshed.
    pub ttl: Option<u64>,
    /// When it expires.
    pub expires: Option<u64>,
    /// What it is compared by.
    pub vectors: Vectors,
}

impl Row {
    /// Whether it has not expired.
    pub fn lives_at(&self, now: u64) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }
}
