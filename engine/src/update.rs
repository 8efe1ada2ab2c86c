//! What a node gives back.

use superstep_channels::{Data, Key, Name, Value, Write};

use crate::node::{Node, Target};
use crate::state::Reads;

/// What a node gives back: writes to channels, sends, and where to go next.
///
/// Static edges of the node are followed as well; `goto` adds to them.
///
/// ```
/// use superstep::prelude::*;
///
/// const LINES: Key<Vec<String>> = Key::reduce("lines", append);
/// const WRITE: Node<String> = Node::new("write");
///
/// let update = Update::new()
///     .put(LINES, vec!["title".to_string()])
///     .send(WRITE, "first section".to_string());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Update {
    pub(crate) writes: Vec<(Name, Write)>,
    pub(crate) targets: Vec<Target>,
    pub(crate) parent: Option<Box<Update>>,
}

impl Update {
    /// An update that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes to a channel; what that does is the channel's rule.
    #[must_use]
    pub fn put<V, U: Data>(self, key: Key<V, U>, update: U) -> Self {
        self.put_value(key.name(), Value::new(update))
    }

    /// Sets a channel's value, past its reducer: the other writes of the superstep to it are dropped.
    #[must_use]
    pub fn overwrite<V: Data, U>(self, key: Key<V, U>, value: V) -> Self {
        self.overwrite_value(key.name(), Value::new(value))
    }

    /// [`put`](Update::put) for a channel whose name exists at run time only.
    #[must_use]
    pub fn put_value(mut self, channel: impl Into<Name>, update: Value) -> Self {
        self.writes.push((channel.into(), Write::Plain(update)));
        self
    }

    /// [`overwrite`](Update::overwrite) for a channel whose name exists at run time only.
    #[must_use]
    pub fn overwrite_value(mut self, channel: impl Into<Name>, value: Value) -> Self {
        self.writes.push((channel.into(), Write::Overwrite(value)));
        self
    }

    /// Starts a task of `node` on this payload in the next superstep; each send is a task of its own.
    #[must_use]
    pub fn send<I: Data>(mut self, node: Node<I>, payload: I) -> Self {
        self.targets.push(node.with(payload));
        self
    }

    /// Runs `node` on the state in the next superstep.
    #[must_use]
    pub fn goto<I: Reads>(mut self, node: Node<I>) -> Self {
        self.targets.push(node.into());
        self
    }

    /// Ends the graph that the node is part of, at once, with an update of the graph around it: that one takes `update`
    /// as if its own node, which runs this graph, had returned it. What else this update says is dropped with the superstep.
    ///
    /// In a graph that no other runs, the run fails with [`RunError::NoParent`](crate::RunError::NoParent).
    #[must_use]
    pub fn in_parent(mut self, update: Update) -> Self {
        self.parent = Some(Box::new(update));
        self
    }

    /// This update, and then another one.
    #[must_use]
    pub fn merge(mut self, then: Update) -> Self {
        self.writes.extend(then.writes);
        self.targets.extend(then.targets);
        self.parent = match (self.parent, then.parent) {
            (Some(first), Some(then)) => Some(Box::new(first.merge(*then))),
            (first, then) => then.or(first),
        };
        self
    }

    /// Adds a target that was made elsewhere.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        self.targets.push(target);
        self
    }
}
