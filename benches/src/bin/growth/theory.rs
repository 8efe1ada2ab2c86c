//! What a thread should store: every frame counted, none made. The layouts are those of `checkpoint/FORMAT.md`.

use superstep::channels::{List, Snapshots, Type};
use superstep::checkpoint::{Header, Source};
use superstep_benches::Error;

use crate::policy::Policy;
use crate::workload::{CHANNELS, Map, Message, StateKind, file_name, wide_name};

/// Bytes by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) headers: u64,
    pub(crate) values: u64,
    pub(crate) logs: u64,
    pub(crate) tasks: u64,
}

impl Sizes {
    pub(crate) fn total(&self) -> u64 {
        self.headers + self.values + self.logs + self.tasks
    }
}

/// Bytes of a number.
fn number(value: u64) -> u64 {
    match value {
        0..=250 => 1,
        251..=0xFFFF => 3,
        0x1_0000..=0xFFFF_FFFF => 5,
        _ => 9,
    }
}

/// Bytes of a text, or of anything else that has its length before it.
fn text(length: u64) -> u64 {
    number(length) + length
}

/// Bytes of a frame.
fn frame(type_name: &str, payload: u64) -> u64 {
    2 + 1 + 1 + type_name.len() as u64 + 1 + text(payload) + 4
}

/// A channel, by the lengths of what is in it.
struct Channel {
    name: String,
    value_type: &'static str,
    update_type: &'static str,
    /// As its writes, by which policy.
    delta: Option<Snapshots>,
    /// Supersteps that wrote and bytes of logs since the last snapshot, and its bytes.
    since: (u32, u64, u64),
}

impl Channel {
    fn last(name: impl Into<String>, of: Type) -> Self {
        Channel {
            name: name.into(),
            value_type: of.name(),
            update_type: of.name(),
            delta: None,
            since: (0, 0, 0),
        }
    }

    fn folding(name: &str, value: Type, update: Type, policy: Policy) -> Self {
        Channel {
            value_type: value.name(),
            update_type: update.name(),
            delta: match policy {
                Policy::Full => None,
                Policy::Delta(snapshots) => Some(snapshots),
            },
            ..Channel::last(name, value)
        }
    }

    /// A superstep writes one update, and the value is as long as said after it. Gives the bytes that this takes in the task's record.
    fn write(&mut self, update: u64, value: u64, sizes: &mut Sizes) -> u64 {
        let name = text(self.name.len() as u64);
        let whole = frame(self.value_type, value);
        let Some(snapshots) = self.delta else {
            sizes.values += whole;
            return name + 1 + text(self.update_type.len() as u64) + text(update);
        };
        // One batch, one write, and whether it overwrites.
        let log = frame(self.update_type, 3 + text(update));
        sizes.logs += log;
        let (writes, bytes, last) = self.since;
        self.since = (writes + 1, bytes + log, last);
        if snapshots.due(writes + 1, bytes + log, last) {
            sizes.values += whole;
            self.since = (0, 0, whole);
        }
        name + 1
    }
}

/// The record of a finished task, which leads nowhere.
fn record(node: &str, writes: &[u64]) -> u64 {
    let writes = number(writes.len() as u64) + writes.iter().sum::<u64>();
    // What it did, where it leads, its error, its questions, their answers.
    frame("Task", text(node.len() as u64) + 1 + writes + 4)
}

/// A thread as it grows.
pub(crate) struct Thread {
    state: StateKind,
    payload: u64,
    grows: Channel,
    turn: Channel,
    wide: Vec<Channel>,
    /// Items in the channel that grows, and their bytes.
    items: (u64, u64),
    sizes: Sizes,
}

impl Thread {
    pub(crate) fn new(state: StateKind, policy: Policy, payload: usize) -> Self {
        let grows = match state {
            StateKind::Files => {
                let (map, files) = (Type::of::<Map>(), Type::of::<Vec<(String, String)>>());
                Channel::folding("files", map, files, policy)
            }
            StateKind::Chat | StateKind::Wide => {
                let messages = Type::of::<List<Message>>();
                Channel::folding("messages", messages, messages, policy)
            }
        };
        let wide = (0..CHANNELS).map(|at| Channel::last(wide_name(at), Type::of::<String>()));
        Thread {
            state,
            payload: payload as u64,
            grows,
            turn: Channel::last("turn", Type::of::<u64>()),
            wide: wide.collect(),
            items: (0, 0),
            sizes: Sizes::default(),
        }
    }

    /// All that is stored after one more turn.
    pub(crate) fn turn(&mut self, turn: u64) -> Result<Sizes, Error> {
        let node = match self.state {
            StateKind::Chat => "model",
            StateKind::Files => "write",
            StateKind::Wide => "touch",
        };
        self.headers(turn, node)?;
        let (input, output) = match self.state {
            StateKind::Chat => (vec![self.message()], vec![self.message()]),
            StateKind::Files => (vec![self.number(turn)], vec![self.file(turn)]),
            StateKind::Wide => {
                let mut input = vec![self.number(turn)];
                if turn == 0 {
                    input.extend((0..CHANNELS).map(|at| self.touch(at)));
                }
                (input, vec![self.touch(turn % CHANNELS)])
            }
        };
        self.sizes.tasks += record("__start__", &input) + record(node, &output);
        Ok(self.sizes)
    }

    /// The input as due, the input applied, and the node's superstep.
    fn headers(&mut self, turn: u64, node: &str) -> Result<(), Error> {
        let step = 3 * i64::try_from(turn)?;
        let before: &[&str] = if turn == 0 { &[] } else { &[node] };
        let start = "__start__";
        self.sizes.headers += header(Source::Input, step - 1, &[start], before)?;
        self.sizes.headers += header(Source::Loop, step, &[node], &[start])?;
        self.sizes.headers += header(Source::Loop, step + 1, &[], &[node])?;
        Ok(())
    }

    fn grow(&mut self, item: u64) -> u64 {
        self.items = (self.items.0 + 1, self.items.1 + item);
        let value = number(self.items.0) + self.items.1;
        self.grows.write(1 + item, value, &mut self.sizes)
    }

    fn message(&mut self) -> u64 {
        self.grow(1 + text(self.payload))
    }

    fn file(&mut self, turn: u64) -> u64 {
        self.grow(text(file_name(turn).len() as u64) + text(self.payload))
    }

    fn number(&mut self, turn: u64) -> u64 {
        self.turn.write(number(turn), number(turn), &mut self.sizes)
    }

    fn touch(&mut self, at: u64) -> u64 {
        let length = text(self.payload);
        self.wide[at as usize].write(length, length, &mut self.sizes)
    }
}

fn header(source: Source, step: i64, next: &[&str], ran: &[&str]) -> Result<u64, Error> {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let header = Header {
        source,
        step,
        graph: "graph".into(),
        version: 1,
        next: names(next),
        ran: names(ran),
        parents: Vec::new(),
        run: None,
        metadata: Default::default(),
        copy_of: None,
        task: None,
    };
    Ok(header.seal()?.len() as u64)
}
