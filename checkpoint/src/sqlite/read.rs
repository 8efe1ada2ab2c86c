//! The queries.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Stop;
use crate::lineage::{self, Broken, Found, Gathered, Link, Stretch};
use crate::{Channel, CheckpointId, Head, Listed, Loaded, Place, Seen, Size, StoredTask, TaskId};

/// The number of a place, if it was ever written to.
pub(super) fn place_number(db: &Connection, place: &Place) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT id FROM places WHERE thread = ?1 AND namespace = ?2")?
        .query_row([&place.thread, &place.namespace], |row| row.get(0))
        .optional()
}

/// The newest checkpoint, 0 if there is none.
pub(super) fn newest(db: &Connection, place: i64) -> rusqlite::Result<CheckpointId> {
    db.prepare_cached("SELECT ifnull(max(seq), 0) FROM checkpoints WHERE place = ?1")?
        .query_row([place], |row| row.get(0).map(CheckpointId))
}

/// How often tasks were saved since the newest checkpoint.
pub(super) fn saves(db: &Connection, place: i64) -> rusqlite::Result<u64> {
    db.prepare_cached("SELECT saves FROM places WHERE id = ?1")?
        .query_row([place], |row| row.get(0))
}

fn born(db: &Connection, place: i64) -> rusqlite::Result<u64> {
    db.prepare_cached("SELECT born FROM places WHERE id = ?1")?
        .query_row([place], |row| row.get(0).map(i64::cast_unsigned))
}

pub(super) fn head(db: &Connection, place: &Place) -> Result<Option<Head>, Stop> {
    let Some(place) = place_number(db, place)? else {
        return Ok(None);
    };
    let newest = newest(db, place)?;
    let seen = Seen {
        newest,
        saves: saves(db, place)?,
    };
    let born = born(db, place)?;
    Ok((newest.0 > 0).then_some(Head { seen, born }))
}

fn origin(db: &Connection, place: i64) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT origin FROM places WHERE id = ?1")?
        .query_row([place], |row| row.get(0))
}

pub(super) fn link(db: &Connection, place: i64, id: CheckpointId) -> Result<Link, Stop> {
    db.prepare_cached("SELECT branch, parent FROM checkpoints WHERE place = ?1 AND seq = ?2")?
        .query_row(params![place, key(id)], |row| {
            Ok(Link {
                branch: CheckpointId(row.get(0)?),
                parent: row.get::<_, Option<u64>>(1)?.map(CheckpointId),
            })
        })
        .optional()?
        .ok_or(Stop::Lineage(Broken(id)))
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
    let Some(place) = place_number(db, place)? else {
        return Ok(None);
    };
    let newest = newest(db, place)?;
    let Some(found) = checkpoint(db, place, at.unwrap_or(newest))? else {
        return Ok(None);
    };
    let way = lineage::way(found.id, |id| link(db, place, id))?;
    Ok(Some(Loaded {
        id: found.id,
        parent: found.parent,
        newest,
        saves: saves(db, place)?,
        born: born(db, place)?,
        origin: origin(db, place)?,
        header: found.header,
        channels: channels(db, place, &way)?,
        pending: pending(db, place, found.id)?,
    }))
}

fn checkpoint(db: &Connection, place: i64, id: CheckpointId) -> rusqlite::Result<Option<Listed>> {
    db.prepare_cached("SELECT seq, parent, header FROM checkpoints WHERE place = ?1 AND seq = ?2")?
        .query_row(params![place, key(id)], read_checkpoint)
        .optional()
}

fn read_checkpoint(row: &Row<'_>) -> rusqlite::Result<Listed> {
    Ok(Listed {
        id: CheckpointId(row.get(0)?),
        parent: row.get::<_, Option<u64>>(1)?.map(CheckpointId),
        header: row.get(2)?,
    })
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
    let Some(place) = place_number(db, place)? else {
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
    let Some(place) = place_number(db, place)? else {
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
        let key = params![place, number, branch, key(id)];
        let log = query.query_row(key, |row| row.get(0)).optional()?;
        logs.extend(log.map(|log| (name, log)));
    }
    logs.sort();
    Ok(logs)
}

fn branch(db: &Connection, place: i64, id: CheckpointId) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT branch FROM checkpoints WHERE place = ?1 AND seq = ?2")?
        .query_row(params![place, key(id)], |row| row.get(0))
        .optional()
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
    let Some(place) = place_number(db, place)? else {
        return Ok(Vec::new());
    };
    let before = before.map_or(i64::MAX, key);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut query = db.prepare_cached(
        "SELECT seq, parent, header FROM checkpoints \
         WHERE place = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3",
    )?;
    let checkpoints = query.query_map(params![place, before, limit], read_checkpoint)?;
    Ok(checkpoints.collect::<Result<_, _>>()?)
}

pub(super) fn size(db: &Connection, thread: &str) -> Result<Size, Stop> {
    let mut query = db.prepare_cached(
        "WITH mine(place) AS (SELECT id FROM places WHERE thread = ?1) \
         SELECT \
            (SELECT count(DISTINCT place) FROM checkpoints WHERE place IN mine), \
            (SELECT count(*) FROM checkpoints WHERE place IN mine), \
            (SELECT ifnull(sum(length(header)), 0) FROM checkpoints WHERE place IN mine), \
            (SELECT ifnull(sum(ifnull(length(value), 0) + ifnull(length(log), 0)), 0) \
                FROM items WHERE place IN mine), \
            (SELECT ifnull(sum(length(record)), 0) FROM tasks WHERE place IN mine)",
    )?;
    Ok(query.query_row([thread], |row| {
        Ok(Size {
            namespaces: row.get(0)?,
            checkpoints: row.get(1)?,
            header_bytes: row.get(2)?,
            item_bytes: row.get(3)?,
            task_bytes: row.get(4)?,
        })
    })?)
}
