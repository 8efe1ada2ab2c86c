//! Tools that ask people: side by side, beside tools that do not, in a new process after each stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use superstep::{AnswerError, Ask, Outcome, RunError, Thread};
use superstep_agent::agent::{Conversation, create_agent, says};
use superstep_agent::message::Message;
use superstep_agent::middleware::{ApprovalRequest, Decision, approve, patch_tool_calls};
use superstep_agent::model::ScriptedModel;
use superstep_agent::tool::Tool;
use tokio::sync::Notify;

use crate::process::play;
use crate::support::{
    Log, Nothing, asks, calls, entered, entries, lines, noting, open, scripted, shown, transcript,
    watch,
};

fn told(ask: &Ask) -> Value {
    json!({ "id": ask.id.to_string(), "asks": ask.payload.0 })
}

#[test]
fn two_tools_ask_in_parallel() {
    play(two_tools_ask_in_parallel, ask_in_parallel, async |stages| {
        let asked = stages.run("ask");
        let (a, b) = (&asked["asks"][0]["id"], &asked["asks"][1]["id"]);
        assert_ne!(a, b);
        let open = json!([
            { "id": a, "asks": { "tool": "a" } },
            { "id": b, "asks": { "tool": "b" } },
        ]);
        let order = [
            "model starts",
            "model ends",
            "tools starts",
            "tools starts",
            "tools asks",
            "tools asks",
        ];
        let first = json!({ "tasks": order, "first": "b", "asks": open });
        assert_eq!(asked, first);
        assert_eq!(stages.run("look"), json!({ "asks": open }));
        let said = ["human: ask", "ai: a{} b{}", "a-0: a=ya", "b-1: b=yb"];
        let all = [&said[..], &["ai: Thank you."]].concat();
        assert_eq!(
            stages.run("answer"),
            json!({ "transcript": all, "requests": [said] })
        );
        assert_eq!(entries(stages.folder()), ["a", "a", "b", "b"]);
    });
}

async fn ask_in_parallel(stage: String, folder: PathBuf) -> Value {
    let model = match &*stage {
        "answer" => scripted([Message::ai("Thank you.")]),
        _ => scripted([calls(["a", "b"])]),
    };
    let asked = Log::default();
    // `a` asks only when `b` has.
    let b_asks = Arc::new(Notify::new());
    let tool = |name: &'static str| {
        let (b_asks, asked, folder) = (Arc::clone(&b_asks), asked.clone(), folder.clone());
        Tool::new(name, "Asks.", move |_: Nothing, cx| {
            entered(&folder, name);
            let (b_asks, asked) = (Arc::clone(&b_asks), asked.clone());
            async move {
                match name {
                    "a" => b_asks.notified().await,
                    _ => b_asks.notify_one(),
                }
                asked.add(name);
                let answer: String = cx.interrupt(&json!({ "tool": name })).await;
                Ok(format!("{name}={answer}").into())
            }
        })
    };
    let agent = create_agent(Arc::clone(&model)).tools([tool("a"), tool("b")]);
    let thread = agent.build().unwrap().thread(&open(&folder), "asks");
    let open = open_asks(&thread).await;
    match &*stage {
        "ask" => {
            let (seen, outcome) = watch(thread.start(says("ask"))).await;
            let tasks: Vec<String> = seen.into_iter().map(|(_, task)| task).collect();
            let asks: Vec<Value> = asks(outcome).iter().map(told).collect();
            json!({ "tasks": tasks, "first": asked.all()[0], "asks": asks })
        }
        "look" => json!({ "asks": open.iter().map(told).collect::<Vec<_>>() }),
        _ => {
            // By id: the order in which they are answered does not matter.
            let answers = [open[1].answer("yb"), open[0].answer("ya")];
            let outcome = thread.resume(answers).await;
            json!({ "transcript": transcript(outcome), "requests": shown(&model.requests()) })
        }
    }
}

async fn open_asks(thread: &Thread<Conversation>) -> Vec<Ask> {
    thread.state().await.unwrap().asks().cloned().collect()
}

#[test]
fn a_finished_tool_is_not_run_again_when_its_sibling_is_answered() {
    play(
        a_finished_tool_is_not_run_again_when_its_sibling_is_answered,
        pay_and_confirm,
        async |stages| {
            assert_eq!(stages.run("start"), json!(["Really?"]));
            assert_eq!(entries(stages.folder()), ["confirm", "pay"]);
            let said = [
                "human: pay 10",
                "ai: pay{} confirm{}",
                "pay-0: paid",
                "confirm-1: ok",
            ];
            let all = [&said[..], &["ai: Done."]].concat();
            assert_eq!(
                stages.run("resume"),
                json!({ "transcript": all, "requests": [said] })
            );
            assert_eq!(entries(stages.folder()), ["confirm", "confirm", "pay"]);
        },
    );
}

async fn pay_and_confirm(stage: String, folder: PathBuf) -> Value {
    let model = match &*stage {
        "start" => scripted([calls(["pay", "confirm"])]),
        _ => scripted([Message::ai("Done.")]),
    };
    let (paying, confirming) = (folder.clone(), folder.clone());
    let pay = Tool::new("pay", "Pays.", move |_: Nothing, _| {
        entered(&paying, "pay");
        async { Ok("paid".into()) }
    });
    let confirm = Tool::new("confirm", "Asks.", move |_: Nothing, cx| {
        entered(&confirming, "confirm");
        async move { Ok(cx.interrupt::<String>("Really?").await.into()) }
    });
    let agent = create_agent(Arc::clone(&model)).tools([pay, confirm]);
    let thread = agent.build().unwrap().thread(&open(&folder), "pay");
    if stage == "start" {
        let asks = asks(thread.start(says("pay 10")).await);
        return asks.into_iter().map(|ask| ask.payload.0).collect();
    }
    let outcome = thread.resume([superstep::Answer::only("ok")]).await;
    json!({ "transcript": transcript(outcome), "requests": shown(&model.requests()) })
}

/// An agent with tools `r`, `f` and `p`, of which `r` and `p` need approval.
fn careful(model: &Arc<ScriptedModel>, log: &Log, folder: &Path) -> Thread<Conversation> {
    let tools = ["r", "f", "p"].map(|name| noting(name, log));
    let agent = create_agent(Arc::clone(model)).tools(tools);
    // Calls that wait for an answer are not open calls: resuming must not answer them in passing.
    let agent = agent.middleware(patch_tool_calls());
    let agent = agent.middleware(approve(["r", "p"])).build().unwrap();
    agent.thread(&open(folder), "careful")
}

#[tokio::test]
async fn one_call_rejected_one_free_one_approved() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    let model = scripted([calls(["r", "f", "p"]), Message::ai("I see.")]);
    let asked = asks(careful(&model, &log, folder.path()).start(says("go")).await);
    let requests: Vec<ApprovalRequest> = asked.iter().map(|ask| ask.payload().unwrap()).collect();
    let request = |tool: &str| ApprovalRequest {
        tool: tool.into(),
        args: json!({}).into(),
    };
    assert_eq!(requests, [request("r"), request("p")]);
    assert_eq!(log.all(), ["f"]);
    let answers = [
        asked[0].answer(Decision::Reject("no".into())),
        asked[1].answer(Decision::Approve),
    ];
    let outcome = careful(&model, &log, folder.path()).resume(answers).await;
    let said = [
        "human: go",
        "ai: r{} f{} p{}",
        "r-0 failed: the user rejected this call of `r`: no",
        "f-1: f done",
        "p-2: p done",
    ];
    assert_eq!(transcript(outcome), [&said[..], &["ai: I see."]].concat());
    assert_eq!(shown(&model.requests())[1], said);
    assert_eq!(log.all(), ["f", "p"]);
}

#[tokio::test]
async fn decisions_may_come_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    let model = scripted([calls(["r", "f", "p"]), Message::ai("I see.")]);
    let asked = asks(careful(&model, &log, folder.path()).start(says("go")).await);
    let approved = asked[1].answer(Decision::Approve);
    let left = careful(&model, &log, folder.path())
        .resume([approved])
        .await;
    assert_eq!(asks(left), asked[..1]);
    assert_eq!(log.all(), ["f", "p"]);
    let again = careful(&model, &log, folder.path()).resume([asked[1].answer(Decision::Approve)]);
    let Err(RunError::Answer(AnswerError::NotOpen(id))) = again.await else {
        panic!("an answered question was answered again")
    };
    assert_eq!(id, asked[1].id);
    let rejected = asked[0].answer(Decision::Reject("no".into()));
    let outcome = careful(&model, &log, folder.path())
        .resume([rejected])
        .await;
    assert_eq!(transcript(outcome).len(), 6);
    assert_eq!(log.all(), ["f", "p"]);
}

#[tokio::test]
async fn an_answer_that_is_no_decision_leaves_the_question_open() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    let model = scripted([calls(["p"]), Message::ai("I see.")]);
    let asked = asks(careful(&model, &log, folder.path()).start(says("go")).await);
    let error = careful(&model, &log, folder.path())
        .resume([asked[0].answer("maybe")])
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("unknown variant `maybe`, expected `approve` or `reject`"),
        "{error}"
    );
    let again = asks(careful(&model, &log, folder.path()).proceed().await);
    assert_eq!(again, asked);
    let outcome = careful(&model, &log, folder.path())
        .resume([asked[0].answer(Decision::Approve)])
        .await;
    let said = ["human: go", "ai: p{}", "p-0: p done", "ai: I see."];
    assert_eq!(transcript(outcome), said);
}

#[tokio::test]
async fn a_paused_thread_shows_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    let model = scripted([calls(["f", "p"])]);
    let thread = careful(&model, &log, folder.path());
    let Ok(Outcome::Paused(_)) = thread.start(says("go")).await else {
        panic!("it does not pause")
    };
    let state = careful(&model, &log, folder.path()).state().await.unwrap();
    let shown = lines(&state.read::<Conversation>().unwrap().messages);
    assert_eq!(shown, ["human: go", "ai: f{} p{}", "f-0: f done"]);
}
