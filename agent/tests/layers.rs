//! Middleware: the order of its layers, what it brings along, and the ones that come with the crate.

use std::sync::Arc;

use async_trait::async_trait;
use superstep::channels::Key;
use superstep::{Context, NodeError, NodeResult, Update};
use superstep_agent::agent::{AgentBuilder, AgentState, Conversation, create_agent, says};
use superstep_agent::message::{Change, Message};
use superstep_agent::middleware::{
    Middleware, ModelCall, ModelReply, NextModel, NextTool, ToolReply, ToolRequest, WrapModelCall,
    WrapToolCall, approve, limit_model_calls, patch_tool_calls,
};
use superstep_agent::model::ModelError;
use superstep_agent::tool::{Tool, ToolOutput};
use superstep_checkpoint::MemoryCheckpointer;

use crate::support::{
    Log, Nothing, asks, calls, garbled, lines, model_error, noting, open, scripted, shown,
    transcript,
};

/// Notes when a call goes in and when it comes out.
#[derive(Clone, Debug)]
struct Trace(&'static str, Log);

#[async_trait]
impl WrapModelCall for Trace {
    async fn wrap(&self, call: ModelCall, next: NextModel<'_>) -> Result<ModelReply, NodeError> {
        self.1.add(format!("{} before model", self.0));
        let reply = next.run(call).await;
        self.1.add(format!("{} after model", self.0));
        reply
    }
}

#[async_trait]
impl WrapToolCall for Trace {
    async fn wrap(&self, request: ToolRequest, next: NextTool<'_>) -> Result<ToolReply, NodeError> {
        self.1
            .add(format!("{} before {}", self.0, request.call.name));
        let reply = next.run(request).await;
        self.1.add(format!("{} after tool", self.0));
        reply
    }
}

fn traced(name: &'static str, log: &Log) -> Middleware {
    let (layer, noted) = (Trace(name, log.clone()), log.clone());
    Middleware::new(name)
        .wrap_model_call(layer.clone())
        .wrap_tool_call(layer)
        .before_agent(move |_: AgentState, _| {
            noted.add(format!("{name} before agent"));
            async { Ok(Update::new()) }
        })
}

fn nodes(agent: AgentBuilder) -> Vec<String> {
    let agent = agent.build().unwrap();
    agent.nodes().map(|name| name.to_string()).collect()
}

#[tokio::test]
async fn the_first_is_the_outermost() {
    let log = Log::default();
    let agent = create_agent(scripted([calls(["look"]), Message::ai("Done.")]))
        .middleware(traced("outer", &log))
        .middleware(traced("inner", &log))
        .tool(noting("look", &log));
    let outcome = agent.build().unwrap().detached().start(says("go")).await;
    assert_eq!(transcript(outcome).len(), 4);
    let model = [
        "outer before model",
        "inner before model",
        "inner after model",
        "outer after model",
    ];
    let tool = [
        "outer before look",
        "inner before look",
        "look",
        "inner after tool",
        "outer after tool",
    ];
    let agent = ["outer before agent", "inner before agent"];
    assert_eq!(log.all(), [&agent[..], &model, &tool, &model].concat());
}

#[test]
fn only_hooks_before_the_agent_are_nodes() {
    let log = Log::default();
    let agent = || create_agent(scripted([Message::ai("")]));
    assert_eq!(nodes(agent()), ["model", "tools"]);
    let layer = Trace("a", log.clone());
    let wraps = Middleware::new("a").wrap_model_call(layer.clone());
    let wraps = wraps.wrap_tool_call(layer).tool(noting("t", &log));
    assert_eq!(nodes(agent().middleware(wraps)), ["model", "tools"]);
    let all = agent()
        .middleware(traced("first", &log))
        .middleware(limit_model_calls(3))
        .middleware(patch_tool_calls());
    let all = all.build().unwrap();
    insta::assert_snapshot!(all.mermaid(), @r#"
    flowchart TD
        n0([start])
        n1["model"]
        n2["tools"]
        n3["first.before_agent"]
        n4["patch_tool_calls.before_agent"]
        n0 --> n3
        n2 --> n1
        n3 --> n4
        n4 --> n1
    "#);
}

#[test]
fn a_name_that_is_no_node_name_is_refused() {
    let middleware = Middleware::new("a|b").before_agent(nothing);
    let agent = create_agent(scripted([Message::ai("")])).middleware(middleware);
    insta::assert_snapshot!(agent.build().unwrap_err(), @r"
    graph `agent` cannot be built:
    - `a|b.before_agent` cannot be a name: names are no numbers and not empty, do not begin with `__`, and hold no `|` or `:`
    ");
}

async fn nothing(_: AgentState, _: Context) -> NodeResult {
    Ok(Update::new())
}

/// Adds a human message that counts those before it.
async fn count(state: AgentState, _: Context) -> NodeResult {
    let text = format!("{} before me", state.messages.len());
    Ok(Update::new().put(Conversation::MESSAGES, vec![Message::human(text).into()]))
}

#[tokio::test]
async fn each_hook_before_the_agent_sees_what_those_before_it_wrote() {
    let store = MemoryCheckpointer::new();
    let model = scripted([Message::ai("Hello."), Message::ai("Again.")]);
    let agent = create_agent(model)
        .middleware(Middleware::new("z").before_agent(count))
        .middleware(Middleware::new("a").before_agent(count));
    let thread = agent.build().unwrap().thread(&store, "t");
    thread.start(says("Hi")).await.unwrap();
    let said = transcript(thread.start(says("Hi again")).await);
    assert_eq!(
        said,
        [
            "human: Hi",
            "human: 1 before me",
            "human: 2 before me",
            "ai: Hello.",
            "human: Hi again",
            "human: 5 before me",
            "human: 6 before me",
            "ai: Again.",
        ]
    );
}

/// Asks once more when the model fails.
#[derive(Debug)]
struct Again;

#[async_trait]
impl WrapModelCall for Again {
    async fn wrap(&self, call: ModelCall, next: NextModel<'_>) -> Result<ModelReply, NodeError> {
        match next.run(call.clone()).await {
            Err(error) if error.get_ref().is::<ModelError>() => next.run(call).await,
            reply => reply,
        }
    }
}

#[tokio::test]
async fn a_layer_can_call_the_model_twice() {
    let log = Log::default();
    let busy = || Err(ModelError::Transport("busy".into()));
    let model = scripted([busy(), Ok(Message::ai("Hello.")), busy(), busy()]);
    let agent = create_agent(Arc::clone(&model))
        .middleware(Middleware::new("again").wrap_model_call(Again))
        .middleware(Middleware::new("trace").wrap_model_call(Trace("inner", log.clone())))
        .build()
        .unwrap();
    let outcome = agent.detached().start(says("Hi")).await;
    assert_eq!(transcript(outcome), ["human: Hi", "ai: Hello."]);
    let once = ["inner before model", "inner after model"];
    assert_eq!(log.all(), [once, once].concat());
    let failed = agent.detached().start(says("Hi")).await;
    assert_eq!(
        model_error(failed),
        ModelError::Transport("busy".into()),
        "a layer leaves the error its type"
    );
    assert_eq!(model.remaining(), 0);
}

/// Answers in the model's and the tools' place.
#[derive(Clone, Debug)]
struct Instead(Message);

#[async_trait]
impl WrapModelCall for Instead {
    async fn wrap(&self, _: ModelCall, _: NextModel<'_>) -> Result<ModelReply, NodeError> {
        Ok(self.0.clone().into())
    }
}

#[async_trait]
impl WrapToolCall for Instead {
    async fn wrap(&self, request: ToolRequest, _: NextTool<'_>) -> Result<ToolReply, NodeError> {
        Ok(ToolReply::error(&request.call, "closed"))
    }
}

#[tokio::test]
async fn a_layer_can_answer_itself() {
    let log = Log::default();
    let model = scripted([calls(["look"])]);
    let closed = Middleware::new("closed").wrap_tool_call(Instead(calls([])));
    let agent = create_agent(Arc::clone(&model)).middleware(closed);
    let agent = agent.middleware(limit_model_calls(1));
    let agent = agent.tool(noting("look", &log)).build().unwrap();
    let said = transcript(agent.detached().start(says("go")).await);
    assert_eq!(said[2], "look-0 failed: closed");
    assert_eq!(log.all(), [""; 0]);

    let model = scripted([Message::ai("unasked")]);
    let instead = Instead(Message::ai("From the cache."));
    let cache = Middleware::new("cache").wrap_model_call(instead);
    let inner = Middleware::new("inner").wrap_model_call(Trace("inner", log.clone()));
    let agent = create_agent(Arc::clone(&model)).middleware(cache);
    let agent = agent.middleware(inner).build().unwrap();
    let said = transcript(agent.detached().start(says("Hi")).await);
    assert_eq!(said, ["human: Hi", "ai: From the cache."]);
    assert_eq!((model.remaining(), log.all().len()), (1, 0));
}

/// Adds to what the model is told, for this call only.
#[derive(Debug)]
struct Note(&'static str);

#[async_trait]
impl WrapModelCall for Note {
    async fn wrap(
        &self,
        mut call: ModelCall,
        next: NextModel<'_>,
    ) -> Result<ModelReply, NodeError> {
        call.add_system_text(self.0);
        next.run(call).await
    }
}

#[tokio::test]
async fn what_a_layer_adds_to_a_request_stays_out_of_the_transcript() {
    for (prompt, system) in [
        (
            Some("Be brief."),
            "system: Be brief.\n\nIt is noon.\n\nIt rains.",
        ),
        (None, "system: It is noon.\n\nIt rains."),
    ] {
        let model = scripted([Message::ai("Hello.")]);
        let agent = create_agent(Arc::clone(&model))
            .middleware(Middleware::new("clock").wrap_model_call(Note("It is noon.")))
            .middleware(Middleware::new("sky").wrap_model_call(Note("It rains.")));
        let agent = match prompt {
            Some(prompt) => agent.system_prompt(prompt),
            None => agent,
        };
        let said = agent.build().unwrap().detached().start(says("Hi")).await;
        assert_eq!(transcript(said), ["human: Hi", "ai: Hello."]);
        assert_eq!(shown(&model.requests()), [[system, "human: Hi"]]);
    }
}

#[tokio::test]
async fn the_limit_counts_from_the_last_human_message() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    let look = || calls(["look"]);
    let script = [look(), look(), garbled(calls([]), "ls"), look()];
    let model = scripted(script);
    let agent = create_agent(Arc::clone(&model)).middleware(limit_model_calls(2));
    let agent = agent.tool(noting("look", &log)).build().unwrap();
    let stop = "ai: I stop here: the limit of 2 model calls for one request is reached.";
    let looked = ["ai: look{}", "look-0: look done"];
    let first = [&["human: go"][..], &looked, &looked, &[stop]].concat();
    let thread = agent.thread(&open(folder.path()), "t");
    assert_eq!(transcript(thread.start(says("go")).await), first);
    assert_eq!(model.remaining(), 2, "the third call is not made");

    // Replies whose calls cannot be read count too, or such a model would never end.
    let thread = agent.thread(&open(folder.path()), "t");
    let second = transcript(thread.start(says("more")).await);
    assert_eq!(second[..6], first);
    assert_eq!(second[6..8], ["human: more", "ai: "]);
    assert_eq!(second[9..], ["ai: look{}", "look-0: look done", stop]);
    assert_eq!(log.all(), ["look"; 3]);
}

#[tokio::test]
async fn calls_that_new_input_left_open_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    // Servers that give no ids leave it to the place of the call: the same ids come again in every turn.
    let turn = || calls(["free", "paid"]);
    let script = [turn(), Message::ai("Well."), turn(), Message::ai("Oh.")];
    let model = scripted(script);
    let agent = create_agent(Arc::clone(&model))
        .middleware(patch_tool_calls())
        .middleware(approve(["paid"]))
        .tools(["free", "paid"].map(|name| noting(name, &log)))
        .build()
        .unwrap();
    let thread = || agent.thread(&open(folder.path()), "t");
    let mut said = Vec::new();
    for (human, answer) in [("go", "ai: Well."), ("again", "ai: Oh.")] {
        let asked = asks(thread().start(says(human)).await);
        assert_eq!(asked.len(), 1);
        let outcome = thread().start(says("never mind")).await;
        let human = format!("human: {human}");
        let turn = [
            &human,
            "ai: free{} paid{}",
            "free-0 failed: other input came in before `free` had a result; it may have run",
            "paid-1 failed: other input came in before `paid` had a result; it may have run",
            "human: never mind",
        ];
        said.extend(turn.map(str::to_owned));
        assert_eq!(shown(&model.requests()).last(), Some(&said));
        said.push(answer.to_owned());
        assert_eq!(transcript(outcome), said);
        let stale = thread().resume([asked[0].answer("approve")]).await;
        assert!(stale.is_err(), "the question is gone");
    }
    assert_eq!(log.all(), ["free", "free"]);
}

const COUNT: Key<u64> = Key::reduce("count", |count, more: u64| *count += more);

/// Tells the model how often the tool `count` was called.
#[derive(Debug)]
struct Counted;

#[async_trait]
impl WrapModelCall for Counted {
    async fn wrap(
        &self,
        mut call: ModelCall,
        next: NextModel<'_>,
    ) -> Result<ModelReply, NodeError> {
        let count = call.state.fields().value(COUNT)?.unwrap_or_default();
        call.add_system_text(&format!("Counted {count}."));
        let mut reply = next.run(call).await?;
        reply.update = reply.update.put(COUNT, 10);
        Ok(reply)
    }
}

fn counter() -> Middleware {
    let count = Tool::new("count", "Counts.", |_: Nothing, _| async {
        Ok(ToolOutput {
            update: Update::new().put(COUNT, 1),
            ..ToolOutput::from("counted")
        })
    });
    let counter = Middleware::new("counter").channel(COUNT.spec());
    counter.tool(count).wrap_model_call(Counted)
}

#[tokio::test]
async fn a_middleware_brings_channels_and_tools_along() {
    let folder = tempfile::tempdir().unwrap();
    let script = [calls(["count", "count"]), Message::ai("Done.")];
    let model = scripted(script);
    let agent = create_agent(Arc::clone(&model))
        .tool(noting("own", &Log::default()))
        .middleware(counter())
        .build()
        .unwrap();
    let store = open(folder.path());
    let outcome = agent.thread(&store, "t").start(says("go")).await.unwrap();
    let json = serde_json::to_value(outcome.done().unwrap()).unwrap();
    let members: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(members, ["messages"], "what it remembers is its own affair");

    let requests = model.requests();
    let tools = requests[0].tools.iter().map(|tool| tool.name.as_str());
    assert_eq!(tools.collect::<Vec<_>>(), ["count", "own"]);
    let systems: Vec<_> = requests
        .iter()
        .map(|r| lines(&r.messages)[0].clone())
        .collect();
    assert_eq!(systems, ["system: Counted 0.", "system: Counted 12."]);
    let state = agent.thread(&open(folder.path()), "t").state().await;
    assert_eq!(state.unwrap().values.value(COUNT), Ok(Some(22)));
}

#[test]
fn channels_that_do_not_agree_are_refused() {
    const OTHER: Key<Vec<String>> = Key::last(Conversation::MESSAGES.name());
    let model = || scripted([Message::ai("")]);
    let clash = Middleware::new("clash").channel(OTHER.spec());
    let error = create_agent(model()).middleware(clash).build().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("channel `messages` is declared as"), "{text}");
    let same = Middleware::new("same").channel(Conversation::MESSAGES.spec());
    let agent = create_agent(model()).middleware(same).build().unwrap();
    assert_eq!(agent.channels().len(), 1);
}

#[tokio::test]
async fn writing_a_channel_that_nobody_declared_fails_the_run() {
    let count = Tool::new("count", "Counts.", |_: Nothing, _| async {
        let update = Update::new().put(COUNT, 1);
        Ok(ToolOutput {
            update,
            ..ToolOutput::default()
        })
    });
    let agent = create_agent(scripted([calls(["count"])])).tool(count);
    let outcome = agent.build().unwrap().detached().start(says("go")).await;
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "node `tools` failed: its update writes channel `count`, which this graph does not have"
    );
}

/// Looks at the transcript and rewrites it, as a hook may.
async fn forget(state: AgentState, _: Context) -> NodeResult {
    let last = state.messages.last().cloned();
    let changes = [Change::RemoveAll].into_iter().chain(last.map(Change::Put));
    Ok(Update::new().put(Conversation::MESSAGES, changes.collect()))
}

#[tokio::test]
async fn a_hook_can_rewrite_the_transcript() {
    let folder = tempfile::tempdir().unwrap();
    let model = scripted([Message::ai("1"), Message::ai("2")]);
    let agent = create_agent(model).middleware(Middleware::new("forget").before_agent(forget));
    let agent = agent.build().unwrap();
    let thread = || agent.thread(&open(folder.path()), "t");
    thread().start(says("one")).await.unwrap();
    let outcome = thread().start(says("two")).await;
    assert_eq!(transcript(outcome), ["human: two", "ai: 2"]);
}

/// Asks before each model call.
#[derive(Debug)]
struct AskFirst;

#[async_trait]
impl WrapModelCall for AskFirst {
    async fn wrap(
        &self,
        mut call: ModelCall,
        next: NextModel<'_>,
    ) -> Result<ModelReply, NodeError> {
        let note: String = call.cx.interrupt("What else?").await;
        call.add_system_text(&note);
        next.run(call).await
    }
}

#[tokio::test]
async fn a_layer_around_the_model_can_ask() {
    let folder = tempfile::tempdir().unwrap();
    let model = scripted([Message::ai("Hello.")]);
    let agent = create_agent(Arc::clone(&model))
        .middleware(Middleware::new("count").before_agent(count))
        .middleware(Middleware::new("ask").wrap_model_call(AskFirst))
        .build()
        .unwrap();
    let thread = || agent.thread(&open(folder.path()), "t");
    let asked = asks(thread().start(says("Hi")).await);
    assert_eq!(model.requests().len(), 0);
    let outcome = thread().resume([asked[0].answer("It is late.")]).await;
    let said = ["human: Hi", "human: 1 before me", "ai: Hello."];
    assert_eq!(
        transcript(outcome),
        said,
        "what ran before is not run again"
    );
    let request = [&["system: It is late."][..], &said[..2]].concat();
    assert_eq!(shown(&model.requests()), [request]);
}

#[test]
fn a_middleware_about_a_tool_that_is_not_there_is_refused() {
    let agent = create_agent(scripted([Message::ai("")])).middleware(approve(["pya"]));
    let error = agent.build().unwrap_err().to_string();
    assert_eq!(
        error,
        "middleware `approval` is about tool `pya`, which the agent does not have"
    );
}
