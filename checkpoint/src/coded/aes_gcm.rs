//! Encryption.

use std::collections::BTreeMap;
use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

use super::Codec;
use crate::SaveError;
use crate::frame::AES_GCM;

/// Encrypts with AES-256-GCM: whoever has no key can neither read what is stored nor change it unnoticed.
///
/// The payload is the length of the key's name in a byte, the name, a random nonce of 12 bytes, and the encrypted frame with its tag.
/// With random nonces a key is good for 2^32 frames; take a new one long before. Frames are not bound to their place: whoever can
/// write to the store can put an older frame in the place of a newer one.
///
/// ```
/// use superstep_checkpoint::AesGcm;
///
/// // New frames are encrypted with the key of 2027; those of 2026 can still be read.
/// let keys = AesGcm::new("2027", [8; 32])?.and("2026", [7; 32])?;
/// # Ok::<(), superstep_checkpoint::KeyError>(())
/// ```
pub struct AesGcm {
    current: String,
    keys: BTreeMap<String, LessSafeKey>,
    random: SystemRandom,
}

/// Why a key cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The name does not fit into a frame.
    #[error("the name of a key has at most 255 bytes, this one has {0}")]
    LongName(usize),
    /// There are two of that name.
    #[error("there are two keys named `{0}`")]
    Twice(String),
}

impl AesGcm {
    /// Encrypts with a key, and decrypts what was encrypted with it. The name goes into every frame, and must not be a secret.
    pub fn new(name: impl Into<String>, key: [u8; 32]) -> Result<Self, KeyError> {
        let name = name.into();
        let keys = AesGcm {
            current: name.clone(),
            keys: BTreeMap::new(),
            random: SystemRandom::new(),
        };
        keys.and(name, key)
    }

    /// Decrypts as well what was encrypted with another key, which is an older one.
    pub fn and(mut self, name: impl Into<String>, key: [u8; 32]) -> Result<Self, KeyError> {
        let name = name.into();
        if name.len() > 255 {
            return Err(KeyError::LongName(name.len()));
        }
        // Any 32 bytes are a key.
        if let Ok(key) = UnboundKey::new(&AES_256_GCM, &key) {
            let before = self.keys.insert(name.clone(), LessSafeKey::new(key));
            if before.is_some() {
                return Err(KeyError::Twice(name));
            }
        }
        Ok(self)
    }
}

impl fmt::Debug for AesGcm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AesGcm({})", self.current)
    }
}

impl Codec for AesGcm {
    fn number(&self) -> u8 {
        AES_GCM
    }

    fn encode(&self, frame: &[u8]) -> Result<Option<Vec<u8>>, SaveError> {
        let failed = |_| SaveError::Backend {
            what: "encrypting".into(),
            source: "there are no random numbers, or the frame is too long".into(),
        };
        let Some(key) = self.keys.get(&self.current) else {
            return Err(failed(ring::error::Unspecified));
        };
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(failed)?;
        let mut sealed = frame.to_vec();
        let aad = Aad::from(self.current.as_bytes());
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .map_err(failed)?;
        let name = self.current.as_bytes();
        Ok(Some([&[name.len() as u8], name, &nonce, &sealed].concat()))
    }

    fn decode(&self, payload: &[u8]) -> Result<Vec<u8>, String> {
        let cut = || "what is encrypted is cut off".to_owned();
        let (&length, rest) = payload.split_first().ok_or_else(cut)?;
        let (name, rest) = rest.split_at_checked(usize::from(length)).ok_or_else(cut)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(cut)?;
        let name = String::from_utf8_lossy(name);
        let key = self.keys.get(&*name);
        let key = key
            .ok_or_else(|| format!("it is encrypted with the key `{name}`, which is not given"))?;
        let mut frame = sealed.to_vec();
        let aad = Aad::from(name.as_bytes());
        let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut frame);
        let opened = opened.map_err(|_| format!("it cannot be decrypted with the key `{name}`: the key is another one, or it was changed"))?;
        let length = opened.len();
        frame.truncate(length);
        Ok(frame)
    }
}
