//! What entrances are expected to get, from counts of their spans in former hours.

use std::collections::BTreeMap;
use std::time::Duration;

use spanwise_analyze::Operation;
use spanwise_analyze::forecast::{Forecast, HOUR_NANO, HourlyRates};
use spanwise_model::Kind;
use spanwise_model::schema::column;
use spanwise_store::{Counting, RowCounts, SqlLimits, TimeRange};

use crate::{Queries, QueryError, now_unix_nano};

const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(10), rows: 1_000_000, memory_bytes: 512 << 20 };
/// Hours that are looked back: four weeks, and the days around them.
const HOURS: i64 = 30 * 24;
/// The most operations whose rates are kept, those with most spans.
const MOST_OPERATIONS: usize = 10_000;

/// Rates of operations in former hours.
#[derive(Debug, Clone, Default)]
pub struct RateHistory {
    operations: BTreeMap<Operation, HourlyRates>,
    services: BTreeMap<String, HourlyRates>,
}

impl RateHistory {
    /// The expected rate of requests to an operation in the hour that this is in.
    pub fn operation(&self, name: &Operation, unix_nano: i64) -> Option<Forecast> {
        self.operations.get(name)?.forecast(unix_nano)
    }

    /// The expected rate of requests to a service.
    pub fn service(&self, name: &str, unix_nano: i64) -> Option<Forecast> {
        self.services.get(name)?.forecast(unix_nano)
    }

    /// The services with rates.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.services.keys().map(String::as_str)
    }
}

impl Queries {
    /// Rates of requests in former whole hours. What calls is not counted.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn rate_history(&self) -> Result<RateHistory, QueryError> {
        let end = now_unix_nano().div_euclid(HOUR_NANO) * HOUR_NANO;
        let first = end - HOURS * HOUR_NANO;
        let time = TimeRange { from_unix_nano: first, to_unix_nano: end };
        let counts = self.requests(time, HOUR_NANO).await?;
        let mut known_from = HOURS as usize;
        let mut operations: BTreeMap<Operation, Vec<u64>> = BTreeMap::new();
        let mut services: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for RowCounts { words, intervals } in counts {
            let Some(name) = operation(words) else { continue };
            let begun = intervals.iter().position(|count| *count > 0);
            // Of the first hour, only a part may be stored.
            known_from = known_from.min(begun.map_or(known_from, |hour| hour + 1));
            add(services.entry(name.service.clone()).or_default(), &intervals);
            add(operations.entry(name).or_default(), &intervals);
        }
        if operations.len() > MOST_OPERATIONS {
            let mut all: Vec<_> = operations.into_iter().collect();
            all.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
            all.truncate(MOST_OPERATIONS);
            operations = all.into_iter().collect();
        }
        let rates = |counts: &Vec<u64>| HourlyRates::of_counts(first, counts, known_from);
        Ok(RateHistory {
            operations: operations.into_iter().map(|(name, it)| (name, rates(&it))).collect(),
            services: services.into_iter().map(|(name, it)| (name, rates(&it))).collect(),
        })
    }

    /// How many requests each operation got in a range of time.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn request_counts(
        &self,
        time: TimeRange,
    ) -> Result<BTreeMap<Operation, u64>, QueryError> {
        let length = time.to_unix_nano.saturating_sub(time.from_unix_nano).max(1);
        let mut operations: BTreeMap<Operation, u64> = BTreeMap::new();
        for RowCounts { words, intervals } in self.requests(time, length).await? {
            let Some(name) = operation(words) else { continue };
            *operations.entry(name).or_default() += intervals.iter().sum::<u64>();
        }
        Ok(operations)
    }

    async fn requests(
        &self,
        time: TimeRange,
        step_nano: i64,
    ) -> Result<Vec<RowCounts>, QueryError> {
        let columns = vec![column::SERVICE, column::OPERATION, column::KIND];
        let counting = Counting { columns, time, step_nano, only_presence: false };
        Ok(self.store.count_rows(&counting, LIMITS).await?)
    }
}

/// The operation of rows with these words, unless they call another one.
fn operation(words: Vec<String>) -> Option<Operation> {
    let [service, operation, kind] = <[String; 3]>::try_from(words).ok()?;
    let calls = [Kind::Client, Kind::Producer].iter().any(|calling| calling.as_str() == kind);
    (!calls).then_some(Operation { service, operation })
}

fn add(all: &mut Vec<u64>, more: &[u64]) {
    if all.len() < more.len() {
        all.resize(more.len(), 0);
    }
    all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
}
