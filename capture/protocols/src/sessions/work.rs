//! Work on messages that a process has asked a broker for. No answer ends it: the process asks for
//! the next message when it is done.

use super::{Conversation, Exchange, Manner, Request, Shared};
use crate::attribution::Fragment;
use crate::bytes::Mark;

impl Conversation<'_> {
    /// The answer to the call with this fragment has brought a message, in the bytes between these
    /// marks. What the process does from now on is done for it, unless the call itself was made for
    /// a request, or further answers are awaited.
    pub fn begin_work(&mut self, fragment: Fragment, [start, end]: [Mark; 2], request: Request) {
        let is_asked_for = fragment != Fragment::None;
        if self.serving || is_asked_for || !self.exchanges.is_empty() || self.work.is_some() {
            return;
        }
        let process = self.attribution.process(end.process);
        let id = self.finished.next_id();
        let connection = self.connection;
        let sort = super::asking::sort_of(self.protocol, &request.operation);
        let fragment = self.attribution.request_read(end.into(), connection, id, id, sort);
        let request = Request { manner: Manner::Deliver, stream: id, ..request };
        // Nothing at the other end has the same bytes.
        let [start, end] = [start, end].map(|mark| Mark { seq: None, ..mark });
        let exchange = Exchange {
            id,
            request_start: start,
            head_end: end,
            request_end: end,
            response_start: None,
            response_end: None,
            request: request.into(),
            answer: Shared::default(),
            serving: true,
            fragment,
            turn: None,
            process,
            first: false,
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
        self.work = Some(Box::new(exchange));
    }

    /// The process asks for the next message, or the connection was closed.
    pub fn end_work(&mut self, at: Mark) {
        let Some(mut exchange) = self.work.take() else { return };
        // Whoever asks for the next message has worked on this one.
        (exchange.response_start, exchange.response_end) = (Some(at), Some(at));
        exchange.leave_process(true, self.attribution);
        // It is no answer: it has no bytes.
        exchange.response_start = None;
        let retransmits = exchange.request_end.retransmits;
        exchange.response_end =
            Some(Mark { time_nano: at.time_nano, retransmits, ..exchange.request_end });
        self.hand_over(*exchange);
    }

    /// Nothing is known of the connection any more.
    pub(super) fn leave_work(&mut self) {
        if let Some(exchange) = self.work.take() {
            self.counters.requests_lost += 1;
            exchange.leave_process(false, self.attribution);
        }
    }
}
