//! A whole agent against a model server on a real socket.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use superstep_agent::agent::{Agent, create_agent, says};
use superstep_agent::message::{Message, ToolCall};
use superstep_agent::model::{ModelError, OpenAi, Retry, Retrying};
use superstep_agent::tool::Tool;
use tokio::sync::Barrier;

use crate::provider::{Answer, Provider};
use crate::support::{Log, model_error, open, transcript};

#[derive(Deserialize, JsonSchema)]
struct Weather {
    /// The town.
    town: String,
}

/// The agent that all tests here run: a tool whose calls wait for each other.
fn agent(provider: &Provider, log: &Log) -> Agent {
    let model = OpenAi::new("test-model").with_base_url(provider.url());
    let retry = Retry {
        attempts: 2,
        first_wait: Duration::from_millis(1),
        ..Retry::default()
    };
    let (both, log) = (Arc::new(Barrier::new(2)), log.clone());
    let weather = Tool::new("weather", "Says the weather.", move |args: Weather, _| {
        log.add(&args.town);
        let both = Arc::clone(&both);
        async move {
            let met = tokio::time::timeout(Duration::from_secs(10), both.wait());
            met.await?;
            Ok(format!("It rains in {}.", args.town).into())
        }
    });
    create_agent(Retrying::new(model, retry))
        .named("guide")
        .system_prompt("Be brief.")
        .tool(weather)
        .build()
        .unwrap()
}

fn two_calls() -> Message {
    let call = |id: &str, town: &str| ToolCall::new(id, "weather", json!({ "town": town }));
    Message::ai_calls("Let me look.", [call("c0", "Köln"), call("c1", "Ulm")])
}

/// A request with this conversation.
fn body(messages: &[Value]) -> Value {
    json!({
        "model": "test-model",
        "messages": messages,
        "tools": [{
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Says the weather.",
                "parameters": {
                    "$schema": "https://json-schema.org/draft/2020-12/schema",
                    "title": "Weather",
                    "type": "object",
                    "properties": { "town": { "description": "The town.", "type": "string" } },
                    "required": ["town"],
                },
            },
        }],
        "stream": true,
        "stream_options": { "include_usage": true },
    })
}

fn first_request() -> Vec<Value> {
    vec![
        json!({ "role": "system", "content": "Be brief." }),
        json!({ "role": "user", "content": "Weather?" }),
    ]
}

fn second_request() -> Vec<Value> {
    let call = |id: &str, town: &str| {
        let arguments = json!({ "town": town }).to_string();
        let function = json!({ "name": "weather", "arguments": arguments });
        json!({ "id": id, "type": "function", "function": function })
    };
    let reply = json!({
        "role": "assistant",
        "content": "Let me look.",
        "name": "guide",
        "tool_calls": [call("c0", "Köln"), call("c1", "Ulm")],
    });
    let result = |id: &str, town: &str| {
        let text = format!("It rains in {town}.");
        json!({ "role": "tool", "content": text, "tool_call_id": id })
    };
    let turn = [reply, result("c0", "Köln"), result("c1", "Ulm")];
    [first_request(), turn.into()].concat()
}

#[tokio::test]
async fn a_run_through_a_busy_server_a_cut_and_garbage() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    let last = Message::ai("Rain everywhere.");
    let provider = Provider::start([
        Answer::new(429, r#"{"error":{"message":"slow down"}}"#),
        Answer::reply(&two_calls()),
        Answer::reply(&last).cut_after(3),
        Answer::new(200, "<html>Sign in</html>"),
        Answer::reply(&last),
    ])
    .await;
    let agent = agent(&provider, &log);
    let thread = || agent.thread(&open(folder.path()), "t");

    let ModelError::Interrupted { partial, .. } =
        model_error(thread().start(says("Weather?")).await)
    else {
        panic!("the reply was not cut off")
    };
    assert_eq!(*partial, Message::ai("Rain e"));
    let garbage = model_error(thread().proceed().await);
    assert_eq!(
        garbage,
        ModelError::Malformed("<html>Sign in</html>".into())
    );
    let said = transcript(thread().proceed().await);
    assert_eq!(
        said,
        [
            "human: Weather?",
            r#"ai: Let me look.weather{"town":"Köln"} weather{"town":"Ulm"}"#,
            "c0: It rains in Köln.",
            "c1: It rains in Ulm.",
            "ai: Rain everywhere.",
        ]
    );
    assert_eq!(log.all(), ["Köln", "Ulm"], "each call ran once");
    let (first, second) = (body(&first_request()), body(&second_request()));
    let asked: Vec<Value> = provider
        .asked()
        .into_iter()
        .map(|asked| asked.body)
        .collect();
    assert_eq!(
        asked,
        [&first, &first, &second, &second, &second].map(Value::clone)
    );
}
