//! Which tasks are due. Pure: the same routing gives the same tasks with the same ids.

use std::sync::Arc;

use superstep_channels::{Name, Value};
use superstep_checkpoint::{CheckpointId, TaskId};
use xxhash_rust::xxh3::xxh3_128;

use super::Run;
use super::apply::Routing;
use crate::executor::Task;
use crate::graph::{Core, NodeIx};
use crate::handler::NodeFailure;
use crate::node::TaskInput;
use crate::record::RecordState;

/// A task of the coming superstep.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) id: TaskId,
    pub(crate) name: Name,
    pub(crate) node: NodeIx,
    pub(crate) path: Path,
}

/// What set a task off. Tasks on the state come first, in the order of their nodes' names; then sends, as they were sent.
/// This is the canonical order: in it writes are folded, whatever finishes first.
#[derive(Clone, Debug)]
pub(crate) enum Path {
    /// An edge, a branch, a `goto` or a join.
    State,
    /// The n-th send of the superstep before.
    Send(usize, Value),
    /// The failure of a task, which was set off by this; it comes right after that task.
    Failure(Box<Path>, NodeFailure),
}

impl Path {
    /// Whether a task of this path runs on the state, and uses up what led to its node.
    pub(crate) fn is_state(&self) -> bool {
        matches!(self, Path::State)
    }
}

/// The error handler of a task that failed, as a task.
pub(super) fn rescue(core: &Core, failed: &Planned, error: &str) -> Option<Planned> {
    let (handler, _) = core.nodes.get(failed.node)?.handler.as_ref()?;
    let mut bytes = failed.id.0.to_vec();
    bytes.extend(b"handler");
    let failure = NodeFailure {
        node: failed.name.clone(),
        error: error.to_owned(),
    };
    Some(Planned {
        id: TaskId(xxh3_128(&bytes).to_be_bytes()),
        name: handler.name().clone(),
        node: failed.node,
        path: Path::Failure(Box::new(failed.path.clone()), failure),
    })
}

/// Where a superstep takes place; part of every task's id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    /// The thread, or the one that it was copied from.
    pub(crate) thread: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) base: Option<CheckpointId>,
    pub(crate) step: i64,
}

/// The tasks that are due, in canonical order.
pub(crate) fn plan(core: &Core, routing: &Routing, moment: Moment<'_>) -> Vec<Planned> {
    let mut ids = Ids::new(moment);
    let mut task = |node: NodeIx, send, path| Planned {
        id: ids.id(&core.nodes[node].key, send),
        name: core.node_name(node).clone(),
        node,
        path,
    };
    let mut tasks = Vec::with_capacity(routing.due.len() + routing.sends.len());
    for due in &routing.due {
        tasks.push(task(due.node, None, Path::State));
    }
    for (at, (node, payload)) in routing.sends.iter().enumerate() {
        tasks.push(task(*node, Some(at), Path::Send(at, payload.clone())));
    }
    tasks
}

/// The id of a task: a hash of all that tells it from every other task.
pub(crate) fn task_id(moment: Moment<'_>, node: &str, send: Option<usize>) -> TaskId {
    Ids::new(moment).id(node, send)
}

/// Makes the ids of one moment's tasks. The place, which they have in common, is written down once.
struct Ids<'a> {
    moment: Moment<'a>,
    bytes: Vec<u8>,
    common: usize,
}

impl<'a> Ids<'a> {
    fn new(moment: Moment<'a>) -> Self {
        let mut bytes = Vec::with_capacity(128);
        put_text(&mut bytes, moment.thread);
        put_text(&mut bytes, moment.namespace);
        Ids {
            moment,
            common: bytes.len(),
            bytes,
        }
    }

    fn id(&mut self, node: &str, send: Option<usize>) -> TaskId {
        self.bytes.truncate(self.common);
        put_text(&mut self.bytes, node);
        let base = self.moment.base.map_or(0, |id| id.0);
        let path = send.map_or(0, |at| at as u64 + 1);
        for number in [base, self.moment.step as u64, path] {
            self.bytes.extend(number.to_be_bytes());
        }
        TaskId(xxh3_128(&self.bytes).to_be_bytes())
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_be_bytes());
    bytes.extend(text.as_bytes());
}

impl Run {
    /// The tasks that are due on the channels as they are.
    pub(super) fn plan(&self) -> Vec<Planned> {
        plan(&self.core, &self.routing, self.moment())
    }

    /// The same with the error handlers of tasks that are stored as failed.
    pub(super) fn plan_with_rescues(&self) -> Vec<Planned> {
        let mut tasks = Vec::new();
        for task in self.plan() {
            let record = self.records.get(&task.id);
            let failed = record.filter(|record| matches!(record.state, RecordState::Failed));
            let rescue = failed.and_then(|record| {
                let error = record.error.as_deref().unwrap_or_default();
                rescue(&self.core, &task, error)
            });
            tasks.push(task);
            tasks.extend(rescue);
        }
        tasks
    }

    pub(super) fn moment(&self) -> Moment<'_> {
        Moment {
            thread: &self.origin,
            namespace: &self.place.namespace,
            base: self.base,
            step: self.step + 1,
        }
    }

    /// The task as its executor gets it.
    pub(super) fn task(&self, planned: &Planned) -> Task {
        Task {
            id: planned.id,
            node: planned.name.clone(),
            place: self.place.clone(),
            checkpoint: self.base,
            step: self.step + 1,
            input: self.input(planned),
            failure: match &planned.path {
                Path::Failure(_, failure) => Some(failure.clone()),
                Path::State | Path::Send(..) => None,
            },
            graph: Arc::clone(&self.core),
            at: planned.node,
        }
    }

    /// What a task runs on: its node's channels as they are before the superstep, or what was sent.
    pub(super) fn input(&self, planned: &Planned) -> TaskInput {
        let node = &self.core.nodes[planned.node];
        match (&planned.path, &node.handler) {
            (Path::Send(_, payload), _) => TaskInput::Payload(payload.clone()),
            (Path::Failure(path, _), Some((handler, reads))) => match &**path {
                Path::Send(_, payload) if handler.takes(payload) => {
                    TaskInput::Payload(payload.clone())
                }
                _ => TaskInput::State(self.core.read(reads, &self.cells)),
            },
            _ => TaskInput::State(self.core.read(&node.reads, &self.cells)),
        }
    }

    /// What set a task off, by name.
    pub(super) fn triggers(&self, planned: &Planned) -> Vec<String> {
        match planned.path {
            Path::State => {}
            Path::Send(..) => return vec!["send".to_owned()],
            Path::Failure(..) => return vec!["failure".to_owned()],
        }
        let complete = |at: &usize| self.routing.is_complete(&self.core, *at);
        let joins = (0..self.core.joins.len())
            .filter(|&at| self.core.joins[at].target == planned.node)
            .filter(complete)
            .map(|at| self.core.joins[at].name.clone());
        let mut due = self.routing.due.iter();
        let by_edge = due.any(|due| due.node == planned.node && due.edge);
        let edge = by_edge.then(|| format!("branch:to:{}", planned.name));
        edge.into_iter().chain(joins).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use std::collections::HashSet;

    use superstep_checkpoint::Place;

    use super::super::apply::Due;
    use super::*;
    use crate::{Context, Graph, Node, NodeResult, Update};

    async fn nothing(_: (), _: Context) -> NodeResult {
        Ok(Update::new())
    }

    fn at<'a>(place: &'a Place, base: Option<u64>, step: i64) -> Moment<'a> {
        Moment {
            thread: &place.thread,
            namespace: &place.namespace,
            base: base.map(CheckpointId),
            step,
        }
    }

    fn place(thread: &str, namespace: &str) -> Place {
        Place {
            thread: thread.into(),
            namespace: namespace.into(),
        }
    }

    #[test]
    fn tasks_on_the_state_come_before_sends() {
        let (z, a) = (Node::<()>::new("z"), Node::<()>::new("a"));
        let builder = Graph::<()>::builder()
            .node(z.clone(), nothing)
            .node(a, nothing)
            .entry(z);
        let core = builder.build().unwrap().core;
        let mut routing = Routing::new(&core);
        routing.due = [1, 0].map(|node| Due { node, edge: true }).to_vec();
        routing.sends = vec![(0, Value::new(1u32)), (1, Value::new(2u32))];
        let place = place("t", "");
        let tasks = plan(&core, &routing, at(&place, Some(3), 7));
        let seen: Vec<_> = tasks
            .iter()
            .map(|task| match &task.path {
                Path::State => format!("{}", task.name),
                Path::Send(at, payload) => format!("{} {at} {payload:?}", task.name),
                Path::Failure(..) => unreachable!("nothing failed"),
            })
            .collect();
        assert_eq!(seen, ["a", "z", "z 0 1", "a 1 2"]);
        let ids: HashSet<_> = tasks.iter().map(|task| task.id).collect();
        assert_eq!(ids.len(), 4);
    }

    #[test]
    fn everything_that_tells_tasks_apart_is_in_the_id() {
        let places = [
            place("ab", "c"),
            place("a", "bc"),
            place("abc", ""),
            place("", "abc"),
        ];
        let mut ids = HashSet::new();
        for place in &places {
            for moment in [
                at(place, None, 1),
                at(place, Some(1), 1),
                at(place, Some(1), 2),
            ] {
                for node in ["n", "nn"] {
                    for send in [None, Some(0), Some(1)] {
                        ids.insert(task_id(moment, node, send));
                    }
                }
            }
        }
        assert_eq!(ids.len(), 4 * 3 * 2 * 3);
    }

    #[test]
    fn ids_stay_what_stored_threads_say() {
        let place = place("report-7", "outer:1");
        let id = task_id(at(&place, Some(12), 3), "write", Some(4));
        assert_eq!(id.to_string(), "357edf9226e069521a8e6d2f7b13051d");
    }
}
