//! The long-term store, in the same file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};

use super::{SqliteCheckpointer, Stop};
use crate::SaveError;
use crate::store::{Change, Namespace, Row, StoreBackend, StoredRow, stored_namespace};

fn write(db: &Connection, changes: &[Change]) -> Result<(), Stop> {
    for change in changes {
        match change {
            Change::Put(row) => put(db, row)?,
            Change::Refresh {
                namespace,
                key,
                expires,
            } => {
                db.prepare_cached(
                    "UPDATE entries SET expires = ?3 WHERE namespace = ?1 AND key = ?2",
                )?
                .execute(params![namespace.encode(), key.as_bytes(), expires])?;
            }
            Change::Delete { namespace, key } => {
                db.prepare_cached("DELETE FROM entries WHERE namespace = ?1 AND key = ?2")?
                    .execute(params![namespace.encode(), key.as_bytes()])?;
            }
        }
    }
    Ok(())
}

fn put(db: &Connection, row: &Row) -> Result<(), Stop> {
    let (value, vectors) = row.sealed().map_err(Stop::Rule)?;
    db.prepare_cached(
        "INSERT INTO entries(namespace, key, value, created, updated, ttl, expires, vectors) \
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) \
         ON CONFLICT(namespace, key) DO UPDATE SET \
            created = CASE WHEN expires <= excluded.updated THEN excluded.created ELSE created END, \
            value = excluded.value, updated = excluded.updated, ttl = excluded.ttl, \
            expires = excluded.expires, vectors = excluded.vectors",
    )?
    .execute(params![
        row.namespace.encode(),
        row.key.as_bytes(),
        value,
        row.created,
        row.updated,
        row.ttl,
        row.expires,
        vectors
    ])?;
    Ok(())
}

fn read(row: &SqlRow<'_>) -> Result<Row, Stop> {
    let stored = StoredRow {
        namespace: row.get(0)?,
        key: row.get(1)?,
        value: row.get(2)?,
        created: row.get(3)?,
        updated: row.get(4)?,
        ttl: row.get(5)?,
        expires: row.get(6)?,
        vectors: row.get(7)?,
    };
    stored.open().map_err(Stop::Damaged)
}

#[async_trait]
impl StoreBackend for SqliteCheckpointer {
    async fn write(&self, changes: Vec<Change>) -> Result<(), SaveError> {
        self.write(move |db| write(db, &changes)).await
    }

    async fn get(&self, namespace: &Namespace, key: &str) -> Result<Option<Row>, SaveError> {
        let (namespace, key) = (namespace.encode(), key.as_bytes().to_vec());
        self.0.writer.settle().await?;
        self.read(move |db| {
            let mut query = db.prepare_cached(
                "SELECT namespace, key, value, created, updated, ttl, expires, NULL \
                 FROM entries WHERE namespace = ?1 AND key = ?2",
            )?;
            let row = query.query_row(params![namespace, key], |row| Ok(read(row)));
            row.optional()?.transpose()
        })
        .await
    }

    async fn scan(
        &self,
        prefix: &Namespace,
        after: Option<(&Namespace, &str)>,
        limit: usize,
        vectors: bool,
    ) -> Result<Vec<Row>, SaveError> {
        let (start, end) = (prefix.encode(), prefix.end());
        let after = after.map(|(namespace, key)| (namespace.encode(), key.as_bytes().to_vec()));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.0.writer.settle().await?;
        self.read(move |db| {
            // An empty key sorts before all others, so that nothing is left out at the start.
            let first = after.is_none();
            let (namespace, key) = after.unwrap_or((start, Vec::new()));
            let mut query = db.prepare_cached(
                "SELECT namespace, key, value, created, updated, ttl, expires, CASE WHEN ?1 THEN vectors END \
                 FROM entries WHERE (namespace, key) >= (?2, ?3) AND (?4 OR (namespace, key) > (?2, ?3)) \
                 AND (?5 IS NULL OR namespace < ?5) ORDER BY namespace, key LIMIT ?6",
            )?;
            let mut rows = query.query(params![vectors, namespace, key, first, end, limit])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(read(row)?);
            }
            Ok(found)
        })
        .await
    }

    async fn namespaces(&self, prefix: &Namespace, now: u64) -> Result<Vec<Namespace>, SaveError> {
        let (start, end) = (prefix.encode(), prefix.end());
        self.0.writer.settle().await?;
        self.read(move |db| {
            let mut query = db.prepare_cached(
                "SELECT DISTINCT namespace FROM entries \
                 WHERE namespace >= ?1 AND (?2 IS NULL OR namespace < ?2) AND (expires IS NULL OR expires > ?3) \
                 ORDER BY namespace",
            )?;
            let mut rows = query.query(params![start, end, now])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(stored_namespace(&row.get::<_, Vec<u8>>(0)?).map_err(Stop::Damaged)?);
            }
            Ok(found)
        })
        .await
    }

    async fn sweep(&self, now: u64) -> Result<u64, SaveError> {
        let removed = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&removed);
        self.write(move |db| {
            let removed = db
                .prepare_cached("DELETE FROM entries WHERE expires <= ?1")?
                .execute([now])?;
            count.store(removed as u64, Ordering::Relaxed);
            Ok(())
        })
        .await?;
        Ok(removed.load(Ordering::Relaxed))
    }
}
