//! What was found, with names, the most costly first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_model::TraceId;

use super::{Bottlenecks, Pair, PathTimes};
use crate::chains::{Chains, Operation, PathId};

/// Sequential calls must have been seen so often, and may have overlapped in this share of cases.
const LEAST_PAIRS: u64 = 10;
const MOST_OVERLAPPED: f64 = 0.05;
/// They must cost this share of the runs' time.
const LEAST_SAVED: f64 = 0.01;
/// Proof that calls do not depend on one another: so often, and in this share of cases.
const LEAST_PROOFS: u64 = 3;
const LEAST_PROVEN: f64 = 0.02;

/// Where something was found: an operation below a caller, in runs of an entrance.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The entrance of the runs.
    pub entrance: Operation,
    /// The caller; `None` for the entrance itself.
    pub caller: Option<Operation>,
    /// The called operation.
    pub called: Operation,
}

/// Where the time of runs is spent.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeShare {
    /// Where.
    pub place: Place,
    /// Calls.
    pub calls: u64,
    /// Self time of all calls.
    pub self_nano: u128,
    /// The part of it that the run waited for.
    pub critical_nano: u128,
    /// That part as a share of the time of all runs of the entrance.
    pub critical_share: f64,
}

/// Many calls of one operation, one after another, by one caller: "N+1".
#[derive(Debug, Clone, PartialEq)]
pub struct RepeatedCalls {
    /// Where.
    pub place: Place,
    /// How many callers did so.
    pub callers: u64,
    /// Calls by them.
    pub calls: u64,
    /// Time of these calls.
    pub nano: u128,
    /// That time as a share of the time of all runs of the entrance.
    pub share: f64,
    /// The most calls of one caller, and its trace.
    pub most: (u64, TraceId),
}

/// Calls that were made again because they failed.
#[derive(Debug, Clone, PartialEq)]
pub struct RetriedCalls {
    /// Where.
    pub place: Place,
    /// All calls.
    pub calls: u64,
    /// Failed attempts that another one followed.
    pub attempts: u64,
    /// How often another attempt did not fail.
    pub rescued: u64,
    /// Time until the next attempts.
    pub nano: u128,
    /// That time as a share of the time of all runs of the entrance.
    pub share: f64,
    /// The most attempts, and their trace.
    pub most: (u64, TraceId),
}

/// Many calls at a time by one caller.
#[derive(Debug, Clone, PartialEq)]
pub struct FanOut {
    /// Where; `called` is who makes the calls.
    pub place: Place,
    /// How many callers did so.
    pub callers: u64,
    /// The most calls at a time, and their trace.
    pub most: (u64, TraceId),
}

/// Two calls of one caller, one after another, which could run at the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct SequentialCalls {
    /// The entrance of the runs.
    pub entrance: Operation,
    /// The caller.
    pub caller: Operation,
    /// The call that is the earlier one more often.
    pub first: Operation,
    /// The other one.
    pub second: Operation,
    /// How often one began after the end of the other.
    pub times: u64,
    /// Of these, how often in the less frequent order.
    pub reversed: u64,
    /// Of these, how often the later one was called although the earlier one failed.
    pub after_failure: u64,
    /// What running them at the same time would have saved.
    pub saved_nano: u128,
    /// That as a share of the time of all runs of the entrance.
    pub saved_share: f64,
    /// Whether either order was seen, or calls after failures: they do not need one another. Without
    /// it, the second may need what the first answers.
    pub is_proven: bool,
    /// The trace in which most would have been saved.
    pub example: TraceId,
}

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Where time is spent.
    pub shares: Vec<TimeShare>,
    /// Repeated calls.
    pub repeated: Vec<RepeatedCalls>,
    /// Retried calls.
    pub retried: Vec<RetriedCalls>,
    /// Many calls at a time.
    pub fan_outs: Vec<FanOut>,
    /// Calls one after another.
    pub sequential: Vec<SequentialCalls>,
}

impl PathTimes {
    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.self_nano += other.self_nano;
        self.critical_nano += other.critical_nano;
        self.repeated.callers += other.repeated.callers;
        self.repeated.calls += other.repeated.calls;
        self.repeated.nano += other.repeated.nano;
        self.repeated.most = self.repeated.most.max(other.repeated.most);
        self.retried.attempts += other.retried.attempts;
        self.retried.nano += other.retried.nano;
        self.retried.rescued += other.retried.rescued;
        self.retried.most = self.retried.most.max(other.retried.most);
        self.wide.callers += other.wide.callers;
        self.wide.most = self.wide.most.max(other.wide.most);
    }
}

impl Bottlenecks {
    /// What was found in runs whose entrance `is_asked`. The chains are of the same runs.
    pub fn found(&self, chains: &Chains, is_asked: impl Fn(&Operation) -> bool) -> Found {
        let mut places: BTreeMap<Place, PathTimes> = BTreeMap::new();
        for (id, times) in &self.paths {
            let place = chains.place(*id).filter(|place| is_asked(&place.entrance));
            if let Some(place) = place {
                places.entry(place).or_default().merge(times);
            }
        }
        let mut entrances: BTreeMap<Operation, u128> = BTreeMap::new();
        for (id, (_, nano)) in &self.entrances {
            if let Some(place) = chains.place(*id) {
                *entrances.entry(place.entrance).or_default() += nano;
            }
        }
        let share = |entrance: &Operation, nano: u128| {
            nano as f64 / entrances.get(entrance).copied().unwrap_or(0).max(1) as f64
        };
        let mut found = Found::default();
        for (place, times) in places {
            found.add(place, &times, share);
        }
        found.sequential = self.sequential(chains, &is_asked, share);
        found.shares.sort_by_key(|found| Reverse((found.critical_nano, found.self_nano)));
        found.repeated.sort_by_key(|found| Reverse(found.nano));
        found.retried.sort_by_key(|found| Reverse(found.nano));
        found.fan_outs.sort_by_key(|found| Reverse(found.most));
        found
    }

    fn sequential(
        &self,
        chains: &Chains,
        is_asked: &impl Fn(&Operation) -> bool,
        share: impl Fn(&Operation, u128) -> f64,
    ) -> Vec<SequentialCalls> {
        let mut pairs: BTreeMap<(Place, Operation), Pair> = BTreeMap::new();
        for ((_, one, two), pair) in &self.pairs {
            let (Some(place), Some(other)) = (chains.place(*one), chains.place(*two)) else {
                continue;
            };
            if !is_asked(&place.entrance) {
                continue;
            }
            // The order of ids says nothing of that of names.
            let swaps = other.called < place.called;
            let key = match swaps {
                true => (Place { called: other.called, ..place.clone() }, place.called),
                false => (place, other.called),
            };
            pairs.entry(key).or_default().merge(pair, swaps);
        }
        let mut found = Vec::new();
        for ((place, other), pair) in pairs {
            let times = pair.in_order + pair.reversed;
            let saved_share = share(&place.entrance, pair.saved_nano);
            let is_seldom = (pair.overlapped as f64) <= MOST_OVERLAPPED * times as f64;
            let Some((_, example)) = pair.example else { continue };
            let Some(caller) = place.caller else { continue };
            if times < LEAST_PAIRS || !is_seldom || saved_share < LEAST_SAVED {
                continue;
            }
            let (first, second, reversed) = match pair.in_order >= pair.reversed {
                true => (place.called, other, pair.reversed),
                false => (other, place.called, pair.in_order),
            };
            let proves = |proofs: u64| {
                proofs >= LEAST_PROOFS && proofs as f64 >= LEAST_PROVEN * times as f64
            };
            // What is called only after failures is called because of them.
            let is_fallback = 2 * pair.after_failure > times;
            found.push(SequentialCalls {
                entrance: place.entrance,
                caller,
                first,
                second,
                times,
                reversed,
                after_failure: pair.after_failure,
                saved_nano: pair.saved_nano,
                saved_share,
                is_proven: proves(reversed) || (proves(pair.after_failure) && !is_fallback),
                example,
            });
        }
        found.sort_by_key(|found| Reverse((found.is_proven, found.saved_nano)));
        found
    }
}

impl Pair {
    fn merge(&mut self, other: &Self, swaps: bool) {
        let (in_order, reversed) = match swaps {
            true => (other.reversed, other.in_order),
            false => (other.in_order, other.reversed),
        };
        self.in_order += in_order;
        self.reversed += reversed;
        self.overlapped += other.overlapped;
        self.after_failure += other.after_failure;
        self.saved_nano += other.saved_nano;
        self.example = self.example.max(other.example);
    }
}

impl Found {
    fn add(&mut self, place: Place, times: &PathTimes, share: impl Fn(&Operation, u128) -> f64) {
        let PathTimes { calls, self_nano, critical_nano, repeated, retried, wide } = times;
        self.shares.push(TimeShare {
            critical_share: share(&place.entrance, *critical_nano),
            place: place.clone(),
            calls: *calls,
            self_nano: *self_nano,
            critical_nano: *critical_nano,
        });
        if let Some(most) = repeated.most {
            self.repeated.push(RepeatedCalls {
                share: share(&place.entrance, repeated.nano),
                place: place.clone(),
                callers: repeated.callers,
                calls: repeated.calls,
                nano: repeated.nano,
                most,
            });
        }
        if let Some(most) = retried.most {
            self.retried.push(RetriedCalls {
                share: share(&place.entrance, retried.nano),
                place: place.clone(),
                calls: *calls,
                attempts: retried.attempts,
                rescued: retried.rescued,
                nano: retried.nano,
                most,
            });
        }
        if let Some(most) = wide.most {
            self.fan_outs.push(FanOut { place, callers: wide.callers, most });
        }
    }
}

impl Chains {
    /// The names of a path; `None` if its shapes were folded.
    fn place(&self, id: PathId) -> Option<Place> {
        let named = |id: PathId| {
            let path = self.path(id)?;
            let name =
                Operation { service: path.service.clone(), operation: path.operation.clone() };
            Some((name, path.parent))
        };
        let (called, parent) = named(id)?;
        let caller = parent.and_then(named);
        let mut entrance = called.clone();
        let mut above = parent;
        while let Some(parent) = above {
            (entrance, above) = named(parent)?;
        }
        Some(Place { entrance, caller: caller.map(|(name, _)| name), called })
    }
}
