//! A process that dies at any call of its checkpointer loses nothing that was acknowledged.
//!
//! Each case is three processes over one SQLite file: one that kills itself, one that goes on,
//! and this one, which reads what is there afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value as JsonValue;
use superstep::channels::{Key, Snapshots, append};
use superstep::checkpoint::StoredTask;
use superstep::checkpoint::conformance::{Call, Fault, Watch, Watched};
use superstep::prelude::*;
use superstep::{Durability, NodeError, Routine};
use tokio::sync::watch;

use crate::process::{assignment, block_on, open, run, use_database};
use crate::server::Server;

/// Kills its own process at one of its calls: the odd points lie before a write, the even ones after it.
struct KillAt {
    point: usize,
    passed: AtomicUsize,
    acknowledged: Acknowledged,
}

/// The tasks whose results a save has acknowledged, in whichever process: one id a line of a file.
#[derive(Clone, Debug)]
struct Acknowledged {
    file: PathBuf,
    tasks: watch::Sender<BTreeSet<String>>,
    /// Whether results are saved before the run ends.
    early: bool,
}

impl Acknowledged {
    fn open(folder: &Path, durability: Durability) -> Self {
        let file = folder.join("acknowledged");
        let known = lines(&file).into_iter().collect();
        Acknowledged {
            file,
            tasks: watch::Sender::new(known),
            early: durability != Durability::Exit,
        }
    }

    fn add(&self, ids: Vec<String>) {
        for id in &ids {
            note(&self.file, id);
        }
        self.tasks.send_modify(|known| known.extend(ids));
    }

    async fn at_least(&self, count: usize) {
        let enough = |known: &BTreeSet<String>| known.len() >= count;
        self.tasks.subscribe().wait_for(enough).await.unwrap();
    }
}

impl KillAt {
    fn pass(&self) {
        if self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.point {
            let own = std::process::id().to_string();
            std::process::Command::new("kill")
                .args(["-9", &own])
                .status()
                .unwrap();
            unreachable!("SIGKILL ends the process");
        }
    }
}

fn ids<'a>(tasks: impl IntoIterator<Item = &'a StoredTask>) -> Vec<String> {
    tasks.into_iter().map(|task| task.id.to_string()).collect()
}

/// Only when a write has returned do its tasks count as acknowledged.
#[async_trait]
impl Watch for KillAt {
    async fn before(&self, call: &Call) -> Fault {
        if call.writes() {
            self.pass();
        }
        Fault::None
    }

    async fn after(&self, call: &Call) {
        let tasks = match call {
            Call::Commit(_, commits) => ids(commits.iter().flat_map(|commit| &commit.tasks)),
            Call::SaveTasks(_, tasks) => ids(tasks),
            _ => return,
        };
        self.acknowledged.add(tasks);
        self.pass();
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Work {
    /// The last step, and what it saw of the others.
    last: String,
    #[reduce(append)]
    parts: Vec<u32>,
    #[delta(append)]
    log: Vec<String>,
}

const TRAIL: Key<Vec<String>> = Key::delta_with("trail", append, Snapshots::Every(3));

const STEPS: [&str; 10] = [
    "one", "two", "fan", "part", "gather", "inner", "charge", "eight", "nine", "ten",
];
const PART: Node<u32> = Node::new("part");
const LEFT: Node<Work> = Node::new("left");
const RIGHT: Node<Work> = Node::new("right");

/// Results that are acknowledged before the parts run: the input's, and those of three steps.
const BEFORE_PARTS: usize = 4;

/// The side effects of nodes: a line for each time one runs.
#[derive(Clone)]
struct Effects(PathBuf);

impl Effects {
    fn run(&self, cx: &Context, label: &str) {
        note(&self.0, &format!("{label} {}", cx.task()));
    }

    async fn step(self, work: Work, cx: Context) -> NodeResult {
        let name = cx.node().to_string();
        self.run(&cx, &name);
        if name == "charge" {
            self.charge(&cx).await?;
        }
        let update = Update::new()
            .put(
                Work::LAST,
                format!("{name} after {}, {} parts", work.last, work.parts.len()),
            )
            .put(Work::LOG, vec![name.clone()])
            .put(TRAIL, vec![name.clone()]);
        Ok(match name.as_str() {
            "fan" => (0..5).fold(update, |update, part| update.send(PART, part)),
            _ => update,
        })
    }

    /// A durable step, and two routines side by side.
    async fn charge(&self, cx: &Context) -> Result<(), NodeError> {
        let effects = self.clone();
        cx.step("charge", async move {
            note(&effects.0, "charged");
            Ok::<_, NodeError>(1u32)
        })
        .await?;
        let effects = self.clone();
        let notify = Routine::new("notify", move |who: String, _: Context| {
            note(&effects.0, &format!("notified {who}"));
            async move { Ok(who.len() as u32) }
        });
        let both = ["a", "bb"].map(|who| cx.call(&notify, who.to_owned()));
        assert_eq!(futures::future::try_join_all(both).await?, [1, 2]);
        Ok(())
    }

    async fn inner(self, work: Work, cx: Context) -> NodeResult {
        self.run(&cx, cx.node());
        Ok(Update::new().put(Work::LAST, format!("{} after {}", cx.node(), work.last)))
    }
}

/// Two parts finish at once; each of the others waits until the one before it is saved.
async fn part(effects: Effects, acknowledged: Acknowledged, part: u32, cx: Context) -> NodeResult {
    if part >= 2 && acknowledged.early {
        acknowledged.at_least(BEFORE_PARTS + part as usize).await;
    }
    effects.run(&cx, &format!("part {part}"));
    Ok(Update::new()
        .put(Work::PARTS, vec![part])
        .put(TRAIL, vec![format!("part {part}")]))
}

fn graph(effects: &Effects, acknowledged: &Acknowledged) -> Graph<Work> {
    let inner = |effects: Effects| move |work, cx| effects.clone().inner(work, cx);
    let nested = Graph::<Work>::builder()
        .named("nested", 1)
        .node(LEFT, inner(effects.clone()))
        .node(RIGHT, inner(effects.clone()))
        .entry(LEFT)
        .edge(LEFT, RIGHT)
        .output(["last"])
        .build()
        .unwrap();
    let (acknowledged, of_parts) = (acknowledged.clone(), effects.clone());
    let mut builder = Graph::<Work>::builder()
        .channel(TRAIL.spec())
        .node(PART, move |at, cx| {
            part(of_parts.clone(), acknowledged.clone(), at, cx)
        })
        .subgraph(Node::<Work>::new("inner"), &nested)
        .entry(Node::<Work>::new(STEPS[0]))
        .edge(PART, Node::<Work>::new("gather"));
    for name in STEPS
        .into_iter()
        .filter(|name| !["part", "inner"].contains(name))
    {
        let effects = effects.clone();
        builder = builder.node(Node::new(name), move |work, cx| {
            effects.clone().step(work, cx)
        });
    }
    for pair in STEPS.windows(2).filter(|pair| !pair.contains(&"part")) {
        builder = builder.edge(Node::<Work>::new(pair[0]), Node::<Work>::new(pair[1]));
    }
    builder.build().unwrap()
}

/// Starts the run or goes on with it, and dies at the point it is told, if the run has so many.
#[test]
#[ignore = "a process of its own, which the test below starts"]
fn child() {
    let (folder, order) = assignment();
    let (point, durability) = order.split_once(' ').unwrap();
    let durability = match durability {
        "Async" => Durability::Async,
        "Exit" => Durability::Exit,
        _ => Durability::Sync,
    };
    let acknowledged = Acknowledged::open(&folder, durability);
    let graph = graph(&Effects(folder.join("effects")), &acknowledged);
    let kill = KillAt {
        point: point.parse().unwrap(),
        passed: AtomicUsize::new(0),
        acknowledged,
    };
    block_on(async {
        let saver = Watched::new(open(&folder).await, kill);
        let thread = graph.thread(&saver, "t");
        let outcome = match thread.state().await.unwrap().checkpoint {
            None => thread.start(Work::default()),
            Some(_) => thread.proceed(),
        };
        let outcome = outcome.durability(durability).await;
        assert!(matches!(outcome.unwrap(), Outcome::Done(_)));
    });
}

/// What a run leaves behind.
#[derive(Debug, PartialEq)]
struct Remains {
    /// Each checkpoint with its superstep and all its channels.
    history: Vec<(i64, JsonValue)>,
    /// The nodes that ran, each with its task.
    effects: BTreeSet<String>,
}

fn remains(folder: &Path) -> Remains {
    let unused = Effects(folder.join("unused"));
    let acknowledged = Acknowledged::open(folder, Durability::Sync);
    let graph = graph(&unused, &acknowledged);
    let history = block_on(async { graph.thread(&open(folder).await, "t").history(100).await });
    let history = history.unwrap();
    let read = |snapshot: superstep::Snapshot| (snapshot.step, snapshot.values.json().unwrap());
    Remains {
        history: history.into_iter().map(read).collect(),
        effects: lines(&folder.join("effects")).into_iter().collect(),
    }
}

/// Kills the run at each call of its checkpointer and goes on with it each time. Gives how many calls there are, and
/// how often something happened twice that is stored on its own.
fn kill_everywhere(
    durability: Durability,
    undisturbed: &Remains,
    killed: impl Fn(&Remains, usize),
    prepare: impl Fn(&Path),
) -> (usize, BTreeMap<String, usize>) {
    let order = |point: usize| format!("{point} {durability:?}");
    let (mut kills, mut twice) = (0, BTreeMap::new());
    loop {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let first = run("crash::child", folder.path(), &order(kills + 1));
        if first.success() {
            return (kills, twice);
        }
        kills += 1;
        assert_eq!(first.signal(), Some(9), "point {kills}: {first}");
        killed(&remains(folder.path()), kills);
        let acknowledged = lines(&folder.path().join("acknowledged"));
        let second = run("crash::child", folder.path(), &order(0));
        assert!(second.success(), "point {kills}");
        assert_eq!(remains(folder.path()), *undisturbed, "point {kills}");
        let effects = folder.path().join("effects");
        check_counts(&effects, &acknowledged, kills);
        for effect in ["charged", "notified a", "notified bb"] {
            let count = lines(&effects)
                .iter()
                .filter(|line| *line == effect)
                .count();
            assert!(
                (1..=2).contains(&count),
                "point {kills}: {effect} {count} times"
            );
            *twice.entry(effect.to_owned()).or_default() += count - 1;
        }
    }
}

fn undisturbed(durability: Durability) -> Remains {
    let folder = tempfile::tempdir().unwrap();
    assert!(run("crash::child", folder.path(), &format!("0 {durability:?}")).success());
    remains(folder.path())
}

/// Report R06, at every call and with more kinds of steps.
#[test]
fn a_kill_at_any_call_loses_nothing_and_repeats_nothing_acknowledged() {
    let calm = undisturbed(Durability::Sync);
    assert_eq!(calm.history.len(), 2 + STEPS.len());
    assert_eq!(calm.effects.len(), STEPS.len() - 2 + 5 + 2 + 3);
    let (kills, twice) = kill_everywhere(Durability::Sync, &calm, |_, _| {}, |_| {});
    // Before and after: the input, ten steps, three early saves, the nested input and its two steps, the charge and the two
    // notices, which are saved together.
    assert_eq!(kills, 2 * (1 + STEPS.len() + 3 + 1 + 2 + 2));
    // Only a kill between the effect and the save of it repeats it.
    assert_eq!(
        twice,
        BTreeMap::from(
            ["charged", "notified a", "notified bb"].map(|effect| (effect.to_owned(), 1))
        )
    );
}

#[test]
fn a_kill_at_any_call_loses_nothing_in_postgres_either() {
    let Some(server) = Server::shared() else {
        return;
    };
    let calm = undisturbed(Durability::Sync);
    let prepare = |folder: &Path| use_database(folder, &block_on(server.database()));
    let (kills, _) = kill_everywhere(Durability::Sync, &calm, |_, _| {}, prepare);
    assert_eq!(kills, 2 * (1 + STEPS.len() + 3 + 1 + 2 + 2));
}

#[test]
fn what_a_kill_leaves_of_a_run_stored_behind_is_the_thread_as_it_was() {
    let calm = undisturbed(Durability::Async);
    assert_eq!(calm, undisturbed(Durability::Sync));
    let (kills, _) = kill_everywhere(
        Durability::Async,
        &calm,
        |left, point| {
            let from = calm.history.len() - left.history.len();
            assert_eq!(left.history, calm.history[from..], "point {point}");
        },
        |_| {},
    );
    assert!(kills > 2 * STEPS.len());
}

#[test]
fn what_a_kill_leaves_of_a_run_stored_at_its_end_is_nothing_or_all() {
    let calm = undisturbed(Durability::Exit);
    assert_eq!(calm.history, undisturbed(Durability::Sync).history[..1]);
    let (kills, _) = kill_everywhere(
        Durability::Exit,
        &calm,
        |left, point| {
            assert!(
                left.history.is_empty() || left.history == calm.history,
                "point {point}"
            );
        },
        |_| {},
    );
    // Before and after its one commit.
    assert_eq!(kills, 2);
}

fn check_counts(effects: &Path, acknowledged: &[String], point: usize) {
    let mut counts = BTreeMap::<String, usize>::new();
    for line in lines(effects) {
        *counts.entry(line).or_default() += 1;
    }
    for (effect, count) in counts {
        let task = effect.rsplit(' ').next().unwrap();
        if effect.starts_with("notified") || effect == "charged" {
            continue;
        }
        let most = if acknowledged.iter().any(|id| id == task) {
            1
        } else {
            2
        };
        assert!(
            count <= most,
            "point {point}: `{effect}` {count} times, at most {most} allowed"
        );
    }
}

fn note(file: &Path, line: &str) {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .unwrap();
    // In one write, so that a kill leaves no half line.
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
