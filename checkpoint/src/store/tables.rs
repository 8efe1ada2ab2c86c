//! Entries as tables hold them.

use superstep_channels::Json;

use super::{Namespace, Row};
use crate::{SaveError, frame};

const DOCUMENT: &str = "Json";
const VECTORS: &str = "Vec<Vec<f32>>";

impl Row {
    /// The framed document, and the framed vectors if there are any.
    pub(crate) fn sealed(&self) -> Result<(Vec<u8>, Option<Vec<u8>>), SaveError> {
        let failed = |error: superstep_channels::CodecError| SaveError::Backend {
            what: format!("encoding entry `{}` of {}", self.key, self.namespace),
            source: error.into(),
        };
        let document = frame::encode(DOCUMENT, &Json(self.value.clone())).map_err(failed)?;
        let vectors = match self.vectors.is_empty() {
            true => None,
            false => Some(frame::encode(VECTORS, &self.vectors).map_err(failed)?),
        };
        Ok((document, vectors))
    }
}

/// A row as tables hold it.
pub(crate) struct StoredRow {
    pub(crate) namespace: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) ttl: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) vectors: Option<Vec<u8>>,
}

impl StoredRow {
    /// The row, or what is wrong with it.
    pub(crate) fn open(self) -> Result<Row, String> {
        let namespace = stored_namespace(&self.namespace)?;
        let key = String::from_utf8(self.key);
        let key = key.map_err(|_| format!("a key in {namespace} is no text"))?;
        let named = |error: frame::FrameError| format!("entry `{key}` of {namespace}: {error}");
        let Json(value) = frame::decode(&self.value, DOCUMENT).map_err(named)?;
        let vectors = self.vectors.map(|bytes| frame::decode(&bytes, VECTORS));
        let vectors = vectors.transpose().map_err(named)?.unwrap_or_default();
        Ok(Row {
            namespace,
            key,
            value,
            created: self.created,
            updated: self.updated,
            ttl: self.ttl,
            expires: self.expires,
            vectors,
        })
    }
}

/// Reads a namespace as tables hold it.
pub(crate) fn stored_namespace(bytes: &[u8]) -> Result<Namespace, String> {
    Namespace::decode(bytes).ok_or_else(|| "a namespace of the store cannot be read".into())
}

impl Namespace {
    /// Bytes that sort as namespaces do, and of which those of a prefix are a prefix: each segment with 00 written as 00 FF, and behind it 00 01.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in &self.0 {
            for byte in segment.bytes() {
                bytes.push(byte);
                if byte == 0 {
                    bytes.push(0xFF);
                }
            }
            bytes.extend([0, 1]);
        }
        bytes
    }

    /// Reads [`encode`](Namespace::encode)'s bytes back.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut segments, mut segment) = (Vec::new(), Vec::new());
        let mut rest = bytes.iter();
        while let Some(&byte) = rest.next() {
            match (byte, if byte == 0 { rest.next() } else { None }) {
                (0, Some(0xFF)) => segment.push(0),
                (0, Some(1)) => {
                    segments.push(String::from_utf8(std::mem::take(&mut segment)).ok()?);
                }
                (0, _) => return None,
                (byte, _) => segment.push(byte),
            }
        }
        segment.is_empty().then_some(Namespace(segments))
    }

    /// The least bytes that are greater than all that begin with these; nothing if there are none.
    pub(crate) fn end(&self) -> Option<Vec<u8>> {
        let mut bytes = self.encode();
        // The last one is 01.
        *bytes.last_mut()? += 1;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn namespaces() -> impl Strategy<Value = Namespace> {
        let segment = prop_oneof!["[a-c\0\u{1}]{1,3}", any::<String>()];
        prop::collection::vec(segment, 0..4).prop_map(Namespace)
    }

    proptest! {
        #[test]
        fn bytes_come_back_and_sort_as_namespaces_do(one in namespaces(), two in namespaces()) {
            let (first, second) = (one.encode(), two.encode());
            prop_assert_eq!(Namespace::decode(&first), Some(one.clone()));
            prop_assert_eq!(first.cmp(&second), one.cmp(&two));
            let within = first >= second && two.end().is_none_or(|end| first < end);
            prop_assert_eq!(within, one.is_under(&two));
        }

        #[test]
        fn hostile_bytes_are_nothing(bytes: Vec<u8>) {
            if let Some(namespace) = Namespace::decode(&bytes) {
                prop_assert_eq!(namespace.encode(), bytes);
            }
        }
    }
}
