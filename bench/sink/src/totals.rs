//! Totals of what was received.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, UInt16Type};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use spanwise_model::schema::column;

/// Maximum agents whose facts are kept, and maximum kinds.
const MOST_AGENTS: usize = 64;
const MOST_KINDS: usize = 4096;

/// Totals since the start.
#[derive(Default)]
pub(crate) struct Totals {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    streams: u64,
    streams_failed: u64,
    batches: u64,
    rows: u64,
    /// Bytes of message bodies on the wire.
    bytes: u64,
    /// The last facts of each run of an agent, unparsed.
    facts: BTreeMap<[u8; 16], Vec<u8>>,
    kinds: BTreeMap<Kind, u64>,
    /// Rows of other kinds.
    other_rows: u64,
}

/// What spans are counted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Kind {
    capture: String,
    protocol: String,
    status: String,
    server_port: Option<u16>,
}

impl Totals {
    pub(crate) fn stream(&self) {
        self.counts.lock().streams += 1;
    }

    pub(crate) fn stream_failed(&self) {
        self.counts.lock().streams_failed += 1;
    }

    pub(crate) fn bytes(&self, bytes: usize) {
        self.counts.lock().bytes += bytes as u64;
    }

    pub(crate) fn batch(&self, rows: u64) {
        let mut counts = self.counts.lock();
        counts.batches += 1;
        counts.rows += rows;
    }

    pub(crate) fn facts(&self, source: [u8; 16], facts: &[u8]) {
        let mut counts = self.counts.lock();
        if counts.facts.len() < MOST_AGENTS || counts.facts.contains_key(&source) {
            counts.facts.insert(source, facts.to_vec());
        }
    }

    /// Counts the rows of a batch of the span schema.
    pub(crate) fn kinds(&self, batch: &RecordBatch) {
        let found = kinds(batch);
        let mut counts = self.counts.lock();
        for (kind, rows) in found {
            if let Some(known) = counts.kinds.get_mut(&kind) {
                *known += rows;
            } else if counts.kinds.len() < MOST_KINDS {
                counts.kinds.insert(kind, rows);
            } else {
                counts.other_rows += rows;
            }
        }
    }

    pub(crate) fn json(&self) -> serde_json::Result<String> {
        let counts = self.counts.lock();
        let agents: BTreeMap<String, Value> = counts
            .facts
            .iter()
            .map(|(source, facts)| {
                (hex::encode(source), serde_json::from_slice(facts).unwrap_or(Value::Null))
            })
            .collect();
        let kinds: Vec<Value> =
            counts.kinds.iter().map(|(kind, rows)| json!({ "kind": kind, "rows": rows })).collect();
        serde_json::to_string(&json!({
            "streams": counts.streams,
            "streams_failed": counts.streams_failed,
            "batches": counts.batches,
            "rows": counts.rows,
            "bytes": counts.bytes,
            "agents": agents,
            "kinds": kinds,
            "other_rows": counts.other_rows,
        }))
    }
}

/// The number of rows of each kind in a batch.
fn kinds(batch: &RecordBatch) -> BTreeMap<Kind, u64> {
    // Grouped by dictionary keys first, because there are thousands of rows but few kinds.
    let texts = [column::CAPTURE, column::PROTOCOL, column::STATUS].map(|name| {
        batch.column_by_name(name).and_then(|array| array.as_dictionary_opt::<Int32Type>())
    });
    let ports = batch
        .column_by_name(column::SERVER_PORT)
        .filter(|ports| *ports.data_type() == DataType::UInt16)
        .map(|ports| ports.as_primitive::<UInt16Type>());
    let mut rows_by_keys: BTreeMap<([Option<usize>; 3], Option<u16>), u64> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let keys = texts.map(|text| text.and_then(|text| text.key(row)));
        let port = ports.filter(|ports| ports.is_valid(row)).map(|ports| ports.value(row));
        *rows_by_keys.entry((keys, port)).or_default() += 1;
    }
    let mut found = BTreeMap::new();
    for ((keys, server_port), rows) in rows_by_keys {
        let text = |index: usize| {
            texts[index]
                .zip(keys[index])
                .and_then(|(text, key)| Some(text.values().as_string_opt::<i32>()?.value(key)))
                .unwrap_or_default()
                .to_owned()
        };
        let kind = Kind { capture: text(0), protocol: text(1), status: text(2), server_port };
        *found.entry(kind).or_default() += rows;
    }
    found
}
