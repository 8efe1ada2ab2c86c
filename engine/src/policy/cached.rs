//! Results that are kept for equal inputs.

use std::sync::Arc;
use std::time::Duration;

use superstep_channels::{CodecError, Value};
use superstep_checkpoint::{Cache, CacheKey};
use xxhash_rust::xxh3::Xxh3;

use crate::graph::{Core, NodeDef};
use crate::node::TaskInput;

/// Where results of a node are kept for equal inputs, and for how long.
///
/// A result is found again by the graph's name, the node's name, the version given here, and the bytes of the
/// input: the channels that the node reads, or what was sent to it. So let a cached node read no more than it needs.
/// What it kept includes where the node went next. All threads share what is kept.
#[derive(Clone, Debug)]
pub struct Cached {
    pub(crate) store: Arc<dyn Cache>,
    pub(crate) ttl: Option<Duration>,
    version: u32,
}

impl Cached {
    /// Keeps results in `store` for as long as it keeps them.
    pub fn new<C: Cache + Clone + 'static>(store: &C) -> Self {
        Cached {
            store: Arc::new(store.clone()),
            ttl: None,
            version: 0,
        }
    }

    /// Forgets a result after this long.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The version of what the node computes: results of another version are not found.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }
}

/// The key of a node's result for an input.
pub(crate) fn key(
    core: &Core,
    node: &NodeDef,
    cached: &Cached,
    input: &TaskInput,
) -> Result<CacheKey, CodecError> {
    let mut hash = Xxh3::new();
    let mut part = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(core.name.as_bytes());
    part(node.name.as_bytes());
    part(&cached.version.to_be_bytes());
    match input {
        TaskInput::Payload(payload) => {
            part(payload.type_of().name().as_bytes());
            part(&payload.encode()?);
        }
        TaskInput::State(fields) => {
            for (name, value) in fields.iter() {
                part(name.as_bytes());
                part(value.type_of().name().as_bytes());
                part(&value.encode()?);
            }
        }
    }
    Ok(CacheKey(hash.digest128().to_be_bytes()))
}

/// The key of a routine's result for an argument.
pub(crate) fn call_key(
    graph: &str,
    name: &str,
    cached: &Cached,
    argument: &Value,
) -> Result<CacheKey, CodecError> {
    let mut hash = Xxh3::new();
    let (type_name, bytes) = (argument.type_of().name(), argument.encode()?);
    let parts: [&[u8]; 6] = [
        b"routine",
        graph.as_bytes(),
        name.as_bytes(),
        &cached.version.to_be_bytes(),
        type_name.as_bytes(),
        &bytes,
    ];
    for part in parts {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    Ok(CacheKey(hash.digest128().to_be_bytes()))
}
