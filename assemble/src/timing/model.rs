//! How a process is known to handle requests: which call comes after what, and
//! how long after.

use hashbrown::HashMap;

/// Gaps are sorted into bins by their binary logarithm, two to a doubling, from a
/// microsecond on.
const BINS: usize = 48;
/// Weight of what is taken for likely before anything was seen, in steps.
const PRIOR_WEIGHT: f64 = 2.0;
/// Steps of one sort that are remembered; beyond, what is older counts half.
const REMEMBERED: f64 = 4096.0;
/// Calls of a request that are told apart by their number; later ones are alike.
const MAX_ORDINAL: u8 = 12;

/// Time in which calls for no request are remembered; beyond, what is older counts half.
const NOBODYS_REMEMBERED_NANO: f64 = 60e9;
/// Time without one before anything was seen.
const NOBODYS_UNSEEN_NANO: f64 = 20e6;

/// What a request or a call is, as a number that the process's own list gives.
pub(super) type What = u16;

/// What happened last in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Last {
    /// It began.
    Began,
    /// A call of this sort began.
    Called(What),
    /// A call of this sort ended.
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

/// What the process did next for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Next {
    /// It made a call of this sort.
    Calls(What),
    /// It answered.
    Answers,
}

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stand {
    /// Which sort of request.
    pub(super) request: What,
    pub(super) last: Last,
    /// Calls begun so far.
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

/// What came next where a request stood so.
#[derive(Debug, Clone, Default)]
struct Nexts {
    total: f64,
    counts: Vec<(Next, f64)>,
}

/// How long it took.
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

/// Nanoseconds that fall into a bin.
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
        // Neighbours share, so that few observations make no gaps between bins.
        let bin = bin_of(gap_nano);
        let near = [bin.checked_sub(1), Some(bin), Some(bin + 1).filter(|bin| *bin < BINS)];
        for (at, share) in near.into_iter().zip([0.25, 0.5, 0.25]) {
            if let Some(at) = at {
                self.bins[at] += (weight * share) as f32;
                self.total += weight * share;
            }
        }
    }

    /// Share of gaps in this bin, where so many are as `otherwise` says.
    fn share(&self, bin: usize, otherwise: f64) -> f64 {
        (f64::from(self.bins[bin]) + PRIOR_WEIGHT * otherwise) / (self.total + PRIOR_WEIGHT)
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    nexts: HashMap<Stand, Nexts, ahash::RandomState>,
    gaps: HashMap<(What, Last, Next), Gaps, ahash::RandomState>,
    /// By what happened last, whatever the request; before calls and answers.
    any: [[Gaps; 2]; 3],
    /// Requests learnt of.
    requests: f64,
    /// Calls of each sort that were made for no request.
    nobodys: HashMap<What, Nobodys, ahash::RandomState>,
}

/// Calls that can be of no request.
#[derive(Debug, Clone, Copy, Default)]
struct Nobodys {
    calls: f64,
    /// Time in which such a call would be known for one.
    nano: f64,
}

impl Model {
    /// Requests that it was learnt from.
    pub(super) const fn requests(&self) -> f64 {
        self.requests
    }

    /// Stands and gaps that it holds.
    pub(super) fn len(&self) -> usize {
        self.nexts.len() + self.gaps.len()
    }

    /// A request was seen to its end.
    pub(super) const fn saw_request(&mut self, weight: f64) {
        self.requests += weight;
    }

    /// So many calls of a sort were made for no request, in so much time.
    pub(super) fn saw_nobodys(&mut self, what: What, calls: f64, nano: f64) {
        let nobodys = self.nobodys.entry(what).or_default();
        if nobodys.nano > NOBODYS_REMEMBERED_NANO {
            nobodys.calls *= 0.5;
            nobodys.nano *= 0.5;
        }
        nobodys.calls += calls;
        nobodys.nano += nano;
    }

    /// What is known of calls for no request, and nothing else.
    pub(super) fn of_nobody(&self) -> Self {
        Self { nobodys: self.nobodys.clone(), ..Self::default() }
    }

    /// How many calls of a sort are made for no request, a nanosecond.
    pub(super) fn nobodys(&self, what: What) -> f64 {
        let nobodys = self.nobodys.get(&what).copied().unwrap_or_default();
        nobodys.calls / (nobodys.nano + NOBODYS_UNSEEN_NANO)
    }

    /// What was done next was seen, for as much as `weight` says.
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

    /// How likely it is that this is done next, so long after: the logarithm of a
    /// density per nanosecond. `sorts` is how many sorts of calls there are.
    pub(super) fn likelihood(&self, stand: Stand, next: Next, gap_nano: i64, sorts: usize) -> f64 {
        let stand = stand.bounded();
        let unknown = 1.0 / (sorts + 1) as f64;
        let share = self.nexts.get(&stand).map_or(unknown, |nexts| {
            let count = nexts.counts.iter().find(|(other, _)| *other == next);
            let count = count.map_or(0.0, |(_, count)| *count);
            (count + PRIOR_WEIGHT * unknown) / (nexts.total + PRIOR_WEIGHT)
        });
        let bin = bin_of(gap_nano);
        // Nothing known: any magnitude is as likely as another.
        let answers = usize::from(next == Next::Answers);
        let any = self.any[stand.last.sort()][answers].share(bin, 1.0 / BINS as f64);
        let gaps = self.gaps.get(&(stand.request, stand.last, next));
        let within = gaps.map_or(any, |gaps| gaps.share(bin, any));
        share.ln() + within.ln() - width_nano(bin).ln()
    }
}
