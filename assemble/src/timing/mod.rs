//! Links by time alone, for calls that no other evidence assigns: which of the requests that their
//! process served at that time made them.
//!
//! A model of each process is learned: which calls its requests make, in which order, and after
//! which delays (`model.rs`). Calls are then assigned jointly so that all requests together are as
//! likely as possible (`solve.rs`). A link is made if most of the likely assignments contain it.
//! Such a link is a guess, is marked as one, and has a confidence. TraceWeaver (SIGCOMM'24) showed
//! that delays carry this much information.

mod budget;
mod model;
mod solve;
#[cfg(test)]
mod tests;

use spanwise_model::{Capture, Evidence};

use self::budget::Budget;
use self::model::{Model, What};
use self::solve::{Call, Effort, Random, Request, Solution, State};
use crate::index::Stamped;
use crate::parents::Parent;
use crate::row::Row;
use crate::slot::Slot;
use crate::text::Text;

/// How long after a call its requests are waited for: they are told at their ends. In the time
/// of what is told, so that the same rows give the same links however fast they come.
const WAIT_NANO: i64 = 700_000_000;
/// Between two looks at a process, in that time.
const EVERY_NANO: i64 = 600_000_000;
/// How long requests and calls are kept to be looked at, in that time.
const KEEP_NANO: i64 = 3_000_000_000;
/// What was told in so long a time is known to the rules.
const JOINED_NANO: u64 = 500_000_000;
/// Nothing more comes of a process that has told nothing for so long.
const QUIET_NANO: u64 = 700_000_000;
/// No call waits longer.
const LONGEST_NANO: u64 = 1_300_000_000;
/// How long a process without requests and calls is remembered.
const REMEMBER_NANO: u64 = 120_000_000_000;
/// Below, nothing is said of a call.
const SURE_ENOUGH: f32 = 0.62;
/// The surest that time alone is.
const SUREST: f32 = 0.97;
/// Coefficients of the confidence, see [`sure`].
const SURE_ALONE: f64 = 1.12;
const SURE_BY_SHARE: f64 = 0.60;
const SURE_BY_LEARNT: f64 = 0.18;
const SURE_BY_OTHER: f64 = 0.16;
const UNSURE_BY_WORK: f64 = 0.84;
/// How much of that holds under load and in programs that it was not fitted to, as
/// `make bench-accuracy` shows.
const SURE_ELSEWHERE: f64 = 0.96;
const UNSURE_ELSEWHERE: f64 = 0.5;
/// Of so few rounds, none in none is not never.
const ROUNDS_DOUBT: f64 = 0.03;
/// Maximum requests in progress at once for which links are made.
const MOST_AT_WORK: f64 = 8.0;
/// Maximum processes.
const MAX_PROCESSES: usize = 4096;
/// Maximum requests and calls of all processes together. Later ones are ignored.
const MAX_KEPT: usize = 200_000;
/// Maximum kinds of requests and calls that are distinguished in a process.
const MAX_SORTS: usize = 64;
/// Maximum entries in a process's model.
const MAX_MODEL: usize = 16_384;
/// Maximum calls that are assigned together. If there are more, no links are made.
const MAX_CALLS: usize = 4096;
/// A process of which nothing that was found can be trusted is not looked at again for
/// this long: who is busy stays so for a while.
const HOPELESS_FOR_NANO: i64 = 3_000_000_000;
/// Requests that a process must have handled before its model is more than a first
/// look can say.
const KNOWN_AFTER: f64 = 20.0;
/// From this many requests on, the model learns only while calls are being assigned.
const ENOUGH_KNOWN: f64 = 200.0;
/// How sure all that may concern a request must be to be learnt from, and what that
/// counts beside what is known.
const LEARNT_FROM: f32 = 0.74;
const WEIGHT_OF_FOUND: f64 = 0.2;

type HashMap<K, V> = hashbrown::HashMap<K, V, ahash::RandomState>;

/// Results of the assignment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimingCounters {
    /// Calls that were assigned to a request.
    pub linked: u64,
    /// Calls that were not assigned, because several requests or none were likely.
    pub unclear: u64,
    /// Calls that were not examined, because there were too many.
    pub skipped: u64,
}

/// What the window knows about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallLink {
    /// The row is no longer in the window.
    Gone,
    /// No evidence assigns the call to a request.
    Orphan,
    /// No request made the call.
    OfNone,
    /// The call is a child of this row.
    Of(Slot),
}

#[derive(Debug, Clone, Copy)]
struct Served {
    row: Stamped,
    request: Request,
    learnt: bool,
}

#[derive(Debug, Clone, Copy)]
struct Made {
    row: Stamped,
    call: Call,
    noted_nano: u64,
    /// It ended before the last look.
    looked_at: bool,
    /// It was said whose it is, or that this is not known.
    said: bool,
    /// The reported parent, if there was one.
    said_of: Option<Slot>,
}

#[derive(Debug, Default)]
struct Process {
    sorts: HashMap<(bool, Text), What>,
    model: Model,
    /// Background calls were counted up to this time.
    counted_nano: i64,
    served: Vec<Served>,
    made: Vec<Made>,
    /// Calls that wait for a decision.
    waiting: usize,
    /// The end of what was looked at last, and of the last row.
    looked_nano: i64,
    told_nano: i64,
    hopeless_until_nano: i64,
    /// When it was heard of last, of this machine.
    last_nano: u64,
    /// Its place in the order in which processes came, and how often it was looked at: the
    /// same rows are given the same chances.
    number: u64,
    looks: u64,
}

impl Process {
    fn sort(&mut self, serves: bool, name: Text) -> What {
        let next = self.sorts.len().min(MAX_SORTS);
        if next == MAX_SORTS {
            return self.sorts.get(&(serves, name)).copied().unwrap_or(MAX_SORTS as What);
        }
        *self.sorts.entry((serves, name)).or_insert(next as What)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Timing {
    processes: HashMap<(Option<Text>, u32), Process>,
    /// Processes so far.
    came: u64,
    /// Requests and calls that are kept, but for those let go since the last look.
    kept: usize,
    budget: Budget,
    counters: TimingCounters,
}

impl Timing {
    pub(crate) const fn counters(&self) -> TimingCounters {
        self.counters
    }

    /// Records a request or a call that the kernel captured.
    pub(crate) fn note(&mut self, row: &Row, at: Stamped, now_nano: u64) {
        let (Some(id), false) = (row.process_id, row.is_elsewhere()) else { return };
        let serves = match row.capture {
            Capture::ServerProcess => true,
            Capture::ClientProcess => false,
            _ => return,
        };
        if self.kept >= MAX_KEPT {
            return;
        }
        let known = self.processes.len();
        let process = match self.processes.entry((row.host, id)) {
            hashbrown::hash_map::Entry::Vacant(_) if known >= MAX_PROCESSES => return,
            entry => entry.or_default(),
        };
        self.kept += 1;
        if process.number == 0 {
            self.came += 1;
            process.number = self.came;
        }
        process.last_nano = now_nano;
        let (start_nano, end_nano) = (row.start_unix_nano, row.end_unix_nano);
        process.told_nano = process.told_nano.max(end_nano);
        self.budget.passed(end_nano);
        if serves {
            let what = process.sort(true, row.operation);
            let request = Request { start_nano, end_nano, what };
            process.served.push(Served { row: at, request, learnt: false });
        } else {
            let what = process.sort(false, row.operation);
            let call = Call { start_nano, end_nano, what, state: State::Free };
            process.made.push(Made {
                row: at,
                call,
                noted_nano: now_nano,
                looked_at: false,
                said: false,
                said_of: None,
            });
        }
    }

    /// Registers a call that no evidence assigns. Returns whether a decision will follow.
    pub(crate) fn waits(&mut self, row: &Row) -> bool {
        let Some(id) = row.process_id else { return false };
        let Some(process) = self.processes.get_mut(&(row.host, id)) else { return false };
        let waits = !process.served.is_empty();
        process.waiting += usize::from(waits);
        waits
    }

    /// Decides about calls that have waited long enough, or about all if `all`. Returns each call
    /// with its parent, if one is likely.
    pub(crate) fn decide(
        &mut self,
        now_nano: u64,
        all: bool,
        known: impl Fn(Stamped) -> CallLink,
    ) -> Vec<(Stamped, Option<Parent>)> {
        let mut decided = Vec::new();
        let Self { processes, budget, counters, .. } = self;
        budget.begin();
        let due = |process: &&mut Process| process.next_look(now_nano, all).is_some();
        let mut due: Vec<&mut Process> = processes.values_mut().filter(due).collect();
        due.sort_unstable_by_key(|process| process.number);
        for process in due {
            while let Some(until_nano) = process.next_look(now_nano, all)
                && (all || budget.goes_on())
            {
                let so_far = decided.len();
                process.look(until_nano, &mut decided, &known, budget, counters);
                let said = decided.len() - so_far;
                process.waiting = process.waiting.saturating_sub(said);
            }
            if process.made.iter().all(|made| made.said || made.looked_at) {
                process.waiting = 0;
            }
        }
        processes.retain(|_, process| {
            let silent_nano = now_nano.saturating_sub(process.last_nano);
            if silent_nano > 2 * LONGEST_NANO {
                process.served.clear();
                process.made.clear();
            }
            silent_nano < REMEMBER_NANO
        });
        self.kept = processes.values().map(|one| one.served.len() + one.made.len()).sum();
        decided
    }
}

impl Process {
    /// Until when it is looked at next, if that is due: for calls that ended by then.
    fn next_look(&self, now_nano: u64, all: bool) -> Option<i64> {
        let new = || self.made.iter().filter(|made| !made.looked_at);
        let first = new().min_by_key(|made| made.call.end_nano)?;
        let next = self.looked_nano.saturating_add(EVERY_NANO).max(first.call.end_nano);
        let is_quiet = now_nano.saturating_sub(self.last_nano) >= QUIET_NANO;
        let is_told = self.told_nano.saturating_sub(next) >= WAIT_NANO;
        let is_overdue = now_nano.saturating_sub(first.noted_nano) >= LONGEST_NANO;
        let is_joined = |made: &Made| now_nano.saturating_sub(made.noted_nano) >= JOINED_NANO;
        let joined = || new().filter(|made| made.call.end_nano <= next).all(is_joined);
        (all || is_overdue || ((is_quiet || is_told) && joined())).then_some(next)
    }

    /// The requests, in the order of their starts, and the calls, with what is known
    /// of them.
    fn gather(&mut self, known: &impl Fn(Stamped) -> CallLink) -> (Vec<Request>, Vec<Call>) {
        self.served.retain(|served| known(served.row) != CallLink::Gone);
        self.made.retain(|made| known(made.row) != CallLink::Gone);
        self.served.sort_by_key(|served| served.request.start_nano);
        let requests = self.served.iter().map(|served| served.request).collect();
        let by_slot: HashMap<Slot, usize> =
            self.served.iter().enumerate().map(|(at, served)| (served.row.slot, at)).collect();
        for made in &mut self.made {
            made.call.state = match known(made.row) {
                CallLink::Of(parent) => {
                    by_slot.get(&parent).map_or(State::Elsewhere, |at| State::For(*at))
                }
                CallLink::OfNone => State::ForNone,
                // A reported decision is final.
                _ if made.said => {
                    let of = made.said_of.and_then(|parent| by_slot.get(&parent));
                    of.map_or(State::Unclear, |at| State::For(*at))
                }
                _ => State::Free,
            };
        }
        (requests, self.made.iter().map(|made| made.call).collect())
    }

    /// Learns from requests whose calls are all known.
    fn learn_known(
        &mut self,
        is_over: impl Fn(&Made) -> bool,
        known: &impl Fn(Stamped) -> CallLink,
    ) {
        let (requests, calls) = self.gather(known);
        if calls.len() <= MAX_CALLS {
            self.count_nobodys(&requests, &calls, &is_over);
            self.learn(&requests, &calls, &[], is_over);
        }
    }

    /// The start of the earliest call that may still be undecided.
    fn over_before(&self, is_over: impl Fn(&Made) -> bool) -> i64 {
        let first_open = self.made.iter().filter(|made| !is_over(made));
        first_open.map(|made| made.call.start_nano).min().unwrap_or(i64::MAX)
    }

    /// Counts the background calls since the last count.
    fn count_nobodys(
        &mut self,
        requests: &[Request],
        calls: &[Call],
        is_over: impl Fn(&Made) -> bool,
    ) {
        let starts = || calls.iter().map(|call| call.start_nano);
        let Some((first, last)) = starts().min().zip(starts().max()) else { return };
        let from = self.counted_nano.max(first);
        let to = self.over_before(is_over).min(last.saturating_add(1));
        if from >= to {
            return;
        }
        for (what, calls, nano) in solve::nobodys(requests, calls, (from, to)) {
            self.model.saw_nobodys(what, calls, nano);
        }
        self.counted_nano = to;
    }

    /// Says of calls that ended by this time whose they are.
    fn look(
        &mut self,
        until_nano: i64,
        decided: &mut Vec<(Stamped, Option<Parent>)>,
        known: &impl Fn(Stamped) -> CallLink,
        budget: &mut Budget,
        counters: &mut TimingCounters,
    ) {
        let may_say = |made: &Made| made.call.end_nano <= until_nano;
        // What came long after is looked at when its turn comes, as if it came later.
        let horizon_nano = until_nano.saturating_add(WAIT_NANO);
        let served = partition(&mut self.served, |served| served.request.end_nano <= horizon_nano);
        let made = partition(&mut self.made, |made| made.call.end_nano <= horizon_nano);
        self.looked_nano = until_nano;
        self.looks += 1;
        if self.waiting > 0 {
            self.find_and_say(decided, may_say, known, budget, counters);
        } else if self.model.requests() < ENOUGH_KNOWN {
            self.learn_known(may_say, known);
        }
        for made in &mut self.made {
            let over = may_say(&*made);
            made.looked_at |= over;
        }
        let kept_nano = until_nano.saturating_sub(KEEP_NANO);
        self.served.retain(|served| served.request.end_nano > kept_nano);
        self.made.retain(|made| made.call.end_nano > kept_nano);
        self.served.extend(served);
        self.made.extend(made);
    }

    fn find_and_say(
        &mut self,
        decided: &mut Vec<(Stamped, Option<Parent>)>,
        may_say: impl Fn(&Made) -> bool,
        known: &impl Fn(Stamped) -> CallLink,
        budget: &mut Budget,
        counters: &mut TimingCounters,
    ) {
        if !self.made.iter().any(|made| !made.said && may_say(made)) {
            return;
        }
        let (requests, calls) = self.gather(known);
        if calls.len() <= MAX_CALLS {
            self.count_nobodys(&requests, &calls, &may_say);
        }
        let orphans = calls.iter().filter(|call| call.state == State::Free).count();
        let hopeless = self.looked_nano < self.hopeless_until_nano;
        let effort = budget.effort().filter(|_| orphans <= MAX_CALLS && !hopeless);
        let skipped = effort.is_none();
        let mut given_up = false;
        let found = effort.map_or_else(Vec::new, |effort| {
            let mut random = Random::new(self.number << 32 | self.looks);
            let solution = self.find(&requests, &calls, (&mut random, effort));
            budget.spend(solution.steps);
            given_up = solution.given_up;
            if given_up || solution.at_work > MOST_AT_WORK {
                self.hopeless_until_nano = self.looked_nano.saturating_add(HOPELESS_FOR_NANO);
            }
            solution.found
        });
        for (at, made) in self.made.iter_mut().enumerate() {
            if made.call.state != State::Free {
                made.said = true;
                continue;
            }
            let likeliest = found.get(at).copied().flatten();
            let sure = likeliest.filter(|(_, sure)| *sure >= SURE_ENOUGH);
            if made.said || !may_say(made) {
                continue;
            }
            made.said = true;
            let parent = sure.map(|(request, sure)| Parent {
                slot: self.served[request].row.slot,
                evidence: Evidence::Timing,
                confidence: sure.min(SUREST),
            });
            made.said_of = parent.map(|parent| parent.slot);
            match parent {
                Some(_) => counters.linked += 1,
                None if given_up || (skipped && !hopeless) => counters.skipped += 1,
                None => counters.unclear += 1,
            }
            decided.push((made.row, parent));
        }
        self.learn(&requests, &calls, &found, may_say);
    }

    /// The likeliest request of each call that is free, and how sure that is.
    fn find(
        &self,
        requests: &[Request],
        calls: &[Call],
        chances: (&mut Random, Effort),
    ) -> Solution {
        let mut solution = self.find_likeliest(requests, calls, chances);
        let shares = nobodys_shares(&self.model, calls);
        for (call, found) in calls.iter().zip(&mut solution.found) {
            if let Some((_, sure)) = found {
                *sure *= 1.0 - shares.get(&call.what).copied().unwrap_or_default();
            }
        }
        solution
    }

    fn find_likeliest(
        &self,
        requests: &[Request],
        calls: &[Call],
        (random, effort): (&mut Random, Effort),
    ) -> Solution {
        let sorts = self.sorts.keys().filter(|(serves, _)| !serves).count();
        let blank = self.model.of_nobody();
        let plain = solve::solve(&blank, requests, calls, sorts, None, (&mut *random, effort));
        if plain.given_up {
            return plain;
        }
        if self.model.requests() >= KNOWN_AFTER {
            return explain(plain, &self.model, requests, calls, sorts, (random, effort));
        }
        let mut model = self.model.clone();
        self.learn_alone(&mut model, requests, calls);
        if model.requests() < KNOWN_AFTER {
            let of = |call: usize| whose(&calls[call], plain.found[call]);
            solve::learn(&mut model, requests, calls, of, |_| 1.0);
        }
        explain(plain, &model, requests, calls, sorts, (random, effort))
    }

    /// Learns from new requests whose calls cannot belong to another request.
    fn learn_alone(&self, model: &mut Model, requests: &[Request], calls: &[Call]) {
        let longest = solve::longest_nano(requests);
        let new = |served: &Served| if served.learnt { 0.0 } else { 1.0 };
        let mut weights: Vec<f64> = self.served.iter().map(new).collect();
        let mut only = vec![None; calls.len()];
        for (call, only) in calls.iter().zip(&mut only) {
            let mut candidates = solve::candidates(requests, longest, call);
            *only = candidates.next().map(|request| (request, 1.0));
            if call.state == State::Free
                && let Some(another) = candidates.next()
            {
                let several = only.iter().map(|(request, _)| *request);
                several.chain([another]).chain(candidates).for_each(|at| weights[at] = 0.0);
            }
        }
        let of = |call: usize| whose(&calls[call], only[call]);
        solve::learn(model, requests, calls, of, |request| weights[request]);
    }

    /// Learns from finished requests without undecided calls.
    ///
    /// Known links count in full. Assigned ones count little, and only if nearly all of them are
    /// certain: a model that learns from its own errors makes more of them.
    fn learn(
        &mut self,
        requests: &[Request],
        calls: &[Call],
        found: &[Option<(usize, f32)>],
        is_over: impl Fn(&Made) -> bool,
    ) {
        let before = self.over_before(is_over);
        let mut weights = vec![0.0; requests.len()];
        for (weight, served) in weights.iter_mut().zip(&mut self.served) {
            if !served.learnt && served.request.end_nano < before {
                served.learnt = true;
                *weight = 1.0;
            }
        }
        let longest = solve::longest_nano(requests);
        for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.state == State::Free) {
            let likeliest = found.get(at).copied().flatten();
            let sure = likeliest.is_some_and(|(_, sure)| sure >= LEARNT_FROM);
            let candidates = || solve::candidates(requests, longest, call);
            // No other request is possible, which is as good as known.
            if likeliest.is_some() && candidates().nth(1).is_none() {
                continue;
            }
            for request in candidates() {
                let weight = if sure { WEIGHT_OF_FOUND } else { 0.0 };
                weights[request] = weight.min(weights[request]);
            }
        }
        if self.model.len() > MAX_MODEL {
            self.model = Model::default();
        }
        let of = |call: usize| whose(&calls[call], found.get(call).copied().flatten());
        solve::learn(&mut self.model, requests, calls, of, |request| weights[request]);
    }
}

/// The likeliest request of each unassigned call.
///
/// The assignment is computed three times: by proximity alone (`plain`), by the learned model, and
/// by a model learned from the second result. The learned model may be outdated, because programs
/// become faster, or slower under load. Of the first and the third, the one with fewer requests in
/// progress at once is used. Its confidence depends on how far the other two agree.
fn explain(
    plain: Solution,
    model: &Model,
    requests: &[Request],
    calls: &[Call],
    sorts: usize,
    (random, effort): (&mut Random, Effort),
) -> Solution {
    let learnt = solve::solve(model, requests, calls, sorts, None, (&mut *random, effort));
    let mut now = model.of_nobody();
    let of = |call: usize| whose(&calls[call], learnt.found[call]);
    solve::learn(&mut now, requests, calls, of, |_| 1.0);
    let again = solve::solve(&now, requests, calls, sorts, Some(&learnt.found), (random, effort));
    let steps = plain.steps + learnt.steps + again.steps;
    if learnt.given_up || again.given_up {
        return Solution { steps, given_up: true, found: vec![None; calls.len()], at_work: 0.0 };
    }
    let (mut better, other) =
        if again.at_work <= plain.at_work { (again, plain) } else { (plain, again) };
    let share_of = |found: Option<(usize, f32)>, request: usize| match found {
        Some((same, share)) if same == request => share,
        _ => 0.0,
    };
    let at_work = better.at_work;
    for (call, found) in better.found.iter_mut().enumerate() {
        let Some((request, share)) = found else { continue };
        let learnt = share_of(learnt.found[call], *request);
        *share = sure(*share, learnt, share_of(other.found[call], *request), at_work);
    }
    Solution { steps, ..better }
}

/// The probability that a link is right. The link was found in `share` of the sampling rounds, and
/// in the shares `learnt` and `other` of the two other assignments. With many requests in progress,
/// many assignments are likelier than the true one, and each of them seems certain.
///
/// This is a logistic regression over the calls of the programs of `make bench-accuracy` with 2 to
/// 8 concurrent requests. Every runtime has about the same weight.
fn sure(share: f32, learnt: f32, other: f32, at_work: f64) -> f32 {
    if at_work > MOST_AT_WORK {
        return 0.0;
    }
    let logit = |share: f32| {
        let share = f64::from(share);
        ((share + ROUNDS_DOUBT) / (1.0 - share + ROUNDS_DOUBT)).ln()
    };
    let logit = SURE_ALONE
        + SURE_BY_SHARE * logit(share)
        + SURE_BY_LEARNT * logit(learnt)
        + SURE_BY_OTHER * logit(other)
        - UNSURE_BY_WORK * (at_work + 0.1).ln();
    (1.0 / (1.0 + (UNSURE_ELSEWHERE - SURE_ELSEWHERE * logit).exp())) as f32
}

/// For each kind of unassigned call, the share of background calls. It is computed from how often
/// such calls occur when no request could have made them. Time does not tell which of the calls
/// they are.
fn nobodys_shares(model: &Model, calls: &[Call]) -> HashMap<What, f32> {
    let free = || calls.iter().filter(|call| call.state == State::Free);
    let starts = || free().map(|call| call.start_nano);
    let Some((first, last)) = starts().min().zip(starts().max()) else {
        return HashMap::default();
    };
    let mut counts: HashMap<What, f64> = HashMap::default();
    for call in free() {
        *counts.entry(call.what).or_default() += 1.0;
    }
    // One that is alone came in the time between two looks.
    let nano = (last - first).max(EVERY_NANO) as f64;
    let share = |what: What, count: f64| model.nobodys(what) * nano / count;
    counts.into_iter().map(|(what, count)| (what, share(what, count).min(1.0) as f32)).collect()
}

/// Takes those out, and gives them, that are not to stay.
fn partition<T: Copy>(all: &mut Vec<T>, stays: impl Fn(&T) -> bool) -> Vec<T> {
    let rest = all.iter().filter(|one| !stays(one)).copied().collect();
    all.retain(stays);
    rest
}

/// The request that a call is taken to be of.
const fn whose(call: &Call, found: Option<(usize, f32)>) -> Option<usize> {
    match (call.state, found) {
        (State::For(request), _) => Some(request),
        (State::Free, Some((request, _))) => Some(request),
        _ => None,
    }
}
