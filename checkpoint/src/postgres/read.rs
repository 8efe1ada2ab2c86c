//! The queries.

use std::collections::BTreeMap;

use tokio_postgres::types::Type;
use tokio_postgres::{Row, Transaction};

use super::Stop;
use crate::lineage::{self, Broken, Fork, Found, Gathered};
use crate::{
    Channel, CheckpointId, Head, Item, Kind, Listed, Loaded, Place, Seen, Share, Size,
    StoredCheckpoint, StoredPlace, StoredTask, StoredThread, Stretch, TaskId,
};

/// What is known of a place before its checkpoints are read.
pub(super) struct Known {
    /// Its number in the other tables.
    pub(super) number: i64,
    pub(super) seen: Seen,
    pub(super) born: u64,
    pub(super) origin: Option<String>,
}

impl Known {
    pub(super) fn head(&self) -> Head {
        Head {
            seen: self.seen,
            born: self.born,
        }
    }

    pub(super) fn read(row: &Row) -> Result<Self, Stop> {
        let born = row.try_get::<_, i64>(4)?.cast_unsigned();
        Ok(Known {
            number: row.try_get(0)?,
            seen: Seen {
                newest: id(row, 1)?,
                saves: number(row, 2)?,
                born: Some(born),
            },
            born,
            origin: row
                .try_get::<_, Option<Vec<u8>>>(3)?
                .map(name)
                .transpose()?,
        })
    }
}

/// A number that is never negative.
pub(super) fn number(row: &Row, at: usize) -> Result<u64, Stop> {
    let found: i64 = row.try_get(at)?;
    u64::try_from(found).map_err(|_| Stop::Damaged(format!("the number {found} is negative")))
}

fn id(row: &Row, at: usize) -> Result<CheckpointId, Stop> {
    number(row, at).map(CheckpointId)
}

/// An id as PostgreSQL compares it; none is ever so large that it does not fit.
pub(super) fn key(id: CheckpointId) -> i64 {
    i64::try_from(id.0).unwrap_or(i64::MAX)
}

pub(super) fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn name(bytes: Vec<u8>) -> Result<String, Stop> {
    String::from_utf8(bytes).map_err(|_| Stop::Damaged("a name is no text".into()))
}

/// A place, if it was ever written to.
pub(super) async fn known(db: &Transaction<'_>, place: &Place) -> Result<Option<Known>, Stop> {
    let (thread, namespace) = (place.thread.as_bytes(), place.namespace.as_bytes());
    let found = db
        .query_typed_opt(
            "SELECT id, newest, saves, origin, born FROM superstep.places WHERE thread = $1 AND namespace = $2",
            &[(&thread, Type::BYTEA), (&namespace, Type::BYTEA)],
        )
        .await?;
    found.as_ref().map(Known::read).transpose()
}

/// The branch that a checkpoint is on; nothing if it is not there.
pub(super) async fn branch(
    db: &Transaction<'_>,
    place: i64,
    of: CheckpointId,
) -> Result<Option<CheckpointId>, Stop> {
    let found = db
        .query_typed_opt(
            "SELECT branch FROM superstep.checkpoints WHERE place = $1 AND seq = $2",
            &[(&place, Type::INT8), (&key(of), Type::INT8)],
        )
        .await?;
    found.map(|row| id(&row, 0)).transpose()
}

/// The branches of a place, and where each was forked from.
pub(super) async fn forks(
    db: &Transaction<'_>,
    place: i64,
) -> Result<BTreeMap<CheckpointId, Fork>, Stop> {
    let rows = db
        .query_typed(
            "SELECT branch, fork, fork_branch FROM superstep.branches WHERE place = $1",
            &[(&place, Type::INT8)],
        )
        .await?;
    let mut forks = BTreeMap::new();
    for row in rows {
        let (upto, branch) = (id(&row, 1)?, id(&row, 2)?);
        let fork = (upto.0 > 0).then_some(Stretch { branch, upto });
        forks.insert(id(&row, 0)?, fork);
    }
    Ok(forks)
}

async fn way_from(db: &Transaction<'_>, place: i64, from: Stretch) -> Result<Vec<Stretch>, Stop> {
    let forks = forks(db, place).await?;
    lineage::way(from, |branch| {
        let fork = forks.get(&branch).copied();
        fork.ok_or(Stop::Lineage(Broken(branch)))
    })
}

pub(super) async fn way(
    db: &Transaction<'_>,
    place: &Place,
    upto: CheckpointId,
) -> Result<Vec<Stretch>, Stop> {
    let Some(Known { number: place, .. }) = known(db, place).await? else {
        return Ok(Vec::new());
    };
    match branch(db, place, upto).await? {
        Some(branch) => way_from(db, place, Stretch { branch, upto }).await,
        None => Ok(Vec::new()),
    }
}

pub(super) async fn load(
    db: &Transaction<'_>,
    place: &Place,
    at: Option<CheckpointId>,
) -> Result<Option<Loaded>, Stop> {
    let Some(place) = known(db, place).await? else {
        return Ok(None);
    };
    let upto = at.unwrap_or(CheckpointId(u64::MAX));
    let found = checkpoints(db, place.number, upto.next(), 1).await?.pop();
    let Some(found) = found.filter(|found| at.is_none_or(|at| at == found.id)) else {
        return Ok(None);
    };
    let from = Stretch {
        branch: found.branch,
        upto: found.id,
    };
    let way = way_from(db, place.number, from).await?;
    let mut pending = tasks_on(db, place.number, found.id).await?;
    pending.retain(|task| task.child.is_none());
    Ok(Some(Loaded {
        id: found.id,
        parent: found.parent,
        time: found.time,
        newest: place.seen.newest,
        saves: place.seen.saves,
        born: place.born,
        origin: place.origin,
        header: found.header,
        channels: channels(db, place.number, &way).await?,
        pending,
    }))
}

/// The items of all channels along the way, from the newest back to the first that is whole in each stretch.
const ITEMS: &str = "
WITH RECURSIVE present(channel) AS (
    (SELECT channel FROM superstep.items WHERE place = $1 ORDER BY channel LIMIT 1)
    UNION ALL
    SELECT (SELECT channel FROM superstep.items i
        WHERE place = $1 AND i.channel > present.channel ORDER BY channel LIMIT 1)
    FROM present WHERE channel IS NOT NULL)
SELECT p.channel, i.seq, i.value, CASE WHEN i.value IS NULL THEN i.log END
FROM present p
CROSS JOIN unnest($2, $3) WITH ORDINALITY AS way(branch, upto, nth)
CROSS JOIN LATERAL (SELECT coalesce((
    SELECT seq FROM superstep.items w
    WHERE w.place = $1 AND w.channel = p.channel AND w.branch = way.branch AND w.seq <= way.upto
        AND (w.value IS NOT NULL OR w.log IS NULL)
    ORDER BY seq DESC LIMIT 1), 0) AS seq) AS whole
JOIN superstep.items i ON i.place = $1 AND i.channel = p.channel AND i.branch = way.branch
    AND i.seq BETWEEN whole.seq AND way.upto
WHERE p.channel IS NOT NULL
ORDER BY p.channel, way.nth, i.seq DESC";

async fn channels(
    db: &Transaction<'_>,
    place: i64,
    way: &[Stretch],
) -> Result<BTreeMap<String, Channel>, Stop> {
    let branches: Vec<i64> = way.iter().map(|stretch| key(stretch.branch)).collect();
    let ends: Vec<i64> = way.iter().map(|stretch| key(stretch.upto)).collect();
    let rows = db
        .query_typed(
            ITEMS,
            &[
                (&place, Type::INT8),
                (&branches, Type::INT8_ARRAY),
                (&ends, Type::INT8_ARRAY),
            ],
        )
        .await?;
    let mut gathered: BTreeMap<String, (Gathered, bool)> = BTreeMap::new();
    for row in rows {
        let (channel, complete) = gathered.entry(name(row.try_get(0)?)?).or_default();
        if !*complete {
            *complete = channel.older(id(&row, 1)?, found(&row)?);
        }
    }
    let channels = gathered.into_iter();
    let channels = channels.filter_map(|(name, (channel, _))| Some((name, channel.finish()?)));
    Ok(channels.collect())
}

fn found(row: &Row) -> Result<Found, Stop> {
    if let Some(value) = row.try_get(2)? {
        return Ok(Found::Value(value));
    }
    Ok(row
        .try_get::<_, Option<_>>(3)?
        .map_or(Found::Empty, Found::Log))
}

/// Checkpoints before one, newest first.
async fn checkpoints(
    db: &Transaction<'_>,
    place: i64,
    before: CheckpointId,
    limit: usize,
) -> Result<Vec<Listed>, Stop> {
    let rows = db
        .query_typed(
            "SELECT seq, parent, time, branch, \
                (SELECT fork FROM superstep.branches b WHERE b.place = c.place AND b.branch = c.branch), header \
             FROM superstep.checkpoints c WHERE place = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3",
            &[
                (&place, Type::INT8),
                (&key(before), Type::INT8),
                (&count(limit), Type::INT8),
            ],
        )
        .await?;
    let listed = rows.iter().map(|row| {
        let fork = row.try_get::<_, Option<i64>>(4)?;
        Ok(Listed {
            id: id(row, 0)?,
            parent: optional_id(row, 1)?,
            time: number(row, 2)?,
            branch: id(row, 3)?,
            fork: fork
                .filter(|fork| *fork > 0)
                .map(|fork| CheckpointId(fork.cast_unsigned())),
            header: row.try_get(5)?,
        })
    });
    listed.collect()
}

fn optional_id(row: &Row, at: usize) -> Result<Option<CheckpointId>, Stop> {
    let found: Option<i64> = row.try_get(at)?;
    found.map(|_| id(row, at)).transpose()
}

pub(super) async fn list(
    db: &Transaction<'_>,
    place: &Place,
    before: Option<CheckpointId>,
    limit: usize,
) -> Result<Vec<Listed>, Stop> {
    let Some(Known { number: place, .. }) = known(db, place).await? else {
        return Ok(Vec::new());
    };
    checkpoints(db, place, before.unwrap_or(CheckpointId(u64::MAX)), limit).await
}

pub(super) async fn tasks(
    db: &Transaction<'_>,
    place: &Place,
    base: CheckpointId,
) -> Result<Vec<StoredTask>, Stop> {
    match known(db, place).await? {
        Some(Known { number: place, .. }) => tasks_on(db, place, base).await,
        None => Ok(Vec::new()),
    }
}

async fn tasks_on(
    db: &Transaction<'_>,
    place: i64,
    base: CheckpointId,
) -> Result<Vec<StoredTask>, Stop> {
    let rows = db
        .query_typed(
            "SELECT id, position, child, record FROM superstep.tasks \
             WHERE place = $1 AND base = $2 ORDER BY child, position, id",
            &[(&place, Type::INT8), (&key(base), Type::INT8)],
        )
        .await?;
    rows.iter().map(read_task).collect()
}

fn read_task(row: &Row) -> Result<StoredTask, Stop> {
    let bytes: Vec<u8> = row.try_get(0)?;
    let bytes = bytes.try_into();
    let position = u32::try_from(number(row, 1)?);
    Ok(StoredTask {
        id: TaskId(bytes.map_err(|_| Stop::Damaged("the id of a task has another length".into()))?),
        position: position
            .map_err(|_| Stop::Damaged("the position of a task is too large".into()))?,
        child: Some(id(row, 2)?).filter(|child| child.0 > 0),
        record: row.try_get(3)?,
    })
}

pub(super) async fn logs(
    db: &Transaction<'_>,
    place: &Place,
    at: CheckpointId,
) -> Result<Vec<(String, Vec<u8>)>, Stop> {
    let Some(Known { number: place, .. }) = known(db, place).await? else {
        return Ok(Vec::new());
    };
    let Some(branch) = branch(db, place, at).await? else {
        return Ok(Vec::new());
    };
    let rows = db
        .query_typed(
            "WITH RECURSIVE present(channel) AS ( \
                (SELECT channel FROM superstep.items WHERE place = $1 ORDER BY channel LIMIT 1) \
                UNION ALL \
                SELECT (SELECT channel FROM superstep.items i \
                    WHERE place = $1 AND i.channel > present.channel ORDER BY channel LIMIT 1) \
                FROM present WHERE channel IS NOT NULL) \
             SELECT i.channel, i.log FROM present p \
             JOIN superstep.items i ON i.place = $1 AND i.channel = p.channel AND i.branch = $2 AND i.seq = $3 \
             WHERE i.log IS NOT NULL ORDER BY i.channel",
            &[
                (&place, Type::INT8),
                (&key(branch), Type::INT8),
                (&key(at), Type::INT8),
            ],
        )
        .await?;
    let logs = rows
        .iter()
        .map(|row| Ok((name(row.try_get(0)?)?, row.try_get(1)?)));
    logs.collect()
}

pub(super) async fn places(
    db: &Transaction<'_>,
    after: Option<&Place>,
    limit: usize,
) -> Result<Vec<Place>, Stop> {
    let (thread, namespace) = after.map_or((&b""[..], &b""[..]), |after| {
        (after.thread.as_bytes(), after.namespace.as_bytes())
    });
    let rows = db
        .query_typed(
            "SELECT thread, namespace FROM superstep.places \
             WHERE $1 OR (thread, namespace) > ($2, $3) ORDER BY thread, namespace LIMIT $4",
            &[
                (&after.is_none(), Type::BOOL),
                (&thread, Type::BYTEA),
                (&namespace, Type::BYTEA),
                (&count(limit), Type::INT8),
            ],
        )
        .await?;
    let places = rows.iter().map(|row| {
        Ok(Place {
            thread: name(row.try_get(0)?)?.into(),
            namespace: name(row.try_get(1)?)?.into(),
        })
    });
    places.collect()
}

pub(super) async fn export(
    db: &Transaction<'_>,
    thread: &str,
) -> Result<Option<StoredThread>, Stop> {
    let rows = db
        .query_typed(
            "SELECT id, newest, saves, origin, born, namespace FROM superstep.places WHERE thread = $1",
            &[(&thread.as_bytes(), Type::BYTEA)],
        )
        .await?;
    let mut stored = StoredThread::default();
    for row in rows {
        let place = stored_place(db, Known::read(&row)?, thread).await?;
        stored.places.insert(name(row.try_get(5)?)?, place);
    }
    Ok((!stored.places.is_empty()).then_some(stored))
}

async fn stored_place(
    db: &Transaction<'_>,
    known: Known,
    thread: &str,
) -> Result<StoredPlace, Stop> {
    let place = known.number;
    let forks = forks(db, place).await?.into_iter();
    let mut stored = StoredPlace {
        origin: Some(known.origin.unwrap_or_else(|| thread.to_owned())),
        seen: Seen {
            born: None,
            ..known.seen
        },
        branches: forks
            .map(|(branch, fork)| (branch, fork.map(|at| (at.upto, at.branch))))
            .collect(),
        ..StoredPlace::default()
    };
    let of_place = &[(
        &place as &(dyn tokio_postgres::types::ToSql + Sync),
        Type::INT8,
    )];
    let rows = db
        .query_typed(
            "SELECT seq, parent, branch, time, header FROM superstep.checkpoints WHERE place = $1",
            of_place,
        )
        .await?;
    for row in rows {
        let checkpoint = StoredCheckpoint {
            parent: optional_id(&row, 1)?,
            branch: id(&row, 2)?,
            time: number(&row, 3)?,
            header: row.try_get(4)?,
        };
        stored.checkpoints.insert(id(&row, 0)?, checkpoint);
    }
    let rows = db
        .query_typed(
            "SELECT channel, branch, seq, value, log FROM superstep.items WHERE place = $1",
            of_place,
        )
        .await?;
    for row in rows {
        let items = stored.items.entry(name(row.try_get(0)?)?).or_default();
        let item = match (row.try_get(3)?, row.try_get(4)?) {
            (Some(value), Some(log)) => Item::Snapshot { log, value },
            (Some(value), None) => Item::Value(value),
            (None, Some(log)) => Item::Log(log),
            (None, None) => Item::Empty,
        };
        items.insert((id(&row, 1)?, id(&row, 2)?), item);
    }
    let rows = db
        .query_typed(
            "SELECT id, position, child, record, base FROM superstep.tasks WHERE place = $1",
            of_place,
        )
        .await?;
    for row in rows {
        let task = read_task(&row)?;
        let tasks = stored.tasks.entry(id(&row, 4)?).or_default();
        tasks.insert((task.child, task.id), task);
    }
    Ok(stored)
}

pub(super) async fn size(db: &Transaction<'_>, thread: &str) -> Result<Size, Stop> {
    let rows = db
        .query_typed(
            "WITH mine AS (SELECT id AS place, namespace FROM superstep.places WHERE thread = $1), \
             all_items AS (SELECT namespace, channel, length(value) AS value, length(log) AS log \
                FROM superstep.items JOIN mine USING(place)) \
             SELECT namespace, 0::int8, ''::bytea, count(*), sum(length(header))::int8 \
                FROM superstep.checkpoints JOIN mine USING(place) GROUP BY 1 \
             UNION ALL SELECT namespace, 1::int8, channel, count(value), sum(value)::int8 \
                FROM all_items GROUP BY 1, 3 HAVING count(value) > 0 \
             UNION ALL SELECT namespace, 2::int8, channel, count(log), sum(log)::int8 \
                FROM all_items GROUP BY 1, 3 HAVING count(log) > 0 \
             UNION ALL SELECT namespace, 3::int8, ''::bytea, count(*), sum(length(record))::int8 \
                FROM superstep.tasks JOIN mine USING(place) GROUP BY 1 \
             ORDER BY 1, 2, 3",
            &[(&thread.as_bytes(), Type::BYTEA)],
        )
        .await?;
    let shares = rows.iter().map(|row| {
        Ok(Share {
            namespace: name(row.try_get(0)?)?,
            kind: match row.try_get::<_, i64>(1)? {
                0 => Kind::Header,
                1 => Kind::Value,
                2 => Kind::Log,
                _ => Kind::Task,
            },
            channel: name(row.try_get(2)?)?,
            count: number(row, 3)?,
            bytes: number(row, 4)?,
        })
    });
    Ok(Size {
        shares: shares.collect::<Result<_, Stop>>()?,
    })
}
