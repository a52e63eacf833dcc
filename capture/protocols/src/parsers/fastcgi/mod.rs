//! FastCGI (FastCGI Specification 1.0): requests of HTTP, as web servers pass
//! them on to applications. Several may pass at once, each with its number.

mod params;
mod record;

use std::collections::BTreeMap;

use spanwise_model::protocol;

use self::params::MAX_HEAD_BYTES;
use self::record::{
    ABORT_REQUEST, BEGIN_REQUEST, END_REQUEST, HEADER_BYTES, Header, PARAMS, Records, STDERR,
    STDIN, STDOUT, recognise,
};
use crate::bytes::{Input, Mark, Side};
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Head, Step};
use crate::parser::{Known, Outcome, Protocol};
use crate::sessions::{Conversation, Failure, Request};

/// FastCGI, to whoever tells protocols apart.
pub(crate) const KNOWN: Known =
    Known { name: "fastcgi", recognise, parser: |serving| Box::new(Fastcgi::new(serving)) };

/// Requests that pass at once of which more is remembered than that they are
/// there. Web servers send one at a time.
const MAX_TALKS: usize = 16;
/// Bytes of parameters that are kept.
const MAX_PARAMS_BYTES: usize = 16 * 1024;
/// Bytes of standard error that are kept.
const MAX_ERROR_BYTES: usize = 512;
/// Length of the record that ends a response, and of those that may end its
/// streams before it.
const END_RECORD_BYTES: u64 = HEADER_BYTES as u64 + 8;
const EMPTY_RECORD_BYTES: u64 = HEADER_BYTES as u64;

/// What is known of one request and its response, so far.
#[derive(Debug)]
struct Talk {
    /// The request's first byte.
    start: Mark,
    /// Its parameters; `None` once they are read.
    params: Option<Vec<u8>>,
    /// The beginning of the output; `None` once the head in it is read.
    output: Option<Vec<u8>>,
    error: Vec<u8>,
}

impl Talk {
    const fn new(start: Mark) -> Self {
        Self { start, params: Some(Vec::new()), output: Some(Vec::new()), error: Vec::new() }
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + self.params.as_ref().map_or(0, Vec::capacity)
            + self.output.as_ref().map_or(0, Vec::capacity)
            + self.error.capacity()
    }
}

/// The parser of one connection.
struct Fastcgi {
    serving: bool,
    requests: Frames<Records>,
    responses: Frames<Records>,
    /// By the request's number.
    talks: BTreeMap<u16, Talk>,
    /// The request that the record being read belongs to, where it is open.
    asking: bool,
    /// The request that the record being read answers.
    answering: Option<u16>,
    /// Whether that record is the response's last.
    ending: bool,
    strikes: Strikes,
}

impl Fastcgi {
    const fn new(serving: bool) -> Self {
        Self {
            serving,
            requests: Frames::new(Records(Side::Request)),
            responses: Frames::new(Records(Side::Response)),
            talks: BTreeMap::new(),
            asking: false,
            answering: None,
            ending: false,
            strikes: Strikes::NONE,
        }
    }

    fn abandon(&mut self, conversation: &mut Conversation<'_>) {
        conversation.abandon();
        self.talks.clear();
    }

    fn request_record(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        let Some(header) = Header::read(Side::Request, &head.header) else { return };
        self.strikes.clear();
        match header.kind {
            BEGIN_REQUEST => {
                // Its last response was not seen: nobody else has this number.
                if self.talks.contains_key(&header.request)
                    || conversation.answer(u64::from(header.request))
                {
                    self.abandon(conversation);
                }
                if self.talks.len() < MAX_TALKS {
                    self.talks.insert(header.request, Talk::new(head.start));
                } else {
                    conversation.counters.requests_over_limit += 1;
                }
            }
            PARAMS => self.params_record(header, head, conversation),
            STDIN => self.asking = conversation.continue_request(u64::from(header.request)),
            ABORT_REQUEST => {
                if conversation.answer(u64::from(header.request))
                    && let Some(exchange) = conversation.answering()
                {
                    exchange.answer.failure = Some(Failure::plain("aborted"));
                }
            }
            _ => {}
        }
    }

    fn params_record(
        &mut self,
        header: Header,
        head: &Head<'_>,
        conversation: &mut Conversation<'_>,
    ) {
        let Some(talk) = self.talks.get_mut(&header.request) else { return };
        let Some(params) = &mut talk.params else {
            self.asking = conversation.continue_request(u64::from(header.request));
            return;
        };
        let room = MAX_PARAMS_BYTES - params.len();
        params.extend_from_slice(&head.content[..head.content.len().min(room)]);
        let cut = head.content.len() < usize::from(header.length) || head.content.len() > room;
        conversation.counters.heads_cut += u64::from(cut);
        // An empty record ends them.
        if header.length == 0 || cut {
            self.open(header.request, head.end, conversation);
        }
    }

    fn open(&mut self, number: u16, end: Mark, conversation: &mut Conversation<'_>) {
        let Some(talk) = self.talks.get_mut(&number) else { return };
        let Some(params) = talk.params.take() else { return };
        let request = Request { stream: u64::from(number), ..params::request(&params) };
        conversation.open(talk.start, end, request);
        self.asking = true;
    }

    /// Opens the requests whose parameters will not be seen to their end.
    fn open_cut(&mut self, end: Mark, conversation: &mut Conversation<'_>) {
        let waiting = |(number, talk): (&u16, &Talk)| talk.params.is_some().then_some(*number);
        let waiting: Vec<u16> = self.talks.iter().filter_map(waiting).collect();
        for number in waiting {
            conversation.counters.heads_cut += 1;
            self.open(number, end, conversation);
        }
    }

    /// Whether what was not captured is the end of the one response that is on
    /// its way: that much, and nothing else that short, is left when it is.
    fn ends_unseen(&self, input: &Input<'_>, conversation: &mut Conversation<'_>) -> bool {
        let lengths = [0, 1, 2].map(|empty| END_RECORD_BYTES + empty * EMPTY_RECORD_BYTES);
        self.responses.is_between()
            && input.bytes.is_empty()
            && !input.missed
            && lengths.contains(&input.unseen)
            && self.talks.len() == 1
            && conversation.answering().is_some_and(|exchange| exchange.response_start.is_some())
    }

    fn response_record(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        let Some(header) = Header::read(Side::Response, &head.header) else { return };
        self.strikes.clear();
        self.answering = None;
        if !matches!(header.kind, STDOUT | STDERR | END_REQUEST) {
            return;
        }
        if !conversation.answer(u64::from(header.request)) {
            self.talks.remove(&header.request);
            conversation.counters.orphan_responses += u64::from(header.kind == END_REQUEST);
            return;
        }
        self.answering = Some(header.request);
        conversation.begin_response(head.start);
        let Some(talk) = self.talks.get_mut(&header.request) else {
            self.ending = header.kind == END_REQUEST;
            return;
        };
        match header.kind {
            STDOUT => {
                let Some(output) = &mut talk.output else { return };
                let room = MAX_HEAD_BYTES - output.len();
                output.extend_from_slice(&head.content[..head.content.len().min(room)]);
                let all = head.content.len() == usize::from(header.length);
                if !all || output.len() >= MAX_HEAD_BYTES || params::head_is_complete(output) {
                    self.read_head(header.request, conversation);
                }
            }
            STDERR => {
                let room = MAX_ERROR_BYTES - talk.error.len();
                talk.error.extend_from_slice(&head.content[..head.content.len().min(room)]);
            }
            _ => {
                self.read_head(header.request, conversation);
                if let Some(exchange) = conversation.answering()
                    && exchange.answer.failure.is_none()
                {
                    exchange.answer.failure = refusal(&head.content);
                }
                self.ending = true;
            }
        }
    }

    /// The head of the response to this request, which is being answered, is
    /// there, or all that will be there of it.
    fn read_head(&mut self, number: u16, conversation: &mut Conversation<'_>) {
        let Some(talk) = self.talks.get_mut(&number) else { return };
        let Some(output) = talk.output.take().filter(|output| !output.is_empty()) else { return };
        conversation.counters.heads_cut += u64::from(!params::head_is_complete(&output));
        if let Some(mut answer) = params::answer(&output, self.serving)
            && let Some(exchange) = conversation.answering()
        {
            // What was aborted stays so.
            if let Some(failure) = exchange.answer.failure.take() {
                answer.failure = Some(failure);
            }
            exchange.answer = answer;
        }
    }

    /// The response being answered is complete.
    fn end_response(&mut self, conversation: &mut Conversation<'_>) {
        self.answering = None;
        let Some(exchange) = conversation.answering() else { return };
        let number = u16::try_from(exchange.request.stream).unwrap_or(0);
        if let Some(talk) = self.talks.remove(&number) {
            params::take_error(&talk.error, &mut exchange.answer);
        }
        conversation.end_response();
    }

    /// The response whose borders were lost is over.
    fn end_lost(&mut self, conversation: &mut Conversation<'_>) {
        if self.responses.is_lost()
            && conversation.answering().is_some_and(|exchange| exchange.response_start.is_some())
        {
            self.end_response(conversation);
            self.abandon(conversation);
        }
    }
}

/// Why an application ended a request, where not because it was done: "Records:
/// FCGI_END_REQUEST".
fn refusal(content: &[u8]) -> Option<Failure> {
    let (status, rest) = content.split_first_chunk::<4>()?;
    let kind = match rest.first()? {
        0 => {
            let status = u32::from_be_bytes(*status);
            return (status != 0).then(|| Failure {
                kind: "exit_status".to_owned(),
                message: format!("exit status {status}"),
            });
        }
        1 => "cannot_multiplex",
        2 => "overloaded",
        3 => "unknown_role",
        _ => "error",
    };
    Some(Failure::plain(kind))
}

impl Framed for Fastcgi {
    type Head<'a> = Head<'a>;

    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        conversation: &mut Conversation<'_>,
    ) -> Step<Head<'a>> {
        match side {
            Side::Request => self.requests.read(input),
            Side::Response if self.ends_unseen(input, conversation) => {
                input.skip_all();
                conversation.response_reached(input.mark);
                self.end_response(conversation);
                Step::More
            }
            Side::Response => self.responses.read(input),
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
        match side {
            Side::Request => self.request_record(&head, conversation),
            Side::Response => self.response_record(&head, conversation),
        }
        Verdict::Fine
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        match side {
            Side::Request => {
                if std::mem::take(&mut self.asking) {
                    conversation.request_reached(end);
                }
            }
            Side::Response => {
                if self.answering.is_some() {
                    conversation.response_reached(end);
                }
                if std::mem::take(&mut self.ending) {
                    self.end_response(conversation);
                }
            }
        }
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, at: Mark, missed: bool, conversation: &mut Conversation<'_>) {
        if missed {
            // A whole request with the same number may be among it.
            self.abandon(conversation);
        }
        match side {
            Side::Request => {
                if !missed {
                    // What was captured of the parameters is what there is.
                    self.open_cut(at, conversation);
                }
                // It will have been the rest of the request.
                self.asking = conversation.uploading().is_some();
            }
            Side::Response if missed => {}
            Side::Response => {
                conversation.response_reached(at);
                conversation.weaken();
            }
        }
    }

    fn malformed(&mut self, side: Side, _: Mark, _: &mut Conversation<'_>) -> Verdict {
        self.resume(side);
        Verdict::Malformed
    }

    fn pause(&mut self, side: Side, at: Mark, conversation: &mut Conversation<'_>) {
        match side {
            Side::Request if self.asking => conversation.request_reached(at),
            Side::Response if self.answering.is_some() => conversation.response_reached(at),
            _ => {}
        }
    }

    fn resume(&mut self, side: Side) {
        match side {
            Side::Request => self.asking = false,
            Side::Response => self.answering = None,
        }
    }

    fn struck(
        &mut self,
        _: Mark,
        outcome: Outcome,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        self.abandon(conversation);
        outcome
    }
}

impl Protocol for Fastcgi {
    fn name(&self) -> &'static str {
        protocol::FASTCGI
    }

    fn read(
        &mut self,
        side: Side,
        input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        drive(self, side, input, conversation)
    }

    fn turn(&mut self, to: Side, conversation: &mut Conversation<'_>) {
        match to {
            Side::Request => {
                self.end_lost(conversation);
                // A body may go on after the response to it has begun.
                if self.requests.is_lost() && conversation.is_empty() {
                    self.requests = Frames::new(Records(Side::Request));
                    self.asking = false;
                    conversation.counters.resynchronised += 1;
                }
            }
            Side::Response if self.responses.is_lost() => {
                self.responses = Frames::new(Records(Side::Response));
                conversation.counters.resynchronised += 1;
            }
            Side::Response => {}
        }
    }

    fn quiet(&mut self, conversation: &mut Conversation<'_>) {
        self.end_lost(conversation);
    }

    fn closed(&mut self, conversation: &mut Conversation<'_>) {
        self.end_lost(conversation);
    }

    fn between_responses(&self) -> bool {
        self.responses.is_between()
    }

    fn held_bytes(&self) -> usize {
        let talks: usize = self.talks.values().map(Talk::held_bytes).sum();
        self.requests.held_bytes() + self.responses.held_bytes() + talks
    }
}
