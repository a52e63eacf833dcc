//! A short notation for rows in tests.

use spanwise_model::{Capture, Evidence, Kind, RowRef, SpanId, TraceId};

use crate::row::Row;
use crate::text::Text;

pub(crate) const MS: i64 = 1_000_000;

pub(crate) fn id(number: u64) -> SpanId {
    SpanId::from_u64(number).expect("not zero")
}

pub(crate) fn trace(number: u8) -> TraceId {
    TraceId([number; 16])
}

fn row(number: u64, capture: Capture, kind: Kind, service: &str, from_ms: i64, to_ms: i64) -> Row {
    Row {
        at: RowRef { batch: 1, row: u32::try_from(number).expect("small") },
        span_id: id(number),
        trace_id: None,
        parent_span_id: None,
        start_unix_nano: from_ms * MS,
        end_unix_nano: to_ms * MS,
        capture,
        kind,
        service: Text::of(service),
        operation: Text::of(""),
        host: Some(Text::of("host")),
        // Each service is one process. Its id is the first letter of the service's name.
        process_id: service.bytes().next().map(u32::from),
        protocol: None,
        fragment_id: None,
        request_tcp_seq: None,
        response_tcp_seq: None,
        client_port: None,
        server_port: None,
        x_request_id: None,
        evidence: None,
        confidence: None,
        method: None,
        path: None,
        clock: None,
        above: None,
        prior: None,
    }
}

pub(crate) fn client(number: u64, service: &str, from_ms: i64, to_ms: i64) -> Row {
    row(number, Capture::ClientProcess, Kind::Client, service, from_ms, to_ms).http()
}

pub(crate) fn server(number: u64, service: &str, from_ms: i64, to_ms: i64) -> Row {
    row(number, Capture::ServerProcess, Kind::Server, service, from_ms, to_ms).http()
}

pub(crate) fn app(number: u64, kind: Kind, service: &str, from_ms: i64, to_ms: i64) -> Row {
    row(number, Capture::App, kind, service, from_ms, to_ms)
}

pub(crate) fn jvm(number: u64, kind: Kind, service: &str, from_ms: i64, to_ms: i64) -> Row {
    row(number, Capture::Jvm, kind, service, from_ms, to_ms)
}

impl Row {
    pub(crate) fn http(mut self) -> Self {
        self.protocol = Some(Text::of("http"));
        self
    }

    pub(crate) fn protocol(mut self, protocol: &str) -> Self {
        self.protocol = Some(Text::of(protocol));
        self
    }

    pub(crate) fn hop(mut self, request: u32, response: u32) -> Self {
        (self.request_tcp_seq, self.response_tcp_seq) = (Some(request), Some(response));
        self
    }

    pub(crate) fn unanswered(mut self, request: u32) -> Self {
        (self.request_tcp_seq, self.response_tcp_seq) = (Some(request), None);
        self
    }

    pub(crate) fn ports(mut self, client: u16, server: u16) -> Self {
        (self.client_port, self.server_port) = (Some(client), Some(server));
        self
    }

    /// A server row with its own fragment.
    pub(crate) fn serves(mut self, fragment: u64) -> Self {
        self.fragment_id = Some(fragment);
        self
    }

    pub(crate) fn within(mut self, fragment: u64, evidence: Evidence, confidence: f32) -> Self {
        self.fragment_id = Some(fragment);
        (self.evidence, self.confidence) = (Some(evidence), Some(confidence));
        self
    }

    pub(crate) fn ambiguous(mut self) -> Self {
        self.evidence = Some(Evidence::Ambiguous);
        self
    }

    /// The span in which the calling thread worked.
    pub(crate) fn in_span(mut self, span: u64) -> Self {
        self.parent_span_id = SpanId::from_u64(span);
        self
    }

    /// A header on the wire, or an SDK's own context.
    pub(crate) fn context(mut self, trace_number: u8, parent: u64) -> Self {
        self.trace_id = Some(trace(trace_number));
        self.parent_span_id = SpanId::from_u64(parent);
        self
    }

    pub(crate) fn request_id(mut self, id: &str) -> Self {
        self.x_request_id = Some(Text::of(id));
        self
    }

    pub(crate) fn get(mut self, path: &str) -> Self {
        (self.method, self.path) = (Some(Text::of("GET")), Some(Text::of(path)));
        self
    }

    /// An SDK that reports neither host nor process.
    pub(crate) fn nowhere(mut self) -> Self {
        (self.host, self.process_id) = (None, None);
        self
    }

    pub(crate) fn on(mut self, host: &str, process: u32) -> Self {
        (self.host, self.process_id) = (Some(Text::of(host)), Some(process));
        self
    }
}
