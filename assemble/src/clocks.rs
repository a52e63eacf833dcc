//! Clock differences between hosts, measured by the calls between them.
//!
//! If both ends of a call were captured, its request left one host before it arrived at the other.
//! The same is true of its response. So each exchange bounds the difference from both sides (RFC
//! 5905, section 8, the on-wire protocol), and the tightest bound counts. Differences are only
//! reported. No time is corrected.

use std::fmt;
use std::sync::Arc;

use crate::row::Row;
use crate::text::Text;

/// A difference deserves a warning if it is certainly larger than this.
const NOTABLE_NANO: i64 = 1_000_000;
/// The window reports the differences of this period and the previous one.
const PERIOD_NANO: u64 = 60_000_000_000;
/// Maximum pairs of hosts, and hosts, in the window.
const MAX_PAIRS: usize = 4_096;
const MAX_HOSTS: usize = 4_096;
/// Maximum pairs of hosts of one trace that are compared.
const MAX_PAIRS_OF_TRACE: usize = 64;

/// How far the clock of one host is ahead of another host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockDifference<Host> {
    /// The host that is compared with.
    pub reference: Host,
    /// The host whose clock is ahead or behind.
    pub host: Host,
    /// Nanoseconds that the host's clock is ahead; negative if it is behind.
    pub ahead_nano: i64,
    /// Maximum error of `ahead_nano` in nanoseconds, provided that no clock was set meanwhile.
    pub uncertainty_nano: i64,
    /// Number of calls that were compared.
    pub exchanges: u64,
}

impl<Host> ClockDifference<Host> {
    /// Whether the difference is certainly large enough to reverse the order of events on the two
    /// hosts.
    pub const fn is_notable(&self) -> bool {
        self.ahead_nano.saturating_abs().saturating_sub(self.uncertainty_nano) > NOTABLE_NANO
    }

    /// The same difference, with other names for the hosts.
    pub fn named<Name>(&self, reference: Name, host: Name) -> ClockDifference<Name> {
        let Self { ahead_nano, uncertainty_nano, exchanges, .. } = *self;
        ClockDifference { reference, host, ahead_nano, uncertainty_nano, exchanges }
    }

    /// The same difference, measured from the other host.
    fn turned(self) -> Self {
        Self {
            reference: self.host,
            host: self.reference,
            ahead_nano: self.ahead_nano.saturating_neg(),
            ..self
        }
    }
}

impl<Host: fmt::Display> fmt::Display for ClockDifference<Host> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reference, host, ahead_nano, uncertainty_nano, exchanges } = self;
        let side = if *ahead_nano < 0 { "behind" } else { "ahead of" };
        let calls = if *exchanges == 1 { "call" } else { "calls" };
        let ms = |nano: i64| nano.saturating_abs() as f64 / 1e6;
        let (apart, uncertain) = (ms(*ahead_nano), ms(*uncertainty_nano));
        write!(
            to,
            "the clock of {host} is {apart:.1} ms {side} that of {reference} (± {uncertain:.1} ms, \
             by {exchanges} {calls} between them)"
        )
    }
}

impl<Host: PartialEq> ClockDifference<Host> {
    pub(crate) fn is_between(&self, one: &Host, other: &Host) -> bool {
        (&self.reference, &self.host) == (one, other)
            || (&self.reference, &self.host) == (other, one)
    }
}

impl ClockDifference<Text> {
    /// The difference according to two rows of one exchange; `near` is nearer to the client.
    ///
    /// Returns nothing if the bounds contradict each other. They do, or are too wide, if a time is
    /// not that of the bytes, such as the end of a response that was inferred from silence.
    fn of(near: &Row, far: &Row) -> Option<Self> {
        let (reference, host) = near.host.zip(far.host).filter(|(near, far)| near != far)?;
        near.response_tcp_seq.zip(far.response_tcp_seq).filter(|(near, far)| near == far)?;
        let most = far.start_unix_nano.saturating_sub(near.start_unix_nano);
        let least = far.end_unix_nano.saturating_sub(near.end_unix_nano);
        let uncertainty_nano = most.saturating_sub(least) / 2;
        let ahead_nano = least.saturating_add(uncertainty_nano);
        (least <= most).then_some(Self {
            reference,
            host,
            ahead_nano,
            uncertainty_nano,
            exchanges: 1,
        })
    }

    /// Combines two differences of the same two hosts. If both are equally tight, the later one
    /// wins, because it reflects clocks that were set meanwhile.
    fn and(self, later: Self) -> Self {
        let later = if later.host == self.host { later } else { later.turned() };
        let closest = if self.uncertainty_nano < later.uncertainty_nano { self } else { later };
        Self { exchanges: self.exchanges + later.exchanges, ..closest }
    }
}

/// The clock differences between the hosts of these pairs of rows. Each pair is the two ends of an
/// exchange, the client's first.
pub(crate) fn differences<'a>(
    pairs: impl Iterator<Item = (&'a Row, &'a Row)>,
) -> Vec<ClockDifference<Text>> {
    let mut found: Vec<ClockDifference<Text>> = Vec::new();
    for new in pairs.filter_map(|(near, far)| ClockDifference::of(near, far)) {
        let room = found.len() < MAX_PAIRS_OF_TRACE;
        match found.iter_mut().find(|known| known.is_between(&new.reference, &new.host)) {
            Some(known) => *known = known.and(new),
            None if room => found.push(new),
            None => {}
        }
    }
    found
}

/// Clock differences between the hosts of a stream of rows.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    pairs: HashMap<(Text, Text), Periods>,
    names: HashMap<Text, Arc<str>>,
    began_nano: u64,
}

type HashMap<K, V> = hashbrown::HashMap<K, V, ahash::RandomState>;

/// The tightest differences of this period and of the previous one.
#[derive(Debug, Clone, Copy)]
struct Periods([Option<ClockDifference<Text>>; 2]);

impl Clocks {
    /// Stores the name of a host.
    pub(crate) fn name(&mut self, host: Text, name: &str) {
        if !self.names.contains_key(&host) && self.names.len() < MAX_HOSTS {
            self.names.insert(host, name.into());
        }
    }

    /// Records that two rows are the ends of one exchange.
    pub(crate) fn note(&mut self, near: &Row, far: &Row) {
        if near.host == far.host {
            return;
        }
        let Some(new) = ClockDifference::of(near, far) else { return };
        let hosts = (new.reference, new.host);
        let turned = (new.host, new.reference);
        let key = if self.pairs.contains_key(&turned) { turned } else { hosts };
        if let Some(Periods([current, _])) = self.pairs.get_mut(&key) {
            *current = Some(current.map_or(new, |known| known.and(new)));
        } else if self.pairs.len() < MAX_PAIRS {
            self.pairs.insert(key, Periods([Some(new), None]));
        }
    }

    /// Advances the time.
    pub(crate) fn tick(&mut self, now_nano: u64) {
        if now_nano.saturating_sub(self.began_nano) < PERIOD_NANO {
            return;
        }
        self.began_nano = now_nano;
        self.pairs.retain(|_, Periods([current, before])| {
            *before = current.take();
            before.is_some()
        });
        // Hosts that still send rows are named again with their next row.
        if self.names.len() >= MAX_HOSTS {
            let pairs = &self.pairs;
            self.names.retain(|host, _| pairs.keys().any(|(one, two)| one == host || two == host));
        }
    }

    /// All known differences, with the hosts' names.
    pub(crate) fn differences(&self) -> Vec<ClockDifference<Arc<str>>> {
        let told = |Periods([current, before]): &Periods| {
            let all = before.iter().chain(current).copied();
            let found = all.reduce(|before, current| before.and(current))?;
            let (reference, host) =
                (self.names.get(&found.reference)?, self.names.get(&found.host)?);
            let found = found.named(Arc::clone(reference), Arc::clone(host));
            // Ordered by name, so that the same two hosts are always reported in the same way.
            Some(if found.reference > found.host { found.turned() } else { found })
        };
        let mut told: Vec<_> = self.pairs.values().filter_map(told).collect();
        told.sort_by(|a, b| (&a.reference, &a.host).cmp(&(&b.reference, &b.host)));
        told
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{client, server};

    /// The two ends of a call, each with its host, start and duration.
    fn hop(near: (&str, i64, i64), far: (&str, i64, i64)) -> (Row, Row) {
        let end = |row: Row, (host, start_unix_nano, nano): (&str, i64, i64)| Row {
            host: Some(Text::of(host)),
            start_unix_nano,
            end_unix_nano: start_unix_nano + nano,
            ..row.hop(1, 2)
        };
        (end(client(1, "x", 0, 0), near), end(server(2, "y", 0, 0), far))
    }

    /// The two ends of a call from host `a` to `b`, whose clock is ahead by `ahead`. The request
    /// takes `there` and the response `back`.
    fn call(ahead: i64, there: i64, work: i64, back: i64) -> (Row, Row) {
        hop(("a", 1_000_000, there + work + back), ("b", 1_000_000 + there + ahead, work))
    }

    fn told(clocks: &Clocks) -> Vec<(String, String, i64, i64, u64)> {
        let told = clocks.differences().into_iter().map(|found| {
            let (reference, host) = (found.reference.to_string(), found.host.to_string());
            (reference, host, found.ahead_nano, found.uncertainty_nano, found.exchanges)
        });
        told.collect()
    }

    fn named() -> Clocks {
        let mut clocks = Clocks::default();
        for host in ["a", "b"] {
            clocks.name(Text::of(host), host);
        }
        clocks
    }

    proptest! {
        #[test]
        fn the_truth_lies_within_the_uncertainty(
            ahead in -10_000_000_000i64..10_000_000_000,
            calls in prop::collection::vec(
                (0i64..1_000_000, 0i64..1_000_000_000, 0i64..1_000_000, any::<bool>()), 1..20),
        ) {
            let mut clocks = named();
            let mut closest = i64::MAX;
            for (there, work, back, turned) in &calls {
                let (near, far) = if *turned {
                    hop(("b", 5 + ahead, there + work + back), ("a", 5 + there, *work))
                } else {
                    call(ahead, *there, *work, *back)
                };
                clocks.note(&near, &far);
                closest = closest.min((there + back) / 2);
            }
            let found = told(&clocks);
            prop_assert_eq!(found.len(), 1);
            let (reference, host, told, uncertainty, exchanges) = &found[0];
            prop_assert_eq!((reference.as_str(), host.as_str()), ("a", "b"));
            prop_assert_eq!(*exchanges, calls.len() as u64);
            prop_assert!((told - ahead).abs() <= uncertainty + 1);
            prop_assert!((uncertainty - closest).abs() <= 1);
        }
    }

    #[test]
    fn a_clock_that_was_set_is_told_anew_after_two_periods() {
        let mut clocks = named();
        let note = |clocks: &mut Clocks, ahead, there| {
            let (near, far) = call(ahead, there, 1_000, 100);
            clocks.note(&near, &far);
        };
        note(&mut clocks, 5_000_000, 100);
        clocks.tick(PERIOD_NANO);
        note(&mut clocks, 0, 300);
        assert_eq!(told(&clocks)[0].2, 5_000_000, "the closer one of two periods");
        clocks.tick(2 * PERIOD_NANO);
        assert_eq!(told(&clocks)[0].2, 100);
        clocks.tick(3 * PERIOD_NANO);
        clocks.tick(4 * PERIOD_NANO);
        assert_eq!(told(&clocks), [], "nothing was heard of them");
    }

    #[test]
    fn a_difference_is_told_in_words() {
        let found = ClockDifference {
            reference: "a",
            host: "b",
            ahead_nano: -503_210_000,
            uncertainty_nano: 340_000,
            exchanges: 3,
        };
        let said =
            "the clock of b is 503.2 ms behind that of a (± 0.3 ms, by 3 calls between them)";
        assert_eq!(found.to_string(), said);
        assert!(found.is_notable());
        assert!(!ClockDifference { uncertainty_nano: 502_500_000, ..found }.is_notable());
        let one = ClockDifference { exchanges: 1, ahead_nano: 2_000_000, ..found }.to_string();
        assert!(
            one.contains("2.0 ms ahead of that of a") && one.contains("by 1 call between"),
            "{one}"
        );
    }

    #[test]
    fn what_bounds_nothing_is_not_counted() {
        let mut clocks = named();
        // The server's end was inferred from silence, long after the client's.
        let (near, far) = hop(("a", 0, 1_000), ("b", 10, 50_000));
        clocks.note(&near, &far);
        // One response was not captured.
        let (near, mut far) = call(0, 1, 1, 1);
        far.response_tcp_seq = None;
        clocks.note(&near, &far);
        // Both ends are on one host.
        let (near, far) = hop(("a", 0, 1_000), ("a", 10, 50));
        clocks.note(&near, &far);
        assert_eq!(told(&clocks), []);
    }
}
