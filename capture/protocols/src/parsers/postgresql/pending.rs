//! The responses that the server still has to send: one for each client message, in order
//! (PostgreSQL documentation, "Message Flow"). This assigns each response to a message. A response
//! that does not fit shows that pairing has lost step.

use std::collections::VecDeque;

/// Maximum responses due at once.
const MAX_DUE: usize = 1 << 16;

/// The response that a client message expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// To the startup message: authentication and what follows, up to ReadyForQuery.
    Session,
    /// To a request for encryption: one byte, or an error.
    Encryption,
    /// To a simple query: results, up to ReadyForQuery.
    Query,
    /// To a function call: its result, and ReadyForQuery.
    Call,
    /// To Parse, in the extended protocol.
    Parse,
    /// To Bind.
    Bind,
    /// To Describe.
    Describe,
    /// To Execute: rows, or a COPY.
    Execute,
    /// To Close.
    Close,
    /// To Sync: ReadyForQuery.
    Sync,
    /// No response: the end of a COPY's data, or a Sync before it.
    Nothing,
    /// The message was not seen: anything up to ReadyForQuery.
    Anything,
}

/// The completion tag that a statement expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Any tag.
    Any,
    /// The tag with this index in [`SAME`].
    With(u8),
    /// COMMIT, or ROLLBACK if the transaction had failed.
    Ended,
}

/// Statements whose completion tag begins with their own first word.
const SAME: [&str; 6] = ["SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "ROLLBACK"];

impl Done {
    /// The tag for a statement that begins with this word.
    pub(super) fn of(operation: &str) -> Self {
        match SAME.iter().position(|same| *same == operation) {
            Some(place) => Self::With(place as u8),
            None if operation == "COMMIT" => Self::Ended,
            None => Self::Any,
        }
    }

    fn fits(self, tag: &[u8]) -> bool {
        let word = tag.split(|byte| matches!(byte, b' ' | 0)).next().unwrap_or_default();
        match self {
            Self::Any => true,
            Self::With(place) => word == SAME[usize::from(place)].as_bytes(),
            Self::Ended => matches!(word, b"COMMIT" | b"ROLLBACK"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    due: Due,
    done: Done,
    /// This response completes its request.
    last: bool,
}

/// The role of a server message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Part of the response to the oldest request.
    Part,
    /// The last part of that response. The number of completed requests includes Syncs that get no
    /// response.
    Last(usize),
    /// An error: the oldest request has failed, and messages up to the next Sync are not executed.
    Failed {
        /// Number of requests that end with the error; 0 if the oldest one continues.
        over: usize,
        /// Whether part of the next request is not executed either.
        cut: bool,
    },
    /// No response is due.
    Orphan,
    /// The message cannot be the response that is due.
    OutOfStep,
}

/// The responses due on one connection.
#[derive(Debug, Default)]
pub(super) struct Pending {
    entries: VecDeque<Entry>,
    /// Number of responses, at the end of the queue, that belong to the request being sent.
    sending: usize,
    /// The oldest request, a simple query or similar, has failed.
    failed: bool,
    /// The server skips all messages up to the next Sync.
    skips: bool,
    /// The server receives COPY data and ignores Sync.
    copies: bool,
}

impl Pending {
    /// A message with this expected response is sent; `last` is true if it ends its request.
    /// Returns `false` if the server will skip the message.
    pub(super) fn push(&mut self, due: Due, done: Done, last: bool) -> bool {
        if self.skips {
            if !matches!(due, Due::Sync | Due::Anything) {
                return false;
            }
            self.skips = false;
        }
        // Any message other than data ends a COPY.
        self.copies &= due == Due::Nothing;
        self.entries.push_back(Entry { due, done, last });
        self.sending = if last { 0 } else { self.sending + 1 };
        true
    }

    /// Whether the maximum number of responses is due.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= MAX_DUE
    }

    /// The request being sent is complete. Returns `false` if no response to it is due any more.
    pub(super) fn close(&mut self) -> bool {
        let mut sent = self.entries.iter_mut().rev().take(self.sending);
        let newest = sent.find(|entry| entry.due != Due::Nothing);
        let open = newest.is_some();
        if let Some(entry) = newest {
            entry.last = true;
        }
        self.sending = 0;
        open
    }

    /// Whether a response to the request being sent is due.
    pub(super) const fn awaits_sent(&self) -> bool {
        self.sending > 0
    }

    /// Whether the server skips messages sent now.
    pub(super) const fn skips(&self) -> bool {
        self.skips
    }

    /// Whether a Sync sent now gets no response.
    pub(super) const fn passes_over_sync(&self) -> bool {
        self.copies
    }

    /// The client has sent all data of a COPY.
    pub(super) fn copied(&mut self) {
        let copies = |entry: &Entry| matches!(entry.due, Due::Execute | Due::Query);
        if std::mem::take(&mut self.copies) || !self.entries.iter().any(copies) {
            return;
        }
        // The server has not yet asked for the data.
        let sending = self.sending > 0;
        self.push(Due::Nothing, Done::Any, false);
        if !sending {
            self.sending = 0;
        }
    }

    /// Clears the state when the connection is read again from here.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Completes the oldest request, whatever is still due.
    pub(super) fn drop_oldest(&mut self) {
        while !self.entries.is_empty() && self.pop() == 0 {}
    }

    /// Completes the oldest message and those after it without a response. Returns the number of
    /// completed requests.
    /// over.
    fn pop(&mut self) -> usize {
        let (mut over, mut first) = (0, true);
        while let Some(entry) = self
            .entries
            .pop_front_if(|entry| std::mem::take(&mut first) || entry.due == Due::Nothing)
        {
            over += usize::from(entry.last);
        }
        (self.failed, self.copies) = (false, false);
        self.sending = self.sending.min(self.entries.len());
        over
    }

    /// Handles the server's next message, of this type.
    pub(super) fn answer(&mut self, kind: u8, content: &[u8]) -> Verdict {
        let Some(entry) = self.entries.front_mut() else { return Verdict::Orphan };
        if kind == b'E' {
            return self.error();
        }
        let over = match (entry.due, kind) {
            (Due::Session | Due::Anything | Due::Sync, b'Z') => true,
            (Due::Query | Due::Call, b'Z') => true,
            (Due::Anything, _) => false,
            (Due::Session, b'R' | b'K' | b'v') => false,
            (Due::Query | Due::Call, _) if self.failed => return Verdict::OutOfStep,
            (Due::Query | Due::Execute, b'C') => {
                if !entry.done.fits(content) {
                    return Verdict::OutOfStep;
                }
                // A simple query may contain further statements.
                entry.done = Done::Any;
                entry.due == Due::Execute
            }
            (Due::Query, b'T' | b'I') => false,
            (Due::Query | Due::Execute, b'D' | b'H' | b'W' | b'd' | b'c') => false,
            (Due::Query | Due::Execute, b'G') => {
                self.begin_copy();
                false
            }
            (Due::Execute, b'I' | b's') => true,
            (Due::Call, b'V') => false,
            (Due::Parse, b'1') | (Due::Bind, b'2') | (Due::Close, b'3') => true,
            (Due::Describe, b't') => false,
            (Due::Describe, b'T' | b'n') => true,
            _ => return Verdict::OutOfStep,
        };
        if !over {
            return Verdict::Part;
        }
        match self.pop() {
            0 => Verdict::Part,
            over => Verdict::Last(over),
        }
    }

    /// The oldest message has failed.
    fn error(&mut self) -> Verdict {
        match self.entries.front().map(|entry| entry.due) {
            Some(Due::Encryption) => {
                self.pop();
                return Verdict::Failed { over: 1, cut: false };
            }
            Some(due @ (Due::Session | Due::Query | Due::Call | Due::Sync | Due::Anything)) => {
                self.failed = matches!(due, Due::Query | Due::Call);
                self.copies = false;
                return Verdict::Failed { over: 0, cut: false };
            }
            _ => {}
        }
        let (mut over, mut cut) = (0, false);
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.due != Due::Sync) {
            over += usize::from(entry.last);
            cut = over > 0 && !entry.last && (cut || entry.due != Due::Nothing);
        }
        self.copies = false;
        self.sending = self.sending.min(self.entries.len());
        self.skips = self.entries.is_empty();
        Verdict::Failed { over, cut }
    }

    /// The server now receives COPY data. It ignores the Syncs that some clients send directly
    /// after Execute.
    fn begin_copy(&mut self) {
        let mut behind = self.entries.iter_mut().skip(1);
        let next = behind.find_map(|entry| match entry.due {
            Due::Sync => {
                entry.due = Due::Nothing;
                None
            }
            other => Some(other),
        });
        // All COPY data may already have been sent.
        self.copies = next.is_none();
    }

    /// Number of bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(due: &[(Due, bool)]) -> Pending {
        let mut pending = Pending::default();
        for (due, last) in due {
            pending.push(*due, Done::Any, *last);
        }
        pending
    }

    fn told(pending: &mut Pending, kinds: &[u8]) -> Vec<Verdict> {
        kinds.iter().map(|kind| pending.answer(*kind, b"SELECT 1\0")).collect()
    }

    use Verdict::{Orphan, OutOfStep, Part};

    const LAST: Verdict = Verdict::Last(1);

    const fn failed(over: usize) -> Verdict {
        Verdict::Failed { over, cut: false }
    }

    #[test]
    fn each_message_has_its_own_answer() {
        let cycle = [(Due::Parse, false), (Due::Bind, false), (Due::Describe, false)];
        let mut due = pending(&[&cycle[..], &[(Due::Execute, false), (Due::Sync, true)]].concat());
        assert_eq!(told(&mut due, b"12TDDC"), [Part; 6]);
        assert_eq!(told(&mut due, b"ZZ"), [LAST, Orphan]);
        let mut due = pending(&[(Due::Describe, false), (Due::Query, true)]);
        assert_eq!(told(&mut due, b"tTTDCZ"), [Part, Part, Part, Part, Part, LAST]);
    }

    #[test]
    fn an_error_passes_over_what_follows_up_to_sync() {
        let two = [(Due::Parse, true), (Due::Bind, false), (Due::Execute, true), (Due::Sync, true)];
        assert_eq!(told(&mut pending(&two), b"EZ"), [failed(2), LAST]);
        let two = [(Due::Parse, true), (Due::Bind, false), (Due::Sync, true)];
        let cut = Verdict::Failed { over: 1, cut: true };
        assert_eq!(told(&mut pending(&two), b"EZ"), [cut, LAST]);
        let mut due = pending(&[(Due::Parse, false), (Due::Describe, false)]);
        assert_eq!(told(&mut due, b"E"), [failed(0)]);
        assert!(due.skips() && !due.push(Due::Query, Done::Any, true));
        assert!(due.push(Due::Sync, Done::Any, true));
        assert_eq!(told(&mut due, b"Z"), [LAST]);
        let mut due = pending(&[(Due::Query, true)]);
        assert_eq!(told(&mut due, b"ECZ"), [failed(0), OutOfStep, LAST]);
    }

    #[test]
    fn a_sync_before_the_data_of_a_copy_is_passed_over() {
        let mut due = pending(&[(Due::Execute, false), (Due::Sync, true)]);
        assert_eq!(told(&mut due, b"G"), [Part]);
        assert!(due.passes_over_sync());
        due.copied();
        assert!(!due.passes_over_sync());
        due.push(Due::Sync, Done::Any, true);
        assert_eq!(told(&mut due, b"CZ"), [LAST, LAST]);
        // Data and the second Sync were sent before the server asked for data.
        let mut due = pending(&[(Due::Execute, false), (Due::Sync, true)]);
        due.copied();
        due.push(Due::Sync, Done::Any, true);
        assert_eq!(told(&mut due, b"GEZ"), [Part, failed(1), LAST]);
    }

    #[test]
    fn what_cannot_be_due_is_seen() {
        assert_eq!(told(&mut pending(&[(Due::Parse, true)]), b"2"), [OutOfStep]);
        assert_eq!(told(&mut pending(&[(Due::Parse, true)]), b"Z"), [OutOfStep]);
        let mut due = Pending::default();
        due.push(Due::Query, Done::of("UPDATE"), true);
        assert_eq!(due.answer(b'C', b"SELECT 1\0"), OutOfStep);
        assert_eq!(due.answer(b'C', b"UPDATE 1\0"), Part);
        due.push(Due::Query, Done::of("COMMIT"), true);
        assert_eq!(told(&mut due, b"Z"), [LAST]);
        assert_eq!(due.answer(b'C', b"ROLLBACK\0"), Part);
    }

    #[test]
    fn what_is_due_is_bounded() {
        let mut due = Pending::default();
        while !due.is_full() {
            due.push(Due::Bind, Done::Any, false);
        }
        assert!(due.held_bytes() < 512 << 10);
    }
}
