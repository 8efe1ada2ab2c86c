//! What is stored of a task.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use superstep_channels::{Json, Write};
use superstep_checkpoint::frame;

use crate::ask::{Answered, Ask, AskId};
use crate::error::RunError;
use crate::graph::{ChannelIx, Core, NodeIx};
use superstep_channels::{CodecError, Kind, Value};

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
    pub(crate) answers: Vec<(AskId, Answered)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum RecordState {
    Open,
    /// It failed for good, and its error handler runs in its place.
    Failed,
    /// A routine or a step that gave this.
    Returned {
        value: TypedBytes,
    },
    Done {
        writes: Vec<(String, StoredWrite)>,
        targets: Vec<StoredTarget>,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum StoredWrite {
    Plain(TypedBytes),
    Overwrite(TypedBytes),
    /// It stands in the channel's log of the checkpoint that the task made.
    Logged,
}

/// How large the largest bytes were that were seen to come back, for one channel or node.
#[derive(Debug, Default)]
pub(crate) struct Proof(AtomicUsize);

impl Proof {
    /// The bytes of a value, if they can be read back. Some serde attributes (`skip_serializing_if`, `untagged`,
    /// `flatten`) write what a binary format cannot read; better to learn that now than when the thread is opened.
    /// Only bytes twice as long as any before are tried, so it costs little against writing them.
    pub(crate) fn encode(&self, value: &Value) -> Result<Vec<u8>, CodecError> {
        let bytes = value.encode()?;
        self.check(&bytes, || {
            value.type_of().decode(&bytes).map(drop).map_err(lost)
        })?;
        Ok(bytes)
    }

    /// Tries to read bytes back, if none as long were tried before.
    pub(crate) fn check<E>(
        &self,
        bytes: &[u8],
        read: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if bytes.len() > 2 * self.0.load(Ordering::Relaxed) {
            read()?;
            self.0.fetch_max(bytes.len(), Ordering::Relaxed);
        }
        Ok(())
    }
}

fn lost(error: CodecError) -> CodecError {
    CodecError {
        reason: format!(
            "it can be written but not read back ({}): `skip_serializing_if`, `untagged`, `flatten` and a bare \
             `serde_json::Value` do not go with a binary format",
            error.reason
        ),
        ..error
    }
}

/// A value without a frame, inside one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TypedBytes {
    type_name: String,
    bytes: Vec<u8>,
}

impl TypedBytes {
    fn new(value: &Value, proof: &Proof) -> Result<Self, CodecError> {
        Ok(TypedBytes {
            type_name: value.type_of().name().to_owned(),
            bytes: proof.encode(value)?,
        })
    }

    /// A value that is seen to come back from its bytes.
    pub(crate) fn checked(value: &Value) -> Result<Self, CodecError> {
        TypedBytes::new(value, &Proof::default())
    }

    /// Reads the value back: `read` gets the name of its type and its bytes.
    pub(crate) fn read(
        &self,
        read: impl FnOnce(&str, &[u8]) -> Result<Value, CodecError>,
    ) -> Result<Value, CodecError> {
        read(&self.type_name, &self.bytes)
    }
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
    pub(crate) payload: TypedBytes,
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

    /// Answers a question that is open.
    pub(crate) fn answer(&mut self, id: AskId, answer: Json) {
        if let Some(ask) = self.asks.iter().find(|ask| ask.id == id) {
            let question = ask.payload.clone();
            self.answers.push((id, Answered { question, answer }));
        }
    }

    /// The questions that have no answer yet.
    pub(crate) fn open_asks(&self) -> impl Iterator<Item = &Ask> {
        let answered = |ask: &&Ask| self.answers.iter().any(|(id, _)| *id == ask.id);
        let open = matches!(self.state, RecordState::Open);
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
            (_, Write::Plain(value)) => {
                let proof = &core.proofs.updates[*channel];
                StoredWrite::Plain(bytes(spec.name(), value, proof)?)
            }
            (_, Write::Overwrite(value)) => {
                let proof = &core.proofs.values[*channel];
                StoredWrite::Overwrite(bytes(spec.name(), value, proof)?)
            }
        };
        writes.push((spec.name().to_string(), stored));
    }
    let targets = done.targets.iter().map(|target| store_target(core, target));
    Ok(RecordState::Done {
        writes,
        targets: targets.collect::<Result<_, _>>()?,
    })
}

fn bytes(channel: &str, value: &Value, proof: &Proof) -> Result<TypedBytes, RunError> {
    let what = || format!("a write to channel `{channel}` cannot be stored");
    TypedBytes::new(value, proof).map_err(|error| crate::error::stored(what())(error))
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
        payload: TypedBytes::new(payload, &core.proofs.payloads[node])
            .map_err(crate::error::stored(what))?,
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
        let Some(channel) = core.channel(&name)? else {
            continue;
        };
        let spec = &core.channels[channel];
        let what =
            || crate::error::stored(format!("a stored write to channel `{name}` cannot be read"));
        let write = match stored {
            StoredWrite::Plain(written) => Write::Plain(
                written
                    .read(|stored, bytes| spec.read_update(stored, bytes))
                    .map_err(what())?,
            ),
            StoredWrite::Overwrite(written) => Write::Overwrite(
                written
                    .read(|stored, bytes| spec.read_value(stored, bytes))
                    .map_err(what())?,
            ),
            StoredWrite::Logged => logged(channel).ok_or_else(|| RunError::Stored {
                what: format!("a write to channel `{name}` is missing from its log"),
                source: "the log is shorter than the tasks say".into(),
            })?,
        };
        done.writes.push((channel, write));
    }
    for target in targets {
        done.targets.extend(match target {
            StoredTarget::Node(name) => core.node(&name)?.map(Routed::Node),
            StoredTarget::Send(send) => {
                let found = load_send(core, &send)?;
                found.map(|(node, payload)| Routed::Send(node, payload))
            }
        });
    }
    Ok(done)
}

/// Reads a payload back with its node; nothing if the node is gone and may be left out.
pub(crate) fn load_send(
    core: &Core,
    send: &StoredSend,
) -> Result<Option<(NodeIx, Value)>, RunError> {
    let Some(at) = core.node(&send.node)? else {
        return Ok(None);
    };
    let node = &core.nodes[at];
    let what = format!("a stored payload for node `{}` cannot be read", send.node);
    let wanted = node.run.payload_type();
    let payload = send
        .payload
        .read(|stored, bytes| node.payloads.read(stored, bytes, wanted));
    Ok(Some((at, payload.map_err(crate::error::stored(what))?)))
}
