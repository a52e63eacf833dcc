//! Prometheus' messages, each after its length. They have classic and native histograms at once.

use prost::Message;
use spanwise_analyze::red::{Histogram as Counted, Native};

use super::{FamilyKind, Labels, MetricWriter, seconds};

/// `io.prometheus.client.MetricFamily`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricFamily {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) help: String,
    #[prost(int32, tag = "3")]
    pub(super) kind: i32,
    #[prost(message, repeated, tag = "4")]
    pub(super) metrics: Vec<Metric>,
}

/// Values of `MetricFamily.type`.
const COUNTER: i32 = 0;
const HISTOGRAM: i32 = 4;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(super) labels: Vec<LabelPair>,
    #[prost(message, optional, tag = "3")]
    pub(super) counter: Option<Counter>,
    #[prost(message, optional, tag = "7")]
    pub(super) histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct LabelPair {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Counter {
    #[prost(double, tag = "1")]
    pub(super) value: f64,
    #[prost(message, optional, tag = "3")]
    created_timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(uint64, tag = "1")]
    pub(super) sample_count: u64,
    #[prost(double, tag = "2")]
    pub(super) sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    pub(super) buckets: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    pub(super) schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    pub(super) zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    pub(super) positive_spans: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "13")]
    pub(super) positive_deltas: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    created_timestamp: Option<Timestamp>,
    #[prost(message, repeated, tag = "16")]
    pub(super) exemplars: Vec<Exemplar>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bucket {
    #[prost(uint64, tag = "1")]
    pub(super) cumulative_count: u64,
    #[prost(double, tag = "2")]
    pub(super) upper_bound: f64,
    #[prost(message, optional, tag = "3")]
    pub(super) exemplar: Option<Exemplar>,
}

/// Neighbouring native buckets.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct BucketSpan {
    /// The index of the first; later, the distance from the end of the span before.
    #[prost(sint32, tag = "1")]
    pub(super) offset: i32,
    #[prost(uint32, tag = "2")]
    pub(super) length: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Exemplar {
    #[prost(message, repeated, tag = "1")]
    pub(super) labels: Vec<LabelPair>,
    #[prost(double, tag = "2")]
    pub(super) value: f64,
    #[prost(message, optional, tag = "3")]
    timestamp: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl Timestamp {
    const fn of(unix_nano: i64) -> Self {
        let nanos = unix_nano.rem_euclid(1_000_000_000) as i32;
        Self { seconds: unix_nano.div_euclid(1_000_000_000), nanos }
    }
}

/// What counts as zero, in Prometheus' own clients. It also marks a histogram as native.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;
/// So many empty buckets are written out, as a new span would be longer.
const SHORT_GAP: i32 = 2;

#[derive(Debug, Default)]
pub(super) struct ProtobufWriter {
    bytes: Vec<u8>,
    family: MetricFamily,
}

impl ProtobufWriter {
    fn end_family(&mut self) {
        let family = std::mem::take(&mut self.family);
        if !family.metrics.is_empty() {
            // A Vec always has room.
            let _ = family.encode_length_delimited(&mut self.bytes);
        }
    }
}

impl MetricWriter for ProtobufWriter {
    fn family(&mut self, name: &'static str, kind: FamilyKind, help: &'static str) {
        self.end_family();
        let (kind, suffix) = match kind {
            FamilyKind::Counter => (COUNTER, "_total"),
            FamilyKind::Histogram => (HISTOGRAM, ""),
        };
        self.family = MetricFamily {
            name: format!("{name}{suffix}"),
            help: format!("{help}."),
            kind,
            metrics: Vec::new(),
        };
    }

    fn counter(&mut self, labels: &Labels<'_>, since_unix_nano: i64, value: u64) {
        let created_timestamp = Some(Timestamp::of(since_unix_nano));
        let counter = Some(Counter { value: value as f64, created_timestamp });
        self.family.metrics.push(Metric { labels: pairs(labels), counter, histogram: None });
    }

    fn histogram(
        &mut self,
        labels: &Labels<'_>,
        since_unix_nano: i64,
        histogram: &Counted,
        bounds_nano: &[i64],
    ) {
        let mut cumulative_count = 0;
        let ends = bounds_nano.iter().map(|nano| seconds(*nano)).chain([f64::INFINITY]);
        let exemplar = |bucket| {
            let exemplar = histogram.exemplar(bucket)?;
            let labels = pairs(&[("trace_id", &exemplar.trace_id.to_string())]);
            let timestamp = Some(Timestamp::of(exemplar.at_unix_nano));
            Some(Exemplar { labels, value: seconds(exemplar.nano), timestamp })
        };
        let buckets: Vec<Bucket> = (ends.zip(&histogram.classic).enumerate())
            .map(|(bucket, (upper_bound, count))| {
                cumulative_count += count;
                Bucket { cumulative_count, upper_bound, exemplar: exemplar(bucket) }
            })
            .collect();
        // Newer versions of Prometheus take a native histogram's exemplars from here, by time.
        let mut exemplars: Vec<Exemplar> =
            buckets.iter().filter_map(|bucket| bucket.exemplar.clone()).collect();
        exemplars.sort_by_key(|exemplar| exemplar.timestamp.map(|at| (at.seconds, at.nanos)));
        let (positive_spans, positive_deltas) = native(&histogram.native);
        let histogram = Histogram {
            sample_count: histogram.count,
            sample_sum: histogram.sum_nano as f64 / 1e9,
            buckets,
            schema: i32::from(histogram.native.schema),
            zero_threshold: ZERO_THRESHOLD,
            zero_count: histogram.native.zero,
            positive_spans,
            positive_deltas,
            created_timestamp: Some(Timestamp::of(since_unix_nano)),
            exemplars,
        };
        let histogram = Some(histogram);
        self.family.metrics.push(Metric { labels: pairs(labels), counter: None, histogram });
    }

    fn finish(mut self) -> Vec<u8> {
        self.end_family();
        self.bytes
    }
}

fn pairs(labels: &Labels<'_>) -> Vec<LabelPair> {
    let pair = |(name, value): &(&str, &str)| LabelPair {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    labels.iter().map(pair).collect()
}

/// Native buckets as spans of neighbours, and each bucket's difference from the one before.
fn native(native: &Native) -> (Vec<BucketSpan>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<BucketSpan>::new(), Vec::new());
    let mut before = 0;
    let mut end = 0;
    let filled = (native.first..).zip(&native.counts).filter(|(_, count)| **count > 0);
    for (index, count) in filled {
        let gap = index - end;
        match spans.last_mut() {
            Some(span) if gap <= SHORT_GAP => {
                for _ in 0..gap {
                    deltas.push(-before);
                    before = 0;
                }
                span.length += gap.unsigned_abs() + 1;
            }
            _ => spans.push(BucketSpan { offset: gap, length: 1 }),
        }
        let count = *count as i64;
        deltas.push(count - before);
        (before, end) = (count, index + 1);
    }
    (spans, deltas)
}
