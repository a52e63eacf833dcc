//! The second profile: services in several pods each, as instrumented by several
//! teams. What a span has is less alike than in a [shop](crate::Profile::Shop):
//! resources carry Kubernetes' labels and the image's digest, attributes are
//! identifiers in hexadecimal, statements with their values in them, whole URLs and
//! many user agents, and what fails brings a stack trace.

mod resource;
mod span;
mod stacks;
mod texts;

pub(crate) use resource::resource;
pub(crate) use span::{attributes, exception, statement_name};

use crate::random::Random;

/// Pods of a service, at most.
pub(crate) const MOST_PODS: usize = 9;

/// Pods of a service: two at least.
pub(crate) const fn pods(service: usize) -> usize {
    2 + (service * 5 + 3) % (MOST_PODS - 1)
}

/// Which of a service's pods answers: balancers are not quite even.
pub(crate) const fn pod(random: &mut Random, service: usize) -> usize {
    let count = pods(service) as u64;
    if random.chance(0.7) { random.below(count) as usize } else { random.skewed(count) as usize }
}

/// One of so many, of which the first come most often (Zipf's law, about): the
/// probability of the n-th goes as 1/n.
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
