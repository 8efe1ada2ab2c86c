//! The changes. Each runs in a savepoint of its own, with the file locked against other writers.

use rusqlite::{Connection, OptionalExtension, params};

use super::Stop;
use super::read::{key, link, newest, place_number, saves};
use crate::lineage::Link;
use crate::saver::{check_commits, check_tasks};
use crate::{CheckpointId, Commit, Item, Place, SaveError, Seen, StoredTask, TaskId};

pub(super) fn commit(db: &Connection, place: &Place, commits: &[Commit]) -> Result<(), Stop> {
    let number = ensure_place(db, place)?;
    let mut last = newest(db, number)?;
    check_commits(place, last, commits)?;
    for commit in commits {
        add(db, number, last, commit)?;
        last = commit.id;
    }
    db.prepare_cached("UPDATE places SET saves = 0 WHERE id = ?1 AND saves > 0")?
        .execute([number])?;
    Ok(())
}

fn add(db: &Connection, place: i64, newest: CheckpointId, commit: &Commit) -> Result<(), Stop> {
    let continued = match commit.parent {
        Some(parent) if parent == newest => Some((newest, link(db, place, newest)?)),
        _ => None,
    };
    let link = Link::of(commit.id, commit.parent, continued);
    db.prepare_cached(
        "INSERT INTO checkpoints(place, seq, parent, branch, header) VALUES(?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        place,
        key(commit.id),
        commit.parent.map(key),
        key(link.branch),
        commit.header
    ])?;
    for (channel, item) in &commit.items {
        put_item(db, place, channel, key(link.branch), key(commit.id), item)?;
    }
    let base = commit.parent.map_or(0, key);
    put_tasks(db, place, base, key(commit.id), &commit.tasks)
}

fn put_item(
    db: &Connection,
    place: i64,
    channel: &str,
    branch: i64,
    seq: i64,
    item: &Item,
) -> Result<(), Stop> {
    let channel = ensure_channel(db, channel)?;
    let (value, log) = match item {
        Item::Value(value) => (Some(value), None),
        Item::Empty => (None, None),
        Item::Log(log) => (None, Some(log)),
        Item::Snapshot { log, value } => (Some(value), Some(log)),
    };
    db.prepare_cached("REPLACE INTO items(place, channel, branch, seq, value, log) VALUES(?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![place, channel, branch, seq, value, log])?;
    Ok(())
}

pub(super) fn save_tasks(
    db: &Connection,
    place: &Place,
    seen: Seen,
    base: CheckpointId,
    tasks: &[StoredTask],
) -> Result<(), Stop> {
    let number = ensure_place(db, place)?;
    let there = Seen {
        newest: newest(db, number)?,
        saves: saves(db, number)?,
    };
    check_tasks(place, there, seen, base)?;
    db.prepare_cached("UPDATE places SET saves = saves + 1 WHERE id = ?1")?
        .execute([number])?;
    put_tasks(db, number, key(base), 0, tasks)
}

fn put_tasks(
    db: &Connection,
    place: i64,
    base: i64,
    child: i64,
    tasks: &[StoredTask],
) -> Result<(), Stop> {
    let mut adopt = db.prepare_cached(
        "DELETE FROM tasks WHERE place = ?1 AND base = ?2 AND child = 0 AND id = ?3",
    )?;
    let mut put = db.prepare_cached(
        "REPLACE INTO tasks(place, base, child, id, position, record) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for StoredTask {
        id: TaskId(id),
        position,
        record,
        ..
    } in tasks
    {
        adopt.execute(params![place, base, id])?;
        put.execute(params![place, base, child, id, position, record])?;
    }
    Ok(())
}

pub(super) fn copy_thread(db: &Connection, thread: &str, to: &str) -> Result<(), Stop> {
    if !places_of(db, to)?.is_empty() {
        let thread = to.to_owned();
        return Err(SaveError::Exists { thread }.into());
    }
    let places = places_of(db, thread)?;
    if places.is_empty() {
        let thread = thread.to_owned();
        return Err(SaveError::NoThread { thread }.into());
    }
    for place in places {
        let copy: i64 = db
            .prepare_cached(
                "INSERT INTO places(thread, namespace, saves, origin) \
                 SELECT ?2, namespace, saves, ifnull(origin, thread) FROM places WHERE id = ?1 RETURNING id",
            )?
            .query_row(params![place, to], |row| row.get(0))?;
        for table in [
            "INSERT INTO checkpoints SELECT ?2, seq, parent, branch, header FROM checkpoints WHERE place = ?1",
            "INSERT INTO items SELECT ?2, channel, branch, seq, value, log FROM items WHERE place = ?1",
            "INSERT INTO tasks SELECT ?2, base, child, id, position, record FROM tasks WHERE place = ?1",
        ] {
            db.prepare_cached(table)?.execute([place, copy])?;
        }
    }
    Ok(())
}

fn places_of(db: &Connection, thread: &str) -> rusqlite::Result<Vec<i64>> {
    db.prepare_cached("SELECT id FROM places WHERE thread = ?1")?
        .query_map([thread], |row| row.get(0))?
        .collect()
}

pub(super) fn delete_thread(db: &Connection, thread: &str) -> Result<(), Stop> {
    for table in [
        "DELETE FROM tasks WHERE place IN (SELECT id FROM places WHERE thread = ?1)",
        "DELETE FROM items WHERE place IN (SELECT id FROM places WHERE thread = ?1)",
        "DELETE FROM checkpoints WHERE place IN (SELECT id FROM places WHERE thread = ?1)",
        "DELETE FROM places WHERE thread = ?1",
    ] {
        db.prepare_cached(table)?.execute([thread])?;
    }
    Ok(())
}

fn ensure_place(db: &Connection, place: &Place) -> rusqlite::Result<i64> {
    if let Some(number) = place_number(db, place)? {
        return Ok(number);
    }
    db.prepare_cached("INSERT INTO places(thread, namespace) VALUES(?1, ?2) RETURNING id")?
        .query_row([&place.thread, &place.namespace], |row| row.get(0))
}

fn ensure_channel(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    let known = db
        .prepare_cached("SELECT id FROM channels WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    if let Some(number) = known {
        return Ok(number);
    }
    db.prepare_cached("INSERT INTO channels(name) VALUES(?1) RETURNING id")?
        .query_row([name], |row| row.get(0))
}
