//! What is asked, by HTTP or gRPC, as questions for the queries.

use std::sync::Arc;
use std::time::Duration;

use spanwise_query::traceql::{
    Bounds, TagValue, TagValues, TagsQuery, TraceqlMetrics, TraceqlSearch,
};
use spanwise_query::{Queries, now_unix_nano};
use spanwise_store::TimeRange;
use spanwise_traceql::ast::{
    Attribute, Body, Comparison, Expr, Field, Intrinsic, Join, Literal, Logic, Pipeline, Query,
    Scope, Spansets, Stage, Status,
};
use spanwise_traceql::metrics::{Grid, Limits};
use spanwise_traceql::{Condition, Pattern, parse};

use super::messages::{QueryInstantRequest, QueryRangeRequest, SearchRequest};
use super::parameters::brief;
use super::refusal::Refusal;

/// What a search, and a metrics query, may take.
const SEARCH_BOUNDS: Bounds =
    Bounds { time: Duration::from_secs(10), traces: 100_000, spans: 5_000_000 };
const METRICS_BOUNDS: Bounds =
    Bounds { time: Duration::from_secs(20), traces: 1_000_000, spans: 20_000_000 };
const DEFAULT_LIMIT: u32 = 20;
const MAX_LIMIT: u32 = 10_000;
const DEFAULT_SPANS: u32 = 3;
const MAX_SPANS: u32 = 100;
/// Series and exemplars of metrics: where nothing is said, and at most.
const DEFAULT_SERIES: u32 = 1_000;
const MAX_SERIES: u32 = 10_000;
const DEFAULT_EXEMPLARS: u32 = 100;
const MAX_EXEMPLARS: u32 = 1_000;
const DEFAULT_TAGS: u32 = 10_000;
/// Tags that a search may ask for at once. Each becomes a part of a query.
const MAX_TAGS: usize = 64;
const SECOND_NANO: i64 = 1_000_000_000;

/// Start and end in seconds, of which each may be 0 for absent. The end is in it.
pub(super) fn time(start: u32, end: u32) -> Result<TimeRange, Refusal> {
    if end > 0 && end <= start {
        return Err(Refusal::invalid(format!(
            "http parameter start must be before end. received start={start} end={end}"
        )));
    }
    let from_unix_nano = if start == 0 { i64::MIN } else { i64::from(start) * SECOND_NANO };
    let to_unix_nano = match end {
        // Also what is of this moment, by a clock that is ahead.
        0 => now_unix_nano().saturating_add(60 * SECOND_NANO),
        end => i64::from(end) * SECOND_NANO + 1,
    };
    Ok(TimeRange { from_unix_nano, to_unix_nano })
}

pub(super) fn search(request: &SearchRequest) -> Result<TraceqlSearch, Refusal> {
    if request.tags.len() > MAX_TAGS {
        return Err(Refusal::invalid(format!(
            "invalid tags: there are {} of them, and at most {MAX_TAGS} are searched for; leave \
             some out, or write a query in TraceQL",
            request.tags.len()
        )));
    }
    let query = if request.query.is_empty() {
        of_tags(request.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())))?
    } else if !request.tags.is_empty() {
        let detail = "invalid request: can't specify tags and q in the same query";
        return Err(Refusal::invalid(detail));
    } else {
        parse(&request.query)?
    };
    if let Body::Metrics(_) = query.body {
        return Err(Refusal::invalid(
            "this is a metrics query, which gives series and no traces; ask it at \
             /api/metrics/query_range, or leave its last part out",
        ));
    }
    let limit = if request.limit == 0 { DEFAULT_LIMIT } else { request.limit };
    if limit > MAX_LIMIT {
        return Err(Refusal::invalid(format!("limit {limit} exceeds max limit {MAX_LIMIT}")));
    }
    let spans = match request.spans_per_span_set {
        0 => DEFAULT_SPANS,
        spans if spans > MAX_SPANS => {
            return Err(Refusal::invalid(format!(
                "spans per span set exceeds {MAX_SPANS}. received {spans}"
            )));
        }
        spans => spans,
    };
    let milliseconds = |ms: u32| (ms > 0).then(|| u64::from(ms) * 1_000_000);
    let (least, most) =
        (milliseconds(request.min_duration_ms), milliseconds(request.max_duration_ms));
    if least.zip(most).is_some_and(|(least, most)| least > most) {
        return Err(Refusal::invalid("invalid maxDuration: must be greater than minDuration"));
    }
    Ok(TraceqlSearch {
        query: Arc::new(query),
        time: time(request.start, request.end)?,
        min_duration_nano: least,
        max_duration_nano: most,
        limit: limit as usize,
        spans_per_set: spans as usize,
        bounds: SEARCH_BOUNDS,
    })
}

/// A search for tags: for each, one of the trace's spans has it, with a value that contains the
/// text, whatever the case of either.
fn of_tags<'t>(tags: impl Iterator<Item = (&'t str, &'t str)>) -> Result<Query, Refusal> {
    let mut sets = tags.map(|(key, value)| of_tag(key, value).map(Spansets::Where));
    let first = sets.next().unwrap_or(Ok(Spansets::Where(Expr::Literal(Literal::Bool(true)))))?;
    let spansets = sets.try_fold(first, |left, right| -> Result<_, Refusal> {
        let (left, right) = (Box::new(left), Box::new(right?));
        Ok(Spansets::Join { operator: Join::And, left, right })
    })?;
    let body = Body::Search(Pipeline { stages: vec![Stage::Spansets(spansets)] });
    Ok(Query { body, hints: Vec::new() })
}

fn of_tag(key: &str, value: &str) -> Result<Expr, Refusal> {
    let equal = |field: Field, literal| Expr::Compare {
        operator: Comparison::Equal,
        left: Box::new(Expr::Field(field)),
        right: Box::new(Expr::Literal(literal)),
    };
    let status = match (key, value) {
        ("error", "true") | ("status.code" | "status", "error") => Some(Status::Error),
        ("status.code" | "status", "ok") => Some(Status::Ok),
        ("status.code" | "status", "unset") => Some(Status::Unset),
        _ => None,
    };
    if let Some(status) = status {
        return Ok(equal(Field::Intrinsic(Intrinsic::Status), Literal::Status(status)));
    }
    let field = match key {
        "name" => Field::Intrinsic(Intrinsic::Name),
        "root.name" => Field::Intrinsic(Intrinsic::RootName),
        "root.service.name" => Field::Intrinsic(Intrinsic::RootService),
        key => {
            Field::Attribute(Attribute { parent: false, scope: Scope::Any, name: key.to_owned() })
        }
    };
    let pattern = format!("(?i).*{}.*", escaped(value));
    let pattern = Pattern::new(&pattern)
        .map_err(|why| Refusal::invalid(format!("invalid tags: `{}`: {why}", brief(value))))?;
    let text = Box::new(Expr::Field(field.clone()));
    let mut operands = vec![Expr::Match { negated: false, text, pattern }];
    let number = match (value.parse(), value.parse::<f64>()) {
        (Ok(number), _) => Some(Literal::Int(number)),
        (_, Ok(number)) if number.is_finite() => Some(Literal::Float(number)),
        _ => value.parse().ok().map(Literal::Bool),
    };
    operands.extend(number.map(|number| equal(field, number)));
    Ok(match operands.len() {
        1 => operands.remove(0),
        _ => Expr::Logic { operator: Logic::Or, operands },
    })
}

/// A text as a regular expression that matches it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

pub(super) fn range(request: &QueryRangeRequest) -> Result<TraceqlMetrics, Refusal> {
    let grid = Grid::range(request.start, request.end, request.step).map_err(Refusal::invalid)?;
    metrics(&request.query, grid, request.exemplars, request.max_series)
}

pub(super) fn instant(request: &QueryInstantRequest) -> Result<TraceqlMetrics, Refusal> {
    let grid = Grid::instant(request.start, request.end).map_err(Refusal::invalid)?;
    metrics(&request.query, grid, 0, 0)
}

fn metrics(
    query: &str,
    grid: Grid,
    exemplars: u32,
    max_series: u32,
) -> Result<TraceqlMetrics, Refusal> {
    let query = parse(query)?;
    if let Body::Search(_) = query.body {
        return Err(Refusal::invalid(
            "this is no metrics query: add a function such as `| rate()`, or ask for traces at \
             /api/search",
        ));
    }
    let hint = query.hints.iter().rev().find(|hint| hint.name == "exemplars");
    let exemplars = match hint.map(|hint| &hint.value) {
        Some(Literal::Bool(false)) => 0,
        Some(Literal::Int(count)) => u32::try_from(*count).unwrap_or(0),
        _ if exemplars == 0 => DEFAULT_EXEMPLARS,
        _ => exemplars,
    };
    let series = if max_series == 0 { DEFAULT_SERIES } else { max_series };
    let limits = Limits {
        series: series.min(MAX_SERIES) as usize,
        exemplars: if grid.is_instant() { 0 } else { exemplars.min(MAX_EXEMPLARS) as usize },
    };
    Ok(TraceqlMetrics { query: Arc::new(query), grid, limits, bounds: METRICS_BOUNDS })
}

pub(super) fn tags(query: &str, start: u32, end: u32, limit: u32) -> Result<TagsQuery, Refusal> {
    let limit = if limit == 0 { DEFAULT_TAGS } else { limit.min(DEFAULT_TAGS) };
    Ok(TagsQuery { time: time(start, end)?, condition: condition(query), limit: limit as usize })
}

/// What a query that may be half typed says of single spans. Of what cannot be read, the parts
/// between `&&` that can; of nothing that can be read, nothing.
fn condition(text: &str) -> Condition {
    if let Ok(query) = parse(text) {
        return query.needs().spans;
    }
    let inner = text.trim().strip_prefix('{').unwrap_or_default();
    let inner = inner.split('}').next().unwrap_or_default();
    if inner.contains("||") {
        return Condition::Always;
    }
    // A field by itself is most likely still to be compared with something.
    let is_right =
        |part: &&str| part.contains(['=', '<', '>']) && parse(&format!("{{ {part} }}")).is_ok();
    let parts: Vec<&str> = inner.split("&&").filter(is_right).collect();
    let whole = parse(&format!("{{ {} }}", parts.join(" && ")));
    whole.map_or(Condition::Always, |query| query.needs().spans)
}

/// A field as it is named in paths: `.x`, `span.x`, `status`; a name by itself is an attribute
/// of any scope.
pub(super) fn field(name: &str) -> Result<Field, Refusal> {
    let select = parse(&format!("{{}} | select({name})"));
    if let Ok(Query { body: Body::Search(pipeline), .. }) = &select
        && let [field] = pipeline.fields().as_slice()
    {
        return Ok((*field).clone());
    }
    Err(Refusal::invalid(format!(
        "`{}` is no field of TraceQL; write for example resource.service.name, .http.route or \
         status",
        brief(name)
    )))
}

/// The values of a field by its name.
pub(super) async fn values(
    queries: &Queries,
    name: &str,
    query: &TagsQuery,
) -> Result<TagValues, Refusal> {
    let field = field(name)?;
    let keyword = |words: &[&str]| TagValues {
        values: words
            .iter()
            .map(|word| TagValue { kind: "keyword", text: (*word).to_owned() })
            .collect(),
        examined_spans: 0,
    };
    Ok(match field {
        Field::Intrinsic(Intrinsic::Status) => keyword(&["error", "ok", "unset"]),
        Field::Intrinsic(Intrinsic::Kind) => {
            keyword(&["client", "consumer", "internal", "producer", "server", "unspecified"])
        }
        // So many that they help nobody.
        Field::Intrinsic(Intrinsic::Duration | Intrinsic::TraceDuration) => keyword(&[]),
        field => queries.traceql_tag_values(&field, query).await?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_typed_queries_say_what_they_can() {
        let whole = |text: &str| parse(text).expect("a query").needs().spans;
        for (typed, meant) in [
            ("", "{}"),
            ("{", "{}"),
            ("{}", "{}"),
            ("{ span.a = }", "{}"),
            ("{ span.a = 1 && resource.b = }", "{ span.a = 1 }"),
            ("{ span.a = 1 && resource.b", "{ span.a = 1 }"),
            (r#"{ span.a = "x" && span.b = 2 } "#, r#"{ span.a = "x" && span.b = 2 }"#),
            ("{ span.a = 1 || span.b = }", "{}"),
            ("nonsense", "{}"),
        ] {
            assert_eq!(condition(typed), whole(meant), "{typed}");
        }
    }

    #[test]
    fn tags_are_queries() {
        let query = |tags: &[(&str, &str)]| {
            let query = of_tags(tags.iter().copied()).expect("a query");
            assert_eq!(parse(&query.to_string()).as_ref(), Ok(&query));
            query.to_string()
        };
        assert_eq!(query(&[]), "{ }");
        assert_eq!(query(&[("error", "true")]), "{ status = error }");
        let found = query(&[("http.url", "a.b"), ("status", "ok"), ("n", "5")]);
        for part in [".http.url =~ ", "status = ok", ".n = 5"] {
            assert!(found.contains(part), "{found}");
        }
        // Patterns of those who attack match only themselves.
        query(&[("a", "(((((x+)+)+)+)+)[")]);
    }

    #[test]
    fn fields() {
        for (name, printed) in [
            (".a b", None),
            (".http.route", Some(".http.route")),
            ("resource.service.name", Some("resource.service.name")),
            ("status", Some("status")),
            ("span:name", Some("name")),
            ("a) | select(.b", None),
            ("", None),
        ] {
            let found = field(name).ok().map(|field| field.to_string());
            assert_eq!(found.as_deref(), printed, "{name}");
        }
    }
}
