//! The changes. Each is one transaction, and holds the row of its place against other writers.

use std::collections::BTreeSet;

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::Stop;
use super::read::{Known, branch, forks, key};
use crate::lineage::{Fate, Left, Link, Shape};
use crate::saver::{birth, birth_in, check_commits, check_tasks};
use crate::{
    CheckpointId, Commit, Item, Place, SaveError, Seen, StoredPlace, StoredTask, StoredThread,
    Stretch,
};

/// The row of a place, held until the transaction ends; nothing if it was never written to.
async fn hold(db: &Transaction<'_>, place: &Place) -> Result<Option<Known>, Stop> {
    let (thread, namespace) = (place.thread.as_bytes(), place.namespace.as_bytes());
    let found = db
        .query_typed_opt(
            "SELECT id, newest, saves, origin, born FROM superstep.places \
             WHERE thread = $1 AND namespace = $2 FOR UPDATE",
            &[(&thread, Type::BYTEA), (&namespace, Type::BYTEA)],
        )
        .await?;
    found.as_ref().map(Known::read).transpose()
}

/// The same; it is made if it is not there.
async fn ensure(db: &Transaction<'_>, place: &Place, born: u64) -> Result<Known, Stop> {
    if let Some(known) = hold(db, place).await? {
        return Ok(known);
    }
    let (thread, namespace) = (place.thread.as_bytes(), place.namespace.as_bytes());
    // Of two that make it at once the second waits for the first here, and finds it afterwards.
    db.execute_typed(
        "INSERT INTO superstep.places(thread, namespace, born) VALUES($1, $2, $3) ON CONFLICT DO NOTHING",
        &[
            (&thread, Type::BYTEA),
            (&namespace, Type::BYTEA),
            (&born.cast_signed(), Type::INT8),
        ],
    )
    .await?;
    let known = hold(db, place).await?;
    // Deleted by another one between these two statements.
    known.ok_or_else(|| {
        Stop::Rule(SaveError::Conflict {
            place: place.clone(),
            expected: CheckpointId(1),
            newest: CheckpointId(0),
        })
    })
}

/// The branches of the checkpoints of a place that are named.
async fn branches_of(
    db: &Transaction<'_>,
    place: i64,
    ids: impl IntoIterator<Item = CheckpointId>,
) -> Result<Vec<Stretch>, Stop> {
    let mut found = Vec::new();
    for upto in ids {
        let branch = branch(db, place, upto).await?;
        found.extend(branch.map(|branch| Stretch { branch, upto }));
    }
    Ok(found)
}

pub(super) async fn commit(
    db: &Transaction<'_>,
    place: &Place,
    commits: &[Commit],
) -> Result<(), Stop> {
    let Known { number, seen, .. } = ensure(db, place, birth_in(commits)).await?;
    let parents: BTreeSet<_> = commits.iter().filter_map(|commit| commit.parent).collect();
    let mut known = branches_of(db, number, parents).await?;
    let has = |id| Ok::<_, SaveError>(known.iter().any(|at| at.upto == id));
    check_commits(place, seen, commits, has)?;
    let mut last = seen.newest;
    for commit in commits {
        let parent = known
            .iter()
            .find(|at| Some(at.upto) == commit.parent)
            .copied();
        let newest = parent.filter(|parent| parent.upto == last);
        let link = Link::of(commit.id, commit.parent, newest);
        if link.branch == commit.id {
            put_branch(
                db,
                number,
                link.branch,
                parent.map(|at| (at.upto, at.branch)),
            )
            .await?;
        }
        put_checkpoint(db, number, commit.id, link, commit.time, &commit.header).await?;
        let items = commit.items.iter();
        let items = items.map(|(channel, item)| (channel.as_str(), link.branch, commit.id, item));
        put_items(db, number, items).await?;
        let base = commit.parent.map_or(0, key);
        put_tasks(db, number, base, key(commit.id), &commit.tasks).await?;
        known.push(Stretch {
            branch: link.branch,
            upto: commit.id,
        });
        last = commit.id;
    }
    db.execute_typed(
        "UPDATE superstep.places SET newest = $2, saves = 0 WHERE id = $1",
        &[(&number, Type::INT8), (&key(last), Type::INT8)],
    )
    .await?;
    Ok(())
}

async fn put_branch(
    db: &Transaction<'_>,
    place: i64,
    branch: CheckpointId,
    fork: Option<(CheckpointId, CheckpointId)>,
) -> Result<(), Stop> {
    let (fork, fork_branch) = fork.unwrap_or_default();
    db.execute_typed(
        "INSERT INTO superstep.branches(place, branch, fork, fork_branch) VALUES($1, $2, $3, $4)",
        &[
            (&place, Type::INT8),
            (&key(branch), Type::INT8),
            (&key(fork), Type::INT8),
            (&key(fork_branch), Type::INT8),
        ],
    )
    .await?;
    Ok(())
}

async fn put_checkpoint(
    db: &Transaction<'_>,
    place: i64,
    id: CheckpointId,
    link: Link,
    time: u64,
    header: &[u8],
) -> Result<(), Stop> {
    db.execute_typed(
        "INSERT INTO superstep.checkpoints(place, seq, parent, branch, time, header) VALUES($1, $2, $3, $4, $5, $6)",
        &[
            (&place, Type::INT8),
            (&key(id), Type::INT8),
            (&link.parent.map(key), Type::INT8),
            (&key(link.branch), Type::INT8),
            (&i64::try_from(time).unwrap_or(i64::MAX), Type::INT8),
            (&header, Type::BYTEA),
        ],
    )
    .await?;
    Ok(())
}

/// Stores items in one statement; of those of one channel and checkpoint the last counts.
async fn put_items<'a>(
    db: &Transaction<'_>,
    place: i64,
    items: impl IntoIterator<Item = (&'a str, CheckpointId, CheckpointId, &'a Item)>,
) -> Result<(), Stop> {
    let last: std::collections::BTreeMap<_, _> = items
        .into_iter()
        .map(|(channel, branch, id, item)| ((channel, branch, id), item))
        .collect();
    if last.is_empty() {
        return Ok(());
    }
    let (mut channels, mut branches, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    let (mut values, mut logs) = (Vec::new(), Vec::new());
    for ((channel, branch, id), item) in last {
        channels.push(channel.as_bytes());
        branches.push(key(branch));
        ids.push(key(id));
        let (value, log) = match item {
            Item::Value(value) => (Some(value.as_slice()), None),
            Item::Empty => (None, None),
            Item::Log(log) => (None, Some(log.as_slice())),
            Item::Snapshot { log, value } => (Some(value.as_slice()), Some(log.as_slice())),
        };
        values.push(value);
        logs.push(log);
    }
    db.execute_typed(
        "INSERT INTO superstep.items(place, channel, branch, seq, value, log) \
         SELECT $1, * FROM unnest($2, $3, $4, $5, $6)",
        &[
            (&place, Type::INT8),
            (&channels, Type::BYTEA_ARRAY),
            (&branches, Type::INT8_ARRAY),
            (&ids, Type::INT8_ARRAY),
            (&values, Type::BYTEA_ARRAY),
            (&logs, Type::BYTEA_ARRAY),
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn save_tasks(
    db: &Transaction<'_>,
    place: &Place,
    seen: Seen,
    base: CheckpointId,
    tasks: &[StoredTask],
) -> Result<(), Stop> {
    let known = ensure(db, place, seen.born.unwrap_or_else(birth)).await?;
    let there = branch(db, known.number, base).await?.is_some();
    check_tasks(place, known.seen, seen, base, |_| Ok::<_, SaveError>(there))?;
    db.execute_typed(
        "UPDATE superstep.places SET saves = saves + 1 WHERE id = $1",
        &[(&known.number, Type::INT8)],
    )
    .await?;
    put_tasks(db, known.number, key(base), 0, tasks).await
}

/// Stores tasks in two statements; of those of one id the last counts.
async fn put_tasks(
    db: &Transaction<'_>,
    place: i64,
    base: i64,
    child: i64,
    tasks: &[StoredTask],
) -> Result<(), Stop> {
    if tasks.is_empty() {
        return Ok(());
    }
    let last: std::collections::BTreeMap<_, _> = tasks.iter().map(|task| (task.id, task)).collect();
    let ids: Vec<&[u8]> = last.values().map(|task| task.id.0.as_slice()).collect();
    let positions: Vec<i64> = last.values().map(|task| i64::from(task.position)).collect();
    let records: Vec<&[u8]> = last.values().map(|task| task.record.as_slice()).collect();
    db.execute_typed(
        "DELETE FROM superstep.tasks WHERE place = $1 AND base = $2 AND child IN (0, $3) AND id = ANY($4)",
        &[
            (&place, Type::INT8),
            (&base, Type::INT8),
            (&child, Type::INT8),
            (&ids, Type::BYTEA_ARRAY),
        ],
    )
    .await?;
    db.execute_typed(
        "INSERT INTO superstep.tasks(place, base, child, id, position, record) \
         SELECT $1, $2, $3, * FROM unnest($4, $5, $6)",
        &[
            (&place, Type::INT8),
            (&base, Type::INT8),
            (&child, Type::INT8),
            (&ids, Type::BYTEA_ARRAY),
            (&positions, Type::INT8_ARRAY),
            (&records, Type::BYTEA_ARRAY),
        ],
    )
    .await?;
    Ok(())
}

pub(super) fn exists(thread: &str) -> Stop {
    Stop::Rule(SaveError::Exists {
        thread: thread.to_owned(),
    })
}

pub(super) async fn import(
    db: &Transaction<'_>,
    thread: &str,
    stored: &StoredThread,
) -> Result<(), Stop> {
    let there = db
        .query_typed_opt(
            "SELECT 1 FROM superstep.places WHERE thread = $1 LIMIT 1",
            &[(&thread.as_bytes(), Type::BYTEA)],
        )
        .await?;
    if there.is_some() {
        return Err(exists(thread));
    }
    for (namespace, place) in &stored.places {
        import_place(db, thread, namespace, place).await?;
    }
    Ok(())
}

async fn import_place(
    db: &Transaction<'_>,
    thread: &str,
    namespace: &str,
    stored: &StoredPlace,
) -> Result<(), Stop> {
    let origin = stored.origin.as_deref().filter(|origin| *origin != thread);
    let saves = i64::try_from(stored.seen.saves).unwrap_or(i64::MAX);
    let row = db
        .query_typed_one(
            "INSERT INTO superstep.places(thread, namespace, newest, saves, origin, born) \
             VALUES($1, $2, $3, $4, $5, $6) RETURNING id",
            &[
                (&thread.as_bytes(), Type::BYTEA),
                (&namespace.as_bytes(), Type::BYTEA),
                (&key(stored.seen.newest), Type::INT8),
                (&saves, Type::INT8),
                (&origin.map(str::as_bytes), Type::BYTEA),
                (&birth().cast_signed(), Type::INT8),
            ],
        )
        .await?;
    let number: i64 = row.try_get(0)?;
    for (branch, fork) in &stored.branches {
        put_branch(db, number, *branch, *fork).await?;
    }
    for (id, checkpoint) in &stored.checkpoints {
        let link = Link {
            branch: checkpoint.branch,
            parent: checkpoint.parent,
        };
        put_checkpoint(db, number, *id, link, checkpoint.time, &checkpoint.header).await?;
    }
    for (channel, items) in &stored.items {
        let items = items.iter();
        let items = items.map(|((branch, id), item)| (channel.as_str(), *branch, *id, item));
        put_items(db, number, items).await?;
    }
    for (base, tasks) in &stored.tasks {
        for task in tasks.values() {
            let child = task.child.map_or(0, key);
            put_tasks(db, number, key(*base), child, std::slice::from_ref(task)).await?;
        }
    }
    Ok(())
}

pub(super) async fn delete_thread(db: &Transaction<'_>, thread: &str) -> Result<(), Stop> {
    let rows = db
        .query_typed(
            "SELECT id FROM superstep.places WHERE thread = $1 ORDER BY id FOR UPDATE",
            &[(&thread.as_bytes(), Type::BYTEA)],
        )
        .await?;
    let places: Vec<i64> = rows
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    for table in [
        "DELETE FROM superstep.tasks WHERE place = ANY($1)",
        "DELETE FROM superstep.items WHERE place = ANY($1)",
        "DELETE FROM superstep.checkpoints WHERE place = ANY($1)",
        "DELETE FROM superstep.branches WHERE place = ANY($1)",
        "DELETE FROM superstep.places WHERE id = ANY($1)",
    ] {
        db.execute_typed(table, &[(&places, Type::INT8_ARRAY)])
            .await?;
    }
    Ok(())
}

pub(super) async fn remove(
    db: &Transaction<'_>,
    place: &Place,
    ids: &[CheckpointId],
) -> Result<(), Stop> {
    let Some(known) = hold(db, place).await? else {
        return Ok(());
    };
    let place = known.number;
    let newest = branch(db, place, known.seen.newest).await?;
    // What waits has the child 0, which is no checkpoint.
    let keys = ids.iter().filter(|id| id.0 > 0).map(|id| key(*id));
    let keys: Vec<i64> = keys.collect();
    for table in [
        "DELETE FROM superstep.checkpoints WHERE place = $1 AND seq = ANY($2)",
        "DELETE FROM superstep.tasks WHERE place = $1 AND base = ANY($2) AND child = 0",
        "DELETE FROM superstep.tasks WHERE place = $1 AND child = ANY($2)",
    ] {
        let params = &[
            (
                &place as &(dyn tokio_postgres::types::ToSql + Sync),
                Type::INT8,
            ),
            (&keys, Type::INT8_ARRAY),
        ];
        db.execute_typed(table, params).await?;
    }
    if newest.is_some() && keys.contains(&key(known.seen.newest)) {
        // Who stands on it is to notice.
        db.execute_typed(
            "UPDATE superstep.places SET saves = saves + 1 WHERE id = $1",
            &[(&place, Type::INT8)],
        )
        .await?;
    }
    let left = left(db, place).await?;
    let branches: Vec<i64> = left.branches().into_iter().map(key).collect();
    db.execute_typed(
        "DELETE FROM superstep.branches WHERE place = $1 AND branch <> ALL($2)",
        &[(&place, Type::INT8), (&branches, Type::INT8_ARRAY)],
    )
    .await?;
    thin_out(db, place, &left).await
}

/// The checkpoints that are there.
async fn left(db: &Transaction<'_>, place: i64) -> Result<Left, Stop> {
    let rows = db
        .query_typed(
            "SELECT branch, seq FROM superstep.checkpoints WHERE place = $1",
            &[(&place, Type::INT8)],
        )
        .await?;
    let mut checkpoints = BTreeSet::new();
    for row in rows {
        checkpoints.insert(Stretch {
            branch: CheckpointId(super::read::number(&row, 0)?),
            upto: CheckpointId(super::read::number(&row, 1)?),
        });
    }
    let forks = forks(db, place).await?;
    Ok(Left { checkpoints, forks })
}

/// Removes the items that no checkpoint sees.
async fn thin_out(db: &Transaction<'_>, place: i64, left: &Left) -> Result<(), Stop> {
    let rows = db
        .query_typed(
            "SELECT channel, branch, seq, value IS NOT NULL, log IS NOT NULL FROM superstep.items \
             WHERE place = $1 ORDER BY channel, branch, seq",
            &[(&place, Type::INT8)],
        )
        .await?;
    let mut channels: std::collections::BTreeMap<Vec<u8>, Vec<(Stretch, Shape)>> =
        std::collections::BTreeMap::new();
    for row in rows {
        let at = Stretch {
            branch: CheckpointId(super::read::number(&row, 1)?),
            upto: CheckpointId(super::read::number(&row, 2)?),
        };
        let shape = match (row.try_get(3)?, row.try_get(4)?) {
            (true, true) => Shape::Snapshot,
            (false, true) => Shape::Log,
            (_, false) => Shape::Whole,
        };
        channels
            .entry(row.try_get(0)?)
            .or_default()
            .push((at, shape));
    }
    for (channel, items) in channels {
        let fates = left.fates(&items);
        for (fate, change) in [
            (
                Fate::Drop,
                "DELETE FROM superstep.items WHERE place = $1 AND channel = $2 AND seq = ANY($3)",
            ),
            (
                Fate::Trim,
                "UPDATE superstep.items SET log = NULL WHERE place = $1 AND channel = $2 AND seq = ANY($3)",
            ),
        ] {
            // A checkpoint is on one branch.
            let at = items
                .iter()
                .zip(&fates)
                .filter(|(_, found)| **found == fate);
            let seqs: Vec<i64> = at.map(|((at, _), _)| key(at.upto)).collect();
            if !seqs.is_empty() {
                db.execute_typed(
                    change,
                    &[
                        (&place, Type::INT8),
                        (&channel, Type::BYTEA),
                        (&seqs, Type::INT8_ARRAY),
                    ],
                )
                .await?;
            }
        }
    }
    Ok(())
}
