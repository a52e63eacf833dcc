//! Redis serialization protocol, versions 2 and 3, and inline commands
//! (redis.io/docs/latest/develop/reference/protocol-spec).

mod command;
mod expected;
mod names;
mod reply;
mod subscriptions;

use spanwise_model::protocol;

use self::command::{Command, INLINE, MAX_KEY_BYTES, MAX_NAME_BYTES};
use self::expected::may_answer;
use self::reply::{Message, Reply, Step};
use self::subscriptions::{About, Subscriptions};
use crate::bytes::{Input, Mark, Side};
use crate::framing::strikes::Strikes;
use crate::parser::{Known, Likeness, Outcome, Protocol};
use crate::redaction::{Hidden, own_words, without_quoted};
use crate::sessions::{Conversation, Failure};

/// Redis, to whoever tells protocols apart.
pub(crate) const KNOWN: Known =
    Known { name: "redis", recognise, parser: |_| Box::new(Redis::new()) };

/// Bytes of a line that are looked at.
const MAX_LINE_BYTES: usize = 512;
/// Words that a command may have (Redis's own bound is 1024 * 1024).
const MAX_WORDS: u64 = 1 << 20;

/// Where the asking side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a command.
    Start,
    /// In the line of a command without framing.
    Inline,
    /// In the line `*WORDS`.
    Count,
    /// In the line `$LENGTH`.
    Length,
    /// In a word of which this many bytes are left, its line end counted.
    Word { remaining: u64 },
    /// In bytes whose borders are not known.
    Lost,
}

/// The parser of one connection.
pub(super) struct Redis {
    state: State,
    line: Vec<u8>,
    start: Option<Mark>,
    command: Command,
    /// Words of the command that are complete.
    complete: u64,
    opened: bool,
    reply: Reply,
    reply_lost: bool,
    subscriptions: Subscriptions,
    /// A reply was another command's: what comes is read from the next turn on.
    out_of_step: bool,
    database: Option<u32>,
    strikes: Strikes,
}

/// Whether bytes look like the beginning of a message.
fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    let Some(first) = bytes.first() else { return partly };
    match (side, first) {
        (_, b'*') => {
            let digits = bytes[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            match &bytes[1 + digits..] {
                _ if digits > 7 => Likeness::No,
                [] | [b'\r'] | [b'\r', b'\n'] if digits > 0 || bytes.len() == 1 => partly,
                [b'\r', b'\n', b'$', ..] if digits > 0 => Likeness::Yes,
                [b'\r', b'\n', b':' | b'+' | b'*', ..] if digits > 0 && side == Side::Response => {
                    Likeness::Yes
                }
                _ => Likeness::No,
            }
        }
        (Side::Response, b'$' | b':' | b'+') => match bytes.iter().position(|b| *b == b'\n') {
            None if bytes.len() < 24 => partly,
            None => Likeness::No,
            Some(end) => {
                let line = bytes[1..end].strip_suffix(b"\r").unwrap_or_default();
                let number =
                    !line.is_empty() && line.iter().all(|b| b.is_ascii_digit() || *b == b'-');
                let status = matches!(line, b"OK" | b"PONG" | b"QUEUED") && end + 1 == bytes.len();
                if *first != b'+' && number {
                    Likeness::Yes
                } else if *first == b'+' && status {
                    // So do servers of POP3 answer.
                    Likeness::AtFirst
                } else {
                    Likeness::No
                }
            }
        },
        // So a server of NATS introduces itself.
        (Side::Request, _) if bytes.starts_with(b"INFO {") => Likeness::No,
        (Side::Request, first) if first.is_ascii_alphabetic() => {
            let letters = bytes.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
            let word = &bytes[..letters];
            let is = |known: &&str| known.as_bytes().eq_ignore_ascii_case(word);
            let may_be = |known: &&str| {
                known.len() >= letters && known.as_bytes()[..letters].eq_ignore_ascii_case(word)
            };
            match bytes.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    let plain = bytes[..end].iter().all(|b| !b.is_ascii_control() || *b == b'\r');
                    let ended = matches!(bytes[letters], b' ' | b'\r' | b'\n');
                    // In lower case, and refused by Memcached: an error of its.
                    let other = matches!(word, b"get" | b"set" | b"incr" | b"decr");
                    // A word that Memcached answers with.
                    let other = other || (word == b"EXISTS" && bytes[letters] != b' ');
                    if plain && ended && !other && INLINE.iter().any(is) {
                        // So do clients of FTP, SMTP, POP3 and IMAP say QUIT and
                        // AUTH, whose servers have greeted them by then.
                        Likeness::AtFirst
                    } else {
                        Likeness::No
                    }
                }
                None if letters == bytes.len() && INLINE.iter().any(may_be) => partly,
                None if letters < bytes.len()
                    && matches!(bytes[letters], b' ' | b'\r')
                    && INLINE.iter().any(is)
                    && bytes.len() < MAX_LINE_BYTES =>
                {
                    partly
                }
                None => Likeness::No,
            }
        }
        _ => Likeness::No,
    }
}

/// The number in `*12` or `$12`, the sign left out.
fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.trim_end().parse().ok()
}

impl Redis {
    pub(super) fn new() -> Self {
        Self {
            state: State::Start,
            line: Vec::new(),
            start: None,
            command: Command::default(),
            complete: 0,
            opened: false,
            reply: Reply::new(),
            reply_lost: false,
            subscriptions: Subscriptions::default(),
            out_of_step: false,
            database: None,
            strikes: Strikes::NONE,
        }
    }

    fn next_command(&mut self) {
        self.state = State::Start;
        self.line.clear();
        self.command = Command::default();
        self.complete = 0;
        self.opened = false;
    }

    fn lose_request(&mut self, at: Mark, conversation: &mut Conversation<'_>) {
        // A command whose name is known is worth a span.
        if !self.opened && self.complete > 0 {
            self.open(at, conversation);
        }
        self.forget_request(conversation);
    }

    fn forget_request(&mut self, conversation: &mut Conversation<'_>) {
        conversation.counters.framing_lost += 1;
        self.next_command();
        self.state = State::Lost;
    }

    fn malformed_request(&mut self, conversation: &mut Conversation<'_>) -> Outcome {
        self.next_command();
        self.state = State::Lost;
        self.strike(true, conversation)
    }

    /// Takes note of bytes where a message was `expected`.
    fn strike(&mut self, expected: bool, conversation: &mut Conversation<'_>) -> Outcome {
        match expected {
            true => self.strikes.strike(conversation.counters),
            false => self.strikes.outcome(),
        }
    }

    fn open(&mut self, at: Mark, conversation: &mut Conversation<'_>) {
        let start = self.start.unwrap_or(at);
        let hide = *conversation.memory.of::<Hidden>();
        self.opened = true;
        if self.out_of_step {
            conversation.counters.requests_lost += 1;
            return;
        }
        conversation.open(start, at, self.command.request(self.database, hide));
        if let Some(exchange) = conversation.uploading() {
            self.subscriptions.sent(&self.command, exchange.id);
        }
        if let Some(database) = self.command.selects() {
            self.database = Some(database);
        }
        self.strikes.clear();
    }

    /// Reads a line; `true` when it is complete. What is longer than the bound
    /// is passed over.
    fn read_line(line: &mut Vec<u8>, input: &mut Input<'_>) -> bool {
        let (taken, complete) = match memchr::memchr(b'\n', input.bytes) {
            Some(end) => (end + 1, true),
            None => (input.bytes.len(), false),
        };
        let bytes = input.take(taken);
        let room = MAX_LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        complete
    }

    fn word_complete(&mut self, at: Mark, conversation: &mut Conversation<'_>) -> Outcome {
        self.complete += 1;
        let known = self.complete >= 2 || self.complete == self.command.words;
        if known && !self.opened {
            if self.command.ends_pairing() {
                conversation.leave(at);
                return Outcome::Switched;
            }
            self.open(at, conversation);
        }
        if self.complete >= self.command.words {
            conversation.request_reached(at);
            self.next_command();
        } else {
            self.line.clear();
            self.state = State::Length;
        }
        Outcome::Read
    }

    fn read_request(
        &mut self,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        if input.missed && !self.opened && self.state != State::Lost {
            // That more is missing is seen only with a later command: the reply to
            // this one may have come and gone.
            input.skip_all();
            self.forget_request(conversation);
            return Outcome::Read;
        }
        let unseen_only = input.bytes.is_empty();
        match self.state {
            State::Word { .. } | State::Lost => {}
            _ if unseen_only => self.lose_request(input.mark, conversation),
            _ => {}
        }
        match self.state {
            State::Start => match input.bytes[0] {
                b'\r' | b'\n' => {
                    input.take(1);
                }
                first => {
                    self.start = Some(input.mark);
                    self.line.clear();
                    if first == b'*' {
                        input.take(1);
                        self.state = State::Count;
                    } else if first.is_ascii_alphabetic() {
                        self.state = State::Inline;
                    } else {
                        return self.malformed_request(conversation);
                    }
                }
            },
            State::Inline => {
                if Self::read_line(&mut self.line, input) {
                    let mut words =
                        self.line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
                    let name = words.next().unwrap_or_default();
                    // Any word may be a command here, also one of another protocol's
                    // messages, so only those count by which a connection is told.
                    if !INLINE.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name)) {
                        return self.malformed_request(conversation);
                    }
                    self.command.name = name.to_vec();
                    self.command.first = words.next().map(<[u8]>::to_vec);
                    self.command.words =
                        1 + u64::from(self.command.first.is_some()) + words.count() as u64;
                    self.complete = self.command.words - 1;
                    return self.word_complete(input.mark, conversation);
                }
            }
            State::Count => {
                if Self::read_line(&mut self.line, input) {
                    match number(&self.line) {
                        // Redis takes an empty command for none.
                        Some(count) if count <= 0 => self.next_command(),
                        Some(count) if count.unsigned_abs() <= MAX_WORDS => {
                            self.command.words = count.unsigned_abs();
                            self.line.clear();
                            self.state = State::Length;
                        }
                        _ => return self.malformed_request(conversation),
                    }
                }
            }
            State::Length => {
                if Self::read_line(&mut self.line, input) {
                    let length = self.line.strip_prefix(b"$").and_then(number);
                    match length.and_then(|length| u64::try_from(length).ok()) {
                        Some(length) if length < 1 << 40 => {
                            self.state = State::Word { remaining: length + 2 };
                        }
                        _ => return self.malformed_request(conversation),
                    }
                }
            }
            State::Word { remaining } => {
                let content = remaining.saturating_sub(2);
                let seen = usize::try_from(content).unwrap_or(usize::MAX).min(input.bytes.len());
                match self.complete {
                    0 => keep(&mut self.command.name, &input.bytes[..seen], MAX_NAME_BYTES),
                    1 => {
                        let first = self.command.first.get_or_insert_default();
                        keep(first, &input.bytes[..seen], MAX_KEY_BYTES);
                    }
                    _ => {}
                }
                match remaining - input.skip(remaining) {
                    0 => return self.word_complete(input.mark, conversation),
                    remaining => {
                        self.state = State::Word { remaining };
                        if self.opened {
                            conversation.request_reached(input.mark);
                        }
                    }
                }
            }
            State::Lost => input.skip_all(),
        }
        Outcome::Read
    }

    fn read_reply(
        &mut self,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        if self.reply_lost {
            input.skip_all();
            conversation.response_reached(input.mark);
            return Outcome::Read;
        }
        if input.missed && self.reply.start.is_some() {
            // The beginning of this reply may be an older one's.
            input.skip_all();
            conversation.abandon();
            conversation.counters.framing_lost += 1;
            self.lose_reply();
            return Outcome::Read;
        }
        let was_in_step = self.reply.in_step;
        match self.reply.read(input) {
            Step::More => {
                if let (Some(start), true) = (self.reply.start, self.was_asked_for()) {
                    conversation.begin_response(start);
                    conversation.response_reached(input.mark);
                }
                Outcome::Read
            }
            Step::Complete(message) => {
                self.strikes.clear();
                if !self.out_of_step {
                    self.message(message, input.mark, conversation);
                }
                Outcome::Read
            }
            Step::Unseen => {
                if input.missed {
                    conversation.abandon();
                } else if self.was_asked_for() {
                    conversation.begin_response(self.reply.start.unwrap_or(input.mark));
                }
                conversation.counters.framing_lost += 1;
                self.lose_reply();
                conversation.weaken();
                Outcome::Read
            }
            Step::Malformed => {
                // Whose it was, and whose the next is, is not known.
                conversation.abandon();
                self.lose_reply();
                self.strike(was_in_step, conversation)
            }
        }
    }

    /// Whether what is being read can only be a reply.
    const fn was_asked_for(&self) -> bool {
        match self.reply.kind() {
            b'>' => false,
            b'*' => !self.subscriptions.any(),
            _ => true,
        }
    }

    /// A message of the server's, up to `end`.
    fn message(&mut self, message: Message, end: Mark, conversation: &mut Conversation<'_>) {
        let first = conversation.answering().map(|exchange| exchange.id);
        let last = match self.subscriptions.about(&message, first) {
            About::Nothing => return,
            About::Reply => true,
            About::Confirmation { last } => last,
        };
        let Some(exchange) = conversation.answering() else {
            conversation.counters.orphan_responses += 1;
            return;
        };
        if !may_answer(&exchange.request.operation, &message) {
            conversation.lose_step();
            self.subscriptions.forget();
            self.out_of_step = true;
            return;
        }
        if let Some(error) = message.error {
            let failure = failure(&error);
            let code = failure.kind.as_str().into();
            exchange.answer.attributes.push(("db.response.status_code", code));
            if is_optional(&exchange.request.operation, &failure) {
                exchange.answer.attributes.push((REFUSED, "optional".into()));
            } else {
                exchange.answer.failure = Some(failure);
            }
        }
        conversation.begin_response(message.start);
        conversation.response_reached(end);
        if last {
            conversation.end_response();
        }
    }

    fn lose_reply(&mut self) {
        self.reply = Reply::new();
        self.reply_lost = true;
        self.subscriptions.forget();
    }
}

fn keep(to: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let room = limit.saturating_sub(to.len());
    to.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

/// Said of a request that its client makes in case the server can do it: `optional`, where it
/// cannot.
const REFUSED: &str = "spanwise.refused";

/// What client libraries ask of servers that may be too old for it.
const OPTIONAL: [&str; 7] = [
    "HELLO",
    "CLIENT SETINFO",
    "CLIENT MAINT_NOTIFICATIONS",
    "CLIENT NO-EVICT",
    "CLIENT NO-TOUCH",
    "CLIENT TRACKING",
    "COMMAND DOCS",
];

/// Whether a failure only says that a server does not know what it need not.
fn is_optional(operation: &str, failure: &Failure) -> bool {
    let unknown = || {
        failure.kind == "NOPROTO"
            || ["ERR unknown", "ERR Unknown", "ERR syntax error", "ERR wrong number"]
                .iter()
                .any(|begin| failure.message.starts_with(begin))
    };
    OPTIONAL.contains(&operation) && unknown()
}

/// How errors of Redis itself begin.
const KINDS: [&str; 32] = [
    "ERR",
    "WRONGTYPE",
    "NOAUTH",
    "NOPERM",
    "WRONGPASS",
    "MOVED",
    "ASK",
    "LOADING",
    "BUSY",
    "NOSCRIPT",
    "READONLY",
    "OOM",
    "EXECABORT",
    "MISCONF",
    "CROSSSLOT",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "BUSYGROUP",
    "NOGROUP",
    "UNKILLABLE",
    "INPROG",
    "NOREPLICAS",
    "MASTERDOWN",
    "BUSYKEY",
    "NOPROTO",
    "DENIED",
    "NOTBUSY",
    "UNBLOCKED",
    "IOERR",
    "INVALIDOBJ",
    "NOGOODSLAVE",
    "STALEDATA",
];

/// The failure that an error reply names: its first word, in capitals, is the
/// kind.
fn failure(error: &[u8]) -> Failure {
    let message = crate::bytes::text(error, MAX_LINE_BYTES);
    // Redis repeats the arguments of commands that it does not know.
    let message = message.split(", with args beginning with").next().unwrap_or_default();
    let kind = message.split(' ').next().unwrap_or_default();
    if !KINDS.contains(&kind) {
        // A script's own: it may say anything, beginning with its first word.
        let said = own_words(message.split_once(' ').map_or("", |(_, said)| said));
        return Failure {
            kind: "ERR".to_owned(),
            message: format!("ERR {said}").trim_end().to_owned(),
        };
    }
    let scripts = message.contains("script");
    let message = if scripts { own_words(message) } else { without_quoted(message).into_owned() };
    Failure { kind: kind.to_owned(), message }
}

impl Protocol for Redis {
    fn name(&self) -> &'static str {
        protocol::REDIS
    }

    fn read(
        &mut self,
        side: Side,
        mut input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        while !input.is_empty() {
            let outcome = match side {
                Side::Request => self.read_request(&mut input, conversation),
                Side::Response => self.read_reply(&mut input, conversation),
            };
            if outcome != Outcome::Read {
                return outcome;
            }
        }
        Outcome::Read
    }

    fn turn(&mut self, to: Side, conversation: &mut Conversation<'_>) {
        match to {
            Side::Request => {
                if self.reply_lost {
                    conversation.end_lost_response();
                }
                if std::mem::take(&mut self.out_of_step) {
                    conversation.counters.resynchronised += 1;
                }
                if self.state == State::Lost {
                    // Commands were missed: whose the next reply is, is not known.
                    conversation.abandon();
                    conversation.counters.resynchronised += 1;
                    self.state = State::Start;
                }
            }
            Side::Response => {
                if std::mem::take(&mut self.reply_lost) {
                    conversation.counters.resynchronised += 1;
                }
            }
        }
    }

    fn quiet(&mut self, conversation: &mut Conversation<'_>) {
        if self.reply_lost {
            conversation.end_lost_response();
        }
    }

    fn closed(&mut self, conversation: &mut Conversation<'_>) {
        self.quiet(conversation);
    }

    fn speaks_unasked(&self) -> bool {
        self.subscriptions.any()
    }

    fn between_responses(&self) -> bool {
        !self.reply_lost && self.reply.start.is_none()
    }

    fn held_bytes(&self) -> usize {
        self.line.capacity()
            + self.command.name.capacity()
            + self.command.first.as_ref().map_or(0, Vec::capacity)
            + self.reply.held_bytes()
            + self.subscriptions.held_bytes()
    }
}
