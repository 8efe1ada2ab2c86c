//! The loop of model and tools: results in the order of the calls, what the model is told, what fails the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use superstep::channels::Json;
use superstep::{RunError, TaskError};
use superstep_agent::agent::{AgentError, Conversation, create_agent, says};
use superstep_agent::message::{Block, Body, Image, Message, ToolCall, ToolResult, ToolStatus};
use superstep_agent::middleware::Middleware;
use superstep_agent::model::{ChatModel, ModelError, ToolSpec};
use superstep_agent::tool::{Tool, ToolError, ToolOutput};
use superstep_checkpoint::MemoryCheckpointer;
use tokio::sync::Notify;

use crate::support::{
    Log, Nothing, calls, garbled, lines, model_error, noting, open, scripted, shown, transcript,
};

#[tokio::test]
async fn without_tools_the_first_reply_is_the_last() {
    let model = scripted([Message::ai("Hello.")]);
    let agent = create_agent(Arc::clone(&model)).system_prompt("Be brief.");
    let outcome = agent.build().unwrap().detached().start(says("Hi")).await;
    assert_eq!(transcript(outcome), ["human: Hi", "ai: Hello."]);
    let requests = model.requests();
    assert_eq!(shown(&requests), [["system: Be brief.", "human: Hi"]]);
    assert_eq!(requests[0].tools, []);
}

#[tokio::test]
async fn a_thread_is_a_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let model = scripted([Message::ai("one"), Message::ai("two")]);
    let agent = create_agent(Arc::clone(&model)).build().unwrap();
    let first = agent.thread(&open(folder.path()), "t").start(says("1"));
    assert_eq!(transcript(first.await), ["human: 1", "ai: one"]);
    let second = agent.thread(&open(folder.path()), "t").start(says("2"));
    let said = ["human: 1", "ai: one", "human: 2", "ai: two"];
    assert_eq!(transcript(second.await), said);
    assert_eq!(shown(&model.requests())[1], said[..3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_come_in_the_order_of_the_calls() {
    let log = Log::default();
    let done = Arc::new([Notify::new(), Notify::new(), Notify::new()]);
    // Each tool waits for the one after it, so they finish in reverse.
    let tool = |at: usize, name: &'static str| {
        let (done, log) = (Arc::clone(&done), log.clone());
        Tool::new(name, "Waits.", move |_: Nothing, _| {
            let (done, log) = (Arc::clone(&done), log.clone());
            async move {
                if let Some(next) = done.get(at + 1) {
                    next.notified().await;
                }
                log.add(name);
                done[at].notify_one();
                Ok(name.into())
            }
        })
    };
    let model = scripted([calls(["a", "b", "c"]), Message::ai("Done.")]);
    let agent = create_agent(model).tools([tool(0, "a"), tool(1, "b"), tool(2, "c")]);
    let outcome = agent.build().unwrap().detached().start(says("go")).await;
    assert_eq!(log.all(), ["c", "b", "a"]);
    let said = ["human: go", "ai: a{} b{} c{}", "a-0: a", "b-1: b", "c-2: c"];
    assert_eq!(transcript(outcome), [&said[..], &["ai: Done."]].concat());
}

#[derive(Deserialize, JsonSchema)]
struct Lines {
    path: String,
    range: Range,
}

#[derive(Deserialize, JsonSchema)]
struct Range {
    first: u32,
}

#[tokio::test]
async fn what_goes_wrong_is_told_to_the_model() {
    let read = Tool::new("read", "Reads.", |args: Lines, _| async move {
        match args.range.first {
            0 => Err(format!("{} has no line 0: lines count from 1", args.path).into()),
            first => Ok(format!("line {first}").into()),
        }
    });
    let args = [
        ("missing", json!({ "path": "a" })),
        (
            "wrong",
            json!({ "path": "a", "range": { "first": "three" } }),
        ),
        ("negative", json!({ "path": "a", "range": { "first": -1 } })),
        ("refused", json!({ "path": "a", "range": { "first": 0 } })),
        ("right", json!({ "path": "a", "range": { "first": 3 } })),
    ];
    let reads = args.map(|(id, args)| ToolCall::new(id, "read", args));
    let unknown = ToolCall::new("unknown", "reed", json!({}));
    let turn = Message::ai_calls("", reads.into_iter().chain([unknown]));
    let agent = create_agent(scripted([turn, Message::ai("I see.")]))
        .tools([read, noting("write", &Log::default())])
        .build()
        .unwrap();
    let said = transcript(agent.detached().start(says("read")).await);
    let told = [
        "missing failed: `read` failed: the arguments do not fit: missing field `range`",
        "wrong failed: `read` failed: the arguments do not fit: \
         range.first: invalid type: string \"three\", expected u32",
        "negative failed: `read` failed: the arguments do not fit: \
         range.first: invalid value: integer `-1`, expected u32",
        "refused failed: `read` failed: a has no line 0: lines count from 1",
        "right: line 3",
        "unknown failed: there is no tool `reed`; there are: read, write",
    ];
    assert_eq!(said[2..8], told);
    assert_eq!(said[8..], ["ai: I see."]);
}

#[tokio::test]
async fn an_agent_without_tools_is_asked_for_one() {
    let model = scripted([calls(["ls"]), Message::ai("Sorry.")]);
    let agent = create_agent(model).build().unwrap();
    let said = transcript(agent.detached().start(says("look")).await);
    assert_eq!(
        said[2],
        "ls-0 failed: there is no tool `ls`; the agent has none"
    );
}

#[tokio::test]
async fn calls_that_cannot_be_read_lead_back_to_the_model() {
    let model = scripted([garbled(calls([]), "ls"), Message::ai("Sorry.")]);
    let agent = create_agent(Arc::clone(&model)).build().unwrap();
    let said = transcript(agent.detached().start(says("look")).await);
    let told = "ls-x failed: this call of `ls` cannot be read: the arguments are no JSON object: \
                EOF while parsing an object at line 1 column 1";
    assert_eq!(said, ["human: look", "ai: ", told, "ai: Sorry."]);
    assert_eq!(shown(&model.requests())[1], said[..3]);
}

#[tokio::test]
async fn calls_that_can_be_read_run_beside_those_that_cannot() {
    let log = Log::default();
    let turn = garbled(calls(["look"]), "ls");
    let model = scripted([turn, Message::ai("Sorry.")]);
    let agent = create_agent(Arc::clone(&model)).tool(noting("look", &log));
    let said = transcript(agent.build().unwrap().detached().start(says("go")).await);
    assert_eq!(said.len(), 5);
    assert!(said[2].starts_with("ls-x failed: "), "{said:?}");
    assert_eq!(said[3..], ["look-0: look done", "ai: Sorry."]);
    assert_eq!(log.all(), ["look"]);
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn a_result_has_blocks_for_the_model_and_data_for_programs() {
    let picture = || Block::Image(Image::Url("http://h/p.png".into()));
    let data = || Some(Json(json!({ "width": 3 })));
    let draw = Tool::new("draw", "Draws.", move |_: Nothing, _| async move {
        Ok(ToolOutput {
            content: vec!["Here:".into(), picture()],
            artifact: data(),
            ..ToolOutput::default()
        })
    });
    let agent = create_agent(scripted([calls(["draw"]), Message::ai("Done.")])).tool(draw);
    let folder = tempfile::tempdir().unwrap();
    let thread = agent.build().unwrap().thread(&open(folder.path()), "t");
    thread.start(says("go")).await.unwrap();
    let kept: Conversation = thread.state().await.unwrap().read().unwrap();
    let result = Message {
        id: kept.messages[2].id.clone(),
        name: Some("draw".into()),
        content: vec!["Here:".into(), picture()],
        body: Body::Tool(ToolResult {
            call_id: "draw-0".into(),
            status: ToolStatus::Ok,
            artifact: data(),
        }),
    };
    assert_eq!(*kept.messages[2], result);
}

#[tokio::test]
async fn arguments_of_any_depth_are_run_or_refused_but_never_fail_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let spec = ToolSpec {
        name: "any".into(),
        description: "Takes anything.".into(),
        parameters: json!({ "type": "object" }),
    };
    let any = Tool::from_spec(spec, |_, _| async { Ok("taken".into()) });
    let depths = [1, 126, 127, 128, 129, 10_000];
    let mut results = Vec::new();
    for depth in depths {
        // `garbled` writes the arguments as they are; the model's reply is parsed like any other.
        let mut turn = garbled(calls([]), "any");
        if let Body::Ai(ai) = &mut turn.body {
            ai.invalid_tool_calls[0].args =
                format!("{}{}", "{\"a\":".repeat(depth - 1) + "{", "}".repeat(depth));
        }
        let agent = create_agent(scripted([turn, Message::ai("Done.")])).tool(any.clone());
        let agent = agent.build().unwrap();
        let thread = || agent.thread(&open(folder.path()), format!("{depth} deep"));
        let said = transcript(thread().start(says("go")).await);
        assert_eq!(said.len(), 4);
        let kept = thread().state().await.unwrap();
        let kept: Conversation = kept.read().unwrap();
        assert_eq!(lines(&kept.messages), said);
        results.push(said[2] == "any-x: taken");
    }
    assert_eq!(results, [true, true, true, false, false, false]);
}

#[derive(Debug, thiserror::Error)]
#[error("the disk is full")]
struct DiskFull;

#[tokio::test]
async fn a_fatal_error_fails_the_run_and_only_that_call_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let (log, full) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let (noted, is_full) = (log.clone(), Arc::clone(&full));
    let save = Tool::new("save", "Saves.", move |_: Nothing, cx| {
        noted.add(format!("save {} {}", cx.call_id(), cx.task()));
        let full = is_full.load(Ordering::Relaxed);
        async move {
            match full {
                true => Err(ToolError::fatal(DiskFull)),
                false => Ok("saved".into()),
            }
        }
    });
    let turn = calls(["before", "save", "after"]);
    let model = scripted([turn, Message::ai("Done.")]);
    let agent = create_agent(Arc::clone(&model))
        .tools([noting("before", &log), save, noting("after", &log)])
        .build()
        .unwrap();
    let failed = agent.thread(&open(folder.path()), "t").start(says("go"));
    let error = failed.await.unwrap_err();
    assert_eq!(error.to_string(), "node `tools` failed: the disk is full");
    let RunError::Tasks(failures) = &error else {
        panic!("{error:?}")
    };
    let TaskError::Node(node) = &failures[0].error else {
        panic!("{failures:?}")
    };
    assert!(node.get_ref().is::<DiskFull>());
    let task = failures[0].task;

    full.store(false, Ordering::Relaxed);
    let outcome = agent.thread(&open(folder.path()), "t").proceed().await;
    let results = [
        "before-0: before done",
        "save-1: saved",
        "after-2: after done",
    ];
    let said = ["human: go", "ai: before{} save{} after{}"];
    let all = [&said[..], &results, &["ai: Done."]].concat();
    assert_eq!(transcript(outcome), all);
    let save = format!("save save-1 {task}");
    assert_eq!(log.all(), ["before", &save, "after", &save]);
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn a_tool_that_panics_fails_the_run_like_a_fatal_error() {
    let store = MemoryCheckpointer::new();
    let (log, broken) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let is_broken = Arc::clone(&broken);
    let divide = Tool::new("divide", "Divides.", move |_: Nothing, _| {
        let broken = is_broken.load(Ordering::Relaxed);
        async move {
            assert!(!broken, "divided by zero");
            Ok("divided".into())
        }
    });
    let model = scripted([calls(["look", "divide"]), Message::ai("Done.")]);
    let agent = create_agent(model).tools([noting("look", &log), divide]);
    let thread = agent.build().unwrap().thread(&store, "t");
    assert_eq!(
        thread.start(says("go")).await.unwrap_err().to_string(),
        "node `tools` failed: panicked: divided by zero"
    );
    broken.store(false, Ordering::Relaxed);
    let said = transcript(thread.proceed().await);
    let results = ["look-0: look done", "divide-1: divided", "ai: Done."];
    assert_eq!(said[2..], results);
    assert_eq!(log.all(), ["look"]);
}

#[tokio::test]
async fn a_model_that_fails_fails_the_run_and_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    let script = [
        Ok(calls(["look"])),
        Err(ModelError::Timeout("too slow".into())),
        Ok(Message::ai("Done.")),
    ];
    let model = scripted(script);
    let agent = create_agent(Arc::clone(&model)).tool(noting("look", &log));
    let agent = agent.build().unwrap();
    let failed = agent.thread(&open(folder.path()), "t").start(says("go"));
    assert_eq!(
        model_error(failed.await),
        ModelError::Timeout("too slow".into())
    );
    let state = agent.thread(&open(folder.path()), "t").state().await;
    let state = state.unwrap();
    assert_eq!(state.next().collect::<Vec<_>>(), ["model"]);
    assert_eq!(
        state.tasks[0].error.as_deref(),
        Some("too slow"),
        "what failed is shown"
    );
    let outcome = agent.thread(&open(folder.path()), "t").proceed().await;
    let said = ["human: go", "ai: look{}", "look-0: look done"];
    assert_eq!(transcript(outcome), [&said[..], &["ai: Done."]].concat());
    assert_eq!(shown(&model.requests())[1..], [said, said]);
    assert_eq!(log.all(), ["look"]);
}

#[tokio::test]
async fn a_run_that_reaches_its_limit_goes_on() {
    let store = MemoryCheckpointer::new();
    let log = Log::default();
    let model = scripted([calls(["look"]), calls(["look"]), Message::ai("Done.")]);
    let agent = create_agent(model).tool(noting("look", &log));
    let agent = agent.build().unwrap();
    let thread = agent.thread(&store, "t");
    let error = thread.start(says("go")).limit(3).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "not done after 3 supersteps; due next: tools"
    );
    assert_eq!(log.all(), ["look"]);
    assert_eq!(transcript(thread.proceed().await).len(), 6);
    assert_eq!(log.all(), ["look", "look"]);
}

#[tokio::test]
async fn an_agent_signs_what_it_says() {
    let model = scripted([calls(["look"]), Message::ai("Done.")]);
    let agent = create_agent(model).named("scout");
    let agent = agent.tool(noting("look", &Log::default())).build().unwrap();
    assert_eq!(agent.name(), "scout");
    let outcome = agent.detached().start(says("go")).await.unwrap();
    let messages = outcome.done().unwrap().messages;
    let names: Vec<Option<&str>> = messages.iter().map(|m| m.name.as_deref()).collect();
    assert_eq!(
        names,
        [None, Some("scout"), Some("look"), Some("scout")],
        "{:?}",
        lines(&messages)
    );
}

#[test]
fn names_differ() {
    let model = || scripted([Message::ai("")]) as Arc<dyn ChatModel>;
    let look = || noting("look", &Log::default());
    let eyes = Middleware::new("eyes").tool(look());
    let twice = [
        create_agent(model()).tools([look(), look()]).build(),
        create_agent(model()).middleware(eyes).tool(look()).build(),
        create_agent(model())
            .middleware(Middleware::new("m"))
            .middleware(Middleware::new("m"))
            .build(),
    ];
    let errors = twice.map(|agent| match agent {
        Err(error @ AgentError::Duplicate { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    });
    let tool = "two of the agent's tools are called `look`: names must differ";
    let middleware = "two of the agent's middlewares are called `m`: names must differ";
    assert_eq!(errors, [tool, tool, middleware]);
}
