//! Exchanges to spans.

use rand::RngExt;
use rand::rngs::SmallRng;
use spanwise_model::{Capture, Evidence, Flow, Network, Span, SpanId, Status};

use crate::context::Fragment;
use crate::event::{Endpoint, Opened, Role};
use crate::process::Process;
use crate::sessions::Exchange;

/// How many fragments an ambiguous client request may belong to.
const CANDIDATES: &str = "spanwise.candidate_fragments";

/// The two ends that an exchange passed between.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// As the connection's opening told them, if it was seen.
    pub(crate) opened: Option<Opened>,
    /// Whether the traced process answers requests.
    pub(crate) serving: bool,
}

/// Makes the span of an exchange between `ends` in `process`.
pub(crate) fn span(
    exchange: Exchange,
    ends: Ends,
    process: &Process,
    unix_minus_monotonic_nano: i64,
    random: &mut SmallRng,
) -> Span {
    let serving = exchange.serving;
    let kind = exchange.request.manner.kind(serving);
    let capture = if serving { Capture::ServerProcess } else { Capture::ClientProcess };
    let flow = flow(ends, exchange.other);
    let service = process.service(flow.server_port.filter(|_| ends.serving));
    let start = exchange.request_start;
    let end = exchange.response_end.unwrap_or(exchange.request_end);
    let duration_nano = end.time_nano.saturating_sub(start.time_nano).cast_signed();
    let start_unix_nano = start.time_nano.cast_signed().saturating_add(unix_minus_monotonic_nano);

    let mut span = Span::new(
        span_id(random),
        capture,
        kind,
        service,
        exchange.request.operation,
        start_unix_nano,
        duration_nano,
    );
    if let Some((trace, parent)) = exchange.request.headers.parent() {
        span.trace_id = Some(trace);
        span.parent_span_id = Some(parent);
        span.trace_state = exchange.request.headers.trace_state().map(str::to_owned);
    }
    span.instance = Some(process.instance.clone());
    span.host = Some(process.host.clone());
    span.process_id = Some(process.process);
    span.resource = process.resource.clone();
    span.protocol = Some(exchange.protocol.to_owned());
    span.request_tcp_seq = start.seq;
    span.response_tcp_seq = exchange.response_start.and_then(|mark| mark.seq);
    span.x_request_id = exchange.request.headers.request_id.or(exchange.answer.request_id);
    span.network = Network {
        connect_nano: ends
            .opened
            .filter(|opened| exchange.first && opened.role == Role::Client)
            .and_then(|opened| opened.connect_nano)
            .map(u64::cast_signed),
        rtt_nano: (end.srtt_micros > 0).then(|| i64::from(end.srtt_micros) * 1000),
        retransmits: Some(end.retransmits.saturating_sub(start.retransmits)),
        zero_windows: None,
        resets: None,
        request_bytes: Some(match exchange.counted {
            Some([request, _]) => request,
            None => exchange.request_end.offset - start.offset,
        }),
        response_bytes: Some(match (exchange.response_start, exchange.response_end) {
            (Some(first), Some(last)) => match exchange.counted {
                Some([_, response]) => response,
                None => last.offset.saturating_sub(first.offset),
            },
            _ => 0,
        }),
    };
    span.attributes = exchange.request.attributes;
    span.attributes.extend(exchange.answer.attributes);
    if let Some(encryption) = exchange.encryption {
        encryption.tell(&mut span.attributes);
    }
    span.status_code = exchange.answer.status_code;
    if let Some(failure) = exchange.answer.failure {
        span.status = Status::Error;
        span.network.resets = (failure.kind == "connection_reset").then_some(1);
        span.attributes.push(("error.type".to_owned(), failure.kind.into()));
        span.error = Some(failure.message);
    }
    match exchange.fragment {
        Fragment::None => {}
        Fragment::Own(fragment) => span.fragment_id = Some(fragment),
        Fragment::Within { fragment, evidence, confidence } => {
            span.fragment_id = Some(fragment);
            span.evidence = Some(evidence);
            span.confidence = Some(confidence);
        }
        Fragment::Ambiguous { candidates } => {
            span.evidence = Some(Evidence::Ambiguous);
            let candidates = i64::try_from(candidates).unwrap_or(i64::MAX);
            span.attributes.push((CANDIDATES.to_owned(), candidates.into()));
        }
    }
    span.flow = flow;
    span
}

/// The connection's two ends: by who opened it where that is known, else by who
/// asks. Of a socket that has no fixed peer, the `other` end is this.
fn flow(ends: Ends, other: Option<Endpoint>) -> Flow {
    let Some(opened) = ends.opened else { return Flow::default() };
    let local_is_server = match opened.role {
        Role::Client => false,
        Role::Server => true,
        Role::Unknown => ends.serving,
    };
    let remote = other.unwrap_or(opened.remote);
    let (client, server) =
        if local_is_server { (remote, opened.local) } else { (opened.local, remote) };
    let address = |end: Endpoint| (!end.address.is_unspecified()).then(|| end.address.to_string());
    let port = |end: Endpoint| (end.port > 0).then_some(end.port);
    Flow {
        client_address: address(client),
        client_port: port(client),
        server_address: address(server),
        server_port: port(server),
        network_namespace: (opened.network_namespace > 0).then_some(opened.network_namespace),
    }
}

fn span_id(random: &mut SmallRng) -> SpanId {
    loop {
        // Zero, which is no span id, comes up once in 2^64 times.
        if let Some(id) = SpanId::from_u64(random.random()) {
            return id;
        }
    }
}
