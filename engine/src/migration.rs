//! What a graph had before: names and types that stored threads still use.

use std::collections::HashMap;

use superstep_channels::{Conversions, Data, Name};

use crate::error::Problem;
use crate::node::Node;

/// What changed in a graph since threads of it were stored, so that they open with the graph of today.
///
/// A new channel or node needs nothing: in an old thread the channel is empty, or has its default.
/// Everything else is said here. Changes of several releases are said one after the other and make a chain:
/// `a` became `b`, then `b` became `c`.
///
/// A type whose form changed gets a new name, and the old type stays under its old one: see [`Conversions`].
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use superstep::prelude::*;
/// use superstep::Migration;
///
/// #[derive(State, Clone, Default, Serialize, Deserialize)]
/// struct Count {
///     total: u64,
/// }
/// const ADD: Node<Count> = Node::new("add");
/// async fn add(count: Count, _: Context) -> NodeResult {
///     Ok(Update::new().put(Count::TOTAL, count.total + 1))
/// }
///
/// let graph = Graph::<Count>::builder()
///     .named("count", 2)
///     .node(ADD, add)
///     .entry(ADD)
///     .migrate(
///         Migration::new()
///             .node("increment", ADD)
///             .channel("sum", "total")
///             .value("total", |old: u32| u64::from(old))
///             .without_channel("comment"),
///     )
///     .build()?;
/// # Ok::<(), superstep::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Migration {
    pub(crate) graphs: Vec<Name>,
    channels: Vec<(Name, Option<Name>)>,
    nodes: Vec<(Name, Option<Name>)>,
    pub(crate) values: Vec<(Name, Conversions)>,
    pub(crate) payloads: Vec<(Name, Conversions)>,
}

impl Migration {
    /// Nothing changed.
    pub fn new() -> Self {
        Self::default()
    }

    /// The graph had this name.
    #[must_use]
    pub fn graph(mut self, former: impl Into<Name>) -> Self {
        self.graphs.push(former.into());
        self
    }

    /// A channel had another name.
    #[must_use]
    pub fn channel(mut self, former: impl Into<Name>, now: impl Into<Name>) -> Self {
        self.channels.push((former.into(), Some(now.into())));
        self
    }

    /// A channel is gone, and what stored threads hold of it is not wanted any more.
    #[must_use]
    pub fn without_channel(mut self, former: impl Into<Name>) -> Self {
        self.channels.push((former.into(), None));
        self
    }

    /// A node had another name. Its tasks keep the ids that they had under the first of its names.
    #[must_use]
    pub fn node<I>(mut self, former: impl Into<Name>, now: Node<I>) -> Self {
        self.nodes.push((former.into(), Some(now.name().clone())));
        self
    }

    /// A node is gone. Where a stored thread would run it next, it is left out.
    #[must_use]
    pub fn without_node(mut self, former: impl Into<Name>) -> Self {
        self.nodes.push((former.into(), None));
        self
    }

    /// Values of a channel, or what is written to it, had another type.
    #[must_use]
    pub fn value<A: Data, B: Data>(
        mut self,
        channel: impl Into<Name>,
        convert: impl Fn(A) -> B + Send + Sync + 'static,
    ) -> Self {
        let conversion = Conversions::new().with(convert);
        self.values.push((channel.into(), conversion));
        self
    }

    /// What is sent to a node had another type.
    #[must_use]
    pub fn payload<A: Data, B: Data>(
        mut self,
        node: Node<B>,
        convert: impl Fn(A) -> B + Send + Sync + 'static,
    ) -> Self {
        let conversion = Conversions::new().with(convert);
        self.payloads.push((node.name().clone(), conversion));
        self
    }

    /// The former names of channels.
    pub(crate) fn former_channels(
        &self,
        at: &HashMap<Name, usize>,
        problems: &mut Vec<Problem>,
    ) -> Former {
        Former::resolve(&self.channels, at, problems)
    }

    /// The former names of nodes.
    pub(crate) fn former_nodes(
        &self,
        at: &HashMap<Name, usize>,
        problems: &mut Vec<Problem>,
    ) -> Former {
        Former::resolve(&self.nodes, at, problems)
    }
}

/// Names that channels or nodes had, and where they are now; none if they are gone.
#[derive(Debug, Default)]
pub(crate) struct Former(HashMap<Name, Option<usize>>);

impl Former {
    fn resolve(
        renames: &[(Name, Option<Name>)],
        at: &HashMap<Name, usize>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut former = Former::default();
        for (name, _) in renames {
            if at.contains_key(name) || former.0.contains_key(name) {
                problems.push(Problem::FormerName(name.clone()));
                continue;
            }
            match follow(name, renames, at) {
                Ok(now) => {
                    former.0.insert(name.clone(), now);
                }
                Err(lost) => problems.push(Problem::LostName {
                    former: name.clone(),
                    now: lost,
                }),
            }
        }
        former
    }

    /// Where something of this former name is now.
    pub(crate) fn get(&self, name: &str) -> Option<Option<usize>> {
        self.0.get(name).copied()
    }
}

/// Follows a chain of names to one that is there, or to nothing. Gives the name that it gets lost at.
fn follow(
    former: &Name,
    renames: &[(Name, Option<Name>)],
    at: &HashMap<Name, usize>,
) -> Result<Option<usize>, Name> {
    let mut name = former;
    // A chain that is longer than the list leads in a circle.
    for _ in renames {
        let Some((_, now)) = renames.iter().find(|(known, _)| known == name) else {
            break;
        };
        let Some(now) = now else {
            return Ok(None);
        };
        if let Some(&found) = at.get(now) {
            return Ok(Some(found));
        }
        name = now;
    }
    Err(name.clone())
}

/// The first name in the chain that ends with this one.
pub(crate) fn first_name(migration: &Migration, now: &Name) -> Name {
    let mut name = now;
    for _ in &migration.nodes {
        let earlier = migration
            .nodes
            .iter()
            .find(|(_, next)| next.as_ref() == Some(name));
        match earlier {
            Some((former, _)) => name = former,
            None => break,
        }
    }
    name.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(migration: &Migration) -> (Former, Vec<String>) {
        let at = HashMap::from([("c".into(), 7), ("d".into(), 8)]);
        let mut problems = Vec::new();
        let former = migration.former_channels(&at, &mut problems);
        (former, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn names_are_followed_to_what_is_there() {
        let migration = Migration::new()
            .channel("a", "b")
            .channel("b", "c")
            .channel("old", "older")
            .without_channel("older");
        let (former, problems) = resolve(&migration);
        assert_eq!(problems, Vec::<String>::new());
        let found = ["a", "b", "old", "older", "c"].map(|name| former.get(name));
        assert_eq!(
            found,
            [Some(Some(7)), Some(Some(7)), Some(None), Some(None), None]
        );
    }

    #[test]
    fn names_that_lead_nowhere_are_problems() {
        let migration = Migration::new()
            .channel("x", "y")
            .channel("p", "q")
            .channel("q", "p")
            .channel("c", "d")
            .channel("twice", "c")
            .channel("twice", "d");
        let (_, problems) = resolve(&migration);
        assert_eq!(
            problems,
            [
                "the migration follows `x` to `y`, which the graph does not have",
                "the migration follows `p` to `p`, which the graph does not have",
                "the migration follows `q` to `q`, which the graph does not have",
                "the migration says `c` is a former name, but the graph has it, or the migration names it twice",
                "the migration says `twice` is a former name, but the graph has it, or the migration names it twice",
            ]
        );
    }

    #[test]
    fn a_task_is_known_by_the_first_name_of_its_node() {
        let c = Node::<()>::new("c");
        let migration = Migration::new()
            .node("b", c)
            .node("a", Node::<()>::new("b"));
        assert_eq!(first_name(&migration, &"c".into()), "a");
        assert_eq!(first_name(&migration, &"d".into()), "d");
    }
}
