//! Subagents: side by side, asking, killed in the middle, failing.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use superstep_agent::agent::{Agent, Conversation, Subagent, create_agent, says};
use superstep_agent::message::{Message, ToolCall};
use superstep_agent::middleware::{Decision, approve};
use superstep_agent::model::{ChatModel, ModelError, ScriptedModel};
use superstep_agent::tool::{Tool, ToolContext, ToolError};
use superstep_checkpoint::{Checkpointer, Header, MemoryCheckpointer, Place, SqliteCheckpointer};
use tokio::sync::Barrier;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::process::{play, report};
use crate::support::{
    Log, Nothing, asks, calls, dump, entered, entries, lines, nested, noting, open, scripted,
    shown, transcript, until_one_is_saved, watch,
};

fn subagent(name: &str, agent: Agent) -> Subagent {
    Subagent {
        name: name.into(),
        description: format!("Does what {name} does."),
        agent,
    }
}

/// A reply that hands work to these subagents.
fn hand_out<const N: usize>(names: [&str; N]) -> Message {
    let tasks = names.map(|name| {
        let args = json!({ "description": format!("work, {name}"), "subagent_type": name });
        ToolCall::new(name, "task", args)
    });
    Message::ai_calls("", tasks)
}

/// An agent with one subagent, called `sub`.
fn with_subagent(model: impl ChatModel + 'static, sub: Agent) -> Agent {
    let agent = create_agent(model).subagent(subagent("sub", sub));
    agent.build().unwrap()
}

/// An agent that hands work to this subagent once and ends; gives what the model reads of it.
async fn told(sub: Agent, limit: u32) -> String {
    let agent = with_subagent(scripted([hand_out(["sub"]), Message::ai("I see.")]), sub);
    let said = transcript(agent.detached().start(says("go")).limit(limit).await);
    assert_eq!(said[3..], ["ai: I see."]);
    said[2].clone()
}

#[tokio::test]
async fn two_run_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    // Both get here, or neither goes on.
    let barrier = Arc::new(Barrier::new(2));
    let worker = |name: &'static str| {
        let barrier = Arc::clone(&barrier);
        let meet = Tool::new("meet", "Waits for the other.", move |_: Nothing, _| {
            let barrier = Arc::clone(&barrier);
            async move {
                let met = tokio::time::timeout(Duration::from_secs(10), barrier.wait());
                Ok(met.await.map(|_| "met")?.into())
            }
        });
        let model = scripted([calls(["meet"]), Message::ai(format!("{name} is done. "))]);
        let agent = create_agent(model).named(name).tool(meet).build();
        subagent(name, agent.unwrap())
    };
    let model = scripted([hand_out(["right", "left"]), Message::ai("Done.")]);
    let agent = create_agent(model)
        .subagent(worker("left"))
        .subagent(worker("right"))
        .build()
        .unwrap();
    let store = open(folder.path());
    let (seen, outcome) = watch(agent.thread(&store, "t").start(says("go"))).await;

    let messages = outcome.unwrap().done().unwrap().messages;
    let results = ["right: right is done.", "left: left is done."];
    assert_eq!(lines(&messages)[2..4], results);
    let (right, left) = (nested("t", &messages[2]), nested("t", &messages[3]));
    let mut by_graph: HashMap<&str, Vec<&str>> = HashMap::new();
    for (namespace, what) in &seen {
        by_graph.entry(namespace).or_default().push(what);
    }
    let turn = ["model starts", "model ends", "tools starts", "tools ends"];
    let end = ["model starts", "model ends"];
    let alone = [&turn[..], &end].concat();
    assert_eq!(by_graph.remove(&*right.namespace), Some(alone.clone()));
    assert_eq!(by_graph.remove(&*left.namespace), Some(alone));
    let both = ["tools starts", "tools starts", "tools ends", "tools ends"];
    let outer = [&turn[..2], &both, &end].concat();
    assert_eq!(by_graph, HashMap::from([("", outer)]));

    for (place, name) in [(right, "right"), (left, "left")] {
        let own = store.list(&place, None, 100).await.unwrap();
        let headers: Vec<Header> = own
            .iter()
            .map(|c| Header::open(&c.header).unwrap())
            .collect();
        let steps: Vec<i64> = headers.iter().map(|header| header.step).collect();
        assert_eq!(steps, [3, 2, 1, 0, -1]);
        assert!(headers.iter().all(|header| header.graph == name));
    }
    assert_eq!(store.size("t").await.unwrap().namespaces(), 3);
}

#[tokio::test]
async fn the_same_one_works_twice_at_a_time() {
    let store = MemoryCheckpointer::new();
    let barrier = Arc::new(Barrier::new(2));
    let meet = Tool::new("meet", "Waits for the other.", move |_: Nothing, cx| {
        let (barrier, work) = (Arc::clone(&barrier), cx.namespace().to_owned());
        async move {
            let met = tokio::time::timeout(Duration::from_secs(10), barrier.wait());
            Ok(met.await.map(|_| work)?.into())
        }
    });
    let turn = || calls(["meet"]);
    let script = [turn(), turn(), Message::ai("Met."), Message::ai("Met.")];
    let inner = scripted(script);
    let sub = create_agent(Arc::clone(&inner)).tool(meet).build().unwrap();
    // Both calls have the id `sub`, as from a server that gives none.
    let model = scripted([hand_out(["sub", "sub"]), Message::ai("Done.")]);
    let thread = with_subagent(model, sub).thread(&store, "t");
    let said = transcript(thread.start(says("go")).await);
    assert_eq!(said[2..], ["sub: Met.", "sub: Met.", "ai: Done."]);
    let ends = shown(&inner.requests()[2..]);
    assert_ne!(ends[0][2], ends[1][2], "each has a place of its own");
    assert_eq!(store.size("t").await.unwrap().namespaces(), 3);
}

/// Tells when it is dropped.
struct Guard(UnboundedSender<&'static str>);

impl Drop for Guard {
    fn drop(&mut self) {
        // Nobody may listen any more.
        let _ = self.0.send("gone");
    }
}

#[tokio::test]
async fn dropping_a_run_stops_its_subagents_and_they_can_be_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let (log, hangs) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let (tell, mut told) = unbounded_channel();
    let (hanging, place, waited) = (Arc::clone(&hangs), folder.path().to_owned(), log.clone());
    let wait = Tool::new("wait", "Waits.", move |_: Nothing, cx: ToolContext| {
        waited.add("wait");
        let (hangs, place) = (hanging.load(Ordering::Relaxed), place.clone());
        let guard = Guard(tell.clone());
        async move {
            if hangs {
                until_one_is_saved(&place, &cx).await;
                guard.0.send("hangs")?;
                std::future::pending::<()>().await;
            }
            Ok("waited".into())
        }
    });
    let turn = || calls(["look", "wait"]);
    let script = [turn(), turn(), Message::ai("Met."), Message::ai("Met.")];
    let sub = create_agent(scripted(script)).tools([noting("look", &log), wait]);
    let model = scripted([hand_out(["sub", "sub"]), Message::ai("Done.")]);
    let agent = with_subagent(model, sub.build().unwrap());
    let thread = || agent.thread(&open(folder.path()), "t");
    tokio::select! {
        outcome = async { thread().start(says("go")).await } => panic!("{outcome:?}"),
        both = async { [told.recv().await, told.recv().await] } => {
            assert_eq!(both, [Some("hangs"); 2]);
        }
    }
    assert_eq!([told.recv().await, told.recv().await], [Some("gone"); 2]);
    hangs.store(false, Ordering::Relaxed);
    let said = transcript(thread().proceed().await);
    assert_eq!(said[2..], ["sub: Met.", "sub: Met.", "ai: Done."]);
    let mut ran = log.all();
    ran.sort();
    assert_eq!(ran, ["look", "look", "wait", "wait", "wait", "wait"]);
}

#[tokio::test]
async fn the_model_reads_which_subagents_there_are() {
    let sub = || create_agent(scripted([Message::ai("")])).build().unwrap();
    let model = scripted([hand_out(["c"]), Message::ai("I see.")]);
    let agent = create_agent(Arc::clone(&model))
        .subagent(subagent("a", sub()))
        .subagent(subagent("b", sub()))
        .build()
        .unwrap();
    let said = transcript(agent.detached().start(says("go")).await);
    let spec = Arc::clone(&model.requests()[0].tools[0]);
    let list = "Subagents:\n- `a`: Does what a does.\n- `b`: Does what b does.";
    assert!(spec.description.ends_with(list), "{}", spec.description);
    assert_eq!(
        spec.parameters["required"],
        json!(["description", "subagent_type"])
    );
    assert_eq!(
        said[2],
        "c failed: `task` failed: there is no subagent `c`; there are: a, b"
    );
}

#[tokio::test]
async fn a_subagent_knows_its_work_only_and_keeps_its_talk_to_itself() {
    let inner = scripted([Message::ai("42")]);
    let sub = create_agent(Arc::clone(&inner)).system_prompt("Count.");
    let model = scripted([hand_out(["sub"]), Message::ai("I see.")]);
    let agent = with_subagent(model, sub.build().unwrap());
    let said = transcript(agent.detached().start(says("secret")).await);
    assert_eq!(said[2], "sub: 42");
    assert_eq!(
        shown(&inner.requests()),
        [["system: Count.", "human: work, sub"]]
    );
}

#[tokio::test]
async fn what_a_subagent_does_wrong_is_told_to_the_model() {
    let log = Log::default();
    let agent = |model: Arc<ScriptedModel>| {
        let agent = create_agent(model).tool(noting("look", &log));
        agent.build().unwrap()
    };
    let silent = agent(scripted([calls(["look"]), Message::ai(" \n")]));
    assert_eq!(
        told(silent, 9).await,
        "sub failed: `task` failed: the subagent ended without an answer"
    );
    // What counts is the last text, which need not be in the last reply.
    let mut summary = calls(["look"]);
    summary.content.push("All is well.\n".into());
    let early = agent(scripted([summary, Message::ai("")]));
    assert_eq!(told(early, 9).await, "sub: All is well.");

    let broken = agent(scripted([ModelError::Refused("no".into())]));
    assert_eq!(
        told(broken, 9).await,
        "sub failed: `task` failed: node `model` failed: the provider refused the request: no"
    );
    let endless = agent(scripted([
        calls(["look"]),
        calls(["look"]),
        calls(["look"]),
    ]));
    assert_eq!(
        told(endless, 4).await,
        "sub failed: `task` failed: not done after 4 supersteps; due next: model"
    );
}

#[tokio::test]
async fn a_fatal_error_in_a_subagent_fails_the_run_which_goes_on_inside() {
    let folder = tempfile::tempdir().unwrap();
    let (log, full) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let (noted, is_full) = (log.clone(), Arc::clone(&full));
    let save = Tool::new("save", "Saves.", move |_: Nothing, _| {
        noted.add("save");
        let full = is_full.load(Ordering::Relaxed);
        async move {
            match full {
                true => Err(ToolError::fatal("the disk is full")),
                false => Ok("saved".into()),
            }
        }
    });
    let inner = scripted([calls(["look", "save"]), Message::ai("Saved.")]);
    let sub = create_agent(Arc::clone(&inner)).tools([noting("look", &log), save]);
    // One more graph between: what is fatal stays so at any depth.
    let middle = scripted([hand_out(["sub"]), Message::ai("Saved, they say.")]);
    let middle = with_subagent(middle, sub.build().unwrap());
    let outer = scripted([hand_out(["sub"]), Message::ai("Done.")]);
    let agent = with_subagent(outer, middle);
    let failed = agent.thread(&open(folder.path()), "t").start(says("go"));
    assert_eq!(
        failed.await.unwrap_err().to_string(),
        "node `tools` failed: node `tools` failed: node `tools` failed: the disk is full"
    );
    full.store(false, Ordering::Relaxed);
    let outcome = agent.thread(&open(folder.path()), "t").proceed().await;
    assert_eq!(
        transcript(outcome)[2..],
        ["sub: Saved, they say.", "ai: Done."]
    );
    assert_eq!(log.all(), ["look", "save", "save"]);
    assert_eq!(inner.requests().len(), 2);
}

/// Three agents in one another; the innermost has a tool that needs approval beside one that does not.
struct Nest {
    models: [Arc<ScriptedModel>; 3],
    log: Log,
    agent: Agent,
}

fn nest() -> Nest {
    let log = Log::default();
    let models = [
        scripted([hand_out(["sub"]), Message::ai("outer end")]),
        scripted([hand_out(["sub"]), Message::ai("middle end")]),
        scripted([calls(["free", "paid"]), Message::ai("inner end")]),
    ];
    let [outer, middle, inner] = models.clone();
    let inner = create_agent(inner).middleware(approve(["paid"]));
    let inner = inner.tools(["free", "paid"].map(|name| noting(name, &log)));
    let middle = with_subagent(middle, inner.build().unwrap());
    let agent = with_subagent(outer, middle);
    Nest { models, log, agent }
}

#[tokio::test]
async fn a_question_deep_inside_pauses_the_whole_run() {
    let folder = tempfile::tempdir().unwrap();
    let Nest { models, log, agent } = nest();
    let thread = || agent.thread(&open(folder.path()), "t");
    let (seen, outcome) = watch(thread().start(says("go"))).await;
    let asked = asks(outcome);
    assert_eq!(asked.len(), 1);
    let deepest = seen.iter().map(|(namespace, _)| namespace);
    let deepest = deepest.max_by_key(|namespace| namespace.len()).unwrap();
    assert_eq!(asked[0].namespace, **deepest);
    let levels: Vec<&str> = deepest.split('|').collect();
    assert!(
        levels.len() == 2 && levels.iter().all(|level| level.starts_with("tools:")),
        "{deepest}"
    );
    let stopping: Vec<_> = seen
        .iter()
        .filter(|(_, what)| what == "tools asks")
        .collect();
    let namespaces: Vec<&str> = stopping.iter().map(|(namespace, _)| &**namespace).collect();
    assert_eq!(namespaces, [deepest, levels[0], ""]);
    let open = thread().state().await.unwrap();
    assert_eq!(open.asks().cloned().collect::<Vec<_>>(), asked);

    let answer = asked[0].answer(Decision::Approve);
    let outcome = thread().resume([answer]).await;
    assert_eq!(
        transcript(outcome)[2..],
        ["sub: middle end", "ai: outer end"]
    );
    assert_eq!(log.all(), ["free", "paid"]);
    let asked = models.each_ref().map(|model| model.requests().len());
    assert_eq!(asked, [2, 2, 2]);
}

#[tokio::test]
async fn a_bad_answer_deep_inside_fails_the_run_and_the_question_stays() {
    let folder = tempfile::tempdir().unwrap();
    let Nest { models, log, agent } = nest();
    let thread = || agent.thread(&open(folder.path()), "t");
    let asked = asks(thread().start(says("go")).await);
    let failed = thread().resume([asked[0].answer("maybe")]).await;
    let text = failed.unwrap_err().to_string();
    assert!(text.contains("unknown variant `maybe`"), "{text}");
    assert_eq!(asks(thread().proceed().await), asked);
    let rejected = asked[0].answer(Decision::Reject("no".into()));
    assert_eq!(transcript(thread().resume([rejected]).await).len(), 4);
    assert_eq!(log.all(), ["free"]);
    let asked = models.each_ref().map(|model| model.requests().len());
    assert_eq!(asked, [2, 2, 2]);
}

#[tokio::test]
async fn two_subagents_ask_and_are_answered_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    let worker = |name: &'static str| {
        let model = scripted([calls([name]), Message::ai(format!("{name} end"))]);
        let agent = create_agent(model).middleware(approve([name]));
        subagent(name, agent.tool(noting(name, &log)).build().unwrap())
    };
    let model = scripted([hand_out(["a", "b"]), Message::ai("Done.")]);
    let agent = create_agent(model)
        .subagent(worker("a"))
        .subagent(worker("b"))
        .build()
        .unwrap();
    let thread = || agent.thread(&open(folder.path()), "t");
    let asked = asks(thread().start(says("go")).await);
    assert_eq!(asked.len(), 2);
    let second = asked[1].answer(Decision::Approve);
    let left = asks(thread().resume([second]).await);
    assert_eq!(left, asked[..1]);
    assert_eq!(log.all(), ["b"]);
    let first = asked[0].answer(Decision::Approve);
    let said = transcript(thread().resume([first]).await);
    assert_eq!(said[2..], ["a: a end", "b: b end", "ai: Done."]);
    assert_eq!(log.all(), ["b", "a"]);
}

#[test]
fn a_subagent_that_is_killed_goes_on_where_it_was() {
    play(
        a_subagent_that_is_killed_goes_on_where_it_was,
        work,
        async |stages| {
            let whole = stages.run("whole");
            let slow = stages.kill("killed");
            let said = ["human: go", "ai: ", "sub: inner end", "ai: Done."];
            // Each model was asked before the kill, and has its last reply to give.
            let rest = json!({ "transcript": said, "asked": [1, 1], "slow": [slow] });
            assert_eq!(stages.run("rest"), rest);
            let folder = stages.folder();
            assert_eq!(entries(&folder.join("killed")), ["note", "slow", "slow"]);
            let undisturbed = json!({ "transcript": said, "asked": [2, 2], "slow": [slow] });
            assert_eq!(whole, undisturbed);
            let stored = async |store| {
                let store = open(&folder.join(store));
                let outer = dump(&store, &Place::root("t")).await;
                let inner = dump(&store, &inner_place(&store).await).await;
                assert_eq!((outer.len(), inner.len()), (5, 5));
                (outer, inner)
            };
            assert_eq!(stored("killed").await, stored("whole").await);
        },
    );
}

/// Where the only subagent of the thread keeps its checkpoints.
async fn inner_place(store: &SqliteCheckpointer) -> Place {
    let agent = with_subagent(scripted([Message::ai("")]), nest().agent);
    let state = agent.thread(store, "t").state().await.unwrap();
    let state: Conversation = state.read().unwrap();
    nested("t", &state.messages[2])
}

async fn work(stage: String, folder: PathBuf) -> Value {
    let folder = folder.join(if stage == "whole" { "whole" } else { "killed" });
    fs::create_dir_all(&folder).unwrap();
    let (mut outer, mut inner) = (
        vec![hand_out(["sub"]), Message::ai("Done.")],
        vec![calls(["note", "slow"]), Message::ai("inner end")],
    );
    if stage == "rest" {
        outer.remove(0);
        inner.remove(0);
    }
    let (outer, inner, log) = (scripted(outer), scripted(inner), Log::default());
    let noted = folder.clone();
    let note = Tool::new("note", "Notes.", move |_: Nothing, _| {
        entered(&noted, "note");
        async { Ok("noted".into()) }
    });
    let hangs = stage == "killed";
    let (slowly, slow_log) = (folder.clone(), log.clone());
    let slow = Tool::new(
        "slow",
        "Takes its time.",
        move |_: Nothing, cx: ToolContext| {
            entered(&slowly, "slow");
            slow_log.add(cx.task().to_string());
            let folder = slowly.clone();
            async move {
                if hangs {
                    until_one_is_saved(&folder, &cx).await;
                    report(&json!(cx.task().to_string()));
                    std::future::pending::<()>().await;
                }
                Ok("slow done".into())
            }
        },
    );
    let sub = create_agent(Arc::clone(&inner)).tools([note, slow]);
    let agent = with_subagent(Arc::clone(&outer), sub.build().unwrap());
    let thread = agent.thread(&open(&folder), "t");
    let outcome = match &*stage {
        "rest" => thread.proceed().await,
        _ => thread.start(says("go")).await,
    };
    let mut said = transcript(outcome);
    said[1].truncate("ai: ".len());
    let asked = [outer, inner].map(|model| model.requests().len());
    json!({ "transcript": said, "asked": asked, "slow": log.all() })
}
