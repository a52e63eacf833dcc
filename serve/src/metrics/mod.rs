//! `GET /metrics`: everything that the status page counts, for Prometheus.
//!
//! Made from the same document as `/api/v1/status`, so that a new counter is in
//! both. Names follow Prometheus' conventions: `spanwise_PART_WHAT_total` for
//! what only grows, units as suffixes, times in seconds.

mod agents;
mod exposition;
mod family;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::ApiState;
use crate::status;
use exposition::Exposition;
use family::{Families, Kind, metric_name};

pub(crate) async fn metrics(State(state): State<ApiState>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|text| text.to_str().ok());
    let exposition = Exposition::wanted(accept.unwrap_or_default());
    let families = families(&status::document(&state));
    let kind = [(header::CONTENT_TYPE, exposition.media_type())];
    (kind, exposition.write(&families)).into_response()
}

/// Counters whose names end in what is better told by a label: one metric then
/// sums up all of them.
const LABELLED: &[(&str, &str, &str)] = &[
    ("spans_rejected_", "spans_rejected", "reason"),
    ("spans_clock_", "spans_clock_wrong", "fault"),
    ("requests_refused_", "requests_refused", "reason"),
];

fn families(status: &Value) -> Families {
    let mut families = Families::default();
    if let Some(version) = status["version"].as_str() {
        let labels = [("version", version)];
        families.put("spanwise_build_info", Kind::Gauge, "The running version", &labels, &1.into());
    }
    let gauge = |families: &mut Families, name, help, value| {
        families.put(name, Kind::Gauge, help, &[], value);
    };
    let uptime = &status["uptime_seconds"];
    gauge(&mut families, "spanwise_uptime_seconds", "Time since the start", uptime);
    let warnings = status["warnings"].as_array().map_or(0, Vec::len);
    let help = "Warnings that the status page shows now";
    gauge(&mut families, "spanwise_warnings", help, &warnings.into());
    process(&mut families, &status["process"]);
    for (prefix, part) in [
        ("spanwise_ingest", &status["ingest"]),
        ("spanwise_assembly", &status["server"]["assembly"]),
        ("spanwise_store", &status["store"]),
    ] {
        figures(&mut families, prefix, part);
        counters(&mut families, prefix, &part["counters"]);
    }
    // Of a store without object storage there is none.
    figures(&mut families, "spanwise_store_object_storage", &status["store"]["object_storage"]);
    agents::put(&mut families, &status["ingest"]["agents"]);
    clocks(&mut families, &status["server"]["assembly"]["clocks"]);
    families
}

/// Pairs of hosts shown: two time series each.
const MOST_CLOCKS: usize = 1_024;

/// How far the clocks of hosts are apart.
fn clocks(families: &mut Families, clocks: &Value) {
    for clock in clocks.as_array().into_iter().flatten().take(MOST_CLOCKS) {
        let text = |field: &str| clock[field].as_str().unwrap_or_default();
        let labels = [("host", text("host")), ("reference", text("reference"))];
        for (field, name, help) in [
            ("ahead_nano", "ahead", "By how much the host's clock is ahead of the reference's"),
            ("uncertainty_nano", "uncertainty", "How far that may be from the truth"),
        ] {
            let seconds = clock[field].as_i64().map(|nano| nano as f64 / 1e9);
            let name = format!("spanwise_assembly_clock_{name}_seconds");
            families.put(&name, Kind::Gauge, help, &labels, &seconds.into());
        }
    }
}

/// Under the names that Prometheus' own client libraries use.
fn process(families: &mut Families, process: &Value) {
    for (field, name, kind, help) in [
        ("cpu_seconds", "process_cpu_seconds", Kind::Counter, "CPU time spent"),
        ("resident_bytes", "process_resident_memory_bytes", Kind::Gauge, "Resident memory"),
        ("open_files", "process_open_fds", Kind::Gauge, "Open file descriptors"),
        ("threads", "process_threads", Kind::Gauge, "Threads"),
    ] {
        families.put(name, kind, help, &[], &process[field]);
    }
}

/// Numbers beside the counters: what there is now.
fn figures(families: &mut Families, prefix: &str, part: &Value) {
    for (field, value) in part.as_object().into_iter().flatten() {
        let help = format!("{} now", field.replace('_', " "));
        if let Some(time) = field.strip_suffix("_unix_nano") {
            let name = format!("{prefix}_{}_timestamp_seconds", metric_name(time));
            // Zero stands for "there is none".
            if let Some(nano) = value.as_i64().filter(|nano| *nano != 0) {
                let seconds = nano as f64 / 1e9;
                families.put(&name, Kind::Gauge, &help, &[], &seconds.into());
            }
        } else {
            families.put(
                &format!("{prefix}_{}", metric_name(field)),
                Kind::Gauge,
                &help,
                &[],
                value,
            );
        }
    }
}

/// Counters come as an object, or as pairs of name and number.
fn counters(families: &mut Families, prefix: &str, counters: &Value) {
    let named = counters.as_object().into_iter().flatten().map(|(name, n)| (name.as_str(), n));
    let pairs = counters.as_array().into_iter().flatten();
    let pairs = pairs.filter_map(|pair| Some((pair[0].as_str()?, pair.get(1)?)));
    for (name, count) in named.chain(pairs) {
        let labelled = LABELLED
            .iter()
            .find_map(|(begin, family, label)| Some((*family, *label, name.strip_prefix(begin)?)));
        let (family, labels) = match &labelled {
            Some((family, label, value)) => (*family, vec![(*label, *value)]),
            None => (name, Vec::new()),
        };
        let help = format!("{} since the start", family.replace('_', " "));
        let family = format!("{prefix}_{}", metric_name(family));
        families.put(&family, Kind::Counter, &help, &labels, count);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> Value {
        json!({
            "version": "1.2\"3", "uptime_seconds": 1.5, "warnings": ["a", "b"],
            "process": {"cpu_seconds": 0.25, "resident_bytes": 4096},
            "server": {"assembly": {"rows_held": 3, "counters": {"rows": 9}, "clocks": [
                {"host": "b", "reference": "a", "ahead_nano": -2_500_000, "uncertainty_nano": 1_000,
                 "exchanges": 4}]}},
            "store": {
                "kind": "embedded", "wal_bytes": 77, "oldest_unix_nano": 1_500_000_000,
                "counters": [["appends_refused_full", 2]], "warnings": [],
            },
            "ingest": {
                "in_flight_bytes": 5,
                "counters": {
                    "otlp_spans_accepted": 7, "spans_rejected_malformed_span": 1,
                    "spans_rejected_invalid_trace_id": 2, "spans_clock_past": 3,
                },
                "agents": [{
                    "source": "00112233445566778899aabbccddeeff", "connected": true, "spans": 4,
                    "batches": 2, "last_seen_unix_nano": 2_000_000_000_i64,
                    "facts": {"host": "a\nb", "counters": {
                        "kernel_events_lost_ring_full": 8, "no name!{}": 1, "not": "a number",
                    }},
                }],
            },
        })
    }

    #[test]
    fn prometheus_text() {
        let text = Exposition::wanted("*/*").write(&families(&status()));
        for line in [
            "# TYPE spanwise_ingest_otlp_spans_accepted_total counter",
            "spanwise_ingest_otlp_spans_accepted_total 7",
            "spanwise_ingest_spans_rejected_total{reason=\"invalid_trace_id\"} 2",
            "spanwise_ingest_spans_rejected_total{reason=\"malformed_span\"} 1",
            "spanwise_ingest_spans_clock_wrong_total{fault=\"past\"} 3",
            "spanwise_ingest_in_flight_bytes 5",
            "spanwise_assembly_rows_held 3",
            "spanwise_assembly_rows_total 9",
            "spanwise_assembly_clock_ahead_seconds{host=\"b\",reference=\"a\"} -0.0025",
            "spanwise_store_wal_bytes 77",
            "spanwise_store_oldest_timestamp_seconds 1.5",
            "spanwise_store_appends_refused_full_total 2",
            "spanwise_build_info{version=\"1.2\\\"3\"} 1",
            "spanwise_warnings 2",
            "process_cpu_seconds_total 0.25",
            "process_resident_memory_bytes 4096",
            "spanwise_agent_kernel_events_lost_ring_full_total{host=\"a\\nb\",run=\"00112233\"} 8",
            "spanwise_agent_no_name____total{host=\"a\\nb\",run=\"00112233\"} 1",
            "spanwise_ingest_agent_connected{host=\"a\\nb\",run=\"00112233\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in:\n{text}");
        }
        assert_eq!(text.matches("# TYPE spanwise_ingest_spans_rejected_total ").count(), 1);
        assert!(!text.contains("embedded") && !text.contains("# EOF"), "{text}");
    }

    #[test]
    fn open_metrics() {
        let exposition =
            Exposition::wanted("application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
        let text = exposition.write(&families(&status()));
        assert!(text.contains("# TYPE spanwise_ingest_otlp_spans_accepted counter\n"), "{text}");
        assert!(text.contains("# UNIT spanwise_store_wal_bytes bytes\n"), "{text}");
        assert!(text.contains("\nspanwise_ingest_otlp_spans_accepted_total 7\n"), "{text}");
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn an_empty_status_is_no_failure() {
        let text = Exposition::wanted("").write(&families(&Value::Null));
        assert!(text.ends_with("spanwise_warnings 0\n"), "{text}");
    }
}
