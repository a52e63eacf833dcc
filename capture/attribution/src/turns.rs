//! Turns: what a thread does after it has read something, until it waits again.
//!
//! An event loop reads, calls back, and what it is called back for writes: the last thing
//! that the thread has read, with no wait between, is what a call is made for. Not every
//! program is like that: some put off what they have read until they have read more, some
//! keep calls in a queue until a connection is free, some wait for timers. That shows in
//! their answers, of which it is known which request they are for: nearly all of a process
//! have to be written in a turn of their request's, or turns say nothing of it.

use std::collections::VecDeque;

use ahash::AHashMap;

use spanwise_capture_protocols::attribution::Caller;

/// Threads of a process whose turns are remembered, those of more are not: loops are few.
const MAX_THREADS: usize = 256;
/// Turns remembered of each, for what a thread has begun to connect in one of them it
/// writes to when it hears that the connection is there.
const MAX_TURNS: usize = 512;
/// Answers that must have been looked at before turns say anything.
const LEAST_ANSWERS: f32 = 20.0;
/// The share of them that must have been written in a turn of their request's.
const LEAST_SHARE: f32 = 0.9;
/// How sure a link is at most: a turn may be another's without any answer's being so.
const MOST_SURE: f32 = 0.99;
/// A thread that reads something else while it waits for an answer, so often, does more
/// than one thing at a time. Once may be an answer that nobody waited for any more.
const STRAYS: u32 = 3;
/// When so many answers were looked at, they count half: programs change their ways.
const MANY_ANSWERS: f32 = 512.0;

/// Whether what a process does in a request's turn, it does for that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trust {
    /// Too few of its answers were seen.
    Unknown,
    /// It does not.
    None,
    /// It does, and so sure is that.
    Sure(f32),
}

/// For which request a thread has read something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// For none that is known.
    None,
    /// For this fragment's.
    Request(u64),
    /// For several.
    Several,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    /// When something was read, and how often the thread had waited by then (0: not
    /// known).
    read_nano: u64,
    sleeps: u32,
    cause: Cause,
}

#[derive(Debug, Default)]
struct Thread {
    /// In the order of their times.
    turns: VecDeque<Turn>,
    /// The connection on which it has made a call that is not answered; 0 if none.
    waits_on: u64,
}

/// The turns of a process's threads.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    by_thread: AHashMap<u32, Thread>,
    /// Answers looked at, and those of them that were written in their request's turn;
    /// they fade.
    answers: f32,
    right: f32,
    strays: u32,
}

impl Turns {
    /// The thread has read something, of which it is not known yet what it belongs to;
    /// `busy` says whether it serves a request of another connection, and is asked only
    /// where that matters.
    pub(crate) fn read(&mut self, reader: Caller, connection: u64, busy: impl FnOnce() -> bool) {
        let full = self.by_thread.len() >= MAX_THREADS;
        if full && !self.by_thread.contains_key(&reader.thread) {
            return;
        }
        let thread = self.by_thread.entry(reader.thread).or_default();
        if thread.waits_on == connection {
            thread.waits_on = 0;
        }
        if thread.waits_on != 0 && busy() {
            self.strays = self.strays.saturating_add(1);
        }
        if thread.turns.len() >= MAX_TURNS {
            thread.turns.pop_front();
        }
        let Caller { time_nano: read_nano, sleeps, .. } = reader;
        thread.turns.push_back(Turn { read_nano, sleeps, cause: Cause::None });
    }

    /// What the thread has read is of this fragment: its request, or the answer to one
    /// of its calls.
    pub(crate) fn read_for(&mut self, reader: Caller, fragment: u64) {
        let Some(thread) = self.by_thread.get_mut(&reader.thread) else { return };
        // It may have read other things since, where bytes had to wait for their place.
        let mut turns = thread.turns.iter_mut().rev();
        if let Some(turn) = turns.find(|turn| turn.read_nano == reader.time_nano) {
            turn.cause = match turn.cause {
                Cause::None => Cause::Request(fragment),
                Cause::Request(known) if known == fragment => turn.cause,
                Cause::Request(_) | Cause::Several => Cause::Several,
            };
        }
    }

    /// The thread has made a call that will be answered.
    pub(crate) fn called(&mut self, sender: Caller, connection: u64) {
        if let Some(thread) = self.by_thread.get_mut(&sender.thread) {
            thread.waits_on = connection;
        }
    }

    /// Whether the process's threads have been seen to do several things at a time.
    pub(crate) const fn are_shared(&self) -> bool {
        self.strays >= STRAYS
    }

    /// In whose turn a thread writes; `None` where it has waited since it read.
    fn cause(&self, writer: Caller) -> Option<Cause> {
        let thread = self.by_thread.get(&writer.thread)?;
        let before = thread.turns.partition_point(|turn| turn.read_nano <= writer.time_nano);
        let turn = thread.turns.get(before.checked_sub(1)?)?;
        (turn.sleeps == writer.sleeps && turn.sleeps != 0).then_some(turn.cause)
    }

    /// A thread has written the first bytes of the answer to this fragment's request, while
    /// others were open.
    pub(crate) fn answered(&mut self, writer: Caller, fragment: u64) {
        let right = match self.cause(writer) {
            Some(Cause::Request(known)) => known == fragment,
            Some(Cause::Several) => false,
            // After a wait for nothing that is read, as for a timer.
            Some(Cause::None) | None => return,
        };
        if self.answers >= MANY_ANSWERS {
            self.answers /= 2.0;
            self.right /= 2.0;
        }
        self.answers += 1.0;
        self.right += f32::from(u8::from(right));
    }

    /// What its answers say of the process's turns.
    pub(crate) fn trust(&self) -> Trust {
        let share = self.right / self.answers;
        if self.answers < LEAST_ANSWERS {
            Trust::Unknown
        } else if share < LEAST_SHARE {
            Trust::None
        } else {
            Trust::Sure(share.min(MOST_SURE))
        }
    }

    /// For which fragment's request a thread makes a call, if turns can be trusted.
    pub(crate) fn made_for(&self, sender: Caller) -> Option<u64> {
        match self.cause(sender)? {
            Cause::Request(fragment) => Some(fragment),
            Cause::None | Cause::Several => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: u32 = 7;

    /// The loop's thread at a time, after as many waits.
    fn at(time_nano: u64, sleeps: u32) -> Caller {
        Caller { process: 1, thread: THREAD, task: 0, parent_task: 0, time_nano, sleeps }
    }

    /// For which request a call is made, if turns can be trusted.
    fn made_for(turns: &Turns, sender: Caller) -> Option<(u64, f32)> {
        let Trust::Sure(sure) = turns.trust() else { return None };
        turns.made_for(sender).map(|fragment| (fragment, sure))
    }

    /// Something of a fragment is read.
    fn read(turns: &mut Turns, reader: Caller, fragment: u64) {
        turns.read(reader, fragment, || false);
        turns.read_for(reader, fragment);
    }

    /// A loop that has answered so many requests, each in its turn.
    fn proven(answers: u64) -> Turns {
        let mut turns = Turns::default();
        for answer in 0..answers {
            read(&mut turns, at(answer, 1), answer);
            turns.answered(at(answer, 1), answer);
        }
        turns
    }

    #[test]
    fn calls_are_made_for_what_was_read_last() {
        let mut turns = proven(30);
        read(&mut turns, at(100, 5), 1);
        assert_eq!(made_for(&turns, at(110, 5)), Some((1, MOST_SURE)));
        read(&mut turns, at(120, 5), 2);
        assert_eq!(made_for(&turns, at(130, 5)), Some((2, MOST_SURE)));
        // Before it has read that, too, as who connected then.
        assert_eq!(made_for(&turns, at(115, 5)), Some((1, MOST_SURE)));
        assert_eq!(made_for(&turns, Caller { thread: 8, ..at(130, 5) }), None);
    }

    #[test]
    fn a_wait_ends_the_turn() {
        let mut turns = proven(30);
        read(&mut turns, at(100, 5), 1);
        assert_eq!(made_for(&turns, at(110, 6)), None);
    }

    #[test]
    fn what_is_read_of_no_request_ends_it_too() {
        let mut turns = proven(30);
        read(&mut turns, at(100, 5), 1);
        turns.read(at(120, 5), 2, || false);
        assert_eq!(made_for(&turns, at(130, 5)), None);
    }

    #[test]
    fn what_is_of_several_is_of_none() {
        let mut turns = proven(30);
        read(&mut turns, at(100, 5), 1);
        turns.read_for(at(100, 5), 1);
        assert_eq!(made_for(&turns, at(110, 5)), Some((1, MOST_SURE)));
        turns.read_for(at(100, 5), 2);
        assert_eq!(made_for(&turns, at(110, 5)), None);
    }

    #[test]
    fn a_kernel_that_does_not_tell_of_waits_tells_of_no_turns() {
        let mut turns = proven(30);
        read(&mut turns, at(100, 0), 1);
        assert_eq!(made_for(&turns, at(110, 0)), None);
    }

    #[test]
    fn turns_say_nothing_before_enough_answers() {
        let mut turns = proven(19);
        read(&mut turns, at(100, 5), 1);
        assert_eq!(made_for(&turns, at(110, 5)), None);
        turns.answered(at(110, 5), 1);
        assert_eq!(made_for(&turns, at(120, 5)), Some((1, MOST_SURE)));
    }

    #[test]
    fn a_process_that_answers_out_of_turn_is_not_believed_until_it_changes() {
        let mut turns = proven(40);
        for answer in 100..105 {
            read(&mut turns, at(answer, 5), answer);
            turns.answered(at(answer, 5), 99);
        }
        read(&mut turns, at(200, 5), 1);
        assert_eq!(made_for(&turns, at(210, 5)), None, "40 of 45");
        // Answers after a wait are not looked at.
        for _ in 0..100 {
            turns.answered(at(210, 6), 99);
        }
        for answer in 300..350 {
            read(&mut turns, at(answer, 5), answer);
            turns.answered(at(answer, 5), answer);
        }
        let (fragment, confidence) = made_for(&turns, at(349, 5)).expect("believed again");
        assert_eq!(fragment, 349);
        assert!((confidence - 90.0 / 95.0).abs() < 1e-6, "{confidence}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut turns = proven(10_000);
        for thread in 0..10_000 {
            turns.read(Caller { thread, ..at(1, 1) }, 1, || false);
        }
        assert_eq!(turns.by_thread.len(), MAX_THREADS);
        assert!(turns.by_thread.values().all(|thread| thread.turns.len() <= MAX_TURNS));
        assert!(turns.answers < MANY_ANSWERS + 1.0);
    }

    #[test]
    fn who_reads_other_things_while_it_waits_does_several_at_a_time() {
        let mut turns = Turns::default();
        for round in 0..10 {
            turns.read(at(round, 1), 1, || false);
            turns.called(at(round, 1), 2);
            turns.read(at(round, 2), 2, || true);
        }
        // An answer that nobody waits for any more, while no request is open.
        turns.called(at(20, 1), 2);
        turns.read(at(21, 1), 1, || false);
        assert!(!turns.are_shared());
        for round in 30..30 + u64::from(STRAYS) {
            turns.called(at(round, 1), 2);
            turns.read(at(round, 2), 3, || true);
        }
        assert!(turns.are_shared());
    }
}
