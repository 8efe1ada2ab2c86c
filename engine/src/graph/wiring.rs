//! Describing how a run goes from node to node.

use std::sync::Arc;

use superstep_channels::Name;

use super::builder::Decision;
use super::{Branch, GraphBuilder};
use crate::error::NodeError;
use crate::node::{Node, Target, Targets};
use crate::state::{Fields, Reads, State};

impl<S: State> GraphBuilder<S> {
    /// Lets a node wait until nothing else is due, sends included: it collects what branches of different length bring.
    #[must_use]
    pub fn defer<I: Reads>(mut self, node: Node<I>) -> Self {
        self.described.deferred.push(node.name().clone());
        self
    }

    /// Says which node runs first. Several entries run side by side.
    #[must_use]
    pub fn entry<I: Reads>(mut self, node: Node<I>) -> Self {
        self.described.entries.push(node.name().clone());
        self
    }

    /// Runs `to` in the superstep after `from`.
    #[must_use]
    pub fn edge<A, B: Reads>(mut self, from: Node<A>, to: Node<B>) -> Self {
        self.described
            .edges
            .push((from.name().clone(), to.name().clone()));
        self
    }

    /// Runs `to` when all of `from` have run since it last ran, in whichever supersteps.
    #[must_use]
    pub fn join<A, B: Reads>(
        mut self,
        from: impl IntoIterator<Item = Node<A>>,
        to: Node<B>,
    ) -> Self {
        let sources = from.into_iter().map(|node| node.name().clone());
        self.described
            .joins
            .push((sources.collect(), to.name().clone()));
        self
    }

    /// Decides after `from`, on the state with that node's own writes in it, where to go.
    /// Writes of other nodes of the same superstep are not in it yet.
    #[must_use]
    pub fn branch<A, T: Targets>(
        mut self,
        from: Node<A>,
        decide: impl Fn(S) -> T + Send + Sync + 'static,
    ) -> Self {
        self.described
            .branches
            .push((Some(from.name().clone()), free(decide)));
        self
    }

    /// The same by labels: `decide` gives one or several of them, and `targets` says which nodes they stand for. So it is known where
    /// the branch can lead: pictures show it, and a label without a node fails the task.
    ///
    /// ```
    /// # use superstep::prelude::*;
    /// # async fn nothing(_: (), _: Context) -> NodeResult { Ok(Update::new()) }
    /// const CHECK: Node<()> = Node::new("check");
    /// const PRINT: Node<()> = Node::new("print");
    /// const MEND: Node<()> = Node::new("mend");
    /// let graph = Graph::<()>::builder()
    ///     .node(CHECK, nothing)
    ///     .node(PRINT, nothing)
    ///     .node(MEND, nothing)
    ///     .entry(CHECK)
    ///     .branch_to(CHECK, |_| ["good"], [("good", PRINT), ("bad", MEND)])
    ///     .build()?;
    /// assert!(graph.mermaid().contains("bad"));
    /// # Ok::<(), superstep::BuildError>(())
    /// ```
    #[must_use]
    pub fn branch_to<A, B: Reads, L, M: Into<Name>>(
        mut self,
        from: Node<A>,
        decide: impl Fn(S) -> L + Send + Sync + 'static,
        targets: impl IntoIterator<Item = (M, Node<B>)>,
    ) -> Self
    where
        L: IntoIterator,
        L::Item: Into<Name>,
    {
        let targets = targets.into_iter();
        let targets: Vec<(Name, Name)> = targets
            .map(|(label, node)| (label.into(), node.name().clone()))
            .collect();
        let decision = labelled(decide, targets);
        let from = Some(from.name().clone());
        self.described.branches.push((from, decision));
        self
    }

    /// Runs nodes one after the other: an edge from each to the next.
    #[must_use]
    pub fn sequence<I: Reads>(self, nodes: impl IntoIterator<Item = Node<I>>) -> Self {
        let mut nodes = nodes.into_iter();
        let Some(first) = nodes.next() else {
            return self;
        };
        let (builder, _) = nodes.fold((self, first), |(builder, from), to| {
            (builder.edge(from, to.clone()), to)
        });
        builder
    }

    /// Says where a node goes besides its edges, with `goto`, `send` or a branch: pictures show it, and going elsewhere fails the task.
    #[must_use]
    pub fn leads_to<A, B>(
        mut self,
        from: Node<A>,
        targets: impl IntoIterator<Item = Node<B>>,
    ) -> Self {
        let targets = targets.into_iter().map(|node| node.name().clone());
        let leads = (from.name().clone(), targets.collect());
        self.described.leads.push(leads);
        self
    }

    /// Decides on the input where to begin.
    #[must_use]
    pub fn entry_branch<T: Targets>(
        mut self,
        decide: impl Fn(S) -> T + Send + Sync + 'static,
    ) -> Self {
        self.described.branches.push((None, free(decide)));
        self
    }
}

/// A branch that can lead anywhere.
fn free<S: State, T: Targets>(decide: impl Fn(S) -> T + Send + Sync + 'static) -> Decision {
    let decide: Branch = Arc::new(move |fields: &Fields| {
        let mut targets = Vec::new();
        decide(fields.read::<S>().map_err(NodeError::from)?).collect(&mut targets)?;
        Ok(targets)
    });
    Decision {
        decide,
        targets: None,
    }
}

/// A branch by labels.
fn labelled<S: State, L>(
    decide: impl Fn(S) -> L + Send + Sync + 'static,
    targets: Vec<(Name, Name)>,
) -> Decision
where
    L: IntoIterator,
    L::Item: Into<Name>,
{
    let known = targets.clone();
    let decide: Branch = Arc::new(move |fields: &Fields| {
        let labels = decide(fields.read::<S>().map_err(NodeError::from)?);
        let target = |label: Name| {
            let found = known.iter().find(|(known, _)| *known == label);
            let labels = || known.iter().map(|(label, _)| label.as_ref());
            found
                .map(|(_, node)| Target::Node(node.clone()))
                .ok_or_else(|| {
                    let known = labels().collect::<Vec<_>>().join("`, `");
                    NodeError::from(format!(
                        "a branch gave the label `{label}`, and knows `{known}`"
                    ))
                })
        };
        labels
            .into_iter()
            .map(|label| target(label.into()))
            .collect()
    });
    Decision {
        decide,
        targets: Some(targets),
    }
}
