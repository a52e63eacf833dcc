//! A model of how a process serves requests: which call follows what, and after which delay.

use hashbrown::HashMap;

/// Delays are counted in bins by their binary logarithm, two bins for each doubling, from a
/// microsecond on.
const BINS: usize = 48;
/// Weight of the prior, in observations.
const PRIOR_WEIGHT: f64 = 2.0;
/// Maximum weight of the observations of one kind. Beyond it, all older observations are halved.
const REMEMBERED: f64 = 4096.0;
/// Calls of a request are distinguished by their ordinal up to this one.
const MAX_ORDINAL: u8 = 12;

/// Maximum time over which background calls are counted. Beyond it, all older counts are halved.
const NOBODYS_REMEMBERED_NANO: f64 = 60e9;
/// Prior: this much time passes without a background call.
const NOBODYS_UNSEEN_NANO: f64 = 20e6;

/// The kind of a request or a call, numbered within the process.
pub(super) type What = u16;

/// The last event of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Last {
    /// The request began.
    Began,
    /// A call of this kind began.
    Called(What),
    /// A call of this kind ended.
    Returned(What),
}

impl Last {
    const fn sort(self) -> usize {
        match self {
            Self::Began => 0,
            Self::Called(_) => 1,
            Self::Returned(_) => 2,
        }
    }
}

/// The next event of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Next {
    /// The process makes a call of this kind.
    Calls(What),
    /// The process responds.
    Answers,
}

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stand {
    /// The kind of request.
    pub(super) request: What,
    pub(super) last: Last,
    /// Number of calls made so far.
    pub(super) ordinal: u8,
    /// Whether a call has not returned yet.
    pub(super) waits: bool,
}

impl Stand {
    const fn bounded(self) -> Self {
        let ordinal = if self.ordinal > MAX_ORDINAL { MAX_ORDINAL } else { self.ordinal };
        Self { ordinal, ..self }
    }
}

/// Counts of the events that followed one state.
#[derive(Debug, Clone, Default)]
struct NextCounts {
    total: f64,
    counts: Vec<(Next, f64)>,
}

/// Counts of delays.
#[derive(Debug, Clone)]
struct Gaps {
    total: f64,
    bins: [f32; BINS],
}

impl Default for Gaps {
    fn default() -> Self {
        Self { total: 0.0, bins: [0.0; BINS] }
    }
}

fn bin_of(gap_nano: i64) -> usize {
    let micros = gap_nano.max(1_000) as f64 / 1_000.0;
    ((micros.log2() * 2.0) as usize).min(BINS - 1)
}

/// Width of a bin in nanoseconds.
fn width_nano(bin: usize) -> f64 {
    let edge = |bin: usize| (bin as f64 / 2.0).exp2() * 1_000.0;
    if bin == 0 { edge(1) } else { edge(bin + 1) - edge(bin) }
}

impl Gaps {
    fn add(&mut self, gap_nano: i64, weight: f64) {
        if self.total > REMEMBERED {
            self.bins.iter_mut().for_each(|count| *count *= 0.5);
            self.total *= 0.5;
        }
        // Part of the weight goes to the neighbouring bins, so that few observations leave no gaps.
        let bin = bin_of(gap_nano);
        let near = [bin.checked_sub(1), Some(bin), Some(bin + 1).filter(|bin| *bin < BINS)];
        for (at, share) in near.into_iter().zip([0.25, 0.5, 0.25]) {
            if let Some(at) = at {
                self.bins[at] += (weight * share) as f32;
                self.total += weight * share;
            }
        }
    }

    /// Share of delays in this bin; `otherwise` is the prior.
    fn share(&self, bin: usize, otherwise: f64) -> f64 {
        (f64::from(self.bins[bin]) + PRIOR_WEIGHT * otherwise) / (self.total + PRIOR_WEIGHT)
    }
}

/// A model of a process. See the module's description.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    nexts: HashMap<Stand, NextCounts, ahash::RandomState>,
    gaps: HashMap<(What, Last, Next), Gaps, ahash::RandomState>,
    /// Delays by last event, for all kinds of requests, before calls and before responses.
    any: [[Gaps; 2]; 3],
    /// Number of requests that the model has learned from.
    requests: f64,
    /// Background calls of each kind.
    nobodys: HashMap<What, UnownedCalls, ahash::RandomState>,
}

/// Calls that belong to no request.
#[derive(Debug, Clone, Copy, Default)]
struct UnownedCalls {
    calls: f64,
    /// Time in which such a call would have been recognised.
    nano: f64,
}

impl Model {
    /// Number of requests that the model has learned from.
    pub(super) const fn requests(&self) -> f64 {
        self.requests
    }

    /// Number of states and delay tables.
    pub(super) fn len(&self) -> usize {
        self.nexts.len() + self.gaps.len()
    }

    /// Records a complete request.
    pub(super) const fn saw_request(&mut self, weight: f64) {
        self.requests += weight;
    }

    /// Records background calls of a kind that occurred within this time.
    pub(super) fn saw_nobodys(&mut self, what: What, calls: f64, nano: f64) {
        let nobodys = self.nobodys.entry(what).or_default();
        if nobodys.nano > NOBODYS_REMEMBERED_NANO {
            nobodys.calls *= 0.5;
            nobodys.nano *= 0.5;
        }
        nobodys.calls += calls;
        nobodys.nano += nano;
    }

    /// A copy with only the background calls.
    pub(super) fn of_nobody(&self) -> Self {
        Self { nobodys: self.nobodys.clone(), ..Self::default() }
    }

    /// Background calls of a kind for each nanosecond.
    pub(super) fn nobodys(&self, what: What) -> f64 {
        let nobodys = self.nobodys.get(&what).copied().unwrap_or_default();
        nobodys.calls / (nobodys.nano + NOBODYS_UNSEEN_NANO)
    }

    /// Records the next event of a request, with this weight.
    pub(super) fn saw(&mut self, stand: Stand, next: Next, gap_nano: i64, weight: f64) {
        let nexts = self.nexts.entry(stand.bounded()).or_default();
        if nexts.total > REMEMBERED {
            nexts.counts.iter_mut().for_each(|(_, count)| *count *= 0.5);
            nexts.total *= 0.5;
        }
        nexts.total += weight;
        match nexts.counts.iter_mut().find(|(other, _)| *other == next) {
            Some((_, count)) => *count += weight,
            None => nexts.counts.push((next, weight)),
        }
        let key = (stand.request, stand.last, next);
        self.gaps.entry(key).or_default().add(gap_nano, weight);
        let answers = usize::from(next == Next::Answers);
        self.any[stand.last.sort()][answers].add(gap_nano, weight);
    }

    /// Likelihood of this event after this delay: the logarithm of a density for each nanosecond.
    /// `sorts` is the number of kinds of calls.
    pub(super) fn likelihood(&self, stand: Stand, next: Next, gap_nano: i64, sorts: usize) -> f64 {
        let stand = stand.bounded();
        let unknown = 1.0 / (sorts + 1) as f64;
        let share = self.nexts.get(&stand).map_or(unknown, |nexts| {
            let count = nexts.counts.iter().find(|(other, _)| *other == next);
            let count = count.map_or(0.0, |(_, count)| *count);
            (count + PRIOR_WEIGHT * unknown) / (nexts.total + PRIOR_WEIGHT)
        });
        let bin = bin_of(gap_nano);
        // Without observations, all magnitudes are equally likely.
        let answers = usize::from(next == Next::Answers);
        let any = self.any[stand.last.sort()][answers].share(bin, 1.0 / BINS as f64);
        let gaps = self.gaps.get(&(stand.request, stand.last, next));
        let within = gaps.map_or(any, |gaps| gaps.share(bin, any));
        share.ln() + within.ln() - width_nano(bin).ln()
    }
}
