//! Batches: calls that a thread writes together, for what it has read before.
//!
//! Some client libraries put what they are asked for in a queue, and write all of it when the
//! loop has nothing else to do (node-redis, HTTP/2 in Node.js); answers go out at once, and so
//! before those calls. What was read is gone on with in its order. So, of what was read, that
//! which has led to an answer is known by the answer, and what remains has led to the calls, one
//! each and in that order. That is only believed of as many calls as there are causes left: where
//! there are more, or still fewer after the next reads, none of them is given to any, and it
//! speaks against the process. So does an answer to a request of which nothing was read that is left, or that comes before one
//! that is answered already.

use std::collections::VecDeque;

use ahash::AHashMap;
use spanwise_capture_protocols::attribution::Caller;

use super::lineage::Recent;
use super::share::Share;
use super::{UNKNOWN, is_strand};

/// As for turns: loops are few.
const MAX_THREADS: usize = 256;
/// Things read, calls and answers of one stretch of a thread's work.
const MAX_WAITING: usize = 1024;
/// Reads after which there may still be fewer calls than causes: something else may be read before
/// all is done.
const MAX_PUT_OFF: u8 = 2;
/// Calls that follow from each other are followed so far.
const MAX_STEPS: usize = 64;

/// What a thread has read since it waited last and has not gone on with, and what it has done.
#[derive(Debug, Default)]
struct Stretch {
    sleeps: u32,
    /// Fragments of requests, and what stands for them.
    causes: VecDeque<u64>,
    calls: Vec<u64>,
    /// Fragments of requests that were answered, and it is not known what has led to that.
    answers: Vec<u64>,
    /// So many of the causes were there before the one that was answered last.
    passed: usize,
    /// Reads since its first call.
    put_off: u8,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    by_thread: AHashMap<u32, Stretch>,
    /// For what calls were made, by what stands for that.
    resolved: Recent<u64, u64>,
}

impl Batches {
    /// What this stands for, as far as that is known.
    pub(crate) fn resolved(&self, fragment: u64) -> u64 {
        let mut found = fragment;
        for _ in 0..MAX_STEPS {
            match self.resolved.peek(&found) {
                Some(next) if is_strand(found) => found = *next,
                _ => break,
            }
        }
        found
    }

    /// A thread reads something: what it has done so far was for what it had read before.
    pub(crate) fn read(&mut self, reader: Caller, seen: &mut Share) {
        let Caller { thread, sleeps, .. } = reader;
        if self.by_thread.len() >= MAX_THREADS && !self.by_thread.contains_key(&thread) {
            return;
        }
        let stretch = self.by_thread.entry(thread).or_default();
        let may_come = stretch.answers.is_empty() && stretch.calls.len() < stretch.causes.len();
        stretch.passed = 0;
        if may_come
            && !stretch.calls.is_empty()
            && stretch.sleeps == sleeps
            && stretch.put_off < MAX_PUT_OFF
        {
            stretch.put_off += 1;
            return;
        }
        let mut stretch = std::mem::take(stretch);
        let (calls, answers) =
            (std::mem::take(&mut stretch.calls), std::mem::take(&mut stretch.answers));
        match (calls.is_empty(), answers.is_empty()) {
            (true, true) => {}
            (false, true) => {
                let causes = std::mem::take(&mut stretch.causes);
                if calls.len() == causes.len() {
                    for (call, cause) in calls.into_iter().zip(causes) {
                        self.resolve(call, cause);
                    }
                } else {
                    seen.count(false);
                }
            }
            (true, false) => {
                let unknown = |cause: &u64| is_strand(self.resolved(*cause));
                let (strands, known): (VecDeque<u64>, VecDeque<u64>) =
                    stretch.causes.iter().copied().partition(unknown);
                if strands.len() == answers.len() {
                    for (strand, answered) in strands.into_iter().zip(answers) {
                        self.resolve(strand, answered);
                    }
                }
                stretch.causes = known;
            }
            // Which of both goes first cannot be seen.
            (false, false) => stretch.causes.clear(),
        }
        if stretch.sleeps != sleeps {
            stretch.causes.clear();
            stretch.sleeps = sleeps;
        }
        stretch.put_off = 0;
        self.by_thread.insert(thread, stretch);
    }

    /// What stands for something stands for this.
    fn resolve(&mut self, strand: u64, cause: u64) {
        let (strand, cause) = (self.resolved(strand), self.resolved(cause));
        if is_strand(strand) && cause != UNKNOWN && cause != strand {
            self.resolved.insert(strand, cause);
        }
    }

    /// What it has read is of this fragment's request.
    pub(crate) fn read_for(&mut self, reader: Caller, fragment: u64) {
        if let Some(stretch) = self.stretch(reader)
            && stretch.causes.len() < MAX_WAITING
        {
            stretch.causes.push_back(fragment);
        }
    }

    /// It has written a call, for this.
    pub(crate) fn called(&mut self, sender: Caller, made_for: u64) {
        if let Some(stretch) = self.stretch(sender)
            && stretch.calls.len() < MAX_WAITING
        {
            stretch.calls.push(made_for);
        }
    }

    /// It has written the first bytes of the answer to this fragment's request. What that says of
    /// the process is counted where other requests are open.
    pub(crate) fn answered(&mut self, writer: Caller, fragment: u64, seen: Option<&mut Share>) {
        let Some(stretch) = self.stretch(writer) else { return };
        let (causes, passed) = (std::mem::take(&mut stretch.causes), stretch.passed);
        let known: Vec<u64> = causes.into_iter().map(|cause| self.resolved(cause)).collect();
        let found = known.iter().position(|cause| *cause == fragment);
        let is_unknown = found.is_none() && known.iter().any(|cause| is_strand(*cause));
        if let Some(seen) = seen.filter(|_| !is_unknown) {
            seen.count(found.is_some_and(|at| at >= passed));
        }
        let Some(stretch) = self.stretch(writer) else { return };
        stretch.causes = known.into_iter().filter(|cause| *cause != fragment).collect();
        stretch.passed = found.unwrap_or(passed).min(stretch.causes.len());
        if is_unknown && stretch.answers.len() < MAX_WAITING {
            stretch.answers.push(fragment);
        }
    }

    /// What a thread does now; where it has waited since it read, nothing is left of that.
    fn stretch(&mut self, caller: Caller) -> Option<&mut Stretch> {
        let stretch = self.by_thread.get_mut(&caller.thread)?;
        let is_same = stretch.sleeps == caller.sleeps && caller.sleeps != 0;
        if !is_same {
            stretch.causes.clear();
        }
        is_same.then_some(stretch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::STRAND;

    fn at(sleeps: u32) -> Caller {
        Caller { process: 1, thread: 7, task: 0, parent_task: 0, time_nano: 0, sleeps }
    }

    const fn strand(number: u64) -> u64 {
        number | STRAND
    }

    /// Three requests come, their first calls are written together, and so on.
    fn rounds(batches: &mut Batches, seen: &mut Share, count: u64) {
        for round in 0..count {
            let own = [1, 2, 3].map(|request| 10 * round + request);
            let [first, second] = [100, 200].map(|call| own.map(|it| strand(it + 10_000 * call)));
            for request in own {
                batches.read(at(1), seen);
                batches.read_for(at(1), request);
            }
            first.iter().for_each(|call| batches.called(at(1), *call));
            batches.read(at(1), seen);
            first.iter().for_each(|call| batches.read_for(at(1), *call));
            second.iter().for_each(|call| batches.called(at(1), *call));
            batches.read(at(2), seen);
            second.iter().for_each(|call| batches.read_for(at(2), *call));
            for request in own {
                batches.answered(at(2), request, Some(seen));
            }
            assert_eq!(first.map(|call| batches.resolved(call)), own);
            assert_eq!(second.map(|call| batches.resolved(call)), own);
        }
    }

    #[test]
    fn calls_written_together_are_for_what_was_read_in_that_order() {
        let (mut batches, mut seen) = (Batches::default(), Share::default());
        rounds(&mut batches, &mut seen, 10);
        assert_eq!([seen.total(), seen.wrong()], [30.0, 0.0]);
    }

    #[test]
    fn what_has_led_to_an_answer_has_led_to_no_call() {
        let (mut batches, mut seen) = (Batches::default(), Share::default());
        batches.read(at(1), &mut seen);
        for cause in [1, 2, 3] {
            batches.read_for(at(1), cause);
        }
        // Written after the calls, too.
        batches.called(at(1), strand(20));
        batches.answered(at(1), 1, Some(&mut seen));
        batches.called(at(1), strand(30));
        batches.read(at(1), &mut seen);
        assert_eq!([20, 30].map(|call| batches.resolved(strand(call))), [2, 3]);
        assert_eq!([seen.total(), seen.wrong()], [1.0, 0.0]);
    }

    #[test]
    fn more_or_fewer_calls_than_causes_are_nobodys_and_speak_against_it() {
        for calls in [1, 3] {
            let (mut batches, mut seen) = (Batches::default(), Share::default());
            batches.read(at(1), &mut seen);
            batches.read_for(at(1), 1);
            batches.read_for(at(1), 2);
            for call in 0..calls {
                batches.called(at(1), strand(call));
            }
            batches.read(at(1), &mut seen);
            batches.read(at(2), &mut seen);
            assert!((0..calls).all(|call| batches.resolved(strand(call)) == strand(call)));
            assert_eq!([seen.total(), seen.wrong()], [1.0, 1.0]);
        }
    }

    #[test]
    fn what_is_read_before_all_is_done_waits_for_its_own_call() {
        let (mut batches, mut seen) = (Batches::default(), Share::default());
        batches.read(at(1), &mut seen);
        batches.read_for(at(1), 1);
        batches.read_for(at(1), 2);
        batches.called(at(1), strand(20));
        batches.read(at(1), &mut seen);
        batches.read_for(at(1), 3);
        batches.answered(at(1), 1, Some(&mut seen));
        batches.called(at(1), strand(30));
        batches.read(at(1), &mut seen);
        assert_eq!([20, 30].map(|call| batches.resolved(strand(call))), [2, 3]);
        assert_eq!([seen.total(), seen.wrong()], [1.0, 0.0]);
    }

    #[test]
    fn answers_out_of_that_order_speak_against_it() {
        let (mut batches, mut seen) = (Batches::default(), Share::default());
        batches.read(at(1), &mut seen);
        for cause in [1, 2, 3] {
            batches.read_for(at(1), cause);
        }
        batches.answered(at(1), 3, Some(&mut seen));
        batches.answered(at(1), 1, Some(&mut seen));
        batches.answered(at(1), 9, Some(&mut seen));
        assert_eq!([seen.total(), seen.wrong()], [3.0, 2.0]);
    }

    #[test]
    fn answers_tell_of_calls_of_which_nothing_is_known() {
        let (mut batches, mut seen) = (Batches::default(), Share::default());
        batches.read(at(1), &mut seen);
        batches.read_for(at(1), strand(10));
        batches.read_for(at(1), strand(20));
        batches.answered(at(1), 1, Some(&mut seen));
        batches.answered(at(1), 2, Some(&mut seen));
        batches.read(at(1), &mut seen);
        assert_eq!([10, 20].map(|call| batches.resolved(strand(call))), [1, 2]);
        assert_eq!(seen.total(), 0.0, "that is no evidence");
    }

    #[test]
    fn after_a_wait_nothing_is_left() {
        let (mut batches, mut seen) = (Batches::default(), Share::default());
        batches.read(at(1), &mut seen);
        batches.read_for(at(1), 1);
        batches.called(at(2), strand(10));
        batches.read(at(2), &mut seen);
        assert_eq!(batches.resolved(strand(10)), strand(10));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut batches, mut seen) = (Batches::default(), Share::default());
        for thread in 0..1000 {
            batches.read(Caller { thread, ..at(1) }, &mut seen);
        }
        assert_eq!(batches.by_thread.len(), MAX_THREADS);
        for number in 0..5_000 {
            let thread = Caller { thread: 0, ..at(1) };
            batches.read_for(thread, 1);
            batches.called(thread, strand(number));
            batches.answered(thread, 5, None);
        }
        let stretch = &batches.by_thread[&0];
        assert!(stretch.causes.len() <= MAX_WAITING && stretch.calls.len() <= MAX_WAITING);
    }
}
