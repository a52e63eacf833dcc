//! The parser of a connection whose protocol is handled by a plugin.

use super::abi::{Kind, MAX_ATTRIBUTES, Message};
use super::hosted::{Asking, NoAnswer, Plugins};
use super::reader::{Head, Reader};
use crate::bytes::{Input, Mark, Side};
use crate::framing::Step;
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::parser::{Outcome, Protocol};
use crate::sessions::{Conversation, Failure, Manner, Request};

/// The type of the message being read.
#[derive(Debug, Default)]
enum Reading {
    /// A message without a span.
    #[default]
    Other,
    /// A request or a part of one. `uncounted` bytes of it are not counted yet.
    Request { uncounted: u64 },
    /// A message without a response. It is recorded when all of it has passed.
    OneWay { start: Mark, request: Box<Request>, failure: Option<Failure> },
    /// A response to an open request.
    Response { stream: Option<u64>, uncounted: u64, more: bool },
}

/// The parser of one connection.
#[derive(Debug)]
pub(crate) struct Speech {
    plugin: usize,
    name: &'static str,
    asking: Reader,
    answering: Reader,
    asked: Reading,
    answered: Reading,
    /// Requests have no stream numbers and are answered in order.
    in_order: bool,
    /// The responding side has sent messages without a request.
    unasked: bool,
    strikes: Strikes,
}

impl Speech {
    /// Creates a parser for a connection that the plugin with this index handles.
    pub(crate) fn new(plugin: usize, plugins: &Plugins) -> Self {
        Self {
            plugin,
            name: plugins.name(plugin),
            asking: Reader::new(),
            answering: Reader::new(),
            asked: Reading::Other,
            answered: Reading::Other,
            in_order: false,
            unasked: false,
            strikes: Strikes::NONE,
        }
    }

    fn take(
        &mut self,
        side: Side,
        head: &Head<'_>,
        message: Message,
        conversation: &mut Conversation<'_>,
    ) -> Reading {
        let looked = head.bytes.len() as u64;
        let uncounted = head.length - looked;
        match (side, message.kind) {
            (Side::Request, Kind::Request) => {
                self.in_order |= message.stream.is_none();
                conversation.open(head.start, head.end, self.request(message));
                conversation.request_frame(head.end, looked);
                Reading::Request { uncounted }
            }
            (Side::Request, Kind::RequestPart) => {
                if !conversation.continue_request(message.stream.unwrap_or(0)) {
                    return Reading::Other;
                }
                conversation.request_frame(head.end, looked);
                Reading::Request { uncounted }
            }
            (_, Kind::OneWay) => {
                let failure = failure(&message);
                let mut request = self.request(message);
                if side == Side::Response {
                    self.unasked = true;
                    request.manner = Manner::Deliver;
                }
                Reading::OneWay { start: head.start, request: Box::new(request), failure }
            }
            (Side::Response, Kind::Response) => {
                let open = match message.stream {
                    Some(stream) => conversation.answer(stream),
                    None => true,
                };
                if !open || !conversation.begin_response(head.start) {
                    conversation.counters.orphan_responses += 1;
                    return Reading::Other;
                }
                conversation.response_frame(head.end, looked);
                let (stream, more) = (message.stream, message.more);
                answer(message, conversation);
                Reading::Response { stream, uncounted, more }
            }
            // The responding side may send requests as well; they are not tracked.
            _ => Reading::Other,
        }
    }

    fn request(&self, message: Message) -> Request {
        let named = !message.operation.is_empty();
        let mut request =
            Request::new(if named { message.operation } else { self.name.to_owned() });
        request.stream = message.stream.unwrap_or(0);
        request.headers.header(b"traceparent", &message.trace_parent);
        request.attributes = message.attributes;
        request
    }

    /// Message boundaries of one side were lost. The missed bytes may have contained requests or
    /// responses.
    fn lose(&mut self, side: Side, conversation: &mut Conversation<'_>) {
        match side {
            Side::Request => self.asked = Reading::Other,
            Side::Response => self.answered = Reading::Other,
        }
        if side == Side::Response || self.in_order {
            conversation.abandon();
        }
        if self.in_order {
            // Both sides resynchronise where the next request begins.
            self.asking.lose();
            self.answering.lose();
            self.asked = Reading::Other;
            self.answered = Reading::Other;
        }
    }

    /// Whether messages of this side are skipped. If messages are paired by order alone, the next
    /// request after a loss must follow a response, and the next response must follow that request.
    const fn waits_for_turn(&self, side: Side) -> bool {
        self.in_order
            && match side {
                Side::Request => self.asking.is_lost() && !self.asking.has_turned(),
                Side::Response => {
                    self.answering.is_lost()
                        && (self.asking.is_lost() || !self.answering.has_turned())
                }
            }
    }

    /// The plugin failed, so the connection's state is unknown.
    fn fail(&mut self) -> Outcome {
        self.asked = Reading::Other;
        self.answered = Reading::Other;
        Outcome::Unreadable
    }
}

fn failure(message: &Message) -> Option<Failure> {
    let error = message.error.as_deref()?;
    let status = message.status.map(|status| status.to_string());
    let kind = match (error, &status) {
        ("", Some(status)) => status,
        ("", None) => "error",
        (error, _) => error,
    };
    Some(Failure::plain(kind))
}

/// Records the content of a response or of a part of one.
fn answer(message: Message, conversation: &mut Conversation<'_>) {
    let Some(exchange) = conversation.answering() else { return };
    let answer = &mut exchange.answer;
    answer.status_code = message.status.or(answer.status_code);
    if let Some(failure) = failure(&message) {
        answer.failure.get_or_insert(failure);
    }
    let room = MAX_ATTRIBUTES.saturating_sub(answer.attributes.len());
    answer.attributes.extend(message.attributes.into_iter().take(room));
}

fn finish(reading: Reading, at: Mark, conversation: &mut Conversation<'_>) {
    match reading {
        Reading::Other => {}
        Reading::Request { uncounted } => conversation.request_frame(at, uncounted),
        Reading::OneWay { start, request, failure } => {
            conversation.tell_failed(start, at, *request, failure);
        }
        Reading::Response { stream, uncounted, more } => {
            // The request may have been abandoned in the meantime.
            if stream.is_some_and(|stream| !conversation.answer(stream)) {
                return;
            }
            conversation.response_frame(at, uncounted);
            if !more {
                conversation.end_response();
            }
        }
    }
}

impl Framed for Speech {
    type Head<'a> = Option<Head<'a>>;

    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        conversation: &mut Conversation<'_>,
    ) -> Step<Option<Head<'a>>> {
        let now_nano = input.mark.time_nano;
        let plugins = conversation.memory.of::<Plugins>();
        let Some(plugin) = plugins.get(self.plugin) else { return Step::Head(None) };
        let mut asking = Asking { side, now_nano, counters: conversation.counters };
        match side {
            Side::Request => self.asking.read(input, plugin, &mut asking),
            Side::Response => self.answering.read(input, plugin, &mut asking),
        }
    }

    fn strikes(&mut self) -> &mut Strikes {
        &mut self.strikes
    }

    fn begin(
        &mut self,
        side: Side,
        head: Option<Head<'_>>,
        conversation: &mut Conversation<'_>,
    ) -> Verdict {
        let plugin = conversation.memory.of::<Plugins>().get(self.plugin);
        let (Some(head), Some(plugin)) = (head, plugin) else { return Verdict::Stop(self.fail()) };
        let now_nano = head.end.time_nano;
        let mut asking = Asking { side, now_nano, counters: conversation.counters };
        let verdict = match plugin.decode(&head.bytes, head.length, &mut asking) {
            Ok(Some(message)) => {
                self.strikes.clear();
                let begun = self.take(side, &head, message, conversation);
                match side {
                    Side::Request => self.asked = begun,
                    Side::Response => self.answered = begun,
                }
                return Verdict::Fine;
            }
            Ok(None) => Verdict::Lost,
            Err(NoAnswer::Busy) => {
                conversation.counters.framing_lost += 1;
                Verdict::Stop(Outcome::Read)
            }
            Err(NoAnswer::Failed) => return Verdict::Stop(self.fail()),
        };
        match side {
            Side::Request => self.asking.lose(),
            Side::Response => self.answering.lose(),
        }
        self.lose(side, conversation);
        verdict
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        let reading = match side {
            Side::Request => std::mem::take(&mut self.asked),
            Side::Response => std::mem::take(&mut self.answered),
        };
        finish(reading, end, conversation);
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, _: Mark, _: bool, conversation: &mut Conversation<'_>) {
        self.lose(side, conversation);
    }
}

impl Protocol for Speech {
    fn name(&self) -> &'static str {
        self.name
    }

    fn read(
        &mut self,
        side: Side,
        input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        if self.waits_for_turn(side) {
            return Outcome::Read;
        }
        drive(self, side, input, conversation)
    }

    fn turn(&mut self, to: Side, conversation: &mut Conversation<'_>) {
        match to {
            Side::Request => {
                self.asking.turn();
                // Earlier requests were answered in the bytes that were not read.
                if self.in_order && self.answering.is_lost() {
                    self.asked = Reading::Other;
                    conversation.abandon();
                }
            }
            Side::Response => self.answering.turn(),
        }
    }

    fn between_responses(&self) -> bool {
        self.answering.is_between()
    }

    fn speaks_unasked(&self) -> bool {
        self.unasked
    }

    fn held_bytes(&self) -> usize {
        let told = |reading: &Reading| match reading {
            Reading::OneWay { request, .. } => size_of::<Request>() + request.held_bytes(),
            _ => 0,
        };
        self.asking.held_bytes()
            + self.answering.held_bytes()
            + told(&self.asked)
            + told(&self.answered)
    }
}
