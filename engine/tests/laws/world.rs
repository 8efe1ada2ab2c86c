//! Random graphs: what a graph does, as data, and the graph that does it.

use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value as JsonValue, json};
use superstep::channels::{ChannelSpec, Json, Snapshots, Value, append};
use superstep::prelude::*;
use superstep::{Nesting, StateUpdate};

/// A graph with all that its nodes do. Static edges and joins lead forward, and whatever can lead
/// back is followed only while the budget lasts, so every run ends.
#[derive(Clone, Debug)]
pub(crate) struct World {
    nodes: Vec<Plan>,
    entries: Vec<usize>,
    joins: Vec<(Vec<usize>, usize)>,
    after_job: Option<usize>,
}

#[derive(Clone, Debug)]
struct Plan {
    writes: Vec<(Cell, bool)>,
    edges: Vec<usize>,
    goto: Option<usize>,
    branch: Option<usize>,
    /// The depth of each job it sends.
    sends: Vec<u8>,
    yields: u8,
    deferred: bool,
    asks: bool,
    /// It is a graph, which asks too if the node does.
    nested: Option<Nesting>,
}

/// The channels: one of every kind.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    Guarded,
    Last,
    Any,
    Ephemeral,
    Untracked,
    Topic,
    First,
    Every,
    Amortised,
}

const CELLS: [Cell; 9] = [
    Cell::Guarded,
    Cell::Last,
    Cell::Any,
    Cell::Ephemeral,
    Cell::Untracked,
    Cell::Topic,
    Cell::First,
    Cell::Every,
    Cell::Amortised,
];

/// How many tasks have run, by all writers' count.
const TICKS: &str = "ticks";
const BUDGET: i64 = 14;

#[derive(Clone, Serialize, Deserialize)]
struct Job {
    depth: u8,
    from: String,
}

impl Payload for Job {}

const JOB: Node<Job> = Node::new("job");

impl Cell {
    fn name(self) -> &'static str {
        match self {
            Cell::Guarded => "guarded",
            Cell::Last => "last",
            Cell::Any => "any",
            Cell::Ephemeral => "ephemeral",
            Cell::Untracked => "untracked",
            Cell::Topic => "topic",
            Cell::First => "first",
            Cell::Every => "every",
            Cell::Amortised => "amortised",
        }
    }

    fn spec(self) -> ChannelSpec {
        let name = self.name();
        match self {
            Cell::Guarded => ChannelSpec::last::<Json>(name),
            Cell::Last => ChannelSpec::last::<Json>(name).unguarded(),
            Cell::Any => ChannelSpec::any::<Json>(name),
            Cell::Ephemeral => ChannelSpec::ephemeral::<Json>(name).unguarded(),
            Cell::Untracked => ChannelSpec::untracked::<Json>(name).unguarded(),
            Cell::Topic => ChannelSpec::topic::<Vec<String>, _>(name, append),
            Cell::First => {
                ChannelSpec::reduce_from_first::<String>(name, |all: &mut String, one: String| {
                    all.push_str(&one);
                })
            }
            Cell::Every => ChannelSpec::reduce::<Vec<String>, String>(name, Vec::push)
                .as_delta(Snapshots::Every(2)),
            Cell::Amortised => {
                ChannelSpec::reduce::<Vec<String>, _>(name, append).as_delta(Snapshots::Amortised)
            }
        }
    }

    fn write(self, update: Update, text: String, overwrite: bool) -> Update {
        let list = || Value::new(vec![text.clone()]);
        let (plain, whole) = match self {
            Cell::Topic => (list(), list()),
            Cell::First => (Value::new(text.clone()), Value::new(text.clone())),
            Cell::Every => (Value::new(text.clone()), list()),
            // Long enough that a few of them are worth a snapshot.
            Cell::Amortised => (Value::new(vec![text.repeat(60)]), list()),
            _ => (
                Value::new(Json(json!(text))),
                Value::new(Json(json!({ "over": text }))),
            ),
        };
        match overwrite {
            true => update.overwrite_value(self.name(), whole),
            false => update.put_value(self.name(), plain),
        }
    }
}

/// What a task saw of the state: a difference in any channel shows in all that is written from then on.
fn digest(state: &JsonValue) -> u64 {
    let mut state = state.clone();
    if let Some(object) = state.as_object_mut() {
        // Not `remove`, which moves another member to its place.
        object.shift_remove(Cell::Untracked.name());
    }
    let mut hash = DefaultHasher::new();
    state.to_string().hash(&mut hash);
    hash.finish()
}

impl Plan {
    async fn run(self, world: World, Json(state): Json, cx: Context) -> NodeResult {
        for _ in 0..self.yields {
            tokio::task::yield_now().await;
        }
        let answer = match self.asks {
            true => cx.interrupt::<u32>(&json!({ "from": cx.node() })).await,
            false => 0,
        };
        let text = format!("{}:{:x}:{answer}", cx.node(), digest(&state));
        let mut update = Update::new().put_value(TICKS, Value::new(1i64));
        for (cell, overwrite) in self.writes {
            update = cell.write(update, text.clone(), overwrite);
        }
        if ticks(&state) >= BUDGET {
            return Ok(update);
        }
        for depth in self.sends {
            update = update.send(
                JOB,
                Job {
                    depth,
                    from: text.clone(),
                },
            );
        }
        Ok(match self.goto {
            Some(to) => update.goto(world.node(to)),
            None => update,
        })
    }
}

fn ticks(state: &JsonValue) -> i64 {
    state[TICKS].as_i64().unwrap_or_default()
}

async fn job(job: Job, _: Context) -> NodeResult {
    if job.depth > 1 {
        tokio::task::yield_now().await;
    }
    let text = format!("job of {}", job.from);
    let update = Cell::Every.write(Update::new(), text.clone(), false);
    let update = Cell::Topic
        .write(update, text, false)
        .put_value(TICKS, Value::new(1i64));
    Ok(match job.depth {
        0 => update,
        depth => update.send(
            JOB,
            Job {
                depth: depth - 1,
                from: job.from,
            },
        ),
    })
}

/// A graph of two nodes with a delta channel of its own, which shares two channels with the world. The first may ask.
fn nested(nesting: Nesting, asks: bool) -> Graph<Json> {
    let [first, second] = ["first", "second"].map(Node::<Json>::new);
    let node = move |Json(state): Json, cx: Context| async move {
        let answer = match asks && &**cx.node() == "first" {
            true => {
                cx.interrupt::<u32>(&json!({ "from": cx.namespace() }))
                    .await
            }
            false => 0,
        };
        let text = format!("{}:{:x}:{answer}", cx.node(), digest(&state));
        let update = Cell::Last.write(Update::new(), text.clone(), false);
        Ok(Cell::Every.write(update, text, false))
    };
    let builder = Graph::<Json>::builder()
        .nesting(nesting)
        .channel(Cell::Last.spec())
        .channel(Cell::Topic.spec())
        .channel(Cell::Every.spec())
        .output([Cell::Last.name(), Cell::Topic.name()])
        .node(first.clone(), node)
        .node(second.clone(), node)
        .entry(first.clone())
        .edge(first, second);
    builder.build().unwrap()
}

impl World {
    /// Nodes sort in another order than they are declared in.
    fn node(&self, at: usize) -> Node<Json> {
        Node::named(format!("n{}", self.nodes.len() - at))
    }

    /// A change by hand, as if one of the nodes had written it.
    pub(crate) fn update(&self, at: prop::sample::Index) -> StateUpdate {
        let update = Cell::Last.write(Update::new(), "by hand".into(), false);
        let update = Cell::Amortised.write(update, "by hand".into(), false);
        StateUpdate::new(update).as_node(self.node(at.index(self.nodes.len())))
    }

    /// The graph. Callers see all channels but the untracked one.
    pub(crate) fn graph(&self) -> Graph<Json> {
        let seen = CELLS
            .iter()
            .filter(|cell| **cell != Cell::Untracked)
            .map(|cell| cell.name());
        let mut builder = Graph::<Json>::builder()
            .channel(ChannelSpec::reduce::<i64, i64>(
                TICKS,
                |all: &mut i64, one| *all += one,
            ))
            .node(JOB, job)
            .output(seen.chain([TICKS]));
        for cell in CELLS {
            builder = builder.channel(cell.spec());
        }
        for (at, plan) in self.nodes.iter().enumerate() {
            let node = self.node(at);
            builder = match plan.nested {
                Some(nesting) => builder.subgraph(node.clone(), &nested(nesting, plan.asks)),
                None => {
                    let (plan, world) = (plan.clone(), self.clone());
                    let run = move |state, cx| plan.clone().run(world.clone(), state, cx);
                    builder.node(node.clone(), run)
                }
            };
            for &to in &plan.edges {
                builder = builder.edge(node.clone(), self.node(to));
            }
            if let Some(to) = plan.branch.map(|to| self.node(to)) {
                // The node's own tick is in it, so the next one sees more.
                let decide = move |Json(state): Json| (ticks(&state) < BUDGET).then(|| to.clone());
                builder = builder.branch(node.clone(), decide);
            }
            if plan.deferred {
                builder = builder.defer(node);
            }
        }
        for &entry in &self.entries {
            builder = builder.entry(self.node(entry));
        }
        for (from, to) in &self.joins {
            builder = builder.join(from.iter().map(|&at| self.node(at)), self.node(*to));
        }
        if let Some(to) = self.after_job {
            builder = builder.edge(JOB, self.node(to));
        }
        builder.build().unwrap()
    }
}

fn cell() -> impl Strategy<Value = Cell> {
    // Two writes to a guarded channel end the run, so they are rare.
    prop_oneof![1 => Just(Cell::Guarded), 30 => prop::sample::select(&CELLS[1..])]
}

fn plan(at: usize, nodes: usize) -> impl Strategy<Value = Plan> {
    let later = move || prop::collection::vec(at + 1..nodes.max(at + 2), 0..3);
    let node = move || prop::option::weighted(0.3, 0..nodes);
    let sends = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(0..3u8, 1..4)];
    let writes = prop::collection::vec((cell(), prop::bool::weighted(0.1)), 0..4);
    let flags = (
        0..3u8,
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.2),
        prop::option::weighted(0.2, nesting()),
    );
    (writes, later(), node(), node(), sends, flags).prop_map(
        move |(writes, mut edges, goto, branch, sends, (yields, deferred, asks, nested))| {
            edges.retain(|&to| to < nodes);
            // A nested node counts no tick, so it must not lead back.
            let branch = branch.filter(|_| nested.is_none());
            Plan {
                writes,
                edges,
                goto,
                branch,
                sends,
                yields,
                deferred,
                asks,
                nested,
            }
        },
    )
}

fn nesting() -> impl Strategy<Value = Nesting> {
    prop::sample::select(&[Nesting::PerCall, Nesting::PerThread, Nesting::Unstored][..])
}

/// A world of three to seven nodes.
pub(crate) fn world() -> impl Strategy<Value = World> {
    (3..8usize).prop_flat_map(|nodes| {
        let plans: Vec<_> = (0..nodes).map(|at| plan(at, nodes)).collect();
        let entries = prop::sample::subsequence(vec![0, 1], 1..=2);
        let join = (1..nodes).prop_flat_map(|to| {
            let from = prop::sample::subsequence((0..to).collect::<Vec<_>>(), 1..=to);
            (from, Just(to))
        });
        let joins = prop::collection::vec(join, 0..3);
        let after_job = prop::option::of(0..nodes);
        (plans, entries, joins, after_job).prop_map(|(nodes, entries, joins, after_job)| World {
            nodes,
            entries,
            joins,
            after_job,
        })
    })
}
