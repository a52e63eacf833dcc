//! Metrics that the store counts itself: those of columns that every row has. No span is made
//! for them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use arrow::array::{Array, RecordBatch};
use spanwise_model::ModelError;
use spanwise_store::{Counting, RowCounts, SqlLimits, StoreError, TimeRange};
use spanwise_traceql::ast::{
    Attribute, Comparison, Field, Function, Intrinsic, Kind, Literal, Measure, Metrics, Scope,
    Stage, Status,
};
use spanwise_traceql::metrics::{Counted, Evaluation, Grid};
use spanwise_traceql::trace::{Trace, TraceView};
use spanwise_traceql::{Check, Condition, Test, Value};

use super::plan;
use crate::services::{floats, integers, texts};
use crate::{Queries, QueryError};

/// Groups and intervals that a statement may give.
const MAX_COUNTS: usize = 1_000_000;
const MEMORY_BYTES: usize = 512 << 20;
/// How long all words of a column may take.
const WORDS_TIME: Duration = Duration::from_secs(10);

/// How the store counts for a function.
pub(super) enum Count {
    /// Rows by these words, of which those count that satisfy the condition.
    Words { words: Vec<Of>, condition: Condition, by: Vec<Of> },
    /// A statement gives what is grouped by, the interval, and numbers.
    Statement { text: String, by: Vec<Of>, has_numbers: bool },
}

/// A column that is grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Service,
    Name,
    Kind,
    Status,
}

impl Of {
    fn field(field: &Field) -> Option<Self> {
        match field {
            Field::Attribute(Attribute { parent: false, scope: Scope::Resource, name })
                if name == "service.name" =>
            {
                Some(Self::Service)
            }
            Field::Intrinsic(Intrinsic::Name) => Some(Self::Name),
            Field::Intrinsic(Intrinsic::Kind) => Some(Self::Kind),
            Field::Intrinsic(Intrinsic::Status) => Some(Self::Status),
            _ => None,
        }
    }

    const fn column(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Name => "operation",
            Self::Kind => "kind",
            Self::Status => "status",
        }
    }

    fn value(self, text: &str) -> Value<'static> {
        match self {
            Self::Service | Self::Name => Value::String(text.to_owned().into()),
            Self::Kind => Value::Kind(super::spans::kind(text)),
            Self::Status => Value::Status(super::spans::status(text)),
        }
    }
}

/// How all functions are counted; `None` where one needs more than columns.
pub(super) fn counts(metrics: &Metrics, grid: Grid) -> Option<Vec<Count>> {
    metrics.measures().into_iter().map(|measure| count(measure, grid)).collect()
}

fn count(measure: &Measure, grid: Grid) -> Option<Count> {
    let has_numbers = match &measure.function {
        Function::Rate | Function::Count => false,
        Function::Minimum(field)
        | Function::Maximum(field)
        | Function::Average(field)
        | Function::Sum(field) => {
            (*field == Field::Intrinsic(Intrinsic::Duration)).then_some(true)?
        }
        Function::Quantile { .. } | Function::Histogram(_) | Function::Compare { .. } => {
            return None;
        }
    };
    let is_plain = |stage: &Stage| matches!(stage, Stage::Spansets(_) | Stage::Select(_));
    let needs = measure.spans.needs();
    if !needs.exact || !measure.spans.stages.iter().all(is_plain) {
        return None;
    }
    let by: Vec<Of> = measure.by.iter().map(Of::field).collect::<Option<_>>()?;
    let asked = needs.spans.fields().into_iter().map(Of::field).collect::<Option<Vec<Of>>>();
    if let (Some(asked), false) = (asked, has_numbers) {
        let mut words: Vec<Of> = Vec::new();
        for of in asked.into_iter().chain(by.iter().copied()) {
            if !words.contains(&of) {
                words.push(of);
            }
        }
        return Some(Count::Words { words, condition: needs.spans, by });
    }
    let condition = sql(&needs.spans)?;
    let (first, last) = grid.bounds();
    let (first, last) = (i64::try_from(first).ok()?, i64::try_from(last).ok()?);
    let step = step_nano(grid)?;
    let mut text = "SELECT ".to_owned();
    for of in &by {
        let _ = write!(text, "{}, ", of.column());
    }
    // Not all engines divide integers alike.
    let _ = write!(
        text,
        "CAST(floor((start_unix_nano - {first}) / {step}) AS BIGINT) AS place, count(*) AS spans"
    );
    if has_numbers {
        text.push_str(
            ", min(duration_nano) AS least, max(duration_nano) AS most, \
             sum(CAST(duration_nano AS DOUBLE)) AS total",
        );
    }
    let _ = write!(
        text,
        " FROM spans WHERE start_unix_nano >= {first} AND start_unix_nano <= {last} AND {condition} \
         GROUP BY "
    );
    for of in &by {
        let _ = write!(text, "{}, ", of.column());
    }
    text.push_str("place");
    Some(Count::Statement { text, by, has_numbers })
}

/// The length of the intervals; one that holds both ends of an instant query.
fn step_nano(grid: Grid) -> Option<i64> {
    let step = i64::try_from(grid.step_nanos()).ok()?;
    step.checked_add(i64::from(grid.is_instant()))
}

/// The condition in SQL; `None` where it asks for more than columns.
fn sql(condition: &Condition) -> Option<String> {
    let joined = |all: &[Condition], with: &str| {
        let all: Vec<String> = all.iter().map(sql).collect::<Option<_>>()?;
        Some(format!("({})", all.join(with)))
    };
    match condition {
        Condition::Always => Some("1 = 1".to_owned()),
        Condition::Never => Some("1 = 0".to_owned()),
        Condition::All(all) => joined(all, " AND "),
        Condition::Any(any) => joined(any, " OR "),
        Condition::Test(test) => of_test(test),
    }
}

fn of_test(Test { field, check }: &Test) -> Option<String> {
    let never = || Some("1 = 0".to_owned());
    if *field == Field::Intrinsic(Intrinsic::NestedSetParent) {
        // It is only asked whether the span is a root.
        let root = "(assembled_parent IS NULL AND (parent_span_id IS NULL OR parent_span_id = \
                    span_id))";
        return Some(root.to_owned());
    }
    if *field == Field::Intrinsic(Intrinsic::Duration) {
        let Check::Compare(operator, literal) = check else { return None };
        let bounds = plan::durations(*operator, literal)?;
        let Some(bounds) = bounds.first() else { return never() };
        let least = bounds.min_duration_nano.map(|least| format!("duration_nano >= {least}"));
        let most = bounds.max_duration_nano.map(|most| format!("duration_nano <= {most}"));
        let both: Vec<String> = least.into_iter().chain(most).collect();
        return Some(if both.is_empty() { "1 = 1".to_owned() } else { both.join(" AND ") });
    }
    let of = Of::field(field)?;
    let (operator, words) = match check {
        Check::Exists => return Some("1 = 1".to_owned()),
        Check::Compare(operator, literal) => {
            let operator = match operator {
                Comparison::Equal => "IN",
                Comparison::NotEqual => "NOT IN",
                _ => return None,
            };
            match word(of, literal) {
                Some(word) => (operator, vec![word.to_owned()]),
                // What has another type is neither equal nor unequal.
                None => return never(),
            }
        }
        Check::Matches(pattern) if matches!(of, Of::Service | Of::Name) => {
            ("IN", pattern.texts()?.to_vec())
        }
        Check::NotMatches(pattern) if matches!(of, Of::Service | Of::Name) => {
            ("NOT IN", pattern.texts()?.to_vec())
        }
        Check::Matches(_) | Check::NotMatches(_) => return never(),
    };
    let words: Vec<String> = words.iter().map(|word| literal(word)).collect::<Option<_>>()?;
    Some(format!("{} {operator} ({})", of.column(), words.join(", ")))
}

fn word(of: Of, literal: &Literal) -> Option<&str> {
    match (of, literal) {
        (Of::Service | Of::Name, Literal::String(text)) => Some(text),
        (Of::Kind, Literal::Kind(kind)) => Some(match kind {
            Kind::Unspecified => "unspecified",
            Kind::Internal => "internal",
            Kind::Server => "server",
            Kind::Client => "client",
            Kind::Producer => "producer",
            Kind::Consumer => "consumer",
        }),
        (Of::Status, Literal::Status(status)) => Some(match status {
            Status::Unset => "unset",
            Status::Ok => "ok",
            Status::Error => "error",
        }),
        _ => None,
    }
}

/// A text in a statement; `None` where engines read it differently.
fn literal(text: &str) -> Option<String> {
    let is_plain = !text.contains(['\\', '\0']);
    is_plain.then(|| format!("'{}'", text.replace('\'', "''")))
}

impl Queries {
    /// Adds what the store counts to the evaluation of the query. Returns the number of spans;
    /// `None` where the store gives up, and nothing was added.
    pub(super) async fn add_counts(
        &self,
        counts: &[Count],
        grid: Grid,
        evaluation: &mut Evaluation<'_>,
        timeout: Duration,
    ) -> Result<Option<usize>, QueryError> {
        let limits = SqlLimits { timeout, rows: MAX_COUNTS, memory_bytes: MEMORY_BYTES };
        let mut all = Vec::new();
        for count in counts {
            match self.counts_of(count, grid, limits).await {
                Ok(counted) => all.push(counted),
                Err(QueryError::Store(StoreError::Limit(_))) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let mut spans = 0;
        for (measure, counted) in all.into_iter().enumerate() {
            for counted in counted {
                spans += counted.spans;
                evaluation.add(measure, counted);
            }
        }
        Ok(Some(usize::try_from(spans).unwrap_or(usize::MAX)))
    }

    /// All words that rows have which satisfy a condition; `None` where other columns tell.
    pub(super) async fn words_of(
        &self,
        field: &Field,
        condition: &Condition,
        time: TimeRange,
    ) -> Result<Option<BTreeSet<String>>, QueryError> {
        let is_always = *condition == Condition::Always;
        let of = match field {
            Field::Intrinsic(Intrinsic::RootName) if is_always => Of::Name,
            Field::Intrinsic(Intrinsic::RootService) if is_always => Of::Service,
            field => match Of::field(field) {
                Some(of) => of,
                None => return Ok(None),
            },
        };
        let asked = condition.fields().into_iter().map(Of::field).collect::<Option<Vec<Of>>>();
        let Some(mut words) = asked else { return Ok(None) };
        words.sort_unstable();
        words.dedup();
        words.retain(|word| *word != of);
        words.push(of);
        let columns = words.iter().map(|of| of.column()).collect();
        let counting = Counting { columns, time, step_nano: i64::MAX, only_presence: true };
        let limits =
            SqlLimits { timeout: WORDS_TIME, rows: MAX_COUNTS, memory_bytes: MEMORY_BYTES };
        let mut all = BTreeSet::new();
        for rows in self.store.count_rows(&counting, limits).await? {
            let mut counted = Vec::new();
            let text = rows.words.last().cloned().unwrap_or_default();
            of_words(rows, &words, condition, &[], &mut counted);
            all.extend((!counted.is_empty()).then_some(text));
        }
        Ok(Some(all))
    }

    async fn counts_of(
        &self,
        count: &Count,
        grid: Grid,
        limits: SqlLimits,
    ) -> Result<Vec<Counted>, QueryError> {
        let mut all = Vec::new();
        match count {
            Count::Statement { text, by, has_numbers } => {
                for batch in self.store.own_sql(text, limits).await? {
                    of_statement(&batch, by, *has_numbers, &mut all)?;
                }
            }
            Count::Words { words, condition, by } => {
                let (first, last) = grid.bounds();
                let too_late = || StoreError::Limit("the time is too late".to_owned());
                let nano = |nanos: u64| i64::try_from(nanos).map_err(|_| too_late());
                let counting = Counting {
                    columns: words.iter().map(|of| of.column()).collect(),
                    time: TimeRange {
                        from_unix_nano: nano(first)?,
                        to_unix_nano: nano(last)?.saturating_add(1),
                    },
                    step_nano: step_nano(grid).ok_or_else(too_late)?,
                    only_presence: false,
                };
                for rows in self.store.count_rows(&counting, limits).await? {
                    of_words(rows, words, condition, by, &mut all);
                }
            }
        }
        Ok(all)
    }
}

/// The counts of rows with the same words, if they satisfy the condition.
fn of_words(
    rows: RowCounts,
    words: &[Of],
    condition: &Condition,
    by: &[Of],
    counted: &mut Vec<Counted>,
) {
    let word = |of: Of| {
        let place = words.iter().position(|word| *word == of);
        place.and_then(|place| rows.words.get(place)).map_or("", String::as_str)
    };
    let span =
        super::spans::of_words(word(Of::Service), word(Of::Name), word(Of::Kind), word(Of::Status));
    let trace = Trace { spans: vec![span], ..Trace::default() };
    if !condition.holds(&TraceView::new(&trace), 0) {
        return;
    }
    let by: Vec<Value<'static>> = by.iter().map(|of| of.value(word(*of))).collect();
    let intervals = rows.intervals.iter().enumerate().filter(|(_, spans)| **spans > 0);
    counted.extend(intervals.map(|(place, spans)| Counted {
        by: by.clone(),
        place,
        spans: *spans,
        least: 0.0,
        most: 0.0,
        total: 0.0,
    }));
}

/// The counts in a batch that a statement gave.
fn of_statement(
    batch: &RecordBatch,
    by: &[Of],
    has_numbers: bool,
    counted: &mut Vec<Counted>,
) -> Result<(), ModelError> {
    let groups = by.len();
    let words = (0..groups).map(|column| texts(batch, [column]).map(|[texts]| texts));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let [places, spans] = integers(batch, [groups, groups + 1])?;
    let numbers = match has_numbers {
        true => Some(floats(batch, [groups + 2, groups + 3, groups + 4])?),
        false => None,
    };
    for row in 0..batch.num_rows() {
        let number = |which: usize| {
            let numbers = numbers.as_ref().map(|numbers| &numbers[which]);
            numbers.filter(|numbers| numbers.is_valid(row)).map_or(0.0, |it| it.value(row))
        };
        let key = by.iter().zip(&words).map(|(of, words)| of.value(words.value(row)));
        counted.push(Counted {
            by: key.collect(),
            place: usize::try_from(places.value(row)).unwrap_or(usize::MAX),
            spans: spans.value(row).max(0).cast_unsigned(),
            least: number(0),
            most: number(1),
            total: number(2),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_traceql::ast::Body;
    use spanwise_traceql::parse;

    fn made(query: &str) -> Option<Count> {
        let query = parse(query).expect("a query");
        let Body::Metrics(metrics) = &query.body else { panic!("metrics") };
        let grid = Grid::range(0, 100, 10).expect("a grid");
        counts(metrics, grid)?.into_iter().next()
    }

    #[test]
    fn what_is_counted_is_of_columns_and_nothing_else() {
        let made_text = |query| match made(query) {
            Some(Count::Statement { text, .. }) => text,
            _ => panic!("no statement: {query}"),
        };
        assert_eq!(
            made_text(
                "{ resource.service.name = `it's` && kind != server || duration > 5ns } | rate() \
                 by (name)"
            ),
            "SELECT operation, CAST(floor((start_unix_nano - 1) / 10) AS BIGINT) AS place, \
             count(*) AS spans FROM spans WHERE start_unix_nano >= 1 AND start_unix_nano <= 100 \
             AND ((service IN ('it''s') AND kind NOT IN ('server')) OR duration_nano >= 6) \
             GROUP BY operation, place"
        );
        made_text("{ nestedSetParent < 0 } | avg_over_time(duration)");
        for query in [
            "{} | rate()",
            "{ name =~ `a.*` && status != ok } | count_over_time() by (resource.service.name)",
            "{ name = `a\\b` } | rate()",
        ] {
            assert!(matches!(made(query), Some(Count::Words { .. })), "{query}");
        }
        for other in [
            "{ .a = 1 } | rate()",
            "{ name = `a\\b` && duration > 1s } | rate()",
            "{} | rate() by (.a)",
            "{} | quantile_over_time(duration, .5)",
            "{} | sum_over_time(.a)",
            "{ name = `a` } >> { name = `b` } | rate()",
            "{ kind = server } | by(name) | count() > 1 | rate()",
            "({} | rate()) / ({ rootName = `x` } | rate())",
        ] {
            assert!(made(other).is_none(), "{other}");
        }
    }
}
