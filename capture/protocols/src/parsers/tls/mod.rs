//! TLS (RFC 8446, RFC 5246): the plaintext parts of a handshake. The encrypted content is not
//! visible here; the connection makes one span (`opaque` in the tracer).

mod hello;
mod records;

use spanwise_model::protocol;

use self::hello::Hello;
use self::records::{Found, Kind, Records};
use crate::bytes::{Input, Mark, Side};
use crate::parser::{Known, Likeness, Outcome, Protocol};
use crate::sessions::{Attributes, Conversation, Encryption, Failure};

/// TLS from the first byte on, in the protocol table.
pub(crate) const KNOWN: Known = Known { name: "tls", recognise, parser: |_| Box::new(FromStart) };

/// If one side has sent this many bytes without completing the handshake, the end of the handshake
/// was missed.
const MAX_HANDSHAKE_BYTES: u64 = 64 * 1024;
/// Protected records up to this length are alerts (RFC 8446, section 5.2: two bytes, the inner
/// type, the tag). A Finished message is longer.
const MAX_PROTECTED_ALERT_BYTES: u16 = 19;

/// Number of bytes needed to recognise a handshake or a protected record.
const HELLO_BYTES: usize = 11;
const RECORD_BYTES: usize = 6;

fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    // Type, version and length of the record; type, length and version of the hello.
    let greets = |at: usize, byte: u8| match at {
        0 => byte == Kind::HANDSHAKE,
        1 | 9 => byte == 3,
        2 => byte <= 4,
        3 => byte <= 0x40,
        5 => byte == if side == Side::Request { hello::CLIENT } else { hello::SERVER },
        6 => byte == 0,
        10 => (1..=4).contains(&byte),
        _ => true,
    };
    // A connection older than the agent. All versions in use write 1.2 here.
    let carries = |at: usize, byte: u8| match at {
        0 => byte == Kind::DATA,
        1 | 2 => byte == 3,
        3 => byte <= 0x41,
        _ => true,
    };
    let begins = |wanted: usize, fits: &dyn Fn(usize, u8) -> bool| {
        let seen = &bytes[..bytes.len().min(wanted)];
        match (seen.iter().enumerate().all(|(at, byte)| fits(at, *byte)), seen.len() == wanted) {
            (false, _) => Likeness::No,
            (true, true) => Likeness::Yes,
            (true, false) if whole => Likeness::Maybe,
            (true, false) => Likeness::No,
        }
    };
    match begins(HELLO_BYTES, &greets) {
        Likeness::No => begins(RECORD_BYTES, &carries),
        found => found,
    }
}

/// Position in `bytes` where a client's first message begins, if any.
pub fn beginning(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(Kind::HANDSHAKE, bytes)
        .take(16)
        .find(|at| recognise(Side::Request, &bytes[*at..], false) == Likeness::Yes)
}

/// A connection that is encrypted from its first byte on.
struct FromStart;

impl Protocol for FromStart {
    fn name(&self) -> &'static str {
        protocol::TLS
    }

    fn read(&mut self, _: Side, _: Input<'_>, _: &mut Conversation<'_>) -> Outcome {
        Outcome::Encrypted
    }

    fn between_responses(&self) -> bool {
        true
    }

    fn speaks_unasked(&self) -> bool {
        true
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// The data from a handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// Whether a ClientHello was seen.
    pub greeted: bool,
    /// Server name indication, as sent by the client.
    pub server_name: Option<String>,
    /// Negotiated version, as a number on the wire.
    pub version: Option<u16>,
    /// Negotiated cipher suite, as a number on the wire.
    pub cipher: Option<u16>,
    /// Negotiated application protocol, if it is sent in plaintext (up to TLS 1.2).
    pub next_protocol: Option<String>,
    /// Application protocols that the client offered, in order of preference.
    pub offered_protocols: Vec<String>,
    /// Whether an earlier session was resumed.
    pub resumed: Option<bool>,
    /// Time from the client's first byte to the end of the handshake, as seen on this side; absent
    /// if the end was not seen.
    pub handshake_nano: Option<u64>,
    /// Why no session was established.
    pub failure: Option<Failure>,
}

impl TlsFacts {
    /// Whether a session was established, if known.
    pub const fn established(&self) -> Option<bool> {
        match (&self.failure, self.handshake_nano) {
            (Some(_), _) => Some(false),
            (None, Some(_)) => Some(true),
            (None, None) => None,
        }
    }

    /// The version number in the notation of OpenTelemetry.
    fn version_text(&self) -> Option<&'static str> {
        Some(match self.version? {
            0x0300 => "3",
            0x0301 => "1.0",
            0x0302 => "1.1",
            0x0303 => "1.2",
            0x0304 => "1.3",
            _ => return None,
        })
    }

    /// The span attributes (OpenTelemetry semantic conventions, attribute registry:
    /// `tls.client.server_name` became `server.address`).
    pub fn attributes(&self) -> Attributes {
        let mut list = Attributes::new();
        let mut add = |name: &'static str, value| list.push((name, value));
        if let Some(name) = &self.server_name {
            add("server.address", name.as_str().into());
        }
        if let Some(version) = self.version {
            add("tls.protocol.name", if version == 0x0300 { "ssl" } else { "tls" }.into());
        }
        if let Some(version) = self.version_text() {
            add("tls.protocol.version", version.into());
        }
        if let Some(cipher) = self.cipher {
            add("tls.cipher", hello::cipher_name(cipher).into());
        }
        if let Some(next) = &self.next_protocol {
            add("tls.next_protocol", next.as_str().into());
        }
        if !self.offered_protocols.is_empty() {
            add("spanwise.tls.offered_protocols", crate::bytes::json_list(&self.offered_protocols));
        }
        if let Some(resumed) = self.resumed {
            add("tls.resumed", resumed.into());
        }
        if let Some(established) = self.established() {
            add("tls.established", established.into());
        }
        if let Some(nano) = self.handshake_nano {
            add("spanwise.tls.handshake_nano", nano.cast_signed().into());
        }
        list
    }

    /// The part that is added to each request read from the decrypted connection.
    pub fn encryption(&self) -> Encryption {
        Encryption { version: self.version_text(), server_name: self.server_name.clone() }
    }

    /// Number of bytes held, without the struct itself.
    pub fn held_bytes(&self) -> usize {
        self.server_name.as_ref().map_or(0, String::capacity)
            + self.offered_protocols.iter().map(|name| 24 + name.capacity()).sum::<usize>()
    }
}

/// Progress of one side.
#[derive(Debug, Default)]
struct Half {
    records: Records,
    /// This side has sent ChangeCipherSpec (meaningful up to TLS 1.2; no meaning later).
    changed: bool,
    /// This side has sent a protected record.
    protected: bool,
    bytes: u64,
}

/// A handshake that is being read.
#[derive(Debug, Default)]
pub struct Handshake {
    facts: TlsFacts,
    halves: [Half; 2],
    started: Option<Mark>,
    session: Option<Vec<u8>>,
    over: bool,
}

impl Handshake {
    /// The data known so far.
    pub const fn facts(&self) -> &TlsFacts {
        &self.facts
    }

    /// Returns the final data.
    pub fn into_facts(self) -> TlsFacts {
        self.facts
    }

    /// Whether a ClientHello was read.
    pub const fn has_begun(&self) -> bool {
        self.facts.greeted
    }

    /// Whether part of the handshake was missed or is invalid.
    pub fn is_lost(&self) -> bool {
        self.halves.iter().any(|half| half.records.is_lost())
    }

    /// Whether nothing more can be learned.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Number of bytes held.
    pub fn held_bytes(&self) -> usize {
        let halves: usize = self.halves.iter().map(|half| half.records.held_bytes()).sum();
        size_of::<Self>() + halves + self.facts.held_bytes()
    }

    /// Reads bytes sent by one side.
    pub fn read(&mut self, side: Side, mut input: Input<'_>) {
        let at = side as usize;
        self.halves[at].bytes += input.bytes.len() as u64 + input.unseen;
        while !self.over
            && let Some((found, mark)) = self.halves[at].records.read(&mut input)
        {
            self.record(side, &found, mark);
        }
        self.over |= self.halves[at].bytes > MAX_HANDSHAKE_BYTES;
    }

    /// The connection was closed. If the client never completed its part of the handshake, no
    /// session was established. The server's completion may leave no visible trace.
    pub fn closed(&mut self) {
        let client = &self.halves[Side::Request as usize];
        let went_on = client.records.is_lost() || client.changed || client.protected;
        if self.over || went_on || self.started.is_none() {
            return;
        }
        self.facts.failure = Some(Failure {
            kind: "tls_handshake_incomplete".to_owned(),
            message: "closed before the TLS handshake was complete".to_owned(),
        });
    }

    fn record(&mut self, side: Side, found: &Found, mark: Mark) {
        match found {
            Found::Hello(bytes) => match (side, hello::read(bytes)) {
                (Side::Request, Some(Hello::Client(client))) => {
                    self.started.get_or_insert(mark);
                    self.facts.greeted = true;
                    self.session = Some(client.session);
                    self.facts.server_name = client.server_name;
                    self.facts.offered_protocols = client.protocols;
                }
                (Side::Response, Some(Hello::Server(server))) => self.answered(server),
                _ => {}
            },
            Found::Record { kind, length, first } => match *kind {
                Kind::CHANGE_CIPHER => {
                    self.halves[side as usize].changed = true;
                    let both = self.halves.iter().all(|half| half.changed);
                    if both && self.facts.version.is_some_and(|version| version < 0x0304) {
                        self.established(mark);
                    }
                }
                Kind::ALERT if *length == 2 => self.alert(side, *first),
                Kind::ALERT if self.started.is_some() => self.hidden_alert(side),
                Kind::ALERT => self.over = true,
                Kind::DATA => self.protected(side, *length, mark),
                _ => {}
            },
        }
    }

    fn answered(&mut self, server: hello::Server) {
        if server.retry {
            // RFC 8446, section 4.1.4: the client sends another ClientHello.
            for half in &mut self.halves {
                half.records.expect_hello();
            }
            return;
        }
        self.facts.version = Some(server.version);
        self.facts.cipher = Some(server.cipher);
        self.facts.next_protocol = server.protocol;
        // Up to TLS 1.2, a server that resumes a session repeats the client's session id (RFC 5246,
        // section 7.4.1.3). Later versions select a key that both sides have.
        self.facts.resumed = match (server.version >= 0x0304, &self.session) {
            (true, _) => Some(server.takes_key),
            (false, Some(session)) => Some(!session.is_empty() && *session == server.session),
            (false, None) => None,
        };
    }

    fn protected(&mut self, side: Side, length: u16, mark: Mark) {
        let answered = self.halves[Side::Response as usize].protected;
        self.halves[side as usize].protected = true;
        match (self.facts.version, side) {
            (Some(0x0304..), Side::Response) => {}
            // Client records before the server's response are early data.
            (Some(0x0304..), Side::Request) if !answered => {}
            (Some(0x0304..), Side::Request) if length <= MAX_PROTECTED_ALERT_BYTES => {
                self.hidden_alert(side);
            }
            (Some(_), _) => self.established(mark),
            (None, _) => {
                if self.halves.iter().all(|half| half.protected) {
                    self.established(mark);
                }
            }
        }
    }

    fn established(&mut self, mark: Mark) {
        self.over = true;
        if let Some(started) = self.started {
            self.facts.handshake_nano = Some(mark.time_nano.saturating_sub(started.time_nano));
        }
    }

    fn alert(&mut self, side: Side, description: u8) {
        // Ignore warnings and close_notify.
        let Some(name) = hello::alert_name(description) else { return };
        self.over = true;
        self.facts.failure = Some(Failure {
            kind: format!("tls_{name}"),
            message: format!("the {} ended the TLS handshake: {name}", speaker(side)),
        });
    }

    fn hidden_alert(&mut self, side: Side) {
        self.over = true;
        // If the handshake was only seen in part, the alert may be a normal close_notify.
        if self.is_lost() {
            return;
        }
        self.facts.failure = Some(Failure {
            kind: "tls_encrypted_alert".to_owned(),
            message: format!("the {} ended the TLS handshake; why is encrypted", speaker(side)),
        });
    }
}

const fn speaker(side: Side) -> &'static str {
    match side {
        Side::Request => "client",
        Side::Response => "server",
    }
}

#[cfg(test)]
mod tests;
