//! Turns: what a thread does after it has read something, until it waits again.
//!
//! An event loop reads, calls back, and what it is called back for writes. What is written is
//! for what was read last; or, where a program puts off what it does until all is read, for
//! what was read first and nothing was done for yet. Several answers may come in one read:
//! then programs go on with each in turn. Not every program is like that: some keep calls in
//! a queue until a connection is free, some wait for timers. That shows in their answers, of
//! which it is known which request they are for: nearly all of a process have to be written
//! when it was their request's turn, or turns say nothing of it. Programs do other things
//! under load, so it is counted for each number of requests that are open. Where a program
//! does nothing in the turns of its requests, calls come later, as after timers, and only
//! by chance in the turn of another.

use std::collections::VecDeque;

use ahash::{AHashMap, AHashSet};
use smallvec::SmallVec;
use spanwise_capture_protocols::attribution::{ByOrder, Caller, ORDERS as KNOWN_ORDERS};

use super::batches::Batches;
use super::share::Share;
use super::{UNKNOWN, is_strand};

/// Threads of a process whose turns are remembered, those of more are not: loops are few.
const MAX_THREADS: usize = 256;
/// Turns remembered of each, for what a thread has begun to connect in one of them it
/// writes to when it hears that the connection is there.
const MAX_TURNS: usize = 512;
/// Requests of which something may be read at once.
const MAX_CAUSES: usize = 256;
/// Turns without a wait between that are gone through for what was read first.
const MAX_STRETCH: usize = 64;
/// As many are remembered that have led to an answer.
const MAX_LED: usize = 4096;
/// Answers that must have been looked at before turns say anything.
const LEAST_ANSWERS: f32 = 20.0;
/// The share of them that must have been written in a turn of their request's.
const LEAST_SHARE: f32 = 0.9;
/// The same of batches: where they do not apply it is near 0, and the share says how sure it is.
const LEAST_BATCHED_SHARE: f32 = 0.8;
/// So much larger must the share of batches be where another order holds as well.
const CLEARLY_MORE: f32 = 0.02;
/// How sure a link is at most: a turn may be another's without any answer's being so.
const MOST_SURE: f32 = 0.99;
/// So many more answers are taken to have been written out of turn than were seen to be.
const DOUBT: f32 = 0.5;
/// When so many answers were looked at, they count half: programs change their ways.
const MANY_ANSWERS: f32 = 256.0;
/// Calls that must have been looked at before one that nothing is left for is taken to be made
/// for something else, as for a timer.
const LEAST_CALLS: f32 = 50.0;
/// The share of them that must have been the first for what was read: in programs that make several
/// calls for one thing, it is smaller.
const FIRST_SHARE: f32 = 0.9;
/// Requests that must have been looked at before it says anything that nothing was done for them
/// in their turns, and the share of them for which something must have been done.
const LEAST_BEGUN: f32 = 20.0;
const BEGUN_SHARE: f32 = 0.9;
/// Numbers of open requests that are told apart, each four times the one before.
const LOADS: usize = 4;

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

/// In which order a thread goes on with what it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// With the last at once.
    Last,
    /// With the first when all is read.
    First,
}

const ORDERS: [Order; 2] = [Order::Last, Order::First];
/// The place of the third, where calls are written together: see `batches.rs`.
const BATCHED: usize = ORDERS.len();

/// A request, or the answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cause {
    /// Its fragment, or what stands for one, by each order; [`UNKNOWN`].
    fragments: ByOrder,
    /// The number of the call; 0: it is a request.
    call: u64,
}

impl Cause {
    /// Whether it is of the same request as what has these, by the orders of turns.
    fn is_of(&self, fragments: ByOrder) -> bool {
        self.fragments[..BATCHED] == fragments[..BATCHED]
    }
}

#[derive(Debug)]
struct Turn {
    /// When something was read, and how often the thread had waited by then (0: not
    /// known).
    read_nano: u64,
    sleeps: u32,
    /// Of what something was read, in its order.
    causes: SmallVec<[Cause; 1]>,
    /// For how many of them something was done.
    done: usize,
}

#[derive(Debug, Default)]
struct Thread {
    /// In the order of their times.
    turns: VecDeque<Turn>,
    /// Of the causes since its last wait, those for which nothing was done yet.
    left: usize,
    /// Connections that it has begun since then.
    connected: usize,
}

/// Of answers looked at, those that were written when it was their request's turn, in each
/// order. They fade.
#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    all: f32,
    right: [f32; ORDERS.len()],
    /// What was seen of batches.
    batched: Share,
}

impl Answers {
    fn count(&mut self, right: [bool; ORDERS.len()]) {
        if self.all >= MANY_ANSWERS {
            self.all /= 2.0;
            self.right.iter_mut().for_each(|right| *right /= 2.0);
        }
        self.all += 1.0;
        for (count, right) in self.right.iter_mut().zip(right) {
            *count += f32::from(u8::from(right));
        }
    }

    /// The order in which more were right, by its place; that of batches where both fail, or are
    /// wrong more often.
    fn order(&self) -> usize {
        let [last, first] = self.right;
        let batched = &self.batched;
        let holds = batched.total() >= LEAST_ANSWERS && batched.right() >= LEAST_BATCHED_SHARE;
        let right = last.max(first) / self.all.max(1.0);
        let fails = self.all < LEAST_ANSWERS
            || right < LEAST_SHARE
            || right + CLEARLY_MORE < batched.right();
        if holds && fails { BATCHED } else { usize::from(first > last) }
    }

    fn trust(&self) -> Trust {
        let (right, all, least) = match self.right.get(self.order()) {
            Some(right) => (*right, self.all, LEAST_SHARE),
            None => {
                let Self { batched, .. } = self;
                (batched.total() - batched.wrong(), batched.total(), LEAST_BATCHED_SHARE)
            }
        };
        if all < LEAST_ANSWERS {
            Trust::Unknown
        } else if right / all < least {
            Trust::None
        } else {
            Trust::Sure((right / (all + DOUBT)).min(MOST_SURE))
        }
    }
}

/// The turns of a process's threads.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    by_thread: AHashMap<u32, Thread>,
    /// By how many requests were open.
    answers: [Answers; LOADS],
    /// What stands for a fragment and has led to an answer.
    led: AHashSet<u64>,
    batches: Batches,
    /// Calls that were the first for what was read, and those for which nothing was left.
    firsts: Share,
    /// Requests for which something was done before the thread waited again.
    begun: Share,
    /// Answers that were written without a wait after something was read.
    prompt: Share,
}

/// Where so many open requests are counted.
fn load(open: usize) -> usize {
    (open.max(1).ilog2() as usize / 2).min(LOADS - 1)
}

impl Thread {
    /// Which turn it is when the thread writes; `None` where it has waited since it read.
    fn turn(&self, writer: Caller) -> Option<usize> {
        let before = self.turns.partition_point(|turn| turn.read_nano <= writer.time_nano);
        let at = before.checked_sub(1)?;
        let turn = self.turns.get(at)?;
        (turn.sleeps == writer.sleeps && turn.sleeps != 0).then_some(at)
    }

    /// Whose turn it is when the thread writes.
    fn cause(&self, at: usize, order: Order) -> Option<Cause> {
        let turn = self.turns.get(at)?;
        let last = turn.causes.last();
        let found = match order {
            Order::Last => turn.causes.get(turn.done).or(last),
            Order::First if self.left == 0 => last,
            Order::First => {
                // From the last on backwards, the one after which so many are left.
                let read = self.turns.range(..=at).rev().take(MAX_STRETCH);
                let same = read.take_while(|other| other.sleeps == turn.sleeps);
                same.flat_map(|other| other.causes.iter().rev()).nth(self.left - 1)
            }
        };
        found.copied()
    }

    /// For whose fragment's request it is then, by each order.
    fn causes(&self, at: usize) -> [Option<u64>; ORDERS.len()] {
        let mut found = [None; ORDERS.len()];
        for (place, order) in ORDERS.into_iter().enumerate() {
            let cause = self.cause(at, order).map(|cause| cause.fragments[place]);
            found[place] = cause.filter(|fragment| *fragment != UNKNOWN);
        }
        found
    }

    /// Whether something was done already for all that was read.
    fn is_done(&self, at: usize) -> bool {
        self.left == 0 && self.turns.get(at).is_some_and(|turn| turn.done >= turn.causes.len())
    }

    /// Counts for how many requests something was done since the last wait, if nothing but requests
    /// was read.
    fn count_begun(&self, begun: &mut Share) {
        let Some(sleeps) = self.turns.back().map(|turn| turn.sleeps) else { return };
        let stretch = self.turns.iter().rev().take(MAX_STRETCH);
        let mut requests = 0;
        for cause in stretch.take_while(|turn| turn.sleeps == sleeps).flat_map(|turn| &turn.causes)
        {
            if cause.call != 0 {
                return;
            }
            requests += 1;
        }
        let left = self.left.saturating_sub(self.connected);
        for place in 0..requests {
            begun.count(place >= left);
        }
    }

    /// Something was done in this turn; for this fragment where that is known.
    fn did(&mut self, at: usize, fragment: Option<u64>) {
        self.left = self.left.saturating_sub(1);
        let Some(turn) = self.turns.get_mut(at) else { return };
        let known = fragment.and_then(|known| {
            turn.causes.iter().position(|one| one.fragments[..BATCHED].contains(&known))
        });
        turn.done = known.map_or(turn.done + 1, |at| at + 1).min(turn.causes.len());
    }
}

impl Turns {
    /// The thread has read something, of which it is not known yet what it belongs to, while so
    /// many requests were open.
    pub(crate) fn read(&mut self, reader: Caller, open: usize) {
        self.batches.read(reader, &mut self.answers[load(open)].batched);
        let full = self.by_thread.len() >= MAX_THREADS;
        if full && !self.by_thread.contains_key(&reader.thread) {
            return;
        }
        let thread = self.by_thread.entry(reader.thread).or_default();
        if thread.turns.len() >= MAX_TURNS {
            thread.turns.pop_front();
        }
        let Caller { time_nano: read_nano, sleeps, .. } = reader;
        if thread.turns.back().is_some_and(|turn| turn.sleeps != sleeps) {
            thread.count_begun(&mut self.begun);
            (thread.left, thread.connected) = (0, 0);
        }
        thread.turns.push_back(Turn { read_nano, sleeps, causes: SmallVec::new(), done: 0 });
    }

    /// What the thread has read is of this fragment: its request, or the answer to one
    /// of its calls, which has this number.
    pub(crate) fn read_for(
        &mut self,
        reader: Caller,
        fragments: ByOrder,
        call: u64,
        complete: bool,
    ) {
        if complete {
            self.batches.read_for(reader, fragments[BATCHED]);
        }
        let Some(thread) = self.by_thread.get_mut(&reader.thread) else { return };
        // It may have read other things since, where bytes had to wait for their place.
        let mut turns = thread.turns.iter_mut().rev();
        if let Some(turn) = turns.find(|turn| turn.read_nano == reader.time_nano)
            && turn.causes.len() < MAX_CAUSES
            && (fragments[..BATCHED].contains(&UNKNOWN)
                || turn.causes.iter().all(|cause| !cause.is_of(fragments)))
        {
            turn.causes.push(Cause { fragments, call });
            thread.left += 1;
        }
    }

    /// A connection was established that the thread began, which is something that it did.
    pub(crate) fn connected(&mut self, opener: Caller) {
        let Some(thread) = self.by_thread.get_mut(&opener.thread) else { return };
        match thread.turns.back() {
            Some(turn) if turn.sleeps == opener.sleeps => thread.connected += 1,
            // It has waited since, and was taken to have done nothing.
            _ => self.begun.mend(),
        }
    }

    /// A call was written, made for this.
    pub(crate) fn called(&mut self, sender: Caller, made_for: ByOrder) {
        self.batches.called(sender, made_for[BATCHED]);
        if let Some(thread) = self.by_thread.get_mut(&sender.thread)
            && let Some(at) = thread.turn(sender)
        {
            if thread.turns.get(at).is_some_and(|turn| !turn.causes.is_empty()) {
                self.firsts.count(!thread.is_done(at));
            }
            thread.did(at, None);
        }
    }

    /// The first bytes of an answer are written, while so many requests are open.
    pub(crate) fn answer_begun(&mut self, writer: Caller, fragment: u64, open: usize) {
        let seen = (open > 1).then_some(&mut self.answers[load(open)].batched);
        self.batches.answered(writer, fragment, seen);
    }

    /// A thread has written the first bytes of the answer to this fragment's request, while so
    /// many were open; `alone` where no other thread reads requests. Gives the call whose
    /// answer has led to that.
    pub(crate) fn answered(
        &mut self,
        writer: Caller,
        fragment: u64,
        open: usize,
        alone: bool,
    ) -> Option<u64> {
        let answers = &mut self.answers[load(open)];
        let thread = self.by_thread.get_mut(&writer.thread);
        let Some((thread, at)) = thread.and_then(|thread| {
            let at = thread.turn(writer)?;
            Some((thread, at))
        }) else {
            // For what another thread has read, and its calls are likely to be like that; or
            // after a wait for nothing that is read, as for a timer.
            match alone {
                true => self.prompt.count(false),
                false => answers.count([false; ORDERS.len()]),
            }
            return None;
        };
        self.prompt.count(true);
        let causes = ORDERS.map(|order| thread.cause(at, order));
        let by_order = thread.causes(at);
        let likeliest = by_order.get(answers.order()).copied().flatten();
        if let Some(strand) = likeliest.filter(|found| is_strand(*found)) {
            // What comes after it is another's.
            if self.led.len() >= MAX_LED {
                self.led.clear();
            }
            self.led.insert(strand);
        }
        if by_order.iter().flatten().any(|found| !is_strand(*found)) {
            answers.count(by_order.map(|found| found == Some(fragment)));
        }
        // Of several that were read at once, one that both orders take for this request's, if
        // there is any.
        // With this answer counted.
        let (order, read) = (answers.order(), &thread.turns[at].causes);
        let is_own = |cause: &&Cause| cause.is_of([fragment; KNOWN_ORDERS]);
        let own = read.iter().find(is_own).copied();
        let is_alone = alone && read.len() == 1;
        let likely = match answers.trust() {
            // Where it is in a batch, that says it.
            _ if order == BATCHED => None,
            Trust::Sure(_) => causes[order],
            Trust::Unknown => causes[order].filter(|_| is_alone),
            // Neither order holds: only what was read just before may have led to it, unless
            // answers come after timers as well.
            Trust::None => {
                let is_prompt = self.prompt.total() >= LEAST_ANSWERS && self.prompt.is_believed();
                read.first().copied().filter(|_| is_alone && is_prompt)
            }
        };
        let led = own.filter(|_| order != BATCHED).or(likely);
        thread.did(at, Some(fragment));
        led.map(|cause| cause.call).filter(|call| *call != 0)
    }

    /// What its answers say of the process's turns, while so many requests are open.
    pub(crate) fn trust(&self, open: usize) -> Trust {
        let answers = self.answers_at(open);
        match answers.trust() {
            Trust::Sure(_) if self.is_late() => Trust::None,
            trust => trust,
        }
    }

    /// Whether the loop is known to do nothing for many requests before it waits again.
    pub(crate) fn is_late(&self) -> bool {
        self.begun.total() >= LEAST_BEGUN && self.begun.right() < BEGUN_SHARE
    }

    /// The answers that count where so many are open: what holds with more, holds with fewer.
    fn answers_at(&self, open: usize) -> &Answers {
        let mut known = self.answers[load(open)..].iter();
        known.find(|some| some.all >= LEAST_ANSWERS).unwrap_or(&self.answers[load(open)])
    }

    /// Whether this stands for a fragment that is still not known.
    pub(crate) fn is_unled(&self, strand: u64) -> bool {
        is_strand(strand) && !self.led.contains(&strand)
    }

    /// Of what is known of a call by order, that which counts while so many requests are open.
    pub(crate) fn in_order(&self, open: usize, made_for: ByOrder) -> u64 {
        match self.answers_at(open).order() {
            BATCHED => self.batches.resolved(made_for[BATCHED]),
            order => made_for[order],
        }
    }

    /// For which fragment's request a thread makes a call, by each order; in batches, that is
    /// known later.
    pub(crate) fn causes(&self, sender: Caller) -> [Option<u64>; KNOWN_ORDERS] {
        let thread = self.by_thread.get(&sender.thread);
        let does_one = self.firsts.total() >= LEAST_CALLS && self.firsts.right() >= FIRST_SHARE;
        let found = thread.and_then(|thread| {
            let at = thread.turn(sender)?;
            (!does_one || !thread.is_done(at)).then(|| thread.causes(at))
        });
        let [last, first] = found.unwrap_or_default();
        [last, first, None]
    }

    /// The same by the order that counts, if turns can be trusted.
    pub(crate) fn made_for(&self, sender: Caller, open: usize) -> Option<u64> {
        self.causes(sender)[self.answers_at(open).order()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: u32 = 7;
    /// Requests that are open.
    const OPEN: usize = 8;

    /// How sure it is after so many answers that were all right.
    fn sure(answers: u16) -> f32 {
        f32::from(answers) / (f32::from(answers) + DOUBT)
    }

    /// The loop's thread at a time, after as many waits.
    fn at(time_nano: u64, sleeps: u32) -> Caller {
        Caller { process: 1, thread: THREAD, task: 0, parent_task: 0, time_nano, sleeps }
    }

    /// For which request a call is made, if turns can be trusted.
    fn made_for(turns: &Turns, sender: Caller) -> Option<(u64, f32)> {
        let Trust::Sure(sure) = turns.trust(OPEN) else { return None };
        turns.made_for(sender, OPEN).map(|fragment| (fragment, sure))
    }

    /// Something of a fragment is read.
    fn read(turns: &mut Turns, reader: Caller, fragment: u64) {
        turns.read(reader, OPEN);
        turns.read_for(reader, [fragment; KNOWN_ORDERS], 0, true);
    }

    /// A loop that has answered so many requests, each in its turn.
    fn proven(answers: u64) -> Turns {
        let mut turns = Turns::default();
        for answer in 1..=answers {
            read(&mut turns, at(answer, 1), answer);
            turns.answered(at(answer, 1), answer, OPEN, true);
        }
        turns
    }

    #[test]
    fn calls_are_made_for_what_was_read_last() {
        let mut turns = proven(30);
        read(&mut turns, at(100, 5), 1);
        assert_eq!(made_for(&turns, at(110, 5)), Some((1, sure(30))));
        read(&mut turns, at(120, 5), 2);
        assert_eq!(made_for(&turns, at(130, 5)), Some((2, sure(30))));
        // Before it has read that, too, as who connected then.
        assert_eq!(made_for(&turns, at(115, 5)), Some((1, sure(30))));
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
        turns.read(at(120, 5), OPEN);
        assert_eq!(made_for(&turns, at(130, 5)), None);
    }

    #[test]
    fn what_comes_in_one_read_is_gone_on_with_in_turn() {
        let mut turns = proven(30);
        read(&mut turns, at(100, 5), 1);
        turns.read_for(at(100, 5), [1; KNOWN_ORDERS], 0, true);
        turns.read_for(at(100, 5), [2; KNOWN_ORDERS], 0, true);
        turns.read_for(at(100, 5), [3; KNOWN_ORDERS], 0, true);
        let who = |turns: &Turns| made_for(turns, at(110, 5)).map(|(fragment, _)| fragment);
        assert_eq!(who(&turns), Some(1));
        turns.called(at(105, 5), [UNKNOWN; KNOWN_ORDERS]);
        assert_eq!(who(&turns), Some(2));
        // Its answer: the third one is next.
        turns.answered(at(106, 5), 2, OPEN, true);
        assert_eq!(who(&turns), Some(3));
        turns.called(at(107, 5), [UNKNOWN; KNOWN_ORDERS]);
        assert_eq!(who(&turns), Some(3), "what it does besides");
        assert!(matches!(turns.trust(OPEN), Trust::Sure(_)), "several answers in one read");
    }

    /// A program that reads all that has come, and then does what there is to do.
    #[test]
    fn what_is_put_off_until_all_is_read_is_done_in_that_order() {
        let mut turns = Turns::default();
        for round in 0..20 {
            let (first, second) = (2 * round, 2 * round + 1);
            let sleeps = 1 + round as u32;
            read(&mut turns, at(100 * round, sleeps), first);
            read(&mut turns, at(100 * round + 1, sleeps), second);
            turns.answered(at(100 * round + 2, sleeps), first, OPEN, true);
            turns.answered(at(100 * round + 2, sleeps), second, OPEN, true);
        }
        read(&mut turns, at(10_000, 90), 71);
        read(&mut turns, at(10_001, 90), 72);
        assert_eq!(made_for(&turns, at(10_002, 90)).expect("believed").0, 71);
        turns.called(at(10_002, 90), [UNKNOWN; KNOWN_ORDERS]);
        assert_eq!(made_for(&turns, at(10_002, 90)).expect("believed").0, 72);
    }

    /// As where each second request waits for a timer first.
    #[test]
    fn where_requests_lead_to_nothing_in_their_turns_calls_are_not_made_in_them() {
        for (late, connects, trusted) in [(2, false, false), (100, false, true), (2, true, true)] {
            let mut turns = proven(30);
            for request in 100..160 {
                let (time_nano, sleeps) = (10 * request, request as u32);
                read(&mut turns, at(time_nano, sleeps), request);
                if request % late != 0 {
                    turns.called(at(time_nano + 1, sleeps), [request; KNOWN_ORDERS]);
                } else if connects {
                    // It may be established at once, or when something else was read.
                    let waited = (request % 4 == 0) as u32;
                    turns.connected(at(time_nano + 1, sleeps - waited));
                }
            }
            let is_sure = matches!(turns.trust(OPEN), Trust::Sure(_));
            assert_eq!(is_sure, trusted, "{late} {connects}");
        }
    }

    /// As where timers make calls: an answer follows its last call, and all else is by chance.
    #[test]
    fn where_no_order_holds_an_answer_follows_what_was_read_just_before() {
        let mut turns = Turns::default();
        for round in 0..30 {
            let (time_nano, sleeps) = (10 * round, 1 + round as u32);
            read(&mut turns, at(time_nano, sleeps), 1);
            read(&mut turns, at(time_nano + 1, sleeps), 2);
            // The order of the first is right more often, and seldom.
            let fragment = if round < 5 { 1 } else { 99 };
            turns.answered(at(time_nano + 2, sleeps), fragment, OPEN, true);
        }
        assert_eq!(turns.trust(OPEN), Trust::None);
        for (time_nano, call) in [(1_000, 5), (1_001, 6)] {
            turns.read(at(time_nano, 90), OPEN);
            turns.read_for(at(time_nano, 90), [UNKNOWN; KNOWN_ORDERS], call, true);
        }
        assert_eq!(turns.answered(at(1_002, 90), 77, OPEN, true), Some(6));
    }

    /// As a timer's, where each thing that is read leads to one call or answer.
    #[test]
    fn a_call_for_which_nothing_is_left_is_made_for_something_else() {
        let [mut one, mut several] = [proven(30), proven(30)];
        for round in 100..160 {
            for turns in [&mut one, &mut several] {
                read(turns, at(round, 5), round);
                turns.called(at(round, 5), [UNKNOWN; KNOWN_ORDERS]);
            }
            several.called(at(round, 5), [UNKNOWN; KNOWN_ORDERS]);
        }
        assert_eq!(made_for(&one, at(159, 5)), None);
        assert_eq!(made_for(&several, at(159, 5)).expect("one more of its").0, 159);
        read(&mut one, at(160, 5), 160);
        assert_eq!(made_for(&one, at(160, 5)).expect("its first").0, 160);
    }

    #[test]
    fn each_load_is_judged_by_itself() {
        let mut turns = proven(30);
        for answer in 100..130 {
            read(&mut turns, at(answer, 5), answer);
            turns.answered(at(answer, 5), 99, 32, true);
        }
        assert!(matches!(turns.trust(OPEN), Trust::Sure(_)));
        assert_eq!(turns.trust(32), Trust::None);
        assert_eq!(turns.trust(64), Trust::Unknown);
        assert!(matches!(turns.trust(1), Trust::Sure(_)), "with fewer it is no worse");
    }

    #[test]
    fn threads_that_answer_for_what_others_have_read_have_no_turns() {
        let mut turns = proven(30);
        for _ in 0..10 {
            turns.answered(at(20, 9), 1, OPEN, false);
        }
        assert_eq!(turns.trust(OPEN), Trust::None);
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
        turns.answered(at(110, 5), 1, OPEN, true);
        assert_eq!(made_for(&turns, at(120, 5)), Some((1, sure(20))));
    }

    #[test]
    fn a_process_that_answers_out_of_turn_is_not_believed_until_it_changes() {
        let mut turns = proven(40);
        for answer in 100..105 {
            read(&mut turns, at(answer, 5), answer);
            turns.answered(at(answer, 5), 99, OPEN, true);
        }
        read(&mut turns, at(200, 5), 1);
        assert_eq!(made_for(&turns, at(210, 5)), None, "40 of 45");
        // Answers after a wait are not looked at.
        for _ in 0..100 {
            turns.answered(at(210, 6), 99, OPEN, true);
        }
        for answer in 300..350 {
            read(&mut turns, at(answer, 5), answer);
            turns.answered(at(answer, 5), answer, OPEN, true);
        }
        let (fragment, confidence) = made_for(&turns, at(349, 5)).expect("believed again");
        assert_eq!(fragment, 349);
        assert!((confidence - 90.0 / 95.5).abs() < 1e-6, "{confidence}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut turns = proven(10_000);
        for thread in 0..10_000 {
            turns.read(Caller { thread, ..at(1, 1) }, OPEN);
        }
        assert_eq!(turns.by_thread.len(), MAX_THREADS);
        assert!(turns.by_thread.values().all(|thread| thread.turns.len() <= MAX_TURNS));
        assert!(turns.answers[load(OPEN)].all < MANY_ANSWERS + 1.0);
    }
}
