//! A list that is cheap to clone and to append to.

use std::fmt;
use std::iter::FusedIterator;
use std::slice;
use std::sync::Arc;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// No segment gets longer than this, so that no append copies more.
const LONGEST: usize = 1024;

/// What a hostile length may make us reserve.
const MAX_RESERVED: usize = 4096;

/// A list for a channel that grows: a transcript, a log.
///
/// A node gets the state as a value of its own, and a channel keeps its own. With a `Vec` each such copy costs the length of the list;
/// clones of a `List` share their segments, so it costs next to nothing, and appending to one leaves the others as they were.
/// Stored, it is what a `Vec` is, byte by byte.
///
/// ```
/// use superstep_channels::List;
///
/// let mut list: List<u32> = (0..5000).collect();
/// let before = list.clone();
/// list.push(5000);
/// assert_eq!((before.len(), list.len()), (5000, 5001));
/// assert_eq!(list.iter().rev().take(2).collect::<Vec<_>>(), [&5000, &4999]);
/// ```
pub struct List<T> {
    /// None is empty. Towards the end they get shorter, like the digits of a counter, so there are few.
    segments: Vec<Arc<Vec<T>>>,
    length: usize,
}

impl<T> List<T> {
    /// An empty list.
    pub const fn new() -> Self {
        List {
            segments: Vec::new(),
            length: 0,
        }
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The item at a place, counted from 0.
    pub fn get(&self, mut at: usize) -> Option<&T> {
        for segment in &self.segments {
            match segment.get(at) {
                Some(item) => return Some(item),
                None => at -= segment.len(),
            }
        }
        None
    }

    /// The last item.
    pub fn last(&self) -> Option<&T> {
        self.segments.last()?.last()
    }

    /// The items in order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter {
            segments: self.segments.iter(),
            front: [].iter(),
            back: [].iter(),
            left: self.length,
        }
    }
}

impl<T: Clone> List<T> {
    /// Appends an item.
    pub fn push(&mut self, item: T) {
        self.length += 1;
        let last = self.segments.last_mut().and_then(Arc::get_mut);
        match last.filter(|last| last.len() < LONGEST) {
            Some(last) => last.push(item),
            None => {
                self.join_last();
                self.segments.push(Arc::new(vec![item]));
            }
        }
    }

    /// Joins with the last segment those before it that are no longer.
    fn join_last(&mut self) {
        let Some(last) = self.segments.pop() else {
            return;
        };
        let mut joined = last;
        while let Some(before) = self.segments.last()
            && before.len() <= joined.len()
            && before.len() + joined.len() <= LONGEST
        {
            if let Some(before) = self.segments.pop() {
                let mut items = Arc::unwrap_or_clone(before);
                items.extend(Arc::unwrap_or_clone(joined));
                joined = Arc::new(items);
            }
        }
        self.segments.push(joined);
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        List {
            segments: self.segments.clone(),
            length: self.length,
        }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.iter().eq(other)
    }
}

impl<T: Eq> Eq for List<T> {}

impl<T: Clone> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T: Clone> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = List::new();
        list.extend(items);
        list
    }
}

impl<T: Clone> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Clone> IntoIterator for List<T> {
    type Item = T;
    type IntoIter =
        std::iter::FlatMap<std::vec::IntoIter<Arc<Vec<T>>>, Vec<T>, fn(Arc<Vec<T>>) -> Vec<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.segments.into_iter().flat_map(Arc::unwrap_or_clone)
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The items of a [`List`], from both ends.
#[derive(Clone, Debug)]
pub struct Iter<'a, T> {
    segments: slice::Iter<'a, Arc<Vec<T>>>,
    front: slice::Iter<'a, T>,
    back: slice::Iter<'a, T>,
    left: usize,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.front.next() {
                self.left -= 1;
                return Some(item);
            }
            match self.segments.next() {
                Some(segment) => self.front = segment.iter(),
                None => {
                    let item = self.back.next()?;
                    self.left -= 1;
                    return Some(item);
                }
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.back.next_back() {
                self.left -= 1;
                return Some(item);
            }
            match self.segments.next_back() {
                Some(segment) => self.back = segment.iter(),
                None => {
                    let item = self.front.next_back()?;
                    self.left -= 1;
                    return Some(item);
                }
            }
        }
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}
impl<T> FusedIterator for Iter<'_, T> {}

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de, T: Deserialize<'de> + Clone> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de> + Clone> Visitor<'de> for Items<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut list = List::new();
                let segments = seq.size_hint().unwrap_or(0) / LONGEST;
                list.segments.reserve(segments.min(MAX_RESERVED));
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Items(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Type, Value};

    #[derive(Clone, Debug)]
    enum Op {
        Push(u8),
        Extend(Vec<u8>),
        /// Keeps a clone, which must stay as it is.
        Keep,
        Forget,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => any::<u8>().prop_map(Op::Push),
            2 => prop::collection::vec(any::<u8>(), 0..400).prop_map(Op::Extend),
            4 => Just(Op::Keep),
            1 => Just(Op::Forget),
        ]
    }

    proptest! {
        #[test]
        fn it_is_like_a_vec(ops in prop::collection::vec(op(), 0..80)) {
            let (mut list, mut vec) = (List::new(), Vec::new());
            let mut kept: Vec<(List<u8>, Vec<u8>)> = Vec::new();
            for op in ops {
                match op {
                    Op::Push(item) => {
                        list.push(item);
                        vec.push(item);
                    }
                    Op::Extend(items) => {
                        list.extend(items.clone());
                        vec.extend(items);
                    }
                    Op::Keep => kept.push((list.clone(), vec.clone())),
                    Op::Forget => kept.clear(),
                }
            }
            kept.push((list, vec));
            for (list, vec) in kept {
                prop_assert!(list.iter().eq(&vec));
                prop_assert!(list.iter().rev().eq(vec.iter().rev()));
                prop_assert_eq!(list.len(), vec.len());
                prop_assert_eq!(list.iter().len(), vec.len());
                prop_assert_eq!(list.last(), vec.last());
                for at in [0, vec.len() / 2, vec.len().saturating_sub(1), vec.len()] {
                    prop_assert_eq!(list.get(at), vec.get(at));
                }
                let bytes = Value::new(list.clone()).encode().unwrap();
                prop_assert_eq!(&bytes, &Value::new(vec.clone()).encode().unwrap());
                let back = Type::of::<List<u8>>().decode(&bytes).unwrap();
                prop_assert_eq!(back.get::<List<u8>>(), Some(&list));
                prop_assert!(list.segments.iter().all(|segment| (1..=LONGEST).contains(&segment.len())));
                prop_assert!(list.into_iter().eq(vec));
            }
        }

        #[test]
        fn both_ends_meet(items in 0..3000usize, ends: Vec<bool>) {
            let list: List<usize> = (0..items).collect();
            let (mut iter, mut range) = (list.iter(), 0..items);
            for end in ends {
                let both = match end {
                    true => (iter.next().copied(), range.next()),
                    false => (iter.next_back().copied(), range.next_back()),
                };
                prop_assert_eq!(both.0, both.1);
            }
            prop_assert!(iter.copied().eq(range));
        }
    }

    #[test]
    fn segments_stay_few_though_each_append_is_to_a_shared_list() {
        let mut list = List::new();
        for item in 0..25_000 {
            let shared = list.clone();
            list.extend([item; 4]);
            drop(shared);
        }
        let count = list.segments.len();
        assert!(count < 100_000 / 512 + 12, "{count}");
    }
}
