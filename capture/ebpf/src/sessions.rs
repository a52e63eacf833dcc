//! Sessions: requests paired with responses, for each connection: first in
//! first out, or by the stream that both name.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use ahash::AHasher;
use spanwise_model::{AttributeValue, Kind, RowWriter, Written};

use crate::context::{Call, Caller, Context, Fragment, Handled};
use crate::counters::Counters;
use crate::event::{Endpoint, Task};
use crate::plugins::Plugins;
use crate::process::{Process, ProcessDirectory};
use crate::protocols::tls::Encryption;
use crate::protocols::trace_headers::TraceHeaders;
use crate::protocols::{Heads, Known, Mark, Topics};

/// Open requests per connection; requests beyond make no spans.
const MAX_OPEN: usize = 4096;

/// Streams per connection whose tasks are known before the streams are.
const MAX_OWNERS: usize = 2048;

/// Bytes that the open requests of a connection may hold.
const MAX_HELD_BYTES: usize = 1 << 20;

/// What the whole tracer shares, lent to whoever reads a connection's bytes.
pub(crate) struct Desk<'a> {
    /// Open server requests of all processes.
    pub(crate) context: &'a mut Context,
    /// Who processes are.
    pub(crate) processes: &'a mut dyn ProcessDirectory,
    /// Totals.
    pub(crate) counters: &'a mut Counters,
    /// Where completed exchanges go.
    pub(crate) finished: &'a mut Vec<Exchange>,
    /// Exchanges so far: names each.
    pub(crate) exchanges: &'a mut u64,
    /// Kafka's topics, whose ids and names pass on different connections.
    pub(crate) topics: &'a mut Topics,
    /// Heads of HTTP/1 seen of late.
    pub(crate) heads: &'a mut Heads,
    /// What connections are taken to speak, where their bytes are not asked.
    pub(crate) assumed: Option<&'static Known>,
    /// Parsers of the operator's own.
    pub(crate) plugins: &'a mut Plugins,
}

/// What a protocol must remember of a request to understand its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tag {
    /// Nothing.
    Plain,
    /// HTTP HEAD: the response has no body.
    Head,
    /// HTTP CONNECT: success makes the connection a tunnel.
    Connect,
    /// PostgreSQL's request for encryption: the response is one byte.
    Encryption,
    /// Memcached's commands of which only the last is surely answered.
    Batch,
}

/// What is said of a request or a response, in order. All keys are ours.
pub(crate) type Attributes = Vec<(&'static str, AttributeValue)>;

/// What passes between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The asking side calls the answering one.
    Call,
    /// The asking side hands over a message.
    Publish,
    /// The answering side hands over a message, unasked: the asking side is the
    /// one that serves it.
    Deliver,
}

impl Manner {
    /// The span's kind (OpenTelemetry semantic conventions for messaging: a
    /// broker's own spans are those of a server and of a client).
    pub(crate) const fn kind(self, serving: bool) -> Kind {
        match (self, serving) {
            (Self::Publish, false) => Kind::Producer,
            (Self::Deliver, true) => Kind::Consumer,
            (_, true) => Kind::Server,
            (_, false) => Kind::Client,
        }
    }
}

/// What several exchanges may say alike: kept once, until one of them changes it.
pub(crate) struct Shared<T>(Arc<Kept<T>>);

struct Kept<T> {
    value: T,
    /// Where its attributes were written to a span.
    written: Written,
}

/// What says something of a span.
pub(crate) trait Tells {
    /// The span's attributes.
    fn attributes(&self) -> &Attributes;
}

impl<T: Tells> Shared<T> {
    /// Writes its attributes to a span.
    pub(crate) fn tell(&self, row: &mut RowWriter<'_>) {
        let attributes = self.attributes();
        if !attributes.is_empty() {
            let attributes = attributes.iter().map(|(key, value)| (*key, value.as_ref()));
            row.repeated(&self.0.written, attributes);
        }
    }
}

impl<T> From<T> for Kept<T> {
    fn from(value: T) -> Self {
        Self { value, written: Written::default() }
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value.into()))
    }
}

impl<T: Clone> Clone for Kept<T> {
    fn clone(&self) -> Self {
        self.value.clone().into()
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        let kept = Arc::make_mut(&mut self.0);
        kept.written = Written::default();
        &mut kept.value
    }
}

/// What a request says.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The span's name.
    pub(crate) operation: String,
    /// The span's attributes.
    pub(crate) attributes: Attributes,
    /// Trace headers.
    pub(crate) headers: TraceHeaders,
    /// For the protocol's own use.
    pub(crate) tag: Tag,
    /// What pairs it with its response, where responses may come in another
    /// order: the protocol's own number.
    pub(crate) stream: u64,
    /// What passes.
    pub(crate) manner: Manner,
    /// Makes a span only if it fails.
    pub(crate) silent: bool,
}

impl Request {
    /// A request with this operation and nothing more known.
    pub(crate) fn new(operation: impl Into<String>) -> Self {
        Self {
            operation: operation.into(),
            attributes: Attributes::new(),
            headers: TraceHeaders::default(),
            tag: Tag::Plain,
            stream: 0,
            manner: Manner::Call,
            silent: false,
        }
    }

    /// Bytes of text that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.operation.len() + self.headers.held_bytes() + attributes_bytes(&self.attributes)
    }
}

/// Why an exchange failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `error.type`.
    pub(crate) kind: String,
    /// For people.
    pub(crate) message: String,
}

impl Failure {
    /// A failure whose kind says it all.
    pub(crate) fn plain(kind: &str) -> Self {
        Self { kind: kind.to_owned(), message: kind.to_owned() }
    }
}

/// What a response says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    /// The protocol's own number.
    pub(crate) status_code: Option<i32>,
    /// Set where it says that the request failed.
    pub(crate) failure: Option<Failure>,
    /// The span's further attributes.
    pub(crate) attributes: Attributes,
    /// X-Request-ID of the response.
    pub(crate) request_id: Option<String>,
}

impl Tells for Request {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

impl Tells for Answer {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

impl Answer {
    /// Whether nothing is known of it.
    pub(crate) fn says_nothing(&self) -> bool {
        let Self { status_code, failure, attributes, request_id } = self;
        status_code.is_none() && failure.is_none() && attributes.is_empty() && request_id.is_none()
    }
}

impl Default for Shared<Answer> {
    /// That of all requests until they get one.
    fn default() -> Self {
        static NONE: LazyLock<Shared<Answer>> = LazyLock::new(|| Answer::default().into());
        NONE.clone()
    }
}

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Unique in the tracer.
    pub(crate) id: u64,
    /// First byte of the request.
    pub(crate) request_start: Mark,
    /// Last byte of its head.
    pub(crate) head_end: Mark,
    /// Past its last byte so far.
    pub(crate) request_end: Mark,
    /// First byte of the final response.
    pub(crate) response_start: Option<Mark>,
    /// Past its last byte so far.
    pub(crate) response_end: Option<Mark>,
    /// What the request says.
    pub(crate) request: Shared<Request>,
    /// What the response says.
    pub(crate) answer: Shared<Answer>,
    /// Whether the traced process serves it.
    pub(crate) serving: bool,
    /// Its place in the process.
    pub(crate) fragment: Fragment,
    /// The process as it was when the request passed.
    pub(crate) process: Arc<Process>,
    /// Whether it is the connection's first.
    pub(crate) first: bool,
    /// How it was encrypted on its way, if it was.
    pub(crate) encryption: Option<Arc<Encryption>>,
    /// The protocol that both spoke.
    pub(crate) protocol: &'static str,
    /// The other end, where the socket has no fixed one.
    pub(crate) other: Option<Endpoint>,
    /// Bytes of the request and of the response, where they were counted one
    /// frame after the other.
    pub(crate) counted: Option<[u64; 2]>,
    /// It is what passed on a connection that is only seen from outside, or on part of one:
    /// who asked and who answered is not known.
    pub(crate) outside: bool,
    /// Of an ambiguous call, the fragment that it is of if turns can be trusted.
    turn: Option<u64>,
    /// Its response may have passed unseen.
    doubtful: bool,
    /// It ends with the connection, if nothing ends it before.
    lasts: bool,
    /// Bytes that it holds.
    weight: usize,
    /// Its span was made; it only keeps its place in the order.
    spent: bool,
}

/// The exchanges of one connection.
#[derive(Debug)]
pub(crate) struct Exchanges {
    connection: u64,
    /// Who connected, until a request was sent.
    opener: Option<Caller>,
    serving: bool,
    encryption: Option<Arc<Encryption>>,
    protocol: &'static str,
    open: VecDeque<Exchange>,
    /// The exchange whose request is still passing.
    uploading: Option<u64>,
    /// Where the connection left what was spoken.
    left: Option<Mark>,
    /// Several requests have been open at once.
    pipelined: bool,
    /// Of requests that were sent before, an unknown number is still to be answered.
    unsure: bool,
    /// No request but those of the connection's opening has been seen.
    fresh: bool,
    held_bytes: usize,
    /// Tasks of streams that were not seen yet.
    owners: VecDeque<Task>,
}

fn attributes_bytes(attributes: &Attributes) -> usize {
    attributes
        .iter()
        .map(|attribute| {
            let text = attribute.1.as_str().map_or(0, str::len);
            size_of_val(attribute) + text
        })
        .sum()
}

fn held_bytes(exchange: &Exchange) -> usize {
    size_of::<Exchange>()
        + exchange.request.held_bytes()
        + attributes_bytes(&exchange.answer.attributes)
}

impl Exchanges {
    /// No exchanges yet, on a connection that `opener` has made, if it was this process.
    pub(crate) const fn new(connection: u64, opener: Option<Caller>) -> Self {
        Self {
            connection,
            opener,
            serving: false,
            encryption: None,
            protocol: "",
            open: VecDeque::new(),
            uploading: None,
            left: None,
            pipelined: false,
            unsure: false,
            fresh: true,
            held_bytes: 0,
            owners: VecDeque::new(),
        }
    }

    /// What is read was encrypted on its way.
    pub(crate) fn decrypted(&mut self, encryption: Encryption) {
        self.encryption = Some(Arc::new(encryption));
    }

    /// How what is read was encrypted on its way, if it was.
    pub(crate) fn encryption(&self) -> Option<Arc<Encryption>> {
        self.encryption.clone()
    }

    /// Whether the traced process answers.
    pub(crate) const fn serving(&self) -> bool {
        self.serving
    }

    /// Says what is spoken and whether the traced process answers, once that is
    /// known.
    pub(crate) const fn recognised(&mut self, protocol: &'static str, serving: bool) {
        self.protocol = protocol;
        self.serving = serving;
    }

    /// The connection speaks something else from `at` on, a place in the input
    /// being read. Said before [`crate::protocols::Outcome::Switched`] or
    /// `Encrypted` is returned; where it is not, the next system call is the first
    /// of it, or a greeting of TLS in this one.
    pub(crate) const fn leave(&mut self, at: Mark) {
        self.left = Some(at);
    }

    /// What [`Self::leave`] was told last.
    pub(crate) const fn take_left(&mut self) -> Option<Mark> {
        self.left.take()
    }

    /// Bytes that the open exchanges hold.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether no request waits for its response or for the rest of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The calls of which some of the answer was read at this time and more is to come. Of
    /// those that are answered in their order that is the oldest.
    pub(crate) fn read_at(&self, time_nano: u64) -> impl Iterator<Item = &Exchange> {
        let by_stream = self.open.front().is_some_and(|oldest| oldest.request.stream != 0);
        let most = if by_stream { self.open.len() } else { 1 };
        self.open.iter().take(most).filter(move |exchange| exchange.was_read_at(time_nano))
    }

    /// When the oldest open request began.
    pub(crate) fn oldest_nano(&self) -> Option<u64> {
        let waiting = self.open.iter().filter(|exchange| !exchange.spent);
        waiting.map(|exchange| exchange.request_start.time_nano).min()
    }

    /// A request whose head is complete: `head_end` is past its last byte, or
    /// past what could be read of it.
    pub(crate) fn open(
        &mut self,
        request_start: Mark,
        head_end: Mark,
        request: impl Into<Shared<Request>>,
        desk: &mut Desk<'_>,
    ) {
        let request = request.into();
        if self.unsure {
            desk.counters.requests_lost += u64::from(!request.silent);
            self.uploading = None;
            return;
        }
        self.pipelined |= self.open.iter().any(|exchange| !exchange.spent);
        if self.open.len() >= MAX_OPEN || self.held_bytes > MAX_HELD_BYTES {
            desk.counters.requests_over_limit += 1;
            self.abandon(desk);
            if request.stream == 0 {
                // Those that were given up will still be answered, and first: until
                // a silence there are no pairs.
                self.unsure = true;
                return;
            }
        }
        let process = desk.processes.describe(head_end.process);
        if !desk.context.knows(head_end.process) {
            desk.context.introduce(head_end.process, &process.runtime);
        }
        *desk.exchanges += 1;
        let id = *desk.exchanges;
        let serving = self.serving != (request.manner == Manner::Deliver);
        let owner = self.take_owner(request.stream);
        let opener = self.opener.take();
        let fragment = if serving {
            let (reader, stream) = (head_end.into(), request.stream);
            let fragment = desk.context.request_read(reader, self.connection, stream, id);
            if let Some(owner) = owner {
                desk.context.request_handed(head_end.into(), id, owner.task);
            }
            fragment
        } else if owner.is_none() && request.stream != 0 {
            let call = Call::New(sort_of(self.protocol, &request.operation));
            desk.context.call_made_among_others(request_start.into(), opener, call)
        } else {
            let call = Call::New(sort_of(self.protocol, &request.operation));
            desk.context.call_made(sender(request_start, owner.as_ref()), opener, call)
        };
        if !serving && !request.silent {
            desk.context.answer_awaited(request_start.into(), self.connection);
        }
        let turn = match fragment {
            Fragment::Ambiguous { .. } => desk.context.turn_of(request_start.into(), opener),
            _ => None,
        };
        let first = self.fresh && !request.silent;
        self.fresh &= !first;
        let mut exchange = Exchange {
            id,
            request_start,
            head_end,
            request_end: head_end,
            response_start: None,
            response_end: None,
            request,
            answer: Shared::default(),
            serving,
            fragment,
            turn,
            process,
            first,
            encryption: self.encryption.clone(),
            protocol: self.protocol,
            other: None,
            counted: None,
            outside: false,
            doubtful: false,
            lasts: false,
            weight: 0,
            spent: false,
        };
        exchange.weight = held_bytes(&exchange);
        self.held_bytes += exchange.weight;
        self.uploading = Some(id);
        self.open.push_back(exchange);
    }

    /// A task works on one of the streams: it has sent the request, or handles it. Whose
    /// request is not seen yet is kept for it.
    pub(crate) fn owned(&mut self, task: &Task, desk: &mut Desk<'_>) {
        let open = self.open.iter_mut().rev();
        let mut open = open.filter(|exchange| !exchange.spent);
        let Some(exchange) = open.find(|exchange| exchange.request.stream == task.stream) else {
            if self.serving {
                desk.context.unseen_handed(task.process, task.task);
            }
            if self.owners.len() >= MAX_OWNERS {
                self.owners.pop_front();
            }
            self.owners.push_back(*task);
            return;
        };
        if exchange.serving {
            desk.context.request_handed(exchange.head_end.into(), exchange.id, task.task);
            return;
        }
        let sender = sender(exchange.request_start, Some(task));
        let call = Call::Again(sort_of(self.protocol, &exchange.request.operation));
        exchange.fragment = desk.context.call_made(sender, None, call);
    }

    fn take_owner(&mut self, stream: u64) -> Option<Task> {
        // Streams are opened in the order of their numbers (RFC 9113, section 5.1.1): what
        // comes before was not seen.
        while self.owners.front().is_some_and(|owner| owner.stream < stream) {
            self.owners.pop_front();
        }
        let at = self.owners.iter().position(|owner| owner.stream == stream)?;
        self.owners.remove(at)
    }

    /// A message that nobody answers, all of it: it makes a span by itself.
    pub(crate) fn tell(&mut self, start: Mark, end: Mark, request: Request, desk: &mut Desk<'_>) {
        self.tell_failed(start, end, request, None, desk);
    }

    /// As [`Self::tell`]; where there is a failure, the message says so itself.
    pub(crate) fn tell_failed(
        &mut self,
        start: Mark,
        end: Mark,
        request: Request,
        failure: Option<Failure>,
        desk: &mut Desk<'_>,
    ) {
        self.open(start, end, request, desk);
        self.uploading = None;
        if let Some(mut exchange) = self.open.pop_back() {
            exchange.answer.failure = failure;
            self.finish(exchange, false, desk);
        }
    }

    /// The request that is still passing needs no answer after all; `false` where
    /// it has had one, or part of one.
    pub(crate) fn end_unanswered(&mut self, desk: &mut Desk<'_>) -> bool {
        let found = self.open.iter().position(|exchange| Some(exchange.id) == self.uploading);
        let found = found.filter(|at| self.open[*at].response_start.is_none());
        let Some(exchange) = found.and_then(|at| self.open.remove(at)) else { return false };
        self.uploading = None;
        self.finish(exchange, false, desk);
        true
    }

    /// From here on, more of this stream's request passes; `false` where it is
    /// not open.
    pub(crate) fn continue_request(&mut self, stream: u64) -> bool {
        let exchange = self.open.iter().rev().find(|exchange| exchange.request.stream == stream);
        self.uploading = exchange.map(|exchange| exchange.id);
        self.uploading.is_some()
    }

    /// From here on, what is said of a response is said of the one to this
    /// stream's request; `false` where it is not open.
    pub(crate) fn answer(&mut self, stream: u64) -> bool {
        let found = self.open.iter().position(|exchange| exchange.request.stream == stream);
        // Where streams tell what belongs together, order does not.
        found.inspect(|at| self.open.swap(0, *at)).is_some()
    }

    /// The oldest request of this kind that waits for the rest of its answer.
    pub(crate) fn find(&mut self, matches: impl Fn(&Exchange) -> bool) -> Option<&mut Exchange> {
        self.open.iter_mut().find(|exchange| !exchange.spent && matches(exchange))
    }

    /// As [`Self::answer`], for the oldest request whose stream matches: one
    /// answer may be several requests'. The others keep their order.
    pub(crate) fn answer_where(&mut self, matches: impl Fn(u64) -> bool) -> bool {
        let found = self.open.iter().position(|exchange| matches(exchange.request.stream));
        if let Some(exchange) = found.filter(|at| *at > 0).and_then(|at| self.open.remove(at)) {
            self.open.push_front(exchange);
        }
        found.is_some()
    }

    /// The request that is still passing, while it has no complete response.
    pub(crate) fn uploading(&mut self) -> Option<&mut Exchange> {
        let id = self.uploading?;
        // Nearly always the last one.
        self.open.iter_mut().rev().find(|exchange| exchange.id == id && !exchange.spent)
    }

    /// Changes what that request says.
    pub(crate) fn change_request(&mut self, change: impl FnOnce(&mut Request)) {
        self.change(|request| change(request));
    }

    /// That request says this, and nothing else that was said of it before.
    pub(crate) fn say(&mut self, said: Shared<Request>) {
        self.change(|request| *request = said);
    }

    fn change(&mut self, change: impl FnOnce(&mut Shared<Request>)) {
        if let Some(exchange) = self.uploading() {
            change(&mut exchange.request);
            let before = std::mem::replace(&mut exchange.weight, 0);
            exchange.weight = held_bytes(exchange);
            let after = exchange.weight;
            self.held_bytes = self.held_bytes + after - before;
        }
    }

    /// More of that request has passed, up to `end`.
    pub(crate) fn request_reached(&mut self, end: Mark) {
        if let Some(exchange) = self.uploading() {
            exchange.request_end = end;
        }
    }

    /// A frame of that request has passed, up to `end`. Others' frames may lie
    /// between two of one request.
    pub(crate) fn request_frame(&mut self, end: Mark, bytes: u64) {
        if let Some(exchange) = self.uploading() {
            exchange.request_end = end;
            exchange.counted.get_or_insert_default()[0] += bytes;
        }
    }

    /// The request that the answering side is answering, or will next.
    pub(crate) fn answering(&mut self) -> Option<&mut Exchange> {
        self.open.front_mut()
    }

    /// The first byte of its final response; `false` where no request is open.
    pub(crate) fn begin_response(&mut self, start: Mark) -> bool {
        let Some(exchange) = self.open.front_mut() else { return false };
        exchange.response_start.get_or_insert(start);
        true
    }

    /// More of its response has passed, up to `end`.
    pub(crate) fn response_reached(&mut self, end: Mark) {
        if let Some(exchange) = self.open.front_mut()
            && exchange.response_start.is_some()
        {
            exchange.response_end = Some(end);
        }
    }

    /// A frame of its response has passed, as [`Self::request_frame`].
    pub(crate) fn response_frame(&mut self, end: Mark, bytes: u64) {
        if let Some(exchange) = self.open.front_mut()
            && exchange.response_start.is_some()
        {
            exchange.response_end = Some(end);
            let asked = exchange.request_end.offset - exchange.request_start.offset;
            exchange.counted.get_or_insert([asked, 0])[1] += bytes;
        }
    }

    /// Bytes of the answering side were not seen, and responses may have been
    /// among them: a request that gets none has not failed for that.
    pub(crate) fn doubt(&mut self) {
        for exchange in &mut self.open {
            exchange.doubtful |= exchange.response_start.is_none();
        }
    }

    /// The newest exchange lasts as long as the connection may: nothing that the
    /// process does meanwhile is taken to be done for it.
    pub(crate) fn detach(&mut self, desk: &mut Desk<'_>) {
        if let Some(exchange) = self.open.back_mut() {
            exchange.lasts = true;
            leave_context(exchange, false, desk);
        }
    }

    /// The end of the response cannot be seen in the bytes.
    pub(crate) fn weaken(&mut self, desk: &mut Desk<'_>) {
        if let Some(exchange) = self.open.front()
            && exchange.serving
        {
            desk.context.weaken(exchange.head_end.into(), exchange.id);
        }
    }

    /// The response is complete, up to what [`Self::response_reached`] was told.
    pub(crate) fn end_response(&mut self, desk: &mut Desk<'_>) {
        if self.open.front().is_some_and(|exchange| exchange.response_start.is_some()) {
            self.finish_oldest(true, desk);
        }
    }

    /// The exchange is over at this time, without the rest of its response.
    pub(crate) fn break_off(&mut self, at: Mark, desk: &mut Desk<'_>) {
        if let Some(exchange) = self.open.front_mut() {
            let after = exchange.response_end.unwrap_or(exchange.request_end);
            let Mark { time_nano, retransmits, .. } = at;
            exchange.response_end = Some(Mark { time_nano, retransmits, ..after });
            self.finish_oldest(false, desk);
        }
    }

    /// The response, whose borders were lost, is over. Responses to the requests
    /// after it may have been among the bytes, so those are given up. A request
    /// that came after the response was ended is none of them.
    pub(crate) fn end_lost_response(&mut self, desk: &mut Desk<'_>) {
        if self.open.front().is_none_or(|oldest| oldest.response_start.is_none()) {
            return;
        }
        self.end_response(desk);
        self.abandon(desk);
    }

    fn finish_oldest(&mut self, complete: bool, desk: &mut Desk<'_>) {
        if let Some(exchange) = self.open.pop_front() {
            self.finish(exchange, complete, desk);
        }
    }

    fn finish(&mut self, exchange: Exchange, complete: bool, desk: &mut Desk<'_>) {
        if exchange.spent {
            return;
        }
        self.held_bytes -= exchange.weight;
        leave_context(&exchange, complete, desk);
        if !exchange.request.silent || exchange.answer.failure.is_some() {
            desk.finished.push(exchange);
        }
    }

    /// Gives up all open requests: nobody can tell any more which response is
    /// whose. They make no spans.
    pub(crate) fn abandon(&mut self, desk: &mut Desk<'_>) {
        while let Some(exchange) = self.open.pop_front() {
            if !exchange.spent {
                desk.counters.requests_lost += u64::from(!exchange.request.silent);
                leave_context(&exchange, false, desk);
            }
        }
        self.held_bytes = 0;
        self.uploading = None;
    }

    /// Whole messages may have passed unseen where answers keep the order of their
    /// requests. Where requests do not wait for answers, those that come now are
    /// answers to any: until a silence there are no pairs.
    pub(crate) fn order_lost(&mut self, desk: &mut Desk<'_>) {
        if self.pipelined {
            self.abandon(desk);
            self.unsure = true;
        }
    }

    /// Whether answers to requests that are not known may still come.
    pub(crate) const fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// Nothing has passed for a while: what was asked is answered.
    pub(crate) const fn settle(&mut self) {
        self.unsure = false;
    }

    /// As [`Self::abandon`], of the requests whose stream matches: where both
    /// sides ask, the answers of one may be known still.
    pub(crate) fn abandon_where(&mut self, matches: impl Fn(u64) -> bool, desk: &mut Desk<'_>) {
        for exchange in std::mem::take(&mut self.open) {
            if !matches(exchange.request.stream) {
                self.open.push_back(exchange);
            } else if !exchange.spent {
                desk.counters.requests_lost += u64::from(!exchange.request.silent);
                self.held_bytes -= exchange.weight;
                leave_context(&exchange, false, desk);
            }
        }
    }

    /// The connection has closed: what is open has failed.
    pub(crate) fn closed(&mut self, end: Mark, reset: bool, desk: &mut Desk<'_>) {
        while let Some(exchange) = self.open.front_mut() {
            if exchange.doubtful && exchange.response_start.is_none() {
                exchange.request.silent = true;
                desk.counters.requests_lost += u64::from(!exchange.spent);
            }
            let kind = match (exchange.response_start, reset) {
                (Some(_), _) => "incomplete_response",
                (None, true) => "connection_reset",
                (None, false) => "no_response",
            };
            // A server that says why it hangs up has answered. A process that goes
            // away in the middle of opening a connection has done nothing worth
            // a span.
            let lasted = exchange.lasts;
            if lasted || (exchange.answer.failure.is_none() && !exchange.request.silent) {
                if !lasted {
                    exchange.answer.failure = Some(Failure::plain(kind));
                }
                let after = exchange.response_end.unwrap_or(exchange.request_end);
                let retransmits = end.retransmits;
                exchange.response_end =
                    Some(Mark { time_nano: end.time_nano, retransmits, ..after });
            }
            self.finish_oldest(false, desk);
        }
    }

    /// Makes failed spans of requests that began before `before_nano` and have
    /// no response yet. They keep their places, for the response may still
    /// come.
    pub(crate) fn time_out(&mut self, before_nano: u64, now_nano: u64, desk: &mut Desk<'_>) {
        for index in 0..self.open.len() {
            let exchange = &mut self.open[index];
            let waits = exchange.request_start.time_nano < before_nano;
            if !waits || exchange.spent || exchange.response_start.is_some() {
                continue;
            }
            let spent = exchange.placeholder();
            let mut exchange = std::mem::replace(&mut self.open[index], spent);
            if exchange.doubtful {
                exchange.request.silent = true;
                desk.counters.requests_lost += 1;
            } else {
                desk.counters.requests_timed_out += 1;
            }
            exchange.answer.failure = Some(Failure::plain("timeout_no_response"));
            exchange.response_end = Some(Mark { time_nano: now_nano, ..exchange.request_end });
            self.held_bytes -= exchange.weight;
            leave_context(&exchange, false, desk);
            if !exchange.request.silent {
                desk.finished.push(exchange);
            }
        }
    }
}

/// What calls of one operation have in common.
fn sort_of(protocol: &str, operation: &str) -> u64 {
    let mut hasher = AHasher::default();
    (protocol, operation).hash(&mut hasher);
    hasher.finish()
}

/// Who sends a request: the task to which its stream belongs, else who wrote it.
fn sender(start: Mark, owner: Option<&Task>) -> Caller {
    let caller = Caller::from(start);
    owner.map_or(caller, |owner| Caller {
        task: owner.task,
        parent_task: owner.parent_task,
        ..caller
    })
}

fn leave_context(exchange: &Exchange, complete: bool, desk: &mut Desk<'_>) {
    if !exchange.serving {
        return;
    }
    let handled = match (exchange.response_start, exchange.response_end) {
        (Some(first), Some(last)) if complete => {
            Some(Handled { first_writer: first.into(), last_thread: last.thread })
        }
        _ => None,
    };
    if let Some(task) = exchange.response_start.map(|mark| mark.task).filter(|task| *task != 0) {
        desk.context.answered_by(exchange.head_end.process, exchange.id, task);
    }
    let end_nano = exchange.response_end.unwrap_or(exchange.request_end).time_nano;
    desk.context.request_over(exchange.head_end.into(), exchange.id, end_nano, handled);
}

impl Exchange {
    /// Whether it is a call, and some of its answer was read at this time.
    pub(crate) fn was_read_at(&self, time_nano: u64) -> bool {
        let at = |mark: Option<Mark>| mark.is_some_and(|mark| mark.time_nano == time_nano);
        !self.serving && (at(self.response_end) || at(self.response_start))
    }

    /// Bytes that it holds, with itself.
    pub(crate) fn weight(&self) -> usize {
        self.weight.max(size_of::<Self>())
    }

    /// The fragment of the request that it was made for, as far as turns tell.
    pub(crate) const fn made_for(&self) -> Option<u64> {
        match self.fragment {
            Fragment::Within { fragment, .. } => Some(fragment),
            _ => self.turn,
        }
    }

    /// What passed on a connection that is only seen from outside: its two
    /// ways, each with its first byte and past its last.
    #[expect(clippy::too_many_arguments, reason = "one caller, and all of it is needed")]
    pub(crate) fn outside(
        id: u64,
        request: Request,
        answer: Answer,
        [request_start, request_end]: [Mark; 2],
        (response_start, response_end): (Option<Mark>, Mark),
        serving: bool,
        fragment: Fragment,
        process: Arc<Process>,
        first: bool,
        protocol: &'static str,
    ) -> Self {
        Self {
            id,
            request_start,
            head_end: request_start,
            request_end,
            response_start,
            response_end: Some(response_end),
            request: request.into(),
            answer: answer.into(),
            serving,
            fragment,
            turn: None,
            process,
            first,
            encryption: None,
            protocol,
            other: None,
            counted: None,
            outside: true,
            doubtful: false,
            lasts: false,
            weight: 0,
            spent: false,
        }
    }

    /// What keeps the place of an exchange whose span is made.
    fn placeholder(&self) -> Self {
        Self {
            request: Request {
                tag: self.request.tag,
                stream: self.request.stream,
                ..Request::new(String::new())
            }
            .into(),
            answer: Shared::default(),
            process: Arc::clone(&self.process),
            encryption: None,
            weight: 0,
            spent: true,
            ..*self
        }
    }
}
