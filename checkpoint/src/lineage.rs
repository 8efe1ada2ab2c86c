//! Where the items of a checkpoint's channels lie, for every checkpointer alike.
//!
//! A checkpoint that continues the newest one stays in that one's *branch*; any other opens a branch of its own,
//! named after itself. An item is stored under its channel, its branch and its checkpoint. So the items that a
//! checkpoint sees lie in a few *stretches*: its branch up to itself, the branch it was forked from up to the fork,
//! and so on to the root. Siblings never mix, and no checkpoint holds a map of all channels.

use crate::{Channel, CheckpointId};

/// How a stored checkpoint hangs on the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The first checkpoint of its branch.
    pub(crate) branch: CheckpointId,
    pub(crate) parent: Option<CheckpointId>,
}

impl Link {
    /// The link of a checkpoint to be stored, where `newest` is the newest one so far.
    pub(crate) fn of(
        id: CheckpointId,
        parent: Option<CheckpointId>,
        newest: Option<(CheckpointId, Link)>,
    ) -> Self {
        let branch = match newest {
            Some((newest, link)) if parent == Some(newest) => link.branch,
            _ => id,
        };
        Link { branch, parent }
    }
}

/// The part of a branch that a checkpoint sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) branch: CheckpointId,
    pub(crate) upto: CheckpointId,
}

/// A checkpoint that others build on is not there, or claims to be older than its parent.
#[derive(Debug, thiserror::Error)]
#[error("checkpoint {0} is missing or out of order, though others build on it")]
pub(crate) struct Broken(pub(crate) CheckpointId);

/// The stretches from a checkpoint back to the root.
pub(crate) fn way<E: From<Broken>>(
    from: CheckpointId,
    link: impl Fn(CheckpointId) -> Result<Link, E>,
) -> Result<Vec<Stretch>, E> {
    let mut way = Vec::new();
    let mut next = Some(from);
    while let Some(upto) = next {
        let branch = link(upto)?.branch;
        way.push(Stretch { branch, upto });
        next = link(branch)?.parent;
        // Damaged links could lead in a circle.
        if branch > upto || next.is_some_and(|parent| parent >= branch) {
            return Err(Broken(branch).into());
        }
    }
    Ok(way)
}

/// Puts a channel together from its items, which come in newest first.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    channel: Channel,
    any: bool,
}

/// What an item says about the value, without what is not needed any more.
pub(crate) enum Found {
    Value(Vec<u8>),
    Empty,
    Log(Vec<u8>),
}

impl Gathered {
    /// Takes the next older item. Says whether the channel is complete.
    pub(crate) fn older(&mut self, at: CheckpointId, found: Found) -> bool {
        self.any = true;
        match found {
            Found::Value(value) => self.channel.value = Some((at, value)),
            Found::Empty => {}
            Found::Log(log) => {
                self.channel.logs.push((at, log));
                return false;
            }
        }
        true
    }

    /// The channel; `None` if it had no item.
    pub(crate) fn finish(mut self) -> Option<Channel> {
        self.channel.logs.reverse();
        self.any.then_some(self.channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links as a checkpointer would make them, from the parents of the checkpoints 1, 2, 3, …
    fn links(parents: &[Option<u64>]) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        for (count, parent) in (0..).zip(parents) {
            let newest = links.last().map(|link| (CheckpointId(count), *link));
            links.push(Link::of(
                CheckpointId(count + 1),
                parent.map(CheckpointId),
                newest,
            ));
        }
        links
    }

    fn way_in(links: &[Link], from: u64) -> Result<Vec<(u64, u64)>, Broken> {
        let at = |id: CheckpointId| links.get(id.0 as usize - 1).copied().ok_or(Broken(id));
        let way = way(CheckpointId(from), at)?;
        Ok(way.into_iter().map(|s| (s.branch.0, s.upto.0)).collect())
    }

    #[test]
    fn a_straight_line_is_one_stretch() {
        let line = links(&[None, Some(1), Some(2)]);
        assert_eq!(way_in(&line, 3).unwrap(), [(1, 3)]);
    }

    #[test]
    fn a_fork_of_a_fork_has_three_stretches() {
        // 1-2-3 with 4 on 2, 5 on 4, 6 on 4; 7 starts anew.
        let tree = links(&[None, Some(1), Some(2), Some(2), Some(4), Some(4), None]);
        assert_eq!(way_in(&tree, 5).unwrap(), [(4, 5), (1, 2)]);
        assert_eq!(way_in(&tree, 6).unwrap(), [(6, 6), (4, 4), (1, 2)]);
        assert_eq!(way_in(&tree, 7).unwrap(), [(7, 7)]);
    }

    #[test]
    fn damaged_links_are_an_error() {
        let circle = [Link {
            branch: CheckpointId(1),
            parent: Some(CheckpointId(1)),
        }];
        assert_eq!(way_in(&circle, 1).unwrap_err().0, CheckpointId(1));
        let ahead = [Link {
            branch: CheckpointId(2),
            parent: None,
        }];
        assert_eq!(way_in(&ahead, 1).unwrap_err().0, CheckpointId(2));
    }
}
