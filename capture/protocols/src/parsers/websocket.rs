//! WebSocket (RFC 6455): one span per session, from the HTTP upgrade to the close, with the message
//! count of each side. WebSocket messages are not paired, because neither side answers the other.

use spanwise_model::protocol;

use crate::bytes::{Input, Mark, Side};
use crate::formats::http::add;
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Framing, Head, Measure, Step};
use crate::parser::{Outcome, Protocol};
use crate::sessions::{Conversation, Failure, Request};

/// Maximum payload of a control frame (RFC 6455, section 5.5).
const MAX_CONTROL_BYTES: u8 = 125;
/// Never sent: stands for a Close frame without a code.
const NO_CODE: u16 = 1005;
/// Never sent: stands for a connection that ended without a Close frame.
const NOT_CLOSED: u16 = 1006;

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

/// Framing of one side's messages.
#[derive(Debug)]
struct WebSocketFraming {
    side: Side,
}

impl WebSocketFraming {
    /// Whether these two bytes can begin a frame of this side. Clients mask their frames, servers
    /// do not (RFC 6455, section 5.1).
    fn is_valid(&self, first: u8, second: u8) -> bool {
        let opcode = first & 0x0f;
        let masked = second & 0x80 != 0;
        let is_control = opcode >= CLOSE;
        matches!(opcode, 0..=BINARY | CLOSE..=10)
            && masked == (self.side == Side::Request)
            && (!is_control || (first & 0xf0 == 0x80 && second & 0x7f <= MAX_CONTROL_BYTES))
    }
}

impl Framing for WebSocketFraming {
    fn measure(&self, header: &[u8]) -> Measure {
        let [first, second, ..] = header else { return Measure::Header(2) };
        if !self.is_valid(*first, *second) {
            return Measure::Malformed;
        }
        let length_bytes = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask_bytes = if second & 0x80 == 0 { 0 } else { 4 };
        let wanted = 2 + length_bytes + mask_bytes;
        if header.len() < wanted {
            return Measure::Header(wanted);
        }
        let length = &header[2..2 + length_bytes];
        let bytes = match length_bytes {
            0 => u64::from(second & 0x7f),
            _ => length.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        if bytes >> 63 != 0 {
            return Measure::Malformed;
        }
        let is_close = first & 0x0f == CLOSE;
        Measure::Content { bytes, keep: if is_close { 2.min(bytes as usize) } else { 0 } }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        match bytes {
            [] => false,
            // One byte allows only these checks.
            [first] => matches!(first & 0x0f, 0..=BINARY | CLOSE..=10) && first & 0x30 == 0,
            [first, second, ..] => first & 0x30 == 0 && self.is_valid(*first, *second),
        }
    }
}

/// State of one side.
#[derive(Debug)]
struct Half {
    frames: Frames<WebSocketFraming>,
    /// Start of the frame being read.
    start: Option<Mark>,
    messages: i64,
    /// Whether frames may have been missed.
    missed: bool,
    closed: bool,
}

impl Half {
    const fn new(side: Side) -> Self {
        Self {
            frames: Frames::new(WebSocketFraming { side }),
            start: None,
            messages: 0,
            missed: false,
            closed: false,
        }
    }
}

/// A WebSocket session.
pub(crate) struct WebSocket {
    request: Half,
    response: Half,
    /// Code of the first Close frame.
    code: Option<u16>,
    strikes: Strikes,
    over: bool,
}

impl WebSocket {
    /// Starts a session after an upgrade. The upgrade response ends here, which completes the HTTP
    /// exchange. Returns `None` if the upgrade request was not seen.
    pub(crate) fn after(end: Mark, conversation: &mut Conversation<'_>) -> Option<Self> {
        let asked = conversation.answering()?;
        let path = asked.request.operation.split_once(' ').map_or("", |(_, path)| path);
        let mut request = Request::new(format!("WEBSOCKET {path}").trim_end());
        let described = |key: &str| {
            key.starts_with("server.")
                || matches!(key, "url.path" | "url.query" | "user_agent.original")
        };
        let attributes = asked.request.all_attributes().filter(|(key, _)| described(key));
        request.attributes = attributes.cloned().collect();
        add(&mut request.attributes, "network.protocol.name", "websocket");
        request.headers = asked.request.headers.clone();
        let upgrade = spanwise_model::AttributeValue::Json("[\"websocket\"]".to_owned());
        add(&mut asked.answer.attributes, "http.response.header.upgrade", upgrade);

        let Mark { offset, seq, .. } = asked.request_end;
        let start = Mark { offset, seq, ..end };
        conversation.end_response();
        conversation.open(start, start, request);
        conversation.detach();
        conversation.begin_response(end);
        conversation.response_reached(end);
        if let Some(session) = conversation.uploading() {
            session.protocol = protocol::WEBSOCKET;
        }
        Some(Self {
            request: Half::new(Side::Request),
            response: Half::new(Side::Response),
            code: None,
            strikes: Strikes::NONE,
            over: false,
        })
    }

    const fn half(&mut self, side: Side) -> &mut Half {
        match side {
            Side::Request => &mut self.request,
            Side::Response => &mut self.response,
        }
    }

    fn frame_begins(&mut self, side: Side, head: &Head<'_>) {
        self.strikes.clear();
        let half = self.half(side);
        half.start = Some(head.start);
        match head.header[0] & 0x0f {
            TEXT | BINARY => half.messages += 1,
            CLOSE => {
                half.closed = true;
                let code = close_code(head);
                self.code.get_or_insert(code);
            }
            _ => {}
        }
    }

    fn frame_ends(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) {
        let Some(start) = self.half(side).start.take() else { return };
        let bytes = end.offset - start.offset;
        match side {
            Side::Request => conversation.request_frame(end, bytes),
            Side::Response => conversation.response_frame(end, bytes),
        }
    }

    /// Records how the session ended.
    fn conclude(&mut self, conversation: &mut Conversation<'_>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let missed = self.request.missed || self.response.missed;
        let code = self.code.or((!missed).then_some(NOT_CLOSED));
        if let Some(session) = conversation.answering() {
            session.answer.status_code = code.map(i32::from);
            session.answer.failure = code.and_then(failure);
            for (key, half) in [
                ("spanwise.request.messages", &self.request),
                ("spanwise.response.messages", &self.response),
            ] {
                if !half.missed {
                    add(&mut session.answer.attributes, key, half.messages);
                }
            }
        }
    }

    /// Ends the session.
    fn end_session(&mut self, at: Mark, conversation: &mut Conversation<'_>) {
        self.conclude(conversation);
        conversation.break_off(at);
    }
}

/// Reads the code of a Close frame. Clients mask it.
fn close_code(head: &Head<'_>) -> u16 {
    let Some([high, low]) = head.content.first_chunk::<2>() else { return NO_CODE };
    let mask = match head.header[1] & 0x80 {
        0 => [0; 4],
        _ => head.header.last_chunk::<4>().copied().unwrap_or_default(),
    };
    u16::from_be_bytes([high ^ mask[0], low ^ mask[1]])
}

/// The failure that a close code stands for, if any (RFC 6455, section 7.4.1).
fn failure(code: u16) -> Option<Failure> {
    let meaning = match code {
        1002 => "protocol error",
        1003 => "unsupported data",
        NOT_CLOSED => "closed without a Close frame",
        1007 => "invalid payload data",
        1008 => "policy violation",
        1009 => "message too big",
        1010 => "extension missing",
        1011 => "internal error",
        1012 => "service restart",
        1013 => "try again later",
        1014 => "bad gateway",
        _ => return None,
    };
    Some(Failure { kind: code.to_string(), message: format!("{code}: {meaning}") })
}

impl Framed for WebSocket {
    type Head<'a> = Head<'a>;

    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        _: &mut Conversation<'_>,
    ) -> Step<Head<'a>> {
        if self.over { Step::More } else { self.half(side).frames.read(input) }
    }

    fn strikes(&mut self) -> &mut Strikes {
        &mut self.strikes
    }

    fn begin(&mut self, side: Side, head: Head<'_>, _: &mut Conversation<'_>) -> Verdict {
        self.frame_begins(side, &head);
        Verdict::Fine
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        self.frame_ends(side, end, conversation);
        if self.request.closed && self.response.closed {
            self.end_session(end, conversation);
        }
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, _: Mark, _: bool, _: &mut Conversation<'_>) {
        self.half(side).missed = true;
    }

    fn struck(
        &mut self,
        at: Mark,
        outcome: Outcome,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        if outcome != Outcome::Foreign {
            return outcome;
        }
        self.end_session(at, conversation);
        Outcome::Switched
    }
}

impl Protocol for WebSocket {
    fn name(&self) -> &'static str {
        protocol::WEBSOCKET
    }

    fn read(
        &mut self,
        side: Side,
        input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        drive(self, side, input, conversation)
    }

    fn closed(&mut self, conversation: &mut Conversation<'_>) {
        self.conclude(conversation);
    }

    fn between_responses(&self) -> bool {
        self.response.frames.is_between()
    }

    fn speaks_unasked(&self) -> bool {
        true
    }

    fn held_bytes(&self) -> usize {
        self.request.frames.held_bytes() + self.response.frames.held_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(side: Side, header: &[u8]) -> Measure {
        WebSocketFraming { side }.measure(header)
    }

    #[test]
    fn lengths_of_all_three_forms_are_read() {
        let content = |bytes| Measure::Content { bytes, keep: 0 };
        assert_eq!(measure(Side::Response, b"\x81\x05"), content(5));
        assert_eq!(measure(Side::Response, b"\x82\x7e"), Measure::Header(4));
        assert_eq!(measure(Side::Response, b"\x82\x7e\x01\x00"), content(256));
        assert_eq!(measure(Side::Response, b"\x82\x7f\0\0\0\0\0\x01\0\0"), content(65_536));
        assert_eq!(measure(Side::Request, b"\x81\x85"), Measure::Header(6));
        assert_eq!(measure(Side::Request, b"\x81\x85abcd"), content(5));
        assert_eq!(measure(Side::Response, b"\x88\x02"), Measure::Content { bytes: 2, keep: 2 });
    }

    #[test]
    fn what_no_frame_begins_with_is_malformed() {
        let cases: [(Side, &[u8]); 5] = [
            // Unmasked, masked, reserved opcode, fragmented ping, oversized ping.
            (Side::Request, b"\x81\x05"),
            (Side::Response, b"\x81\x85"),
            (Side::Response, b"\x83\x05"),
            (Side::Response, b"\x09\x05"),
            (Side::Response, b"\x89\x7e"),
        ];
        for (side, header) in cases {
            assert_eq!(measure(side, header), Measure::Malformed, "{}", header.escape_ascii());
        }
    }

    #[test]
    fn only_codes_of_errors_fail() {
        for code in [1000, 1001, 1005, 3000, 4999] {
            assert_eq!(failure(code), None);
        }
        assert_eq!(failure(1011).unwrap().kind, "1011");
    }
}
