//! Opening a file: whose it is, and the tables in it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::{SqliteOptions, Stop, Synchronous};

/// Says in the file's header that it is ours: "sstp".
const APPLICATION: i32 = 0x7373_7470;

/// The newest tables known here. They are [`SCHEMA`].
const VERSION: i32 = 1;

/// Threads, namespaces and channel names appear once and are numbers elsewhere.
/// Checkpoint numbers are those of [`CheckpointId`](crate::CheckpointId).
/// A branch is named after its first checkpoint, see [`lineage`](crate::lineage).
const SCHEMA: [&str; 10] = [
    "CREATE TABLE places(\
        id INTEGER PRIMARY KEY, \
        thread TEXT NOT NULL, \
        namespace TEXT NOT NULL, \
        newest INTEGER NOT NULL DEFAULT 0, \
        saves INTEGER NOT NULL DEFAULT 0, \
        born INTEGER NOT NULL, \
        origin TEXT, \
        UNIQUE(thread, namespace)) STRICT",
    "CREATE TABLE channels(\
        id INTEGER PRIMARY KEY, \
        name TEXT NOT NULL UNIQUE) STRICT",
    // Where a branch was forked from: a checkpoint, and the branch that it is on; 0 if it starts at a root.
    "CREATE TABLE branches(\
        place INTEGER NOT NULL, \
        branch INTEGER NOT NULL, \
        fork INTEGER NOT NULL, \
        fork_branch INTEGER NOT NULL, \
        PRIMARY KEY(place, branch)) STRICT, WITHOUT ROWID",
    // The time is in milliseconds of Unix time.
    "CREATE TABLE checkpoints(\
        place INTEGER NOT NULL, \
        seq INTEGER NOT NULL, \
        parent INTEGER, \
        branch INTEGER NOT NULL, \
        time INTEGER NOT NULL, \
        header BLOB NOT NULL, \
        PRIMARY KEY(place, seq)) STRICT, WITHOUT ROWID",
    // A value, a log, both (a snapshot) or neither (empty from here on).
    "CREATE TABLE items(\
        place INTEGER NOT NULL, \
        channel INTEGER NOT NULL, \
        branch INTEGER NOT NULL, \
        seq INTEGER NOT NULL, \
        value BLOB, \
        log BLOB, \
        PRIMARY KEY(place, channel, branch, seq)) STRICT, WITHOUT ROWID",
    // The child is 0 while the task waits, the base is 0 when nothing came before.
    "CREATE TABLE tasks(\
        place INTEGER NOT NULL, \
        base INTEGER NOT NULL, \
        child INTEGER NOT NULL, \
        id BLOB NOT NULL, \
        position INTEGER NOT NULL, \
        record BLOB NOT NULL, \
        PRIMARY KEY(place, base, child, id)) STRICT, WITHOUT ROWID",
    // Results kept for equal inputs; `until` is in milliseconds of Unix time.
    "CREATE TABLE cache(\
        key BLOB PRIMARY KEY, \
        until INTEGER, \
        bytes BLOB NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE INDEX cache_until ON cache(until) WHERE until IS NOT NULL",
    // The long-term store. Namespaces are written so that they sort by segment, see `store`; times are in milliseconds of Unix time.
    "CREATE TABLE entries(\
        namespace BLOB NOT NULL, \
        key BLOB NOT NULL, \
        value BLOB NOT NULL, \
        created INTEGER NOT NULL, \
        updated INTEGER NOT NULL, \
        ttl INTEGER, \
        expires INTEGER, \
        vectors BLOB, \
        PRIMARY KEY(namespace, key)) STRICT, WITHOUT ROWID",
    "CREATE INDEX entries_expires ON entries(expires) WHERE expires IS NOT NULL",
];

/// Opens the connection that writes, and makes the file ours if it is new.
pub(super) fn writer(path: &Path, options: SqliteOptions) -> Result<Connection, Stop> {
    let patience = options.patience;
    refuse_a_stub(path)?;
    let mut db = connect(path, patience, OpenFlags::SQLITE_OPEN_CREATE)?;
    let new = is_new(&db.transaction()?)?;
    let mode = write_ahead(&db, Instant::now() + patience)?;
    if mode != "wal" {
        return Err(Stop::Unsuitable(format!(
            "it cannot have a write-ahead log, its mode stays {mode}"
        )));
    }
    let synchronous = match options.synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    db.pragma_update(None, "synchronous", synchronous)?;
    if new {
        create(&mut db)?;
    }
    Ok(db)
}

/// Switches to the write-ahead log, and says which mode the file has then.
/// While others open a new file, SQLite refuses the switch at once, whatever its busy timeout.
fn write_ahead(db: &Connection, deadline: Instant) -> rusqlite::Result<String> {
    loop {
        let mode = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
        match &mode {
            Err(error) if is_busy(error) && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(1));
            }
            _ => return mode,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// SQLite takes a file shorter than its smallest page for an empty one, and would write over it.
fn refuse_a_stub(path: &Path) -> Result<(), Stop> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && (1..512).contains(&found.len()) => Err(Stop::Damaged(
            "it is too short for a SQLite database".into(),
        )),
        // What else may be wrong with it, SQLite says.
        _ => Ok(()),
    }
}

/// Opens the connection that reads.
pub(super) fn reader(path: &Path, patience: Duration) -> Result<Connection, Stop> {
    let db = connect(path, patience, OpenFlags::empty())?;
    db.pragma_update(None, "query_only", true)?;
    Ok(db)
}

fn connect(path: &Path, patience: Duration, more: OpenFlags) -> Result<Connection, Stop> {
    // An absolute path is never one of SQLite's special names.
    let path = std::path::absolute(path).map_err(|error| Stop::Unsuitable(error.to_string()))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(patience)?;
    db.set_prepared_statement_cache_capacity(32);
    // The file may be hostile: its schema runs nothing, and pages are checked when they are read.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.pragma_update(None, "cell_size_check", true)?;
    // Plans do not depend on bound values, so a cached statement is not prepared anew for other values.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if db.is_readonly("main")? {
        return Err(Stop::Unsuitable("the file is read-only".into()));
    }
    Ok(db)
}

/// Whether tables are the ones we made; VACUUM puts them into another order.
fn is_ours(mut schema: Vec<String>) -> bool {
    let mut ours = SCHEMA;
    ours.sort_unstable();
    schema.sort_unstable();
    schema == ours
}

/// Whether the file is still empty; an error if it is neither that nor ours.
/// Wants a transaction, so that it sees one state of the file.
fn is_new(db: &Transaction<'_>) -> Result<bool, Stop> {
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let schema = schema(db)?;
    match (number("application_id")?, number("user_version")?) {
        (0, 0) if schema.is_empty() => Ok(true),
        (APPLICATION, VERSION) if is_ours(schema) => Ok(false),
        (APPLICATION, VERSION) => Err(Stop::Damaged("its tables are not the ones we made".into())),
        (APPLICATION, newer) if newer > VERSION => Err(Stop::Damaged(format!(
            "it has version {newer}, the newest known here is {VERSION}: open it with a newer release"
        ))),
        _ => Err(Stop::Damaged(
            "it is a SQLite database of another program".into(),
        )),
    }
}

/// What stands in the file's schema, without SQLite's own tables.
fn schema(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut query = db.prepare(
        "SELECT sql FROM sqlite_schema \
         WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
    )?;
    query.query_map([], |row| row.get(0))?.collect()
}

fn create(db: &mut Connection) -> Result<(), Stop> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    if is_new(&tx)? {
        for statement in SCHEMA {
            tx.execute(statement, [])?;
        }
        tx.pragma_update(None, "application_id", APPLICATION)?;
        tx.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(tx.commit()?)
}
