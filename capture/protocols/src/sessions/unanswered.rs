//! Requests whose responses are missing or cannot be paired with certainty.

use super::{Answer, Conversation, Exchanges, Failure};
use crate::bytes::Mark;

/// Attribute with the value `lost` if the connection's responses could not match its requests.
const PAIRING: &str = "spanwise.pairing";

impl Exchanges {
    /// Bytes of the responding side were missed, and they may have contained responses. A request
    /// without a response has therefore not failed.
    pub fn doubt(&mut self) {
        for exchange in &mut self.open {
            exchange.doubtful |= exchange.response_start.is_none();
        }
    }

    /// Whether responses to unknown requests may still come.
    pub const fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// The connection has been silent for a while: all requests are taken as answered.
    pub const fn settle(&mut self) {
        self.unsure = false;
    }
}

impl Conversation<'_> {
    /// Ends a response whose message boundaries were lost. The missed bytes may have contained
    /// responses to the requests after it, so those requests are abandoned. Requests that came
    /// after the end of the response are kept.
    pub fn end_lost_response(&mut self) {
        if self.open.front().is_none_or(|oldest| oldest.response_start.is_none()) {
            return;
        }
        self.end_response();
        self.abandon();
    }

    /// Abandons all open requests, because responses can no longer be paired with them. They make
    /// no spans.
    pub fn abandon(&mut self) {
        while let Some(exchange) = self.open.pop_front() {
            if !exchange.spent {
                self.counters.requests_lost += u64::from(!exchange.request.silent);
                exchange.leave_process(false, self.attribution);
            }
        }
        self.held_bytes = 0;
        self.uploading = None;
        self.leave_work();
    }

    /// Whole messages may have been missed on a connection whose responses follow request order. If
    /// requests are pipelined, the next responses may answer any of them, so nothing is paired
    /// until the connection has been silent.
    pub fn order_lost(&mut self) {
        if self.pipelined {
            self.abandon();
            self.unsure = true;
        }
    }

    /// The received response cannot belong to the oldest request, so the responses to all open
    /// requests are unknown. Their spans say so.
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

    /// Like [`Self::abandon`], for the requests whose stream matches. If both sides send requests,
    /// the responses of one side may still be known.
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

    /// The connection was closed: open requests have failed.
    pub fn closed(&mut self, end: Mark, reset: bool) {
        self.end_work(end);
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
            // A server that gives a reason for closing has responded. A process that quits while it
            // opens a connection has done nothing worth a span.
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

    /// Makes failed spans of requests that began before `before_nano` and have no response. They
    /// keep their place in the order, because the response may still come.
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
