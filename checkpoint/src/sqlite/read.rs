//! The queries.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Stop;
use crate::lineage::{self, Broken, Fork, Found, Gathered, Stretch};
use crate::{
    Channel, CheckpointId, Head, Item, Kind, Listed, Loaded, Place, Seen, Share, Size,
    StoredCheckpoint, StoredPlace, StoredTask, StoredThread, TaskId,
};

/// What is known of a place before its checkpoints are read.
pub(super) struct Known {
    /// Its number in the other tables.
    pub(super) number: i64,
    pub(super) seen: Seen,
    pub(super) born: u64,
    origin: Option<String>,
}

/// A place, if it was ever written to.
pub(super) fn known(db: &Connection, place: &Place) -> rusqlite::Result<Option<Known>> {
    db.prepare_cached(
        "SELECT id, newest, saves, born, origin FROM places WHERE thread = ?1 AND namespace = ?2",
    )?
    .query_row([&place.thread, &place.namespace], |row| {
        let born = row.get::<_, i64>(3)?.cast_unsigned();
        Ok(Known {
            number: row.get(0)?,
            seen: Seen {
                newest: CheckpointId(row.get(1)?),
                saves: row.get(2)?,
                born: Some(born),
            },
            born,
            origin: row.get(4)?,
        })
    })
    .optional()
}

pub(super) fn head(db: &Connection, place: &Place) -> Result<Option<Head>, Stop> {
    Ok(known(db, place)?.map(|Known { seen, born, .. }| Head { seen, born }))
}

/// The branch that a checkpoint is on; nothing if it is not there.
pub(super) fn branch(
    db: &Connection,
    place: i64,
    id: CheckpointId,
) -> rusqlite::Result<Option<CheckpointId>> {
    db.prepare_cached("SELECT branch FROM checkpoints WHERE place = ?1 AND seq = ?2")?
        .query_row(params![place, key(id)], |row| row.get(0).map(CheckpointId))
        .optional()
}

fn fork(db: &Connection, place: i64, branch: CheckpointId) -> Result<Fork, Stop> {
    db.prepare_cached("SELECT fork, fork_branch FROM branches WHERE place = ?1 AND branch = ?2")?
        .query_row(params![place, key(branch)], |row| read_fork(row, 0))
        .optional()?
        .ok_or(Stop::Lineage(Broken(branch)))
}

fn read_fork(row: &Row<'_>, first: usize) -> rusqlite::Result<Fork> {
    let upto = CheckpointId(row.get(first)?);
    let branch = CheckpointId(row.get(first + 1)?);
    Ok((upto.0 > 0).then_some(Stretch { branch, upto }))
}

/// An id as SQLite compares it; none is ever so large that it does not fit.
pub(super) fn key(id: CheckpointId) -> i64 {
    i64::try_from(id.0).unwrap_or(i64::MAX)
}

pub(super) fn load(
    db: &Connection,
    place: &Place,
    at: Option<CheckpointId>,
) -> Result<Option<Loaded>, Stop> {
    let Some(place) = known(db, place)? else {
        return Ok(None);
    };
    let upto = at.unwrap_or(CheckpointId(u64::MAX));
    let found = checkpoints(db, place.number, upto.next(), 1)?.pop();
    let Some(found) = found.filter(|found| at.is_none_or(|at| at == found.id)) else {
        return Ok(None);
    };
    let from = Stretch {
        branch: found.branch,
        upto: found.id,
    };
    let way = way_from(db, place.number, from)?;
    Ok(Some(Loaded {
        id: found.id,
        parent: found.parent,
        time: found.time,
        newest: place.seen.newest,
        saves: place.seen.saves,
        born: place.born,
        origin: place.origin,
        header: found.header,
        channels: channels(db, place.number, &way)?,
        pending: pending(db, place.number, found.id)?,
    }))
}

fn way_from(db: &Connection, place: i64, from: Stretch) -> Result<Vec<Stretch>, Stop> {
    lineage::way(from, |branch| fork(db, place, branch))
}

pub(super) fn way(
    db: &Connection,
    place: &Place,
    upto: CheckpointId,
) -> Result<Vec<Stretch>, Stop> {
    let Some(Known { number: place, .. }) = known(db, place)? else {
        return Ok(Vec::new());
    };
    match branch(db, place, upto)? {
        Some(branch) => way_from(db, place, Stretch { branch, upto }),
        None => Ok(Vec::new()),
    }
}

fn channels(
    db: &Connection,
    place: i64,
    way: &[Stretch],
) -> Result<BTreeMap<String, Channel>, Stop> {
    let mut channels = BTreeMap::new();
    for (number, name) in channel_names(db, place)? {
        if let Some(channel) = channel(db, place, number, way)? {
            channels.insert(name, channel);
        }
    }
    Ok(channels)
}

/// The channels that have an item anywhere in the place: one step through the key for each, not for each item.
fn channel_names(db: &Connection, place: i64) -> rusqlite::Result<Vec<(i64, String)>> {
    db.prepare_cached(
        "WITH RECURSIVE present(channel) AS (\
            SELECT min(channel) FROM items WHERE place = ?1 \
            UNION ALL \
            SELECT (SELECT min(channel) FROM items WHERE place = ?1 AND channel > present.channel) \
            FROM present WHERE channel IS NOT NULL) \
         SELECT channel, name FROM present LEFT JOIN channels ON id = channel \
         WHERE channel IS NOT NULL",
    )?
    .query_map([place], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect()
}

fn channel(
    db: &Connection,
    place: i64,
    channel: i64,
    way: &[Stretch],
) -> Result<Option<Channel>, Stop> {
    let mut newest_first = db.prepare_cached(
        "SELECT seq, value, CASE WHEN value IS NULL THEN log END FROM items \
         WHERE place = ?1 AND channel = ?2 AND branch = ?3 AND seq <= ?4 ORDER BY seq DESC",
    )?;
    let mut gathered = Gathered::default();
    for stretch in way {
        let key = params![place, channel, key(stretch.branch), key(stretch.upto)];
        let mut rows = newest_first.query(key)?;
        while let Some(row) = rows.next()? {
            if gathered.older(CheckpointId(row.get(0)?), found(row)?) {
                return Ok(gathered.finish());
            }
        }
    }
    Ok(gathered.finish())
}

fn found(row: &Row<'_>) -> rusqlite::Result<Found> {
    if let Some(value) = row.get(1)? {
        return Ok(Found::Value(value));
    }
    Ok(row.get::<_, Option<_>>(2)?.map_or(Found::Empty, Found::Log))
}

fn pending(db: &Connection, place: i64, base: CheckpointId) -> rusqlite::Result<Vec<StoredTask>> {
    db.prepare_cached(
        "SELECT id, position, child, record FROM tasks \
         WHERE place = ?1 AND base = ?2 AND child = 0 ORDER BY position, id",
    )?
    .query_map(params![place, key(base)], read_task)?
    .collect()
}

pub(super) fn tasks(
    db: &Connection,
    place: &Place,
    base: CheckpointId,
) -> Result<Vec<StoredTask>, Stop> {
    let Some(Known { number: place, .. }) = known(db, place)? else {
        return Ok(Vec::new());
    };
    let mut query = db.prepare_cached(
        "SELECT id, position, child, record FROM tasks \
         WHERE place = ?1 AND base = ?2 ORDER BY child, position, id",
    )?;
    let tasks = query.query_map(params![place, key(base)], read_task)?;
    Ok(tasks.collect::<Result<_, _>>()?)
}

pub(super) fn logs(
    db: &Connection,
    place: &Place,
    id: CheckpointId,
) -> Result<Vec<(String, Vec<u8>)>, Stop> {
    let Some(Known { number: place, .. }) = known(db, place)? else {
        return Ok(Vec::new());
    };
    let Some(branch) = branch(db, place, id)? else {
        return Ok(Vec::new());
    };
    let mut query = db.prepare_cached(
        "SELECT log FROM items \
         WHERE place = ?1 AND channel = ?2 AND branch = ?3 AND seq = ?4 AND log IS NOT NULL",
    )?;
    let mut logs = Vec::new();
    for (number, name) in channel_names(db, place)? {
        let key = params![place, number, key(branch), key(id)];
        let log = query.query_row(key, |row| row.get(0)).optional()?;
        logs.extend(log.map(|log| (name, log)));
    }
    logs.sort();
    Ok(logs)
}

fn read_task(row: &Row<'_>) -> rusqlite::Result<StoredTask> {
    Ok(StoredTask {
        id: TaskId(row.get(0)?),
        position: row.get(1)?,
        child: Some(row.get(2)?)
            .filter(|child| *child != 0)
            .map(CheckpointId),
        record: row.get(3)?,
    })
}

pub(super) fn list(
    db: &Connection,
    place: &Place,
    before: Option<CheckpointId>,
    limit: usize,
) -> Result<Vec<Listed>, Stop> {
    let Some(Known { number: place, .. }) = known(db, place)? else {
        return Ok(Vec::new());
    };
    let before = before.unwrap_or(CheckpointId(u64::MAX));
    Ok(checkpoints(db, place, before, limit)?)
}

/// Checkpoints before one, newest first.
fn checkpoints(
    db: &Connection,
    place: i64,
    before: CheckpointId,
    limit: usize,
) -> rusqlite::Result<Vec<Listed>> {
    db.prepare_cached(
        "SELECT seq, parent, time, branch, \
            (SELECT fork FROM branches b WHERE b.place = c.place AND b.branch = c.branch), header \
         FROM checkpoints c WHERE place = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3",
    )?
    .query_map(params![place, key(before), count(limit)], |row| {
        let fork: Option<u64> = row.get(4)?;
        Ok(Listed {
            id: CheckpointId(row.get(0)?),
            parent: row.get::<_, Option<u64>>(1)?.map(CheckpointId),
            time: row.get(2)?,
            branch: CheckpointId(row.get(3)?),
            fork: fork.filter(|fork| *fork > 0).map(CheckpointId),
            header: row.get(5)?,
        })
    })?
    .collect()
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn places(
    db: &Connection,
    after: Option<&Place>,
    limit: usize,
) -> Result<Vec<Place>, Stop> {
    let (thread, namespace) = after.map_or(("", ""), |after| (&after.thread, &after.namespace));
    let mut query = db.prepare_cached(
        "SELECT thread, namespace FROM places \
         WHERE ?1 OR (thread, namespace) > (?2, ?3) ORDER BY thread, namespace LIMIT ?4",
    )?;
    let key = params![after.is_none(), thread, namespace, count(limit)];
    let places = query.query_map(key, |row| {
        Ok(Place {
            thread: row.get(0)?,
            namespace: row.get(1)?,
        })
    })?;
    Ok(places.collect::<Result<_, _>>()?)
}

pub(super) fn export(db: &Connection, thread: &str) -> Result<Option<StoredThread>, Stop> {
    let mut stored = StoredThread::default();
    for namespace in namespaces(db, thread)? {
        let place = Place {
            thread: thread.into(),
            namespace: namespace.as_str().into(),
        };
        if let Some(known) = known(db, &place)? {
            stored
                .places
                .insert(namespace, stored_place(db, known, thread)?);
        }
    }
    Ok((!stored.places.is_empty()).then_some(stored))
}

fn namespaces(db: &Connection, thread: &str) -> rusqlite::Result<Vec<String>> {
    db.prepare_cached("SELECT namespace FROM places WHERE thread = ?1 ORDER BY namespace")?
        .query_map([thread], |row| row.get(0))?
        .collect()
}

fn stored_place(db: &Connection, known: Known, thread: &str) -> Result<StoredPlace, Stop> {
    let place = known.number;
    let mut stored = StoredPlace {
        origin: Some(known.origin.unwrap_or_else(|| thread.to_owned())),
        seen: Seen {
            born: None,
            ..known.seen
        },
        branches: forks(db, place)?
            .into_iter()
            .map(|(branch, fork)| (branch, fork.map(|at| (at.upto, at.branch))))
            .collect(),
        checkpoints: stored_checkpoints(db, place)?,
        ..StoredPlace::default()
    };
    let mut query = db.prepare_cached(
        "SELECT name, branch, seq, value, log FROM items JOIN channels ON id = channel WHERE place = ?1",
    )?;
    let mut rows = query.query([place])?;
    while let Some(row) = rows.next()? {
        let items = stored.items.entry(row.get(0)?).or_default();
        let at = (CheckpointId(row.get(1)?), CheckpointId(row.get(2)?));
        items.insert(at, read_item(row.get(3)?, row.get(4)?));
    }
    let mut query =
        db.prepare_cached("SELECT id, position, child, record, base FROM tasks WHERE place = ?1")?;
    let mut rows = query.query([place])?;
    while let Some(row) = rows.next()? {
        let (base, task) = (CheckpointId(row.get(4)?), read_task(row)?);
        let tasks = stored.tasks.entry(base).or_default();
        tasks.insert((task.child, task.id), task);
    }
    Ok(stored)
}

fn read_item(value: Option<Vec<u8>>, log: Option<Vec<u8>>) -> Item {
    match (value, log) {
        (Some(value), Some(log)) => Item::Snapshot { log, value },
        (Some(value), None) => Item::Value(value),
        (None, Some(log)) => Item::Log(log),
        (None, None) => Item::Empty,
    }
}

fn stored_checkpoints(
    db: &Connection,
    place: i64,
) -> rusqlite::Result<BTreeMap<CheckpointId, StoredCheckpoint>> {
    db.prepare_cached("SELECT seq, parent, branch, time, header FROM checkpoints WHERE place = ?1")?
        .query_map([place], |row| {
            let checkpoint = StoredCheckpoint {
                parent: row.get::<_, Option<u64>>(1)?.map(CheckpointId),
                branch: CheckpointId(row.get(2)?),
                time: row.get(3)?,
                header: row.get(4)?,
            };
            Ok((CheckpointId(row.get(0)?), checkpoint))
        })?
        .collect()
}

/// The branches of a place, and where each was forked from.
pub(super) fn forks(db: &Connection, place: i64) -> rusqlite::Result<BTreeMap<CheckpointId, Fork>> {
    db.prepare_cached("SELECT branch, fork, fork_branch FROM branches WHERE place = ?1")?
        .query_map([place], |row| {
            Ok((CheckpointId(row.get(0)?), read_fork(row, 1)?))
        })?
        .collect()
}

pub(super) fn size(db: &Connection, thread: &str) -> Result<Size, Stop> {
    let mut query = db.prepare_cached(
        "WITH mine(place, namespace) AS (SELECT id, namespace FROM places WHERE thread = ?1), \
         all_items AS (SELECT namespace, name, length(value) AS value, length(log) AS log \
            FROM items JOIN mine USING(place) JOIN channels ON id = channel) \
         SELECT namespace, 0, '', count(*), sum(length(header)) FROM checkpoints JOIN mine USING(place) GROUP BY 1 \
         UNION ALL SELECT namespace, 1, name, count(value), sum(value) FROM all_items GROUP BY 1, 3 HAVING count(value) > 0 \
         UNION ALL SELECT namespace, 2, name, count(log), sum(log) FROM all_items GROUP BY 1, 3 HAVING count(log) > 0 \
         UNION ALL SELECT namespace, 3, '', count(*), sum(length(record)) FROM tasks JOIN mine USING(place) GROUP BY 1 \
         ORDER BY 1, 2, 3",
    )?;
    let shares = query.query_map([thread], |row| {
        Ok(Share {
            namespace: row.get(0)?,
            kind: match row.get(1)? {
                0 => Kind::Header,
                1 => Kind::Value,
                2 => Kind::Log,
                _ => Kind::Task,
            },
            channel: row.get(2)?,
            count: row.get(3)?,
            bytes: row.get(4)?,
        })
    })?;
    Ok(Size {
        shares: shares.collect::<Result<_, _>>()?,
    })
}
