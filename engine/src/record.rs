//! What is stored of a task.

use serde::{Deserialize, Serialize};
use superstep_channels::{Json, Write};
use superstep_checkpoint::frame;

use crate::ask::{Ask, AskId};
use crate::error::RunError;
use crate::graph::{ChannelIx, Core, NodeIx};
use superstep_channels::{Kind, Value};

/// What a finished task leads to, by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) writes: Vec<(ChannelIx, Write)>,
    pub(crate) targets: Vec<Routed>,
}

/// A target whose node was found.
#[derive(Clone, Debug)]
pub(crate) enum Routed {
    Node(NodeIx),
    Send(NodeIx, Value),
}

/// The stored form of a task: everything by name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) node: String,
    pub(crate) state: RecordState,
    /// Why it failed the last time it did; it may have finished since.
    pub(crate) error: Option<String>,
    /// What it asked last.
    pub(crate) asks: Vec<Ask>,
    /// Answers that were given to it and its nested graphs.
    pub(crate) answers: Vec<(AskId, Json)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum RecordState {
    Open,
    Done {
        writes: Vec<(String, StoredWrite)>,
        targets: Vec<StoredTarget>,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum StoredWrite {
    Plain(Vec<u8>),
    Overwrite(Vec<u8>),
    /// It stands in the channel's log of the checkpoint that the task made.
    Logged,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum StoredTarget {
    Node(String),
    Send(StoredSend),
}

/// A payload on its way to a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredSend {
    pub(crate) node: String,
    pub(crate) type_name: String,
    pub(crate) payload: Vec<u8>,
}

const TYPE: &str = "Task";

impl Record {
    pub(crate) fn new(node: impl Into<String>, state: RecordState) -> Self {
        Record {
            node: node.into(),
            state,
            error: None,
            asks: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// The questions that have no answer yet.
    pub(crate) fn open_asks(&self) -> impl Iterator<Item = &Ask> {
        let answered = |ask: &&Ask| self.answers.iter().any(|(id, _)| *id == ask.id);
        let open = !matches!(self.state, RecordState::Done { .. });
        self.asks.iter().filter(move |ask| open && !answered(ask))
    }

    pub(crate) fn seal(&self) -> Result<Vec<u8>, RunError> {
        frame::encode(TYPE, self).map_err(|error| RunError::Stored {
            what: format!("the result of node `{}` cannot be stored", self.node),
            source: error.into(),
        })
    }

    pub(crate) fn open(bytes: &[u8]) -> Result<Self, RunError> {
        frame::decode(bytes, TYPE).map_err(|error| RunError::Stored {
            what: "a stored task cannot be read".into(),
            source: error.into(),
        })
    }
}

/// The stored form of a result. `logged`: the writes to delta channels stand in the checkpoint's logs.
pub(crate) fn store_done(core: &Core, done: &Done, logged: bool) -> Result<RecordState, RunError> {
    let mut writes = Vec::with_capacity(done.writes.len());
    for (channel, write) in &done.writes {
        let Some(spec) = core.channels.get(*channel) else {
            continue;
        };
        let stored = match (spec.kind(), write) {
            (Kind::Untracked, _) => continue,
            (Kind::Delta(_), _) if logged => StoredWrite::Logged,
            (_, Write::Plain(value)) => StoredWrite::Plain(bytes(spec.name(), value)?),
            (_, Write::Overwrite(value)) => StoredWrite::Overwrite(bytes(spec.name(), value)?),
        };
        writes.push((spec.name().to_string(), stored));
    }
    let targets = done.targets.iter().map(|target| store_target(core, target));
    Ok(RecordState::Done {
        writes,
        targets: targets.collect::<Result<_, _>>()?,
    })
}

fn bytes(channel: &str, value: &Value) -> Result<Vec<u8>, RunError> {
    let what = || format!("a write to channel `{channel}` cannot be stored");
    value
        .encode()
        .map_err(|error| crate::error::stored(what())(error))
}

fn store_target(core: &Core, target: &Routed) -> Result<StoredTarget, RunError> {
    Ok(match target {
        Routed::Node(node) => StoredTarget::Node(core.node_name(*node).to_string()),
        Routed::Send(node, payload) => StoredTarget::Send(store_send(core, *node, payload)?),
    })
}

pub(crate) fn store_send(
    core: &Core,
    node: NodeIx,
    payload: &Value,
) -> Result<StoredSend, RunError> {
    let name = core.node_name(node);
    let what = format!("a payload for node `{name}` cannot be stored");
    Ok(StoredSend {
        node: name.to_string(),
        type_name: payload.type_of().name(),
        payload: payload.encode().map_err(crate::error::stored(what))?,
    })
}

/// Reads a result back. `logs` gives the writes that stand in the checkpoint's logs, one by one.
pub(crate) fn load_done(
    core: &Core,
    writes: Vec<(String, StoredWrite)>,
    targets: Vec<StoredTarget>,
    mut logged: impl FnMut(ChannelIx) -> Option<Write>,
) -> Result<Done, RunError> {
    let mut done = Done::default();
    for (name, stored) in writes {
        let channel = core.channel(&name)?;
        let spec = &core.channels[channel];
        let what =
            || crate::error::stored(format!("a stored write to channel `{name}` cannot be read"));
        let write = match stored {
            StoredWrite::Plain(bytes) => {
                Write::Plain(spec.update_type().decode(&bytes).map_err(what())?)
            }
            StoredWrite::Overwrite(bytes) => {
                Write::Overwrite(spec.value_type().decode(&bytes).map_err(what())?)
            }
            StoredWrite::Logged => logged(channel).ok_or_else(|| RunError::Stored {
                what: format!("a write to channel `{name}` is missing from its log"),
                source: "the log is shorter than the tasks say".into(),
            })?,
        };
        done.writes.push((channel, write));
    }
    for target in targets {
        done.targets.push(match target {
            StoredTarget::Node(name) => Routed::Node(core.node(&name)?),
            StoredTarget::Send(send) => {
                let (node, payload) = load_send(core, &send)?;
                Routed::Send(node, payload)
            }
        });
    }
    Ok(done)
}

pub(crate) fn load_send(core: &Core, send: &StoredSend) -> Result<(NodeIx, Value), RunError> {
    let node = core.node(&send.node)?;
    let expected = core.nodes[node].run.payload_type();
    if expected.name() != send.type_name {
        return Err(RunError::Stored {
            what: format!("a stored payload for node `{}` cannot be read", send.node),
            source: format!(
                "it is a `{}`, the node takes `{}`",
                send.type_name,
                expected.name()
            )
            .into(),
        });
    }
    let what = format!("a stored payload for node `{}` cannot be read", send.node);
    let payload = expected
        .decode(&send.payload)
        .map_err(crate::error::stored(what))?;
    Ok((node, payload))
}
