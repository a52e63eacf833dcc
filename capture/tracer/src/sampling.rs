//! Which spans are kept where not all are: failures and slow ones always.
//!
//! A request leaves no mark on another host that could say whether it is kept:
//! no packet is changed. So what decides is the time: whole seconds are kept, the
//! same ones by all agents, and with them all that happened then. A trace is cut
//! only where it crosses the border of such a second.

use std::collections::HashSet;

use spanwise_capture_protocols::attribution::Fragment;
use spanwise_capture_protocols::sessions::Exchange;

/// Traces last some milliseconds: one in a hundred or so crosses a border.
const SLICE_NANO: u64 = 1_000_000_000;
/// Fragments remembered in which something was kept for its own sake; beyond,
/// all are forgotten.
const MAX_FRAGMENTS: usize = 8192;

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Of time, and so of requests that are neither failed nor slow: 0 to 1.
    pub share: f64,
    /// Requests that take at least this long are slow.
    pub slow_nano: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { share: 1.0, slow_nano: 1_000_000_000 }
    }
}

/// Why a span is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kept {
    /// Because all are.
    All,
    /// Because it failed or was slow, or belongs to what did.
    Always,
    /// By chance: it stands for `1 / share` of its kind.
    ByShare(f64),
}

/// Decides, span by span.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    sampling: Sampling,
    fragments: HashSet<u64>,
}

impl Sampler {
    pub(crate) fn set(&mut self, sampling: Sampling) {
        self.sampling = sampling;
        self.fragments.clear();
    }

    /// Whether the exchange's span is kept, and why. `start_unix_nano` is when it
    /// began.
    pub(crate) fn keeps(&mut self, exchange: &Exchange, start_unix_nano: u64) -> Option<Kept> {
        if self.sampling.share >= 1.0 {
            return Some(Kept::All);
        }
        let fragment = match exchange.fragment {
            Fragment::Own(fragment) | Fragment::Within { fragment, .. } => Some(fragment),
            Fragment::None | Fragment::Ambiguous { .. } => None,
        };
        let end = exchange.response_end.unwrap_or(exchange.request_end);
        let duration_nano = end.time_nano.saturating_sub(exchange.request_start.time_nano);
        if exchange.answer.failure.is_some() || duration_nano >= self.sampling.slow_nano {
            if let Some(fragment) = fragment {
                if self.fragments.len() >= MAX_FRAGMENTS {
                    self.fragments.clear();
                }
                self.fragments.insert(fragment);
            }
            return Some(Kept::Always);
        }
        // The request that a process serves ends after those that it makes: it is
        // kept with them.
        if fragment.is_some_and(|fragment| self.fragments.contains(&fragment)) {
            return Some(Kept::Always);
        }
        is_kept(start_unix_nano / SLICE_NANO, self.sampling.share)
            .then_some(Kept::ByShare(self.sampling.share))
    }
}

/// Whether this share of all seconds has this one. Those of a smaller share are
/// among those of a larger one.
fn is_kept(second: u64, share: f64) -> bool {
    // SplitMix64's finalizer: neighbours are told apart, so that what happens
    // every ten seconds is neither always kept nor never.
    let mut hash = second.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    // 53 bits are what a double holds exactly.
    let place = (hash >> 11) as f64 / (1u64 << 53) as f64;
    place < share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_seconds_are_kept_as_asked_for_and_smaller_shares_are_within_larger_ones() {
        for share in [0.0, 0.01, 0.1, 0.5, 1.0] {
            let kept = (0..100_000).filter(|second| is_kept(*second, share)).count();
            let expected = share * 100_000.0;
            assert!((kept as f64 - expected).abs() < 1000.0, "{kept} of {share}");
        }
        assert!((0..10_000).all(|second| !is_kept(second, 0.1) || is_kept(second, 0.2)));
    }

    #[test]
    fn what_happens_every_ten_seconds_is_sampled_like_everything() {
        let kept = (0..10_000).filter(|tenth| is_kept(tenth * 10, 0.1)).count();
        assert!((800..1200).contains(&kept), "{kept}");
    }
}
