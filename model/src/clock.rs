//! Spans with impossible times are kept and marked.
//!
//! A clock that was never set, or a sender that confuses units, must not lose the span. It is
//! stored as it was sent, with an attribute that names the fault. A column changes only if the end
//! is before the start: the duration becomes 0, and an attribute contains the original value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, MapArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::compute::interleave;
use arrow::datatypes::Int64Type;

use crate::schema::column;
use crate::{Capture, Kind, ModelError, Span, SpanBatchBuilder, SpanId, SpanRows};

/// The fault in a span's times. The first that applies counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClockFault {
    /// The span starts before the year 2000: the clock was never set.
    Past,
    /// The span starts or ends more than a minute after it arrived.
    Future,
    /// The span ends before it starts.
    Negative,
    /// The span is longer than a day.
    Long,
}

/// 2000-01-01.
const EARLIEST_UNIX_NANO: i64 = 946_684_800_000_000_000;
/// Clocks of synchronised hosts differ by less.
const AHEAD_NANO: i64 = 60_000_000_000;
const LONG_NANO: i64 = 86_400_000_000_000;

impl ClockFault {
    /// Every fault.
    pub const ALL: [Self; 4] = [Self::Past, Self::Future, Self::Negative, Self::Long];

    /// Key of the attribute that names the fault.
    pub const ATTRIBUTE: &'static str = "spanwise.clock";
    /// Key of the attribute with the original duration, in nanoseconds, of a span that ended before
    /// it started.
    pub const SENT_DURATION: &'static str = "spanwise.clock.duration_nano";

    /// The attribute's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Past => "past",
            Self::Future => "future",
            Self::Negative => "negative",
            Self::Long => "long",
        }
    }

    /// The fault with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == name)
    }

    /// The fault in these times, if the span arrives now.
    pub const fn of(start_unix_nano: i64, duration_nano: i64, now_unix_nano: i64) -> Option<Self> {
        let latest = now_unix_nano.saturating_add(AHEAD_NANO);
        if start_unix_nano < EARLIEST_UNIX_NANO {
            Some(Self::Past)
        } else if start_unix_nano > latest || start_unix_nano.saturating_add(duration_nano) > latest
        {
            Some(Self::Future)
        } else if duration_nano < 0 {
            Some(Self::Negative)
        } else if duration_nano > LONG_NANO {
            Some(Self::Long)
        } else {
            None
        }
    }

    /// Whether the span says nothing about when its trace took place.
    pub const fn is_elsewhere(self) -> bool {
        matches!(self, Self::Past | Self::Future)
    }
}

/// Number of spans with each fault, in the order of [`ClockFault::ALL`].
pub type ClockFaults = [u64; ClockFault::ALL.len()];

impl Span {
    /// The fault according to the span's attribute.
    pub fn clock_fault(&self) -> Option<ClockFault> {
        let (_, value) = self.attributes.iter().find(|(key, _)| key == ClockFault::ATTRIBUTE)?;
        ClockFault::named(value.as_str()?)
    }
}

/// Marks the spans of a batch that arrives now, and counts them. A batch without faults, as nearly
/// all are, is returned unchanged.
///
/// # Errors
/// If the batch does not have the span schema.
pub fn mark_clocks(
    rows: SpanRows,
    now_unix_nano: i64,
) -> Result<(SpanRows, ClockFaults), ModelError> {
    let columns = rows.columns();
    let numbers = |name: &'static str| {
        columns
            .column_by_name(name)
            .and_then(|column| column.as_primitive_opt::<Int64Type>())
            .ok_or(ModelError::Column { column: name })
    };
    let starts = numbers(column::START_UNIX_NANO)?.values();
    let durations = numbers(column::DURATION_NANO)?.values();
    let mut counts = ClockFaults::default();
    let mut faulty = Vec::new();
    for (row, (start, duration)) in starts.iter().zip(durations).enumerate() {
        if let Some(fault) = ClockFault::of(*start, *duration, now_unix_nano) {
            counts[fault as usize] += 1;
            faulty.push((row, fault));
        }
    }
    if faulty.is_empty() {
        return Ok((rows, counts));
    }
    let batch = rows.whole()?;
    let attributes = marked(&batch, durations, &faulty)?;
    let lengths: Int64Array = durations.iter().map(|duration| (*duration).max(0)).collect();
    let schema = batch.schema();
    let mut columns = batch.columns().to_vec();
    for (name, column) in
        [(column::DURATION_NANO, Arc::new(lengths) as ArrayRef), (column::ATTRIBUTES, attributes)]
    {
        columns[schema.index_of(name)?] = column;
    }
    Ok((RecordBatch::try_new(schema, columns)?.into(), counts))
}

/// The attributes, with a mark in each of these rows.
fn marked(
    batch: &RecordBatch,
    durations: &[i64],
    faulty: &[(usize, ClockFault)],
) -> Result<ArrayRef, ModelError> {
    let name = column::ATTRIBUTES;
    let map = |batch: &RecordBatch| -> Option<MapArray> {
        batch.column_by_name(name)?.as_map_opt().cloned()
    };
    let old = map(batch).ok_or(ModelError::Column { column: name })?;
    // Built by the builder, so that the marks have the column's type.
    let marks = map(&marks(durations, faulty)?).ok_or(ModelError::Column { column: name })?;
    let range = |map: &MapArray, row: usize| {
        let offsets = map.value_offsets();
        // Offsets of a valid array are never negative.
        offsets[row].unsigned_abs() as usize..offsets[row + 1].unsigned_abs() as usize
    };
    let mut picks = Vec::with_capacity(old.entries().len() + marks.entries().len());
    let mut lengths = Vec::with_capacity(old.len());
    let mut next = 0;
    for row in 0..old.len() {
        let before = picks.len();
        picks.extend(range(&old, row).map(|entry| (0, entry)));
        if faulty.get(next).is_some_and(|(at, _)| *at == row) {
            picks.extend(range(&marks, next).map(|entry| (1, entry)));
            next += 1;
        }
        lengths.push(picks.len() - before);
    }
    let entries = interleave(&[old.entries(), marks.entries()], &picks)?;
    let arrow::datatypes::DataType::Map(field, sorted) = old.data_type() else {
        return Err(ModelError::Column { column: name });
    };
    let offsets = OffsetBuffer::from_lengths(lengths);
    let entries = entries.as_struct().clone();
    let nulls = old.nulls().cloned();
    Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *sorted)?))
}

/// For each faulty row, a row whose attributes are the marks.
fn marks(durations: &[i64], faulty: &[(usize, ClockFault)]) -> Result<RecordBatch, ModelError> {
    // Only its attributes are used.
    let id = SpanId([1; SpanId::LEN]);
    let mut span = Span::new(id, Capture::App, Kind::Internal, "", "", 0, 0);
    let mut builder = SpanBatchBuilder::new();
    for &(row, fault) in faulty {
        span.attributes.clear();
        span.attributes.push((ClockFault::ATTRIBUTE.to_owned(), fault.as_str().into()));
        if durations[row] < 0 {
            span.attributes.push((ClockFault::SENT_DURATION.to_owned(), durations[row].into()));
        }
        builder.push(&span);
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SpanBatch;

    const NOW: i64 = 1_763_706_600_000_000_000;
    const HOUR: i64 = 3_600_000_000_000;

    fn span(start: i64, duration: i64) -> Span {
        let id = SpanId([2; SpanId::LEN]);
        let mut span = Span::new(id, Capture::App, Kind::Server, "s", "op", start, duration);
        span.attributes.push(("a".to_owned(), "b".into()));
        span
    }

    fn mark(spans: &[Span]) -> (Vec<Span>, ClockFaults) {
        let batch = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        let (batch, counts) = mark_clocks(batch.into(), NOW).expect("marked");
        let batch = SpanBatch::try_from(batch).expect("the schema");
        (batch.spans().collect::<Result<_, _>>().expect("spans"), counts)
    }

    #[test]
    fn each_fault_is_named_and_counted_and_nothing_else_changes() {
        let sent = [
            span(NOW - HOUR, 5),
            span(0, 5),
            span(NOW + HOUR, 5),
            span(NOW - HOUR, 2 * HOUR),
            span(NOW - HOUR, -7),
            span(NOW - 40 * HOUR, 30 * HOUR),
            span(NOW + 1_000_000_000, 5),
            span(i64::MIN, i64::MIN),
            span(i64::MAX, i64::MAX),
        ];
        let (kept, counts) = mark(&sent);
        let faults: Vec<_> = kept.iter().map(Span::clock_fault).collect();
        use ClockFault::{Future, Long, Negative, Past};
        let expected = [
            None,
            Some(Past),
            Some(Future),
            Some(Future),
            Some(Negative),
            Some(Long),
            None,
            Some(Past),
            Some(Future),
        ];
        assert_eq!(faults, expected);
        assert_eq!(counts, [2, 3, 1, 1]);
        for (kept, sent) in kept.iter().zip(&sent) {
            assert_eq!(kept.start_unix_nano, sent.start_unix_nano);
            assert_eq!(kept.duration_nano, sent.duration_nano.max(0));
            assert_eq!(kept.attributes[0], sent.attributes[0]);
            let told = kept.attributes.iter().find(|(key, _)| key == ClockFault::SENT_DURATION);
            let sent = (sent.duration_nano < 0).then_some(sent.duration_nano);
            assert_eq!(told.and_then(|(_, value)| value.as_int()), sent);
        }
        assert_eq!(kept[0], sent[0]);
    }

    #[test]
    fn any_times_are_taken() {
        let extremes =
            [i64::MIN, i64::MIN + 1, -1, 0, 1, NOW, NOW + 2 * HOUR, i64::MAX - 1, i64::MAX];
        let sent: Vec<Span> = extremes
            .iter()
            .flat_map(|start| extremes.iter().map(|duration| span(*start, *duration)))
            .collect();
        let (kept, counts) = mark(&sent);
        let marked = kept.iter().filter(|span| span.clock_fault().is_some()).count() as u64;
        assert_eq!(counts.iter().sum::<u64>(), marked);
        assert!(kept.iter().all(|span| span.duration_nano >= 0));
        assert_eq!(kept.len(), sent.len());
    }
}
