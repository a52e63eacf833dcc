//! Finds counters that grew recently, between requests of the status.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spanwise_api::{Count, Counter, CounterPart, Level};

use super::sentence;

/// How long a loss is reported after its counter last grew.
const REPORTED_FOR: Duration = Duration::from_secs(15 * 60);

/// The values of counters at the last request of the status.
#[derive(Default)]
pub(crate) struct CounterGrowth(Mutex<HashMap<(CounterPart, String), LastValue>>);

struct LastValue {
    value: Count,
    grew: Instant,
}

impl CounterGrowth {
    /// A sentence for each loss or fault that is new or grew in the last minutes.
    pub(crate) fn sentences(&self, counters: &[Counter], now: Instant) -> Vec<String> {
        let mut all = self.0.lock();
        let mut sentences = Vec::new();
        let bad = counters.iter().filter(|counter| counter.level > Level::Info);
        for counter in bad {
            let key = (counter.part, counter.name.clone());
            let seen = all.entry(key).or_insert(LastValue { value: Count(0), grew: now });
            // An agent's counters start at zero after a restart.
            if counter.value != seen.value {
                seen.grew = if counter.value > seen.value { now } else { seen.grew };
                seen.value = counter.value;
            }
            if now.saturating_duration_since(seen.grew) < REPORTED_FOR {
                sentences.push(sentence(counter));
            }
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::super::counter;
    use super::*;

    #[test]
    fn a_loss_is_told_of_while_it_is_new() {
        let growth = CounterGrowth::default();
        let now = Instant::now();
        let lost = |value| [counter(CounterPart::Ingest, "requests_timed_out", Count(value))];
        let later = |minutes: u64| now + Duration::from_secs(minutes * 60);
        assert_eq!(growth.sentences(&lost(2), now).len(), 1);
        assert_eq!(growth.sentences(&lost(2), later(14)).len(), 1);
        assert_eq!(growth.sentences(&lost(2), later(16)).len(), 0);
        let said = growth.sentences(&lost(3), later(17));
        assert!(said[0].contains("requests_timed_out: 3"), "{said:?}");
        assert_eq!(
            growth
                .sentences(&[counter(CounterPart::Ingest, "zipkin_requests", Count(9))], now)
                .len(),
            0
        );
    }
}
