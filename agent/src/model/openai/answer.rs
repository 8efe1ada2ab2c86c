//! An answer becomes chunks, whether the server streams or not.

use std::collections::VecDeque;
use std::sync::Arc;

use eventsource_stream::{EventStreamError, Eventsource};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::Value;

use super::failure;
use super::http::{Bytes, Endpoint};
use crate::message::{StopReason, Usage};
use crate::model::{Chunk, ChunkStream, ModelError};

/// The chunks of an answer; waits for its first byte, which says what kind it is.
pub(super) async fn chunks(
    mut bytes: Bytes,
    endpoint: Arc<Endpoint>,
) -> Result<ChunkStream, ModelError> {
    let mut head = Vec::new();
    while head.trim_ascii_start().is_empty() {
        let piece = bytes.try_next().await?;
        head.extend(piece.ok_or_else(|| endpoint.silent())?);
    }
    // Not every server knows about streams, and not every server that does labels them.
    let streamed = head.trim_ascii_start().first() != Some(&b'{');
    let bytes = stream::iter([Ok(head.clone())]).chain(bytes).boxed();
    match streamed {
        true => Ok(Stream::chunks(
            events(bytes, &endpoint),
            Parser::new(endpoint),
            head,
        )),
        false => whole(bytes, Parser::new(endpoint)).await,
    }
}

/// An answer in one piece.
async fn whole(bytes: Bytes, mut parser: Parser) -> Result<ChunkStream, ModelError> {
    let body = bytes.try_concat().await?;
    let mut chunks = parser.parse(&body)?;
    if !parser.any {
        return Err(parser.malformed(&body));
    }
    chunks.push(Chunk::Stop(parser.stop_reason()));
    Ok(stream::iter(chunks.into_iter().map(Ok)).boxed())
}

type Events = BoxStream<'static, Result<String, ModelError>>;

fn events(bytes: Bytes, endpoint: &Arc<Endpoint>) -> Events {
    let endpoint = Arc::clone(endpoint);
    let events = bytes.eventsource().map_err(move |error| match error {
        EventStreamError::Transport(error) => error,
        error => ModelError::Malformed(endpoint.said(&error.to_string())),
    });
    events.map_ok(|event| event.data).boxed()
}

/// A streamed answer on its way.
struct Stream {
    events: Events,
    parser: Parser,
    ready: VecDeque<Chunk>,
    /// How the answer began, to be shown when it turns out not to be one.
    head: Vec<u8>,
    over: bool,
}

impl Stream {
    fn chunks(events: Events, parser: Parser, head: Vec<u8>) -> ChunkStream {
        let start = Stream {
            events,
            parser,
            ready: VecDeque::new(),
            head,
            over: false,
        };
        stream::try_unfold(start, |mut stream| async move {
            let chunk = stream.next().await?;
            Ok(chunk.map(|chunk| (chunk, stream)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<Chunk>, ModelError> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Ok(Some(chunk));
            }
            if self.over {
                return Ok(None);
            }
            match self.events.next().await {
                Some(Ok(data)) if data.trim() == "[DONE]" => self.complete(),
                Some(Ok(data)) => self.ready.extend(self.parser.parse(data.as_bytes())?),
                // The reply is whole: what is missing is at most its cost.
                Some(Err(_)) | None if self.parser.stop.is_some() => self.complete(),
                Some(Err(error)) => return Err(error),
                None if !self.parser.any => return Err(self.parser.malformed(&self.head)),
                None => self.over = true,
            }
        }
    }

    fn complete(&mut self) {
        self.ready.push_back(Chunk::Stop(self.parser.stop_reason()));
        self.over = true;
    }
}

/// What one event says, or the whole body of an answer that is not streamed.
#[derive(Deserialize)]
struct Piece {
    choices: Option<Vec<Choice>>,
    usage: Option<Cost>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    message: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    // The protocol has no reasoning; servers that show it use one of these two names, or both.
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Deserialize)]
struct CallPiece {
    index: Option<usize>,
    id: Option<String>,
    function: Option<FunctionPiece>,
}

#[derive(Deserialize)]
struct FunctionPiece {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Cost {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<CostDetails>,
    completion_tokens_details: Option<CostDetails>,
}

#[derive(Default, Deserialize)]
struct CostDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

/// Turns pieces into chunks, and remembers what later pieces refer to.
struct Parser {
    endpoint: Arc<Endpoint>,
    calls: Vec<Begun>,
    refused: bool,
    stop: Option<StopReason>,
    /// Whether anything that looks like a reply has come.
    any: bool,
}

/// A tool call that has begun.
struct Begun {
    index: Option<usize>,
    id: String,
}

impl Parser {
    fn new(endpoint: Arc<Endpoint>) -> Self {
        Parser {
            endpoint,
            calls: Vec::new(),
            refused: false,
            stop: None,
            any: false,
        }
    }

    fn parse(&mut self, json: &[u8]) -> Result<Vec<Chunk>, ModelError> {
        let piece: Piece = serde_json::from_slice(json).map_err(|_| self.malformed(json))?;
        if let Some(error) = piece.error {
            return Err(failure::in_reply(&self.endpoint, &error));
        }
        self.any |= piece.choices.is_some();
        let mut chunks = Vec::new();
        // Only one choice is ever asked for.
        if let Some(choice) = piece.choices.into_iter().flatten().next() {
            if let Some(delta) = choice.delta.or(choice.message) {
                self.delta(delta, &mut chunks);
            }
            self.stop = choice.finish_reason.map(stop_reason).or(self.stop.take());
        }
        chunks.extend(piece.usage.map(|cost| Chunk::Usage(cost.into())));
        Ok(chunks)
    }

    fn delta(&mut self, delta: Delta, chunks: &mut Vec<Chunk>) {
        self.refused |= delta.refusal.is_some();
        if let Some(text) = some(delta.reasoning_content).or(some(delta.reasoning)) {
            chunks.push(Chunk::Reasoning {
                text,
                signature: None,
            });
        }
        chunks.extend(some(delta.content).map(Chunk::Text));
        chunks.extend(some(delta.refusal).map(Chunk::Text));
        let pieces = delta.tool_calls.into_iter().flatten();
        chunks.extend(pieces.map(|piece| self.call(piece)));
    }

    fn call(&mut self, piece: CallPiece) -> Chunk {
        let (name, args) = piece
            .function
            .map(|f| (f.name, f.arguments))
            .unwrap_or_default();
        let (id, name) = (some(piece.id), some(name));
        let index = self.place(piece.index, id.as_deref(), name.is_some());
        Chunk::ToolCall {
            index,
            id,
            name,
            args: args.unwrap_or_default(),
        }
    }

    /// Which call a piece belongs to.
    ///
    /// The protocol numbers the calls, but there are servers that leave the number out or give all calls the same:
    /// a piece that names a tool and has another id begins a call of its own.
    fn place(&mut self, index: Option<usize>, id: Option<&str>, named: bool) -> usize {
        let same = |begun: &Begun| index.is_none() || begun.index == index;
        if let Some(at) = self.calls.iter().rposition(same) {
            let begun = self.calls.get(at).map(|begun| begun.id.as_str());
            let another = match id {
                Some(_) => id != begun,
                None => index.is_none(),
            };
            if !(named && another) {
                return at;
            }
        }
        self.calls.push(Begun {
            index,
            id: id.unwrap_or_default().to_owned(),
        });
        self.calls.len() - 1
    }

    /// Why the reply ended; a server that marks the end without a reason has said all it wanted.
    fn stop_reason(&mut self) -> StopReason {
        match self.refused {
            true => StopReason::Refused,
            false => self.stop.take().unwrap_or(StopReason::End),
        }
    }

    fn malformed(&self, bytes: &[u8]) -> ModelError {
        let start = bytes.get(..2_000).unwrap_or(bytes);
        ModelError::Malformed(self.endpoint.said(&String::from_utf8_lossy(start)))
    }
}

/// Servers write "nothing" as null, as an empty string, or not at all.
fn some(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn stop_reason(word: String) -> StopReason {
    match word.as_str() {
        "stop" => StopReason::End,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "length" => StopReason::Length,
        "content_filter" => StopReason::Refused,
        _ => StopReason::Other(word),
    }
}

impl From<Cost> for Usage {
    fn from(cost: Cost) -> Self {
        let read = cost.prompt_tokens_details.unwrap_or_default();
        let written = cost.completion_tokens_details.unwrap_or_default();
        Usage {
            input: cost.prompt_tokens.unwrap_or_default(),
            output: cost.completion_tokens.unwrap_or_default(),
            cache_read: read.cached_tokens.unwrap_or_default(),
            cache_write: read.cache_write_tokens.unwrap_or_default(),
            reasoning: written.reasoning_tokens.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{Ai, Block, Body, Message, ToolCall};
    use crate::model::Reply;

    fn bytes(pieces: Vec<Vec<u8>>) -> Bytes {
        stream::iter(pieces.into_iter().map(Ok)).boxed()
    }

    /// What comes of a body that arrives in these pieces.
    async fn read(pieces: Vec<Vec<u8>>) -> Result<Message, ModelError> {
        let mut chunks = chunks(bytes(pieces), Endpoint::unused(None)).await?;
        let mut reply = Reply::new();
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => reply.push(chunk),
                Err(error) => return Err(reply.interrupted(error)),
            }
        }
        reply.finish()
    }

    async fn read_text(body: &str) -> Result<Message, ModelError> {
        read(vec![body.as_bytes().to_vec()]).await
    }

    fn sse(events: &[&str]) -> String {
        events
            .iter()
            .map(|event| format!("data: {event}\n\n"))
            .collect()
    }

    const EVENTS: [&str; 8] = [
        r#"{"choices":[{"delta":{"role":"assistant","content":null,"reasoning_content":"hm"}}],"usage":null}"#,
        r#"{"choices":[{"delta":{"content":"Grüße "}}]}"#,
        r#"{"choices":[{"delta":{"content":"🦀"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c0","function":{"name":"ls","arguments":""}},{"index":1,"id":"c1","function":{"name":"cat","arguments":"{\"p\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"\"ü\"}"}},{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":2}}}"#,
        "[DONE]",
    ];

    fn expected() -> Message {
        Message {
            id: None,
            name: None,
            content: vec![
                Block::Reasoning {
                    text: "hm".into(),
                    signature: None,
                },
                Block::Text("Grüße 🦀".into()),
            ],
            body: Body::Ai(Ai {
                tool_calls: vec![
                    ToolCall::new("c0", "ls", json!({})),
                    ToolCall::new("c1", "cat", json!({ "p": "ü" })),
                ],
                invalid_tool_calls: Vec::new(),
                usage: Some(Usage {
                    input: 9,
                    output: 4,
                    cache_read: 5,
                    cache_write: 0,
                    reasoning: 2,
                }),
                stop_reason: Some(StopReason::ToolCalls),
            }),
        }
    }

    #[tokio::test]
    async fn where_the_network_cuts_does_not_matter() {
        let unix = format!(": hello\n\n{}", sse(&EVENTS));
        for body in [unix.clone(), unix.replace('\n', "\r\n")] {
            let body = body.into_bytes();
            for at in 0..=body.len() {
                let (head, tail) = body.split_at(at);
                assert_eq!(
                    read(vec![head.to_vec(), tail.to_vec()]).await,
                    Ok(expected()),
                    "{at}"
                );
            }
            let single = body.iter().map(|byte| vec![*byte]).collect();
            assert_eq!(read(single).await, Ok(expected()));
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_stream() {
        let body = json!({
            "choices": [{
                "message": {
                    "role": "assistant",
                    "content": "Grüße 🦀",
                    "reasoning": "hm",
                    "tool_calls": [
                        { "id": "c0", "function": { "name": "ls", "arguments": "" } },
                        { "id": "c1", "function": { "name": "cat", "arguments": "{\"p\":\"ü\"}" } },
                    ],
                },
                "finish_reason": "tool_calls",
            }],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": { "cached_tokens": 5 },
                "completion_tokens_details": { "reasoning_tokens": 2 },
            },
        });
        assert_eq!(read_text(&format!("\n \n{body:#}")).await, Ok(expected()));
    }

    #[tokio::test]
    async fn calls_with_no_number_or_all_the_same() {
        let call = |index: &str, id: &str| {
            format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{{index}"id":"{id}","function":{{"name":"ls","arguments":"{{}}"}}}}]}}}}]}}"#
            )
        };
        for index in ["", r#""index":0,"#] {
            let message = read_text(&sse(&[&call(index, "a"), &call(index, "b"), "[DONE]"])).await;
            let calls = ["a", "b"].map(|id| ToolCall::new(id, "ls", json!({})));
            assert_eq!(message.unwrap().tool_calls(), calls);
        }
        // Without ids, each name begins a call.
        let message = read_text(&sse(&[&call("", ""), &call("", ""), "[DONE]"])).await;
        let calls = ["call_0", "call_1"].map(|id| ToolCall::new(id, "ls", json!({})));
        assert_eq!(message.unwrap().tool_calls(), calls);
    }

    #[tokio::test]
    async fn a_refusal_is_text_and_a_reason() {
        let body = sse(&[
            r#"{"choices":[{"delta":{"refusal":"I'm "}}]}"#,
            r#"{"choices":[{"delta":{"refusal":"sorry."},"finish_reason":"stop"}]}"#,
            "[DONE]",
        ]);
        let message = read_text(&body).await.unwrap();
        assert_eq!(message.text(), "I'm sorry.");
        assert_eq!(
            message.as_ai().unwrap().stop_reason,
            Some(StopReason::Refused)
        );
    }

    #[tokio::test]
    async fn a_reason_completes_the_reply() {
        // No `[DONE]`, and the last event is cut: only the cost is lost.
        let body = sse(&[r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":"length"}]}"#]);
        let message = read_text(&format!("{body}data: {{\"cho")).await.unwrap();
        assert_eq!(message.text(), "Hi");
        assert_eq!(
            message.as_ai().unwrap().stop_reason,
            Some(StopReason::Length)
        );
    }

    #[tokio::test]
    async fn an_error_in_the_middle() {
        let body = sse(&[
            r#"{"choices":[{"delta":{"content":"Hi"}}]}"#,
            r#"{"error":{"message":"Overloaded","type":"server_error"}}"#,
        ]);
        let overloaded = ModelError::Overloaded {
            said: "Overloaded".into(),
            retry_after: None,
        };
        assert_eq!(
            read_text(&body).await,
            Err(ModelError::Interrupted {
                partial: Box::new(Message::ai("Hi")),
                cause: Box::new(overloaded),
            })
        );
        let first = sse(&[r#"{"error":{"message":"too much","code":"context_length_exceeded"}}"#]);
        assert_eq!(
            read_text(&first).await,
            Err(ModelError::ContextOverflow("too much".into()))
        );
    }

    #[tokio::test]
    async fn what_is_no_reply() {
        let answers = [
            "<html>\n<h1>Welcome</h1></html>",
            "data: {\"choices\":\n\n",
            "data: {\"choices\":7}\n\n",
            r#"{"hello":"world"}"#,
            "{",
            "",
            " \n ",
            "data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n",
        ];
        let mut errors = Vec::new();
        for answer in answers {
            errors.push(read_text(answer).await.unwrap_err().to_string());
        }
        insta::assert_snapshot!(errors.join("\n"), @r#"
        the answer is not a model's reply: <html> <h1>Welcome</h1></html>
        the answer is not a model's reply: {"choices":
        the answer is not a model's reply: {"choices":7}
        the answer is not a model's reply: {"hello":"world"}
        the answer is not a model's reply: {
        http://localhost/v1/chat/completions closed the connection without an answer
        http://localhost/v1/chat/completions closed the connection without an answer
        the stream ended before the reply was complete
        "#);
    }
}
