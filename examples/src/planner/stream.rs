//! A reply in pieces, as a provider sends it.

use superstep_agent::message::{Message, StopReason, Usage};
use superstep_agent::model::{Chunk, Request};

use super::Reply;
use super::call::Call;
use super::desk::turns;

const PIECES: usize = 4;
/// A common rule of thumb.
const BYTES_PER_TOKEN: u64 = 4;

/// The chunks of a reply.
pub(super) fn chunks(request: &Request, reply: Reply) -> Vec<Chunk> {
    let turn = turns(&request.messages) + 1;
    let (mut chunks, stop) = match reply {
        Reply::Text(text) => (pieces(&text).map(Chunk::Text).collect(), StopReason::End),
        Reply::Calls(calls) => (call_chunks(turn, calls), StopReason::ToolCalls),
    };
    let usage = Usage {
        input: request
            .messages
            .iter()
            .map(|message| size(message))
            .sum::<u64>()
            / BYTES_PER_TOKEN,
        output: chunks.iter().map(chunk_size).sum::<u64>() / BYTES_PER_TOKEN,
        ..Usage::default()
    };
    chunks.extend([Chunk::Usage(usage), Chunk::Stop(stop)]);
    chunks
}

fn call_chunks(turn: usize, calls: Vec<Call>) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for (index, call) in calls.into_iter().enumerate() {
        chunks.push(Chunk::ToolCall {
            index,
            id: Some(format!("call_{turn}_{index}")),
            name: Some(call.name.to_owned()),
            args: String::new(),
        });
        chunks.extend(pieces(&call.args.to_string()).map(|args| Chunk::ToolCall {
            index,
            id: None,
            name: None,
            args,
        }));
    }
    chunks
}

/// The text in at most [`PIECES`] pieces of whole characters.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let length = text.chars().count().div_ceil(PIECES).max(1);
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars
        .chunks(length)
        .map(|piece| piece.iter().collect())
        .collect();
    pieces.into_iter()
}

fn size(message: &Message) -> u64 {
    let calls = message.tool_calls().iter();
    let calls: usize = calls
        .map(|call| call.name.len() + call.args.to_string().len())
        .sum();
    (message.text().len() + calls) as u64
}

fn chunk_size(chunk: &Chunk) -> u64 {
    match chunk {
        Chunk::Text(text) => text.len() as u64,
        Chunk::ToolCall { name, args, .. } => {
            (name.as_deref().map_or(0, str::len) + args.len()) as u64
        }
        _ => 0,
    }
}
