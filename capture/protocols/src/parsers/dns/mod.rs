//! DNS over TCP (RFC 1035, section 4.2.2; RFC 7766), and what messages mean for
//! a span, which is the same over UDP (`datagrams` in the tracer).

mod message;
mod search;

use std::sync::Arc;

use spanwise_model::{AttributeValue, protocol};

use self::message::{HEADER_BYTES, Message};
use self::search::Searches;
use crate::bytes::{Input, Mark, Side};
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Framing, Head, Measure, Step};
use crate::memory::Memory;
use crate::parser::{Known, Likeness, Outcome, Protocol};
use crate::process::Process;
use crate::sessions::{Answer, Conversation, Failure, Request};

/// DNS, to whoever tells protocols apart.
pub(crate) const KNOWN: Known =
    Known { name: "dns", recognise, parser: |serving| Box::new(Dns::new(serving)) };

/// NXDOMAIN.
const NO_SUCH_NAME: u16 = 3;
/// Bytes of a message that are looked at.
const MAX_LOOK_BYTES: usize = 1024;
/// A header, the shortest question.
const MIN_MESSAGE_BYTES: usize = HEADER_BYTES + 5;

/// Longest first message of each side: what begins with a longer one is more
/// likely something else.
const MAX_FIRST_BYTES: [usize; 2] = [0x1000, 0x4000];

fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    let most = MAX_FIRST_BYTES[side as usize];
    let (length, message) = match bytes {
        [] => return partly,
        [high] => return if usize::from(*high) << 8 < most { partly } else { Likeness::No },
        [high, low, message @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), message),
    };
    if !(MIN_MESSAGE_BYTES..most).contains(&length) {
        return Likeness::No;
    }
    let message = &message[..message.len().min(length)];
    match message::is_likely(message, side == Side::Response) {
        Some(true) => Likeness::Yes,
        Some(false) => Likeness::No,
        None if message.len() < length => partly,
        None => Likeness::No,
    }
}

/// What a message is for the one who pairs queries with answers.
pub struct Reading {
    message: Message,
}

/// Reads a message, which has `bytes` at its beginning.
pub fn read(bytes: &[u8]) -> Option<Reading> {
    message::read(bytes).map(|message| Reading { message })
}

impl Reading {
    /// Whether it is an answer.
    pub const fn is_response(&self) -> bool {
        self.message.is_response
    }

    /// The number that a query and its answers share.
    pub const fn id(&self) -> u16 {
        self.message.id
    }

    /// What pairs a query with its answer: its number, and a hash of what is
    /// asked, for a number alone may come twice at a time.
    pub fn stream(&self) -> u64 {
        u64::from(self.question_hash()) << 16 | u64::from(self.message.id)
    }

    /// A hash of what is asked, the same in every agent (FNV-1a).
    pub fn question_hash(&self) -> u32 {
        let Some(question) = &self.message.question else { return 0 };
        let [kind, class] = [question.kind, question.class].map(u16::to_be_bytes);
        // Some clients mix cases, and some servers do not give them back.
        let name = question.name.bytes().map(|byte| byte.to_ascii_lowercase());
        name.chain(kind)
            .chain(class)
            .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    /// What it asks.
    pub fn request(&self, transport: &'static str) -> Request {
        let question = self.message.question.as_ref();
        let kind = question.and_then(|question| message::kind_name(question.kind));
        // RFC 1035, section 4.1.1; RFC 1996; RFC 2136.
        let what = match self.message.opcode {
            0 => kind,
            2 => Some("STATUS"),
            4 => Some("NOTIFY"),
            5 => Some("UPDATE"),
            _ => None,
        };
        let mut request = Request::new(match what {
            Some(what) => format!("DNS {what}"),
            None => "DNS".to_owned(),
        });
        request.stream = self.stream();
        let mut add = |name: &'static str, value: AttributeValue| {
            request.attributes.push((name, value));
        };
        if let Some(question) = question {
            add("dns.question.name", question.name.as_str().into());
            let kind = kind.map_or_else(|| format!("TYPE{}", question.kind), str::to_owned);
            add("dns.question.type", kind.into());
        }
        add("network.transport", transport.into());
        request
    }

    /// What it answers to a process. As with HTTP's 4xx, what was wrong with the question is
    /// a failure of the one that asked, not of the one that serves it.
    pub fn answer(&self, serving: bool, process: &Process, memory: &mut Memory) -> Answer {
        let rcode = self.message.rcode;
        let mut answer = Answer { status_code: Some(i32::from(rcode)), ..Answer::default() };
        if !self.message.addresses.is_empty() {
            let addresses = crate::bytes::json_list(&self.message.addresses);
            answer.attributes.push(("dns.answers", addresses));
        }
        if self.message.truncated {
            answer.attributes.push(("spanwise.dns.truncated", true.into()));
        }
        // SERVFAIL, NOTIMP
        let mut failed = if serving { matches!(rcode, 2 | 4) } else { rcode != 0 };
        if rcode == NO_SUCH_NAME
            && !serving
            && let Some(question) = &self.message.question
            && let Some(domain) = memory.of::<Searches>().searched(&question.name, process)
        {
            failed = false;
            answer.attributes.push(("spanwise.dns.search_domain", domain.into()));
        }
        answer.failure = failed.then(|| Failure::plain(&message::rcode_name(rcode)));
        answer
    }
}

/// A message behind its length in two bytes.
#[derive(Debug)]
struct Lengths(Side);

impl Framing for Lengths {
    fn measure(&self, header: &[u8]) -> Measure {
        let [high, low] = *header else { return Measure::Header(2) };
        let bytes = u16::from_be_bytes([high, low]);
        if usize::from(bytes) < HEADER_BYTES {
            return Measure::Malformed;
        }
        Measure::Content { bytes: bytes.into(), keep: MAX_LOOK_BYTES }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        recognise(self.0, bytes, false) == Likeness::Yes
    }
}

/// The parser of one connection.
struct Dns {
    serving: bool,
    queries: Frames<Lengths>,
    answers: Frames<Lengths>,
    /// The answer being read is to a query that is open.
    answering: bool,
    strikes: Strikes,
}

impl Dns {
    const fn new(serving: bool) -> Self {
        Self {
            serving,
            queries: Frames::new(Lengths(Side::Request)),
            answers: Frames::new(Lengths(Side::Response)),
            answering: false,
            strikes: Strikes::NONE,
        }
    }

    /// Takes a message; `false` where it is none.
    fn head(&mut self, side: Side, head: &Head<'_>, conversation: &mut Conversation<'_>) -> bool {
        let is_response = side == Side::Response;
        let Some(reading) = read(&head.content).filter(|r| r.is_response() == is_response) else {
            return false;
        };
        self.strikes.clear();
        if !is_response {
            conversation.open(head.start, head.end, reading.request("tcp"));
        } else if conversation.answer(reading.stream()) {
            self.answering = true;
            conversation.begin_response(head.start);
            conversation.response_reached(head.end);
            let process = conversation.answering().map(|exchange| Arc::clone(&exchange.process));
            if let Some(process) = process {
                let answer = reading.answer(self.serving, &process, conversation.memory);
                if let Some(exchange) = conversation.answering() {
                    exchange.answer = answer.into();
                }
            }
        } else {
            conversation.counters.orphan_responses += 1;
        }
        true
    }
}

impl Framed for Dns {
    type Head<'a> = Head<'a>;

    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        _: &mut Conversation<'_>,
    ) -> Step<Head<'a>> {
        match side {
            Side::Request => self.queries.read(input),
            Side::Response => self.answers.read(input),
        }
    }

    fn strikes(&mut self) -> &mut Strikes {
        &mut self.strikes
    }

    fn begin(
        &mut self,
        side: Side,
        head: Head<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Verdict {
        match self.head(side, &head, conversation) {
            true => Verdict::Fine,
            false => Verdict::Malformed,
        }
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        if side == Side::Request {
            conversation.request_reached(end);
        } else if std::mem::take(&mut self.answering) {
            conversation.response_reached(end);
            conversation.end_response();
        }
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, _: Mark, _: bool, conversation: &mut Conversation<'_>) {
        // Nobody knows whose answers were among it.
        if side == Side::Response {
            self.answering = false;
            conversation.abandon();
        }
    }

    fn malformed(&mut self, _: Side, _: Mark, _: &mut Conversation<'_>) -> Verdict {
        Verdict::Malformed
    }
}

impl Protocol for Dns {
    fn name(&self) -> &'static str {
        protocol::DNS
    }

    fn read(
        &mut self,
        side: Side,
        input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        drive(self, side, input, conversation)
    }

    fn between_responses(&self) -> bool {
        self.answers.is_between()
    }

    fn held_bytes(&self) -> usize {
        self.queries.held_bytes() + self.answers.held_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::message::tests::{query, response};
    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        [&(message.len() as u16).to_be_bytes(), message].concat()
    }

    #[test]
    fn recognition_is_strict() {
        let asked = query(0x1234, "www.shop.example", 28);
        let bytes = framed(&asked);
        assert_eq!(recognise(Side::Request, &bytes, true), Likeness::Yes);
        assert_eq!(recognise(Side::Response, &bytes, true), Likeness::No);
        let answered = framed(&response(&asked, 0, &[[1, 2, 3, 4]]));
        assert_eq!(recognise(Side::Response, &answered, true), Likeness::Yes);
        assert_eq!(recognise(Side::Request, &answered, true), Likeness::No);
        for end in 0..bytes.len() {
            let found = recognise(Side::Request, &bytes[..end], true);
            assert_eq!(found, Likeness::Maybe, "{end}");
            assert_eq!(recognise(Side::Request, &bytes[..end], false), Likeness::No, "{end}");
        }
        let foreign: [&[u8]; 7] = [
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\0\0\0\0\0",
            b"\0\x20\0\x01\0\0\0\x01\0\0\0\0\0\0\xc0\x05\0\x01\0\x01",
            &[0; 40],
        ];
        for bytes in foreign {
            for side in [Side::Request, Side::Response] {
                let found = recognise(side, bytes, false);
                assert_eq!(found, Likeness::No, "{}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn whose_failure_a_code_is() {
        let asked = query(1, "shop.example", 1);
        let failure = |rcode, serving| {
            let reading = read(&response(&asked, rcode, &[])).unwrap();
            let process = search::tests::process(1);
            let answer = reading.answer(serving, &process, &mut Memory::default());
            answer.failure.map(|failure| failure.kind)
        };
        assert_eq!((failure(0, false), failure(0, true)), (None, None));
        let found = (failure(3, false), failure(3, true));
        assert_eq!(found, (Some("NXDOMAIN".to_owned()), None));
        let found = (failure(2, false), failure(2, true));
        assert_eq!(found, (Some("SERVFAIL".to_owned()), Some("SERVFAIL".to_owned())));
    }

    #[test]
    fn the_case_of_names_and_unknown_types_make_no_difference() {
        let [one, two] =
            ["Shop.Example", "shop.eXample"].map(|name| read(&query(5, name, 1)).unwrap());
        assert_eq!(one.stream(), two.stream());
        assert_ne!(one.stream(), read(&query(5, "shop.example", 28)).unwrap().stream());
        let odd = read(&query(5, "shop.example", 12_345)).unwrap().request("udp");
        assert_eq!(odd.operation, "DNS");
        assert!(odd.attributes.contains(&("dns.question.type", "TYPE12345".into())));
    }
}
