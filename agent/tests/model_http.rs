//! The chat-completions client against a server on a real socket.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use superstep_agent::message::{Ai, Body, Message, StopReason, ToolCall, Usage};
use superstep_agent::model::{
    ChatModel, Chunk, ModelError, OpenAi, Request, Retry, Retrying, Timeouts, ToolSpec, complete,
};
use tokio::net::TcpListener;

use crate::provider::{Answer, Provider};

fn client(provider: &Provider) -> OpenAi {
    OpenAi::new("test-model")
        .with_key("sk-secret")
        .with_base_url(provider.url())
}

fn request() -> Request {
    Request::new([Message::system("Be brief."), Message::human("Hi")].map(Arc::new))
}

async fn ask(answer: Answer) -> Result<Message, ModelError> {
    let provider = Provider::start([answer]).await;
    complete(&client(&provider), request()).await
}

/// A reply with what this protocol can carry.
fn reply() -> Message {
    let calls = [
        ToolCall::new("c0", "ls", json!({ "path": "/a b" })),
        ToolCall::new("c1", "grep", json!({ "pattern": "ü", "limit": 3 })),
    ];
    let mut message = Message::ai_calls("Let me look — twice 🦀.", calls);
    message.body = Body::Ai(Ai {
        usage: Some(Usage {
            input: 21,
            output: 8,
            ..Usage::default()
        }),
        stop_reason: Some(StopReason::ToolCalls),
        ..message.as_ai().unwrap().clone()
    });
    message
}

/// Waits too short to be noticed.
fn quick(attempts: u32) -> Retry {
    Retry {
        attempts,
        first_wait: Duration::from_millis(1),
        ..Retry::default()
    }
}

fn limits(idle: Duration, total: Duration) -> Timeouts {
    Timeouts {
        idle,
        total,
        ..Timeouts::default()
    }
}

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn text_and_parallel_calls() {
    let provider = Provider::start([Answer::reply(&reply())]).await;
    let mut request = request();
    request.tools.push(Arc::new(ToolSpec {
        name: "ls".into(),
        description: "Lists a folder.".into(),
        parameters: json!({ "type": "object" }),
    }));
    assert_eq!(complete(&client(&provider), request).await, Ok(reply()));
    let asked = provider.asked();
    let [asked] = asked.as_slice() else {
        panic!("{asked:?}")
    };
    assert!(
        asked
            .head
            .starts_with("post /v1/chat/completions http/1.1\r\n"),
        "{}",
        asked.head
    );
    assert!(
        asked
            .head
            .contains("\r\nauthorization: bearer sk-secret\r\n"),
        "{}",
        asked.head
    );
    assert!(
        asked
            .head
            .contains("\r\ncontent-type: application/json\r\n"),
        "{}",
        asked.head
    );
    assert_eq!(
        asked.body,
        json!({
            "model": "test-model",
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": "Hi" },
            ],
            "tools": [{ "type": "function", "function": {
                "name": "ls", "description": "Lists a folder.", "parameters": { "type": "object" },
            } }],
            "stream": true,
            "stream_options": { "include_usage": true },
        })
    );
}

#[tokio::test]
async fn byte_by_byte() {
    assert_eq!(ask(Answer::reply(&reply()).in_bytes()).await, Ok(reply()));
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    let provider = Provider::start([Answer::reply(&Message::ai("Hi"))]).await;
    let model = OpenAi::new("m").with_base_url(provider.url());
    complete(&model, request()).await.unwrap();
    assert!(!provider.asked()[0].head.contains("authorization"));
}

#[tokio::test]
async fn chunks_come_while_the_server_still_writes() {
    let mut provider = Provider::start([Answer::reply(&reply()).hang_after(2)]).await;
    let mut chunks = client(&provider).stream(request()).await.unwrap();
    assert_eq!(chunks.next().await, Some(Ok(Chunk::Text("Let".into()))));
    drop(chunks);
    provider.closed().await;
}

#[tokio::test]
async fn a_rate_limit_is_waited_out() {
    let limited =
        Answer::new(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after", "0");
    assert_eq!(
        ask(limited.clone()).await,
        Err(ModelError::RateLimited {
            said: "HTTP 429: slow down".into(),
            retry_after: Some(Duration::ZERO),
        })
    );
    let provider = Provider::start([limited, Answer::reply(&reply())]).await;
    let model = Retrying::new(client(&provider), quick(2));
    assert_eq!(complete(&model, request()).await, Ok(reply()));
    assert_eq!(provider.asked().len(), 2);
}

#[tokio::test]
async fn an_outage_ends_the_budget() {
    let provider = Provider::start(vec![Answer::new(503, "<h1>Down</h1>"); 5]).await;
    let model = Retrying::new(client(&provider), quick(3));
    assert_eq!(
        complete(&model, request()).await,
        Err(ModelError::Overloaded {
            said: "HTTP 503: <h1>Down</h1>".into(),
            retry_after: None,
        })
    );
    assert_eq!(provider.asked().len(), 3);
}

#[tokio::test]
async fn a_wrong_key_is_not_tried_again_nor_shown() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-secret.","code":"invalid_api_key"}}"#;
    let provider = Provider::start([Answer::new(401, body)]).await;
    let model = Retrying::new(client(&provider), quick(3));
    let error = complete(&model, request()).await.unwrap_err();
    let said = "HTTP 401: Incorrect API key provided: ***.";
    assert_eq!(error, ModelError::Authentication(said.into()));
    assert_eq!(provider.asked().len(), 1);
}

#[tokio::test]
async fn the_key_does_not_follow_a_redirect() {
    let elsewhere = Provider::start([]).await;
    let moved = Answer::new(307, "moved").header("location", elsewhere.url());
    assert_eq!(
        ask(moved).await,
        Err(ModelError::BadRequest("HTTP 307: moved".into()))
    );
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test]
async fn garbage_is_shown() {
    let page = Answer::new(200, "<html>\r\n<title>Sign in</title>");
    assert_eq!(
        ask(page).await,
        Err(ModelError::Malformed(
            "<html> <title>Sign in</title>".into()
        ))
    );
    let long = "x".repeat(4_000);
    let start = format!("{}…", "x".repeat(499));
    assert_eq!(
        ask(Answer::new(200, long)).await,
        Err(ModelError::Malformed(start.as_str().into()))
    );
    let noise = "UTF8 error: invalid utf-8 sequence of 1 bytes from index 0";
    assert_eq!(
        ask(Answer::new(200, [0xff; 9])).await,
        Err(ModelError::Malformed(noise.into()))
    );
}

#[tokio::test]
async fn an_empty_answer_names_the_server() {
    let provider = Provider::start([Answer::new(200, "")]).await;
    let error = complete(&client(&provider), request()).await.unwrap_err();
    let url = provider.url();
    let said = format!("{url}/chat/completions closed the connection without an answer");
    assert_eq!(error, ModelError::Transport(said.into()));
}

#[tokio::test]
async fn a_reply_that_never_began_is_tried_again() {
    let failed = json!({ "error": { "message": "oops", "type": "server_error" } });
    let script = [
        Answer::new(200, ""),
        Answer::events([failed]),
        Answer::reply(&reply()),
    ];
    let provider = Provider::start(script).await;
    let model = Retrying::new(client(&provider), quick(3));
    assert_eq!(complete(&model, request()).await, Ok(reply()));
    assert_eq!(provider.asked().len(), 3);
}

#[tokio::test]
async fn a_cut_keeps_the_text() {
    let provider = Provider::start([
        Answer::reply(&reply()).cut_after(3),
        Answer::reply(&reply()),
    ])
    .await;
    // A chunk was handed out: the beginning must not come twice.
    let model = Retrying::new(client(&provider), quick(3));
    let error = complete(&model, request()).await.unwrap_err();
    let ModelError::Interrupted { partial, cause } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(**partial, Message::ai("Let me"));
    assert!(matches!(**cause, ModelError::Transport(_)), "{cause:?}");
    assert!(error.to_string().contains(provider.url()), "{error}");
    assert_eq!(provider.asked().len(), 1);
}

#[tokio::test]
async fn a_stream_that_ends_early_is_a_cut() {
    let text = json!({ "choices": [{ "delta": { "content": "Let me" } }] });
    let error = ask(Answer::events([text])).await.unwrap_err();
    let cause = "the stream ended before the reply was complete";
    assert_eq!(
        error,
        ModelError::Interrupted {
            partial: Box::new(Message::ai("Let me")),
            cause: Box::new(ModelError::Transport(cause.into())),
        }
    );
}

#[tokio::test]
async fn a_cut_within_a_call_leaves_no_call_to_execute() {
    // The role, eight pieces of text, the call's name, the first piece of its arguments.
    let error = ask(Answer::reply(&reply()).cut_after(11))
        .await
        .unwrap_err();
    let ModelError::Interrupted { partial, .. } = &error else {
        panic!("{error:?}")
    };
    let ai = partial.as_ai().unwrap();
    assert_eq!(partial.text(), reply().text());
    assert_eq!(ai.tool_calls, []);
    assert_eq!(ai.invalid_tool_calls[0].args, "{\"p");
}

#[tokio::test]
async fn silence_is_a_timeout() {
    for timeouts in [limits(SHORT, LONG), limits(LONG, SHORT)] {
        let mut provider = Provider::start([Answer::silence()]).await;
        let model = client(&provider).with_timeouts(timeouts);
        let error = complete(&model, request()).await.unwrap_err();
        assert!(matches!(error, ModelError::Timeout(_)), "{error:?}");
        assert!(error.to_string().contains(provider.url()), "{error}");
        provider.closed().await;
    }
}

#[tokio::test]
async fn a_pause_within_the_reply_is_a_timeout() {
    for timeouts in [limits(SHORT, LONG), limits(LONG, SHORT)] {
        let provider = Provider::start([Answer::reply(&reply()).hang_after(3)]).await;
        let model = client(&provider).with_timeouts(timeouts);
        let error = complete(&model, request()).await.unwrap_err();
        let ModelError::Interrupted { partial, cause } = error else {
            panic!("{error:?}")
        };
        assert_eq!(*partial, Message::ai("Let me"));
        assert!(matches!(*cause, ModelError::Timeout(_)), "{cause:?}");
    }
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let model = OpenAi::new("m").with_base_url(&url);
    let error = complete(&model, request()).await.unwrap_err();
    assert!(matches!(error, ModelError::Transport(_)), "{error:?}");
    let start = format!("cannot reach {url}/chat/completions: ");
    assert!(error.to_string().starts_with(&start), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_behind_https() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    // Accepts and closes.
    let server = tokio::spawn(async move { listener.accept().await.map(drop) });
    let model = OpenAi::new("m").with_base_url(&url);
    let error = complete(&model, request()).await.unwrap_err();
    let start = format!("cannot reach {url}/chat/completions: ");
    assert!(error.to_string().starts_with(&start), "{error}");
    server.await.unwrap().unwrap();
}
