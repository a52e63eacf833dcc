//! Values of attributes that separate slow or failed spans from the others.

use ahash::AHashMap;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use spanwise_model::Status;
use spanwise_model::schema::column;
use spanwise_store::{Order, Predicate, Query, TimeRange};

use super::{CauseAttribute, CauseKind, CauseSuspect};
use crate::graph::words;
use crate::{Queries, QueryError, on_blocking_thread};

/// Spans whose attributes are read, of the range and of the usual ones.
const MAX_ROWS: usize = 3_000;
/// Bad and good spans that there must be.
const LEAST: usize = 5;
/// Longer values are seldom shared.
const MAX_VALUE_BYTES: usize = 120;
/// Different values that are counted; later ones are not.
const MAX_VALUES: usize = 50_000;
/// The least difference of shares, and the most attributes that are told.
const DIFFERENCE: f64 = 0.5;
const MOST: usize = 3;

/// How many bad and good spans have a value.
type Counts = AHashMap<(String, String), [usize; 2]>;

impl Queries {
    /// The values that separate the suspect's bad spans from good ones of the same operation, both
    /// of the range and of the usual ones.
    pub(super) async fn separating_attributes(
        &self,
        suspect: &CauseSuspect,
        slow_nano: Option<i64>,
        time: TimeRange,
        usual_time: Option<TimeRange>,
    ) -> Result<Vec<CauseAttribute>, QueryError> {
        let kind = suspect.evidence.first().map(|evidence| evidence.kind);
        let (Some(operation), Some(usual_time)) = (&suspect.operation, usual_time) else {
            return Ok(Vec::new());
        };
        let by_errors = match (kind, slow_nano) {
            (Some(CauseKind::Errors), _) => true,
            (Some(CauseKind::OwnTime), Some(_)) => false,
            _ => return Ok(Vec::new()),
        };
        let mut found = Vec::new();
        for time in [time, usual_time] {
            let query = Query {
                predicate: Predicate {
                    service: Some(suspect.service.clone()),
                    operation: Some(operation.clone()),
                    ..Predicate::default()
                },
                time,
                columns: vec![column::DURATION_NANO, column::STATUS, column::ATTRIBUTES],
                keys: None,
                limit: MAX_ROWS,
                order: Order::NewestFirst,
            };
            found.push(self.store.find(&query).await?);
        }
        let slow_nano = slow_nano.unwrap_or(i64::MAX);
        on_blocking_thread("comparing attributes", move || {
            let mut counts = Counts::new();
            let mut spans = [0_usize; 2];
            for (place, batches) in found.iter().enumerate() {
                for batch in batches {
                    let is_bad = |duration: i64, failed: bool| {
                        place == 0 && if by_errors { failed } else { duration > slow_nano }
                    };
                    count(batch, is_bad, &mut counts, &mut spans);
                }
            }
            separating(counts, spans)
        })
        .await
    }
}

fn count(
    batch: &RecordBatch,
    is_bad: impl Fn(i64, bool) -> bool,
    counts: &mut Counts,
    spans: &mut [usize; 2],
) {
    let mut read = || -> Option<()> {
        let durations =
            batch.column_by_name(column::DURATION_NANO)?.as_primitive_opt::<Int64Type>()?;
        let failed = words(batch, column::STATUS, |text| text == Status::Error.as_str())?;
        let maps = batch.column_by_name(column::ATTRIBUTES)?.as_map_opt()?;
        let keys = maps.keys().as_string_opt::<i32>()?;
        let values = maps.values().as_struct_opt()?.column_by_name("value")?;
        let values = values.as_string_opt::<i32>()?;
        for (row, range) in maps.value_offsets().windows(2).enumerate() {
            let side = usize::from(!is_bad(durations.value(row), failed(row) == Some(true)));
            spans[side] += 1;
            for entry in range[0] as usize..range[1] as usize {
                let (key, value) = (keys.value(entry), values.value(entry));
                if value.len() > MAX_VALUE_BYTES {
                    continue;
                }
                let key = (key.to_owned(), value.to_owned());
                if counts.len() < MAX_VALUES || counts.contains_key(&key) {
                    counts.entry(key).or_default()[side] += 1;
                }
            }
        }
        Some(())
    };
    if read().is_none() {
        tracing::error!("the store returned columns of other types than the span schema's");
    }
}

fn separating(counts: Counts, [bad, good]: [usize; 2]) -> Vec<CauseAttribute> {
    if bad < LEAST || good < LEAST {
        return Vec::new();
    }
    let mut found: Vec<CauseAttribute> = counts
        .into_iter()
        .map(|((key, value), [in_bad, in_good])| CauseAttribute {
            key,
            value,
            bad_share: in_bad as f64 / bad as f64,
            good_share: in_good as f64 / good as f64,
        })
        .filter(|one| one.bad_share - one.good_share >= DIFFERENCE)
        .collect();
    found.sort_by(|one, other| {
        let difference = |it: &CauseAttribute| it.bad_share - it.good_share;
        difference(other)
            .total_cmp(&difference(one))
            .then_with(|| (&one.key, &one.value).cmp(&(&other.key, &other.value)))
    });
    found.truncate(MOST);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_bad_spans_only_separate() {
        let key = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let counts = Counts::from_iter([
            (key("tenant", "a"), [9, 2]),
            (key("method", "GET"), [10, 100]),
            (key("id", "1"), [1, 0]),
        ]);
        let found = separating(counts.clone(), [10, 100]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].value.as_str(), found[0].bad_share), ("a", 0.9));
        assert!(separating(counts, [4, 100]).is_empty(), "four bad spans say nothing");
    }
}
