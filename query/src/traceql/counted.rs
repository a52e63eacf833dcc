//! Metrics that the store counts itself, by a statement: those of columns that every row has.
//! Hundreds of thousands of rows a second need no more than their columns then.

use std::fmt::Write as _;
use std::time::Duration;

use arrow::array::{Array, RecordBatch};
use spanwise_model::ModelError;
use spanwise_store::{SqlLimits, StoreError};
use spanwise_traceql::ast::{
    Attribute, Comparison, Field, Function, Intrinsic, Kind, Literal, Measure, Metrics, Scope,
    Stage, Status,
};
use spanwise_traceql::metrics::{Counted, Evaluation, Grid};
use spanwise_traceql::{Check, Condition, Test, Value};

use super::plan;
use crate::services::{floats, integers, texts};
use crate::{Queries, QueryError};

/// Groups and intervals that a statement may give.
const MAX_COUNTS: usize = 1_000_000;
const MEMORY_BYTES: usize = 512 << 20;

/// The statement for a function over spans, and how to read what it gives.
pub(super) struct Statement {
    text: String,
    by: Vec<Of>,
    has_numbers: bool,
}

/// A column that is grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
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

/// The statements of all functions; `None` where one needs more than columns.
pub(super) fn statements(metrics: &Metrics, grid: Grid) -> Option<Vec<Statement>> {
    metrics.measures().into_iter().map(|measure| statement(measure, grid)).collect()
}

fn statement(measure: &Measure, grid: Grid) -> Option<Statement> {
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
    let condition = sql(&needs.spans)?;
    let by: Vec<Of> = measure.by.iter().map(Of::field).collect::<Option<_>>()?;
    let (first, last) = grid.bounds();
    let (first, last) = (i64::try_from(first).ok()?, i64::try_from(last).ok()?);
    let step = i64::try_from(grid.step_nanos()).ok()?;
    let mut text = "SELECT ".to_owned();
    for of in &by {
        let _ = write!(text, "{}, ", of.column());
    }
    let place = match grid.is_instant() {
        true => "0".to_owned(),
        // Not all engines divide integers alike.
        false => format!("CAST(floor((start_unix_nano - {first}) / {step}) AS BIGINT)"),
    };
    let _ = write!(text, "{place} AS place, count(*) AS spans");
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
    Some(Statement { text, by, has_numbers })
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

fn word<'l>(of: Of, literal: &'l Literal) -> Option<&'l str> {
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
    /// Adds what the statements count to the evaluation of the query that they were made from.
    /// Returns the number of spans; `None` where the store gives up, and nothing was added.
    pub(super) async fn add_counts(
        &self,
        statements: &[Statement],
        evaluation: &mut Evaluation<'_>,
        timeout: Duration,
    ) -> Result<Option<usize>, QueryError> {
        let limits = SqlLimits { timeout, rows: MAX_COUNTS, memory_bytes: MEMORY_BYTES };
        let mut answers = Vec::new();
        for statement in statements {
            match self.store.own_sql(&statement.text, limits).await {
                Ok(batches) => answers.push(batches),
                Err(StoreError::Limit(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let mut spans = 0;
        for (measure, (statement, batches)) in statements.iter().zip(&answers).enumerate() {
            for batch in batches {
                spans += statement.add(batch, |counted| evaluation.add(measure, counted))?;
            }
        }
        Ok(Some(spans))
    }
}

impl Statement {
    /// Adds the counts of a batch; how many spans were counted.
    fn add(&self, batch: &RecordBatch, mut add: impl FnMut(Counted)) -> Result<usize, ModelError> {
        let groups = self.by.len();
        let by = (0..groups).map(|column| texts(batch, [column]).map(|[texts]| texts));
        let by = by.collect::<Result<Vec<_>, _>>()?;
        let [places, spans] = integers(batch, [groups, groups + 1])?;
        let numbers = match self.has_numbers {
            true => Some(floats(batch, [groups + 2, groups + 3, groups + 4])?),
            false => None,
        };
        let mut all = 0;
        for row in 0..batch.num_rows() {
            let count = spans.value(row).max(0).cast_unsigned();
            all += count;
            let number = |which: usize| {
                let numbers = numbers.as_ref().map(|numbers| &numbers[which]);
                numbers.filter(|numbers| numbers.is_valid(row)).map_or(0.0, |it| it.value(row))
            };
            let key = self.by.iter().zip(&by).map(|(of, texts)| of.value(texts.value(row)));
            add(Counted {
                by: key.collect(),
                place: usize::try_from(places.value(row)).unwrap_or(usize::MAX),
                spans: count,
                least: number(0),
                most: number(1),
                total: number(2),
            });
        }
        Ok(usize::try_from(all).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_traceql::ast::Body;
    use spanwise_traceql::parse;

    fn made(query: &str) -> Option<String> {
        let query = parse(query).expect("a query");
        let Body::Metrics(metrics) = &query.body else { panic!("metrics") };
        let grid = Grid::range(0, 100, 10).expect("a grid");
        Some(statements(metrics, grid)?.into_iter().next()?.text)
    }

    #[test]
    fn statements_are_made_of_columns_and_nothing_else() {
        assert_eq!(
            made("{ resource.service.name = `it's` && kind != server || duration > 5ns } | rate() by (name)")
                .as_deref(),
            Some(
                "SELECT operation, CAST(floor((start_unix_nano - 1) / 10) AS BIGINT) AS place, \
                 count(*) AS spans FROM spans WHERE start_unix_nano >= 1 AND start_unix_nano <= 100 \
                 AND ((service IN ('it''s') AND kind NOT IN ('server')) OR duration_nano >= 6) \
                 GROUP BY operation, place"
            )
        );
        assert!(made("{ nestedSetParent < 0 } | avg_over_time(duration)").is_some());
        for other in [
            "{ .a = 1 } | rate()",
            "{ name =~ `a.*` } | rate()",
            "{ name = `a\\b` } | rate()",
            "{} | rate() by (.a)",
            "{} | quantile_over_time(duration, .5)",
            "{} | sum_over_time(.a)",
            "{ name = `a` } >> { name = `b` } | rate()",
            "{ kind = server } | by(name) | count() > 1 | rate()",
            "({} | rate()) / ({ rootName = `x` } | rate())",
        ] {
            assert_eq!(made(other), None, "{other}");
        }
    }
}
