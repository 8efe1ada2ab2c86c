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

    /// The same by labels: `decide` gives one or several of them, and `targets` says which nodes they stand for; a label may stand
    /// for several. So it is known where the branch can lead: pictures show it, and a label without a node fails the task.
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
        let from = Some(from.name().clone());
        self.described
            .branches
            .push((from, labelled(decide, targets)));
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

    /// The same by labels, as with [`branch_to`](GraphBuilder::branch_to).
    #[must_use]
    pub fn entry_branch_to<B: Reads, L, M: Into<Name>>(
        mut self,
        decide: impl Fn(S) -> L + Send + Sync + 'static,
        targets: impl IntoIterator<Item = (M, Node<B>)>,
    ) -> Self
    where
        L: IntoIterator,
        L::Item: Into<Name>,
    {
        self.described
            .branches
            .push((None, labelled(decide, targets)));
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
fn labelled<S: State, B, L, M: Into<Name>>(
    decide: impl Fn(S) -> L + Send + Sync + 'static,
    targets: impl IntoIterator<Item = (M, Node<B>)>,
) -> Decision
where
    L: IntoIterator,
    L::Item: Into<Name>,
{
    let targets = targets.into_iter();
    let targets: Vec<(Name, Name)> = targets
        .map(|(label, node)| (label.into(), node.name().clone()))
        .collect();
    let known = targets.clone();
    let decide: Branch = Arc::new(move |fields: &Fields| {
        let labels = decide(fields.read::<S>().map_err(NodeError::from)?);
        let mut targets = Vec::new();
        for label in labels {
            let label = label.into();
            let before = targets.len();
            let meant = known.iter().filter(|(known, _)| *known == label);
            targets.extend(meant.map(|(_, node)| Target::Node(node.clone())));
            if targets.len() == before {
                return Err(unknown_label(&label, &known));
            }
        }
        Ok(targets)
    });
    Decision {
        decide,
        targets: Some(targets),
    }
}

fn unknown_label(label: &Name, known: &[(Name, Name)]) -> NodeError {
    let known = known.iter().map(|(label, _)| label.as_ref());
    let known = known.collect::<Vec<_>>().join("`, `");
    format!("a branch gave the label `{label}`, and knows `{known}`").into()
}
