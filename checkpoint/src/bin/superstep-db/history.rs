//! The checkpoints of a place as a tree.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use superstep_checkpoint::{CheckpointId, Checkpointer, Header, Listed, Place, find};

use crate::Error;

/// Children by parent; those whose parent is gone stand under none.
type Children = BTreeMap<Option<CheckpointId>, Vec<CheckpointId>>;

pub(crate) async fn print(store: &dyn Checkpointer, place: &Place) -> Result<(), Error> {
    let found = find(store, place, &BTreeMap::new(), None, usize::MAX).await?;
    if found.is_empty() {
        return Err(format!("{place} has no checkpoints").into());
    }
    let all: BTreeMap<_, _> = found
        .into_iter()
        .map(|(listed, header)| (listed.id, (listed, header)))
        .collect();
    let mut children = Children::new();
    for (id, (listed, _)) in &all {
        let parent = listed.parent.filter(|parent| all.contains_key(parent));
        children.entry(parent).or_default().push(*id);
    }
    // Depth first, without recursion: a thread may be as long as it likes.
    let mut waiting: Vec<(CheckpointId, usize)> = Vec::new();
    let push = |waiting: &mut Vec<_>, parent: Option<CheckpointId>, depth: usize| {
        let of = children.get(&parent).map(Vec::as_slice).unwrap_or_default();
        // The oldest child goes on in the line of its parent, below all others.
        let (first, others) = match (of, parent) {
            ([first, others @ ..], Some(_)) => (Some(*first), others),
            (all, _) => (None, all),
        };
        waiting.extend(first.map(|id| (id, depth)));
        waiting.extend(others.iter().rev().map(|id| (*id, depth + 1)));
    };
    push(&mut waiting, None, 0);
    while let Some((id, depth)) = waiting.pop() {
        if let Some((listed, header)) = all.get(&id) {
            println!(
                "{}{}",
                "│ ".repeat(depth.saturating_sub(1)),
                line(listed, header)
            );
        }
        push(&mut waiting, Some(id), depth);
    }
    Ok(())
}

fn line(listed: &Listed, header: &Header) -> String {
    let source = format!("{:?}", header.source).to_lowercase();
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(listed.time));
    // The formatter knows years up to 9999.
    let time = time.filter(|_| listed.time < 253_402_300_800_000);
    let time = time.map(|time| humantime::format_rfc3339_seconds(time).to_string());
    let mut line = format!(
        "{} {source} step {} {}",
        listed.id,
        header.step,
        time.unwrap_or_default()
    );
    if let Some(parent) = listed.parent {
        line += &format!(" on {parent}");
    }
    if !header.next.is_empty() {
        line += &format!(" next {}", header.next.join(", "));
    }
    if let Some(run) = &header.run {
        line += &format!(" run {run}");
    }
    for (key, value) in &header.metadata {
        line += &format!(" {key}={value}");
    }
    line
}
