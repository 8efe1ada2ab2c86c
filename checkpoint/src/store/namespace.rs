//! Namespaces: lists of segments.

use std::fmt;

/// Where entries are: a path of segments, the most general first. A segment is any text that is not empty; no character in it has a
/// meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(pub Vec<String>);

/// A namespace that nothing can be in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// It has no segments.
    #[error("a namespace needs at least one segment")]
    None,
    /// One of its segments is empty.
    #[error("segment {0} of a namespace is empty: it must not be")]
    Empty(usize),
}

impl Namespace {
    /// Whether something can be in it.
    pub(super) fn check(&self) -> Result<(), NamespaceError> {
        if self.0.is_empty() {
            return Err(NamespaceError::None);
        }
        match self.0.iter().position(String::is_empty) {
            Some(at) => Err(NamespaceError::Empty(at + 1)),
            None => Ok(()),
        }
    }

    /// Whether it begins with these segments.
    pub fn is_under(&self, prefix: &Namespace) -> bool {
        self.0.starts_with(&prefix.0)
    }

    /// Bytes that sort as namespaces do, and of which those of a prefix are a prefix: each segment with 00 written as 00 FF, and behind it 00 01.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in &self.0 {
            for byte in segment.bytes() {
                bytes.push(byte);
                if byte == 0 {
                    bytes.push(0xFF);
                }
            }
            bytes.extend([0, 1]);
        }
        bytes
    }

    /// Reads [`encode`](Namespace::encode)'s bytes back.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut segments, mut segment) = (Vec::new(), Vec::new());
        let mut rest = bytes.iter();
        while let Some(&byte) = rest.next() {
            match (byte, if byte == 0 { rest.next() } else { None }) {
                (0, Some(0xFF)) => segment.push(0),
                (0, Some(1)) => {
                    segments.push(String::from_utf8(std::mem::take(&mut segment)).ok()?);
                }
                (0, _) => return None,
                (byte, _) => segment.push(byte),
            }
        }
        segment.is_empty().then_some(Namespace(segments))
    }

    /// The least bytes that are greater than all that begin with these; nothing if there are none.
    pub(crate) fn end(&self) -> Option<Vec<u8>> {
        let mut bytes = self.encode();
        // The last one is 01.
        *bytes.last_mut()? += 1;
        Some(bytes)
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for Namespace {
    fn from(segments: [S; N]) -> Self {
        Namespace(segments.map(Into::into).into())
    }
}

impl From<Vec<String>> for Namespace {
    fn from(segments: Vec<String>) -> Self {
        Namespace(segments)
    }
}

impl From<&[&str]> for Namespace {
    fn from(segments: &[&str]) -> Self {
        Namespace(segments.iter().map(ToString::to_string).collect())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// A segment in a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Any one segment.
    Any,
    /// This one.
    Is(String),
}

impl Segment {
    pub(super) fn matches(&self, segment: &str) -> bool {
        match self {
            Segment::Any => true,
            Segment::Is(text) => text == segment,
        }
    }
}

/// `*` stands for any segment.
impl From<&str> for Segment {
    fn from(text: &str) -> Self {
        match text {
            "*" => Segment::Any,
            text => Segment::Is(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn namespaces() -> impl Strategy<Value = Namespace> {
        let segment = prop_oneof!["[a-c\0\u{1}]{1,3}", any::<String>()];
        prop::collection::vec(segment, 0..4).prop_map(Namespace)
    }

    proptest! {
        #[test]
        fn bytes_come_back_and_sort_as_namespaces_do(one in namespaces(), two in namespaces()) {
            let (first, second) = (one.encode(), two.encode());
            prop_assert_eq!(Namespace::decode(&first), Some(one.clone()));
            prop_assert_eq!(first.cmp(&second), one.cmp(&two));
            let within = first >= second && two.end().is_none_or(|end| first < end);
            prop_assert_eq!(within, one.is_under(&two));
        }

        #[test]
        fn hostile_bytes_are_nothing(bytes: Vec<u8>) {
            if let Some(namespace) = Namespace::decode(&bytes) {
                prop_assert_eq!(namespace.encode(), bytes);
            }
        }
    }
}
