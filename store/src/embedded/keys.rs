//! The indexed columns of a batch, and hashes of their values.

use ahash::AHashSet;
use arrow::array::{
    Array, AsArray, BooleanBufferBuilder, FixedSizeBinaryArray, Int64Array, RecordBatch,
    StringArray, UInt32Array, UInt64Array,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use spanwise_model::ClockFault;
use spanwise_model::schema::column;

use crate::contract::{Key, TimeRange};

/// The kind of a key, as a number that is hashed with the value. Both trace ids share one kind,
/// because they are nearly always equal and then need one entry.
#[derive(Clone, Copy)]
enum Kind {
    Trace = 1,
    Span,
    Fragment,
    Hop,
    RequestId,
    Attribute,
    Message,
}

// The hash function is part of the file format. It must never change, unless files record which one
// they use. The constants are those of wyhash.
const SECRET: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// Multiplies two numbers and combines the halves of the product, as wyhash does.
pub(super) const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

pub(super) fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ fold(seed ^ SECRET[0], bytes.len() as u64 ^ SECRET[1]);
    // The last bytes are read backwards from the end and overlap earlier ones. This avoids reading
    // single bytes and variable lengths.
    let (low, high) = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let word = u64::from_le_bytes;
        let (mut low, high) = (word(*first), word(*last));
        if bytes.len() > 16 {
            let (pairs, _) = bytes[..bytes.len() - 1].as_chunks::<16>();
            for pair in pairs {
                let (one, other) = pair.split_at(8);
                let (one, other) = (one.try_into().map(word), other.try_into().map(word));
                // Both have eight bytes.
                state = fold(one.unwrap_or(0) ^ SECRET[1], other.unwrap_or(0) ^ state);
            }
            low = bytes[bytes.len() - 16..].first_chunk().map_or(0, |chunk| word(*chunk));
        }
        (low, high)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
    } else {
        (bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), 0)
    };
    fold(fold(low ^ SECRET[2], high ^ state) ^ SECRET[3], state ^ SECRET[0])
}

fn hash(kind: Kind, value: &[u8]) -> u64 {
    hash_bytes(kind as u64, value)
}

/// The hash of a sent or assembled trace id.
pub(super) fn hash_trace(id: &[u8]) -> u64 {
    hash(Kind::Trace, id)
}

/// The seed for hashes of an attribute's values.
pub(super) fn attribute_seed(key: &str) -> u64 {
    hash(Kind::Attribute, key.as_bytes())
}

/// The hash of a value with this attribute seed.
pub(super) fn hash_value(seed: u64, value: &str) -> u64 {
    hash_bytes(seed, value.as_bytes())
}

/// The hash of an attribute's key and value.
pub(super) fn hash_attribute(key: &str, value: &str) -> u64 {
    hash_value(attribute_seed(key), value)
}

#[cfg(test)]
pub(super) fn hash_text(text: &str) -> u64 {
    hash(Kind::RequestId, text.as_bytes())
}

/// Messages of one row that are keys.
const MAX_MESSAGES: usize = 16;

fn hop_bytes(request: u32, response: u32) -> [u8; 8] {
    (u64::from(request) << 32 | u64::from(response)).to_be_bytes()
}

/// The hash of a key for look-ups.
pub(super) fn hash_key(key: &Key) -> u64 {
    match key {
        Key::AssembledTrace(id) | Key::Trace(id) => hash(Kind::Trace, &id.0),
        Key::Span(id) => hash(Kind::Span, &id.0),
        Key::Fragment(id) => hash(Kind::Fragment, &id.to_be_bytes()),
        Key::TcpSequences(request, response) => hash(Kind::Hop, &hop_bytes(*request, *response)),
        Key::XRequestId(id) => hash(Kind::RequestId, id.as_bytes()),
        Key::Message(message) => hash(Kind::Message, message.as_bytes()),
    }
}

/// The key columns of a batch. A missing column matches nothing.
struct Columns<'a> {
    assembled: Option<&'a FixedSizeBinaryArray>,
    traces: Option<&'a FixedSizeBinaryArray>,
    spans: Option<&'a FixedSizeBinaryArray>,
    fragments: Option<&'a UInt64Array>,
    requests: Option<&'a UInt32Array>,
    responses: Option<&'a UInt32Array>,
    request_ids: Option<&'a StringArray>,
    logical_keys: Option<&'a StringArray>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Self {
        let binary = |name| batch.column_by_name(name)?.as_fixed_size_binary_opt();
        let number = |name| batch.column_by_name(name)?.as_primitive_opt::<UInt32Type>();
        let text = |name| batch.column_by_name(name)?.as_string_opt::<i32>();
        Self {
            assembled: binary(column::ASSEMBLED_TRACE_ID),
            traces: binary(column::TRACE_ID),
            spans: binary(column::SPAN_ID),
            fragments: batch
                .column_by_name(column::FRAGMENT_ID)
                .and_then(|array| array.as_primitive_opt::<UInt64Type>()),
            requests: number(column::REQUEST_TCP_SEQ),
            responses: number(column::RESPONSE_TCP_SEQ),
            request_ids: text(column::X_REQUEST_ID),
            logical_keys: text(column::LOGICAL_KEY)
                .filter(|array| array.null_count() < array.len()),
        }
    }

    fn hop(&self, row: usize) -> Option<(u32, u32)> {
        let request = self.requests.filter(|array| array.is_valid(row))?;
        let response = self.responses.filter(|array| array.is_valid(row))?;
        Some((request.value(row), response.value(row)))
    }

    /// The messages that a row sent or received.
    fn messages(&self, row: usize) -> impl Iterator<Item = &'a str> {
        let keys = self.logical_keys.filter(|array| array.is_valid(row));
        keys.into_iter().flat_map(move |array| array.value(row).split(' ').take(MAX_MESSAGES))
    }
}

fn bytes_at(array: Option<&FixedSizeBinaryArray>, row: usize) -> Option<&[u8]> {
    array.filter(|array| array.is_valid(row)).map(|array| array.value(row))
}

/// Calls `tell` with the hash of both trace ids of every row. If `once`, an id that equals the
/// previous row's in the same column is skipped.
pub(super) fn each_trace(batch: &RecordBatch, once: bool, mut tell: impl FnMut(usize, u64)) {
    let columns = Columns::of(batch);
    let of = |ids: Option<&FixedSizeBinaryArray>| {
        let ids = ids?;
        Some((ids.value_data().as_ptr_range(), ids.nulls().map(|nulls| nulls.buffer().as_ptr())))
    };
    // If both columns are the same, one is enough.
    let traces = columns.traces.filter(|_| of(columns.traces) != of(columns.assembled));
    for ids in [columns.assembled, traces] {
        let mut before = None;
        for row in 0..batch.num_rows() {
            let id = bytes_at(ids, row);
            if let Some(id) = id.filter(|_| !once || id != before) {
                tell(row, hash_trace(id));
            }
            before = id;
        }
    }
}

/// Calls `tell` with the hash of every other key of every row.
pub(super) fn each_key(batch: &RecordBatch, mut tell: impl FnMut(usize, u64)) {
    let columns = Columns::of(batch);
    for row in 0..batch.num_rows() {
        if let Some(id) = bytes_at(columns.spans, row) {
            tell(row, hash(Kind::Span, id));
        }
        if let Some(fragments) = columns.fragments.filter(|array| array.is_valid(row)) {
            tell(row, hash(Kind::Fragment, &fragments.value(row).to_be_bytes()));
        }
        if let Some((request, response)) = columns.hop(row) {
            tell(row, hash(Kind::Hop, &hop_bytes(request, response)));
        }
        if let Some(ids) = columns.request_ids.filter(|array| array.is_valid(row)) {
            tell(row, hash(Kind::RequestId, ids.value(row).as_bytes()));
        }
        for message in columns.messages(row) {
            tell(row, hash(Kind::Message, message.as_bytes()));
        }
    }
}

/// Maximum number of keys of a batch's rows.
pub(super) fn key_count(batch: &RecordBatch) -> usize {
    let columns = Columns::of(batch);
    let some =
        |array: Option<&dyn Array>| array.map_or(0, |array| array.len() - array.null_count());
    some(columns.assembled.map(|array| array as _))
        + some(columns.traces.map(|array| array as _))
        + some(columns.spans.map(|array| array as _))
        + some(columns.fragments.map(|array| array as _))
        + some(columns.requests.map(|array| array as _))
        + some(columns.request_ids.map(|array| array as _))
        + (0..columns.logical_keys.map_or(0, |array| array.len()))
            .map(|row| columns.messages(row).count())
            .sum::<usize>()
}

/// The key columns and the start.
pub(super) const COLUMNS: [&str; 9] = [
    column::START_UNIX_NANO,
    column::ASSEMBLED_TRACE_ID,
    column::TRACE_ID,
    column::SPAN_ID,
    column::FRAGMENT_ID,
    column::REQUEST_TCP_SEQ,
    column::RESPONSE_TCP_SEQ,
    column::X_REQUEST_ID,
    column::LOGICAL_KEY,
];

/// A set of keys that are looked up together.
#[derive(Debug, Clone, Default)]
pub(super) struct KeySet {
    pub(super) assembled: AHashSet<[u8; 16]>,
    pub(super) traces: AHashSet<[u8; 16]>,
    pub(super) spans: AHashSet<[u8; 8]>,
    pub(super) fragments: AHashSet<u64>,
    pub(super) hops: AHashSet<(u32, u32)>,
    pub(super) request_ids: AHashSet<String>,
    pub(super) messages: AHashSet<String>,
}

impl KeySet {
    pub(super) fn new(keys: &[Key]) -> Self {
        let mut set = Self::default();
        for key in keys {
            match key {
                Key::AssembledTrace(id) => set.assembled.insert(id.0),
                Key::Trace(id) => set.traces.insert(id.0),
                Key::Span(id) => set.spans.insert(id.0),
                Key::Fragment(id) => set.fragments.insert(*id),
                Key::TcpSequences(request, response) => set.hops.insert((*request, *response)),
                Key::XRequestId(id) => set.request_ids.insert(id.clone()),
                Key::Message(message) => set.messages.insert(message.clone()),
            };
        }
        set
    }

    /// The hashes of all trace ids.
    pub(super) fn trace_hashes(&self) -> Vec<u64> {
        let mut hashes: Vec<u64> =
            self.assembled.iter().chain(&self.traces).map(|id| hash_trace(id)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    /// The hashes of all other keys.
    pub(super) fn other_hashes(&self) -> Vec<u64> {
        let spans = self.spans.iter().map(|id| hash(Kind::Span, id));
        let fragments = self.fragments.iter().map(|id| hash(Kind::Fragment, &id.to_be_bytes()));
        let hops = self.hops.iter().map(|hop| hash(Kind::Hop, &hop_bytes(hop.0, hop.1)));
        let ids = self.request_ids.iter().map(|id| hash(Kind::RequestId, id.as_bytes()));
        let messages = self.messages.iter().map(|text| hash(Kind::Message, text.as_bytes()));
        spans.chain(fragments).chain(hops).chain(ids).chain(messages).collect()
    }

    /// The columns that must be compared.
    pub(super) fn columns(&self) -> Vec<&'static str> {
        let mut columns = Vec::new();
        let mut need = |needed: bool, names: &[&'static str]| {
            if needed {
                columns.extend_from_slice(names);
            }
        };
        need(!self.assembled.is_empty(), &[column::ASSEMBLED_TRACE_ID]);
        need(!self.traces.is_empty(), &[column::TRACE_ID]);
        need(!self.spans.is_empty(), &[column::SPAN_ID]);
        need(!self.fragments.is_empty(), &[column::FRAGMENT_ID]);
        need(!self.hops.is_empty(), &[column::REQUEST_TCP_SEQ, column::RESPONSE_TCP_SEQ]);
        need(!self.request_ids.is_empty(), &[column::X_REQUEST_ID]);
        need(!self.messages.is_empty(), &[column::LOGICAL_KEY]);
        columns
    }

    /// The rows with one of the keys, regardless of their start.
    pub(super) fn mask(&self, batch: &RecordBatch) -> BooleanBuffer {
        let columns = Columns::of(batch);
        let mut found = BooleanBufferBuilder::new(batch.num_rows());
        found.append_n(batch.num_rows(), false);
        let mut tell = |row| found.set_bit(row, true);
        each_of(columns.assembled, &self.assembled, &mut tell);
        each_of(columns.traces, &self.traces, &mut tell);
        each_of(columns.spans, &self.spans, &mut tell);
        if !self.hops.is_empty() {
            let has = |row| columns.hop(row).is_some_and(|hop| self.hops.contains(&hop));
            (0..batch.num_rows()).filter(|row| has(*row)).for_each(&mut tell);
        }
        if let Some(array) = columns.fragments.filter(|_| !self.fragments.is_empty()) {
            let has =
                |row: &usize| array.is_valid(*row) && self.fragments.contains(&array.value(*row));
            (0..array.len()).filter(has).for_each(&mut tell);
        }
        if let Some(array) = columns.request_ids.filter(|_| !self.request_ids.is_empty()) {
            let has =
                |row: &usize| array.is_valid(*row) && self.request_ids.contains(array.value(*row));
            (0..array.len()).filter(has).for_each(&mut tell);
        }
        if !self.messages.is_empty() {
            let has =
                |row: &usize| columns.messages(*row).any(|message| self.messages.contains(message));
            (0..batch.num_rows()).filter(has).for_each(&mut tell);
        }
        found.finish()
    }
}

/// Calls `tell` for each row that has one of some ids.
fn each_of<const BYTES: usize>(
    array: Option<&FixedSizeBinaryArray>,
    wanted: &AHashSet<[u8; BYTES]>,
    tell: impl FnMut(usize),
) {
    let fits = |array: &&FixedSizeBinaryArray| {
        !wanted.is_empty() && usize::try_from(array.value_length()) == Ok(BYTES)
    };
    let Some(array) = array.filter(fits) else { return };
    // Few ids match, and the last byte already excludes most.
    let last = |id: &[u8; BYTES]| usize::from(id[BYTES - 1]);
    let mut may_be = [false; 256];
    wanted.iter().for_each(|id| may_be[last(id)] = true);
    let ids = array.value_data().as_chunks::<BYTES>().0.iter().enumerate();
    ids.filter(|(row, id)| may_be[last(id)] && wanted.contains(*id) && array.is_valid(*row))
        .map(|(row, _)| row)
        .for_each(tell);
}

/// The rows that start in the range.
pub(super) fn in_time(batch: &RecordBatch, time: TimeRange) -> BooleanBuffer {
    let starts = starts(batch).filter(|_| time != TimeRange::ALL);
    BooleanBuffer::collect_bool(batch.num_rows(), |row| {
        starts.is_none_or(|starts| in_range(starts.value(row), time))
    })
}

/// The column of starts.
pub(super) fn starts(batch: &RecordBatch) -> Option<&Int64Array> {
    batch.column_by_name(column::START_UNIX_NANO)?.as_primitive_opt::<Int64Type>()
}

/// The earliest plausible start. A clock that was never set does not say how far back spans reach.
pub(super) fn oldest(starts: &[i64]) -> Option<i64> {
    starts.iter().copied().filter(|start| !is_past(*start)).min()
}

/// Whether a start is so early that the clock was never set.
pub(super) fn is_past(start_unix_nano: i64) -> bool {
    ClockFault::of(start_unix_nano, 0, i64::MAX) == Some(ClockFault::Past)
}

/// Whether a start is in the range. A range that ends at the last instant includes it.
pub(super) const fn in_range(start: i64, time: TimeRange) -> bool {
    start >= time.from_unix_nano && (start < time.to_unix_nano || time.to_unix_nano == i64::MAX)
}

/// Whether starts from `least` to `most` may be in the range.
pub(super) const fn overlaps((least, most): (i64, i64), time: TimeRange) -> bool {
    most >= time.from_unix_nano && (least < time.to_unix_nano || time.to_unix_nano == i64::MAX)
}
