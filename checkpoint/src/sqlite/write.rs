//! The changes. Each runs in a savepoint of its own, with the file locked against other writers.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::Stop;
use super::read::{branch, forks, key, known};
use crate::lineage::{Fate, Left, Link, Shape, Stretch};
use crate::saver::{birth, birth_in, check_commits, check_tasks};
use crate::{
    CheckpointId, Commit, Item, Place, SaveError, Seen, StoredPlace, StoredTask, StoredThread,
    TaskId,
};

pub(super) fn commit(db: &Connection, place: &Place, commits: &[Commit]) -> Result<(), Stop> {
    let (number, seen) = ensure_place(db, place, birth_in(commits))?;
    let has = |id| Ok::<_, Stop>(branch(db, number, id)?.is_some());
    check_commits(place, seen, commits, has)?;
    let mut last = seen.newest;
    for commit in commits {
        add(db, number, last, commit)?;
        last = commit.id;
    }
    db.prepare_cached("UPDATE places SET newest = ?2, saves = 0 WHERE id = ?1")?
        .execute(params![number, key(last)])?;
    Ok(())
}

fn add(db: &Connection, place: i64, newest: CheckpointId, commit: &Commit) -> Result<(), Stop> {
    let parent = match commit.parent {
        Some(upto) => branch(db, place, upto)?.map(|branch| Stretch { branch, upto }),
        None => None,
    };
    let newest = parent.filter(|parent| parent.upto == newest);
    let link = Link::of(commit.id, commit.parent, newest);
    if link.branch == commit.id {
        put_branch(
            db,
            place,
            link.branch,
            parent.map(|at| (at.upto, at.branch)),
        )?;
    }
    put_checkpoint(db, place, commit.id, link, commit.time, &commit.header)?;
    for (channel, item) in &commit.items {
        put_item(db, place, channel, link.branch, commit.id, item)?;
    }
    let base = commit.parent.map_or(0, key);
    put_tasks(db, place, base, key(commit.id), &commit.tasks)
}

fn put_branch(
    db: &Connection,
    place: i64,
    branch: CheckpointId,
    fork: Option<(CheckpointId, CheckpointId)>,
) -> rusqlite::Result<()> {
    let (fork, fork_branch) = fork.unwrap_or_default();
    db.prepare_cached(
        "INSERT INTO branches(place, branch, fork, fork_branch) VALUES(?1, ?2, ?3, ?4)",
    )?
    .execute(params![place, key(branch), key(fork), key(fork_branch)])?;
    Ok(())
}

fn put_checkpoint(
    db: &Connection,
    place: i64,
    id: CheckpointId,
    link: Link,
    time: u64,
    header: &[u8],
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO checkpoints(place, seq, parent, branch, time, header) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        place,
        key(id),
        link.parent.map(key),
        key(link.branch),
        i64::try_from(time).unwrap_or(i64::MAX),
        header
    ])?;
    Ok(())
}

fn put_item(
    db: &Connection,
    place: i64,
    channel: &str,
    branch: CheckpointId,
    id: CheckpointId,
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
        .execute(params![place, channel, key(branch), key(id), value, log])?;
    Ok(())
}

pub(super) fn save_tasks(
    db: &Connection,
    place: &Place,
    seen: Seen,
    base: CheckpointId,
    tasks: &[StoredTask],
) -> Result<(), Stop> {
    let (number, there) = ensure_place(db, place, seen.born.unwrap_or_else(birth))?;
    let has = |id| Ok::<_, Stop>(branch(db, number, id)?.is_some());
    check_tasks(place, there, seen, base, has)?;
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
    is_free(db, to)?;
    let places = places_of(db, thread)?;
    if places.is_empty() {
        let thread = thread.to_owned();
        return Err(SaveError::NoThread { thread }.into());
    }
    for place in places {
        let copy: i64 = db
            .prepare_cached(
                "INSERT INTO places(thread, namespace, newest, saves, born, origin) \
                 SELECT ?2, namespace, newest, saves, ?3, ifnull(origin, thread) FROM places WHERE id = ?1 RETURNING id",
            )?
            .query_row(params![place, to, birth().cast_signed()], |row| row.get(0))?;
        for table in [
            "INSERT INTO branches SELECT ?2, branch, fork, fork_branch FROM branches WHERE place = ?1",
            "INSERT INTO checkpoints SELECT ?2, seq, parent, branch, time, header FROM checkpoints WHERE place = ?1",
            "INSERT INTO items SELECT ?2, channel, branch, seq, value, log FROM items WHERE place = ?1",
            "INSERT INTO tasks SELECT ?2, base, child, id, position, record FROM tasks WHERE place = ?1",
        ] {
            db.prepare_cached(table)?.execute([place, copy])?;
        }
    }
    Ok(())
}

pub(super) fn import(db: &Connection, thread: &str, stored: &StoredThread) -> Result<(), Stop> {
    is_free(db, thread)?;
    for (namespace, place) in &stored.places {
        import_place(db, thread, namespace, place)?;
    }
    Ok(())
}

fn import_place(
    db: &Connection,
    thread: &str,
    namespace: &str,
    stored: &StoredPlace,
) -> Result<(), Stop> {
    let Seen { newest, saves, .. } = stored.seen;
    let origin = stored.origin.as_deref().filter(|origin| *origin != thread);
    let number: i64 = db
        .prepare_cached(
            "INSERT INTO places(thread, namespace, newest, saves, born, origin) VALUES(?1, ?2, ?3, ?4, ?5, ?6) RETURNING id",
        )?
        .query_row(params![thread, namespace, key(newest), saves, birth().cast_signed(), origin], |row| row.get(0))?;
    for (branch, fork) in &stored.branches {
        put_branch(db, number, *branch, *fork)?;
    }
    for (id, checkpoint) in &stored.checkpoints {
        let link = Link {
            branch: checkpoint.branch,
            parent: checkpoint.parent,
        };
        put_checkpoint(db, number, *id, link, checkpoint.time, &checkpoint.header)?;
    }
    for (channel, items) in &stored.items {
        for ((branch, id), item) in items {
            put_item(db, number, channel, *branch, *id, item)?;
        }
    }
    for (base, tasks) in &stored.tasks {
        for task in tasks.values() {
            let child = task.child.map_or(0, key);
            put_tasks(db, number, key(*base), child, std::slice::from_ref(task))?;
        }
    }
    Ok(())
}

fn is_free(db: &Connection, thread: &str) -> Result<(), Stop> {
    if places_of(db, thread)?.is_empty() {
        return Ok(());
    }
    let thread = thread.to_owned();
    Err(SaveError::Exists { thread }.into())
}

pub(super) fn remove(db: &Connection, place: &Place, ids: &[CheckpointId]) -> Result<(), Stop> {
    let Some(known) = known(db, place)? else {
        return Ok(());
    };
    let place = known.number;
    let newest = branch(db, place, known.seen.newest)?;
    // What waits for a first checkpoint has the base 0, which is none.
    for id in ids.iter().filter(|id| id.0 > 0) {
        for table in [
            "DELETE FROM checkpoints WHERE place = ?1 AND seq = ?2",
            "DELETE FROM tasks WHERE place = ?1 AND base = ?2 AND child = 0",
        ] {
            db.prepare_cached(table)?.execute([place, key(*id)])?;
        }
    }
    // By child there is no index; they go through the tasks once.
    db.prepare_cached(
        "DELETE FROM tasks WHERE place = ?1 AND child > 0 \
         AND child NOT IN (SELECT seq FROM checkpoints WHERE place = ?1)",
    )?
    .execute([place])?;
    if newest.is_some() && ids.contains(&known.seen.newest) {
        // Who stands on it is to notice.
        db.prepare_cached("UPDATE places SET saves = saves + 1 WHERE id = ?1")?
            .execute([place])?;
    }
    let left = left(db, place)?;
    let branches = left.branches();
    for branch in left
        .forks
        .keys()
        .filter(|branch| !branches.contains(branch))
    {
        db.prepare_cached("DELETE FROM branches WHERE place = ?1 AND branch = ?2")?
            .execute([place, key(*branch)])?;
    }
    thin_out(db, place, &left)
}

/// The checkpoints that are there.
fn left(db: &Connection, place: i64) -> Result<Left, Stop> {
    let checkpoints: BTreeSet<Stretch> = db
        .prepare_cached("SELECT branch, seq FROM checkpoints WHERE place = ?1")?
        .query_map([place], |row| {
            Ok(Stretch {
                branch: CheckpointId(row.get(0)?),
                upto: CheckpointId(row.get(1)?),
            })
        })?
        .collect::<Result<_, _>>()?;
    let forks = forks(db, place)?;
    Ok(Left { checkpoints, forks })
}

/// Removes the items that no checkpoint sees.
fn thin_out(db: &Connection, place: i64, left: &Left) -> Result<(), Stop> {
    let channels: Vec<i64> = db
        .prepare_cached("SELECT DISTINCT channel FROM items WHERE place = ?1")?
        .query_map([place], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for channel in channels {
        let items = shapes(db, place, channel)?;
        for ((at, _), fate) in items.iter().zip(left.fates(&items)) {
            let change = match fate {
                Fate::Keep => continue,
                Fate::Drop => {
                    "DELETE FROM items WHERE place = ?1 AND channel = ?2 AND branch = ?3 AND seq = ?4"
                }
                Fate::Trim => {
                    "UPDATE items SET log = NULL WHERE place = ?1 AND channel = ?2 AND branch = ?3 AND seq = ?4"
                }
            };
            db.prepare_cached(change)?
                .execute([place, channel, key(at.branch), key(at.upto)])?;
        }
    }
    Ok(())
}

fn shapes(db: &Connection, place: i64, channel: i64) -> rusqlite::Result<Vec<(Stretch, Shape)>> {
    db.prepare_cached(
        "SELECT branch, seq, value IS NOT NULL, log IS NOT NULL FROM items \
         WHERE place = ?1 AND channel = ?2 ORDER BY branch, seq",
    )?
    .query_map([place, channel], |row| {
        let at = Stretch {
            branch: CheckpointId(row.get(0)?),
            upto: CheckpointId(row.get(1)?),
        };
        let shape = match (row.get(2)?, row.get(3)?) {
            (true, true) => Shape::Snapshot,
            (false, true) => Shape::Log,
            (_, false) => Shape::Whole,
        };
        Ok((at, shape))
    })?
    .collect()
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
        "DELETE FROM branches WHERE place IN (SELECT id FROM places WHERE thread = ?1)",
        "DELETE FROM places WHERE thread = ?1",
    ] {
        db.prepare_cached(table)?.execute([thread])?;
    }
    Ok(())
}

fn ensure_place(db: &Connection, place: &Place, born: u64) -> rusqlite::Result<(i64, Seen)> {
    if let Some(known) = known(db, place)? {
        return Ok((known.number, known.seen));
    }
    let number = db
        .prepare_cached(
            "INSERT INTO places(thread, namespace, born) VALUES(?1, ?2, ?3) RETURNING id",
        )?
        .query_row(
            params![place.thread, place.namespace, born.cast_signed()],
            |row| row.get(0),
        )?;
    let seen = Seen {
        born: Some(born),
        ..Seen::default()
    };
    Ok((number, seen))
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
