//! Cases from users' bug reports, each over memory, and over a SQLite file and PostgreSQL with a new process for every step.
//!
//! R06, a kill between a task and its checkpoint, is the module `crash`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value as JsonValue, json};
use superstep::StateUpdate;
use superstep::channels::{Key, Snapshots, append};
use superstep::checkpoint::{CheckpointId, Checkpointer};
use superstep::prelude::*;

use crate::process::{assignment, block_on, open, run, use_database};
use crate::server::Server;

/// One scene of a report: what one process does, and what it sees.
struct Stage<'a, C> {
    saver: &'a C,
    folder: &'a Path,
    scene: usize,
}

impl<C: Checkpointer + Clone + 'static> Stage<'_, C> {
    fn thread<S: State>(&self, graph: &Graph<S>) -> superstep::Thread<S> {
        graph.thread(self.saver, "t")
    }

    fn counters(&self) -> Counters {
        Counters(self.folder.to_owned())
    }

    async fn play(&self, report: &str) -> JsonValue {
        match report {
            "delta_fork" => delta_fork(self).await,
            "delta_update" => delta_update(self).await,
            "parallel_asks" => parallel_asks(self).await,
            "no_rerun" => no_rerun(self).await,
            "replay" => replay(self).await,
            "sibling_failure" => sibling_failure(self).await,
            "unequal_branches" => unequal_branches(self).await,
            other => panic!("no report is called {other}"),
        }
    }
}

/// Counters that outlive their process.
#[derive(Clone)]
struct Counters(std::path::PathBuf);

impl Counters {
    /// Counts one more, and says how many that makes.
    fn count(&self, name: &str) -> u32 {
        let count = self.get(name) + 1;
        std::fs::write(self.0.join(name), count.to_string()).unwrap();
        count
    }

    fn get(&self, name: &str) -> u32 {
        let text = std::fs::read_to_string(self.0.join(name));
        text.map_or(0, |text| text.parse().unwrap())
    }
}

/// Plays all scenes of a report on all stores and compares what each of them saw.
fn check(report: &str, scenes: &[JsonValue]) {
    let folder = tempfile::tempdir().unwrap();
    let saver = MemoryCheckpointer::new();
    for (scene, expected) in scenes.iter().enumerate() {
        let stage = Stage {
            saver: &saver,
            folder: folder.path(),
            scene,
        };
        assert_eq!(
            block_on(stage.play(report)),
            *expected,
            "{report}, scene {scene}, memory"
        );
    }
    in_processes(report, scenes, "SQLite", |_| {});
    if let Some(server) = Server::shared() {
        let database = block_on(server.database());
        in_processes(report, scenes, "PostgreSQL", |folder| {
            use_database(folder, &database)
        });
    }
}

/// Plays each scene in a process of its own.
fn in_processes(report: &str, scenes: &[JsonValue], store: &str, prepare: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    for (scene, expected) in scenes.iter().enumerate() {
        let order = format!("{report} {scene}");
        let ended = run("reports::child", folder.path(), &order);
        assert!(ended.success(), "{report}, scene {scene}: {ended}");
        let seen = std::fs::read(folder.path().join("seen")).unwrap();
        let seen: JsonValue = serde_json::from_slice(&seen).unwrap();
        assert_eq!(seen, *expected, "{report}, scene {scene}, {store}");
    }
}

#[test]
#[ignore = "a process of its own, which the tests below start"]
fn child() {
    let (folder, order) = assignment();
    let (report, scene) = order.split_once(' ').unwrap();
    let seen = block_on(async {
        let stage = Stage {
            saver: &open(&folder).await,
            folder: &folder,
            scene: scene.parse().unwrap(),
        };
        stage.play(report).await
    });
    std::fs::write(folder.join("seen"), seen.to_string()).unwrap();
}

/// What an outcome shows: the final state, or the payloads of the questions.
fn shown<S: State + std::fmt::Debug>(outcome: Outcome<S>) -> JsonValue {
    match outcome {
        Outcome::Done(state) => json!({ "done": state }),
        Outcome::Paused(asks) => {
            let payloads = asks.iter().map(|ask| &ask.payload.0);
            json!({ "asks": payloads.collect::<Vec<_>>() })
        }
        other => panic!("{other:?}"),
    }
}

// R01

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Unit {}

const LOG: Key<Vec<String>> = Key::delta_with("log", append, Snapshots::Every(1000));

async fn out(_: Unit, _: Context) -> NodeResult {
    Ok(Update::new().put(LOG, vec!["out".into()]))
}

async fn delta_fork<C: Checkpointer + Clone + 'static>(stage: &Stage<'_, C>) -> JsonValue {
    let node = Node::<Unit>::new("n");
    let graph = Graph::<Unit>::builder()
        .channel(LOG.spec())
        .node(node.clone(), out)
        .entry(node);
    let graph = graph.build().unwrap();
    let thread = stage.thread(&graph);
    let input = |text: &str| Update::new().put(LOG, vec![text.to_string()]);
    let log = |snapshot: superstep::Snapshot| snapshot.values.json().unwrap()["log"].take();
    // A turn makes three checkpoints: input due, input applied, node.
    let ends = [CheckpointId(3), CheckpointId(6), CheckpointId(9)];
    match stage.scene {
        0 => drop(thread.start(input("in1")).await.unwrap()),
        1 => drop(thread.start(input("in2")).await.unwrap()),
        2 => drop(thread.at(ends[0]).start(input("fork")).await.unwrap()),
        _ => {}
    }
    let newest = thread.state().await.unwrap();
    let mut seen = vec![json!(newest.checkpoint), log(newest)];
    for end in ends.into_iter().take(stage.scene.min(2) + 1) {
        seen.push(log(thread.at(end).state().await.unwrap()));
    }
    JsonValue::Array(seen)
}

#[test]
fn r01_a_fork_has_nothing_of_the_turn_it_leaves_out() {
    let fork = json!([
        9,
        ["in1", "out", "fork", "out"],
        ["in1", "out"],
        ["in1", "out", "in2", "out"],
        ["in1", "out", "fork", "out"]
    ]);
    let scenes = [
        json!([3, ["in1", "out"], ["in1", "out"]]),
        json!([
            6,
            ["in1", "out", "in2", "out"],
            ["in1", "out"],
            ["in1", "out", "in2", "out"]
        ]),
        fork.clone(),
        fork,
    ];
    check("delta_fork", &scenes);
}

// R02

/// The first write to a delta channel comes by hand, on a thread that is not there yet.
async fn delta_update<C: Checkpointer + Clone + 'static>(stage: &Stage<'_, C>) -> JsonValue {
    let node = Node::<Unit>::new("n");
    let graph = Graph::<Unit>::builder()
        .channel(LOG.spec())
        .node(node.clone(), out)
        .entry(node.clone());
    let thread = stage.thread(&graph.build().unwrap());
    let input = |text: &str| Update::new().put(LOG, vec![text.to_string()]);
    match stage.scene {
        0 => drop(
            thread
                .update(StateUpdate::new(input("x")).as_node(node))
                .await
                .unwrap(),
        ),
        1 => drop(thread.start(input("y")).await.unwrap()),
        _ => {}
    }
    let history = thread.history(99).await.unwrap();
    let state = thread.state().await.unwrap();
    json!([history.len(), state.values.json().unwrap()["log"]])
}

#[test]
fn r02_a_first_edit_by_hand_is_there() {
    let run = json!([4, ["x", "y", "out"]]);
    check("delta_update", &[json!([1, ["x"]]), run.clone(), run]);
}

// R03 and R04: a turn calls two others by `send`, and is called again with their results.

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Turns {
    #[reduce(append)]
    results: Vec<String>,
}

const TURN: Node<Turns> = Node::new("turn");
const CALL: Node<String> = Node::new("call");

fn turns(
    counters: Counters,
    names: [&'static str; 2],
    call: impl superstep::Handler<String>,
) -> Graph<Turns> {
    let turn = move |turns: Turns, _: Context| {
        counters.count("turn");
        let calls = if turns.results.is_empty() {
            &names[..]
        } else {
            &[]
        };
        let update = calls.iter().fold(Update::new(), |update, name| {
            update.send(CALL, name.to_string())
        });
        async move { Ok(update) }
    };
    let builder = Graph::<Turns>::builder().node(TURN, turn).node(CALL, call);
    builder.entry(TURN).edge(CALL, TURN).build().unwrap()
}

async fn parallel_asks<C: Checkpointer + Clone + 'static>(stage: &Stage<'_, C>) -> JsonValue {
    let counters = stage.counters();
    let (first, second) = tokio::sync::oneshot::channel::<()>();
    let (first, second) = (Parcel::new(first), Parcel::new(second));
    let asks_second = stage.scene == 0;
    let call = {
        let counters = counters.clone();
        move |name: String, cx: Context| {
            let (counters, first, second) = (counters.clone(), first.clone(), second.clone());
            async move {
                counters.count(&name);
                // The first time, A asks when B has asked.
                if asks_second && name == "A" {
                    second.take().await.unwrap();
                } else if asks_second {
                    first.take().send(()).unwrap();
                }
                let answer: String = cx.interrupt(&json!({ "tool": name })).await;
                Ok(Update::new().put(Turns::RESULTS, vec![format!("{name}={answer}")]))
            }
        }
    };
    let thread = stage.thread(&turns(counters.clone(), ["A", "B"], call));
    let outcome = match stage.scene {
        0 => thread.start(Turns::default()).await.unwrap(),
        1 => Outcome::Paused(thread.state().await.unwrap().asks().cloned().collect()),
        _ => {
            let state = thread.state().await.unwrap();
            let asks: Vec<&Ask> = state.asks().collect();
            thread
                .resume([asks[1].answer("yb"), asks[0].answer("ya")])
                .await
                .unwrap()
        }
    };
    let ids: Vec<String> = outcome
        .asks()
        .iter()
        .map(|ask| ask.id.to_string())
        .collect();
    let entered = ["A", "B"].map(|name| counters.get(name));
    json!({ "shown": shown(outcome), "ids": ids, "entered": entered })
}

/// Something that one task of several takes.
struct Parcel<T>(std::sync::Arc<std::sync::Mutex<Option<T>>>);

impl<T> Parcel<T> {
    fn new(content: T) -> Self {
        Parcel(std::sync::Arc::new(std::sync::Mutex::new(Some(content))))
    }

    fn take(&self) -> T {
        self.0.lock().unwrap().take().unwrap()
    }
}

impl<T> Clone for Parcel<T> {
    fn clone(&self) -> Self {
        Parcel(std::sync::Arc::clone(&self.0))
    }
}

#[test]
fn r03_two_questions_of_one_superstep_are_both_asked_and_answered() {
    // Ids are hashes of thread, checkpoint and place in the superstep: the same wherever they are made.
    let asked = json!({
        "shown": { "asks": [{ "tool": "A" }, { "tool": "B" }] },
        "ids": ["d771523eadf1d3a094b8014c19616e15", "745d013433a42e8dfaec3d5647ac0be8"],
        "entered": [1, 1],
    });
    let scenes = [
        asked.clone(),
        asked,
        json!({ "shown": { "done": { "results": ["A=ya", "B=yb"] } }, "ids": [], "entered": [2, 2] }),
    ];
    check("parallel_asks", &scenes);
}

async fn no_rerun<C: Checkpointer + Clone + 'static>(stage: &Stage<'_, C>) -> JsonValue {
    let counters = stage.counters();
    let call = {
        let counters = counters.clone();
        move |name: String, cx: Context| {
            counters.count(&name);
            async move {
                let result = match name.as_str() {
                    "confirm" => cx.interrupt::<String>("sure?").await,
                    _ => "paid".into(),
                };
                Ok(Update::new().put(Turns::RESULTS, vec![format!("{name}: {result}")]))
            }
        }
    };
    let thread = stage.thread(&turns(counters.clone(), ["confirm", "pay"], call));
    let outcome = match stage.scene {
        0 => thread.start(Turns::default()).await.unwrap(),
        _ => thread.resume([Answer::only("ok")]).await.unwrap(),
    };
    let counts = ["turn", "pay", "confirm"].map(|name| counters.get(name));
    json!({ "shown": shown(outcome), "turn, pay, confirm": counts })
}

#[test]
fn r04_a_finished_task_beside_a_question_runs_once() {
    let scenes = [
        json!({ "shown": { "asks": ["sure?"] }, "turn, pay, confirm": [1, 1, 1] }),
        json!({
            "shown": { "done": { "results": ["confirm: ok", "pay: paid"] } },
            "turn, pay, confirm": [2, 1, 2],
        }),
    ];
    check("no_rerun", &scenes);
}

// R05

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Asked {
    answer: Option<String>,
    #[reduce(append)]
    ran: Vec<String>,
}

async fn replay<C: Checkpointer + Clone + 'static>(stage: &Stage<'_, C>) -> JsonValue {
    let [n0, n1, n2] = ["n0", "n1", "n2"].map(Node::<Asked>::new);
    let plain = |_: Asked, cx: Context| async move {
        Ok(Update::new().put(Asked::RAN, vec![cx.node().to_string()]))
    };
    let asks = |_: Asked, cx: Context| async move {
        let answer: String = cx.interrupt("which?").await;
        Ok(Update::new()
            .put(Asked::ANSWER, Some(answer))
            .put(Asked::RAN, vec!["n1".into()]))
    };
    let builder = Graph::<Asked>::builder()
        .node(n0.clone(), plain)
        .node(n1.clone(), asks)
        .node(n2.clone(), plain)
        .entry(n0.clone())
        .edge(n0, n1.clone())
        .edge(n1, n2);
    let thread = stage.thread(&builder.build().unwrap());
    // The checkpoint that n0 made, after the input's two.
    let before_n1 = CheckpointId(3);
    let outcome = match stage.scene {
        0 => thread.start(Asked::default()).await,
        1 => thread.resume([Answer::only("first")]).await,
        2 => thread.at(before_n1).proceed().await,
        _ => thread.resume([Answer::only("second")]).await,
    };
    let read = |state: superstep::Snapshot| state.read::<Asked>().unwrap();
    let newest = read(thread.state().await.unwrap());
    // The head of the first branch: n1 and n2 on top of n0.
    let old = if stage.scene == 0 {
        before_n1
    } else {
        CheckpointId(5)
    };
    let old = read(thread.at(old).state().await.unwrap());
    json!({ "shown": shown(outcome.unwrap()), "newest": newest, "old": old })
}

#[test]
fn r05_a_replay_asks_again() {
    let asked = json!({ "answer": null, "ran": ["n0"] });
    let answered = |answer: &str| json!({ "answer": answer, "ran": ["n0", "n1", "n2"] });
    let asks = json!({ "asks": ["which?"] });
    let (first, second) = (answered("first"), answered("second"));
    let scenes = [
        json!({ "shown": asks, "newest": asked, "old": asked }),
        json!({ "shown": { "done": first }, "newest": first, "old": first }),
        json!({ "shown": asks, "newest": asked, "old": first }),
        json!({ "shown": { "done": second }, "newest": second, "old": first }),
    ];
    check("replay", &scenes);
}

// R07

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Agg {
    #[reduce(append)]
    agg: Vec<String>,
}

async fn sibling_failure<C: Checkpointer + Clone + 'static>(stage: &Stage<'_, C>) -> JsonValue {
    let counters = stage.counters();
    let mut builder = Graph::<Agg>::builder();
    for name in ["c", "b", "a"] {
        let counters = counters.clone();
        let node = move |_: Agg, cx: Context| {
            let failed = counters.count(cx.node()) == 1 && cx.node() == "b";
            async move {
                match failed {
                    true => Err("not this time".into()),
                    false => Ok(Update::new().put(Agg::AGG, vec![cx.node().to_string()])),
                }
            }
        };
        builder = builder
            .node(Node::new(name), node)
            .entry(Node::<Agg>::new(name));
    }
    let thread = stage.thread(&builder.build().unwrap());
    let outcome = match stage.scene {
        0 => thread.start(Agg::default()).await,
        _ => thread.proceed().await,
    };
    let shown = match outcome {
        Ok(outcome) => shown(outcome),
        Err(error) => json!({ "error": error.to_string() }),
    };
    let counts = ["a", "b", "c"].map(|name| counters.get(name));
    json!({ "shown": shown, "a, b, c": counts })
}

#[test]
fn r07_only_the_failed_task_runs_again() {
    let scenes = [
        json!({ "shown": { "error": "node `b` failed: not this time" }, "a, b, c": [1, 1, 1] }),
        json!({ "shown": { "done": { "agg": ["a", "b", "c"] } }, "a, b, c": [1, 2, 1] }),
    ];
    check("sibling_failure", &scenes);
}

// R08

async fn unequal_branches<C: Checkpointer + Clone + 'static>(stage: &Stage<'_, C>) -> JsonValue {
    let [start, b, c, c2, d] = ["start", "b", "c", "c2", "d"].map(Node::<Agg>::new);
    let node = |_: Agg, cx: Context| async move {
        Ok(Update::new().put(Agg::AGG, vec![cx.node().to_string()]))
    };
    let mut builder = Graph::<Agg>::builder().entry(start.clone());
    for name in [&start, &b, &c, &c2, &d] {
        builder = builder.node(name.clone(), node);
    }
    builder = builder
        .edge(start.clone(), b.clone())
        .edge(start, c.clone())
        .edge(c, c2.clone());
    builder = match stage.scene {
        0 => builder.join([b, c2], d),
        1 => builder.edge(b, d.clone()).edge(c2, d.clone()).defer(d),
        _ => builder.edge(b, d.clone()).edge(c2, d),
    };
    let thread = builder
        .build()
        .unwrap()
        .thread(stage.saver, format!("t{}", stage.scene));
    shown(thread.start(Agg::default()).await.unwrap())
}

#[test]
fn r08_a_join_runs_once_and_plain_edges_each_time() {
    let once = json!({ "done": { "agg": ["start", "b", "c", "c2", "d"] } });
    let twice = json!({ "done": { "agg": ["start", "b", "c", "c2", "d", "d"] } });
    check("unequal_branches", &[once.clone(), once, twice]);
}
