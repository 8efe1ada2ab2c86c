//! What an update of a node means in its graph. Pure.

use std::collections::BTreeSet;

use superstep_channels::{Channel, Write};

use crate::error::TaskError;
use crate::graph::{ChannelIx, ChannelSet, Core, Exits};
use crate::node::Target;
use crate::record::{Done, Routed};
use crate::state::Fields;
use crate::update::Update;

/// Finds the channels and nodes that an update names, and asks the branches behind the node.
pub(crate) fn route(
    core: &Core,
    cells: &[Box<dyn Channel>],
    sees: &ChannelSet,
    exits: &Exits,
    update: Update,
) -> Result<Done, TaskError> {
    let mut done = Done {
        writes: Vec::with_capacity(update.writes.len()),
        targets: Vec::with_capacity(update.targets.len()),
    };
    for (name, write) in update.writes {
        let at = core.channel_at.get(&name).copied();
        done.writes
            .push((at.ok_or(TaskError::UnknownChannel(name))?, write));
    }
    for target in update.targets {
        done.targets.push(find(core, target)?);
    }
    if exits.branches.is_empty() {
        return Ok(done);
    }
    let fields = own_view(core, cells, sees, &done.writes)?;
    for branch in &exits.branches {
        for target in branch(&fields).map_err(TaskError::Node)? {
            done.targets.push(find(core, target)?);
        }
    }
    Ok(done)
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

/// What a node sees, with what it wrote itself and nothing that others wrote.
fn own_view(
    core: &Core,
    cells: &[Box<dyn Channel>],
    sees: &ChannelSet,
    writes: &[(ChannelIx, Write)],
) -> Result<Fields, TaskError> {
    let written = writes.iter().map(|(at, _)| *at);
    let unseen: BTreeSet<ChannelIx> = written.filter(|at| !sees.channels.contains(at)).collect();
    let wider =
        (!unseen.is_empty()).then(|| core.reads(sees.channels.iter().copied().chain(unseen)));
    let sees = wider.as_ref().unwrap_or(sees);
    let mut fields = core.read(sees, cells);
    for (&at, value) in sees.channels.iter().zip(&mut fields.values) {
        let own = writes.iter().filter(|(channel, _)| *channel == at);
        let own: Vec<Write> = own.map(|(_, write)| write.clone()).collect();
        if !own.is_empty() {
            let mut cell = cells[at].duplicate();
            cell.write(own)?;
            *value = cell.value();
        }
    }
    Ok(fields)
}
