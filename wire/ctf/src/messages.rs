//! OpenTelemetry's logs and metrics, as deep as they are looked at here. A message that is only
//! handed on is bytes: both have the same form on the wire.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

/// `ExportLogsServiceRequest` and `ExportMetricsServiceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Request {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resources: Vec<OfResource>,
}

/// `ResourceLogs` and `ResourceMetrics`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OfResource {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) resource: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scopes: Vec<OfScope>,
    #[prost(string, tag = "3")]
    pub(crate) schema_url: String,
}

/// `ScopeLogs` and `ScopeMetrics`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OfScope {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) scope: Vec<u8>,
    /// Log records, or metrics.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(crate) items: Vec<Vec<u8>>,
    #[prost(string, tag = "3")]
    pub(crate) schema_url: String,
}

/// A log record that is made here.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    pub(crate) time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    pub(crate) severity_number: i32,
    #[prost(message, optional, tag = "5")]
    pub(crate) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(bytes = "vec", tag = "9")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    pub(crate) span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    pub(crate) observed_time_unix_nano: u64,
}

/// A metric, for its number of points.
#[derive(Clone, PartialEq, prost::Message)]
struct Metric {
    #[prost(message, optional, tag = "5")]
    gauge: Option<Points>,
    #[prost(message, optional, tag = "7")]
    sum: Option<Points>,
    #[prost(message, optional, tag = "9")]
    histogram: Option<Points>,
    #[prost(message, optional, tag = "10")]
    exponential_histogram: Option<Points>,
    #[prost(message, optional, tag = "11")]
    summary: Option<Points>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Points {
    #[prost(bytes = "vec", repeated, tag = "1")]
    points: Vec<Vec<u8>>,
}

/// How many points a metric has.
///
/// # Errors
/// If it is damaged.
pub(crate) fn points(metric: &[u8]) -> Result<usize, prost::DecodeError> {
    let metric = <Metric as prost::Message>::decode(metric)?;
    let kinds =
        [metric.gauge, metric.sum, metric.histogram, metric.exponential_histogram, metric.summary];
    Ok(kinds.into_iter().flatten().map(|kind| kind.points.len()).sum())
}
