//! Describing what happens around nodes.

use std::sync::Arc;

use superstep_channels::Name;

use super::GraphBuilder;
use super::builder::Note;
use crate::handler::{ErrorHandler, Rescue};
use crate::node::Node;
use crate::policy::Policy;
use crate::run::Breakpoints;
use crate::state::{Input, State};

impl<S: State> GraphBuilder<S> {
    /// Says what happens around a node: retries, time limits, cached results. Said twice, the last one counts.
    #[must_use]
    pub fn policy<I>(mut self, node: Node<I>, policy: Policy) -> Self {
        self.described.policies.push((node.name().clone(), policy));
        self
    }

    /// Says what happens around every node, as far as its own policy does not say it.
    #[must_use]
    pub fn defaults(mut self, policy: Policy) -> Self {
        self.described.default_policy = policy;
        self
    }

    /// Says what runs in the same superstep in place of a node that failed for good: after its retries, and not when it asks.
    ///
    /// The handler gets the input that the node had, and the failure. What it returns counts as if the node had
    /// returned it, except that the node's edges and branches are not followed: the handler says with `goto` where to go.
    /// If it fails, the run fails. The failure is stored before it starts, so after a crash it starts and not the node.
    #[must_use]
    pub fn on_error<I: Input>(mut self, node: Node<I>, handler: impl Rescue<I>) -> Self {
        let name = node.name().clone();
        let handler = Arc::new(ErrorHandler::of_node(&name, handler));
        self.described.handlers.push((name, handler));
        self
    }

    /// The same for every node that has no handler of its own. It gets what was sent to the node, if that has its
    /// input's type, and otherwise the state.
    #[must_use]
    pub fn default_on_error<I: Input>(mut self, handler: impl Rescue<I>) -> Self {
        self.described.default_handler = Some(Arc::new(ErrorHandler::of_graph(handler)));
        self
    }

    /// Puts tags on a node, for those who look at the graph: pictures, its JSON, traces.
    #[must_use]
    pub fn tags<I, T: Into<Name>>(
        mut self,
        node: Node<I>,
        tags: impl IntoIterator<Item = T>,
    ) -> Self {
        let tags = tags.into_iter().map(|tag| Note::Tag(tag.into()));
        let name = node.name();
        self.described
            .about
            .extend(tags.map(|tag| (name.clone(), tag)));
        self
    }

    /// Notes something about a node, for those who look at the graph's JSON.
    #[must_use]
    pub fn metadata<I>(
        mut self,
        node: Node<I>,
        key: impl Into<String>,
        value: impl Into<serde_json::Value>,
    ) -> Self {
        let note = Note::Member(key.into(), value.into());
        self.described.about.push((node.name().clone(), note));
        self
    }

    /// Stops before a superstep that would run one of these nodes, unless a run says otherwise.
    #[must_use]
    pub fn stop_before(mut self, nodes: impl Into<Breakpoints>) -> Self {
        self.described.before = nodes.into();
        self
    }

    /// Stops after a superstep that ran one of these nodes, unless a run says otherwise.
    #[must_use]
    pub fn stop_after(mut self, nodes: impl Into<Breakpoints>) -> Self {
        self.described.after = nodes.into();
        self
    }
}
