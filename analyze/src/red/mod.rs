//! Calls, errors and durations of all spans, and of all calls between services, counted as they
//! arrive.
//!
//! [`Red::push`] counts the spans of a batch, each once, and holds what is needed of them.
//! [`Red::place`] takes their places in traces, as assembly finds them. [`Red::settle`] counts the
//! calls of a trace ten seconds after its first span was assembled, by the same rules as
//! [`Graph`](crate::Graph). Counts never decrease, and every table has a bound.

mod batches;
mod columns;
mod edges;
mod held;
mod histogram;
mod series;
mod spans;
#[cfg(test)]
mod tests;

use arrow::array::RecordBatch;
use spanwise_model::{Assembled, Kind, ModelError, Status};

pub use histogram::{Bounds, Exemplar, Histogram, Native};
pub use series::{LONGEST_NAME, OTHER, Series};

pub(crate) use edges::USER;

use columns::Columns;
use edges::Edges;
use series::Table;
use spans::SeriesOfRows;

/// So many spans that are placed at once may become examples, and so many calls.
const EXAMPLES_AT_ONCE: usize = 256;

/// Bounds.
#[derive(Debug, Clone)]
pub struct RedConfig {
    /// The most series of spans, and the most of calls between services.
    pub series: usize,
    /// Buckets of spans.
    pub span_bounds: Bounds,
    /// Buckets of calls between services.
    pub edge_bounds: Bounds,
}

impl Default for RedConfig {
    fn default() -> Self {
        Self {
            series: 5_000,
            span_bounds: Bounds::doubling(2_000_000, 14),
            edge_bounds: Bounds::doubling(100_000_000, 8),
        }
    }
}

/// The time, by a clock that only goes forward, and since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Since any moment.
    pub nano: u64,
    /// Since 1970.
    pub unix_nano: i64,
}

/// What connects two services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionType {
    /// A request between two services.
    Direct,
    /// A message.
    MessagingSystem,
    /// A request to a database or a cache.
    Database,
    /// One end was not traced.
    VirtualNode,
}

impl ConnectionType {
    const ALL: [Self; 4] = [Self::Direct, Self::MessagingSystem, Self::Database, Self::VirtualNode];

    /// Tempo's name of it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "",
            Self::MessagingSystem => "messaging_system",
            Self::Database => "database",
            Self::VirtualNode => "virtual_node",
        }
    }
}

/// What counting had to do without.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedCounters {
    /// Spans that were counted under `other`.
    pub spans_folded: u64,
    /// Calls that were counted under `other`.
    pub edges_folded: u64,
    /// Traces whose calls were counted early, because too many spans waited.
    pub traces_counted_early: u64,
    /// Traces of which spans came after their calls had been counted.
    pub traces_reopened: u64,
    /// Spans whose place changed after they had been counted.
    pub spans_changed_late: u64,
    /// Spans that assembly said nothing about: their calls are not counted.
    pub spans_not_assembled: u64,
}

/// The figures at a moment.
#[derive(Debug, Clone, Default)]
pub struct RedSnapshot {
    /// Figures of spans.
    pub spans: Vec<Series>,
    /// The bounds of their buckets.
    pub span_bounds_nano: Vec<i64>,
    /// Figures of calls between services.
    pub edges: Vec<Series>,
    /// The bounds of their buckets.
    pub edge_bounds_nano: Vec<i64>,
}

impl Series {
    /// Kind and status of a series of spans.
    pub fn kind_and_status(&self) -> (Kind, Status) {
        spans::kind_and_status(self.rest)
    }

    /// The type of connection of a series of calls.
    pub fn connection_type(&self) -> ConnectionType {
        let all = ConnectionType::ALL.get(usize::from(self.rest));
        all.copied().unwrap_or(ConnectionType::Direct)
    }
}

/// The figures. See the module's description.
#[derive(Debug)]
pub struct Red {
    spans: Table,
    edges: Edges,
    series_of_rows: SeriesOfRows,
}

impl Red {
    /// Nothing counted yet.
    pub fn new(config: &RedConfig) -> Self {
        let RedConfig { series, span_bounds, edge_bounds } = config;
        Self {
            spans: Table::new(span_bounds.clone(), false, *series),
            edges: Edges::new(Table::new(edge_bounds.clone(), true, *series)),
            series_of_rows: SeriesOfRows::default(),
        }
    }

    /// Counts the spans of a stored batch.
    ///
    /// # Errors
    /// If the batch does not have the span schema. Nothing is counted then.
    pub fn push(&mut self, batch: u64, rows: &RecordBatch, now: Now) -> Result<(), ModelError> {
        let mut columns = Columns::of(rows)?;
        let Self { spans, edges, series_of_rows } = self;
        series_of_rows.begin();
        let bounds = spans.bounds().clone();
        let mut held = edges.batches.list();
        held.reserve(rows.num_rows());
        for row in 0..rows.num_rows() {
            let of = (columns.kind(row), columns.status(row));
            let place = series_of_rows.of(row, of, &columns, spans, now.unix_nano);
            let nano = columns.duration_nano(row);
            let bucket = bounds.bucket(nano);
            spans.folded += u64::from(place.is_folded);
            spans.series(place).1.durations.count(nano, bucket);
            held.push(columns.held(row, of, &mut edges.names, place.series, (nano, bucket)));
        }
        edges.hold(batch, held, now.nano);
        Ok(())
    }

    /// Takes places of spans in their traces, as often as they change.
    pub fn place(&mut self, results: &[Assembled], now: Now) {
        let Self { spans, edges, .. } = self;
        let mut left = EXAMPLES_AT_ONCE;
        edges.place(results, now.nano, |held, trace_id| {
            if left == 0 {
                return;
            }
            left -= 1;
            let nano = held.duration_nano;
            let exemplar = Exemplar { trace_id, nano, at_unix_nano: now.unix_nano };
            if let Some(series) = spans.all.get_mut(held.series as usize) {
                series.durations.keep(held.bucket, exemplar);
            }
        });
    }

    /// Counts the calls of traces that have waited long enough.
    pub fn settle(&mut self, now: Now) {
        self.edges.settle(now.nano, now.unix_nano, false);
    }

    /// Counts the calls of all traces.
    pub fn settle_all(&mut self, now: Now) {
        self.edges.settle(now.nano, now.unix_nano, true);
    }

    /// Spans that wait to be counted as calls.
    pub const fn waiting(&self) -> usize {
        self.edges.waiting()
    }

    /// What counting had to do without.
    pub fn counters(&self) -> RedCounters {
        RedCounters { spans_folded: self.spans.folded, ..self.edges.counters() }
    }

    /// The figures now.
    pub fn snapshot(&self) -> RedSnapshot {
        RedSnapshot {
            spans: self.spans.all.iter().map(Series::filled).collect(),
            span_bounds_nano: self.spans.bounds().nano().to_vec(),
            edges: self.edges.table.all.iter().map(Series::filled).collect(),
            edge_bounds_nano: self.edges.table.bounds().nano().to_vec(),
        }
    }
}
