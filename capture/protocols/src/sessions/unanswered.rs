//! What becomes of requests whose answers do not come, or are not known to be theirs.

use super::{Answer, Conversation, Exchanges, Failure};
use crate::bytes::Mark;

/// `lost` where a connection's answers could not be those of its requests.
const PAIRING: &str = "spanwise.pairing";

impl Exchanges {
    /// Bytes of the answering side were not seen, and responses may have been
    /// among them: a request that gets none has not failed for that.
    pub fn doubt(&mut self) {
        for exchange in &mut self.open {
            exchange.doubtful |= exchange.response_start.is_none();
        }
    }

    /// Whether answers to requests that are not known may still come.
    pub const fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// Nothing has passed for a while: what was asked is answered.
    pub const fn settle(&mut self) {
        self.unsure = false;
    }
}

impl Conversation<'_> {
    /// The response, whose borders were lost, is over. Responses to the requests
    /// after it may have been among the bytes, so those are given up. A request
    /// that came after the response was ended is none of them.
    pub fn end_lost_response(&mut self) {
        if self.open.front().is_none_or(|oldest| oldest.response_start.is_none()) {
            return;
        }
        self.end_response();
        self.abandon();
    }

    /// Gives up all open requests: nobody can tell any more which response is
    /// whose. They make no spans.
    pub fn abandon(&mut self) {
        while let Some(exchange) = self.open.pop_front() {
            if !exchange.spent {
                self.counters.requests_lost += u64::from(!exchange.request.silent);
                exchange.leave_process(false, self.attribution);
            }
        }
        self.held_bytes = 0;
        self.uploading = None;
    }

    /// Whole messages may have passed unseen where answers keep the order of their
    /// requests. Where requests do not wait for answers, those that come now are
    /// answers to any: until a silence there are no pairs.
    pub fn order_lost(&mut self) {
        if self.pipelined {
            self.abandon();
            self.unsure = true;
        }
    }

    /// What came cannot be the answer to the oldest request, so what the open ones were
    /// answered is not known. Their spans say so.
    pub fn lose_step(&mut self) {
        self.counters.out_of_step += 1;
        self.uploading = None;
        while let Some(mut exchange) = self.open.pop_front() {
            let attributes = vec![(PAIRING, "lost".into())];
            exchange.answer = Answer { attributes, unseen: true, ..Answer::default() }.into();
            (exchange.response_start, exchange.response_end) = (None, None);
            self.finish(exchange, false);
        }
    }

    /// As [`Self::abandon`], of the requests whose stream matches: where both
    /// sides ask, the answers of one may be known still.
    pub fn abandon_where(&mut self, matches: impl Fn(u64) -> bool) {
        for exchange in std::mem::take(&mut self.open) {
            if !matches(exchange.request.stream) {
                self.open.push_back(exchange);
            } else if !exchange.spent {
                self.counters.requests_lost += u64::from(!exchange.request.silent);
                self.held_bytes -= exchange.weight;
                exchange.leave_process(false, self.attribution);
            }
        }
    }

    /// The connection has closed: what is open has failed.
    pub fn closed(&mut self, end: Mark, reset: bool) {
        while let Some(exchange) = self.exchanges.open.front_mut() {
            if exchange.doubtful && exchange.response_start.is_none() {
                exchange.request.silent = true;
                self.counters.requests_lost += u64::from(!exchange.spent);
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
            self.finish_oldest(false);
        }
    }

    /// Makes failed spans of requests that began before `before_nano` and have
    /// no response yet. They keep their places, for the response may still
    /// come.
    pub fn time_out(&mut self, before_nano: u64, now_nano: u64) {
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
                self.counters.requests_lost += 1;
            } else {
                self.counters.requests_timed_out += 1;
            }
            exchange.answer.failure = Some(Failure::plain("timeout_no_response"));
            exchange.response_end = Some(Mark { time_nano: now_nano, ..exchange.request_end });
            self.held_bytes -= exchange.weight;
            exchange.leave_process(false, self.attribution);
            if !exchange.request.silent {
                self.hand_over(exchange);
            }
        }
    }
}
