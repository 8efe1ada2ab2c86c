//! The envelope of everything that is stored: what is inside, in which format, and whether it is whole.
//!
//! | bytes | what |
//! |---|---|
//! | 2 | magic: `C5 53` |
//! | 1 | version of this layout: 1 |
//! | 1 | codec of the payload, see [`Codec`](crate::Codec); 1 is bincode 2, standard configuration |
//! | any | the type's name, UTF-8 |
//! | 1 | `FF`, which UTF-8 never contains |
//! | 1 to 9 | the length of the payload, as bincode writes a `u64` |
//! | as said | payload |
//! | 4 | the low half of XXH3-64 over all bytes before, little endian |
//!
//! ```
//! use superstep_checkpoint::frame;
//!
//! let bytes = frame::encode("Point", &(3u8, 4u8))?;
//! assert_eq!(bytes.len(), 2 + 1 + 1 + "Point".len() + 1 + 1 + 2 + 4);
//! assert_eq!(frame::decode::<(u8, u8)>(&bytes, "Point")?, (3, 4));
//! let error = frame::decode::<(u8, u8)>(&bytes, "Line").unwrap_err();
//! assert_eq!(error.to_string(), "expected a stored `Line`, found a `Point`");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::io::{self, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;
use superstep_channels::CodecError;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 2] = [0xC5, b'S'];
const VERSION: u8 = 1;
pub(crate) const BINCODE: u8 = 1;
pub(crate) const ZSTD: u8 = 2;
pub(crate) const AES_GCM: u8 = 3;
const END_OF_NAME: u8 = 0xFF;

/// No payload may claim more memory than this while it is read.
const MAX_BYTES: usize = 1 << 30;

pub(crate) fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_BYTES>()
}

/// Why bytes are not the frame that was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes do not start like a frame.
    #[error("the bytes are no frame: they do not start with C5 53")]
    NotAFrame,
    /// A later release wrote the frame.
    #[error(
        "the frame has format {found}, the newest known here is {newest}: read it with a newer release"
    )]
    NewerVersion {
        /// The frame's version.
        found: u8,
        /// The newest version this release reads.
        newest: u8,
    },
    /// The payload was written by a codec that this reader was not given.
    #[error("{}", unknown(*found))]
    UnknownCodec {
        /// The number of the codec.
        found: u8,
    },
    /// The bytes changed after they were written, or are cut off.
    #[error("the frame is damaged: {reason}")]
    Damaged {
        /// What does not add up.
        reason: &'static str,
    },
    /// An intact frame with something else inside.
    #[error("expected a stored `{expected}`, found a `{found}`")]
    WrongType {
        /// The type that was to be read.
        expected: String,
        /// The type that is stored.
        found: String,
    },
    /// An intact frame whose payload is no value of its type, as the type is declared today.
    #[error(transparent)]
    Content(#[from] CodecError),
}

/// Wraps an encoded value of the named type.
pub fn seal(type_name: &str, payload: &[u8]) -> Vec<u8> {
    seal_coded(BINCODE, type_name, payload)
}

/// Wraps what a codec made of a frame.
pub(crate) fn seal_coded(codec: u8, type_name: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(type_name.len() + payload.len() + 18);
    bytes.extend(MAGIC);
    bytes.extend([VERSION, codec]);
    bytes.extend(type_name.as_bytes());
    bytes.push(END_OF_NAME);
    write_length(&mut bytes, payload.len());
    bytes.extend(payload);
    bytes.extend(checksum(&bytes));
    bytes
}

/// As bincode writes a `u64`: small numbers in one byte, others behind a byte that says how many follow.
fn write_length(bytes: &mut Vec<u8>, length: usize) {
    match length {
        0..=250 => bytes.push(length as u8),
        251..=0xFFFF => {
            bytes.push(251);
            bytes.extend((length as u16).to_le_bytes());
        }
        0x1_0000..=0xFFFF_FFFF => {
            bytes.push(252);
            bytes.extend((length as u32).to_le_bytes());
        }
        _ => {
            bytes.push(253);
            bytes.extend((length as u64).to_le_bytes());
        }
    }
}

/// The length that bytes begin with, and what comes after it.
fn read_length(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (size, rest) = match first {
        0..=250 => return Some((u64::from(first), rest)),
        251 => rest.split_at_checked(2)?,
        252 => rest.split_at_checked(4)?,
        253 => rest.split_at_checked(8)?,
        _ => return None,
    };
    let mut number = [0; 8];
    number[..size.len()].copy_from_slice(size);
    Some((u64::from_le_bytes(number), rest))
}

/// The payload of a frame, if it is intact and of the expected type.
pub fn open<'a>(bytes: &'a [u8], expected_type: &str) -> Result<&'a [u8], FrameError> {
    open_as(bytes, expected_type, |found| found == expected_type).map(|(_, payload)| payload)
}

/// The name of the type inside an intact frame.
pub fn type_name(bytes: &[u8]) -> Result<&str, FrameError> {
    parse(bytes).map(|(name, _)| name)
}

/// The name of the type inside an intact frame, and the payload.
/// `reads` says whether a type of that name can be read in place of the expected one.
pub fn open_as<'a>(
    bytes: &'a [u8],
    expected_type: &str,
    reads: impl FnOnce(&str) -> bool,
) -> Result<(&'a str, &'a [u8]), FrameError> {
    let (found, payload) = parse(bytes)?;
    if reads(found) {
        return Ok((found, payload));
    }
    Err(FrameError::WrongType {
        expected: expected_type.to_owned(),
        found: found.to_owned(),
    })
}

/// Encodes a value and wraps it under the given name.
pub fn encode<T: Serialize>(type_name: &str, value: &T) -> Result<Vec<u8>, CodecError> {
    let payload = bincode::serde::encode_to_vec(value, config()).map_err(failed(type_name))?;
    Ok(seal(type_name, &payload))
}

/// The value in a frame of the expected type; all of the payload must be used up.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], expected_type: &str) -> Result<T, FrameError> {
    let payload = open(bytes, expected_type)?;
    let (value, used) =
        bincode::serde::decode_from_slice(payload, config()).map_err(failed(expected_type))?;
    used_up(payload.len() - used, expected_type)?;
    Ok(value)
}

/// The next frame of a stream of frames, as it stands there; nothing at the end of the stream.
/// Only as much memory is taken as bytes come in.
pub(crate) fn read_from(from: &mut dyn Read) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let mut more = |bytes: &mut Vec<u8>, count: u64| {
        let read = from.take(count).read_to_end(bytes)?;
        Ok::<_, io::Error>(read as u64 == count)
    };
    // Up to the end of the name; then the length, byte by byte. What is cut off is found to be so when it is parsed.
    while bytes.last() != Some(&END_OF_NAME) || bytes.len() < 5 {
        if !more(&mut bytes, 1)? {
            return Ok((!bytes.is_empty()).then_some(bytes));
        }
    }
    let named = bytes.len();
    loop {
        if !more(&mut bytes, 1)? {
            return Ok(Some(bytes));
        }
        if let Some((length, _)) = read_length(&bytes[named..]) {
            more(&mut bytes, length.saturating_add(4))?;
            return Ok(Some(bytes));
        }
        if bytes.len() > named + 9 {
            return Ok(Some(bytes));
        }
    }
}

pub(crate) fn failed<E: fmt::Display>(type_name: &str) -> impl Fn(E) -> CodecError {
    move |error| CodecError {
        type_name: type_name.to_owned(),
        reason: error.to_string(),
    }
}

pub(crate) fn used_up(left: usize, type_name: &str) -> Result<(), CodecError> {
    match left {
        0 => Ok(()),
        left => Err(failed(type_name)(format!("{left} bytes left over"))),
    }
}

/// Splits a frame of bincode into the type's name and the payload.
fn parse(bytes: &[u8]) -> Result<(&str, &[u8]), FrameError> {
    match parse_coded(bytes)? {
        (BINCODE, name, payload) => Ok((name, payload)),
        (found, ..) => Err(FrameError::UnknownCodec { found }),
    }
}

/// Splits a frame into its codec, the type's name and the payload.
/// The version comes first, since it says where the rest stands; then the checksum, since nothing else is believed before it.
pub(crate) fn parse_coded(bytes: &[u8]) -> Result<(u8, &str, &[u8]), FrameError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(FrameError::NotAFrame)?;
    match rest.first() {
        Some(&VERSION) => {}
        Some(&found) if found > VERSION => {
            return Err(FrameError::NewerVersion {
                found,
                newest: VERSION,
            });
        }
        _ => return Err(damaged("its version is missing")),
    }
    let (body, sum) = bytes
        .split_last_chunk::<4>()
        .ok_or(damaged("it is cut off"))?;
    if *sum != checksum(body) {
        return Err(damaged("its checksum does not fit"));
    }
    let Some([codec, named @ ..]) = body.get(3..) else {
        return Err(damaged("it is cut off"));
    };
    let (name, rest) = split_name(named)?;
    match read_length(rest) {
        Some((length, payload)) if length == payload.len() as u64 => Ok((*codec, name, payload)),
        _ => Err(damaged("it is not as long as it says")),
    }
}

fn split_name(named: &[u8]) -> Result<(&str, &[u8]), FrameError> {
    let mut parts = named.splitn(2, |byte| *byte == END_OF_NAME);
    let name = parts.next().and_then(|name| str::from_utf8(name).ok());
    name.zip(parts.next())
        .ok_or(damaged("the name of its type cannot be read"))
}

fn unknown(codec: u8) -> String {
    let name = match codec {
        ZSTD => " (zstd)",
        AES_GCM => " (AES-GCM)",
        _ => "",
    };
    format!(
        "the frame's payload has codec {codec}{name}: read it through a checkpointer that knows it"
    )
}

fn damaged(reason: &'static str) -> FrameError {
    FrameError::Damaged { reason }
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = xxh3_64(bytes).to_le_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A correct checksum over whatever stands before it.
    fn with_checksum(mut body: Vec<u8>) -> Vec<u8> {
        body.extend(checksum(&body));
        body
    }

    #[test]
    fn the_layout_stays() {
        let bytes = seal("u8", &[7]);
        assert_eq!(
            bytes,
            with_checksum(vec![0xC5, 0x53, 1, 1, b'u', b'8', 0xFF, 1, 7])
        );
        // Fixed: what a release has written stays readable.
        assert_eq!(
            bytes.split_last_chunk::<4>().unwrap().1,
            &[155, 106, 34, 136]
        );
    }

    #[test]
    fn each_failure_has_its_name() {
        let cases: [(&[u8], &str); 7] = [
            (b"", "the bytes are no frame: they do not start with C5 53"),
            (
                b"{\"json\":1}",
                "the bytes are no frame: they do not start with C5 53",
            ),
            (&MAGIC, "the frame is damaged: its version is missing"),
            (
                &[0xC5, 0x53, 9, 0],
                "the frame has format 9, the newest known here is 1: read it with a newer release",
            ),
            (
                &[0xC5, 0x53, 1, 0],
                "the frame is damaged: its checksum does not fit",
            ),
            (
                &with_checksum(vec![0xC5, 0x53, 1]),
                "the frame is damaged: it is cut off",
            ),
            (
                &with_checksum(vec![0xC5, 0x53, 1, 2, 0xFF, 0]),
                "the frame's payload has codec 2 (zstd): read it through a checkpointer that knows it",
            ),
        ];
        for (bytes, text) in cases {
            assert_eq!(
                open(bytes, "u8").unwrap_err().to_string(),
                text,
                "{bytes:02x?}"
            );
        }
    }

    #[test]
    fn a_name_without_end_or_not_in_utf8_is_an_error() {
        for named in [&b"u8"[..], b"\xC0\x80\xFF", b""] {
            let body = [&[0xC5, 0x53, 1, 1], named].concat();
            let error = type_name(&with_checksum(body)).unwrap_err();
            assert_eq!(
                error.to_string(),
                "the frame is damaged: the name of its type cannot be read"
            );
        }
    }

    #[test]
    fn lengths_come_back_and_are_bincodes() {
        for length in [0, 250, 251, 0xFFFF, 0x1_0000, 0xFFFF_FFFF, 0x1_0000_0000] {
            let mut bytes = Vec::new();
            write_length(&mut bytes, length);
            let bincode = bincode::encode_to_vec(length as u64, config()).unwrap();
            assert_eq!(bytes, bincode);
            assert_eq!(read_length(&bytes), Some((length as u64, &[][..])));
        }
        assert_eq!(read_length(&[251, 1]), None);
        assert_eq!(read_length(&[254]), None);
    }

    #[test]
    fn a_frame_that_is_not_as_long_as_it_says_is_an_error() {
        for length in [0, 2, 251, 255] {
            let bytes = with_checksum(vec![0xC5, 0x53, 1, 1, 0xFF, length, 7]);
            assert_eq!(
                type_name(&bytes).unwrap_err().to_string(),
                "the frame is damaged: it is not as long as it says"
            );
        }
    }

    #[test]
    fn bytes_left_over_are_an_error() {
        let error = decode::<u8>(&seal("u8", &[7, 7]), "u8").unwrap_err();
        assert_eq!(error.to_string(), "u8: 1 bytes left over");
    }

    proptest! {
        #[test]
        fn what_is_sealed_can_be_opened(name in ".{0,300}", payload: Vec<u8>) {
            let bytes = seal(&name, &payload);
            prop_assert_eq!(open(&bytes, &name).unwrap(), &payload[..]);
            prop_assert_eq!(type_name(&bytes).unwrap(), name);
        }

        #[test]
        fn a_changed_bit_is_noticed(payload: Vec<u8>, bit: prop::sample::Index) {
            let mut bytes = seal("Vec<u8>", &payload);
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(open(&bytes, "Vec<u8>").is_err());
        }

        #[test]
        fn a_cut_frame_is_noticed(payload: Vec<u8>, length: prop::sample::Index) {
            let bytes = seal("Vec<u8>", &payload);
            prop_assert!(open(&bytes[..length.index(bytes.len())], "Vec<u8>").is_err());
        }

        #[test]
        fn hostile_bytes_give_an_error_or_a_name(body: Vec<u8>) {
            let mut bytes = vec![0xC5, 0x53, 1, 1];
            bytes.extend(body);
            let _ = type_name(&with_checksum(bytes));
        }
    }
}
