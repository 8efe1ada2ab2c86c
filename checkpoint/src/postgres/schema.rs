//! The tables.

use tokio_postgres::types::Type;

use super::{PostgresCheckpointer, Stop};
use crate::SaveError;

/// The newest tables known here.
const VERSION: i64 = 1;

/// Names are bytes, since PostgreSQL's text cannot hold every one, and bytes sort alike everywhere. Checkpoint numbers are those of
/// [`CheckpointId`](crate::CheckpointId); a branch is named after its first checkpoint.
const TABLES: &str = "
CREATE SCHEMA IF NOT EXISTS superstep;
CREATE TABLE IF NOT EXISTS superstep.version(
    one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    version BIGINT NOT NULL);
-- A place begun anew is born with another number, which tells it from the one before.
CREATE TABLE IF NOT EXISTS superstep.places(
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread BYTEA NOT NULL,
    namespace BYTEA NOT NULL,
    newest BIGINT NOT NULL DEFAULT 0,
    saves BIGINT NOT NULL DEFAULT 0,
    born BIGINT NOT NULL,
    origin BYTEA,
    UNIQUE(thread, namespace));
-- The fork is 0 if the branch starts at a root.
CREATE TABLE IF NOT EXISTS superstep.branches(
    place BIGINT NOT NULL,
    branch BIGINT NOT NULL,
    fork BIGINT NOT NULL,
    fork_branch BIGINT NOT NULL,
    PRIMARY KEY(place, branch));
-- The time is in milliseconds of Unix time.
CREATE TABLE IF NOT EXISTS superstep.checkpoints(
    place BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    parent BIGINT,
    branch BIGINT NOT NULL,
    time BIGINT NOT NULL,
    header BYTEA NOT NULL,
    PRIMARY KEY(place, seq));
-- A value, a log, both (a snapshot) or neither (empty from here on).
CREATE TABLE IF NOT EXISTS superstep.items(
    place BIGINT NOT NULL,
    channel BYTEA NOT NULL,
    branch BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    value BYTEA,
    log BYTEA,
    PRIMARY KEY(place, channel, branch, seq));
-- The child is 0 while the task waits, the base is 0 when nothing came before.
CREATE TABLE IF NOT EXISTS superstep.tasks(
    place BIGINT NOT NULL,
    base BIGINT NOT NULL,
    child BIGINT NOT NULL,
    id BYTEA NOT NULL,
    position BIGINT NOT NULL,
    record BYTEA NOT NULL,
    PRIMARY KEY(place, base, child, id));
-- The long-term store.
CREATE TABLE IF NOT EXISTS superstep.entries(
    namespace BYTEA NOT NULL,
    key BYTEA NOT NULL,
    value BYTEA NOT NULL,
    created BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    ttl BIGINT,
    expires BIGINT,
    vectors BYTEA,
    PRIMARY KEY(namespace, key));
CREATE INDEX IF NOT EXISTS entries_expires ON superstep.entries(expires) WHERE expires IS NOT NULL;
INSERT INTO superstep.version(version) VALUES(1) ON CONFLICT DO NOTHING;
";

/// Of several that make the tables at once, all but one may fail: so often it is tried.
const ATTEMPTS: usize = 5;

/// Makes the tables if they are not there; an error if they are newer than we know.
pub(super) async fn ensure(store: &PostgresCheckpointer) -> Result<(), SaveError> {
    let mut attempt = 1;
    loop {
        match make(store).await {
            Err(SaveError::Backend { .. }) if attempt < ATTEMPTS => attempt += 1,
            made => return made,
        }
    }
}

async fn make(store: &PostgresCheckpointer) -> Result<(), SaveError> {
    store
        .write("making the tables", async |db| {
            // What is there is not touched, so that somebody who may only use the tables can.
            let there = db
                .query_typed_one(
                    "SELECT to_regclass('superstep.version') IS NOT NULL AND to_regclass('superstep.entries') IS NOT NULL",
                    &[],
                )
                .await?;
            if !there.try_get::<_, bool>(0)? {
                db.batch_execute(TABLES).await?;
            }
            let found = db
                .query_typed_opt(
                    "SELECT version FROM superstep.version WHERE one = $1",
                    &[(&true, Type::BOOL)],
                )
                .await?;
            match found.map(|row| row.try_get(0)).transpose()? {
                Some(VERSION) => Ok(()),
                Some(found) if found > VERSION => Err(Stop::Damaged(format!(
                    "it has version {found}, the newest known here is {VERSION}: open it with a newer release"
                ))),
                _ => Err(Stop::Damaged("its version is missing".into())),
            }
        })
        .await
}
