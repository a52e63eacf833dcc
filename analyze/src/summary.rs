//! Trace summaries for lists of search results.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_assemble::{Node, Trace};
use spanwise_model::{Capture, Kind, TraceId};

use crate::labels::Labels;

/// The summary of one trace.
#[derive(Debug, Clone)]
pub struct TraceSummary {
    /// The trace id.
    pub trace_id: TraceId,
    /// The first root; `None` for a trace without spans.
    pub root: Option<RootSummary>,
    /// Earliest start.
    pub start_unix_nano: i64,
    /// From the earliest start to the latest end.
    pub duration_nano: i64,
    /// Number of spans.
    pub spans: usize,
    /// Number of spans whose status is an error.
    pub errors: usize,
    /// Services, busiest first.
    pub services: Vec<ServiceShare>,
    /// Protocols, sorted by name.
    pub protocols: Vec<String>,
    /// Number of uncertain links.
    pub uncertain_links: usize,
    /// Whether a link is doubtful enough for a warning.
    pub doubtful: bool,
    /// Whether no span's parent is missing.
    pub complete: bool,
    /// The failure closest to the cause; `None` if nothing failed.
    pub error: Option<ErrorSummary>,
}

/// A failure of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorSummary {
    /// The service whose span failed. If only the caller treats the response as a failure, as with
    /// HTTP's 404, the service that sent the response, if it was captured.
    pub service: String,
    /// That span's operation.
    pub operation: String,
    /// The protocol's own status code.
    pub status_code: Option<i32>,
    /// The error text.
    pub text: Option<String>,
    /// The span's side of the exchange.
    pub side: Option<ErrorSide>,
}

/// A side of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorSide {
    /// The span is the request's sender.
    Client,
    /// The span is the request's receiver.
    Server,
}

/// The root of a trace.
#[derive(Debug, Clone)]
pub struct RootSummary {
    /// Its service.
    pub service: String,
    /// Its operation.
    pub operation: String,
    /// Its kind.
    pub kind: Kind,
    /// The capture point.
    pub capture: Capture,
}

/// A service's share of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceShare {
    /// The service.
    pub name: String,
    /// Number of its spans.
    pub spans: usize,
    /// Number of failed spans.
    pub errors: usize,
    /// Time in its spans that is not covered by their children.
    pub busy_nano: i64,
}

impl TraceSummary {
    /// The summary of a tree. `labels` must belong to the tree's rows.
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
            // There are few protocols.
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
                kind: row.kind,
                capture: row.capture,
            }),
            start_unix_nano: start,
            duration_nano: trace.end_unix_nano().saturating_sub(start),
            spans: trace.nodes.len(),
            errors: services.iter().map(|service| service.errors).sum(),
            services,
            protocols: protocols.into_iter().map(str::to_owned).collect(),
            uncertain_links: trace.uncertain_links(),
            doubtful: trace.is_doubtful(),
            complete: trace.is_complete(),
            error: error(trace, labels),
        }
    }
}

/// The deepest failed span; the first if there are several.
fn error(trace: &Trace, labels: &Labels<'_>) -> Option<ErrorSummary> {
    let failed = trace.nodes.iter().filter(|node| labels.is_error(node.row.at));
    let by_depth = |node: &&Node| (node.depth, Reverse(node.row.start_unix_nano));
    let deepest = failed.max_by_key(by_depth)?;
    let code = labels.status_code(deepest.row.at);
    // No descendant failed. But a child that responded with the same status code may contain the
    // reason.
    let mut below = deepest.children.iter().map(|child| &trace.nodes[*child]);
    let answered = below.find(|child| {
        code.is_some()
            && matches!(child.row.kind, Kind::Server | Kind::Consumer)
            && labels.status_code(child.row.at) == code
    });
    let told = answered.unwrap_or(deepest).row;
    Some(ErrorSummary {
        service: labels.service(told.at).to_owned(),
        operation: labels.operation(told.at).to_owned(),
        status_code: code,
        text: labels.error(told.at).or_else(|| labels.error(deepest.row.at)).map(cut),
        side: match told.kind {
            Kind::Client | Kind::Producer => Some(ErrorSide::Client),
            Kind::Server | Kind::Consumer => Some(ErrorSide::Server),
            Kind::Internal => None,
        },
    })
}

/// Lists have no room for stack traces.
fn cut(text: &str) -> String {
    const MOST_CHARACTERS: usize = 300;
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_assemble::Row;
    use spanwise_model::{Evidence, Span, SpanBatchBuilder, SpanId, Status};

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
        (guess.status_code, guess.error) = (Some(1146), Some("no such table".into()));
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
            ("web", Kind::Server, Capture::ServerProcess)
        );
        assert_eq!((summary.start_unix_nano, summary.duration_nano), (1_000, 220));
        assert_eq!((summary.spans, summary.errors, summary.uncertain_links), (3, 1, 2));
        assert!(!summary.complete, "one of three hangs nowhere");
        assert!(summary.doubtful);
        let error = summary.error.expect("one failed");
        assert_eq!((error.service.as_str(), error.operation.as_str()), ("web", "op"));
        assert_eq!((error.status_code, error.side), (Some(1146), Some(ErrorSide::Client)));
        assert_eq!(error.text.as_deref(), Some("no such table"));
        assert_eq!(summary.protocols, ["http", "redis"]);
        let shares: Vec<_> = summary
            .services
            .iter()
            .map(|s| (s.name.as_str(), s.spans, s.errors, s.busy_nano))
            .collect();
        // 200 of its own; 40 around the call, and the call's 60.
        assert_eq!(shares, [("job", 1, 0, 200), ("web", 2, 1, 100)]);
    }

    fn summary(spans: &[Span]) -> TraceSummary {
        let batch = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        let batches = [batch];
        let rows = Row::read(0, &batches[0]).expect("spans");
        TraceSummary::of(&Trace::of(rows), &Labels::of(&batches).expect("all columns"))
    }

    /// An SDK's span of one trace. Parent 0 means none.
    fn app(number: u64, parent: u64, kind: Kind, service: &str) -> Span {
        let id = SpanId::from_u64(number).expect("not zero");
        let start = i64::try_from(number).expect("small");
        let mut span = Span::new(id, Capture::App, kind, service, "op", start, 100);
        (span.trace_id, span.parent_span_id) = (Some(TraceId([7; 16])), SpanId::from_u64(parent));
        span
    }

    #[test]
    fn a_4xx_is_told_of_who_answered_so() {
        let mut call = app(2, 1, Kind::Client, "web");
        let mut served = app(3, 2, Kind::Server, "cart");
        (call.status, call.status_code) = (Status::Error, Some(404));
        served.status_code = Some(404);
        let spans = [app(1, 0, Kind::Server, "web"), call, served];
        let found = summary(&spans);
        assert_eq!(found.errors, 1, "the answer itself is no failure of the server's");
        let error = found.error.expect("the call failed");
        assert_eq!((error.service.as_str(), error.side), ("cart", Some(ErrorSide::Server)));
        assert_eq!((error.status_code, error.text), (Some(404), None));
        assert!(found.complete && !found.doubtful);
        // If the other side was not captured, the error is the caller's.
        let error = summary(&spans[..2]).error.expect("the call failed");
        assert_eq!((error.service.as_str(), error.side), ("web", Some(ErrorSide::Client)));
    }

    #[test]
    fn complete_is_what_has_no_parent_missing() {
        let spans = [app(1, 0, Kind::Server, "a"), app(3, 2, Kind::Server, "c")];
        assert!(!summary(&spans).complete, "span 2 is to come");
        assert!(!summary(&spans[1..]).complete, "and so it is where there is one root");
        let whole = [spans[0].clone(), app(2, 1, Kind::Client, "a"), spans[1].clone()];
        assert!(summary(&whole).complete);
        let two = [app(1, 0, Kind::Server, "a"), app(2, 0, Kind::Server, "b")];
        assert!(summary(&two).complete, "two spans of one trace that have no parents");
    }
}
