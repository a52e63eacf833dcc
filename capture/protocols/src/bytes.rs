//! Bytes of one direction: the sender, the position and the captured part.

use spanwise_model::{AttributeValue, SpanId};

/// Maximum bytes buffered of an incomplete message head.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The sender of bytes on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The side that sends requests.
    Request,
    /// The side that sends responses.
    Response,
}

/// Position of a byte in its direction, and the system call that moved it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Offset from the first byte seen in this direction.
    pub offset: u64,
    /// TCP sequence number, if known.
    pub seq: Option<u32>,
    /// Time of the call, `CLOCK_MONOTONIC`.
    pub time_nano: u64,
    /// Process that made the call.
    pub process: u32,
    /// Thread that made the call.
    pub thread: u32,
    /// Logical task that made the call, if the runtime has tasks; 0 if unknown.
    pub task: u64,
    /// Task that created this task; or, with `in_span`, the span in which the thread worked.
    /// (Programs that tell their spans tell no parents of tasks.) See [`Self::parent_task`] and
    /// [`Self::current_span`].
    pub parent: u64,
    /// How often the thread had waited before the call; 0 if unknown.
    pub sleeps: u32,
    /// Segments that the socket had retransmitted by then.
    pub retransmits: u32,
    /// Smoothed round-trip time; 0 if there is none yet.
    pub srtt_micros: u32,
    /// What `parent` is.
    pub in_span: bool,
    /// The call was not seen. The time is that of the last call seen before it.
    pub missed: bool,
}

impl Mark {
    /// A mark without position or time.
    pub const NOWHERE: Self = Self {
        offset: 0,
        seq: None,
        time_nano: 0,
        process: 0,
        thread: 0,
        task: 0,
        parent: 0,
        sleeps: 0,
        retransmits: 0,
        srtt_micros: 0,
        in_span: false,
        missed: false,
    };

    /// The task that created the task; 0 if unknown.
    pub const fn parent_task(&self) -> u64 {
        if self.in_span { 0 } else { self.parent }
    }

    /// The span in which the thread worked during the call, if its program tells that.
    pub fn current_span(&self) -> Option<SpanId> {
        SpanId::from_u64(self.parent).filter(|_| self.in_span)
    }

    /// The `parent` and `in_span` of a call.
    pub const fn parent_of(parent_task: u64, current_span: u64) -> (u64, bool) {
        if current_span == 0 { (parent_task, false) } else { (current_span, true) }
    }

    /// The position `bytes` later, moved by the same call.
    #[inline]
    pub fn after(self, bytes: u64) -> Self {
        Self {
            offset: self.offset + bytes,
            // Sequence numbers wrap at 32 bits, so truncation is intended.
            seq: self.seq.map(|seq| seq.wrapping_add(bytes as u32)),
            ..self
        }
    }
}

/// Bytes of one system call that are still to be parsed: the captured bytes, then bytes that were
/// only counted.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Captured bytes.
    pub bytes: &'a [u8],
    /// Number of bytes after the captured ones that were only counted.
    pub unseen: u64,
    /// Nothing was reported for these bytes: events were lost, perhaps with whole messages.
    pub missed: bool,
    /// Mark of the first byte.
    pub mark: Mark,
}

impl<'a> Input<'a> {
    /// Consumes and returns up to `count` captured bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        self.mark = self.mark.after(taken.len() as u64);
        taken
    }

    /// Skips up to `count` bytes, captured or not. Returns the number of bytes skipped.
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

    /// Skips all bytes.
    #[inline]
    pub fn skip_all(&mut self) {
        self.skip(u64::MAX);
    }

    /// The input after the first `count` bytes.
    #[inline]
    pub fn after(mut self, count: u64) -> Self {
        self.skip(count);
        self
    }

    /// Number of bytes, captured or not.
    #[inline]
    pub const fn length(&self) -> u64 {
        self.bytes.len() as u64 + self.unseen
    }

    /// Whether no bytes are left.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.unseen == 0
    }
}

/// Texts as a JSON array attribute.
pub fn json_list(texts: &[String]) -> AttributeValue {
    AttributeValue::Json(serde_json::Value::from(texts).to_string())
}

/// Converts at most `limit` bytes to text, cut at a character boundary.
pub fn text(bytes: &[u8], limit: usize) -> String {
    let cut = bytes.len() > limit;
    let bytes = &bytes[..bytes.len().min(limit)];
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // Leave out a character that the limit split.
        Err(error) if cut && error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}
