//! What an update of a node means in its graph. Pure.

use superstep_channels::{Channel, Write};

use super::apply::{Grouped, write};
use crate::attempt::guard;
use crate::error::TaskError;
use crate::graph::{ChannelIx, Core, Exits};
use crate::node::Target;
use crate::record::{Done, Routed};
use crate::state::Fields;
use crate::update::Update;

/// Finds the channels and nodes that an update names, and asks the branches behind the node.
pub(crate) fn route(
    core: &Core,
    cells: &[Box<dyn Channel>],
    exits: &Exits,
    update: Update,
) -> Result<Done, TaskError> {
    let mut done = Done {
        writes: Vec::with_capacity(update.writes.len()),
        targets: Vec::with_capacity(update.targets.len()),
    };
    for (name, write) in update.writes {
        let at = core.channel_at.get(&name).copied();
        let at = at.ok_or(TaskError::UnknownChannel(name))?;
        core.channels[at].check(&write)?;
        done.writes.push((at, write));
    }
    for target in update.targets {
        done.targets.push(find(core, target)?);
    }
    if exits.branches.is_empty() {
        return allowed(core, exits, done);
    }
    let fields = own_view(core, cells, &done.writes)?;
    for branch in &exits.branches {
        for target in guard(|| branch(&fields))?.map_err(TaskError::Node)? {
            done.targets.push(find(core, target)?);
        }
    }
    allowed(core, exits, done)
}

/// Whether the node goes where it said it may.
fn allowed(core: &Core, exits: &Exits, done: Done) -> Result<Done, TaskError> {
    let Some(leads) = &exits.leads else {
        return Ok(done);
    };
    let labelled = |node| exits.labels.iter().any(|(_, known)| *known == node);
    let other = done.targets.iter().map(|target| match target {
        Routed::Node(node) | Routed::Send(node, _) => *node,
    });
    let mut other = other.filter(|node| !leads.contains(node) && !labelled(*node));
    match other.next() {
        None => Ok(done),
        Some(node) => Err(TaskError::UndeclaredTarget(core.node_name(node).clone())),
    }
}

fn find(core: &Core, target: Target) -> Result<Routed, TaskError> {
    let (name, payload) = match target {
        Target::Node(name) => (name, None),
        Target::Send(name, payload) => (name, Some(payload)),
    };
    let node = core.node_at.get(&name).copied();
    let node = node.ok_or(TaskError::UnknownTarget(name))?;
    Ok(match payload {
        Some(payload) => Routed::Send(node, payload),
        None => Routed::Node(node),
    })
}

/// The state with what a node wrote itself and nothing that others wrote.
fn own_view(
    core: &Core,
    cells: &[Box<dyn Channel>],
    writes: &[(ChannelIx, Write)],
) -> Result<Fields, TaskError> {
    let mut own = Grouped::new();
    for (channel, write) in writes {
        own.entry(*channel).or_default().push(write.clone());
    }
    let mut fields = core.read(&core.everything, cells);
    for (channel, writes) in own {
        let mut cell = cells[channel].duplicate();
        write(core, cell.as_mut(), channel, writes)?;
        fields.values[channel] = cell.value();
    }
    Ok(fields)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use serde::{Deserialize, Serialize};

    use crate::prelude::*;

    #[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Tally {
        goal: u32,
        #[reduce(plus)]
        sum: u32,
    }

    fn plus(sum: &mut u32, more: u32) {
        *sum += more;
    }

    const ADD: Node<u32> = Node::new("add");
    const AGAIN: Node<()> = Node::new("again");

    async fn add(number: u32, _: Context) -> NodeResult {
        Ok(Update::new().put(Tally::SUM, number))
    }

    async fn again(_: (), _: Context) -> NodeResult {
        Ok(Update::new().send(ADD, 5))
    }

    /// A branch decides on the graph's state, whatever its node takes.
    #[tokio::test]
    async fn a_branch_sees_the_whole_state() {
        let graph = Graph::<Tally>::builder()
            .node(ADD, add)
            .node(AGAIN, again)
            .entry_branch(|tally: Tally| (tally.goal > 0).then_some(AGAIN))
            .branch(ADD, |tally: Tally| {
                (tally.sum < tally.goal).then_some(AGAIN)
            })
            .build()
            .unwrap();
        let goal = Update::new().put(Tally::GOAL, 12);
        let outcome = graph.detached().start(goal).await.unwrap();
        assert_eq!(outcome.done(), Some(Tally { goal: 12, sum: 15 }));
    }
}
