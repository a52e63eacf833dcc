//! Links between the spans of a trace and those, mostly of other traces, that sent or received the
//! same messages.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray, RecordBatch};
use spanwise_assemble::{Carrier, TraceRows, link_messages, message_keys};
use spanwise_model::schema::column;
use spanwise_model::{Link, RowRef, Span, SpanBatch, SpanBatchBuilder, SpanId, TraceId};
use spanwise_store::{Key, TimeRange};

use crate::{Queries, QueryError};

/// How long a message may wait.
const WAIT_NANO: i64 = 86_400_000_000_000;
/// The most messages of a trace that are looked for.
const MAX_KEYS: usize = 2_000;
/// The most spans that are looked at for them.
const MAX_SPANS: usize = 20_000;
/// The most links that are added to a span.
const MAX_LINKS: usize = 128;

/// Says what the linked span did with the message: it sent it, or received it.
const LINK: &str = "spanwise.link";
/// What identified the message.
const EVIDENCE: &str = "spanwise.link.evidence";

/// The logical key of a row.
fn logical_key(batch: &RecordBatch, row: usize) -> Option<&str> {
    let keys = batch.column_by_name(column::LOGICAL_KEY)?.as_string_opt::<i32>()?;
    keys.is_valid(row).then(|| keys.value(row))
}

fn has_logical_keys(batch: &RecordBatch) -> bool {
    let keys = batch.column_by_name(column::LOGICAL_KEY);
    keys.is_some_and(|keys| keys.null_count() < keys.len())
}

/// The id by which a span's trace is found.
pub(crate) fn trace_of(span: &Span) -> TraceId {
    span.assembled_trace_id.or(span.trace_id).unwrap_or_else(|| {
        // Not assembled yet. The second half leads to the trace of the span.
        let mut id = [0; 16];
        id[..8].copy_from_slice(&span.start_unix_nano.to_be_bytes());
        id[8..].copy_from_slice(&span.span_id.0);
        TraceId(id)
    })
}

fn link_to(span: &Span, did: &str, identity: &str) -> Link {
    let attributes = [
        (LINK, did),
        (EVIDENCE, identity),
        ("service.name", &span.service),
        ("name", &span.operation),
    ];
    Link {
        trace_id: trace_of(span),
        span_id: span.span_id,
        trace_state: None,
        attributes: attributes.map(|(key, value)| (key.to_owned(), value.into())).to_vec(),
    }
}

impl Queries {
    /// Adds the links of messages to the spans of a trace.
    pub(crate) async fn link_messages(&self, found: &mut TraceRows) -> Result<(), QueryError> {
        if !found.batches.iter().any(has_logical_keys) {
            return Ok(());
        }
        let mut keys = HashSet::new();
        let (mut from, mut to) = (i64::MAX, i64::MIN);
        for row in &found.rows {
            let batch = &found.batches[row.at.batch as usize];
            let Some(logical_key) = logical_key(batch, row.at.row as usize) else { continue };
            from = from.min(row.start_unix_nano);
            to = to.max(row.end_unix_nano);
            keys.extend(message_keys(logical_key));
            if keys.len() > MAX_KEYS {
                break;
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        let keys: Vec<Key> = keys.into_iter().map(Key::Message).collect();
        let around = TimeRange {
            from_unix_nano: from.saturating_sub(WAIT_NANO),
            to_unix_nano: to.saturating_add(WAIT_NANO),
        };
        let carriers = self.store.find_by_keys(&keys, around).await?;
        let links = links(carriers)?;
        if links.is_empty() {
            return Ok(());
        }
        add(found, &links)
    }
}

/// The identity of a span: ids of spans of different processes may be the same.
type Who = (SpanId, i64, String);

fn who(span: &Span) -> Who {
    (span.span_id, span.start_unix_nano, span.service.clone())
}

/// The links of each of the spans that carried messages.
fn links(batches: Vec<RecordBatch>) -> Result<HashMap<Who, Vec<Link>>, QueryError> {
    let mut spans = Vec::new();
    for batch in batches {
        for span in SpanBatch::try_from(batch)?.spans().take(MAX_SPANS - spans.len()) {
            spans.push(span?);
        }
    }
    let carriers: Vec<Carrier<'_>> = spans
        .iter()
        .map(|span| Carrier {
            kind: span.kind,
            start_unix_nano: span.start_unix_nano,
            end_unix_nano: span.end_unix_nano(),
            broker: (span.flow.server_address.as_deref(), span.flow.server_port),
            logical_key: span.logical_key.as_deref().unwrap_or_default(),
        })
        .collect();
    let mut links: HashMap<Who, Vec<Link>> = HashMap::new();
    for link in link_messages(&carriers) {
        let (receiver, sender) = (&spans[link.receiver], &spans[link.sender]);
        for (one, other, did) in [(receiver, sender, "sent"), (sender, receiver, "received")] {
            let links = links.entry(who(one)).or_default();
            if links.len() < MAX_LINKS {
                links.push(link_to(other, did, link.identity));
            }
        }
    }
    Ok(links)
}

/// Adds links to the rows of a trace.
fn add(found: &mut TraceRows, links: &HashMap<Who, Vec<Link>>) -> Result<(), QueryError> {
    let rows: HashSet<RowRef> = found.rows.iter().map(|row| row.at).collect();
    for (number, batch) in found.batches.iter_mut().enumerate() {
        if !has_logical_keys(batch) {
            continue;
        }
        let mut builder = SpanBatchBuilder::new();
        for (row, span) in (0..).zip(SpanBatch::try_from(batch.clone())?.spans()) {
            let mut span = span?;
            if rows.contains(&RowRef { batch: number as u64, row })
                && let Some(links) = links.get(&who(&span))
            {
                span.links.extend(links.iter().cloned());
            }
            builder.push(&span);
        }
        *batch = builder.finish()?;
    }
    Ok(())
}
