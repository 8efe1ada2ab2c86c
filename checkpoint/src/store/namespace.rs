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
