//! What a superstep's results do to the channels and to what is due next. Pure.

use std::collections::BTreeMap;

use superstep_channels::{Channel, Value, Write, WriteError};

use crate::graph::{ChannelIx, Core, Exits, NodeIx};
use crate::record::{Done, Routed};

/// What is due next, and what waits to become due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routing {
    /// Nodes that run on the state in the next superstep, once each, in the order of their names.
    pub(crate) due: Vec<Due>,
    /// Payloads that run in the next superstep, in the order in which they were sent.
    pub(crate) sends: Vec<(NodeIx, Value)>,
    /// Deferred nodes that were reached but wait until nothing else is due.
    pub(crate) waiting: Vec<Due>,
    /// For each join, the sources that have run since its target last ran.
    pub(crate) arrived: Vec<Vec<NodeIx>>,
}

/// A node that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) node: NodeIx,
    /// Reached by an edge, a branch or a `goto`; otherwise by a join only.
    pub(crate) edge: bool,
}

/// A result on its way into the channels.
pub(crate) struct Applied<'a> {
    /// The node; none for the start.
    pub(crate) node: Option<NodeIx>,
    /// Whether it ran on the state, so that the joins that led to it begin anew.
    pub(crate) on_state: bool,
    pub(crate) exits: &'a Exits,
    pub(crate) done: Done,
}

/// The writes of one superstep, by channel, each in canonical order.
pub(crate) type Grouped = BTreeMap<ChannelIx, Vec<Write>>;

/// Takes the results apart: writes by channel, and the routing of the next superstep.
pub(crate) fn split(
    core: &Core,
    before: &Routing,
    results: Vec<Applied<'_>>,
) -> (Grouped, Routing) {
    let mut writes = Grouped::new();
    let mut next = Routing {
        due: Vec::new(),
        sends: Vec::new(),
        waiting: before.waiting.clone(),
        arrived: before.arrived.clone(),
    };
    for result in &results {
        next.consume(core, result);
    }
    for result in results {
        for (channel, write) in result.done.writes {
            writes.entry(channel).or_default().push(write);
        }
        next.arrive(core, result.node, result.exits);
        next.follow(
            core,
            result.exits.edges.iter().map(|&node| Routed::Node(node)),
        );
        next.follow(core, result.done.targets);
    }
    next.settle(core);
    (writes, next)
}

/// Folds the writes into the channels, and empties the transient ones that nobody wrote.
/// Gives the channels that were emptied.
pub(crate) fn fold(
    core: &Core,
    cells: &mut [Box<dyn Channel>],
    writes: Grouped,
) -> Result<Vec<ChannelIx>, WriteError> {
    let expires = |at: &ChannelIx| !writes.contains_key(at);
    let idle: Vec<ChannelIx> = core.transient.iter().copied().filter(expires).collect();
    for (channel, writes) in writes {
        cells[channel].write(writes)?;
    }
    Ok(expire(cells, idle))
}

/// Empties channels that a superstep left unwritten; gives those that held something.
pub(crate) fn expire(
    cells: &mut [Box<dyn Channel>],
    idle: impl IntoIterator<Item = ChannelIx>,
) -> Vec<ChannelIx> {
    idle.into_iter().filter(|&at| cells[at].expire()).collect()
}

impl Routing {
    pub(crate) fn new(core: &Core) -> Self {
        Routing {
            arrived: vec![Vec::new(); core.joins.len()],
            ..Routing::default()
        }
    }

    pub(crate) fn is_complete(&self, core: &Core, join: usize) -> bool {
        self.arrived[join].len() == core.joins[join].sources.len()
    }

    /// A node that ran begins its complete joins anew, before this superstep's arrivals count.
    fn consume(&mut self, core: &Core, result: &Applied<'_>) {
        if !result.on_state {
            return;
        }
        for at in 0..core.joins.len() {
            if Some(core.joins[at].target) == result.node && self.is_complete(core, at) {
                self.arrived[at].clear();
            }
        }
    }

    /// Notes at the joins behind a node that it ran.
    pub(crate) fn arrive(&mut self, core: &Core, node: Option<NodeIx>, exits: &Exits) {
        let Some(node) = node else { return };
        for &at in &exits.joins {
            if !self.arrived[at].contains(&node) {
                self.arrived[at].push(node);
            }
            if self.is_complete(core, at) {
                self.reach(core, core.joins[at].target, false);
            }
        }
    }

    pub(crate) fn follow(&mut self, core: &Core, targets: impl IntoIterator<Item = Routed>) {
        for target in targets {
            match target {
                Routed::Node(node) => self.reach(core, node, true),
                Routed::Send(node, payload) => self.sends.push((node, payload)),
            }
        }
    }

    fn reach(&mut self, core: &Core, node: NodeIx, edge: bool) {
        let list = if core.nodes[node].deferred {
            &mut self.waiting
        } else {
            &mut self.due
        };
        list.push(Due { node, edge });
    }

    /// Brings `due` into canonical order, each node once; if nothing is due, what waited becomes due.
    pub(crate) fn settle(&mut self, core: &Core) {
        if self.due.is_empty() {
            self.due.append(&mut self.waiting);
        }
        sort(core, &mut self.due);
        sort(core, &mut self.waiting);
    }
}

fn sort(core: &Core, due: &mut Vec<Due>) {
    due.sort_by_key(|due| (core.rank[due.node], !due.edge));
    due.dedup_by_key(|due| due.node);
}
