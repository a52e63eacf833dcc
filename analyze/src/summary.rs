//! A trace in a line: what a list of search results shows.

use std::collections::BTreeMap;

use serde::Serialize;
use spanwise_assemble::{Node, Trace};
use spanwise_model::TraceId;

use crate::labels::Labels;

/// One trace, summed up.
#[derive(Debug, Clone)]
pub struct TraceSummary {
    /// Its id.
    pub trace_id: TraceId,
    /// Its first root; `None` for a trace without spans.
    pub root: Option<RootSummary>,
    /// Earliest start.
    pub start_unix_nano: i64,
    /// From the earliest start to the latest end.
    pub duration_nano: i64,
    /// Spans.
    pub spans: usize,
    /// Spans whose status is an error.
    pub errors: usize,
    /// Services, busiest first.
    pub services: Vec<ServiceShare>,
    /// Protocols, by name.
    pub protocols: Vec<String>,
    /// Links below certainty.
    pub uncertain_links: usize,
    /// Whether all spans hang under one root.
    pub complete: bool,
}

/// The root of a trace.
#[derive(Debug, Clone, Serialize)]
pub struct RootSummary {
    /// Its service.
    pub service: String,
    /// Its operation.
    pub operation: String,
    /// Its kind.
    pub kind: &'static str,
    /// Where it was seen.
    pub capture: &'static str,
}

/// A service's part in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceShare {
    /// The service.
    pub name: String,
    /// Its spans.
    pub spans: usize,
    /// Those that failed.
    pub errors: usize,
    /// Time in its spans that no child of theirs covers.
    pub busy_nano: i64,
}

impl TraceSummary {
    /// The summary of a tree, whose rows are those of the labels.
    pub fn of(trace: &Trace, labels: &Labels<'_>) -> Self {
        let mut services: BTreeMap<&str, ServiceShare> = BTreeMap::new();
        let mut protocols: Vec<&str> = Vec::new();
        for Node { row, self_nano, .. } in &trace.nodes {
            let service = labels.service(row.at);
            let share = services.entry(service).or_insert_with(|| ServiceShare {
                name: service.to_owned(),
                spans: 0,
                errors: 0,
                busy_nano: 0,
            });
            share.spans += 1;
            share.errors += usize::from(labels.is_error(row.at));
            share.busy_nano = share.busy_nano.saturating_add(*self_nano);
            // There are few of them.
            if let Some(name) = labels.protocol(row.at)
                && !protocols.contains(&name)
            {
                protocols.push(name);
            }
        }
        protocols.sort_unstable();
        let mut services: Vec<ServiceShare> = services.into_values().collect();
        services.sort_by(|a, b| b.busy_nano.cmp(&a.busy_nano).then_with(|| a.name.cmp(&b.name)));
        let start = trace.start_unix_nano();
        Self {
            trace_id: trace.trace_id,
            root: trace.roots().next().map(|Node { row, .. }| RootSummary {
                service: labels.service(row.at).to_owned(),
                operation: labels.operation(row.at).to_owned(),
                kind: row.kind.as_str(),
                capture: row.capture.as_str(),
            }),
            start_unix_nano: start,
            duration_nano: trace.end_unix_nano().saturating_sub(start),
            spans: trace.nodes.len(),
            errors: services.iter().map(|service| service.errors).sum(),
            services,
            protocols: protocols.into_iter().map(str::to_owned).collect(),
            uncertain_links: trace.uncertain_links(),
            complete: trace.roots().count() == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_assemble::Row;
    use spanwise_model::{Capture, Evidence, Kind, Span, SpanBatchBuilder, SpanId, Status};

    #[test]
    fn a_tree_is_summed_up_by_service() {
        let id = |number| SpanId::from_u64(number).expect("not zero");
        let span = |number, capture, kind, service: &str, start, length| {
            Span::new(id(number), capture, kind, service, "op", start, length)
        };
        let mut served = span(1, Capture::ServerProcess, Kind::Server, "web", 1_000, 100);
        served.fragment_id = Some(1);
        served.protocol = Some("http".into());
        let mut guess = span(2, Capture::ClientProcess, Kind::Client, "web", 1_010, 60);
        guess.fragment_id = Some(1);
        (guess.evidence, guess.confidence) = (Some(Evidence::SoleRequest), Some(0.9));
        guess.protocol = Some("redis".into());
        guess.status = Status::Error;
        let mut unsure = span(3, Capture::ClientProcess, Kind::Client, "job", 1_020, 200);
        unsure.evidence = Some(Evidence::Ambiguous);
        let spans = [unsure, guess, served];
        let batch = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        let batches = [batch];
        let rows = Row::read(0, &batches[0]).expect("spans");
        let labels = Labels::of(&batches).expect("all columns");
        let summary = TraceSummary::of(&Trace::of(rows), &labels);
        let root = summary.root.expect("a root");
        assert_eq!(
            (root.service.as_str(), root.kind, root.capture),
            ("web", "server", "server-process")
        );
        assert_eq!((summary.start_unix_nano, summary.duration_nano), (1_000, 220));
        assert_eq!((summary.spans, summary.errors, summary.uncertain_links), (3, 1, 2));
        assert!(!summary.complete, "one of three hangs nowhere");
        assert_eq!(summary.protocols, ["http", "redis"]);
        let shares: Vec<_> = summary
            .services
            .iter()
            .map(|s| (s.name.as_str(), s.spans, s.errors, s.busy_nano))
            .collect();
        // 200 of its own; 40 around the call and the call's 60.
        assert_eq!(shares, [("job", 1, 0, 200), ("web", 2, 1, 100)]);
    }
}
