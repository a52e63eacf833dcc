//! The second profile: services with several pods, instrumented by several teams. Spans are more
//! varied than in a [shop](crate::Profile::Shop): resources contain Kubernetes labels and the
//! image's digest; attributes are hexadecimal identifiers, statements with values, whole URLs and
//! many user agents; and errors have stack traces.

mod resource;
mod span;
mod stacks;
mod texts;

pub(crate) use resource::resource;
pub(crate) use span::{attributes, exception, statement_name};

use crate::random::Random;

/// Maximum pods of a service.
pub(crate) const MOST_PODS: usize = 9;

/// Number of pods of a service, at least two.
pub(crate) const fn pods(service: usize) -> usize {
    2 + (service * 5 + 3) % (MOST_PODS - 1)
}

/// The pod that serves a request. Load balancing is not quite even.
pub(crate) const fn pod(random: &mut Random, service: usize) -> usize {
    let count = pods(service) as u64;
    if random.chance(0.7) { random.below(count) as usize } else { random.skewed(count) as usize }
}

/// A number below `count` with a Zipf-like distribution: the probability of the n-th is
/// proportional to 1/n.
pub(crate) fn zipf(random: &mut Random, count: u64) -> u64 {
    let most = (count as f64 + 1.0).ln();
    ((random.unit() * most).exp() as u64).clamp(1, count) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_come_most_often() {
        let (mut random, mut counts) = (Random::new(3), [0; 20]);
        for _ in 0..20_000 {
            counts[zipf(&mut random, 20) as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
        assert!(counts[0] > 3 * counts[3] && counts[0] < 9 * counts[3], "{counts:?}");
    }

    #[test]
    fn services_have_several_pods() {
        assert!((0..30).all(|service| (2..=MOST_PODS).contains(&pods(service))));
        let mut random = Random::new(4);
        assert!((0..1000).all(|n| pod(&mut random, n % 30) < pods(n % 30)));
    }
}
