//! Redis serialization protocol (RESP), versions 2 and 3, and inline commands
//! (redis.io/docs/latest/develop/reference/protocol-spec).

mod command;
mod expected;
mod names;
mod queues;
mod reply;
mod subscriptions;

use spanwise_model::protocol;

use self::command::{Command, INLINE, MAX_KEY_BYTES, MAX_NAME_BYTES};
use self::expected::may_answer;
use self::queues::{Asked, Bulk, Watch, pushes, work};
use self::reply::{Message, Reply, Step};
use self::subscriptions::{About, Subscriptions};
use crate::bytes::{Input, Mark, Side};
use crate::framing::strikes::Strikes;
use crate::parser::{Known, Likeness, Outcome, Protocol};
use crate::redaction::{Hidden, own_words, without_quoted};
use crate::sessions::{
    Conversation, Failure, MAX_MESSAGES, Passage, PassedMessage, SEARCHED_BYTES,
};

/// Redis in the protocol table.
pub(crate) const KNOWN: Known =
    Known { name: "redis", recognise, parser: |_| Box::new(Redis::new()) };

/// Maximum bytes of a line that are read.
const MAX_LINE_BYTES: usize = 512;
/// Maximum words of a command (Redis's own limit is 1024 * 1024).
const MAX_WORDS: u64 = 1 << 20;

/// Read position in the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a command.
    Start,
    /// In the line of an inline command.
    Inline,
    /// In the line `*WORDS`.
    Count,
    /// In the line `$LENGTH`.
    Length,
    /// In a word; `remaining` bytes are left, including the line end.
    Word { remaining: u64 },
    /// Message boundaries are lost.
    Lost,
}

/// The parser of one connection.
pub(super) struct Redis {
    state: State,
    line: Vec<u8>,
    start: Option<Mark>,
    command: Command,
    /// Number of complete words of the current command.
    complete: u64,
    /// The word that is read, if it is a message.
    pushed: Option<Bulk>,
    asked: Asked,
    opened: bool,
    reply: Reply,
    reply_lost: bool,
    subscriptions: Subscriptions,
    /// A reply did not fit its command. Reading resumes at the next turn.
    out_of_step: bool,
    database: Option<u32>,
    strikes: Strikes,
}

/// Whether bytes look like the start of a message.
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
                    // POP3 servers send the same.
                    Likeness::AtFirst
                } else {
                    Likeness::No
                }
            }
        },
        // NATS servers introduce themselves this way.
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
                    // Lower-case commands that Memcached rejects: an error in its protocol.
                    let other = matches!(word, b"get" | b"set" | b"incr" | b"decr");
                    // A word that Memcached uses in replies.
                    let other = other || (word == b"EXISTS" && bytes[letters] != b' ');
                    if plain && ended && !other && INLINE.iter().any(is) {
                        // FTP, SMTP, POP3 and IMAP clients also send QUIT and AUTH, but only after
                        // their server has sent a greeting.
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

/// The number in `*12` or `$12`, without the type byte.
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
            pushed: None,
            asked: Asked::default(),
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
        self.pushed = None;
        self.opened = false;
    }

    fn lose_request(&mut self, at: Mark, conversation: &mut Conversation<'_>) {
        // A command with a known name is worth a span.
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

    /// Counts bytes that did not form a message. `expected` is true if a message had to begin
    /// there.
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
        let request = self.command.request(self.database, hide);
        let watch = Watch::of(&request.operation);
        if watch.receives() {
            conversation.end_work(start);
        }
        conversation.open(start, at, request);
        if let Some(exchange) = conversation.uploading() {
            self.subscriptions.sent(&self.command, exchange.id);
            self.asked.sent(exchange.id, watch, self.command.first.as_deref());
        }
        if let Some(database) = self.command.selects() {
            self.database = Some(database);
        }
        self.strikes.clear();
    }

    /// Reads a line and returns `true` when it is complete. Bytes beyond the limit are skipped.
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
        if let Some(Bulk { length, begin, .. }) = self.pushed.take() {
            let message = PassedMessage::of_content(Passage::Sent, &begin, length);
            self.command.messages.extend(message);
        }
        // What a command pushes is part of its span.
        let wanted = if pushes(&self.command.name) { u64::MAX } else { 2 };
        let known = self.complete >= wanted || self.complete == self.command.words;
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
            // A gap only shows up with a later command. The reply to this command may have come
            // already.
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
                    // Any word may look like a command here, including words of other protocols.
                    // Only the commands used for recognition count.
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
                        // Redis ignores an empty command.
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
                            let is_message = self.complete >= 2
                                && self.command.messages.len() < MAX_MESSAGES
                                && pushes(&self.command.name);
                            let message = Bulk { depth: 0, length, begin: Vec::new() };
                            self.pushed = is_message.then_some(message);
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
                    _ => {
                        if let Some(message) = &mut self.pushed {
                            message.add(&input.bytes[..seen], SEARCHED_BYTES);
                        }
                    }
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
            // The start of this reply may belong to an older reply.
            input.skip_all();
            conversation.abandon();
            conversation.counters.framing_lost += 1;
            self.lose_reply();
            return Outcome::Read;
        }
        if self.reply.start.is_none() {
            let asked = conversation.answering();
            self.reply.watch =
                asked.map_or(Watch::Nothing, |asked| Watch::of(&asked.request.operation));
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
                // Neither this reply nor the next one can be paired.
                conversation.abandon();
                self.lose_reply();
                self.strike(was_in_step, conversation)
            }
        }
    }

    /// Whether the message being read can only be a reply.
    const fn was_asked_for(&self) -> bool {
        match self.reply.kind() {
            b'>' => false,
            b'*' => !self.subscriptions.any(),
            _ => true,
        }
    }

    /// Handles a message of the server that ends at `end`.
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
        let watch = Watch::of(&exchange.request.operation);
        let fragment = exchange.fragment;
        let mut received = None;
        if watch != Watch::Nothing {
            let queue = self.asked.take(exchange.id);
            let messages = watch.messages(&message.bulks, queue.as_deref());
            if watch.receives() && !messages.is_empty() {
                let hide = *conversation.memory.of::<Hidden>();
                received = Some(work(queue.as_deref(), &messages, hide));
            }
            if let Some(exchange) = conversation.answering() {
                exchange.answer.messages = messages;
            }
        }
        conversation.begin_response(message.start);
        conversation.response_reached(end);
        if last {
            conversation.end_response();
            if let Some(work) = received {
                conversation.begin_work(fragment, [message.start, end], work);
            }
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

/// Attribute of requests that a client sends in case the server supports them. The value is
/// `optional` if the server does not.
const REFUSED: &str = "spanwise.refused";

/// Commands of client libraries that older servers may not support.
const OPTIONAL: [&str; 7] = [
    "HELLO",
    "CLIENT SETINFO",
    "CLIENT MAINT_NOTIFICATIONS",
    "CLIENT NO-EVICT",
    "CLIENT NO-TOUCH",
    "CLIENT TRACKING",
    "COMMAND DOCS",
];

/// Whether a failure only says that the server lacks an optional command.
fn is_optional(operation: &str, failure: &Failure) -> bool {
    let unknown = || {
        failure.kind == "NOPROTO"
            || ["ERR unknown", "ERR Unknown", "ERR syntax error", "ERR wrong number"]
                .iter()
                .any(|begin| failure.message.starts_with(begin))
    };
    OPTIONAL.contains(&operation) && unknown()
}

/// First words of Redis's own errors.
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

/// The failure in an error reply. Its first word, in capitals, is the kind.
fn failure(error: &[u8]) -> Failure {
    let message = crate::bytes::text(error, MAX_LINE_BYTES);
    // Redis repeats the arguments of unknown commands; cut them off.
    let message = message.split(", with args beginning with").next().unwrap_or_default();
    let kind = message.split(' ').next().unwrap_or_default();
    if !KINDS.contains(&kind) {
        // An error raised by a script. It may contain anything, even in its first word.
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
                    // Commands were missed, so the next reply cannot be paired.
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
            + self.pushed.as_ref().map_or(0, |message| message.begin.capacity())
            + self.command.messages.capacity() * size_of::<PassedMessage>()
            + self.asked.held_bytes()
            + self.reply.held_bytes()
            + self.subscriptions.held_bytes()
    }
}
