//! What was written to one delta channel in one checkpoint.
//!
//! The payload of the frame is the number of batches, and for each the number of its writes,
//! and for each write whether it overwrites, and its bytes. All numbers are bincode integers.

use bincode::BorrowDecode;
use superstep_channels::{ChannelSpec, CodecError, Value, Write};

use crate::frame::{self, FrameError};

/// Encodes the writes of one delta channel, framed under the name of the channel's update type.
///
/// A checkpoint normally has one batch: the writes of its superstep. It has more when the state was edited before
/// the superstep ran. Each batch is folded on its own, because an overwrite drops the other writes of its batch.
///
/// The writes must be such as the channel's cell accepts. An overwrite is a frame within the frame,
/// since it holds the value type, which may differ from the update type.
pub fn encode_log(update_type: &str, batches: &[Vec<Write>]) -> Result<Vec<u8>, CodecError> {
    let batches = batches
        .iter()
        .map(|batch| batch.iter().map(encode_write).collect())
        .collect::<Result<Vec<Vec<(bool, Vec<u8>)>>, _>>()?;
    let payload =
        bincode::encode_to_vec(batches, frame::config()).map_err(frame::failed(update_type))?;
    Ok(frame::seal(update_type, &payload))
}

fn encode_write(write: &Write) -> Result<(bool, Vec<u8>), CodecError> {
    let bytes = write.value().encode()?;
    Ok(match write {
        Write::Plain(_) => (false, bytes),
        Write::Overwrite(value) => (true, frame::seal(value.type_of().name(), &bytes)),
    })
}

/// Reads the batches of [`encode_log`] back, as the types that the channel has now.
pub fn decode_log(bytes: &[u8], spec: &ChannelSpec) -> Result<Vec<Vec<Write>>, FrameError> {
    let expected = spec.update_type().name();
    let (stored, payload) = frame::open_as(bytes, expected, |stored| spec.reads_update(stored))?;
    let mut reader = Reader {
        rest: payload,
        type_name: stored,
    };
    let write = |reader: &mut Reader<'_>| decode_write(reader.next()?, stored, spec);
    let batches = reader.list(|reader| reader.list(write))?;
    frame::used_up(reader.rest.len(), stored)?;
    Ok(batches)
}

fn decode_write(
    (overwrites, bytes): (bool, &[u8]),
    stored: &str,
    spec: &ChannelSpec,
) -> Result<Write, FrameError> {
    Ok(match overwrites {
        false => Write::Plain(spec.read_update(stored, bytes)?),
        true => Write::Overwrite(decode_value(bytes, spec)?),
    })
}

/// Reads the frame of a channel's value back, as the type that the channel has now.
pub fn decode_value(bytes: &[u8], spec: &ChannelSpec) -> Result<Value, FrameError> {
    let expected = spec.value_type().name();
    let (stored, payload) = frame::open_as(bytes, expected, |stored| spec.reads_value(stored))?;
    Ok(spec.read_value(stored, payload)?)
}

/// Reads a payload item by item, so that a hostile count claims no memory before its items are there.
struct Reader<'a> {
    rest: &'a [u8],
    type_name: &'a str,
}

impl<'a> Reader<'a> {
    fn next<T: BorrowDecode<'a, ()>>(&mut self) -> Result<T, CodecError> {
        let (item, used) = bincode::borrow_decode_from_slice(self.rest, frame::config())
            .map_err(frame::failed(self.type_name))?;
        self.rest = self.rest.get(used..).unwrap_or_default();
        Ok(item)
    }

    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, FrameError>,
    ) -> Result<Vec<T>, FrameError> {
        let length: u64 = self.next()?;
        (0..length).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use superstep_channels::append;

    use super::*;

    /// Appends one number at a time, so that update and value have different types.
    fn numbers() -> ChannelSpec {
        ChannelSpec::reduce::<Vec<u32>, u32>("numbers", |list: &mut Vec<u32>, item| list.push(item))
    }

    fn plain(item: u32) -> Write {
        Write::Plain(Value::new(item))
    }

    fn overwrite(list: Vec<u32>) -> Write {
        Write::Overwrite(Value::new(list))
    }

    fn any_write() -> impl Strategy<Value = Write> {
        prop_oneof![
            any::<u32>().prop_map(plain),
            any::<Vec<u32>>().prop_map(overwrite),
        ]
    }

    fn any_batches() -> impl Strategy<Value = Vec<Vec<Write>>> {
        prop::collection::vec(prop::collection::vec(any_write(), 0..5), 0..5)
    }

    #[test]
    fn one_small_write_costs_four_bytes_beside_the_frame() {
        let log = encode_log("u32", &[vec![plain(7)]]).unwrap();
        assert_eq!(frame::open(&log, "u32").unwrap(), [1, 1, 0, 1, 7]);
    }

    #[test]
    fn a_log_of_another_type_is_refused() {
        let log = encode_log("u32", &[vec![plain(7)]]).unwrap();
        let texts = ChannelSpec::reduce::<Vec<String>, Vec<String>>("texts", append);
        let error = decode_log(&log, &texts).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a stored `Vec<String>`, found a `u32`"
        );
    }

    #[test]
    fn an_overwrite_of_another_type_is_refused() {
        let log = encode_log("u32", &[vec![overwrite(vec![1])]]).unwrap();
        let sum =
            ChannelSpec::reduce::<u64, u32>("sum", |sum: &mut u64, item| *sum += u64::from(item));
        let error = decode_log(&log, &sum).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a stored `u64`, found a `Vec<u32>`"
        );
    }

    #[test]
    fn hostile_counts_are_errors_not_allocations() {
        for payload in [
            &[253, 255, 255, 255, 255, 255, 255, 255, 127][..],
            &[1, 252, 255, 255, 255, 255],
            &[],
        ] {
            let error = decode_log(&frame::seal("u32", payload), &numbers()).unwrap_err();
            assert!(matches!(error, FrameError::Content(_)), "{error}");
        }
    }

    #[test]
    fn bytes_left_over_are_an_error() {
        let error = decode_log(&frame::seal("u32", &[0, 9]), &numbers()).unwrap_err();
        assert_eq!(error.to_string(), "u32: 1 bytes left over");
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(batches in any_batches()) {
            let log = encode_log("u32", &batches).unwrap();
            let back = decode_log(&log, &numbers()).unwrap();
            prop_assert_eq!(format!("{back:?}"), format!("{batches:?}"));
        }

        #[test]
        fn hostile_bytes_give_an_error_or_a_log(bytes: Vec<u8>) {
            let _ = decode_log(&frame::seal("u32", &bytes), &numbers());
        }

        #[test]
        fn a_changed_log_within_an_intact_frame_gives_an_error_or_a_log(
            batches in any_batches(),
            at: prop::sample::Index,
            byte: u8,
        ) {
            let log = encode_log("u32", &batches).unwrap();
            let mut payload = frame::open(&log, "u32").unwrap().to_vec();
            let at = at.index(payload.len());
            payload[at] = byte;
            let _ = decode_log(&frame::seal("u32", &payload), &numbers());
        }
    }
}
