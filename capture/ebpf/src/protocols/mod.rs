//! Protocols: what each parser offers, and how a connection's protocol is told
//! from its first bytes. One file or folder a protocol; `infer` lists them.

mod amqp;
pub(crate) mod dns;
mod dubbo;
mod early;
mod fastcgi;
mod frames;
mod http;
mod http1;
mod http2;
mod infer;
mod kafka;
mod memcached;
mod messaging;
mod mongodb;
mod mqtt;
mod mysql;
mod nats;
mod postgresql;
mod redis;
mod sql;
pub(crate) mod tls;
pub(crate) mod trace_headers;
mod websocket;

use spanwise_model::AttributeValue;

use crate::sessions::{Desk, Exchanges};

pub(crate) use http1::heads::Heads;
pub(crate) use infer::{Known, Likeness, Speaker, infer, is_built_in, known};
pub(crate) use kafka::Topics;

/// Most bytes of a message's head that are held while it is incomplete.
pub(crate) const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Which of the two speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The one that asks.
    Request,
    /// The one that answers.
    Response,
}

/// A byte's place in its direction, and the system call that moved it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// From the first byte seen of the direction.
    pub(crate) offset: u64,
    /// TCP sequence number, where it is known.
    pub(crate) seq: Option<u32>,
    /// When it moved, `CLOCK_MONOTONIC`.
    pub(crate) time_nano: u64,
    /// The process that moved it.
    pub(crate) process: u32,
    /// Its thread.
    pub(crate) thread: u32,
    /// See [`crate::event::Data::task`].
    pub(crate) task: u64,
    /// The task by which that was made.
    pub(crate) parent_task: u64,
    /// See [`crate::event::Data::sleeps`].
    pub(crate) sleeps: u32,
    /// Segments that the socket had sent again by then.
    pub(crate) retransmits: u32,
    /// Smoothed round-trip time; 0 where there is none yet.
    pub(crate) srtt_micros: u32,
    /// It moved unseen: the time is when the call before it was seen.
    pub(crate) missed: bool,
}

impl Mark {
    /// No place and no time.
    pub(crate) const NOWHERE: Self = Self {
        offset: 0,
        seq: None,
        time_nano: 0,
        process: 0,
        thread: 0,
        task: 0,
        parent_task: 0,
        sleeps: 0,
        retransmits: 0,
        srtt_micros: 0,
        missed: false,
    };

    /// The place `bytes` further on, moved by the same call.
    pub(crate) fn after(self, bytes: u64) -> Self {
        Self {
            offset: self.offset + bytes,
            // Sequence numbers wrap at 32 bits: cutting is meant.
            seq: self.seq.map(|seq| seq.wrapping_add(bytes as u32)),
            ..self
        }
    }
}

/// Bytes of one system call that are still to be read: the captured ones, then
/// those that were only counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    /// Captured.
    pub(crate) bytes: &'a [u8],
    /// Counted, after the captured ones.
    pub(crate) unseen: u64,
    /// Nothing of this was reported: events were lost, and with them perhaps
    /// whole messages.
    pub(crate) missed: bool,
    /// Of the first byte.
    pub(crate) mark: Mark,
}

impl<'a> Input<'a> {
    /// Moves past captured bytes and returns them.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        self.mark = self.mark.after(taken.len() as u64);
        taken
    }

    /// Moves past up to `count` bytes, captured or not; returns how many.
    pub(crate) fn skip(&mut self, count: u64) -> u64 {
        let seen = usize::try_from(count).unwrap_or(usize::MAX).min(self.bytes.len());
        self.take(seen);
        let mut skipped = seen as u64;
        if self.bytes.is_empty() {
            let unseen = self.unseen.min(count - skipped);
            self.unseen -= unseen;
            self.mark = self.mark.after(unseen);
            skipped += unseen;
        }
        skipped
    }

    /// Moves past everything.
    pub(crate) fn skip_all(&mut self) {
        self.skip(u64::MAX);
    }

    /// What comes after the first `count` bytes.
    pub(crate) fn after(mut self, count: u64) -> Self {
        self.skip(count);
        self
    }

    /// How many bytes there are, captured or not.
    pub(crate) const fn length(&self) -> u64 {
        self.bytes.len() as u64 + self.unseen
    }

    /// Whether nothing is left.
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.unseen == 0
    }
}

/// What a parser made of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Read.
    Read,
    /// These are not this protocol's bytes.
    Foreign,
    /// From here on the connection does not speak this protocol any more.
    Switched,
    /// From here on the connection is encrypted.
    Encrypted,
    /// Nobody can read these bytes, nor what follows.
    Unreadable,
}

/// A protocol's parser for one connection: reads both directions, opens
/// exchanges and completes them. Whatever it is given, it holds a bounded
/// number of bytes.
pub(crate) trait Protocol: Send {
    /// Its name in the `protocol` column.
    fn name(&self) -> &'static str;

    /// Reads bytes of one side. Input without captured bytes stands for bytes
    /// that were not seen.
    fn read(
        &mut self,
        side: Side,
        input: Input<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome;

    /// The other side begins to speak: `to` spoke not last.
    fn turn(&mut self, _to: Side, _exchanges: &mut Exchanges, _desk: &mut Desk<'_>) {}

    /// Nothing came for a while: what ends by silence has ended.
    fn quiet(&mut self, _exchanges: &mut Exchanges, _desk: &mut Desk<'_>) {}

    /// The connection is closed: what ends by closing has ended.
    fn closed(&mut self, _exchanges: &mut Exchanges, _desk: &mut Desk<'_>) {}

    /// Whether the answering side is between two messages.
    fn between_responses(&self) -> bool;

    /// Whether the answering side may speak unasked. Where it may not, what it
    /// says to nobody's request waits a moment for that to be reported.
    fn speaks_unasked(&self) -> bool {
        false
    }

    /// Whether many messages go out in one call, and one that is missed takes from the
    /// meaning of those that follow: more of each call is then captured from the beginning.
    fn batches(&self) -> bool {
        false
    }

    /// Whether these bytes, the answering side's next ones, answer a request that
    /// was not reported yet.
    fn answers_early(&self, _input: &Input<'_>, exchanges: &Exchanges) -> bool {
        !self.speaks_unasked() && exchanges.is_empty() && self.between_responses()
    }

    /// Bytes that it holds.
    fn held_bytes(&self) -> usize;
}

/// Texts as an attribute's array.
pub(crate) fn json_list(texts: &[String]) -> AttributeValue {
    AttributeValue::Json(serde_json::Value::from(texts).to_string())
}

/// Text of bytes, at most `limit` of them, cut where a character ends.
pub(crate) fn text(bytes: &[u8], limit: usize) -> String {
    let cut = bytes.len() > limit;
    let bytes = &bytes[..bytes.len().min(limit)];
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // A character that the limit cut in two is left out.
        Err(error) if cut && error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}
