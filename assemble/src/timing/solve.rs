//! Assigns calls to the requests that a process served at the same time.
//!
//! Calls are assigned so that each request, as a sequence of calls and delays, is as likely as
//! possible. Gibbs sampling with exchanges moves at random between likely assignments. The
//! confidence of a link is the share of samples that contain it.

use super::model::{Last, Model, Next, Stand, What};

/// A request that a process served.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) start_nano: i64,
    pub(super) end_nano: i64,
    pub(super) what: What,
}

/// A call that the process made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) start_nano: i64,
    pub(super) end_nano: i64,
    pub(super) what: What,
    /// Whether the call's request is known.
    pub(super) state: State,
}

/// What is known about a call's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing. The solver must find it.
    Free,
    /// The request with this index.
    For(usize),
    /// No request made the call.
    ForNone,
    /// The parent is not one of the requests.
    Elsewhere,
    /// A decision was reported that the request is unknown.
    Unclear,
}

/// The solver's result.
#[derive(Debug, Clone, Default)]
pub(super) struct Solution {
    /// For each unassigned call, the likeliest request and the confidence.
    pub(super) found: Vec<Option<(usize, f32)>>,
    /// Average number of requests in progress, not waiting for a call, when a call was made.
    pub(super) at_work: f64,
    /// Number of likelihoods computed.
    pub(super) steps: u64,
    /// Whether it took too much, so that nothing was found.
    pub(super) given_up: bool,
}

/// Maximum work for a solution, in likelihoods of up to four calls: about a second of a processor.
/// What takes more is given up, for other processes wait meanwhile.
const MOST_WORK: u64 = 4_000_000;
const CALLS_OF_A_LIKELIHOOD: u64 = 4;

/// Slack between two kernel times of one process.
const SLACK_NANO: i64 = 20_000;
/// Maximum candidate requests for a call. A call with more is not assigned.
const MAX_CANDIDATES: usize = 96;
/// Number of these candidates that are evaluated fully.
const CLOSE: usize = 6;
/// Maximum calls of a request.
const MAX_CALLS: usize = 64;
/// Calls of two requests that are divided among them in every way.
const MOST_DIVIDED: usize = 7;
/// Requests whose log-likelihood is this much lower than others' are divided, and this share of all
/// others.
const UNLIKELY: f64 = 6.0;
const DIVIDED_ANYWAY: f64 = 0.02;
/// A request is divided with this many others, chosen among this many that began just before and
/// after.
const TRIES: usize = 2;
const NEAR: usize = 12;
/// Additional temperature in the first settling round.
const HEAT: f64 = 1.0;
/// Minimum density of a background call, as a fraction of a density that is uniform over one second
/// and all kinds of calls.
const BACKGROUND: f64 = 1e-3;

/// How long is looked for what is likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effort {
    /// Rounds in which the first guess is left behind,
    settling: usize,
    /// and rounds that count.
    counted: usize,
}

impl Effort {
    /// As long as is worth it.
    pub(super) const FULL: Self = Self { settling: 7, counted: 18 };
    /// Where there is less time.
    pub(super) const HALF: Self = Self { settling: 5, counted: 9 };
    /// Where there is hardly any.
    pub(super) const LEAST: Self = Self { settling: 3, counted: 5 };
}

/// A generator of numbers that are random enough, and the same in every run
/// (xorshift64*).
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number from 0 to 1.
    pub(super) const fn share(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Picks one item with a probability proportional to its likelihood; `of` returns the
    /// log-likelihood. A higher temperature flattens the differences.
    fn pick<T: Copy>(&mut self, from: &[T], of: impl Fn(&T) -> f64, heat: f64) -> Option<T> {
        let most = from.iter().map(&of).fold(f64::MIN, f64::max);
        let weight = |one: &T| ((of(one) - most) / heat).exp();
        let mut left = self.share() * from.iter().map(weight).sum::<f64>();
        let picked = from.iter().find(|one| {
            left -= weight(one);
            left <= 0.0
        });
        picked.or(from.last()).copied()
    }
}

/// A possible move: assign the call to a request, optionally in exchange for one of its calls.
#[derive(Debug, Clone, Copy)]
struct Change {
    to: Option<usize>,
    exchanged: Option<usize>,
    likelihood: f64,
}

struct Solver<'a> {
    model: &'a Model,
    requests: &'a [Request],
    calls: &'a [Call],
    /// Number of kinds of calls.
    sorts: usize,
    /// For each call, its candidate requests.
    candidates: Vec<Vec<u32>>,
    /// For each call, its request.
    of: Vec<Option<usize>>,
    /// For each request, its calls, sorted by start.
    members: Vec<Vec<u32>>,
    /// For each request, its log-likelihood.
    scores: Vec<f64>,
    /// Minimum log-likelihood of a background call.
    background: f64,
    steps: u64,
    work: u64,
    events: Vec<(i64, bool, What)>,
    changed: Vec<u32>,
}

impl Solver<'_> {
    /// Log-likelihood of the request with these calls.
    fn score(&mut self, request: usize, members: &[u32]) -> f64 {
        self.steps += 1;
        self.work += 1 + members.len() as u64 / CALLS_OF_A_LIKELIHOOD;
        let mut events = std::mem::take(&mut self.events);
        let score = walk(
            &self.requests[request],
            members.iter().map(|call| &self.calls[*call as usize]),
            &mut events,
            |stand, next, gap| self.model.likelihood(stand, next, gap, self.sorts),
        );
        self.events = events;
        score
    }

    /// Log-likelihood of the request without one of its calls, or with an additional one.
    fn score_changed(&mut self, request: usize, without: Option<u32>, with: Option<u32>) -> f64 {
        let mut changed = std::mem::take(&mut self.changed);
        changed.clear();
        changed.extend(self.members[request].iter().filter(|call| Some(**call) != without));
        changed.extend(with);
        let score = self.score(request, &changed);
        self.changed = changed;
        score
    }

    fn holds(&self, request: usize, call: u32) -> bool {
        holds(&self.requests[request], &self.calls[call as usize])
    }

    /// Log-likelihood of the delay between the request's last event and the call, ignoring later
    /// events.
    fn nearness(&self, request: usize, call: u32) -> f64 {
        let start = self.calls[call as usize].start_nano;
        let mut last = self.requests[request].start_nano;
        for other in &self.members[request] {
            let other = &self.calls[*other as usize];
            for moment in [other.start_nano, other.end_nano] {
                if moment <= start {
                    last = last.max(moment);
                }
            }
        }
        // Only requests are compared, so kinds of events are not distinguished here.
        -(((start - last).max(1_000)) as f64).ln()
    }

    fn remove(&mut self, call: u32) {
        if let Some(request) = self.of[call as usize].take() {
            self.members[request].retain(|other| *other != call);
        }
    }

    fn put(&mut self, call: u32, request: Option<usize>) {
        self.of[call as usize] = request;
        if let Some(request) = request {
            self.members[request].push(call);
        }
    }

    fn rescore(&mut self, request: Option<usize>) {
        if let Some(request) = request {
            self.scores[request] = self.score_changed(request, None, None);
        }
    }

    /// The possible moves for a call that is unassigned at the moment.
    fn changes(&mut self, call: u32, from: Option<usize>, changes: &mut Vec<Change>) {
        changes.clear();
        let nobodys = self.model.nobodys(self.calls[call as usize].what).ln();
        let likelihood = nobodys.max(self.background);
        changes.push(Change { to: None, exchanged: None, likelihood });
        let mut close: Vec<(f64, usize)> = self.candidates[call as usize]
            .iter()
            .map(|request| (self.nearness(*request as usize, call), *request as usize))
            .collect();
        if close.len() > CLOSE {
            close.select_nth_unstable_by(CLOSE - 1, |one, other| other.0.total_cmp(&one.0));
            close.truncate(CLOSE);
        }
        if let Some(from) = from
            && !close.iter().any(|(_, request)| *request == from)
        {
            close.push((0.0, from));
        }
        let what = self.calls[call as usize].what;
        for (_, request) in close {
            if self.members[request].len() < MAX_CALLS {
                let with = self.score_changed(request, None, Some(call));
                let likelihood = with - self.scores[request];
                changes.push(Change { to: Some(request), exchanged: None, likelihood });
            }
            let Some(from) = from.filter(|from| *from != request) else { continue };
            for index in 0..self.members[request].len() {
                let other = self.members[request][index];
                let theirs = &self.calls[other as usize];
                if theirs.what != what || theirs.state != State::Free || !self.holds(from, other) {
                    continue;
                }
                let here = self.score_changed(request, Some(other), Some(call));
                let there = self.score_changed(from, None, Some(other));
                let likelihood = here - self.scores[request] + there - self.scores[from];
                let exchanged = Some(other as usize);
                changes.push(Change { to: Some(request), exchanged, likelihood });
            }
        }
    }

    /// Log-likelihood that the request makes this call next, if earlier calls are assigned and no
    /// later one is.
    fn forward(&self, request: usize, call: u32) -> f64 {
        let Call { start_nano, what, .. } = self.calls[call as usize];
        let served = &self.requests[request];
        let mut last = (served.start_nano, Last::Began);
        let mut happened = |moment: (i64, Last)| {
            if moment.0 >= last.0 {
                last = moment;
            }
        };
        let mut open = 0;
        for other in &self.members[request] {
            let other = &self.calls[*other as usize];
            if other.start_nano > start_nano {
                continue;
            }
            happened((other.start_nano, Last::Called(other.what)));
            if other.end_nano <= start_nano {
                happened((other.end_nano, Last::Returned(other.what)));
            } else {
                open += 1;
            }
        }
        let ordinal = self.members[request].len().min(255) as u8;
        let stand = Stand { request: served.what, last: last.1, ordinal, waits: open > 0 };
        self.model.likelihood(stand, Next::Calls(what), start_nano - last.0, self.sorts)
    }

    /// The initial assignment: calls in order of start, each to the request for which it is the
    /// likeliest next call.
    fn guess(&mut self, call: u32) {
        self.work += self.candidates[call as usize].len() as u64;
        let likeliest = self.candidates[call as usize]
            .iter()
            .map(|request| *request as usize)
            .filter(|request| self.members[*request].len() < MAX_CALLS)
            .map(|request| (self.forward(request, call), request))
            .max_by(|one, other| one.0.total_cmp(&other.0));
        self.put(call, likeliest.map(|(_, request)| request));
    }

    /// Samples a new request for the call.
    fn visit(&mut self, call: u32, random: &mut Random, heat: f64, changes: &mut Vec<Change>) {
        let from = self.of[call as usize];
        self.remove(call);
        self.rescore(from);
        self.changes(call, from, changes);
        let Some(chosen) = random.pick(changes, |change| change.likelihood, heat) else { return };
        if let Some(other) = chosen.exchanged {
            // `other` is the index of a call, and there are few calls.
            self.remove(other as u32);
            self.put(other as u32, from);
            self.rescore(from);
        }
        self.put(call, chosen.to);
        self.rescore(chosen.to);
    }

    /// Samples a new division of the calls of two requests between them. Moving single calls would
    /// never reach a request that needs two of them.
    fn divide(&mut self, one: usize, other: usize, random: &mut Random, heat: f64) {
        let Self { members, calls, requests, .. } = self;
        let is_free = |call: &u32| calls[*call as usize].state == State::Free;
        let both = [one, other];
        let mut free: Vec<u32> =
            both.iter().flat_map(|at| &members[*at]).copied().filter(is_free).collect();
        if free.is_empty() || free.len() > MOST_DIVIDED {
            return;
        }
        free.sort_unstable_by_key(|call| calls[*call as usize].start_nano);
        let may = both.map(|at| {
            let holds = |call: &u32| holds(&requests[at], &calls[*call as usize]);
            free.iter().map(holds).collect::<Vec<bool>>()
        });
        let fixed = both.map(|at| {
            members[at].iter().copied().filter(|call| !is_free(call)).collect::<Vec<u32>>()
        });
        let mut ways: Vec<(f64, u32)> = Vec::new();
        for way in 0..1u32 << free.len() {
            let side = |place: usize| (way >> place & 1) as usize;
            if (0..free.len()).any(|place| !may[side(place)][place]) {
                continue;
            }
            let mut likelihood = 0.0;
            for number in 0..2 {
                let mine = (0..free.len()).filter(|place| side(*place) == number);
                let mut mine: Vec<u32> = mine.map(|place| free[place]).collect();
                mine.extend(&fixed[number]);
                likelihood += self.score(both[number], &mine);
            }
            ways.push((likelihood, way));
        }
        let Some((_, way)) = random.pick(&ways, |(likelihood, _)| *likelihood, heat) else {
            return;
        };
        for (number, request) in both.into_iter().enumerate() {
            self.members[request].clone_from(&fixed[number]);
        }
        for (place, call) in free.into_iter().enumerate() {
            self.put(call, Some(both[(way >> place & 1) as usize]));
        }
        self.rescore(Some(one));
        self.rescore(Some(other));
    }

    /// Divides the calls of unlikely requests with a few others that were served at the same time.
    fn divide_unlikely(&mut self, random: &mut Random, heat: f64) {
        let count = self.requests.len();
        let mean = self.scores.iter().sum::<f64>() / count.max(1) as f64;
        for request in 0..count {
            if self.scores[request] > mean - UNLIKELY && random.share() > DIVIDED_ANYWAY {
                continue;
            }
            // Requests that began at about the same time are the likeliest to hold its calls.
            let first = request.saturating_sub(NEAR);
            let last = (request + NEAR + 1).min(count);
            for _ in 0..TRIES {
                let other = first + (random.share() * (last - first) as f64) as usize;
                let apart = self.requests[other].end_nano < self.requests[request].start_nano
                    || self.requests[request].end_nano < self.requests[other].start_nano;
                if other != request && !apart {
                    self.divide(request, other, random, heat);
                }
            }
        }
    }
}

/// Whether the call can have been made for the request: a child lies within its parent.
fn holds(request: &Request, call: &Call) -> bool {
    request.start_nano <= call.start_nano && call.end_nano <= request.end_nano + SLACK_NANO
}

/// Duration of the longest request.
pub(super) fn longest_nano(requests: &[Request]) -> i64 {
    requests.iter().map(|request| request.end_nano - request.start_nano).max().unwrap_or(0)
}

/// The requests that can have made the call, sorted by start.
pub(super) fn candidates(
    requests: &[Request],
    longest_nano: i64,
    call: &Call,
) -> impl Iterator<Item = usize> {
    let from = call.start_nano.saturating_sub(longest_nano).saturating_sub(SLACK_NANO);
    let first = requests.partition_point(|request| request.start_nano < from);
    (first..requests.len())
        .take_while(move |at| requests[*at].start_nano <= call.start_nano)
        .filter(move |at| holds(&requests[*at], call))
}

/// For each kind of call, the number of background calls in the period, and the time in which such
/// a call would have been recognised: when no request was open, or when every open request ended
/// too early for such a call.
pub(super) fn nobodys(
    requests: &[Request],
    calls: &[Call],
    (from_nano, to_nano): (i64, i64),
) -> Vec<(What, f64, f64)> {
    let longest = longest_nano(requests);
    let mut sorts: Vec<(What, i64, i64, f64)> = Vec::new();
    for call in calls {
        let taken = call.end_nano - call.start_nano;
        let counts = (from_nano..to_nano).contains(&call.start_nano);
        let of_none = counts
            && match call.state {
                // A known background call during a request does not count either, because its
                // frequency says nothing about unknown ones.
                State::ForNone | State::Free | State::Unclear => {
                    candidates(requests, longest, call).next().is_none()
                }
                State::For(_) | State::Elsewhere => false,
            };
        let of_none = f64::from(u8::from(of_none));
        match sorts.iter_mut().find(|(what, ..)| *what == call.what) {
            Some((_, count, sum, found)) => {
                *count += 1;
                *sum += taken;
                *found += of_none;
            }
            None => sorts.push((call.what, 1, taken, of_none)),
        }
    }
    let time_of = |taken: i64| {
        let (mut free, mut at) = (0, from_nano);
        for request in requests {
            let until = request.end_nano.saturating_sub(taken).min(to_nano);
            if until > at && until > request.start_nano {
                free += (request.start_nano.min(to_nano) - at).max(0);
                at = until;
            }
        }
        free + (to_nano - at).max(0)
    };
    sorts
        .into_iter()
        .map(|(what, count, sum, found)| (what, found, time_of(sum / count) as f64))
        .collect()
}

/// Goes through the events of a request with these calls, and sums up `of_step` over them.
pub(super) fn walk<'a>(
    request: &Request,
    calls: impl Iterator<Item = &'a Call>,
    events: &mut Vec<(i64, bool, What)>,
    mut of_step: impl FnMut(Stand, Next, i64) -> f64,
) -> f64 {
    events.clear();
    for call in calls {
        events.push((call.start_nano, false, call.what));
        events.push((call.end_nano, true, call.what));
    }
    events.sort_unstable();
    let mut last_nano = request.start_nano;
    let mut stand = Stand { request: request.what, last: Last::Began, ordinal: 0, waits: false };
    let mut open = 0u32;
    let mut sum = 0.0;
    for (time_nano, ends, what) in events.iter().copied() {
        if ends {
            open = open.saturating_sub(1);
            stand.last = Last::Returned(what);
        } else {
            sum += of_step(stand, Next::Calls(what), time_nano - last_nano);
            open += 1;
            stand.ordinal = stand.ordinal.saturating_add(1);
            stand.last = Last::Called(what);
        }
        stand.waits = open > 0;
        last_nano = time_nano;
    }
    sum + of_step(stand, Next::Answers, request.end_nano - last_nano)
}

/// Finds the requests of the unassigned calls, starting from an initial assignment or from `first`
/// if given. Requests are sorted by start. If the process is not known yet, the result is a first
/// guess, from which [`learn`] learns.
pub(super) fn solve(
    model: &Model,
    requests: &[Request],
    calls: &[Call],
    sorts: usize,
    first: Option<&[Option<(usize, f32)>]>,
    (random, effort): (&mut Random, Effort),
) -> Solution {
    let mut solution = Solution { found: vec![None; calls.len()], ..Solution::default() };
    let begin = requests.first().map_or(0, |first| first.start_nano);
    let end = requests.iter().map(|request| request.end_nano).max().unwrap_or(begin);
    let rate = calls.len() as f64 / (end - begin).max(1) as f64;
    let mut solver = Solver {
        model,
        requests,
        calls,
        sorts,
        candidates: vec![Vec::new(); calls.len()],
        of: vec![None; calls.len()],
        members: vec![Vec::new(); requests.len()],
        scores: vec![0.0; requests.len()],
        background: (BACKGROUND * rate.max(1e-12)).ln(),
        steps: 0,
        work: 0,
        events: Vec::new(),
        changed: Vec::new(),
    };
    let longest = longest_nano(requests);
    let mut free = Vec::new();
    for (number, call) in (0u32..).zip(calls) {
        match call.state {
            State::For(request) => solver.put(number, Some(request)),
            State::ForNone | State::Elsewhere | State::Unclear => {}
            State::Free => {
                let candidates: Vec<u32> =
                    candidates(requests, longest, call).map(|at| at as u32).collect();
                if (1..=MAX_CANDIDATES).contains(&candidates.len()) {
                    solver.candidates[number as usize] = candidates;
                    free.push(number);
                }
            }
        }
    }
    free.sort_unstable_by_key(|call| calls[*call as usize].start_nano);
    for call in &free {
        match first.and_then(|first| first[*call as usize]) {
            Some((request, _)) => solver.put(*call, Some(request)),
            None => solver.guess(*call),
        }
    }
    for request in 0..requests.len() {
        solver.rescore(Some(request));
    }
    let mut changes = Vec::new();
    let mut times: Vec<Vec<(usize, u32)>> = vec![Vec::new(); calls.len()];
    for round in 0..effort.settling + effort.counted {
        // What is hotter leaves a guess for one a little worse more readily.
        let heat =
            1.0 + HEAT * (effort.settling.saturating_sub(round)) as f64 / effort.settling as f64;
        for call in &free {
            solver.visit(*call, random, heat, &mut changes);
            if solver.work > MOST_WORK {
                return Solution { steps: solver.work, given_up: true, ..solution };
            }
        }
        solver.divide_unlikely(random, heat);
        if round < effort.settling {
            continue;
        }
        for call in &free {
            let Some(request) = solver.of[*call as usize] else { continue };
            let times = &mut times[*call as usize];
            match times.iter_mut().find(|(other, _)| *other == request) {
                Some((_, count)) => *count += 1,
                None => times.push((request, 1)),
            }
        }
    }
    for (found, times) in solution.found.iter_mut().zip(times) {
        let most = times.into_iter().max_by_key(|(_, count)| *count);
        *found = most.map(|(request, count)| (request, count as f32 / effort.counted as f32));
    }
    solution.steps = solver.steps;
    let of = |call: usize| match calls[call].state {
        State::For(request) => Some(request),
        _ => solution.found[call].map(|(request, _)| request),
    };
    solution.at_work = at_work(requests, calls, of);
    solution
}

fn at_work(requests: &[Request], calls: &[Call], of: impl Fn(usize) -> Option<usize>) -> f64 {
    let mut events = Vec::with_capacity(2 * (requests.len() + calls.len()));
    for (number, request) in requests.iter().enumerate() {
        events.push((request.start_nano, Turn::Begins, number));
        events.push((request.end_nano, Turn::Answers, number));
    }
    let mut made = 0;
    for (number, call) in calls.iter().enumerate() {
        if let Some(request) = of(number) {
            events.push((call.start_nano, Turn::Calls, request));
            events.push((call.end_nano, Turn::Returns, request));
            made += 1;
        }
    }
    events.sort_unstable();
    let mut waits = vec![0i32; requests.len()];
    let (mut working, mut sum) = (0i64, 0i64);
    for (_, turn, request) in events {
        match turn {
            Turn::Begins => working += 1,
            // Events after the response (within the slack) do not count.
            Turn::Answers => {
                working -= i64::from(waits[request] == 0);
                waits[request] = i32::MAX / 2;
            }
            Turn::Calls => {
                sum += working;
                working -= i64::from(waits[request] == 0);
                waits[request] += 1;
            }
            Turn::Returns => {
                waits[request] -= 1;
                working += i64::from(waits[request] == 0);
            }
        }
    }
    sum as f64 / made.max(1) as f64
}

/// In the order in which simultaneous events count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Begins,
    Returns,
    Calls,
    Answers,
}

/// Learns from finished requests, each with its weight.
pub(super) fn learn(
    model: &mut Model,
    requests: &[Request],
    calls: &[Call],
    of: impl Fn(usize) -> Option<usize>,
    weight_of: impl Fn(usize) -> f64,
) {
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); requests.len()];
    for call in 0..calls.len() {
        if let Some(request) = of(call) {
            members[request].push(call);
        }
    }
    let mut events = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        let weight = weight_of(number);
        if weight <= 0.0 {
            continue;
        }
        model.saw_request(weight);
        let calls = members[number].iter().map(|call| &calls[*call]);
        walk(request, calls, &mut events, |stand, next, gap| {
            model.saw(stand, next, gap, weight);
            0.0
        });
    }
}
