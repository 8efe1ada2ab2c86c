//! Where the items of a checkpoint's channels lie, for every checkpointer alike.
//!
//! A checkpoint that continues the newest one stays in that one's *branch*; any other opens a branch of its own,
//! named after itself. An item is stored under its channel, its branch and its checkpoint. So the items that a
//! checkpoint sees lie in a few *stretches*: its branch up to itself, the branch it was forked from up to the fork,
//! and so on to the root. Siblings never mix, and no checkpoint holds a map of all channels.

//!
//! A branch is known by where it was forked from, whether or not its checkpoints are all there. So checkpoints can be removed from
//! anywhere; an item stays as long as a checkpoint that is left sees it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Channel, CheckpointId};

/// How a stored checkpoint hangs on the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The first checkpoint of its branch.
    pub(crate) branch: CheckpointId,
    pub(crate) parent: Option<CheckpointId>,
}

impl Link {
    /// The link of a checkpoint to be stored, where `newest` is the newest one so far, with its branch.
    pub(crate) fn of(
        id: CheckpointId,
        parent: Option<CheckpointId>,
        newest: Option<Stretch>,
    ) -> Self {
        let branch = match newest {
            Some(newest) if parent == Some(newest.upto) => newest.branch,
            _ => id,
        };
        Link { branch, parent }
    }
}

/// A branch up to a checkpoint: the part of it that this one sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stretch {
    /// The first checkpoint of the branch.
    pub branch: CheckpointId,
    /// The last one seen.
    pub upto: CheckpointId,
}

/// Where a branch was forked from; nothing if it starts at a root.
pub(crate) type Fork = Option<Stretch>;

/// A checkpoint or branch that others build on is not there, or claims to be older than what it builds on.
#[derive(Debug, thiserror::Error)]
#[error("checkpoint {0} is missing or out of order, though others build on it")]
pub(crate) struct Broken(pub(crate) CheckpointId);

/// The stretches from a checkpoint back to the root.
pub(crate) fn way<E: From<Broken>>(
    from: Stretch,
    fork: impl Fn(CheckpointId) -> Result<Fork, E>,
) -> Result<Vec<Stretch>, E> {
    let mut way = Vec::new();
    let mut next = Some(from);
    while let Some(stretch) = next {
        way.push(stretch);
        next = fork(stretch.branch)?;
        // Damaged links could lead in a circle.
        let ahead = next.is_some_and(|next| next.upto >= stretch.branch);
        if stretch.branch > stretch.upto || ahead {
            return Err(Broken(stretch.branch).into());
        }
    }
    Ok(way)
}

/// What becomes of an item when checkpoints are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    /// Its value is needed, what was written there is not.
    Trim,
    Drop,
}

/// What an item is, as far as others depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The value, or that there is none: nothing before it matters.
    Whole,
    /// The same, with what was written.
    Snapshot,
    Log,
}

/// The checkpoints that are left in a place, and where its branches were forked from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left {
    pub(crate) checkpoints: BTreeSet<Stretch>,
    pub(crate) forks: BTreeMap<CheckpointId, Fork>,
}

impl Left {
    /// The branches that lie on the way of what is left.
    pub(crate) fn branches(&self) -> BTreeSet<CheckpointId> {
        let mut found = BTreeSet::new();
        let branches: BTreeSet<_> = self.checkpoints.iter().map(|at| at.branch).collect();
        for mut branch in branches {
            while found.insert(branch) {
                match self.forks.get(&branch) {
                    Some(Some(fork)) => branch = fork.branch,
                    _ => break,
                }
            }
        }
        found
    }

    /// What becomes of the items of one channel, which come in the order of branch and checkpoint.
    ///
    /// An item is seen from a checkpoint of its branch if no whole one lies between. A branch that does not begin with a whole one
    /// sees on into the branch that it was forked from. Branches are older than those forked from them, so they are
    /// looked at from the newest to the oldest.
    pub(crate) fn fates(&self, items: &[(Stretch, Shape)]) -> Vec<Fate> {
        let mut seen_from = self.checkpoints.clone();
        let mut fates = vec![Fate::Drop; items.len()];
        for (branch, fork) in self.forks.iter().rev() {
            let first = items.partition_point(|(at, _)| at.branch < *branch);
            let end = items.partition_point(|(at, _)| at.branch <= *branch);
            // Where the next newer whole item lies.
            let mut until = CheckpointId(u64::MAX);
            for index in (first..end).rev() {
                let (at, shape) = items[index];
                let below = Stretch { upto: until, ..at };
                if seen_from.range(at..below).next().is_some() {
                    let trims = shape == Shape::Snapshot && !self.checkpoints.contains(&at);
                    fates[index] = if trims { Fate::Trim } else { Fate::Keep };
                }
                if shape != Shape::Log {
                    until = at.upto;
                }
            }
            let whole = Stretch {
                branch: *branch,
                upto: until,
            };
            let start = Stretch {
                branch: *branch,
                upto: CheckpointId(0),
            };
            if seen_from.range(start..whole).next().is_some() {
                seen_from.extend(*fork);
            }
        }
        fates
    }
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
    use proptest::prelude::*;

    use super::*;

    fn at(branch: u64, upto: u64) -> Stretch {
        Stretch {
            branch: CheckpointId(branch),
            upto: CheckpointId(upto),
        }
    }

    /// A place as a checkpointer would make it, from the parents of the checkpoints 1, 2, 3, …
    fn place(parents: &[Option<u64>]) -> Left {
        let mut left = Left::default();
        let mut all: Vec<Stretch> = Vec::new();
        for (id, parent) in (1..).map(CheckpointId).zip(parents) {
            let link = Link::of(id, parent.map(CheckpointId), all.last().copied());
            if link.branch == id {
                let fork = parent.map(|parent| all[parent as usize - 1]);
                left.forks.insert(id, fork);
            }
            all.push(Stretch {
                branch: link.branch,
                upto: id,
            });
        }
        left.checkpoints.extend(all);
        left
    }

    fn way_of(place: &Left, from: Stretch) -> Result<Vec<Stretch>, Broken> {
        way(from, |branch| {
            place.forks.get(&branch).copied().ok_or(Broken(branch))
        })
    }

    fn way_in(place: &Left, from: u64) -> Vec<(u64, u64)> {
        let from = place.checkpoints.iter().find(|at| at.upto.0 == from);
        let way = way_of(place, *from.unwrap()).unwrap();
        way.into_iter().map(|s| (s.branch.0, s.upto.0)).collect()
    }

    #[test]
    fn a_straight_line_is_one_stretch() {
        let line = place(&[None, Some(1), Some(2)]);
        assert_eq!(way_in(&line, 3), [(1, 3)]);
    }

    #[test]
    fn a_fork_of_a_fork_has_three_stretches() {
        // 1-2-3 with 4 on 2, 5 on 4, 6 on 4; 7 starts anew.
        let tree = place(&[None, Some(1), Some(2), Some(2), Some(4), Some(4), None]);
        assert_eq!(way_in(&tree, 5), [(4, 5), (1, 2)]);
        assert_eq!(way_in(&tree, 6), [(6, 6), (4, 4), (1, 2)]);
        assert_eq!(way_in(&tree, 7), [(7, 7)]);
    }

    #[test]
    fn damaged_links_are_an_error() {
        let mut circle = place(&[None]);
        circle.forks.insert(CheckpointId(1), Some(at(1, 1)));
        assert_eq!(way_of(&circle, at(1, 1)).unwrap_err().0, CheckpointId(1));
        assert_eq!(way_of(&circle, at(2, 1)).unwrap_err().0, CheckpointId(2));
    }

    fn shape() -> impl Strategy<Value = Option<Shape>> {
        prop_oneof![
            2 => Just(None),
            1 => Just(Some(Shape::Whole)),
            1 => Just(Some(Shape::Snapshot)),
            3 => Just(Some(Shape::Log)),
        ]
    }

    /// Checkpoints with a parent each, whether they are left, and the item of the one channel.
    fn places() -> impl Strategy<Value = Vec<(Option<u64>, bool, Option<Shape>)>> {
        prop::collection::vec(
            (any::<prop::sample::Index>(), any::<bool>(), shape()),
            1..20,
        )
        .prop_map(|raw| {
            let one = |(number, (parent, left, shape)): (usize, (prop::sample::Index, bool, _))| {
                let parent = parent.index(number + 2);
                // The newest one is the commonest parent.
                let parent = if parent > number { number } else { parent } as u64;
                ((parent > 0).then_some(parent), left, shape)
            };
            raw.into_iter().enumerate().map(one).collect()
        })
    }

    proptest! {
        /// Exactly what a checkpoint that is left sees stays.
        #[test]
        fn what_is_seen_stays_and_nothing_else(raw in places()) {
            let parents: Vec<_> = raw.iter().map(|(parent, ..)| *parent).collect();
            let mut left = place(&parents);
            let all: BTreeMap<u64, Stretch> = left.checkpoints.iter().map(|at| (at.upto.0, *at)).collect();
            let mut items: Vec<(Stretch, Shape)> = Vec::new();
            for (id, (_, stays, shape)) in (1..).zip(&raw) {
                if !stays {
                    left.checkpoints.remove(&all[&id]);
                }
                items.extend(shape.map(|shape| (all[&id], shape)));
            }
            items.sort_by_key(|(at, _)| *at);
            let mut seen = BTreeSet::new();
            for from in &left.checkpoints {
                'way: for stretch in way_of(&left, *from).unwrap() {
                    for (at, shape) in items.iter().rev() {
                        if at.branch == stretch.branch && at.upto <= stretch.upto {
                            seen.insert(*at);
                            if *shape != Shape::Log {
                                break 'way;
                            }
                        }
                    }
                }
            }
            for ((at, shape), fate) in items.iter().zip(left.fates(&items)) {
                let expected = match (seen.contains(at), shape, left.checkpoints.contains(at)) {
                    (false, ..) => Fate::Drop,
                    (true, Shape::Snapshot, false) => Fate::Trim,
                    (true, ..) => Fate::Keep,
                };
                prop_assert_eq!(fate, expected, "{:?}", at);
            }
        }
    }
}
