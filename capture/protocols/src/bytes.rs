//! Bytes of one direction: whose they are, where they stand, and what was captured.

use spanwise_model::AttributeValue;

/// Most bytes of a message's head that are held while it is incomplete.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Which of the two speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that asks.
    Request,
    /// The one that answers.
    Response,
}

/// A byte's place in its direction, and the system call that moved it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// From the first byte seen of the direction.
    pub offset: u64,
    /// TCP sequence number, where it is known.
    pub seq: Option<u32>,
    /// When it moved, `CLOCK_MONOTONIC`.
    pub time_nano: u64,
    /// The process that moved it.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// The logical task that moved it, in a runtime that has such; 0: none is known.
    pub task: u64,
    /// The task by which that was made.
    pub parent_task: u64,
    /// How often that thread had waited by then; 0: not known.
    pub sleeps: u32,
    /// Segments that the socket had sent again by then.
    pub retransmits: u32,
    /// Smoothed round-trip time; 0 where there is none yet.
    pub srtt_micros: u32,
    /// It moved unseen: the time is when the call before it was seen.
    pub missed: bool,
}

impl Mark {
    /// No place and no time.
    pub const NOWHERE: Self = Self {
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
    #[inline]
    pub fn after(self, bytes: u64) -> Self {
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
pub struct Input<'a> {
    /// Captured.
    pub bytes: &'a [u8],
    /// Counted, after the captured ones.
    pub unseen: u64,
    /// Nothing of this was reported: events were lost, and with them perhaps
    /// whole messages.
    pub missed: bool,
    /// Of the first byte.
    pub mark: Mark,
}

impl<'a> Input<'a> {
    /// Moves past captured bytes and returns them.
    #[inline]
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        self.mark = self.mark.after(taken.len() as u64);
        taken
    }

    /// Moves past up to `count` bytes, captured or not; returns how many.
    #[inline]
    pub fn skip(&mut self, count: u64) -> u64 {
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
    #[inline]
    pub fn skip_all(&mut self) {
        self.skip(u64::MAX);
    }

    /// What comes after the first `count` bytes.
    #[inline]
    pub fn after(mut self, count: u64) -> Self {
        self.skip(count);
        self
    }

    /// How many bytes there are, captured or not.
    #[inline]
    pub const fn length(&self) -> u64 {
        self.bytes.len() as u64 + self.unseen
    }

    /// Whether nothing is left.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.unseen == 0
    }
}

/// Texts as an attribute's array.
pub fn json_list(texts: &[String]) -> AttributeValue {
    AttributeValue::Json(serde_json::Value::from(texts).to_string())
}

/// Text of bytes, at most `limit` of them, cut where a character ends.
pub fn text(bytes: &[u8], limit: usize) -> String {
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
