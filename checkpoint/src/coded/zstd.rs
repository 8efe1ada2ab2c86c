//! Compression.

use std::io::Read;

use zstd::stream::read::Decoder;

use super::Codec;
use crate::SaveError;
use crate::frame::ZSTD;

/// No frame may claim more memory than this when it is decompressed.
const MAX_BYTES: u64 = 1 << 30;

/// Compresses with zstd what gets smaller by it.
#[derive(Clone, Copy, Debug)]
pub struct Zstd {
    level: i32,
}

impl Zstd {
    /// A level from 1, which is the fastest, to 22, which is the smallest; others stand for the nearest of these.
    pub fn level(level: i32) -> Self {
        Zstd {
            level: level.clamp(1, 22),
        }
    }
}

impl Default for Zstd {
    /// Level 3.
    fn default() -> Self {
        Zstd::level(3)
    }
}

impl Codec for Zstd {
    fn number(&self) -> u8 {
        ZSTD
    }

    fn encode(&self, frame: &[u8]) -> Result<Option<Vec<u8>>, SaveError> {
        let compressed = zstd::bulk::compress(frame, self.level);
        let compressed = compressed.map_err(|error| SaveError::Backend {
            what: "compressing".into(),
            source: error.into(),
        })?;
        // The outer frame has its cost.
        Ok((compressed.len() + 16 < frame.len()).then_some(compressed))
    }

    fn decode(&self, payload: &[u8]) -> Result<Vec<u8>, String> {
        let mut frame = Vec::new();
        let decoder = Decoder::with_buffer(payload).map_err(|error| error.to_string())?;
        let read = decoder.take(MAX_BYTES + 1).read_to_end(&mut frame);
        match read.map_err(|error| format!("it cannot be decompressed: {error}"))? as u64 {
            0..=MAX_BYTES => Ok(frame),
            _ => Err("it is larger than a gigabyte when it is decompressed".into()),
        }
    }
}
