//! Codecs around what is stored: compression, encryption.

#[cfg(feature = "encryption")]
mod aes_gcm;
#[cfg(feature = "zstd")]
mod zstd;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::frame::{self, BINCODE};
use crate::{
    CheckpointId, Checkpointer, Commit, Head, Item, Listed, Loaded, Place, SaveError, Seen, Size,
    StoredTask, StoredThread, Stretch,
};

#[cfg(feature = "encryption")]
pub use aes_gcm::{AesGcm, KeyError};
#[cfg(feature = "zstd")]
pub use zstd::Zstd;

/// Frames may be wrapped so many times.
const MAX_LAYERS: usize = 8;

/// Turns frames into other bytes, and back. What it makes is the payload of an outer frame, which names the codec by its number.
pub trait Codec: Send + Sync + fmt::Debug {
    /// The number in the outer frame. 2 is zstd, 3 is AES-GCM; those from 128 are free for codecs that are not of this crate.
    fn number(&self) -> u8;

    /// What stands for a frame; `None` if the frame had better stay as it is.
    fn encode(&self, frame: &[u8]) -> Result<Option<Vec<u8>>, SaveError>;

    /// The frame, or why it cannot be had.
    fn decode(&self, payload: &[u8]) -> Result<Vec<u8>, String>;
}

/// A checkpointer whose bytes go through codecs on their way to another one, and back through them when they are read.
///
/// What was stored without a codec, or with others of those that are given, is read as well; so a codec can be added at any time.
/// Names are not encoded: those of threads, namespaces and channels, and when something was stored.
///
#[cfg_attr(
    all(feature = "zstd", feature = "encryption"),
    doc = r#"
```
use superstep_checkpoint::{AesGcm, Coded, MemoryCheckpointer, Zstd};

let key = AesGcm::new("2026", [7; 32])?;
// Compressed first, then encrypted.
let store = Coded::new(MemoryCheckpointer::new()).with(Zstd::default()).with(key);
# Ok::<(), superstep_checkpoint::KeyError>(())
```
"#
)]
#[derive(Clone, Debug)]
pub struct Coded<C> {
    inner: C,
    codecs: Vec<Arc<dyn Codec>>,
}

impl<C> Coded<C> {
    /// A checkpointer without codecs.
    pub fn new(inner: C) -> Self {
        Coded {
            inner,
            codecs: Vec::new(),
        }
    }

    /// Adds a codec, around those that there are.
    #[must_use]
    pub fn with(mut self, codec: impl Codec + 'static) -> Self {
        self.codecs.push(Arc::new(codec));
        self
    }

    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), SaveError> {
        for codec in &self.codecs {
            if let Some(coded) = codec.encode(bytes)? {
                *bytes = frame::seal_coded(codec.number(), "", &coded);
            }
        }
        Ok(())
    }

    fn decode(&self, place: &Place, bytes: &mut Vec<u8>) -> Result<(), SaveError> {
        self.unwrap(bytes).map_err(|reason| SaveError::Damaged {
            what: place.to_string(),
            reason,
        })
    }

    /// Takes off layer by layer. Bytes that are no frame stay: whoever wants a frame will say so.
    fn unwrap(&self, bytes: &mut Vec<u8>) -> Result<(), String> {
        for _ in 0..MAX_LAYERS {
            let Ok((number, _, payload)) = frame::parse_coded(bytes) else {
                return Ok(());
            };
            if number == BINCODE {
                return Ok(());
            }
            let known = self.codecs.iter().find(|codec| codec.number() == number);
            let Some(codec) = known else {
                return Err(frame::FrameError::UnknownCodec { found: number }.to_string());
            };
            *bytes = codec.decode(payload)?;
        }
        Err(format!("it is wrapped more than {MAX_LAYERS} times"))
    }

    fn encode_item(&self, item: &mut Item) -> Result<(), SaveError> {
        for bytes in parts(item) {
            self.encode(bytes)?;
        }
        Ok(())
    }

    fn decode_item(&self, place: &Place, item: &mut Item) -> Result<(), SaveError> {
        for bytes in parts(item) {
            self.decode(place, bytes)?;
        }
        Ok(())
    }

    fn decode_tasks<'a>(
        &self,
        place: &Place,
        tasks: impl IntoIterator<Item = &'a mut StoredTask>,
    ) -> Result<(), SaveError> {
        tasks
            .into_iter()
            .try_for_each(|task| self.decode(place, &mut task.record))
    }

    fn encode_tasks<'a>(
        &self,
        tasks: impl IntoIterator<Item = &'a mut StoredTask>,
    ) -> Result<(), SaveError> {
        tasks
            .into_iter()
            .try_for_each(|task| self.encode(&mut task.record))
    }
}

fn parts(item: &mut Item) -> Vec<&mut Vec<u8>> {
    match item {
        Item::Value(bytes) | Item::Log(bytes) => vec![bytes],
        Item::Empty => vec![],
        Item::Snapshot { log, value } => vec![log, value],
    }
}

#[async_trait]
impl<C: Checkpointer> Checkpointer for Coded<C> {
    async fn load(
        &self,
        place: &Place,
        at: Option<CheckpointId>,
    ) -> Result<Option<Loaded>, SaveError> {
        let mut loaded = self.inner.load(place, at).await?;
        if let Some(loaded) = &mut loaded {
            self.decode(place, &mut loaded.header)?;
            for channel in loaded.channels.values_mut() {
                let logs = channel.logs.iter_mut();
                for (_, bytes) in channel.value.iter_mut().chain(logs) {
                    self.decode(place, bytes)?;
                }
            }
            self.decode_tasks(place, &mut loaded.pending)?;
        }
        Ok(loaded)
    }

    async fn head(&self, place: &Place) -> Result<Option<Head>, SaveError> {
        self.inner.head(place).await
    }

    async fn list(
        &self,
        place: &Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<Listed>, SaveError> {
        let mut list = self.inner.list(place, before, limit).await?;
        for listed in &mut list {
            self.decode(place, &mut listed.header)?;
        }
        Ok(list)
    }

    async fn way(&self, place: &Place, from: CheckpointId) -> Result<Vec<Stretch>, SaveError> {
        self.inner.way(place, from).await
    }

    async fn tasks(&self, place: &Place, base: CheckpointId) -> Result<Vec<StoredTask>, SaveError> {
        let mut tasks = self.inner.tasks(place, base).await?;
        self.decode_tasks(place, &mut tasks)?;
        Ok(tasks)
    }

    async fn logs(
        &self,
        place: &Place,
        id: CheckpointId,
    ) -> Result<Vec<(String, Vec<u8>)>, SaveError> {
        let mut logs = self.inner.logs(place, id).await?;
        for (_, bytes) in &mut logs {
            self.decode(place, bytes)?;
        }
        Ok(logs)
    }

    async fn commit(&self, place: &Place, mut commits: Vec<Commit>) -> Result<(), SaveError> {
        for commit in &mut commits {
            self.encode(&mut commit.header)?;
            for (_, item) in &mut commit.items {
                self.encode_item(item)?;
            }
            self.encode_tasks(&mut commit.tasks)?;
        }
        self.inner.commit(place, commits).await
    }

    async fn save_tasks(
        &self,
        place: &Place,
        seen: Seen,
        base: CheckpointId,
        mut tasks: Vec<StoredTask>,
    ) -> Result<(), SaveError> {
        self.encode_tasks(&mut tasks)?;
        self.inner.save_tasks(place, seen, base, tasks).await
    }

    async fn copy_thread(&self, thread: &str, to: &str) -> Result<(), SaveError> {
        self.inner.copy_thread(thread, to).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaveError> {
        self.inner.delete_thread(thread).await
    }

    async fn remove(&self, place: &Place, ids: Vec<CheckpointId>) -> Result<(), SaveError> {
        self.inner.remove(place, ids).await
    }

    async fn places(&self, after: Option<&Place>, limit: usize) -> Result<Vec<Place>, SaveError> {
        self.inner.places(after, limit).await
    }

    async fn export(&self, thread: &str) -> Result<Option<StoredThread>, SaveError> {
        let mut stored = self.inner.export(thread).await?;
        for (namespace, stored) in stored.iter_mut().flat_map(|thread| &mut thread.places) {
            let place = Place {
                thread: thread.into(),
                namespace: namespace.as_str().into(),
            };
            for checkpoint in stored.checkpoints.values_mut() {
                self.decode(&place, &mut checkpoint.header)?;
            }
            for item in stored
                .items
                .values_mut()
                .flat_map(|items| items.values_mut())
            {
                self.decode_item(&place, item)?;
            }
            let tasks = stored.tasks.values_mut();
            self.decode_tasks(&place, tasks.flat_map(|tasks| tasks.values_mut()))?;
        }
        Ok(stored)
    }

    async fn import(&self, thread: &str, mut stored: StoredThread) -> Result<(), SaveError> {
        for stored in stored.places.values_mut() {
            for checkpoint in stored.checkpoints.values_mut() {
                self.encode(&mut checkpoint.header)?;
            }
            for item in stored
                .items
                .values_mut()
                .flat_map(|items| items.values_mut())
            {
                self.encode_item(item)?;
            }
            let tasks = stored.tasks.values_mut();
            self.encode_tasks(tasks.flat_map(|tasks| tasks.values_mut()))?;
        }
        self.inner.import(thread, stored).await
    }

    async fn size(&self, thread: &str) -> Result<Size, SaveError> {
        self.inner.size(thread).await
    }
}
