//! What the server still owes: an answer for each message of the client's, in their order
//! (PostgreSQL documentation, "Message Flow"). So an answer is known to be that of a message,
//! and where it cannot be, the connection has lost step.

use std::collections::VecDeque;

/// Answers that may be due at once.
const MAX_DUE: usize = 1 << 16;

/// What a message of the client's is answered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The first message: authentication and what follows, up to ReadyForQuery.
    Session,
    /// The wish for encryption: one byte, or an error.
    Encryption,
    /// A simple query: results, up to ReadyForQuery.
    Query,
    /// A function call: its result, and ReadyForQuery.
    Call,
    /// Of the extended protocol.
    Parse,
    /// Likewise.
    Bind,
    /// Likewise.
    Describe,
    /// Likewise: rows, or a COPY.
    Execute,
    /// Likewise.
    Close,
    /// ReadyForQuery.
    Sync,
    /// The end of a COPY's data, which nothing answers by itself.
    CopyEnd,
    /// What was sent was not seen: anything, up to ReadyForQuery.
    Anything,
}

/// With which word the server says that a statement is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// With any.
    Any,
    /// With this one.
    With(&'static str),
    /// With COMMIT, or with ROLLBACK where the transaction had failed.
    Ended,
}

impl Done {
    /// That of a statement whose first word this is.
    pub(super) fn of(operation: &str) -> Self {
        const SAME: [&str; 6] = ["SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "ROLLBACK"];
        match SAME.iter().find(|same| **same == operation) {
            Some(same) => Self::With(same),
            None if operation == "COMMIT" => Self::Ended,
            None => Self::Any,
        }
    }

    fn fits(self, tag: &[u8]) -> bool {
        let word = tag.split(|byte| matches!(byte, b' ' | 0)).next().unwrap_or_default();
        match self {
            Self::Any => true,
            Self::With(expected) => word == expected.as_bytes(),
            Self::Ended => matches!(word, b"COMMIT" | b"ROLLBACK"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    due: Due,
    done: Done,
    /// With it, its request is answered.
    last: bool,
}

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Part of the oldest request's.
    Part,
    /// The last part of it.
    Last,
    /// An error: the oldest request has failed, and what follows up to the next Sync is not
    /// executed.
    Failed {
        /// So many requests are over with it; 0: the oldest is not yet.
        over: usize,
        /// Part of the one after these is not executed either.
        cut: bool,
    },
    /// Nobody's: nothing is due.
    Orphan,
    /// It cannot be what is due.
    OutOfStep,
}

/// What is due on one connection.
#[derive(Debug, Default)]
pub(super) struct Pending {
    entries: VecDeque<Entry>,
    /// How many of the last ones are of the request that is being sent.
    sending: usize,
    /// The oldest, a simple query or the like, has failed.
    failed: bool,
    /// The server passes over everything up to the next Sync.
    skips: bool,
}

impl Pending {
    /// A message is sent that is answered so; `last` where its request ends with it. `false`
    /// where the server will pass over it.
    pub(super) fn push(&mut self, due: Due, done: Done, last: bool) -> bool {
        if self.skips {
            if due != Due::Sync {
                return false;
            }
            self.skips = false;
        }
        if self.entries.len() >= MAX_DUE {
            self.clear();
        }
        self.entries.push_back(Entry { due, done, last });
        self.sending = if last { 0 } else { self.sending + 1 };
        true
    }

    /// The request that is being sent is complete; `false` where nothing of it is due any more.
    pub(super) fn close(&mut self) -> bool {
        let mut sent = self.entries.iter_mut().rev().take(self.sending);
        let newest = sent.find(|entry| entry.due != Due::CopyEnd);
        let open = newest.is_some();
        if let Some(entry) = newest {
            entry.last = true;
        }
        self.sending = 0;
        open
    }

    /// Whether anything is due of the request that is being sent.
    pub(super) const fn awaits_sent(&self) -> bool {
        self.sending > 0
    }

    /// Whether what is sent now is passed over.
    pub(super) const fn skips(&self) -> bool {
        self.skips
    }

    /// The client has sent all data of a COPY.
    pub(super) fn copied(&mut self) {
        if self.entries.iter().any(|entry| entry.due == Due::Execute) {
            let sending = self.sending > 0;
            self.push(Due::CopyEnd, Done::Any, false);
            if !sending {
                self.sending = 0;
            }
        }
    }

    /// The connection is read anew from here on.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The oldest request is answered, whatever is due of it.
    pub(super) fn drop_oldest(&mut self) {
        while let Some(entry) = self.pop() {
            if entry.last {
                return;
            }
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front();
        while self.entries.front().is_some_and(|entry| entry.due == Due::CopyEnd) {
            self.entries.pop_front();
        }
        self.failed = false;
        self.sending = self.sending.min(self.entries.len());
        entry
    }

    /// Takes the server's next message, which is of this kind.
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
                // There may be further statements in a simple query.
                entry.done = Done::Any;
                entry.due == Due::Execute
            }
            (Due::Query, b'T' | b'I') => false,
            (Due::Query | Due::Execute, b'D' | b'H' | b'W' | b'd' | b'c') => false,
            (Due::Query, b'G') => false,
            (Due::Execute, b'G') => {
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
            Some(entry) if entry.last => Verdict::Last,
            _ => Verdict::Part,
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
                return Verdict::Failed { over: 0, cut: false };
            }
            _ => {}
        }
        let (mut over, mut cut) = (0, false);
        while let Some(entry) = self.entries.front().filter(|entry| entry.due != Due::Sync) {
            over += usize::from(entry.last);
            cut = over > 0 && !entry.last;
            self.pop();
        }
        self.skips = self.entries.is_empty();
        Verdict::Failed { over, cut }
    }

    /// The server takes data now, and passes over what some clients send before they know:
    /// Syncs right behind what they executed.
    fn begin_copy(&mut self) {
        while self.entries.get(1).is_some_and(|entry| entry.due == Due::Sync) {
            self.entries.remove(1);
            if let Some(entry) = self.entries.front_mut() {
                entry.last = true;
            }
        }
        self.sending = self.sending.min(self.entries.len());
    }

    /// Bytes that it holds.
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

    use Verdict::{Last, Orphan, OutOfStep, Part};

    const fn failed(over: usize) -> Verdict {
        Verdict::Failed { over, cut: false }
    }

    #[test]
    fn each_message_has_its_own_answer() {
        let cycle = [(Due::Parse, false), (Due::Bind, false), (Due::Describe, false)];
        let mut due = pending(&[&cycle[..], &[(Due::Execute, false), (Due::Sync, true)]].concat());
        assert_eq!(told(&mut due, b"12TDDC"), [Part; 6]);
        assert_eq!(told(&mut due, b"ZZ"), [Last, Orphan]);
        let mut due = pending(&[(Due::Describe, false), (Due::Query, true)]);
        assert_eq!(told(&mut due, b"tTTDCZ"), [Part, Part, Part, Part, Part, Last]);
    }

    #[test]
    fn an_error_passes_over_what_follows_up_to_sync() {
        let two = [(Due::Parse, true), (Due::Bind, false), (Due::Execute, true), (Due::Sync, true)];
        assert_eq!(told(&mut pending(&two), b"EZ"), [failed(2), Last]);
        let two = [(Due::Parse, true), (Due::Bind, false), (Due::Sync, true)];
        let cut = Verdict::Failed { over: 1, cut: true };
        assert_eq!(told(&mut pending(&two), b"EZ"), [cut, Last]);
        let mut due = pending(&[(Due::Parse, false), (Due::Describe, false)]);
        assert_eq!(told(&mut due, b"E"), [failed(0)]);
        assert!(due.skips() && !due.push(Due::Query, Done::Any, true));
        assert!(due.push(Due::Sync, Done::Any, true));
        assert_eq!(told(&mut due, b"Z"), [Last]);
        let mut due = pending(&[(Due::Query, true)]);
        assert_eq!(told(&mut due, b"ECZ"), [failed(0), OutOfStep, Last]);
    }

    #[test]
    fn a_sync_before_the_data_of_a_copy_is_passed_over() {
        let mut due = pending(&[(Due::Execute, false), (Due::Sync, true)]);
        assert_eq!(told(&mut due, b"G"), [Part]);
        due.copied();
        due.push(Due::Sync, Done::Any, true);
        assert_eq!(told(&mut due, b"CZ"), [Last, Last]);
        // Data and the second Sync were sent before the server said that it takes any.
        let mut due = pending(&[(Due::Execute, false), (Due::Sync, true)]);
        due.copied();
        due.push(Due::Sync, Done::Any, true);
        assert_eq!(told(&mut due, b"GEZ"), [Part, failed(1), Last]);
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
        assert_eq!(told(&mut due, b"Z"), [Last]);
        assert_eq!(due.answer(b'C', b"ROLLBACK\0"), Part);
    }

    #[test]
    fn what_is_due_is_bounded() {
        let mut due = Pending::default();
        for _ in 0..3 * MAX_DUE {
            due.push(Due::Bind, Done::Any, false);
        }
        assert!(due.held_bytes() <= 2 * MAX_DUE * size_of::<Entry>());
    }
}
