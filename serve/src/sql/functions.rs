//! The analyses as table functions: `SELECT * FROM chains('start=-1h')`.
//!
//! Each is the endpoint of the same name: arguments are its parameters, rows are one of its lists,
//! and columns have the names of its fields. A nested field's name has its parents' names before
//! it: `caller_service`.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use spanwise_api::endpoints::BASE;
use spanwise_query::Queries;
use spanwise_store::{SqlFunctions, StoreError};
use tokio::runtime::Handle;

use crate::answer_limits::AnswerLimits;
use crate::native::{analyses, cause};
use crate::problem::Problem;

/// An analysis that reads many spans may take longer than this; the statement ends then.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a column contains.
#[derive(Clone, Copy)]
enum Type {
    Text,
    /// A whole number, which JSON has as a text where it may be long.
    Whole,
    Real,
    Truth,
    /// A list of texts, with commas between.
    Texts,
}

use Type::{Real, Text, Texts, Truth, Whole};

/// A column: its name, where it is in a row of the answer, and what it contains.
type Column = (&'static str, &'static str, Type);

/// A table function.
struct Function {
    name: &'static str,
    /// The endpoint.
    path: &'static str,
    /// Parameters that may be given without their names, in this order.
    positional: &'static [&'static str],
    /// The lists whose rows it gives, each with a word for the column `list` if there are several.
    lists: &'static [&'static str],
    columns: &'static [Column],
}

const CHAINS: Function = Function {
    name: "chains",
    path: "/chains",
    positional: &["service"],
    lists: &["chains"],
    columns: &[
        ("id", "/id", Text),
        ("service", "/service", Text),
        ("operation", "/operation", Text),
        ("runs", "/runs", Whole),
        ("runs_per_second", "/runs_per_second", Real),
        ("share", "/share", Real),
        ("errors", "/errors", Whole),
        ("error_share", "/error_share", Real),
        ("p50_nano", "/p50_nano", Whole),
        ("p95_nano", "/p95_nano", Whole),
        ("p99_nano", "/p99_nano", Whole),
        ("paths", "/paths", Whole),
        ("services", "/services", Whole),
        ("shapes", "/shapes", Whole),
        ("first_unix_nano", "/first_unix_nano", Whole),
        ("last_unix_nano", "/last_unix_nano", Whole),
        ("slow_trace", "/slow_trace", Text),
        ("failed_trace", "/failed_trace", Text),
        ("typical_trace", "/typical_trace", Text),
    ],
};

const DEPENDS: Function = Function {
    name: "depends",
    path: "/depends",
    positional: &["service"],
    lists: &["edges"],
    columns: &[
        ("caller_service", "/caller/service", Text),
        ("caller_operation", "/caller/operation", Text),
        ("called_service", "/called/service", Text),
        ("called_operation", "/called/operation", Text),
        ("calls", "/calls", Whole),
        ("errors", "/errors", Whole),
        ("verdict", "/dependency/verdict", Text),
        ("confidence", "/dependency/confidence", Real),
        ("failures", "/dependency/failures", Whole),
        ("stopped_share", "/dependency/stopped_share", Real),
    ],
};

const ENTRANCES: Function = Function {
    name: "entrances",
    path: "/entrances",
    positional: &[],
    lists: &["entrances"],
    columns: &[
        ("service", "/service", Text),
        ("operation", "/operation", Text),
        ("runs", "/runs", Whole),
        ("runs_per_second", "/runs_per_second", Real),
        ("runs_per_second_before", "/runs_per_second_before", Real),
        ("trend", "/trend", Real),
        ("errors", "/errors", Whole),
        ("error_share", "/error_share", Real),
        ("p50_nano", "/p50_nano", Whole),
        ("p95_nano", "/p95_nano", Whole),
        ("p99_nano", "/p99_nano", Whole),
        ("calls_per_run", "/calls_per_run", Real),
        ("chains", "/chains", Whole),
    ],
};

const SOURCES: Function = Function {
    name: "sources",
    path: "/sources",
    positional: &["service", "operation"],
    lists: &["callers", "called"],
    columns: &[
        ("relation", "", Text),
        ("service", "/service", Text),
        ("operation", "/operation", Text),
        ("distance", "/distance", Whole),
        ("calls", "/calls", Whole),
        ("calls_per_second", "/calls_per_second", Real),
    ],
};

const BOTTLENECKS: Function = Function {
    name: "bottlenecks",
    path: "/bottlenecks",
    positional: &["entrance"],
    lists: &["shares", "repeated", "retried", "fan_outs", "sequential"],
    columns: &[
        ("kind", "", Text),
        ("entrance_service", "/entrance/service", Text),
        ("entrance_operation", "/entrance/operation", Text),
        ("caller_service", "/caller/service", Text),
        ("caller_operation", "/caller/operation", Text),
        ("called_service", "/called/service", Text),
        ("called_operation", "/called/operation", Text),
        ("first_service", "/first/service", Text),
        ("first_operation", "/first/operation", Text),
        ("second_service", "/second/service", Text),
        ("second_operation", "/second/operation", Text),
        ("calls", "/calls", Whole),
        ("callers", "/callers", Whole),
        ("times", "/times", Whole),
        ("attempts", "/attempts", Whole),
        ("rescued", "/rescued", Whole),
        ("most", "/most", Whole),
        ("share", "/share", Real),
        ("critical_share", "/critical_share", Real),
        ("saved_share", "/saved_share", Real),
        ("proven", "/proven", Truth),
        ("mean_self_nano", "/mean_self_nano", Whole),
        ("example_trace", "/example_trace", Text),
    ],
};

const CAPACITY: Function = Function {
    name: "capacity",
    path: "/capacity",
    positional: &["scale"],
    lists: &["services", "operations"],
    columns: &[
        ("level", "", Text),
        ("service", "/service", Text),
        ("operation", "/operation", Text),
        ("now_per_second", "/now_per_second", Real),
        ("predicted_per_second", "/predicted_per_second", Real),
        ("peak_per_second", "/peak_per_second", Real),
        ("peak_unix_nano", "/peak_unix_nano", Whole),
        ("to_peak", "/to_peak", Real),
        ("busy_now", "/busy_now", Real),
        ("busy_predicted", "/busy_predicted", Real),
        ("most_from_chain", "/chains/0/id", Text),
        ("most_from_service", "/chains/0/service", Text),
        ("most_from_operation", "/chains/0/operation", Text),
    ],
};

const CAUSE: Function = Function {
    name: "cause",
    path: "/cause",
    positional: &["service"],
    lists: &["suspects"],
    columns: &[
        ("service", "/service", Text),
        ("operation", "/operation", Text),
        ("stands_out", "/stands_out", Truth),
        ("score", "/score", Real),
        ("evidence_kind", "/evidence/0/kind", Text),
        ("evidence", "/evidence/0/text", Text),
        ("value", "/evidence/0/value", Real),
        ("usual", "/evidence/0/usual", Real),
        ("began_unix_nano", "/began_unix_nano", Whole),
        ("places", "/places", Texts),
        ("callers", "/callers", Texts),
        ("bad_trace", "/bad_traces/0/trace_id", Text),
        ("usual_trace", "/usual_traces/0/trace_id", Text),
    ],
};

const ALL: [&Function; 7] =
    [&CHAINS, &DEPENDS, &ENTRANCES, &SOURCES, &BOTTLENECKS, &CAPACITY, &CAUSE];
const NAMES: [&str; 7] =
    ["chains", "depends", "entrances", "sources", "bottlenecks", "capacity", "cause"];

/// The analyses over a store.
pub(crate) struct AnalysisFunctions {
    queries: Queries,
    limits: Arc<AnswerLimits>,
    runtime: Handle,
}

impl AnalysisFunctions {
    /// Computes on the runtime of the caller.
    pub(crate) fn new(queries: &Queries, limits: &Arc<AnswerLimits>) -> Arc<Self> {
        let (queries, limits) = (queries.clone(), Arc::clone(limits));
        Arc::new(Self { queries, limits, runtime: Handle::current() })
    }
}

impl SqlFunctions for AnalysisFunctions {
    fn names(&self) -> &[&'static str] {
        &NAMES
    }

    fn call(&self, name: &str, arguments: &[String]) -> Result<RecordBatch, StoreError> {
        let function = ALL.into_iter().find(|function| function.name == name);
        let function = function
            .ok_or_else(|| StoreError::Invalid(format!("there is no table function `{name}`")))?;
        let pairs = function.pairs(arguments).map_err(StoreError::Invalid)?;
        let (done, answer) = mpsc::channel();
        let (queries, limits) = (self.queries.clone(), Arc::clone(&self.limits));
        // The calling thread has no runtime, or one that must not be waited in.
        let task = self.runtime.spawn(async move {
            let _ = done.send(function.answer(queries, limits, pairs).await);
        });
        let answer = answer.recv_timeout(PATIENCE).map_err(|_| {
            task.abort();
            StoreError::Limit(format!("{name}() took too long; give it a shorter time"))
        })?;
        let answer = answer.map_err(|problem| match problem.into_parts() {
            (status, detail) if status.is_client_error() => {
                StoreError::Invalid(format!("{name}(): {detail}"))
            }
            (StatusCode::SERVICE_UNAVAILABLE, detail) => StoreError::Limit(detail),
            (_, detail) => StoreError::Limit(format!("{name}() failed: {detail}")),
        })?;
        function.rows(&answer).map_err(|error| StoreError::Limit(format!("{name}(): {error}")))
    }

    fn instead(&self, name: &str) -> String {
        let path = ALL.into_iter().find(|one| one.name == name).map_or("", |one| one.path);
        format!(
            "{name}() is computed by Spanwise, and ClickHouse, which runs this statement, does not \
             know it; ask GET {BASE}{path} or `spanwise {name} --json`, which answer over this store \
             too, or query the table `spans`"
        )
    }
}

impl Function {
    /// The parameters of the endpoint: `NAME=VALUE`, or values of the first ones.
    fn pairs(&self, arguments: &[String]) -> Result<Vec<(String, String)>, String> {
        let mut positional = self.positional.iter();
        let mut pairs = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments {
            let named = argument.split_once('=').filter(|(name, _)| {
                matches!(*name, "start" | "end" | "limit" | "depth" | "forecast")
                    || self.positional.contains(name)
                    || matches!((self.name, *name), ("chains", "entrance"))
            });
            let (name, value) = match (named, positional.next()) {
                (Some(pair), _) => pair,
                (None, Some(name)) => (*name, argument.as_str()),
                (None, None) => {
                    return Err(format!(
                        "{}() does not take '{argument}'; name the parameter: {}('start=-1h')",
                        self.name, self.name
                    ));
                }
            };
            pairs.push((name.to_owned(), value.to_owned()));
        }
        if !pairs.iter().any(|(name, _)| name == "limit") && self.name != "cause" {
            pairs.push(("limit".to_owned(), "10000".to_owned()));
        }
        Ok(pairs)
    }

    async fn answer(
        &self,
        queries: Queries,
        limits: Arc<AnswerLimits>,
        pairs: Vec<(String, String)>,
    ) -> Result<Value, Problem> {
        let (queries, limits, pairs) = (State(queries), State(limits), UrlQuery(pairs));
        match self.name {
            "chains" => json(analyses::chains(queries, limits, pairs).await?),
            "depends" => json(analyses::depends(queries, limits, pairs).await?),
            "entrances" => json(analyses::entrances(queries, limits, pairs).await?),
            "sources" => json(analyses::sources(queries, limits, pairs).await?),
            "bottlenecks" => json(analyses::bottlenecks(queries, limits, pairs).await?),
            "capacity" => json(analyses::capacity(queries, limits, pairs).await?),
            _ => json(cause::cause(queries, pairs).await?),
        }
    }

    fn rows(&self, answer: &Value) -> Result<RecordBatch, arrow::error::ArrowError> {
        let mut rows: Vec<(&str, &Value)> = Vec::new();
        for list in self.lists {
            let found = answer.get(list).and_then(Value::as_array);
            rows.extend(found.into_iter().flatten().map(|row| (*list, row)));
        }
        let (mut fields, mut columns) = (Vec::new(), Vec::<ArrayRef>::new());
        for (name, place, kind) in self.columns {
            let cells = rows.iter().map(|(list, row)| match *place {
                "" => Cell::List(list),
                place => row.pointer(place).map_or(Cell::Nothing, Cell::Value),
            });
            let column: ArrayRef = match kind {
                Text | Texts => Arc::new(cells.map(Cell::text).collect::<StringArray>()),
                Whole => Arc::new(cells.map(Cell::whole).collect::<Int64Array>()),
                Real => Arc::new(cells.map(Cell::real).collect::<Float64Array>()),
                Truth => Arc::new(cells.map(Cell::truth).collect::<BooleanArray>()),
            };
            fields.push(Field::new(*name, kind.data_type(), true));
            columns.push(column);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
    }
}

impl Type {
    const fn data_type(self) -> DataType {
        match self {
            Text | Texts => DataType::Utf8,
            Whole => DataType::Int64,
            Real => DataType::Float64,
            Truth => DataType::Boolean,
        }
    }
}

/// A cell of a row.
enum Cell<'a> {
    /// The list that the row is of.
    List(&'a str),
    Value(&'a Value),
    Nothing,
}

impl Cell<'_> {
    fn text(self) -> Option<String> {
        match self {
            Self::List(list) => Some(list.to_owned()),
            Self::Value(Value::String(text)) => Some(text.clone()),
            Self::Value(Value::Array(texts)) => {
                Some(texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
            }
            _ => None,
        }
    }

    fn whole(self) -> Option<i64> {
        match self {
            Self::Value(Value::String(text)) => text.parse().ok(),
            Self::Value(value) => value.as_i64(),
            _ => None,
        }
    }

    fn real(self) -> Option<f64> {
        match self {
            Self::Value(value) => value.as_f64(),
            _ => None,
        }
    }

    fn truth(self) -> Option<bool> {
        match self {
            Self::Value(value) => value.as_bool(),
            _ => None,
        }
    }
}

fn json<T: Serialize>(Json(answer): Json<T>) -> Result<Value, Problem> {
    serde_json::to_value(answer)
        .map_err(|error| Problem::internal(format!("an answer has no JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(function: &Function, arguments: &[&str]) -> Result<Vec<(String, String)>, String> {
        let texts: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        function.pairs(&texts)
    }

    #[test]
    fn arguments_are_parameters_by_place_or_by_name() {
        let read = |function, arguments: &[&str]| {
            let pairs = pairs(function, arguments).expect("parameters");
            pairs.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
        };
        assert_eq!(
            read(&SOURCES, &["cart", "start=-5m"]),
            ["service: cart", "start: -5m", "limit: 10000"]
        );
        assert_eq!(read(&CAPACITY, &["web=3x"]), ["scale: web=3x", "limit: 10000"]);
        assert_eq!(read(&CHAINS, &["entrance=web", "limit=3"]), ["entrance: web", "limit: 3"]);
        assert!(pairs(&ENTRANCES, &["cart"]).expect_err("none").contains("name the parameter"));
    }

    #[test]
    fn every_name_has_a_function() {
        assert_eq!(ALL.map(|function| function.name), NAMES);
    }
}
