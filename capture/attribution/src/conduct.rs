//! Whether the threads of a process serve one request each, and wait for what they call.
//!
//! That a thread answers what it has read says little: with one connection each, event loops
//! do so as well, and write calls for each other's requests meanwhile. What would have shown
//! them is looked for: a thread that waits for the answer to its call reads nothing else
//! until that has come, answers nobody, and has it read by no other thread; and a thread that
//! reads requests makes no calls while it has none. One such observation costs the certainty
//! of all links by thread of the process, for some thousand calls; where they are more than
//! a tenth, its threads tell nothing.
//!
//! Whether the thread that reads a request answers it is counted for each kind of request: one
//! endpoint that hands its work to other threads says nothing of the others.

use ahash::AHashMap;
use smallvec::SmallVec;
use spanwise_capture_protocols::attribution::Caller;

use super::PROVEN_AFTER;
use super::share::Share;

/// Threads of a process whose calls are watched; those of more are not.
const MAX_THREADS: usize = 4096;
/// Calls of a thread that wait for an answer and are watched.
const MAX_AWAITED: usize = 8;
/// Kinds of requests that are told apart.
const MAX_KINDS: usize = 64;
/// After so many calls that threads waited for, links by thread need not be looked at again.
const YOUNG: u32 = 1000;
/// A process that did otherwise so often does several things at a time on a thread. Once
/// may be an answer that nobody waited for any more.
const SEVERAL: f32 = 3.0;

/// A call that is not answered.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    connection: u64,
    since_nano: u64,
    /// The thread served one request then, and this many were open.
    serving: bool,
    open: usize,
    /// Another call of the thread waited, too.
    among_others: bool,
    /// It was made for no request, as far as is known.
    nobodys: bool,
}

#[derive(Debug, Default)]
struct Thread {
    awaited: SmallVec<[Awaited; 1]>,
    /// It has answered a request, and read nothing since; and how often it had waited by then.
    has_answered: bool,
    answered_sleeps: u32,
    /// How often it had waited when it read the answer to a call of its own that was made for
    /// no request, and nothing else since; 0: it has not.
    nobodys_since: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Conduct {
    threads: AHashMap<u32, Thread>,
    /// On which thread's calls' answers are waited for, by connection.
    awaited_by: AHashMap<u64, u32>,
    /// Requests that were answered by the thread that read them, and others; of all
    /// kinds, and of each.
    answers: Share,
    answers_of: AHashMap<u64, Share>,
    /// Calls that threads waited for and did nothing else, and others.
    calls: Share,
    /// Such calls since the last other one: while no other request was open, and while
    /// some were. Only there loops show.
    waited_alone: u32,
    waited_among_others: u32,
}

impl Conduct {
    fn otherwise(&mut self) {
        self.calls.count(false);
        self.waited_alone = 0;
        self.waited_among_others = 0;
    }

    /// A thread has read something on a connection. `serves` says whether it has a request of
    /// another connection, and is asked only where that matters.
    pub(crate) fn read(&mut self, reader: Caller, connection: u64, serves: impl FnOnce() -> bool) {
        let waits_elsewhere = self.awaited_by.get(&connection).copied();
        if let Some(waiting) = waits_elsewhere.filter(|waiting| *waiting != reader.thread) {
            // Who has it read by others goes on with other things meanwhile.
            if let Some(call) = self.take_awaited(waiting, connection)
                && call.serving
            {
                self.otherwise();
            }
            return;
        }
        let Some(thread) = self.threads.get_mut(&reader.thread) else { return };
        thread.has_answered = false;
        thread.nobodys_since = 0;
        if thread.awaited.is_empty() {
            return;
        }
        let Some(call) = self.take_awaited(reader.thread, connection) else {
            if serves() {
                self.otherwise();
            }
            return;
        };
        if call.nobodys
            && let Some(thread) = self.threads.get_mut(&reader.thread)
        {
            thread.nobodys_since = reader.sleeps;
        }
        if call.serving && !call.among_others {
            self.calls.count(true);
            let waited =
                if call.open > 1 { &mut self.waited_among_others } else { &mut self.waited_alone };
            *waited = waited.saturating_add(1);
        }
    }

    fn take_awaited(&mut self, thread: u32, connection: u64) -> Option<Awaited> {
        let awaited = &mut self.threads.get_mut(&thread)?.awaited;
        let at = awaited.iter().position(|call| call.connection == connection)?;
        self.awaited_by.remove(&connection);
        Some(awaited.swap_remove(at))
    }

    /// A thread has made a call that will be answered, while so many requests were open;
    /// `serving` where it has one of them.
    pub(crate) fn called(
        &mut self,
        sender: Caller,
        connection: u64,
        serving: bool,
        open: usize,
        nobodys: bool,
    ) {
        let known = self.threads.len();
        let thread = match self.threads.entry(sender.thread) {
            std::collections::hash_map::Entry::Vacant(_) if known >= MAX_THREADS => return,
            entry => entry.or_default(),
        };
        if thread.awaited.iter().any(|call| call.connection == connection)
            || thread.awaited.len() >= MAX_AWAITED
            || self.awaited_by.contains_key(&connection)
        {
            return;
        }
        let among_others = !thread.awaited.is_empty();
        let since_nano = sender.time_nano;
        let call = Awaited { connection, since_nano, serving, open, among_others, nobodys };
        thread.awaited.push(call);
        self.awaited_by.insert(connection, sender.thread);
    }

    /// Nothing more comes on a connection.
    pub(crate) fn gave_up(&mut self, connection: u64) {
        if let Some(thread) = self.awaited_by.get(&connection).copied() {
            self.take_awaited(thread, connection);
        }
    }

    /// A thread that reads requests makes a call while it has none.
    pub(crate) fn called_without_request(&mut self, sender: Caller) {
        // It may have left that to do until it had answered; after a wait, it is something else.
        let is_rest = self
            .threads
            .get(&sender.thread)
            .is_some_and(|thread| thread.has_answered && thread.answered_sleeps == sender.sleeps);
        // Where others answer, it may go on with what was read by those.
        if !is_rest && self.answers.is_clean() {
            self.otherwise();
        }
    }

    /// Whether the thread goes on with what it has read for no request.
    pub(crate) fn goes_on_for_nobody(&self, sender: Caller) -> bool {
        sender.sleeps != 0
            && self
                .threads
                .get(&sender.thread)
                .is_some_and(|thread| thread.nobodys_since == sender.sleeps)
    }

    /// A thread has written the first bytes of an answer.
    pub(crate) fn answered(&mut self, writer: Caller) {
        let known = self.threads.len();
        let thread = match self.threads.entry(writer.thread) {
            std::collections::hash_map::Entry::Vacant(_) if known >= MAX_THREADS => return,
            entry => entry.or_default(),
        };
        thread.has_answered = true;
        thread.answered_sleeps = writer.sleeps;
        if thread.awaited.iter().any(|call| call.since_nano < writer.time_nano && call.serving) {
            let given_up = std::mem::take(&mut thread.awaited);
            for call in given_up {
                self.awaited_by.remove(&call.connection);
            }
            self.otherwise();
        }
    }

    /// A request of this kind was answered by the thread that had read it, or not; `true`
    /// where that ends the trust in all of them.
    pub(crate) fn handled(&mut self, kind: u64, by_its_thread: bool) -> bool {
        let believed = self.answers.is_believed();
        self.answers.count(by_its_thread);
        let full = self.answers_of.len() >= MAX_KINDS && !self.answers_of.contains_key(&kind);
        if full {
            self.answers_of.retain(|_, share| share.halve());
        }
        if self.answers_of.len() < MAX_KINDS || self.answers_of.contains_key(&kind) {
            self.answers_of.entry(kind).or_default().count(by_its_thread);
        }
        believed && !self.answers.is_believed()
    }

    fn answers_of(&self, kind: u64) -> &Share {
        self.answers_of.get(&kind).unwrap_or(&self.answers)
    }

    /// Whether calls of the thread that has read such a request are made for it.
    pub(crate) fn trusts(&self, kind: u64) -> bool {
        self.calls.is_believed() && (self.answers_of(kind).is_believed() || self.is_proven(1))
    }

    /// Whether nothing is known that speaks against that, and what was seen could have, while
    /// as many requests are open.
    pub(crate) fn is_certain_of(&self, kind: u64, open: usize) -> bool {
        self.answers_of(kind).is_clean() && self.is_proven(open)
    }

    const fn is_proven(&self, open: usize) -> bool {
        let waited = if open > 1 {
            self.waited_among_others
        } else {
            self.waited_alone.saturating_add(self.waited_among_others)
        };
        self.calls.is_clean() && waited >= PROVEN_AFTER
    }

    /// Something was not seen: what was proven is to be proven again.
    pub(crate) const fn doubt(&mut self) {
        self.waited_alone = 0;
        self.waited_among_others = 0;
    }

    /// Whether nothing was seen that speaks against links by thread.
    pub(crate) const fn is_clean(&self) -> bool {
        self.calls.is_clean()
    }

    /// Whether it is watched closely still.
    pub(crate) const fn is_young(&self) -> bool {
        self.waited_alone.saturating_add(self.waited_among_others) < YOUNG
    }

    /// Whether the process's threads have been seen to do several things at a time.
    pub(crate) fn does_several(&self) -> bool {
        self.calls.wrong() >= SEVERAL || !self.answers.is_believed()
    }
}
