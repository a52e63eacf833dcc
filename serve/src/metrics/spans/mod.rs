//! `GET /metrics/spans`: calls, errors and durations of all spans, and of all calls between
//! services, under the names of Tempo's metrics generator, which Grafana's panels read.

mod protobuf;
mod text;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use spanwise_analyze::red::{Histogram, RedSnapshot, Series};
use spanwise_model::{Kind, Status};

use super::exposition::Exposition;
use super::wanted;
use crate::ApiState;
use protobuf::ProtobufWriter;
use text::TextWriter;

pub(crate) async fn metrics(State(state): State<ApiState>, headers: HeaderMap) -> Response {
    let format = wanted(&headers, Exposition::ALL);
    // Thousands of series take a while, in which other requests go on.
    let written = tokio::task::spawn_blocking(move || {
        let snapshot = state.status.span_metrics()?;
        Some(write(format, &snapshot))
    });
    match written.await {
        Ok(Some(body)) => ([(header::CONTENT_TYPE, format.media_type())], body).into_response(),
        Ok(None) => {
            let hint = "spans are not counted for Prometheus: the setting metrics.spans is off\n";
            (StatusCode::NOT_FOUND, hint).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "writing the metrics of spans failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Writes metrics in a format.
trait MetricWriter {
    /// Begins a family; `name` is that of a counter without `_total`.
    fn family(&mut self, name: &'static str, kind: FamilyKind, help: &'static str);

    /// Writes a sample of the family.
    fn counter(&mut self, labels: &Labels<'_>, since_unix_nano: i64, value: u64);

    /// Writes a histogram of the family.
    fn histogram(
        &mut self,
        labels: &Labels<'_>,
        since_unix_nano: i64,
        histogram: &Histogram,
        bounds_nano: &[i64],
    );

    /// All that was written.
    fn finish(self) -> Vec<u8>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FamilyKind {
    Counter,
    Histogram,
}

/// Names and values.
type Labels<'a> = [(&'static str, &'a str)];

fn write(format: Exposition, snapshot: &RedSnapshot) -> Vec<u8> {
    match format {
        Exposition::Protobuf => write_to(ProtobufWriter::default(), snapshot),
        Exposition::OpenMetrics => write_to(TextWriter::new(true), snapshot),
        Exposition::Prometheus => write_to(TextWriter::new(false), snapshot),
    }
}

fn write_to(mut to: impl MetricWriter, snapshot: &RedSnapshot) -> Vec<u8> {
    use FamilyKind::{Counter, Histogram};
    let RedSnapshot { spans, span_bounds_nano, edges, edge_bounds_nano } = snapshot;
    to.family("traces_spanmetrics_calls", Counter, "Spans");
    for series in spans {
        to.counter(&span_labels(series), series.since_unix_nano, series.durations.count);
    }
    to.family("traces_spanmetrics_latency", Histogram, "Durations of spans in seconds");
    for series in spans {
        let (since, durations) = (series.since_unix_nano, &series.durations);
        to.histogram(&span_labels(series), since, durations, span_bounds_nano);
    }
    to.family("traces_service_graph_request", Counter, "Calls between services");
    for edge in edges {
        to.counter(&edge_labels(edge), edge.since_unix_nano, edge.durations.count);
    }
    to.family("traces_service_graph_request_failed", Counter, "Calls that failed");
    for edge in edges {
        to.counter(&edge_labels(edge), edge.since_unix_nano, edge.failed);
    }
    let help = "Durations of calls at the called side";
    to.family("traces_service_graph_request_server_seconds", Histogram, help);
    for edge in edges {
        let since = edge.since_unix_nano;
        to.histogram(&edge_labels(edge), since, &edge.durations, edge_bounds_nano);
    }
    let help = "Durations of calls at the calling side";
    to.family("traces_service_graph_request_client_seconds", Histogram, help);
    for edge in edges {
        let since = edge.since_unix_nano;
        let durations = edge.other_durations.as_ref().unwrap_or(&edge.durations);
        to.histogram(&edge_labels(edge), since, durations, edge_bounds_nano);
    }
    to.finish()
}

fn span_labels(series: &Series) -> [(&'static str, &str); 4] {
    let (kind, status) = series.kind_and_status();
    let kind = match kind {
        Kind::Internal => "SPAN_KIND_INTERNAL",
        Kind::Server => "SPAN_KIND_SERVER",
        Kind::Client => "SPAN_KIND_CLIENT",
        Kind::Producer => "SPAN_KIND_PRODUCER",
        Kind::Consumer => "SPAN_KIND_CONSUMER",
    };
    let status = match status {
        Status::Unset => "STATUS_CODE_UNSET",
        Status::Ok => "STATUS_CODE_OK",
        Status::Error => "STATUS_CODE_ERROR",
    };
    [
        ("service", &series.first),
        ("span_name", &series.second),
        ("span_kind", kind),
        ("status_code", status),
    ]
}

fn edge_labels(edge: &Series) -> [(&'static str, &str); 3] {
    [
        ("client", &edge.first),
        ("server", &edge.second),
        ("connection_type", edge.connection_type().as_str()),
    ]
}

fn seconds(nano: i64) -> f64 {
    nano as f64 / 1e9
}

#[cfg(test)]
mod tests;
