//! A model provider on a real socket: plays a script of answers and records what it was asked.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use superstep_agent::message::{Message, StopReason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A server that speaks chat completions on a free port of this machine, until it is dropped.
pub(crate) struct Provider {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    closed: mpsc::UnboundedReceiver<()>,
    accepting: JoinHandle<()>,
}

/// A request as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The request line and the headers, in lower case.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Value,
}

/// One answer of the script; each request, on a connection of its own, takes the next one.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    head: String,
    pieces: Vec<Vec<u8>>,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// As the protocol has it.
    Whole,
    /// The connection breaks.
    Cut,
    /// Nothing more comes, but the connection stays until the client closes it.
    Hang,
}

impl Answer {
    /// A status and a body.
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Answer {
            head: format!(
                "HTTP/1.1 {status} x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n"
            ),
            pieces: vec![body.into()],
            end: End::Whole,
        }
    }

    /// A stream of these events, each in a piece of its own.
    pub(crate) fn events(events: impl IntoIterator<Item = Value>) -> Self {
        let lines = events
            .into_iter()
            .map(|event| format!("data: {event}\n\n").into_bytes());
        Answer {
            pieces: lines.collect(),
            ..Self::new(200, "").header("content-type", "text/event-stream")
        }
    }

    /// The stream of a reply: texts and arguments arrive in fragments.
    pub(crate) fn reply(message: &Message) -> Self {
        let mut answer = Self::events(reply_events(message));
        answer.pieces.push(b"data: [DONE]\n\n".to_vec());
        answer
    }

    /// A server that takes the request and says nothing.
    pub(crate) fn silence() -> Self {
        Answer {
            head: String::new(),
            pieces: Vec::new(),
            end: End::Hang,
        }
    }

    /// The same with this header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head += &format!("{name}: {value}\r\n");
        self
    }

    /// The same byte by byte.
    pub(crate) fn in_bytes(mut self) -> Self {
        self.pieces = self
            .pieces
            .concat()
            .into_iter()
            .map(|byte| vec![byte])
            .collect();
        self
    }

    /// The same, but the connection breaks after so many pieces.
    pub(crate) fn cut_after(mut self, pieces: usize) -> Self {
        self.pieces.truncate(pieces);
        self.end = End::Cut;
        self
    }

    /// The same, but after so many pieces nothing more comes.
    pub(crate) fn hang_after(mut self, pieces: usize) -> Self {
        self.pieces.truncate(pieces);
        self.end = End::Hang;
        self
    }

    async fn send(&self, socket: &mut TcpStream) -> io::Result<()> {
        if !self.head.is_empty() {
            socket
                .write_all(format!("{}\r\n", self.head).as_bytes())
                .await?;
        }
        for piece in self.pieces.iter().filter(|piece| !piece.is_empty()) {
            let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            socket.write_all(&framed).await?;
        }
        if self.end == End::Whole {
            socket.write_all(b"0\r\n\r\n").await?;
        }
        Ok(())
    }
}

fn reply_events(message: &Message) -> Vec<Value> {
    let ai = message.as_ai().expect("a model's reply");
    let delta = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
    let mut events = vec![delta(json!({ "role": "assistant", "content": null }))];
    let text = fragments(&message.text());
    events.extend(
        text.into_iter()
            .map(|text| delta(json!({ "content": text }))),
    );
    for (index, call) in ai.tool_calls.iter().enumerate() {
        let function = json!({ "name": call.name, "arguments": "" });
        let start =
            json!({ "index": index, "id": call.id, "type": "function", "function": function });
        events.push(delta(json!({ "tool_calls": [start] })));
        events.extend(fragments(&call.args.to_string()).into_iter().map(|args| {
            let piece = json!({ "index": index, "function": { "arguments": args } });
            delta(json!({ "tool_calls": [piece] }))
        }));
    }
    let reason = match ai.stop_reason {
        Some(StopReason::Length) => "length",
        _ if ai.tool_calls.is_empty() => "stop",
        _ => "tool_calls",
    };
    events.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }));
    let usage = ai.usage.unwrap_or_default();
    let cost = json!({ "prompt_tokens": usage.input, "completion_tokens": usage.output });
    events.push(json!({ "choices": [], "usage": cost }));
    events
}

fn fragments(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(3).map(String::from_iter).collect()
}

impl Provider {
    /// A server with this script; a request too many is answered with status 410.
    pub(crate) async fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::default();
        let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
        let (report, closed) = mpsc::unbounded_channel();
        let record = Arc::clone(&asked);
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (script, record, report) =
                    (Arc::clone(&script), Arc::clone(&record), report.clone());
                tokio::spawn(async move {
                    // A client may go away at any time; what it misses then is the test's business.
                    let _ = serve(socket, &script, &record, &report).await;
                });
            }
        });
        Provider {
            url,
            asked,
            closed,
            accepting,
        }
    }

    /// The base URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until a client closes a connection that hangs.
    pub(crate) async fn closed(&mut self) {
        self.closed.recv().await.unwrap();
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    mut socket: TcpStream,
    script: &Mutex<VecDeque<Answer>>,
    record: &Mutex<Vec<Asked>>,
    report: &mpsc::UnboundedSender<()>,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let asked = receive(&mut socket).await?;
    record.lock().unwrap().push(asked);
    let answer = script.lock().unwrap().pop_front();
    let answer = answer.unwrap_or_else(|| Answer::new(410, "the script is over"));
    answer.send(&mut socket).await?;
    if answer.end == End::Hang {
        // Zero bytes or an error: either way the client is gone.
        while let Ok(1..) = socket.read(&mut [0; 64]).await {}
        let _ = report.send(());
    }
    Ok(())
}

async fn receive(socket: &mut TcpStream) -> io::Result<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    socket.read_exact(&mut body).await?;
    Ok(Asked {
        head,
        body: serde_json::from_slice(&body)?,
    })
}
