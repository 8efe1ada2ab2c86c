//! Updates of a thread's state from outside.

use superstep_channels::Name;

use crate::node::Node;
use crate::update::Update;

/// A change of a thread's state by hand, as if a node had written it.
/// See [`Thread::update`](crate::Thread::update).
///
/// Where the thread goes next is decided as it is behind that node: by its edges, joins and branches.
#[derive(Clone, Debug)]
pub struct StateUpdate {
    pub(crate) update: Update,
    pub(crate) author: Author,
}

/// Who an update counts as written by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// The node that ran last.
    Last,
    /// The input.
    Start,
    Node(Name),
}

impl StateUpdate {
    /// A change by the node that ran last; on a thread on which none ran, by the input.
    pub fn new(update: impl Into<Update>) -> Self {
        StateUpdate {
            update: update.into(),
            author: Author::Last,
        }
    }

    /// A change by this node.
    #[must_use]
    pub fn as_node<I>(mut self, node: Node<I>) -> Self {
        self.author = Author::Node(node.name().clone());
        self
    }

    /// A change by the input: the entries of the graph are due next.
    #[must_use]
    pub fn as_start(mut self) -> Self {
        self.author = Author::Start;
        self
    }
}

impl From<Update> for StateUpdate {
    fn from(update: Update) -> Self {
        StateUpdate::new(update)
    }
}
