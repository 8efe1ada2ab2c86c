//! What grows.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::ValueEnum;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use superstep::Thread;
use superstep::channels::{ChannelSpec, Value};
use superstep::checkpoint::Checkpointer;
use superstep::prelude::*;
use superstep_benches::{Error, text};

use crate::policy::Policy;

/// The states by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateKind {
    /// A human's message and an answer a turn.
    Chat,
    /// A new file a turn, in one map.
    Files,
    /// 300 channels, of which one changes in a turn.
    Wide,
}

impl StateKind {
    /// Bytes of text that come in with a turn.
    pub(crate) fn payload(self, payload: usize) -> u64 {
        match self {
            StateKind::Chat => 2 * payload as u64,
            StateKind::Files | StateKind::Wide => payload as u64,
        }
    }
}

/// A thread to which turns are added.
pub(crate) trait Turns {
    /// Runs a turn on the handle that is kept open.
    fn turn(&self, number: u64) -> BoxFuture<'_, Result<(), Error>>;

    /// Reads the whole state as of now through another store.
    fn open<'a>(&'a self, saver: &Arc<dyn Checkpointer>) -> BoxFuture<'a, Result<(), Error>>;
}

/// An empty thread of this kind.
pub(crate) fn thread(
    kind: StateKind,
    policy: Policy,
    payload: usize,
    saver: &Arc<dyn Checkpointer>,
) -> Result<Box<dyn Turns>, Error> {
    Ok(match kind {
        StateKind::Chat => Box::new(ChatTurns::new(policy, payload, saver)?),
        StateKind::Files => Box::new(FileTurns::new(policy, payload, saver)?),
        StateKind::Wide => Box::new(WideTurns::new(payload, saver)?),
    })
}

/// Its name.
pub(crate) const THREAD: &str = "growth";

/// Says who a message is from.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    Human,
    Ai,
}

/// One message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) role: Role,
    pub(crate) text: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Chat {
    #[reduce(append)]
    pub(crate) messages: List<Message>,
}

const MODEL: Node<Chat> = Node::new("model");

struct ChatTurns {
    graph: Graph<Chat>,
    thread: Thread<Chat>,
    payload: usize,
}

impl ChatTurns {
    fn new(policy: Policy, payload: usize, saver: &Arc<dyn Checkpointer>) -> Result<Self, Error> {
        let model = move |chat: Chat, _: Context| async move {
            let said = chat.messages.len() as u64;
            Ok(Update::new().put(Chat::MESSAGES, message(Role::Ai, said, payload)))
        };
        let mut builder = Graph::<Chat>::builder().node(MODEL, model).entry(MODEL);
        if let Policy::Delta(snapshots) = policy {
            builder = builder.as_delta(Chat::MESSAGES.name(), snapshots);
        }
        let graph = builder.build()?;
        Ok(ChatTurns {
            thread: graph.thread(saver, THREAD),
            graph,
            payload,
        })
    }
}

fn message(role: Role, number: u64, length: usize) -> List<Message> {
    let text = text(number, length);
    List::from(vec![Message { role, text }])
}

impl Turns for ChatTurns {
    fn turn(&self, number: u64) -> BoxFuture<'_, Result<(), Error>> {
        let said = message(Role::Human, 2 * number, self.payload);
        let run = self.thread.start(Update::new().put(Chat::MESSAGES, said));
        async move {
            let state = run.await?.done().ok_or("the turn did not end")?;
            expect(state.messages.len() as u64, 2 * number + 2)
        }
        .boxed()
    }

    fn open<'a>(&'a self, saver: &Arc<dyn Checkpointer>) -> BoxFuture<'a, Result<(), Error>> {
        let thread = self.graph.thread(saver, THREAD);
        async move {
            let state: Chat = thread.state().await?.read()?;
            expect(state.messages.len() as u64 % 2, 0)
        }
        .boxed()
    }
}

fn expect(found: u64, expected: u64) -> Result<(), Error> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("expected {expected}, found {found}").into()),
    }
}

pub(crate) type Map = Arc<BTreeMap<String, String>>;

/// Puts files into the map.
fn put(files: &mut Map, new: Vec<(String, String)>) {
    Arc::make_mut(files).extend(new);
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Files {
    #[or_default]
    turn: u64,
    #[reduce(put, update = Vec<(String, String)>)]
    pub(crate) files: Map,
}

const WRITE: Node<Files> = Node::new("write");

struct FileTurns {
    graph: Graph<Files>,
    thread: Thread<Files>,
}

impl FileTurns {
    fn new(policy: Policy, payload: usize, saver: &Arc<dyn Checkpointer>) -> Result<Self, Error> {
        let write = move |state: Files, _: Context| async move {
            let file = (file_name(state.turn), text(state.turn, payload));
            Ok(Update::new().put(Files::FILES, vec![file]))
        };
        let mut builder = Graph::<Files>::builder().node(WRITE, write).entry(WRITE);
        if let Policy::Delta(snapshots) = policy {
            builder = builder.as_delta(Files::FILES.name(), snapshots);
        }
        let graph = builder.build()?;
        Ok(FileTurns {
            thread: graph.thread(saver, THREAD),
            graph,
        })
    }
}

pub(crate) fn file_name(turn: u64) -> String {
    format!("/notes/f{turn:05}.txt")
}

impl Turns for FileTurns {
    fn turn(&self, number: u64) -> BoxFuture<'_, Result<(), Error>> {
        let run = self.thread.start(Update::new().put(Files::TURN, number));
        async move {
            let state = run.await?.done().ok_or("the turn did not end")?;
            expect(state.files.len() as u64, number + 1)
        }
        .boxed()
    }

    fn open<'a>(&'a self, saver: &Arc<dyn Checkpointer>) -> BoxFuture<'a, Result<(), Error>> {
        let thread = self.graph.thread(saver, THREAD);
        async move {
            let state: Files = thread.state().await?.read()?;
            expect(state.files.len() as u64, state.turn + 1)
        }
        .boxed()
    }
}

/// How many channels the wide state has.
pub(crate) const CHANNELS: u64 = 300;

struct WideTurns {
    graph: Graph<Json>,
    thread: Thread<Json>,
    payload: usize,
}

impl WideTurns {
    fn new(payload: usize, saver: &Arc<dyn Checkpointer>) -> Result<Self, Error> {
        let touch = Node::<Json>::new("touch");
        let mut builder = Graph::<Json>::builder()
            .channel(ChannelSpec::last::<u64>("turn"))
            .output(["turn"]);
        for at in 0..CHANNELS {
            builder = builder.channel(ChannelSpec::last::<String>(wide_name(at)));
        }
        let graph = builder
            .node_reading(
                touch.clone(),
                ["turn"],
                move |Json(state): Json, _: Context| async move {
                    let turn = state["turn"].as_u64().unwrap_or(0);
                    let value = Value::new(text(turn, payload));
                    Ok(Update::new().put_value(wide_name(turn % CHANNELS), value))
                },
            )
            .entry(touch)
            .build()?;
        Ok(WideTurns {
            thread: graph.thread(saver, THREAD),
            graph,
            payload,
        })
    }
}

pub(crate) fn wide_name(at: u64) -> String {
    format!("channel {at:03}")
}

impl Turns for WideTurns {
    fn turn(&self, number: u64) -> BoxFuture<'_, Result<(), Error>> {
        let mut input = Update::new().put_value("turn", Value::new(number));
        if number == 0 {
            for at in 0..CHANNELS {
                input = input.put_value(wide_name(at), Value::new(text(at, self.payload)));
            }
        }
        let run = self.thread.start(input);
        async move {
            let Json(state) = run.await?.done().ok_or("the turn did not end")?;
            expect(state["turn"].as_u64().unwrap_or(0), number)
        }
        .boxed()
    }

    fn open<'a>(&'a self, saver: &Arc<dyn Checkpointer>) -> BoxFuture<'a, Result<(), Error>> {
        let thread = self.graph.thread(saver, THREAD);
        async move {
            let state = thread.state().await?;
            let Json(json) = state.read()?;
            expect(
                json.as_object().map_or(0, |all| all.len() as u64),
                CHANNELS + 1,
            )
        }
        .boxed()
    }
}
