//! What a superstep's results do to the channels and to what is due next. Pure.

use std::collections::BTreeMap;

use superstep_channels::{Channel, Value, Write, WriteError};

use crate::attempt::guard;
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
        write(core, cells[channel].as_mut(), channel, writes)?;
    }
    Ok(expire(cells, idle))
}

/// Hands a cell its writes. The reducer is the user's: a panic in it is its failure, and not the engine's.
pub(super) fn write(
    core: &Core,
    cell: &mut dyn Channel,
    channel: ChannelIx,
    writes: Vec<Write>,
) -> Result<(), WriteError> {
    guard(|| cell.write(writes)).unwrap_or_else(|panicked| {
        Err(WriteError::Fold {
            channel: core.channels[channel].name().clone(),
            source: panicked.into(),
        })
    })
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

    /// What an update by hand does not use up stays due: these nodes, and those behind joins that are full.
    pub(crate) fn keep(&mut self, core: &Core, deferred: Vec<Due>) {
        for at in 0..core.joins.len() {
            let target = core.joins[at].target;
            // Deferred nodes behind full joins wait already, or just became due.
            if self.is_complete(core, at) && !core.nodes[target].deferred {
                self.reach(core, target, false);
            }
        }
        self.due.extend(deferred);
        sort(core, &mut self.due);
    }

    /// Brings `due` into canonical order, each node once; if nothing is due, what waited becomes due.
    pub(crate) fn settle(&mut self, core: &Core) {
        if self.due.is_empty() && self.sends.is_empty() {
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use superstep_channels::{Key, append};

    use super::*;
    use crate::{Context, Graph, GraphBuilder, Node, NodeResult, Update};

    const LIST: Key<Vec<u32>> = Key::reduce("list", append);
    const SIGNAL: Key<u32> = Key::ephemeral("signal");

    async fn nothing(_: (), _: Context) -> NodeResult {
        Ok(Update::new())
    }

    fn node(name: &'static str) -> Node<()> {
        Node::new(name)
    }

    /// Nodes 0 to 3, declared in another order than their names have.
    fn builder() -> GraphBuilder<()> {
        ["d", "c", "b", "a"].into_iter().fold(
            Graph::builder()
                .channel(LIST.spec())
                .channel(SIGNAL.spec())
                .entry(node("a")),
            |builder, name| builder.node(node(name), nothing),
        )
    }

    /// What is due, waits, and has arrived at joins after these nodes ran on the state.
    fn after(core: &Core, before: &Routing, ran: &[&str]) -> Routing {
        let results = ran.iter().map(|name| {
            let node = core.node_at[*name];
            let exits = &core.nodes[node].exits;
            Applied {
                node: Some(node),
                on_state: true,
                exits,
                done: Done::default(),
            }
        });
        split(core, before, results.collect()).1
    }

    fn names<'a>(core: &'a Core, due: &[Due]) -> Vec<&'a str> {
        due.iter().map(|due| &**core.node_name(due.node)).collect()
    }

    #[test]
    fn due_nodes_stand_once_each_in_the_order_of_names() {
        let graph = builder()
            .edge(node("a"), node("d"))
            .edge(node("a"), node("c"))
            .edge(node("b"), node("d"))
            .build()
            .unwrap();
        let next = after(&graph.core, &Routing::new(&graph.core), &["a", "b"]);
        assert_eq!(names(&graph.core, &next.due), ["c", "d"]);
    }

    #[test]
    fn a_join_counts_over_supersteps_and_begins_anew_when_its_node_ran() {
        let graph = builder()
            .join([node("a"), node("b")], node("d"))
            .build()
            .unwrap();
        let core = &graph.core;
        let first = after(core, &Routing::new(core), &["a"]);
        assert_eq!(names(core, &first.due), Vec::<&str>::new());
        let again = after(core, &first, &["a"]);
        assert_eq!(names(core, &again.due), Vec::<&str>::new());
        let both = after(core, &again, &["b"]);
        assert_eq!(names(core, &both.due), ["d"]);
        assert!(!both.due[0].edge);
        // A source that runs beside the joined node counts for the next time.
        let beside = after(core, &both, &["a", "d"]);
        assert_eq!(names(core, &beside.due), Vec::<&str>::new());
        assert_eq!(names(core, &after(core, &beside, &["b"]).due), ["d"]);
    }

    #[test]
    fn a_sent_task_of_the_joined_node_leaves_the_join_alone() {
        let graph = builder().join([node("a")], node("d")).build().unwrap();
        let core = &graph.core;
        let complete = after(core, &Routing::new(core), &["a"]);
        let sent = core.node_at["d"];
        let exits = &core.nodes[sent].exits;
        let sent = Applied {
            node: Some(sent),
            on_state: false,
            exits,
            done: Done::default(),
        };
        let (_, next) = split(core, &complete, vec![sent]);
        assert_eq!(next.arrived, complete.arrived);
    }

    #[test]
    fn a_deferred_node_waits_until_nothing_else_is_due() {
        let graph = builder()
            .edge(node("a"), node("d"))
            .edge(node("a"), node("b"))
            .edge(node("b"), node("c"))
            .defer(node("d"))
            .build()
            .unwrap();
        let core = &graph.core;
        let first = after(core, &Routing::new(core), &["a"]);
        assert_eq!(
            (names(core, &first.due), names(core, &first.waiting)),
            (vec!["b"], vec!["d"])
        );
        let second = after(core, &first, &["b"]);
        assert_eq!(
            (names(core, &second.due), names(core, &second.waiting)),
            (vec!["c"], vec!["d"])
        );
        let third = after(core, &second, &["c"]);
        assert_eq!(
            (names(core, &third.due), names(core, &third.waiting)),
            (vec!["d"], vec![])
        );
    }

    #[test]
    fn writes_and_sends_keep_the_order_of_the_results() {
        let graph = builder().build().unwrap();
        let core = &graph.core;
        let exits = Exits::default();
        let result = |at: u32| Applied {
            node: Some(0),
            on_state: false,
            exits: &exits,
            done: Done {
                writes: vec![(0, Write::Plain(Value::new(vec![at])))],
                targets: vec![Routed::Send(1, Value::new(at)), Routed::Node(2)],
            },
        };
        let results = vec![result(2), result(1), result(3)];
        let (writes, next) = split(core, &Routing::new(core), results);
        let payloads: Vec<_> = next
            .sends
            .iter()
            .map(|(_, payload)| payload.get::<u32>())
            .collect();
        assert_eq!(payloads, [Some(&2), Some(&1), Some(&3)]);
        assert_eq!(names(core, &next.due), ["b"]);
        let mut cells = core.cells();
        fold(core, &mut cells, writes).unwrap();
        assert_eq!(cells[0].value().unwrap().get(), Some(&vec![2u32, 1, 3]));
    }

    #[test]
    fn a_transient_channel_that_nobody_writes_is_emptied() {
        let graph = builder().build().unwrap();
        let core = &graph.core;
        let mut cells = core.cells();
        let signal = Grouped::from([(1, vec![Write::Plain(Value::new(7u32))])]);
        assert_eq!(
            fold(core, &mut cells, signal).unwrap(),
            Vec::<ChannelIx>::new()
        );
        assert_eq!(cells[1].value().unwrap().get(), Some(&7u32));
        assert_eq!(fold(core, &mut cells, Grouped::new()).unwrap(), [1]);
        assert!(cells[1].value().is_none());
        assert_eq!(
            fold(core, &mut cells, Grouped::new()).unwrap(),
            Vec::<ChannelIx>::new()
        );
    }
}
