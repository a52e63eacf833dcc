//! Requests: opening them, continuing them, and finding the sender.

use std::hash::{Hash as _, Hasher as _};

use ahash::AHasher;

use super::{Conversation, Exchange, Exchanges, Failure, Manner, Request, Shared, StreamOwner};
use crate::attribution::{Call, Caller, Fragment};
use crate::bytes::Mark;

/// Maximum open requests per connection; further requests make no spans.
const MAX_OPEN: usize = 4096;

/// Maximum streams per connection whose tasks are known before the streams are seen.
const MAX_OWNERS: usize = 2048;

/// Maximum bytes that the open requests of a connection may hold.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Whether a request gets a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    Later,
    Never,
}

impl Exchanges {
    fn take_owner(&mut self, stream: u64) -> Option<StreamOwner> {
        // Streams are opened in numerical order (RFC 9113, section 5.1.1), so lower streams were
        // not seen.
        while self.owners.front().is_some_and(|owner| owner.stream < stream) {
            self.owners.pop_front();
        }
        let at = self.owners.iter().position(|owner| owner.stream == stream)?;
        self.owners.remove(at)
    }

    /// Continues the request of this stream. Returns `false` if that request is not open.
    pub fn continue_request(&mut self, stream: u64) -> bool {
        let exchange = self.open.iter().rev().find(|exchange| exchange.request.stream == stream);
        self.uploading = exchange.map(|exchange| exchange.id);
        self.uploading.is_some()
    }

    /// The request that is being sent, while it has no complete response.
    pub fn uploading(&mut self) -> Option<&mut Exchange> {
        let id = self.uploading?;
        // This is nearly always the last exchange.
        self.open.iter_mut().rev().find(|exchange| exchange.id == id && !exchange.spent)
    }

    /// Changes the content of the request that is being sent.
    pub fn change_request(&mut self, change: impl FnOnce(&mut Request)) {
        self.change(|request| change(request));
    }

    /// Replaces the content of the request that is being sent.
    pub fn say(&mut self, said: Shared<Request>) {
        self.change(|request| *request = said);
    }

    fn change(&mut self, change: impl FnOnce(&mut Shared<Request>)) {
        if let Some(exchange) = self.uploading() {
            change(&mut exchange.request);
            let before = std::mem::replace(&mut exchange.weight, 0);
            exchange.weight = exchange.held_bytes();
            let after = exchange.weight;
            self.held_bytes = self.held_bytes + after - before;
        }
    }

    /// The request that is being sent has passed up to `end`.
    pub fn request_reached(&mut self, end: Mark) {
        if let Some(exchange) = self.uploading() {
            exchange.request_end = end;
        }
    }

    /// A frame of the request that is being sent has passed, up to `end`. Frames of other requests
    /// may lie between two frames of one request.
    pub fn request_frame(&mut self, end: Mark, bytes: u64) {
        if let Some(exchange) = self.uploading() {
            exchange.request_end = end;
            exchange.counted.get_or_insert_default()[0] += bytes;
        }
    }
}

impl Conversation<'_> {
    /// Opens a request whose head is complete. `head_end` is the end of the head, or of the part
    /// that could be read.
    pub fn open(
        &mut self,
        request_start: Mark,
        head_end: Mark,
        request: impl Into<Shared<Request>>,
    ) {
        self.begin(request_start, head_end, request.into(), Answered::Later);
    }

    fn begin(
        &mut self,
        request_start: Mark,
        head_end: Mark,
        request: Shared<Request>,
        answer: Answered,
    ) {
        if self.unsure {
            self.counters.requests_lost += u64::from(!request.silent);
            self.uploading = None;
            return;
        }
        self.pipelined |= self.open.iter().any(|exchange| !exchange.spent);
        if self.open.len() >= MAX_OPEN || self.held_bytes > MAX_HELD_BYTES {
            self.counters.requests_over_limit += 1;
            self.abandon();
            if request.stream == 0 {
                // Responses to the abandoned requests will arrive first, so responses are not
                // paired until the connection has been silent.
                self.unsure = true;
                return;
            }
        }
        let process = self.attribution.process(head_end.process);
        let id = self.finished.next_id();
        let serving = self.serving != (request.manner == Manner::Deliver);
        let owner = self.take_owner(request.stream);
        let opener = self.opener.take();
        let sort = sort_of(self.protocol, &request.operation);
        let fragment = if serving {
            let (reader, stream) = (head_end.into(), request.stream);
            let fragment = self.attribution.request_read(reader, self.connection, stream, id, sort);
            if let Some(owner) = owner {
                self.attribution.request_handed(head_end.into(), id, owner.task);
            }
            fragment
        } else if owner.is_none() && request.stream != 0 {
            let call = Call::New(sort);
            self.attribution.call_made_among_others(request_start.into(), opener, call)
        } else {
            let call = Call::New(sort);
            self.attribution.call_made(sender(request_start, owner.as_ref()), opener, call)
        };
        let turn = match fragment {
            Fragment::Ambiguous { .. } => self.attribution.turn_of(request_start.into(), opener),
            _ => None,
        };
        if !serving && !request.silent && answer == Answered::Later {
            self.attribution.answer_awaited(request_start.into(), self.connection, fragment, turn);
        }
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
        exchange.weight = exchange.held_bytes();
        self.held_bytes += exchange.weight;
        self.uploading = Some(id);
        self.open.push_back(exchange);
    }

    /// Assigns a stream to the task that sent its request or handles it. If the request was not
    /// seen yet, the assignment is kept until then.
    pub fn owned(&mut self, task: &StreamOwner) {
        let Exchanges { open, owners, serving, protocol, .. } = &mut *self.exchanges;
        let open = open.iter_mut().rev();
        let mut open = open.filter(|exchange| !exchange.spent);
        let Some(exchange) = open.find(|exchange| exchange.request.stream == task.stream) else {
            if *serving {
                self.attribution.unseen_handed(task.process, task.task);
            }
            if owners.len() >= MAX_OWNERS {
                owners.pop_front();
            }
            owners.push_back(*task);
            return;
        };
        if exchange.serving {
            self.attribution.request_handed(exchange.head_end.into(), exchange.id, task.task);
            return;
        }
        let sender = sender(exchange.request_start, Some(task));
        let call = Call::Again(sort_of(protocol, &exchange.request.operation));
        exchange.fragment = self.attribution.call_made(sender, None, call);
    }

    /// Records a complete message without a response. It makes a span of its own.
    pub fn tell(&mut self, start: Mark, end: Mark, request: Request) {
        self.tell_failed(start, end, request, None);
    }

    /// Like [`Self::tell`], with a failure that the message itself reports.
    pub fn tell_failed(
        &mut self,
        start: Mark,
        end: Mark,
        request: Request,
        failure: Option<Failure>,
    ) {
        self.begin(start, end, request.into(), Answered::Never);
        self.uploading = None;
        if let Some(mut exchange) = self.open.pop_back() {
            exchange.answer.failure = failure;
            self.finish(exchange, false);
        }
    }

    /// Ends the request that is being sent without a response. Returns `false` if it already has a
    /// response or a part of one.
    pub fn end_unanswered(&mut self) -> bool {
        let found = self.open.iter().position(|exchange| Some(exchange.id) == self.uploading);
        let found = found.filter(|at| self.open[*at].response_start.is_none());
        let Some(exchange) = found.and_then(|at| self.open.remove(at)) else { return false };
        self.uploading = None;
        self.finish(exchange, false);
        true
    }
}

/// A hash that all calls of one operation share.
pub(super) fn sort_of(protocol: &str, operation: &str) -> u64 {
    let mut hasher = AHasher::default();
    (protocol, operation).hash(&mut hasher);
    hasher.finish()
}

/// The sender of a request: the task that owns its stream, otherwise the caller that wrote it.
fn sender(start: Mark, owner: Option<&StreamOwner>) -> Caller {
    let caller = Caller::from(start);
    owner.map_or(caller, |owner| Caller {
        task: owner.task,
        parent_task: owner.parent_task,
        ..caller
    })
}
