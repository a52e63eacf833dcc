//! Answers that were reported before their requests were. A request is reported
//! when the call that sent it returns, and by then another thread may have read
//! the answer. Where the answering side also speaks unasked, its messages cannot
//! be held back, so what they answered is remembered for a while.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::bytes::Mark;
use crate::sessions::{Conversation, Failure};

/// Answers that are remembered; the oldest are forgotten.
const MAX_ANSWERS: usize = 32;
/// Longest text of a failure that is remembered.
const MAX_REASON_BYTES: usize = 512;

/// An answer whose request was not there.
#[derive(Debug)]
struct Answer {
    /// The streams that it answers.
    streams: RangeInclusive<u64>,
    start: Mark,
    end: Mark,
    failure: Option<Failure>,
    status_code: Option<i32>,
}

/// The answers of one connection whose requests were not there.
#[derive(Debug, Default)]
pub(crate) struct Early {
    answers: VecDeque<Answer>,
}

impl Early {
    /// Takes note of an answer to these streams.
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

    /// A stream's request has passed: ends it if its answer was there before.
    pub(crate) fn settle(&mut self, stream: u64, conversation: &mut Conversation<'_>) {
        if self.answers.is_empty() {
            return;
        }
        let asked = conversation.find(|exchange| exchange.request.stream == stream);
        let Some(asked) = asked.map(|exchange| exchange.request_start.time_nano) else { return };
        // One that moved before the request did answered a former one.
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
