//! `GET /metrics`: all figures of the status page, for Prometheus. [`spans`] has those of spans.
//!
//! It uses the same types as `/api/v1/status`, so that new figures cannot be forgotten here. Names
//! follow Prometheus' conventions: `spanwise_PART_WHAT_total` for counters, units as suffixes,
//! times in seconds.

mod agents;
mod exposition;
mod family;
pub(crate) mod spans;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use spanwise_api::{
    Assembly, Count, HostClock, Ingest, ObjectStorage, Process, Status, Store, Watch,
};

use crate::{ApiState, native};
use exposition::Exposition;
use family::{Families, Kind, metric_name};

pub(crate) async fn metrics(State(state): State<ApiState>, headers: HeaderMap) -> Response {
    let exposition = wanted(&headers, Exposition::TEXTS);
    let mut families = families(&native::document(&state));
    if let Some(watched) = state.status.watch() {
        watch(&mut families, &watched);
    }
    let kind = [(header::CONTENT_TYPE, exposition.media_type())];
    (kind, exposition.write(&families)).into_response()
}

/// Of these formats, the one that is asked for.
fn wanted(headers: &HeaderMap, of: &[Exposition]) -> Exposition {
    let accept = headers.get(header::ACCEPT).and_then(|text| text.to_str().ok());
    Exposition::wanted(accept.unwrap_or_default(), of)
}

/// Counters whose names have a variable suffix, which becomes a label.
const LABELLED: &[(&str, &str, &str)] = &[
    ("spans_rejected_", "spans_rejected", "reason"),
    ("spans_clock_", "spans_clock_wrong", "fault"),
    ("requests_refused_", "requests_refused", "reason"),
];

fn families(status: &Status) -> Families {
    let mut families = Families::default();
    if !status.version.is_empty() {
        let labels = [("version", status.version.as_str())];
        families.put("spanwise_build_info", Kind::Gauge, "The running version", &labels, 1);
    }
    let uptime = status.uptime_seconds;
    families.put("spanwise_uptime_seconds", Kind::Gauge, "Time since the start", &[], uptime);
    let help = "Warnings that the status page shows now";
    families.put("spanwise_warnings", Kind::Gauge, help, &[], status.warnings.len() as u64);
    process(&mut families, &status.process);
    ingest(&mut families, &status.ingest);
    assembly(&mut families, &status.server.assembly);
    store(&mut families, &status.store);
    families
}

/// Rules that are watched.
fn watch(families: &mut Families, watch: &Watch) {
    for rule in &watch.rules {
        let help = "What breaks a watched rule now";
        let labels = [("rule", rule.rule.as_str())];
        let alerts = rule.alerts.len() as u64;
        families.put("spanwise_watch_alerts", Kind::Gauge, help, &labels, alerts);
    }
    if let Some(webhook) = &watch.webhook {
        for (name, help, count) in [
            ("spanwise_watch_webhook_told", "Alerts that a webhook was told", webhook.told),
            ("spanwise_watch_webhook_failures", "Failed requests to it", webhook.failures),
            ("spanwise_watch_webhook_dropped", "Alerts that were given up", webhook.dropped),
        ] {
            families.put(name, Kind::Counter, help, &[], count);
        }
    }
}

/// With the names of Prometheus' own client libraries.
fn process(families: &mut Families, process: &Process) {
    let Process { cpu_seconds, open_files, resident_bytes, threads } = *process;
    let help = "CPU time spent";
    families.put("process_cpu_seconds", Kind::Counter, help, &[], cpu_seconds);
    let help = "Resident memory";
    families.put("process_resident_memory_bytes", Kind::Gauge, help, &[], resident_bytes);
    families.put("process_open_fds", Kind::Gauge, "Open file descriptors", &[], open_files);
    families.put("process_threads", Kind::Gauge, "Threads", &[], threads);
}

fn ingest(families: &mut Families, ingest: &Ingest) {
    let Ingest {
        agents,
        connections,
        counters,
        flight_streams,
        in_flight_bytes,
        otap_kept_bytes,
        otap_streams,
    } = ingest;
    figures(
        families,
        "spanwise_ingest",
        &[
            ("connections", *connections),
            ("flight_streams", *flight_streams),
            ("in_flight_bytes", *in_flight_bytes),
            ("otap_kept_bytes", *otap_kept_bytes),
            ("otap_streams", *otap_streams),
        ],
    );
    self::counters(families, "spanwise_ingest", counters);
    agents::put(families, agents);
}

fn assembly(families: &mut Families, assembly: &Assembly) {
    let Assembly { clocks, counters, rows_held } = assembly;
    figures(families, "spanwise_assembly", &[("rows_held", *rows_held)]);
    self::counters(families, "spanwise_assembly", counters);
    self::clocks(families, clocks);
}

fn store(families: &mut Families, store: &Store) {
    let Store {
        counters,
        file_bytes,
        file_rows,
        files,
        kind: _,
        object_storage,
        oldest_unix_nano,
        recent_bytes,
        recent_rows,
        wal_bytes,
        warnings: _,
    } = store;
    figures(
        families,
        "spanwise_store",
        &[
            ("file_bytes", *file_bytes),
            ("file_rows", *file_rows),
            ("files", *files),
            ("recent_bytes", *recent_bytes),
            ("recent_rows", *recent_rows),
            ("wal_bytes", *wal_bytes),
        ],
    );
    if *oldest_unix_nano != Count(0) {
        let name = "spanwise_store_oldest_timestamp_seconds";
        families.put(name, Kind::Gauge, "oldest unix nano now", &[], seconds(*oldest_unix_nano));
    }
    self::counters(families, "spanwise_store", counters.iter().map(|(name, count)| (name, count)));
    if let Some(storage) = object_storage {
        self::object_storage(families, storage);
    }
}

fn object_storage(families: &mut Families, storage: &ObjectStorage) {
    let ObjectStorage {
        cache_bytes,
        cache_max_bytes,
        hidden_files,
        leaving_files,
        remote_bytes,
        remote_files,
        url: _,
        waiting_bytes,
        waiting_files,
    } = storage;
    figures(
        families,
        "spanwise_store_object_storage",
        &[
            ("cache_bytes", *cache_bytes),
            ("cache_max_bytes", *cache_max_bytes),
            ("hidden_files", *hidden_files),
            ("leaving_files", *leaving_files),
            ("remote_bytes", *remote_bytes),
            ("remote_files", *remote_files),
            ("waiting_bytes", *waiting_bytes),
            ("waiting_files", *waiting_files),
        ],
    );
}

/// Gauges.
fn figures(families: &mut Families, prefix: &str, figures: &[(&str, Count)]) {
    for (field, value) in figures {
        let help = format!("{} now", field.replace('_', " "));
        families.put(&format!("{prefix}_{field}"), Kind::Gauge, &help, &[], *value);
    }
}

/// Maximum pairs of hosts. Each has two time series.
const MOST_CLOCKS: usize = 1_024;

/// Clock differences between hosts.
fn clocks(families: &mut Families, clocks: &[HostClock]) {
    for clock in clocks.iter().take(MOST_CLOCKS) {
        let labels = [("host", clock.host.as_str()), ("reference", clock.reference.as_str())];
        for (nano, name, help) in [
            (clock.ahead_nano, "ahead", "By how much the host's clock is ahead of the reference's"),
            (clock.uncertainty_nano, "uncertainty", "How far that may be from the truth"),
        ] {
            let name = format!("spanwise_assembly_clock_{name}_seconds");
            families.put(&name, Kind::Gauge, help, &labels, seconds(nano));
        }
    }
}

fn seconds(nano: Count) -> f64 {
    nano.0 as f64 / 1e9
}

fn counters<'a>(
    families: &mut Families,
    prefix: &str,
    counters: impl IntoIterator<Item = (&'a String, &'a Count)>,
) {
    for (name, count) in counters {
        let labelled = LABELLED
            .iter()
            .find_map(|(begin, family, label)| Some((*family, *label, name.strip_prefix(begin)?)));
        let (family, labels) = match &labelled {
            Some((family, label, value)) => (*family, vec![(*label, *value)]),
            None => (name.as_str(), Vec::new()),
        };
        let help = format!("{} since the start", family.replace('_', " "));
        let family = format!("{prefix}_{}", metric_name(family));
        families.put(&family, Kind::Counter, &help, &labels, *count);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use spanwise_api::{AgentFacts, ReportingAgent, Server};

    use super::*;

    fn counts(pairs: &[(&str, i64)]) -> BTreeMap<String, Count> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Count(*value))).collect()
    }

    fn status() -> Status {
        Status {
            version: "1.2\"3".to_owned(),
            uptime_seconds: 1.5,
            warnings: vec!["a".to_owned(), "b".to_owned()],
            process: Process {
                cpu_seconds: Some(0.25),
                resident_bytes: Some(Count(4096)),
                ..Process::default()
            },
            server: Server {
                assembly: Assembly {
                    rows_held: Count(3),
                    counters: counts(&[("rows", 9)]),
                    clocks: vec![HostClock {
                        host: "b".to_owned(),
                        reference: "a".to_owned(),
                        ahead_nano: Count(-2_500_000),
                        uncertainty_nano: Count(1_000),
                        exchanges: Count(4),
                    }],
                },
                ..Server::default()
            },
            store: Store {
                kind: "embedded".to_owned(),
                wal_bytes: Count(77),
                oldest_unix_nano: Count(1_500_000_000),
                counters: vec![("appends_refused_full".to_owned(), Count(2))],
                ..Store::default()
            },
            ingest: Ingest {
                in_flight_bytes: Count(5),
                counters: counts(&[
                    ("otlp_spans_accepted", 7),
                    ("spans_rejected_malformed_span", 1),
                    ("spans_rejected_invalid_trace_id", 2),
                    ("spans_clock_past", 3),
                ]),
                agents: vec![ReportingAgent {
                    source: "00112233445566778899aabbccddeeff".to_owned(),
                    connected: true,
                    spans: Count(4),
                    batches: Count(2),
                    last_seen_unix_nano: Count(2_000_000_000),
                    facts: Some(AgentFacts {
                        host: Some("a\nb".to_owned()),
                        counters: counts(&[("kernel_events_lost_ring_full", 8), ("no name!{}", 1)]),
                        ..AgentFacts::default()
                    }),
                    ..ReportingAgent::default()
                }],
                ..Ingest::default()
            },
            ..Status::default()
        }
    }

    #[test]
    fn prometheus_text() {
        let text = Exposition::wanted("*/*", Exposition::TEXTS).write(&families(&status()));
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
        let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        let exposition = Exposition::wanted(accept, Exposition::TEXTS);
        let text = exposition.write(&families(&status()));
        assert!(text.contains("# TYPE spanwise_ingest_otlp_spans_accepted counter\n"), "{text}");
        assert!(text.contains("# UNIT spanwise_store_wal_bytes bytes\n"), "{text}");
        assert!(text.contains("\nspanwise_ingest_otlp_spans_accepted_total 7\n"), "{text}");
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn an_empty_status_is_no_failure() {
        let text = Exposition::wanted("", Exposition::TEXTS).write(&families(&Status::default()));
        assert!(text.lines().any(|line| line == "spanwise_warnings 0"), "{text}");
    }
}
