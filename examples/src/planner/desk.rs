//! What was asked and answered so far, and what to ask next.

use std::borrow::Cow;
use std::sync::Arc;

use superstep_agent::message::{Body, Message, ToolCall, ToolStatus};

use super::call::Call;

/// Calls of one turn; what does not fit is asked in the next.
const PER_TURN: usize = 64;
/// Calls of one conversation.
const MAX_CALLS: usize = 400;

/// What a tool gave: its text, or the text of its failure.
pub(super) type Answer<'a> = Result<Cow<'a, str>, Cow<'a, str>>;

/// The conversation since the last human message, as questions and answers.
///
/// No question is asked again once it is answered, also by a failure.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    /// What the person, or the coordinator, wants.
    pub(super) brief: Cow<'a, str>,
    calls: Vec<(&'a ToolCall, Option<Answer<'a>>)>,
    turn: usize,
    deadline: usize,
    wishes: Vec<Call>,
}

impl<'a> Desk<'a> {
    pub(super) fn new(messages: &'a [Arc<Message>]) -> Self {
        let human = messages
            .iter()
            .rposition(|message| message.body == Body::Human);
        let (brief, since) = match human.and_then(|at| messages.get(at..)) {
            Some([human, since @ ..]) => (human.text(), since),
            _ => (Cow::Borrowed(""), messages),
        };
        let calls = since.iter().flat_map(|message| message.tool_calls());
        Desk {
            brief,
            calls: calls.map(|call| (call, answer(since, &call.id))).collect(),
            turn: turns(since),
            deadline: 0,
            wishes: Vec::new(),
        }
    }

    /// From now on, questions are put only while fewer than `turns` turns are over.
    pub(super) fn ask_until(&mut self, turns: usize) {
        self.deadline = turns;
    }

    /// The answer to a question. When there is none yet, the question is put this turn, as far
    /// as the bounds allow.
    pub(super) fn ask(&mut self, call: Call) -> Option<Answer<'a>> {
        let answered = self.calls.iter().find_map(|(made, answer)| {
            (made.name == call.name && made.args.0 == call.args)
                .then(|| answer.clone())
                .flatten()
        });
        if answered.is_none() && self.has_room() && !self.wishes.contains(&call) {
            self.wishes.push(call);
        }
        answered
    }

    /// The last answer of a tool, whatever it was asked.
    pub(super) fn last_answer(&self, tool: &str) -> Option<Answer<'a>> {
        let mut answers = self.calls.iter().rev();
        answers.find_map(|(made, answer)| answer.clone().filter(|_| made.name == tool))
    }

    /// Will there be more answers?
    pub(super) fn waits(&self) -> bool {
        !self.wishes.is_empty()
    }

    /// The calls of this turn.
    pub(super) fn into_wishes(self) -> Vec<Call> {
        self.wishes
    }

    fn has_room(&self) -> bool {
        self.turn < self.deadline
            && self.wishes.len() < PER_TURN
            && self.calls.len() + self.wishes.len() < MAX_CALLS
    }
}

/// How many turns the model had.
pub(super) fn turns(messages: &[Arc<Message>]) -> usize {
    messages
        .iter()
        .filter(|message| message.as_ai().is_some())
        .count()
}

fn answer<'a>(messages: &'a [Arc<Message>], id: &str) -> Option<Answer<'a>> {
    messages.iter().find_map(|message| {
        let result = message.as_tool().filter(|result| result.call_id == id)?;
        Some(match result.status {
            ToolStatus::Ok => Ok(message.text()),
            ToolStatus::Error => Err(message.text()),
        })
    })
}
