//! Exchanges to spans.

use std::fmt::Write as _;
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use ahash::AHashMap;
use spanwise_model::{
    AddressPlaces, AttributeRef, Capture, Emitter, EmitterPlaces, Evidence, Network, Observed,
    RowWriter, SpanBatchBuilder, SpanId, SpanRef, Status, unknown,
};

use crate::event::{Endpoint, Opened, Role, UnixPath};
use crate::sampling::Kept;
use crate::shown_keys::{REDACTED, ShownKeys};
use spanwise_capture_protocols::attribution::Fragment;
use spanwise_capture_protocols::process::Process;
use spanwise_capture_protocols::sessions::{Encryption, Exchange, MAX_MESSAGES, Request};

/// How many fragments an ambiguous client request may belong to.
const CANDIDATES: &str = "spanwise.candidate_fragments";

/// The share of their kind that spans kept by chance are.
const SAMPLED_SHARE: &str = "spanwise.sampled_share";
/// `unseen` where the last bytes of the response moved unseen: the span ends with
/// those that were seen.
const RESPONSE_END: &str = "spanwise.response_end";

/// What is not known of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) operation: bool,
    pub(crate) status: bool,
}

impl Unknown {
    pub(crate) fn of(exchange: &Exchange) -> Self {
        Self { operation: exchange.request.unnamed, status: exchange.ended_unseen() }
    }
}

/// The two ends that an exchange passed between.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// As the connection's opening told them, if it was seen.
    pub(crate) opened: Option<Opened>,
    /// Whether the traced process answers requests.
    pub(crate) serving: bool,
}

/// What all spans of a process on one connection have alike, in the batch that is being
/// collected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    emitter: EmitterPlaces,
    addresses: AddressPlaces,
    client_port: Option<u16>,
    server_port: Option<u16>,
    network_namespace: Option<u32>,
}

impl Passage {
    /// The server's port.
    pub(crate) const fn server_port(&self) -> Option<u16> {
        self.server_port
    }
}

/// Where the spans that are being collected passed, and as which services they are emitted.
#[derive(Debug, Default)]
pub(crate) struct Passages {
    /// By connection, process and whether that serves there.
    passages: AHashMap<(u64, u32, bool), Passage>,
    /// By process, and the port on which it serves, if it does: connections may be short.
    emitters: AHashMap<(u32, Option<u16>), EmitterPlaces>,
}

impl Passages {
    /// Where an exchange passed, and as which service its span is emitted. `describe` says who
    /// its process is now, which holds until [`Self::forget`]; where it cannot, the process is
    /// who it was.
    pub(crate) fn of(
        &mut self,
        exchange: &Exchange,
        ends: Ends,
        into: &mut SpanBatchBuilder,
        describe: impl FnOnce() -> Option<Arc<Process>>,
    ) -> Passage {
        let connection = ends.opened.as_ref().map_or(0, |opened| opened.connection);
        let process = exchange.head_end.process;
        let key = (connection, process, ends.serving);
        if let Some(known) = self.passages.get(&key).filter(|_| exchange.other.is_none()) {
            return *known;
        }
        let flow = Flow::of(ends, exchange.other);
        let port = flow.server.port.filter(|_| ends.serving);
        let known = self.emitters.get(&(process, port)).copied();
        let described = if known.is_none() { describe() } else { None };
        let emitter = known.unwrap_or_else(|| {
            let process = described.as_ref().unwrap_or(&exchange.process);
            into.emitter(&Emitter {
                service: &process.service(port),
                instance: Some(&process.instance),
                host: Some(&process.host),
                process_id: Some(process.process),
                resource: &process.resource,
            })
        });
        let passage = Passage {
            emitter,
            addresses: addresses(ends, &flow, into),
            client_port: flow.client.port,
            server_port: flow.server.port,
            network_namespace: flow.network_namespace,
        };
        if described.is_some() {
            self.emitters.insert((process, port), emitter);
        }
        if (known.is_some() || described.is_some()) && exchange.other.is_none() {
            self.passages.insert(key, passage);
        }
        passage
    }

    /// The spans were taken, or processes may be others by now.
    pub(crate) fn forget(&mut self) {
        self.passages.clear();
        self.emitters.clear();
    }
}

fn addresses(ends: Ends, flow: &Flow, into: &mut SpanBatchBuilder) -> AddressPlaces {
    let unix = ends.opened.as_ref().and_then(|opened| opened.unix.as_ref());
    let path = unix.map(UnixPath::text).filter(|path| !path.is_empty());
    let (mut client, mut server) = (AddressText::default(), AddressText::default());
    let client = client.write(flow.client.address);
    let server = path.as_deref().or_else(|| server.write(flow.server.address));
    into.addresses(client, server)
}

#[expect(clippy::too_many_arguments, reason = "one caller, and all of it is needed")]
/// Writes the span of an exchange between `ends` as the next row.
pub(crate) fn write(
    exchange: &Exchange,
    ends: Ends,
    passage: &Passage,
    unix_minus_monotonic_nano: i64,
    span_id: SpanId,
    kept: Kept,
    missing: Unknown,
    keys: &ShownKeys<'_>,
    into: &mut SpanBatchBuilder,
) {
    let Exchange { request, answer, serving, .. } = exchange;
    let start = exchange.request_start;
    let end = exchange.response_end.unwrap_or(exchange.request_end);
    let parent = request.headers.parent();
    let failure = answer.failure.as_ref();
    into.observe(&observed(exchange, ends, passage.network_namespace));
    if let Some(key) = logical_key(exchange) {
        into.logical_key(&key);
    }
    let operation = keys.hide(&request.operation, "{id}");
    let error = failure.map(|failure| keys.hide(&failure.message, REDACTED));
    let request_id = request.headers.request_id.as_deref().or(answer.request_id.as_deref());
    let request_id = request_id.map(|id| keys.hide(id, REDACTED));
    let trace_state = parent.and_then(|_| request.headers.trace_state());
    let trace_state = trace_state.map(|state| keys.hide(state, REDACTED));
    let span = SpanRef {
        trace_id: parent.map(|(trace, _)| trace),
        span_id,
        // Without a trace id, the parent is a span of the calling thread.
        parent_span_id: match parent {
            Some((_, parent)) => Some(parent),
            None => start.current_span().filter(|_| !serving),
        },
        trace_state: trace_state.as_deref(),
        start_unix_nano: start.time_nano.cast_signed().saturating_add(unix_minus_monotonic_nano),
        duration_nano: end.time_nano.saturating_sub(start.time_nano).cast_signed(),
        operation: &operation,
        kind: request.manner.kind(*serving),
        protocol: Some(exchange.protocol),
        status: if failure.is_some() { Status::Error } else { Status::Unset },
        status_code: answer.status_code,
        error: error.as_deref(),
        capture: if *serving { Capture::ServerProcess } else { Capture::ClientProcess },
        client_address: None,
        client_port: passage.client_port,
        server_address: None,
        server_port: passage.server_port,
        x_request_id: request_id.as_deref(),
    };
    let mut row = into.begin_between(&span, &passage.emitter, passage.addresses);
    match &exchange.encryption {
        None if keys.hidden.is_empty() => {
            Request::tell(request, &mut row);
            answer.tell(&mut row);
        }
        None => {
            for (key, value) in request.all_attributes().chain(&answer.attributes) {
                keys.tell(key, value.as_ref(), &mut row);
            }
        }
        Some(encryption) => tell_encrypted(exchange, encryption, keys, &mut row),
    }
    for (key, value) in &keys.attributes {
        row.attribute(key, value.as_ref());
    }
    if let Some(failure) = failure {
        keys.tell("error.type", AttributeRef::String(&failure.kind), &mut row);
    }
    if ends.opened.as_ref().is_some_and(|opened| opened.unix.is_some()) {
        row.attribute("network.transport", AttributeRef::String("unix"));
    }
    if missing.operation {
        row.attribute(unknown::OPERATION, AttributeRef::String(unknown::UNKNOWN));
    }
    if missing.status {
        row.attribute(unknown::STATUS, AttributeRef::String(unknown::UNKNOWN));
    }
    if end.missed {
        row.attribute(RESPONSE_END, AttributeRef::String("unseen"));
    }
    if let Fragment::Ambiguous { candidates } = exchange.fragment {
        let candidates = i64::try_from(candidates).unwrap_or(i64::MAX);
        row.attribute(CANDIDATES, AttributeRef::Int(candidates));
    }
    if let Kept::ByShare(share) = kept {
        row.attribute(SAMPLED_SHARE, AttributeRef::Double(share));
    }
}

/// The messages that an exchange carried.
fn logical_key(exchange: &Exchange) -> Option<String> {
    let Exchange { request, answer, .. } = exchange;
    if request.messages.is_empty() && answer.messages.is_empty() {
        return None;
    }
    let mut key = String::new();
    for message in request.messages.iter().chain(&answer.messages).take(MAX_MESSAGES) {
        if !key.is_empty() {
            key.push(' ');
        }
        let _ = write!(key, "{message}");
    }
    Some(key)
}

/// Writes what request and answer say, and how it was encrypted on its way.
fn tell_encrypted(
    exchange: &Exchange,
    encryption: &Encryption,
    keys: &ShownKeys<'_>,
    row: &mut RowWriter<'_>,
) {
    let mut named = false;
    for (key, value) in exchange.request.all_attributes().chain(&exchange.answer.attributes) {
        named |= *key == "server.address";
        // Parsers cannot tell.
        let is_scheme = *key == "url.scheme";
        let value = if is_scheme { AttributeRef::String("https") } else { value.as_ref() };
        keys.tell(key, value, row);
    }
    if let (Some(name), false) = (&encryption.server_name, named) {
        row.attribute("server.address", AttributeRef::String(name));
    }
    if let Some(version) = encryption.version {
        row.attribute("tls.protocol.version", AttributeRef::String(version));
    }
    row.attribute("tls.established", AttributeRef::Bool(true));
}

fn observed(exchange: &Exchange, ends: Ends, network_namespace: Option<u32>) -> Observed {
    let start = exchange.request_start;
    let end = exchange.response_end.unwrap_or(exchange.request_end);
    let [request_bytes, response_bytes] = exchange.counted.unwrap_or_else(|| {
        let response = exchange.response_start.zip(exchange.response_end);
        [
            exchange.request_end.offset - start.offset,
            response.map_or(0, |(first, last)| last.offset.saturating_sub(first.offset)),
        ]
    });
    let network = Network {
        connect_nano: ends
            .opened
            .filter(|opened| exchange.first && opened.role == Role::Client)
            .and_then(|opened| opened.connect_nano)
            .map(u64::cast_signed),
        rtt_nano: (end.srtt_micros > 0).then(|| i64::from(end.srtt_micros) * 1000),
        retransmits: Some(end.retransmits.saturating_sub(start.retransmits)),
        zero_windows: None,
        resets: exchange
            .answer
            .failure
            .as_ref()
            .and_then(|failure| (failure.kind == "connection_reset").then_some(1)),
        request_bytes: Some(request_bytes),
        response_bytes: Some(exchange.response_start.map_or(0, |_| response_bytes)),
    };
    let (fragment_id, evidence, confidence) = match exchange.fragment {
        Fragment::None => (None, None, None),
        Fragment::Own(fragment) => (Some(fragment), None, None),
        Fragment::Within { fragment, evidence, confidence } => {
            (Some(fragment), Some(evidence), Some(confidence))
        }
        Fragment::Ambiguous { .. } => (None, Some(Evidence::Ambiguous), None),
    };
    Observed {
        fragment_id,
        request_tcp_seq: start.seq,
        response_tcp_seq: exchange.response_start.and_then(|mark| mark.seq),
        network_namespace,
        evidence,
        confidence,
        network,
    }
}

/// An end of a connection, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
struct KnownEnd {
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl From<Endpoint> for KnownEnd {
    fn from(Endpoint { address, port }: Endpoint) -> Self {
        Self {
            address: (!address.is_unspecified()).then_some(address),
            port: (port > 0).then_some(port),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    client: KnownEnd,
    server: KnownEnd,
    network_namespace: Option<u32>,
}

impl Flow {
    /// The connection's two ends: by who opened it where that is known, else by
    /// who asks. Of a socket that has no fixed peer, the `other` end is this.
    fn of(ends: Ends, other: Option<Endpoint>) -> Self {
        let Some(opened) = ends.opened else { return Self::default() };
        let local_is_server = match opened.role {
            Role::Client => false,
            Role::Server => true,
            Role::Unknown => ends.serving,
        };
        let remote = other.unwrap_or(opened.remote);
        let (client, server) =
            if local_is_server { (remote, opened.local) } else { (opened.local, remote) };
        Self {
            client: client.into(),
            server: server.into(),
            network_namespace: (opened.network_namespace > 0).then_some(opened.network_namespace),
        }
    }
}

/// Each number of a byte in decimal, and how many digits it has.
const DECIMALS: [([u8; 3], u8); 256] = {
    let mut decimals = [([0; 3], 0); 256];
    let mut number = 0;
    while number < decimals.len() {
        let [hundreds, tens, ones] =
            [b'0' + number as u8 / 100, b'0' + number as u8 / 10 % 10, b'0' + number as u8 % 10];
        decimals[number] = match number {
            0..10 => ([ones, 0, 0], 1),
            10..100 => ([tens, ones, 0], 2),
            _ => ([hundreds, tens, ones], 3),
        };
        number += 1;
    }
    decimals
};

/// Room for an address as text: every span has two.
struct AddressText {
    bytes: [u8; 46],
    length: usize,
}

impl Default for AddressText {
    fn default() -> Self {
        Self { bytes: [0; 46], length: 0 }
    }
}

impl AddressText {
    fn write(&mut self, address: Option<IpAddr>) -> Option<&str> {
        match address? {
            IpAddr::V4(address) => {
                for (index, number) in address.octets().into_iter().enumerate() {
                    if index > 0 {
                        self.bytes[self.length] = b'.';
                        self.length += 1;
                    }
                    // All three are written; what is not of the number is written over.
                    let (digits, length) = DECIMALS[usize::from(number)];
                    self.bytes[self.length..self.length + 3].copy_from_slice(&digits);
                    self.length += usize::from(length);
                }
            }
            IpAddr::V6(address) => {
                let mut rest = self.bytes.as_mut_slice();
                // 46 bytes hold the longest (INET6_ADDRSTRLEN).
                let written = write!(rest, "{address}");
                let left = rest.len();
                self.length = if written.is_ok() { self.bytes.len() - left } else { 0 };
            }
        }
        std::str::from_utf8(&self.bytes[..self.length]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_standard_library_does() {
        let texts = ["0.0.0.9", "10.20.30.40", "127.0.0.1", "255.255.255.255", "::1"];
        let long = "fe80:1234:5678:9abc:def0:1234:5678:9abc";
        for text in texts.into_iter().chain([long]) {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(AddressText::default().write(Some(address)), Some(text));
        }
        assert_eq!(AddressText::default().write(None), None);
    }
}
