//! Pictures of a graph.

use std::fmt::Write as _;

use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{EdgeRef, IntoNodeReferences};

use super::{Core, Exits, Graph};

/// How one node leads to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Edge,
    Join,
    /// By a branch that gives this label.
    Label(String),
    /// By `goto`, `send` or a branch, as the node was said to.
    Lead,
}

impl<S> Graph<S> {
    /// The graph as a Mermaid flowchart. Where a free branch, a `goto` or a `send` leads is decided at run time and drawn only
    /// where it was said, but a node that decides is drawn as a rhombus.
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
        self.mermaid_nested(0)
    }

    /// The same with the graphs inside nodes drawn in place of the nodes, so many levels deep.
    pub fn mermaid_nested(&self, depth: usize) -> String {
        let mut text = String::from("flowchart TD\n");
        mermaid(&mut text, &self.core, "n", "    ", depth);
        text
    }

    /// The graph in the language of Graphviz.
    pub fn dot(&self) -> String {
        self.dot_nested(0)
    }

    /// The same with the graphs inside nodes drawn in place of the nodes, so many levels deep.
    pub fn dot_nested(&self, depth: usize) -> String {
        let mut text = String::from("digraph {\n    compound=true;\n");
        dot(&mut text, &self.core, "n", "    ", depth);
        text.push_str("}\n");
        text
    }
}

/// Draws one graph. The names of its nodes in the picture begin with `prefix`.
fn mermaid(text: &mut String, core: &Core, prefix: &str, indent: &str, depth: usize) {
    let drawing = declared(core);
    for (at, name) in drawing.node_references() {
        let (at, name) = (at.index(), quoted(name, "#quot;"));
        let node = at.checked_sub(1).and_then(|node| core.nodes.get(node));
        let inside = node
            .and_then(|node| node.inside.as_ref())
            .filter(|_| depth > 0);
        // Writing to a string cannot fail.
        let _ = match (node, inside) {
            (None, _) => writeln!(text, "{indent}{prefix}0([start])"),
            (_, Some(inside)) => {
                let _ = writeln!(text, "{indent}subgraph {prefix}{at}[\"{name}\"]");
                let (prefix, inner) = (format!("{prefix}{at}_"), format!("{indent}    "));
                mermaid(text, inside, &prefix, &inner, depth - 1);
                writeln!(text, "{indent}end")
            }
            (Some(node), None) if !node.exits.branches.is_empty() => {
                writeln!(text, "{indent}{prefix}{at}{{\"{name}\"}}")
            }
            (Some(_), None) => writeln!(text, "{indent}{prefix}{at}[\"{name}\"]"),
        };
    }
    for edge in drawing.edge_references() {
        let arrow = match edge.weight() {
            Way::Edge => "-->".to_owned(),
            Way::Join => "-. join .->".to_owned(),
            Way::Label(label) => format!("-->|\"{}\"|", quoted(label, "#quot;")),
            Way::Lead => "-.->".to_owned(),
        };
        let (from, to) = (edge.source().index(), edge.target().index());
        let _ = writeln!(text, "{indent}{prefix}{from} {arrow} {prefix}{to}");
    }
}

fn dot(text: &mut String, core: &Core, prefix: &str, indent: &str, depth: usize) {
    let drawing = declared(core);
    let expanded = |at: usize| {
        let node = at.checked_sub(1).and_then(|node| core.nodes.get(node));
        node.and_then(|node| node.inside.as_ref())
            .filter(|_| depth > 0)
    };
    for (at, name) in drawing.node_references() {
        let (at, name) = (at.index(), quoted(name, "\\\""));
        let node = at.checked_sub(1).and_then(|node| core.nodes.get(node));
        let _ = match (node, expanded(at)) {
            (None, _) => writeln!(text, "{indent}{prefix}0 [label=\"start\", shape=oval];"),
            (_, Some(inside)) => {
                let _ = writeln!(text, "{indent}subgraph cluster_{prefix}{at} {{");
                let inner = format!("{indent}    ");
                let _ = writeln!(text, "{inner}label=\"{name}\";");
                dot(text, inside, &format!("{prefix}{at}_"), &inner, depth - 1);
                writeln!(text, "{indent}}}")
            }
            (Some(node), None) => {
                let shape = match node.exits.branches.is_empty() {
                    true => "box",
                    false => "diamond",
                };
                writeln!(
                    text,
                    "{indent}{prefix}{at} [label=\"{name}\", shape={shape}];"
                )
            }
        };
    }
    for edge in drawing.edge_references() {
        let (from, to) = (edge.source().index(), edge.target().index());
        let mut style = match edge.weight() {
            Way::Edge => Vec::new(),
            Way::Join => vec!["label=\"join\", style=dotted".to_owned()],
            Way::Label(label) => vec![format!("label=\"{}\"", quoted(label, "\\\""))],
            Way::Lead => vec!["style=dotted".to_owned()],
        };
        // An arrow to or from a whole graph is one to or from its start, cut at the border.
        let mut end = |at: usize, side: &str| match expanded(at) {
            None => format!("{prefix}{at}"),
            Some(_) => {
                style.push(format!("{side}=cluster_{prefix}{at}"));
                format!("{prefix}{at}_0")
            }
        };
        let (from, to) = (end(from, "ltail"), end(to, "lhead"));
        let style = match style.is_empty() {
            true => String::new(),
            false => format!(" [{}]", style.join(", ")),
        };
        let _ = writeln!(text, "{indent}{from} -> {to}{style};");
    }
}

/// The declared graph: the start, then the nodes in the order of their declaration.
pub(super) fn declared(core: &Core) -> DiGraph<String, Way> {
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
    let mut add = |to: usize, way| drawing.add_edge(from, NodeIndex::new(to + 1), way);
    for &to in &exits.edges {
        add(to, Way::Edge);
    }
    for &join in &exits.joins {
        add(core.joins[join].target, Way::Join);
    }
    for (label, to) in &exits.labels {
        add(*to, Way::Label(label.to_string()));
    }
    for &to in exits.leads.iter().flatten() {
        add(to, Way::Lead);
    }
}

/// A name inside quotes: no quote ends it, and no line break leaves it.
fn quoted(name: &str, quote: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' => text.push_str(quote),
            '\\' => text.push_str("\\\\"),
            '\n' | '\r' => text.push(' '),
            other => text.push(other),
        }
    }
    text
}
