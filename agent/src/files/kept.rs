//! The smallest few of many items, in bounded memory.

use std::collections::BTreeMap;

/// Keeps the smallest keys of all that are offered, within a number of items and of bytes,
/// and counts the rest.
///
/// What is kept is the longest prefix, in order, of everything offered that fits: once a key is
/// dropped, no greater one is kept. The order of the offers does not matter.
#[derive(Debug)]
pub(super) struct Kept<K, V> {
    items: BTreeMap<K, (V, usize)>,
    bytes: usize,
    offered: u64,
    least_dropped: Option<K>,
    max_items: usize,
    max_bytes: usize,
}

impl<K: Ord, V> Kept<K, V> {
    pub(super) fn new(max_items: usize, max_bytes: usize) -> Self {
        Self {
            items: BTreeMap::new(),
            bytes: 0,
            offered: 0,
            least_dropped: None,
            max_items,
            max_bytes,
        }
    }

    /// Offers an item that takes `bytes`; `value` is made only when it is kept for now.
    pub(super) fn offer(&mut self, key: K, bytes: usize, value: impl FnOnce() -> V) {
        self.offered += 1;
        if self
            .least_dropped
            .as_ref()
            .is_some_and(|dropped| key >= *dropped)
        {
            return;
        }
        self.bytes += bytes;
        if let Some((_, replaced)) = self.items.insert(key, (value(), bytes)) {
            self.bytes -= replaced;
        }
        while self.items.len() > self.max_items || self.bytes > self.max_bytes {
            let Some((key, (_, bytes))) = self.items.pop_last() else {
                break;
            };
            self.bytes -= bytes;
            self.least_dropped = Some(key);
        }
    }

    /// The kept items in order, and how many others there were.
    pub(super) fn finish(self) -> (Vec<(K, V)>, u64) {
        let more = self.offered - self.items.len() as u64;
        let items = self.items.into_iter().map(|(key, (value, _))| (key, value));
        (items.collect(), more)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_kept_is_the_longest_prefix_that_fits(
            sizes in prop::collection::btree_map(0u16..1000, 1usize..20, 0..60),
            max_items in 0usize..30,
            max_bytes in 0usize..200,
            seed in any::<u64>(),
        ) {
            let mut offered: Vec<_> = sizes.clone().into_iter().collect();
            offered.sort_by_key(|(key, _)| (u64::from(*key) + 1).wrapping_mul(seed | 1));
            let mut kept = Kept::new(max_items, max_bytes);
            for (key, bytes) in offered {
                kept.offer(key, bytes, || bytes);
            }
            let (items, more) = kept.finish();

            let mut room = max_bytes;
            let expected: Vec<_> = sizes
                .iter()
                .map(|(key, bytes)| (*key, *bytes))
                .take(max_items)
                .take_while(|(_, bytes)| {
                    let fits = *bytes <= room;
                    room = room.saturating_sub(*bytes);
                    fits
                })
                .collect();
            prop_assert_eq!(&items, &expected);
            prop_assert_eq!(more as usize, sizes.len() - items.len());
        }
    }
}
