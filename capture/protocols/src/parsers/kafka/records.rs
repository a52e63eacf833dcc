//! Record batches, the form in which messages lie in requests and responses
//! (kafka.apache.org/documentation, "Message Format").

use super::primitives::Reader;
use spanwise_keys::SpanKey;

use crate::keys::{Keys, Message};
use crate::sessions::MAX_MESSAGES;
use crate::trace_headers::TraceHeaders;

/// The version that is read; older ones are not written by clients of today.
const MAGIC: i8 = 2;
/// Bits of a batch's attributes that name the compression.
const COMPRESSION: i16 = 0b111;
/// Headers of a record that are looked at.
const MAX_HEADERS: i64 = 64;
/// Records of a partition in which keys are looked for: its first ones.
const MAX_KEYED: i32 = 16;

/// What is known of the records in a partition.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Records {
    /// How many there are, if all of their batches' beginnings were captured.
    pub(super) count: Option<i64>,
    /// What the first one's headers say.
    pub(super) headers: TraceHeaders,
    /// The offsets of the first batches' first records.
    pub(super) offsets: Vec<i64>,
    /// The keys of the first batch's records.
    pub(super) keys: Vec<SpanKey>,
}

/// Reads records of this many bytes as far as they are there; the reader
/// stands behind them then, or at its end.
pub(super) fn records(reader: &mut Reader<'_>, bytes: usize, keys: &Keys) -> Records {
    let mut records = Records { count: Some(0), ..Records::default() };
    let mut left = bytes;
    let mut first = true;
    while left > 0 {
        let found = &mut records.keys;
        let Some((offset, length, count, headers)) = batch(reader, first, keys, found) else {
            // What does not begin is passed over; of what a broker cut short
            // clients make nothing either.
            records.count = None;
            break;
        };
        if first {
            records.headers = headers;
            first = false;
        }
        if records.offsets.len() < MAX_MESSAGES {
            records.offsets.push(offset);
        }
        records.count = records.count.and_then(|sum| sum.checked_add(i64::from(count)));
        let taken = length.min(left);
        left -= taken;
        if reader.take(taken).is_none() {
            reader.take(reader.remaining());
            if left > 0 {
                records.count = None;
            }
            return records;
        }
    }
    if reader.take(left).is_none() {
        reader.take(reader.remaining());
    }
    records
}

/// The batch that begins here: its offset, its bytes, its records, and the headers of the
/// first one if they are wanted and to be read.
fn batch(
    reader: &Reader<'_>,
    wanted: bool,
    keys: &Keys,
    found: &mut Vec<SpanKey>,
) -> Option<(i64, usize, i32, TraceHeaders)> {
    let mut fields = *reader;
    let offset = fields.int64()?;
    let length = usize::try_from(fields.int32()?).ok()?;
    let _leader_epoch = fields.int32()?;
    if fields.int8()? != MAGIC {
        return None;
    }
    let (_checksum, attributes) = (fields.int32()?, fields.int16()?);
    let _last_offset_delta = fields.int32()?;
    let (_first_time, _last_time) = (fields.int64()?, fields.int64()?);
    let (_producer, _epoch, _sequence) = (fields.int64()?, fields.int16()?, fields.int32()?);
    let count = fields.int32()?;
    let mut headers = TraceHeaders::default();
    if wanted && attributes & COMPRESSION == 0 {
        if !keys.is_empty() {
            let mut fields = fields;
            for _ in 0..count.min(MAX_KEYED) {
                let Some(message) = record(&mut fields) else { break };
                keys.add_message(&message, found);
            }
        }
        let _ = record_headers(&mut fields, &mut headers);
    }
    Some((offset, length.checked_add(12)?, count.max(0), headers))
}

/// A record, as far as it was captured.
fn record<'a>(fields: &mut Reader<'a>) -> Option<Message<'a>> {
    let length = usize::try_from(fields.zigzag()?).ok()?;
    let mut record = Reader::new(fields.take(length.min(fields.remaining()))?, false);
    let _attributes = record.int8()?;
    let (_time, _offset) = (record.zigzag()?, record.zigzag()?);
    let mut message = Message::default();
    let length = record.zigzag()?;
    if let Ok(length) = usize::try_from(length) {
        message.key = Some(record.take(length)?);
    }
    // What follows may be cut off; the key is there.
    let _ = record_content(&mut record, &mut message);
    Some(message)
}

fn record_content<'a>(record: &mut Reader<'a>, message: &mut Message<'a>) -> Option<()> {
    let length = usize::try_from(record.zigzag()?).unwrap_or(0);
    message.body = record.take(length.min(record.remaining()))?;
    for _ in 0..record.zigzag()?.min(MAX_HEADERS) {
        let length = record.zigzag()?;
        let name = record.take(usize::try_from(length).ok()?)?;
        let length = record.zigzag()?;
        let value = record.take(usize::try_from(length).unwrap_or(0))?;
        message.headers.push((name, value));
    }
    Some(())
}

fn record_headers(fields: &mut Reader<'_>, headers: &mut TraceHeaders) -> Option<()> {
    let _length = fields.zigzag()?;
    let _attributes = fields.int8()?;
    let (_time, _offset) = (fields.zigzag()?, fields.zigzag()?);
    for _key_and_value in 0..2 {
        let length = fields.zigzag()?;
        fields.take(usize::try_from(length).unwrap_or(0))?;
    }
    for _ in 0..fields.zigzag()?.min(MAX_HEADERS) {
        let length = fields.zigzag()?;
        let name = fields.take(usize::try_from(length).ok()?)?;
        let length = fields.zigzag()?;
        let value = fields.take(usize::try_from(length).unwrap_or(0))?;
        headers.header(name, value);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_batch(attributes: u16, count: u32) -> Vec<u8> {
        let traceparent = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        // Null key, value "v", one header.
        let mut record = b"\xc8\x01\0\0\0\x01\x02v\x02\x16traceparent\x6e".to_vec();
        record.extend_from_slice(traceparent);
        let mut rest = b"\0\0\0\0\x02\0\0\0\0".to_vec();
        rest.extend_from_slice(&attributes.to_be_bytes());
        rest.extend_from_slice(&[0; 4 + 8 + 8 + 8 + 2 + 4]);
        rest.extend_from_slice(&count.to_be_bytes());
        rest.extend_from_slice(&record);
        let mut batch = vec![0; 8];
        batch.extend_from_slice(&(rest.len() as u32).to_be_bytes());
        batch.extend_from_slice(&rest);
        batch
    }

    fn read(bytes: &[u8], length: usize) -> (Option<i64>, bool, usize) {
        let mut reader = Reader::new(bytes, true);
        let found = records(&mut reader, length, &Keys::default());
        (found.count, found.headers.parent().is_some(), reader.remaining())
    }

    #[test]
    fn batches_are_counted_and_the_first_headers_read() {
        let bytes = [a_batch(0, 1), a_batch(0, 4), b"after".to_vec()].concat();
        assert_eq!(read(&bytes, bytes.len() - 5), (Some(5), true, 5));
        // Compressed: the count is outside, the headers are not.
        let bytes = a_batch(1, 3);
        assert_eq!(read(&bytes, bytes.len()), (Some(3), false, 0));
        assert_eq!(read(b"", 0), (Some(0), false, 0));
    }

    #[test]
    fn what_was_not_captured_is_not_counted() {
        let bytes = a_batch(0, 7);
        assert_eq!(read(&bytes[..70], bytes.len()), (Some(7), false, 0));
        assert_eq!(read(&bytes[..70], bytes.len() + 1), (None, false, 0));
        assert_eq!(read(&bytes[..40], bytes.len()), (None, false, 0));
        assert_eq!(read(b"garbage", 7), (None, false, 0));
    }
}
