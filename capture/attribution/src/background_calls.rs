//! Calls that a process makes for no request, as it is seen to: while none is open.
//!
//! A call that is made while exactly one request is open, and of which nothing else is
//! known, is the request's or one of those: of timers, of what renews a session, of what
//! sends reports. How many of those there are is seen while the process serves nobody.
//! They come whether or not a request is open, so as often in a second of the one as of
//! the other; what is made more often while one is open is made for it.
//!
//! Calls are told apart by who makes them (a thread or a task) and by what they are: a
//! timer's thread is found out soon, and threads that make calls for requests only keep
//! their name. Of who makes a first call, that is known which first calls of others were. What
//! a call is may be new each time, as is a query with its date: as long as one of a sort is
//! new, it is judged by all that whoever makes it has called.

use ahash::AHashMap;

/// Below this chance that a call is the request's, it may be or may not be.
const LEAST_LIKELY: f32 = 0.5;
/// Below this one it is made for none, if enough such calls were seen.
const UNLIKELY: f32 = 0.25;
/// Calls without a request that are enough.
const ENOUGH_IDLE: f32 = 3.0;
/// Calls of a sort that a line must have made, or others have begun with, to be judged by
/// those alone.
const KNOWN_SORT: f32 = 3.0;
/// Stands for all sorts.
const ANY: u64 = u64::MAX;
/// Lines of execution, each with what it calls, that are remembered of a process.
const MAX_CALLERS: usize = 256;
/// Sorts of calls that are told apart in it.
const MAX_SORTS: usize = 64;
/// After so much time, what was seen counts half: programs change their ways.
const FADES_AFTER_NANO: u64 = 60_000_000_000;
/// What has faded to less is forgotten.
const FADED: f32 = 0.3;
/// How many of a line's own calls say as much as first calls of others.
const FIRSTS_WEIGHT: f32 = 1.0;
/// BackgroundCalls time that nothing was seen in, to begin with: one call within a millisecond of it
/// does not make a thousand a second.
const IDLE_BEFORE_NANO: u64 = 20_000_000;

/// Calls that were made while no request was open, and while one was.
#[derive(Debug, Clone, Copy, Default)]
struct Calls {
    idle: f32,
    busy: f32,
}

impl Calls {
    const fn total(self) -> f32 {
        self.idle + self.busy
    }

    fn count(&mut self, busy: bool) {
        *if busy { &mut self.busy } else { &mut self.idle } += 1.0;
    }

    /// Counts it; `true` where it is the first.
    fn count_first(&mut self, busy: bool) -> bool {
        let first = self.total() == 0.0;
        self.count(busy);
        first
    }

    fn halve(&mut self) -> bool {
        self.idle /= 2.0;
        self.busy /= 2.0;
        self.total() >= FADED
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BackgroundCalls {
    /// When the number of open requests was last known; 0 before the first.
    since_nano: u64,
    /// Time with no request open, and with one; both fade.
    idle_nano: u64,
    busy_nano: u64,
    by_caller: AHashMap<(u64, u64), Calls>,
    by_line: AHashMap<u64, Calls>,
    /// Of each sort, the first calls of each line of execution.
    firsts: AHashMap<u64, Calls>,
}

/// Whose a call is of which nothing else is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Whose {
    /// The only request's that is open, this likely.
    Request(f32),
    Unclear,
    /// No request's.
    Nobodys,
}

impl BackgroundCalls {
    /// So many requests were open until now.
    pub(crate) fn passed(&mut self, open: usize, now_nano: u64) {
        if self.since_nano == 0 {
            self.since_nano = now_nano.max(1);
            return;
        }
        let Some(passed_nano) = now_nano.checked_sub(self.since_nano) else { return };
        self.since_nano = now_nano;
        match open {
            0 => self.idle_nano += passed_nano,
            1 => self.busy_nano += passed_nano,
            _ => {}
        }
        while self.idle_nano + self.busy_nano > FADES_AFTER_NANO {
            self.idle_nano /= 2;
            self.busy_nano /= 2;
            self.by_caller.retain(|_, calls| calls.halve());
            self.by_line.retain(|_, calls| calls.halve());
            self.firsts.retain(|_, calls| calls.halve());
        }
    }

    /// A call of which nothing is known but that `open` requests are open, none or one, is
    /// made on this line of execution, of this sort.
    pub(crate) fn called(&mut self, line: u64, sort: u64, open: usize, now_nano: u64) {
        if open > 1 {
            return;
        }
        self.passed(open, now_nano);
        let busy = open == 1;
        make_room(&mut self.by_caller, &(line, sort));
        make_room(&mut self.by_line, &line);
        if self.by_line.entry(line).or_default().count_first(busy) {
            self.firsts.entry(ANY).or_default().count(busy);
        }
        if self.by_caller.entry((line, sort)).or_default().count_first(busy)
            && (self.firsts.len() < MAX_SORTS || self.firsts.contains_key(&sort))
        {
            self.firsts.entry(sort).or_default().count(busy);
        }
    }

    /// Whose a call is that was made, and counted, while so many requests were open: with one,
    /// it is that one's, at most this sure, or nobody's.
    pub(crate) fn whose(&self, line: u64, sort: u64, open: usize, most: f32) -> Whose {
        let firsts = self.firsts.get(&sort).copied().unwrap_or_default();
        let own = self.by_caller.get(&(line, sort)).copied().unwrap_or_default();
        if own.total() + firsts.total() > KNOWN_SORT {
            return self.judged(own, firsts, open, most);
        }
        let firsts = self.firsts.get(&ANY).copied().unwrap_or_default();
        let own = self.by_line.get(&line).copied().unwrap_or_default();
        self.judged(own, firsts, open, most)
    }

    fn judged(&self, mut own: Calls, firsts: Calls, open: usize, most: f32) -> Whose {
        // That it is made says nothing of the line yet, if it is the first.
        if open == 1 {
            own.busy = (own.busy - 1.0).max(0.0);
        }
        let weight = FIRSTS_WEIGHT / firsts.total().max(1.0);
        let idle = own.idle + weight * firsts.idle;
        if idle == 0.0 {
            return Whose::Request(most);
        }
        let busy = own.busy + weight * firsts.busy;
        let idle_nano = self.idle_nano.saturating_add(IDLE_BEFORE_NANO);
        let for_each_idle = self.busy_nano as f32 / idle_nano as f32;
        let likely = |idle: f32| if busy > 0.0 { 1.0 - idle * for_each_idle / busy } else { 0.0 };
        // Few calls say little of how many there usually are: it may be a deviation more.
        let at_least = likely(idle + idle.sqrt());
        if at_least >= LEAST_LIKELY {
            Whose::Request(at_least.min(most))
        } else if likely(idle) <= UNLIKELY && own.idle >= ENOUGH_IDLE {
            Whose::Nobodys
        } else {
            Whose::Unclear
        }
    }
}

/// Makes room for one more.
fn make_room<K: Eq + std::hash::Hash>(calls: &mut AHashMap<K, Calls>, next: &K) {
    if calls.len() < MAX_CALLERS || calls.contains_key(next) {
        return;
    }
    // Tasks make one call and are gone; what lasts makes more.
    calls.retain(|_, calls| calls.total() > 1.0);
    if calls.len() > MAX_CALLERS / 2 {
        calls.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: f32 = 0.9;
    const MILLI: u64 = 1_000_000;
    const SORT: u64 = 3;
    const TIMER: u64 = 1;
    const WORKER: u64 = 2;

    /// A process that is idle, and serves one request, for so long each time.
    struct Process {
        background: BackgroundCalls,
        now_nano: u64,
    }

    impl Process {
        fn new() -> Self {
            let mut background = BackgroundCalls::default();
            background.passed(0, 1);
            Self { background, now_nano: 1 }
        }

        /// While so many requests are open, these make calls of a sort.
        fn spends(&mut self, millis: u64, open: usize, callers: &[u64], sort: u64) {
            let each_nano = millis * MILLI / (callers.len() as u64 + 1);
            for caller in callers {
                self.now_nano += each_nano;
                self.background.called(*caller, sort, open, self.now_nano);
            }
            self.now_nano += each_nano;
            self.background.passed(open, self.now_nano);
        }

        /// What is said of one more call.
        fn whose(&mut self, caller: u64, sort: u64) -> Whose {
            self.background.called(caller, sort, 1, self.now_nano);
            self.background.whose(caller, sort, 1, MOST)
        }

        /// How likely it is a request's, where that is said.
        fn call(&mut self, caller: u64, sort: u64) -> Option<f32> {
            match self.whose(caller, sort) {
                Whose::Request(likely) => Some(likely),
                Whose::Unclear | Whose::Nobodys => None,
            }
        }
    }

    #[test]
    fn who_makes_no_calls_while_idle_makes_them_for_requests() {
        let mut process = Process::new();
        for worker in 0..1000 {
            process.spends(5, 0, &[], SORT);
            process.spends(5, 1, &[worker], SORT);
            assert_eq!(process.call(worker, SORT), Some(MOST));
        }
    }

    #[test]
    fn a_timer_that_calls_as_often_in_between_has_nothing_to_do_with_requests() {
        let mut process = Process::new();
        for _ in 0..20 {
            process.spends(10, 0, &[TIMER], SORT);
            process.spends(10, 1, &[TIMER, WORKER], SORT);
        }
        assert_eq!(process.call(TIMER, SORT), None);
        assert_eq!(process.call(WORKER, SORT), Some(MOST));
        // A third may be like the one or like the other.
        assert_eq!(process.call(9, SORT), None);
        assert_eq!(process.whose(TIMER, SORT), Whose::Nobodys);
        // What it calls for the first time is like what it has called before,
        assert_eq!(process.whose(TIMER, SORT + 1), Whose::Nobodys);
        for _ in 0..5 {
            process.spends(10, 0, &[TIMER], SORT);
            process.spends(10, 1, &[TIMER, TIMER], SORT + 1);
        }
        // and what nobody asks for between requests is asked for them.
        assert_eq!(process.call(TIMER, SORT + 1), Some(MOST));
    }

    #[test]
    fn jobs_whose_calls_are_new_each_time_are_nobodys_however_many_requests_are_open() {
        let mut process = Process::new();
        for round in 0..50 {
            process.spends(10, 0, &[TIMER], 1000 + 2 * round);
            process.spends(10, 1, &[TIMER, WORKER], 1001 + 2 * round);
        }
        assert_eq!(process.whose(TIMER, 5000), Whose::Nobodys);
        assert_eq!(process.background.whose(TIMER, 5001, 7, MOST), Whose::Nobodys);
        assert_eq!(process.background.whose(WORKER, 5001, 7, MOST), Whose::Request(MOST));
        assert_eq!(process.whose(WORKER, 5002), Whose::Request(MOST));
    }

    #[test]
    fn tasks_that_are_new_and_call_something_new_are_judged_by_those_before_them() {
        let mut process = Process::new();
        for round in 0..100 {
            process.spends(10, 0, &[1000 + round], 10_000 + round);
            process.spends(10, 1, &[2000 + round], 20_000 + round);
        }
        assert_eq!(process.call(5000, 50_000), None);
    }

    #[test]
    fn where_one_thread_does_both_the_least_likely_share_is_said() {
        let mut process = Process::new();
        for _ in 0..100 {
            process.spends(10, 0, &[WORKER], SORT);
            process.spends(10, 1, &[WORKER; 4], SORT);
        }
        let sure = process.call(WORKER, SORT).expect("three in four");
        assert!((sure - 0.73).abs() < 0.02, "{sure}");
    }

    #[test]
    fn tasks_that_make_one_call_each_are_judged_by_those_before_them() {
        let mut process = Process::new();
        for round in 0..100 {
            process.spends(10, 0, &[1000 + round], SORT);
            process.spends(10, 1, &[2000 + round], SORT);
        }
        assert_eq!(process.call(5000, SORT), None);
    }

    #[test]
    fn a_rare_call_hardly_counts() {
        let mut process = Process::new();
        for _ in 0..50 {
            process.spends(100, 0, &[], SORT);
            process.spends(10, 1, &[WORKER; 2], SORT);
        }
        process.spends(1000, 0, &[WORKER], SORT);
        assert_eq!(process.call(WORKER, SORT), Some(MOST));
    }

    #[test]
    fn ways_that_change_are_forgotten() {
        let mut process = Process::new();
        for _ in 0..100 {
            process.spends(10, 0, &[WORKER], SORT);
            process.spends(10, 1, &[WORKER], SORT);
        }
        assert_eq!(process.call(WORKER, SORT), None);
        for _ in 0..40 {
            process.spends(20_000, 0, &[], SORT);
            process.spends(10, 1, &[WORKER], SORT);
        }
        assert_eq!(process.call(WORKER, SORT), Some(MOST));
    }

    #[test]
    fn what_comes_before_the_first_request_counts_and_with_several_does_not() {
        let mut process = Process { background: BackgroundCalls::default(), now_nano: 1 };
        process.spends(100, 2, &[WORKER; 10], SORT);
        assert!(process.background.by_caller.is_empty());
        process.spends(100, 0, &[TIMER; 10], SORT);
        process.spends(100, 1, &[TIMER; 10], SORT);
        assert_eq!(process.call(TIMER, SORT), None);
    }

    #[test]
    fn memory_is_bounded_and_what_lasts_stays() {
        let mut process = Process::new();
        for round in 0..2000 {
            process.spends(10, 0, &[TIMER, 1000 + round], round);
            process.spends(10, 0, &[TIMER], SORT);
        }
        assert!(process.background.by_caller.len() <= MAX_CALLERS);
        assert!(process.background.firsts.len() <= MAX_SORTS);
        assert!(process.background.by_caller.contains_key(&(TIMER, SORT)));
    }
}
