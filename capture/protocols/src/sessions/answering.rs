//! Responses: finding their requests and tracking their progress.

use super::{Conversation, Exchange, Exchanges};
use crate::bytes::Mark;

impl Exchanges {
    /// Selects the request of this stream for the response calls that follow. Returns `false` if
    /// that request is not open.
    pub fn answer(&mut self, stream: u64) -> bool {
        let found = self.open.iter().position(|exchange| exchange.request.stream == stream);
        // On connections with streams, the order of exchanges does not matter.
        found.inspect(|at| self.open.swap(0, *at)).is_some()
    }

    /// The oldest matching request whose response is not complete.
    pub fn find(&mut self, matches: impl Fn(&Exchange) -> bool) -> Option<&mut Exchange> {
        self.open.iter_mut().find(|exchange| !exchange.spent && matches(exchange))
    }

    /// Like [`Self::answer`], for the oldest request whose stream matches, because one response may
    /// answer several requests. The other requests keep their order.
    pub fn answer_where(&mut self, matches: impl Fn(u64) -> bool) -> bool {
        let found = self.open.iter().position(|exchange| matches(exchange.request.stream));
        if let Some(exchange) = found.filter(|at| *at > 0).and_then(|at| self.open.remove(at)) {
            self.open.push_front(exchange);
        }
        found.is_some()
    }

    /// The request whose response is being sent, or comes next.
    pub fn answering(&mut self) -> Option<&mut Exchange> {
        self.open.front_mut()
    }

    /// Records the first byte of the final response. Returns `false` if no request is open.
    pub fn begin_response(&mut self, start: Mark) -> bool {
        let Some(exchange) = self.open.front_mut() else { return false };
        exchange.response_start.get_or_insert(start);
        true
    }

    /// The response has passed up to `end`.
    pub fn response_reached(&mut self, end: Mark) {
        if let Some(exchange) = self.open.front_mut()
            && exchange.response_start.is_some()
        {
            exchange.response_end = Some(end);
        }
    }

    /// A frame of the response has passed, like [`Self::request_frame`].
    pub fn response_frame(&mut self, end: Mark, bytes: u64) {
        if let Some(exchange) = self.open.front_mut()
            && exchange.response_start.is_some()
        {
            exchange.response_end = Some(end);
            let asked = exchange.request_end.offset - exchange.request_start.offset;
            exchange.counted.get_or_insert([asked, 0])[1] += bytes;
        }
    }
}

impl Conversation<'_> {
    /// Records the first byte of the final response. Returns `false` if no request is open.
    pub fn begin_response(&mut self, start: Mark) -> bool {
        let begins = self.open.front().filter(|exchange| exchange.response_start.is_none());
        if let Some(exchange) = begins.filter(|exchange| exchange.serving) {
            self.attribution.answer_begun(start.into(), exchange.id);
        }
        self.exchanges.begin_response(start)
    }

    /// Marks the newest exchange as lasting as long as the connection. What the process does in the
    /// meantime is not attributed to it.
    pub fn detach(&mut self) {
        if let Some(exchange) = self.exchanges.open.back_mut() {
            exchange.lasts = true;
            exchange.leave_process(false, self.attribution);
        }
    }

    /// The end of the response cannot be recognised from the bytes.
    pub fn weaken(&mut self) {
        if let Some(exchange) = self.open.front()
            && exchange.serving
        {
            self.attribution.weaken(exchange.head_end.into(), exchange.id);
        }
    }

    /// Completes the response at the end that was last passed to `response_reached`.
    pub fn end_response(&mut self) {
        if self.open.front().is_some_and(|exchange| exchange.response_start.is_some()) {
            self.finish_oldest(true);
        }
    }

    /// Ends the exchange at this time without the rest of its response.
    pub fn break_off(&mut self, at: Mark) {
        if let Some(exchange) = self.open.front_mut() {
            let after = exchange.response_end.unwrap_or(exchange.request_end);
            let Mark { time_nano, retransmits, .. } = at;
            exchange.response_end = Some(Mark { time_nano, retransmits, ..after });
            self.finish_oldest(false);
        }
    }
}
