//! Responses that are reported before their requests. A request is reported when the call that sent
//! it returns; by then another thread may have read the response. If the responding side may also
//! send without a request, its messages cannot be held back. The responses are therefore remembered
//! for a while.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::bytes::Mark;
use crate::sessions::{Conversation, Failure};

/// Maximum responses remembered; the oldest are dropped.
const MAX_ANSWERS: usize = 32;
/// Maximum bytes remembered of a failure's text.
const MAX_REASON_BYTES: usize = 512;

/// A response without a known request.
#[derive(Debug)]
struct Answer {
    /// Streams that the response answers.
    streams: RangeInclusive<u64>,
    start: Mark,
    end: Mark,
    failure: Option<Failure>,
    status_code: Option<i32>,
}

/// Responses of one connection without a known request.
#[derive(Debug, Default)]
pub(crate) struct Early {
    answers: VecDeque<Answer>,
}

impl Early {
    /// Remembers a response to these streams.
    pub(crate) fn keep(
        &mut self,
        streams: RangeInclusive<u64>,
        (start, end): (Mark, Mark),
        failure: Option<Failure>,
        status_code: Option<i32>,
    ) {
        if failure.as_ref().is_some_and(|failure| failure.message.len() > MAX_REASON_BYTES) {
            return;
        }
        if self.answers.len() >= MAX_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back(Answer { streams, start, end, failure, status_code });
    }

    /// A request was seen on this stream. Ends it if its response came earlier.
    pub(crate) fn settle(&mut self, stream: u64, conversation: &mut Conversation<'_>) {
        if self.answers.is_empty() {
            return;
        }
        let asked = conversation.find(|exchange| exchange.request.stream == stream);
        let Some(asked) = asked.map(|exchange| exchange.request_start.time_nano) else { return };
        // A response that was sent before this request belongs to an earlier request.
        let answers =
            |answer: &Answer| answer.streams.contains(&stream) && answer.start.time_nano >= asked;
        let Some(at) = self.answers.iter().position(answers) else { return };
        if !conversation.answer_where(|found| found == stream) {
            return;
        }
        let answer = &self.answers[at];
        conversation.begin_response(answer.start);
        conversation.response_reached(answer.end);
        if let Some(exchange) = conversation.answering() {
            exchange.answer.failure.clone_from(&answer.failure);
            exchange.answer.status_code = answer.status_code;
        }
        conversation.end_response();
        if answer.streams.start() == answer.streams.end() {
            self.answers.remove(at);
        }
    }

    pub(crate) fn held_bytes(&self) -> usize {
        let text = |answer: &Answer| {
            answer.failure.as_ref().map_or(0, |failure| failure.kind.len() + failure.message.len())
        };
        self.answers.iter().map(|answer| size_of::<Answer>() + text(answer)).sum()
    }
}
