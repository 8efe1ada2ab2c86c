//! Pictures of a graph.

use std::fmt::Write as _;

use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{EdgeRef, IntoNodeReferences};

use super::{Core, Exits, Graph};

/// How one node leads to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Edge,
    Join,
}

impl<S> Graph<S> {
    /// The graph as a Mermaid flowchart. Where a branch or a `goto` leads is decided at run time and not drawn,
    /// but a node that decides is drawn as a rhombus.
    ///
    /// ```
    /// use superstep::prelude::*;
    ///
    /// const A: Node<()> = Node::new("a");
    /// const B: Node<()> = Node::new("b");
    /// async fn nothing(_: (), _: Context) -> NodeResult {
    ///     Ok(Update::new())
    /// }
    /// let graph = Graph::<()>::builder().node(A, nothing).node(B, nothing).entry(A).edge(A, B).build()?;
    /// assert_eq!(
    ///     graph.mermaid(),
    ///     "flowchart TD\n    n0([start])\n    n1[\"a\"]\n    n2[\"b\"]\n    n0 --> n1\n    n1 --> n2\n"
    /// );
    /// # Ok::<(), superstep::BuildError>(())
    /// ```
    pub fn mermaid(&self) -> String {
        let drawing = declared(&self.core);
        let mut text = String::from("flowchart TD\n");
        for (at, name) in drawing.node_references() {
            let at = at.index();
            // Writing to a string cannot fail.
            let _ = match (
                at.checked_sub(1).and_then(|node| self.core.nodes.get(node)),
                escape(name),
            ) {
                (None, _) => writeln!(text, "    n0([start])"),
                (Some(node), name) if !node.exits.branches.is_empty() => {
                    writeln!(text, "    n{at}{{\"{name}\"}}")
                }
                (Some(_), name) => writeln!(text, "    n{at}[\"{name}\"]"),
            };
        }
        for edge in drawing.edge_references() {
            let arrow = match edge.weight() {
                Way::Edge => "-->",
                Way::Join => "-. join .->",
            };
            let (from, to) = (edge.source().index(), edge.target().index());
            let _ = writeln!(text, "    n{from} {arrow} n{to}");
        }
        text
    }
}

/// The declared graph: the start, then the nodes in the order of their declaration.
fn declared(core: &Core) -> DiGraph<String, Way> {
    let mut drawing = DiGraph::new();
    let start = drawing.add_node("start".to_owned());
    for node in &core.nodes {
        drawing.add_node(node.name.to_string());
    }
    leave(&mut drawing, core, start, &core.entry);
    for (at, node) in core.nodes.iter().enumerate() {
        leave(&mut drawing, core, NodeIndex::new(at + 1), &node.exits);
    }
    drawing
}

fn leave(drawing: &mut DiGraph<String, Way>, core: &Core, from: NodeIndex, exits: &Exits) {
    for &to in &exits.edges {
        drawing.add_edge(from, NodeIndex::new(to + 1), Way::Edge);
    }
    for &join in &exits.joins {
        drawing.add_edge(from, NodeIndex::new(core.joins[join].target + 1), Way::Join);
    }
}

/// Mermaid reads `#` codes inside quotes.
fn escape(name: &str) -> String {
    name.replace('"', "#quot;")
}
