//! The long-term store, in the same database.

use async_trait::async_trait;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::read::{count, number};
use super::{PostgresCheckpointer, Stop};
use crate::SaveError;
use crate::store::{Change, Namespace, Row, StoreBackend, StoredRow, stored_namespace};

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

async fn make(db: &Transaction<'_>, change: &Change) -> Result<(), Stop> {
    match change {
        Change::Put(row) => put(db, row).await,
        Change::Refresh {
            namespace,
            key,
            expires,
        } => {
            db.execute_typed(
                "UPDATE superstep.entries SET expires = $3 WHERE namespace = $1 AND key = $2",
                &[
                    (&namespace.encode(), Type::BYTEA),
                    (&key.as_bytes(), Type::BYTEA),
                    (&signed(*expires), Type::INT8),
                ],
            )
            .await?;
            Ok(())
        }
        Change::Delete { namespace, key } => {
            db.execute_typed(
                "DELETE FROM superstep.entries WHERE namespace = $1 AND key = $2",
                &[
                    (&namespace.encode(), Type::BYTEA),
                    (&key.as_bytes(), Type::BYTEA),
                ],
            )
            .await?;
            Ok(())
        }
    }
}

async fn put(db: &Transaction<'_>, row: &Row) -> Result<(), Stop> {
    let (value, vectors) = row.sealed()?;
    db.execute_typed(
        "INSERT INTO superstep.entries AS e(namespace, key, value, created, updated, ttl, expires, vectors) \
         VALUES($1, $2, $3, $4, $5, $6, $7, $8) \
         ON CONFLICT(namespace, key) DO UPDATE SET \
            created = CASE WHEN e.expires <= excluded.updated THEN excluded.created ELSE e.created END, \
            value = excluded.value, updated = excluded.updated, ttl = excluded.ttl, \
            expires = excluded.expires, vectors = excluded.vectors",
        &[
            (&row.namespace.encode(), Type::BYTEA),
            (&row.key.as_bytes(), Type::BYTEA),
            (&value, Type::BYTEA),
            (&signed(row.created), Type::INT8),
            (&signed(row.updated), Type::INT8),
            (&row.ttl.map(signed), Type::INT8),
            (&row.expires.map(signed), Type::INT8),
            (&vectors, Type::BYTEA),
        ],
    )
    .await?;
    Ok(())
}

fn read(row: &tokio_postgres::Row) -> Result<Row, Stop> {
    let optional = |at: usize| -> Result<Option<u64>, Stop> {
        let found: Option<i64> = row.try_get(at)?;
        found.map(|_| number(row, at)).transpose()
    };
    let stored = StoredRow {
        namespace: row.try_get(0)?,
        key: row.try_get(1)?,
        value: row.try_get(2)?,
        created: number(row, 3)?,
        updated: number(row, 4)?,
        ttl: optional(5)?,
        expires: optional(6)?,
        vectors: row.try_get(7)?,
    };
    stored.open().map_err(Stop::Damaged)
}

#[async_trait]
impl StoreBackend for PostgresCheckpointer {
    async fn write(&self, changes: Vec<Change>) -> Result<(), SaveError> {
        self.write("storing entries", async |db| {
            for change in &changes {
                make(db, change).await?;
            }
            Ok(())
        })
        .await
    }

    async fn get(&self, namespace: &Namespace, key: &str) -> Result<Option<Row>, SaveError> {
        self.read("reading an entry", async |db| {
            let found = db
                .query_typed_opt(
                    "SELECT namespace, key, value, created, updated, ttl, expires, NULL::bytea \
                     FROM superstep.entries WHERE namespace = $1 AND key = $2",
                    &[
                        (&namespace.encode(), Type::BYTEA),
                        (&key.as_bytes(), Type::BYTEA),
                    ],
                )
                .await?;
            found.as_ref().map(read).transpose()
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
        // An empty key sorts before all others, so that nothing is left out at the start.
        let (namespace, key) = match after {
            Some((namespace, key)) => (namespace.encode(), key.as_bytes()),
            None => (prefix.encode(), &b""[..]),
        };
        self.read("searching entries", async |db| {
            let rows = db
                .query_typed(
                    "SELECT namespace, key, value, created, updated, ttl, expires, CASE WHEN $1 THEN vectors END \
                     FROM superstep.entries \
                     WHERE (namespace, key) >= ($2, $3) AND ($4 OR (namespace, key) > ($2, $3)) \
                     AND ($5 IS NULL OR namespace < $5) ORDER BY namespace, key LIMIT $6",
                    &[
                        (&vectors, Type::BOOL),
                        (&namespace, Type::BYTEA),
                        (&key, Type::BYTEA),
                        (&after.is_none(), Type::BOOL),
                        (&prefix.end(), Type::BYTEA),
                        (&count(limit), Type::INT8),
                    ],
                )
                .await?;
            rows.iter().map(read).collect()
        })
        .await
    }

    async fn namespaces(&self, prefix: &Namespace, now: u64) -> Result<Vec<Namespace>, SaveError> {
        self.read("listing namespaces", async |db| {
            let rows = db
                .query_typed(
                    "SELECT DISTINCT namespace FROM superstep.entries \
                     WHERE namespace >= $1 AND ($2 IS NULL OR namespace < $2) \
                     AND (expires IS NULL OR expires > $3) ORDER BY namespace",
                    &[
                        (&prefix.encode(), Type::BYTEA),
                        (&prefix.end(), Type::BYTEA),
                        (&signed(now), Type::INT8),
                    ],
                )
                .await?;
            let namespaces = rows
                .iter()
                .map(|row| stored_namespace(row.try_get(0)?).map_err(Stop::Damaged));
            namespaces.collect()
        })
        .await
    }

    async fn sweep(&self, now: u64) -> Result<u64, SaveError> {
        self.write("sweeping entries", async |db| {
            let removed = db
                .execute_typed(
                    "DELETE FROM superstep.entries WHERE expires <= $1",
                    &[(&signed(now), Type::INT8)],
                )
                .await?;
            Ok(removed)
        })
        .await
    }
}
