//! Work of which the program itself tells: who has handed it over, and when. A thread
//! that works on such does nothing else meanwhile; so what it calls was asked for by what
//! the one who handed the work over had read before, in the course of his own work, or of
//! the work in whose course that was handed over to him, and so on.
//!
//! Work has a number, which is never used again. What a thread does by itself is work, too,
//! that nobody has handed over, or who has started the thread: its calls are the thread's, as
//! elsewhere.

use std::collections::VecDeque;

use spanwise_capture_protocols::attribution::{Caller, Fragment};
use spanwise_model::Evidence;

use super::ancestry::Origin;
use super::lineage::Recent;
use super::lines::{Line, is_work};
use super::{LIKELY, ProcessState, within};

/// Of such a number: it is what a thread does by itself.
const OWN: u64 = 1 << 61;
/// And this: by itself, too, as what it was started for. It may live on for others.
const STARTED: u64 = 1 << 60;
/// How often work is followed to whom it was handed over by.
const MAX_HOPS: usize = 32;
/// Requests remembered of a line.
const READS: usize = 256;
/// As many before the last are looked at, whether they were still worked on.
const COMPARED: usize = 64;
/// Whoever reads requests of several connections hands each over this soon, or it is not
/// told which it was.
const HANDED_SOON_NANO: u64 = 1_000_000;

/// By whom, and when, `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy)]
struct Handed {
    origin: u64,
    nano: u64,
}

/// A request that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    pub(crate) exchange: u64,
    pub(crate) fragment: u64,
    pub(crate) connection: u64,
    pub(crate) nano: u64,
}

/// What a line has read, the last at the end.
#[derive(Debug, Default)]
struct Reads {
    last: VecDeque<Read>,
    /// Of more than one connection: as loops do, which serve many at once.
    of_several: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Handoffs {
    handed: Recent<u64, Handed>,
    /// Whose own work is whose.
    own: Recent<u64, Line>,
    /// For what threads were started.
    started: Recent<u32, u64>,
    reads: Recent<Line, Reads>,
    /// Something was told.
    begun: bool,
}

impl Handoffs {
    /// Whether anything was told.
    pub(crate) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// A request was read on this line.
    pub(crate) fn read(&mut self, line: Line, read: Read) {
        if !self.begun || line == Line::None {
            return;
        }
        let reads = self.reads.entry(line);
        let connection = reads.last.back().map(|last| last.connection);
        reads.of_several |= connection.is_some_and(|connection| connection != read.connection);
        if reads.last.len() >= READS {
            reads.last.pop_front();
        }
        reads.last.push_back(read);
    }

    /// On which line the calls of some work are made.
    fn line(&mut self, work: u64) -> Option<Line> {
        match work & (OWN | STARTED) {
            0 => Some(Line::Task(work)),
            _ => self.own.get(&work),
        }
    }
}

impl ProcessState {
    /// Work was handed over at this time in the course of that of `origin`; or a thread's
    /// own is told of.
    pub(crate) fn work_handed_over(&mut self, work: u64, origin: u64, teller: u32, nano: u64) {
        self.handoffs.begun = true;
        if is_work(origin) {
            self.handoffs.handed.insert(work, Handed { origin, nano });
            return;
        }
        let line = if origin == 0 { Line::Thread(teller) } else { Line::Task(origin) };
        self.handoffs.own.insert(work, line);
        if work & STARTED != 0 {
            self.handoffs.started.insert(teller, work);
        }
    }

    /// The request for which a thread makes a call that was started in its course, and has
    /// itself read none.
    pub(crate) fn of_started(&mut self, sender: Caller, lost_nano: u64) -> Option<Fragment> {
        let task = self.handoffs.started.get(&sender.thread)?;
        if self.handoffs.reads.peek(&Line::Thread(sender.thread)).is_some() {
            return None;
        }
        match self.of_work(Caller { task, ..sender }, lost_nano) {
            Origin::Request(found) => Some(found),
            Origin::Elsewhere | Origin::Unknown => None,
        }
    }

    /// The request for which work makes a call.
    pub(crate) fn of_work(&mut self, sender: Caller, lost_nano: u64) -> Origin {
        let now_nano = sender.time_nano;
        let (mut work, mut before_nano, mut likely) = (sender.task, now_nano, false);
        for hop in 0..MAX_HOPS {
            if let Some(line) = self.handoffs.line(work)
                && let Some(found) = self.last_read(line, hop == 0, before_nano, now_nano)
            {
                return match found {
                    // By then, a thread that was started for it may work for others.
                    Found::Request { over: true, .. } if likely => Origin::Elsewhere,
                    Found::Request { fragment, read_nano, sure, .. } => {
                        let sure = sure && !likely && read_nano >= lost_nano;
                        let confidence = if sure { 1.0 } else { LIKELY };
                        Origin::Request(within(fragment, Evidence::Task, confidence))
                    }
                    Found::Several(candidates) => {
                        Origin::Request(Fragment::Ambiguous { candidates })
                    }
                    Found::Nothing => Origin::Elsewhere,
                };
            }
            likely |= work & STARTED != 0;
            let Some(handed) = self.handoffs.handed.get(&work) else {
                // A thread that has read nothing has handed it over: no request asked for it,
                // unless a thread on the way may be given work in ways that nobody tells of.
                let of_nobody = work & OWN != 0 && !likely;
                return if of_nobody { Origin::Request(Fragment::None) } else { Origin::Elsewhere };
            };
            (work, before_nano) = (handed.origin, handed.nano);
        }
        Origin::Elsewhere
    }

    /// What a line had read before a time, and is still worked on; `None` where it had read
    /// nothing. `itself` where it makes the call, and has not handed it over.
    fn last_read(
        &mut self,
        line: Line,
        itself: bool,
        before_nano: u64,
        now_nano: u64,
    ) -> Option<Found> {
        let reads = self.handoffs.reads.peek(&line)?;
        let of_several = reads.of_several;
        let mut before = reads.last.iter().rev().filter(|read| read.nano <= before_nano);
        let last = *before.next()?;
        let others: Vec<Read> = before.take(COMPARED).copied().collect();
        // A loop's own calls are those of whatever it goes on with.
        if itself && of_several {
            return Some(Found::Nothing);
        }
        let mut at_once = 1;
        for other in &others {
            let ended = self.lineage.ended_exchange(other.exchange, now_nano);
            let was_open = ended.is_some_and(|ended| ended.end_nano > before_nano);
            at_once += usize::from(was_open || self.open.get(other.exchange).is_some());
        }
        let soon = before_nano.saturating_sub(last.nano) < HANDED_SOON_NANO;
        // Those that came in one piece are handed over one after the other.
        let alone = others.first().is_none_or(|other| other.nano < last.nano);
        if at_once > 1 && (itself || !soon || !alone) {
            return Some(Found::Several(at_once));
        }
        let Some(sort) = self.open.get(last.exchange).map(|open| open.sort) else {
            return Some(match self.lineage.ended_exchange(last.exchange, now_nano) {
                // It does nothing after its request but what it has left to do for it.
                Some(_) => Found::Request {
                    fragment: last.fragment,
                    read_nano: last.nano,
                    sure: itself,
                    over: true,
                },
                None => Found::Nothing,
            });
        };
        // As for a thread's own calls, it has to be seen first that it serves one at a time.
        let serves_one = match line {
            Line::Thread(_) => {
                !self.threads_shared && self.conduct.is_certain_of(sort, self.open.count())
            }
            Line::Task(_) | Line::None => !of_several,
        };
        let sure = at_once == 1 && serves_one;
        let Read { fragment, nano: read_nano, .. } = last;
        Some(Found::Request { fragment, read_nano, sure, over: false })
    }
}

/// What a line had read.
enum Found {
    Request {
        fragment: u64,
        read_nano: u64,
        /// There was no other that it could be.
        sure: bool,
        /// It has been answered.
        over: bool,
    },
    Several(usize),
    /// Nothing that is still worked on, or that tells something.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::super::PROVEN_AFTER;
    use super::super::lineage::REMEMBERED;
    use spanwise_capture_protocols::attribution::{Attribution as _, Call, Handled, NO_SORT};

    use super::super::lines::WORK_BITS;
    use super::super::tests::NoProcesses;
    use super::super::{Attributor, ENDED_NANO};
    use super::*;
    use spanwise_capture_protocols::process::Runtime;

    const PROCESS: u32 = 10;

    const fn work(number: u64) -> u64 {
        number | 1 << WORK_BITS
    }

    const fn own(number: u64) -> u64 {
        work(number) | OWN
    }

    fn attributor() -> Attributor {
        let mut attributor = Attributor::new(1, Box::new(NoProcesses));
        attributor.introduce(PROCESS, &Runtime::Other("java".to_owned()));
        // Whose own work is whose is told with a thread's first call.
        attributor.work_handed_over(PROCESS, own(1), 0, (1, 0));
        attributor
    }

    fn by(task: u64, time_nano: u64) -> Caller {
        Caller { process: PROCESS, thread: 1, task, parent_task: 0, time_nano, sleeps: 0 }
    }

    fn read(attributor: &mut Attributor, reader: Caller, connection: u64, exchange: u64) -> u64 {
        match attributor.request_read(reader, connection, 0, exchange, NO_SORT) {
            Fragment::Own(fragment) => fragment,
            found => panic!("a server request has its own fragment, not {found:?}"),
        }
    }

    fn handed(attributor: &mut Attributor, to: u64, origin: u64, nano: u64) {
        attributor.work_handed_over(PROCESS, to, origin, (2, nano));
    }

    fn certain(fragment: u64) -> Fragment {
        within(fragment, Evidence::Task, 1.0)
    }

    fn likely(fragment: u64) -> Fragment {
        within(fragment, Evidence::Task, LIKELY)
    }

    const SEVERAL: Fragment = Fragment::Ambiguous { candidates: 2 };

    #[test]
    fn a_call_belongs_to_what_was_read_by_whom_its_work_comes_from() {
        let mut attributor = attributor();
        // The thread that waits for all connections hands each to another, which reads.
        handed(&mut attributor, work(10), own(1), 5);
        handed(&mut attributor, work(20), own(1), 6);
        let first = read(&mut attributor, by(work(10), 10), 1, 1);
        let second = read(&mut attributor, by(work(20), 11), 2, 2);
        assert_eq!(attributor.request_sent(by(work(10), 12), None), certain(first));
        // Two hops on.
        handed(&mut attributor, work(21), work(20), 13);
        handed(&mut attributor, work(22), work(21), 14);
        assert_eq!(attributor.request_sent(by(work(22), 15), None), certain(second));
        // What was handed on before anything was read is no request's, nor what nobody has
        // handed over.
        handed(&mut attributor, work(23), work(20), 7);
        assert_eq!(attributor.request_sent(by(work(23), 16), None), Fragment::None);
        handed(&mut attributor, work(24), own(0), 7);
        assert_eq!(attributor.request_sent(by(work(24), 16), None), Fragment::None);
        // Where the beginning is not known, it may be any.
        assert_eq!(attributor.request_sent(by(work(30), 16), None), SEVERAL);
        handed(&mut attributor, work(31), work(99), 16);
        assert_eq!(attributor.request_sent(by(work(31), 17), None), SEVERAL);
    }

    #[test]
    fn when_it_was_handed_over_decides_among_requests_of_a_connection() {
        let mut attributor = attributor();
        handed(&mut attributor, work(10), own(1), 5);
        let first = read(&mut attributor, by(work(10), 10), 1, 1);
        handed(&mut attributor, work(11), work(10), 11);
        attributor.request_over(by(work(10), 10), 1, 20, None);
        let second = read(&mut attributor, by(work(10), 30), 1, 2);
        handed(&mut attributor, work(12), work(10), 31);
        assert_eq!(attributor.request_sent(by(work(12), 32), None), certain(second));
        // What is left to do for the first, for two seconds.
        assert_eq!(attributor.request_sent(by(work(11), 33), None), likely(first));
        attributor.request_over(by(work(10), 30), 2, 40, None);
        let sole = read(&mut attributor, by(0, 41), 3, 3);
        let later = by(work(11), 21 + ENDED_NANO);
        assert_eq!(
            attributor.request_sent(later, None),
            within(sole, Evidence::SoleRequest, LIKELY)
        );
    }

    #[test]
    fn who_reads_of_several_connections_is_believed_right_after_reading() {
        let mut attributor = attributor();
        let first = read(&mut attributor, by(0, 1000), 1, 1);
        handed(&mut attributor, work(10), own(1), 1001);
        let second = read(&mut attributor, by(0, 2000), 2, 2);
        handed(&mut attributor, work(11), own(1), 2001);
        assert_eq!(attributor.request_sent(by(work(10), 3000), None), likely(first));
        assert_eq!(attributor.request_sent(by(work(11), 3000), None), likely(second));
        // It may have come back to either.
        handed(&mut attributor, work(12), own(1), 2000 + HANDED_SOON_NANO);
        assert_eq!(attributor.request_sent(by(work(12), 3_000_000), None), SEVERAL);
        // Two in one piece are handed over one after the other.
        read(&mut attributor, by(0, 4_000_000), 3, 3);
        read(&mut attributor, by(0, 4_000_000), 3, 4);
        handed(&mut attributor, work(13), own(1), 4_000_001);
        let four = Fragment::Ambiguous { candidates: 4 };
        assert_eq!(attributor.request_sent(by(work(13), 4_000_002), None), four);
    }

    #[test]
    fn a_loop_that_runs_as_work_is_not_believed_about_itself() {
        let mut attributor = attributor();
        handed(&mut attributor, work(10), own(1), 5);
        read(&mut attributor, by(work(10), 10), 1, 1);
        attributor.request_over(by(work(10), 10), 1, 11, None);
        let second = read(&mut attributor, by(work(10), 20), 2, 2);
        let sole = within(second, Evidence::SoleRequest, LIKELY);
        assert_eq!(attributor.request_sent(by(work(10), 21), None), sole);
        read(&mut attributor, by(work(10), 22), 3, 3);
        assert_eq!(attributor.request_sent(by(work(10), 23), None), SEVERAL);
    }

    #[test]
    fn threads_that_were_started_and_losses_leave_it_likely() {
        let mut attributor = attributor();
        handed(&mut attributor, work(10), own(1), 5);
        let fragment = read(&mut attributor, by(work(10), 10), 1, 1);
        let started = work(11) | STARTED;
        let thread = |time_nano| Caller { thread: 2, ..by(0, time_nano) };
        handed(&mut attributor, started, work(10), 11);
        handed(&mut attributor, started, 0, 11);
        assert_eq!(attributor.request_sent(thread(12), None), likely(fragment));
        handed(&mut attributor, work(12), started, 14);
        assert_eq!(attributor.request_sent(by(work(12), 15), None), likely(fragment));
        // A thread that was started for one that is over.
        handed(&mut attributor, work(20), own(1), 5);
        read(&mut attributor, by(work(20), 16), 9, 9);
        let pools = work(21) | STARTED;
        handed(&mut attributor, pools, work(20), 17);
        handed(&mut attributor, work(22), pools, 18);
        attributor.request_over(by(work(20), 16), 9, 19, None);
        let sole = within(fragment, Evidence::SoleRequest, LIKELY);
        assert_eq!(attributor.request_sent(by(work(22), 19), None), sole);
        // One that nobody's request has started may be given others' all the same.
        let early = work(25) | STARTED;
        attributor.work_handed_over(PROCESS, early, own(1), (5, 1));
        attributor.work_handed_over(PROCESS, early, 0, (5, 1));
        let thread_of_pool = Caller { thread: 5, ..by(0, 19) };
        assert_eq!(attributor.request_sent(thread_of_pool, None), sole);
        handed(&mut attributor, work(26), early, 19);
        assert_eq!(attributor.request_sent(by(work(26), 20), None), sole);
        // What it reads itself is its own.
        let own = read(&mut attributor, thread(20), 2, 2);
        assert_eq!(
            attributor.request_sent(thread(21), None),
            within(own, Evidence::Thread, LIKELY)
        );
        handed(&mut attributor, work(13), started, 22);
        assert_eq!(attributor.request_sent(by(work(13), 23), None), likely(own));
        attributor.request_over(thread(20), 2, 40, None);
        read(&mut attributor, thread(41), 3, 3);
        attributor.request_over(thread(41), 3, 50, None);
        assert_eq!(
            attributor.request_sent(thread(51), None),
            within(fragment, Evidence::SoleRequest, LIKELY)
        );
    }

    #[test]
    fn threads_that_serve_one_request_at_a_time_hand_over_for_certain() {
        let mut attributor = attributor();
        for exchange in 1000..1000 + u64::from(PROVEN_AFTER) {
            read(&mut attributor, by(0, 1), exchange, exchange);
            // What a thread does by itself is told as its own work.
            attributor.answer_awaited(by(own(1), 1), 9_000, Fragment::None, None);
            attributor.bytes_read(by(own(1), 1), 9_000);
            let handled = Handled { first_writer: by(0, 2), last_thread: 1 };
            attributor.request_over(by(0, 1), exchange, 2, Some(handled));
        }
        let fragment = read(&mut attributor, by(0, 10), 1, 1);
        handed(&mut attributor, work(10), own(1), 10 + 2 * HANDED_SOON_NANO);
        let later = 11 + 2 * HANDED_SOON_NANO;
        assert_eq!(attributor.request_sent(by(work(10), later), None), certain(fragment));
        attributor.events_lost(later + 1);
        assert_eq!(attributor.request_sent(by(work(10), later + 2), None), likely(fragment));
        // Two at a time: it may be a loop.
        read(&mut attributor, by(0, later + 3), 2, 2);
        handed(&mut attributor, work(11), own(1), later + 4);
        let third = read(&mut attributor, by(0, later + 5), 3, 3);
        handed(&mut attributor, work(12), own(1), later + 6);
        assert_eq!(attributor.request_sent(by(work(12), later + 7), None), likely(third));
    }

    #[test]
    fn a_virtual_threads_own_work_is_its_line() {
        let mut attributor = attributor();
        attributor.work_handed_over(PROCESS, own(2), 77, (3, 0));
        let fragment = read(&mut attributor, by(77, 10), 1, 1);
        let other = read(&mut attributor, by(78, 11), 2, 2);
        handed(&mut attributor, work(10), own(2), 12);
        assert_eq!(attributor.request_sent(by(work(10), 13), None), certain(fragment));
        assert_eq!(attributor.request_sent(by(78, 13), None), certain(other));
    }

    #[test]
    fn on_a_connection_that_several_share_who_writes_proves_nothing() {
        let mut attributor = attributor();
        handed(&mut attributor, work(10), own(1), 5);
        let fragment = read(&mut attributor, by(work(10), 10), 1, 1);
        let sole = within(fragment, Evidence::SoleRequest, LIKELY);
        assert_eq!(
            attributor.call_made_among_others(by(work(10), 11), None, Call::New(NO_SORT)),
            sole
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut attributor = attributor();
        for number in 1..5 * REMEMBERED as u64 {
            handed(&mut attributor, work(number), own(1), number);
            read(&mut attributor, by(work(number), number), number, number);
            attributor.request_over(by(work(number), number), number, number, None);
        }
        for exchange in 0..5 * READS as u64 {
            read(&mut attributor, by(work(1), exchange), 1, exchange);
        }
        let told = &attributor.processes[&PROCESS].handoffs;
        assert!(told.reads.len() <= 2 * REMEMBERED);
        let reads = told.reads.peek(&Line::Task(work(1)));
        assert!(reads.is_some_and(|reads| reads.last.len() <= READS));
    }

    #[test]
    fn work_that_goes_round_ends() {
        let mut attributor = attributor();
        handed(&mut attributor, work(10), work(11), 5);
        handed(&mut attributor, work(11), work(10), 6);
        assert_eq!(attributor.request_sent(by(work(10), 7), None), Fragment::None);
    }
}
