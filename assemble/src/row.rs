//! The parts of a span that assembly needs.

use ahash::AHashSet;
use spanwise_model::{
    Assembled, Capture, ClockFault, Evidence, Kind, RowRef, Span, SpanId, TraceId,
};

use crate::text::Text;

/// The columns of a span by which it is joined to others. The size is fixed, whatever the span
/// holds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "each field is the span row's column of the same name")]
pub struct Row {
    /// The reference to this row in its batch.
    pub at: RowRef,
    pub span_id: SpanId,
    pub trace_id: Option<TraceId>,
    pub parent_span_id: Option<SpanId>,
    pub start_unix_nano: i64,
    /// `start_unix_nano` plus `duration_nano`, never before the start.
    pub end_unix_nano: i64,
    pub capture: Capture,
    pub kind: Kind,
    pub service: Text,
    pub operation: Text,
    pub host: Option<Text>,
    pub process_id: Option<u32>,
    pub protocol: Option<Text>,
    pub fragment_id: Option<u64>,
    pub request_tcp_seq: Option<u32>,
    pub response_tcp_seq: Option<u32>,
    pub client_port: Option<u16>,
    pub server_port: Option<u16>,
    pub x_request_id: Option<Text>,
    pub evidence: Option<Evidence>,
    pub confidence: Option<f32>,
    /// Attribute `http.request.method`, on server spans.
    pub method: Option<Text>,
    /// Attribute `url.path` (older: the path of `http.target`), on server spans.
    pub path: Option<Text>,
    /// Attribute `zipkin.parent_id`, on the called half of a shared span: the parent of the other
    /// half, which may never arrive.
    pub above: Option<SpanId>,
    /// The span's clock fault, if it has one.
    pub clock: Option<ClockFault>,
    /// The earlier result of assembly for the row, if there was one.
    pub prior: Option<Prior>,
}

/// Assembled columns that a row had on arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prior {
    /// `assembled_trace_id`.
    pub trace_id: TraceId,
    /// `assembled_parent`.
    pub parent: Option<SpanId>,
}

/// An SDK row with only its own ids, if nothing else can relate it to other SDK rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) at: RowRef,
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) parent_span_id: Option<SpanId>,
    pub(crate) side: Side,
}

/// The side of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Calling,
    Called,
    Neither,
}

impl Side {
    pub(crate) const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Client | Kind::Producer => Self::Calling,
            Kind::Server | Kind::Consumer => Self::Called,
            Kind::Internal => Self::Neither,
        }
    }
}

impl Named {
    /// Returns nothing if the row is the called half of a shared span, whose children name the
    /// other half.
    pub(crate) fn new(
        at: RowRef,
        trace_id: TraceId,
        span_id: SpanId,
        parent_span_id: Option<SpanId>,
        kind: Kind,
    ) -> Option<Self> {
        (!is_half(span_id, parent_span_id)).then_some(Self {
            at,
            trace_id,
            span_id,
            parent_span_id,
            side: Side::of(kind),
        })
    }

    pub(crate) fn of(row: &Row) -> Option<Self> {
        let trace_id = row.trace_id.filter(|_| row.capture.is_reported())?;
        Self::new(row.at, trace_id, row.span_id, row.parent_span_id, row.kind)
    }
}

/// Whether the span's id marks it as the called half of a shared span.
pub(crate) fn is_half(span_id: SpanId, parent_span_id: Option<SpanId>) -> bool {
    parent_span_id.is_some_and(|parent| span_id == parent.receiving_half())
}

/// Splits spans that client and server report under one id without marking them as shared. As with
/// marked ones, the called half gets its own id, and the calling half becomes its parent.
pub(crate) fn part_twins(rows: &mut [Row]) {
    let is = |row: &Row, side| row.capture.is_reported() && Side::of(row.kind) == side;
    let id = |row: &Row| row.trace_id.map(|trace| (trace, row.span_id));
    let calling = rows.iter().filter(|row| is(row, Side::Calling));
    let calling: AHashSet<_> = calling.filter_map(id).collect();
    for row in rows.iter_mut().filter(|row| is(row, Side::Called)) {
        if id(row).is_some_and(|id| calling.contains(&id)) {
            row.parent_span_id = Some(row.span_id);
            row.span_id = row.span_id.receiving_half();
        }
    }
}

impl Row {
    /// The row of a span; `at` is its reference.
    pub fn from_span(at: RowRef, span: &Span) -> Self {
        let text = |value: &Option<String>| value.as_deref().map(Text::of);
        let attribute = |keys: [&str; 2]| {
            if span.kind != Kind::Server {
                return None;
            }
            keys.iter().find_map(|key| span.attribute(key)?.as_str())
        };
        Self {
            at,
            span_id: span.span_id,
            trace_id: span.trace_id,
            parent_span_id: span.parent_span_id,
            start_unix_nano: span.start_unix_nano,
            end_unix_nano: span.start_unix_nano.saturating_add(span.duration_nano.max(0)),
            capture: span.capture,
            kind: span.kind,
            service: Text::of(&span.service),
            operation: Text::of(&span.operation),
            host: text(&span.host),
            process_id: span.process_id,
            protocol: text(&span.protocol),
            fragment_id: span.fragment_id,
            request_tcp_seq: span.request_tcp_seq,
            response_tcp_seq: span.response_tcp_seq,
            client_port: span.flow.client_port,
            server_port: span.flow.server_port,
            x_request_id: text(&span.x_request_id),
            evidence: span.evidence,
            confidence: span.confidence,
            method: attribute(METHOD_KEYS).map(Text::of),
            path: attribute(PATH_KEYS).map(|path| Text::of(without_query(path))),
            above: is_half(span.span_id, span.parent_span_id)
                .then(|| span.attribute(ABOVE_KEY)?.as_str()?.parse().ok())
                .flatten(),
            clock: span.clock_fault(),
            prior: span
                .assembled_trace_id
                .map(|trace_id| Prior { trace_id, parent: span.assembled_parent }),
        }
    }

    /// Whether the row itself names this span as its parent.
    pub(crate) fn names(&self, span_id: SpanId) -> bool {
        self.parent_span_id == Some(span_id) || self.above == Some(span_id)
    }

    /// Whether the row's times say nothing about when its trace took place.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.clock.is_some_and(ClockFault::is_elsewhere)
    }

    /// Whether both rows come from one process, certainly or probably. Host and process id decide
    /// if both rows have comparable ones, else the service's name. (An SDK in a container reports
    /// the container's process ids, or none.)
    pub(crate) fn same_process(&self, other: &Self) -> bool {
        match (self.process_id, other.process_id) {
            (Some(one), Some(two)) => match (self.host, other.host) {
                (Some(here), Some(there)) if here == there => one == two,
                (Some(_), Some(_)) => self.service == other.service,
                _ => one == two || self.service == other.service,
            },
            _ => self.service == other.service,
        }
    }

    /// Whether both rows carry the same host and process id.
    pub(crate) fn surely_same_process(&self, other: &Self) -> bool {
        self.process_id.is_some() && self.process_id == other.process_id && self.host == other.host
    }

    /// Whether the other row started within this row's time, with `slack_nano` of slack.
    pub(crate) const fn covers_start(&self, other: &Self, slack_nano: i64) -> bool {
        other.start_unix_nano >= self.start_unix_nano.saturating_sub(slack_nano)
            && other.start_unix_nano <= self.end_unix_nano.saturating_add(slack_nano)
    }

    /// Whether this row's time covers the other's, with slack at the start and at the end.
    pub(crate) const fn covers(&self, other: &Self, start_slack: i64, end_slack: i64) -> bool {
        self.covers_start(other, start_slack)
            && other.end_unix_nano <= self.end_unix_nano.saturating_add(end_slack)
    }

    /// Whether the protocols are the same, or one of them is unknown.
    pub(crate) fn protocols_agree(&self, other: &Self) -> bool {
        match (self.protocol, other.protocol) {
            (Some(one), Some(two)) => one == two,
            _ => true,
        }
    }

    /// The assembled columns of the row as a root of this trace.
    pub(crate) const fn as_root(&self, trace_id: TraceId) -> Assembled {
        // Keeps the agent's evidence for the fragment. It is needed if the fragment's request
        // arrives later.
        let (evidence, confidence) = match (self.capture, self.prior) {
            (Capture::ClientProcess, None) if self.fragment_id.is_some() => {
                (self.evidence, self.confidence)
            }
            (Capture::ClientProcess, Some(prior)) if prior.parent.is_none() => {
                (self.evidence, self.confidence)
            }
            _ => (None, None),
        };
        Assembled { row: self.at, trace_id, parent: None, evidence, confidence }
    }
}

/// Attributes with a request's method, preferred key first.
pub(crate) const METHOD_KEYS: [&str; 2] = ["http.request.method", "http.method"];
/// Attributes with a request's path, preferred key first.
pub(crate) const PATH_KEYS: [&str; 2] = ["url.path", "http.target"];

/// Attribute with the parent's id of a shared span.
pub(crate) const ABOVE_KEY: &str = "zipkin.parent_id";

/// The path of an `http.target`, without its query.
pub(crate) fn without_query(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}
