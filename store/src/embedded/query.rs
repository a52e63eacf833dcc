//! Queries: rows in memory and in files as one table, by DataFusion.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringBuilder, UInt8Array};
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, col,
    lit,
};
use datafusion::prelude::{DataFrame, ParquetReadOptions, SessionConfig};
use spanwise_model::schema::{column, span_schema};

use super::files::SpanFile;
use crate::contract::{Key, Query, SqlLimits, StoreError, TimeRange};

fn engine(context: &str) -> impl FnOnce(DataFusionError) -> StoreError + '_ {
    move |source| StoreError::Engine { context: context.to_owned(), source: Box::new(source) }
}

/// A session that knows the spans of these batches and files.
async fn session(
    recent: Vec<RecordBatch>,
    files: &[SpanFile],
    memory_bytes: usize,
) -> Result<(SessionContext, DataFrame), StoreError> {
    let failed = || engine("cannot prepare the query");
    let mut config = SessionConfig::new().with_target_partitions(2).with_information_schema(false);
    let parquet = &mut config.options_mut().execution.parquet;
    // Columns keep the types of the span schema.
    parquet.schema_force_view_types = false;
    parquet.pushdown_filters = true;
    parquet.bloom_filter_on_read = true;
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(memory_bytes, 1.0)
        .build_arc()
        .map_err(failed())?;
    let context = SessionContext::new_with_config_rt(config, runtime);
    context.register_udf(ScalarUDF::from(AttributeFunction::new()));
    let recent =
        if recent.is_empty() { vec![RecordBatch::new_empty(span_schema())] } else { recent };
    let mut spans = context.read_batches(recent).map_err(failed())?;
    if !files.is_empty() {
        let paths: Vec<String> =
            files.iter().map(|file| file.path.to_string_lossy().into_owned()).collect();
        let schema = span_schema();
        let options = ParquetReadOptions { schema: Some(&schema), ..Default::default() };
        let stored = context.read_parquet(paths, options).await.map_err(failed())?;
        spans = spans.union(stored).map_err(failed())?;
    }
    Ok((context, spans))
}

/// Runs a statement that a person or the API wrote.
pub(super) async fn sql(
    recent: Vec<RecordBatch>,
    files: &[SpanFile],
    statement: &str,
    limits: SqlLimits,
) -> Result<Vec<RecordBatch>, StoreError> {
    let (context, spans) = session(recent, files, limits.memory_bytes).await?;
    context
        .register_table("spans", spans.into_view())
        .map_err(engine("cannot prepare the query"))?;
    let options =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let run = async {
        let frame = context.sql_with_options(statement, options).await?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let mut batches = frame.limit(0, Some(limits.rows))?.collect().await?;
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema));
        }
        Ok(batches)
    };
    match tokio::time::timeout(limits.timeout, run).await {
        Ok(result) => result.map_err(said),
        Err(_) => Err(StoreError::Limit(format!("it took longer than {:?}", limits.timeout))),
    }
}

/// A mistake of the asker, a limit, or a failure of ours.
fn said(error: DataFusionError) -> StoreError {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(reason) => StoreError::Limit(reason.clone()),
        DataFusionError::Plan(_)
        | DataFusionError::SQL(..)
        | DataFusionError::SchemaError(..)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Execution(_)
        | DataFusionError::ArrowError(..) => StoreError::Invalid(format!(
            "{}; only one SELECT over the table `spans` can be run",
            error.strip_backtrace()
        )),
        _ => engine("the query failed")(error),
    }
}

/// Rows of the files that have any of the keys.
pub(super) async fn by_keys(
    files: &[SpanFile],
    keys: &[Key],
    time: TimeRange,
) -> Result<Vec<RecordBatch>, StoreError> {
    let files: Vec<SpanFile> = files.iter().filter(|file| file.overlaps(time)).cloned().collect();
    let Some(filter) = keys_filter(keys).filter(|_| !files.is_empty()) else {
        return Ok(Vec::new());
    };
    let failed = || engine("cannot look up keys");
    let (_context, spans) = session(Vec::new(), &files, usize::MAX / 2).await?;
    let mut filter = filter;
    if let Some(range) = time_filter(time) {
        filter = filter.and(range);
    }
    spans.filter(filter).map_err(failed())?.collect().await.map_err(failed())
}

fn keys_filter(keys: &[Key]) -> Option<Expr> {
    let binary = |bytes: &[u8]| {
        let width = i32::try_from(bytes.len()).unwrap_or(0);
        lit(ScalarValue::FixedSizeBinary(width, Some(bytes.to_vec())))
    };
    let (mut assembled, mut traces, mut spans) = (Vec::new(), Vec::new(), Vec::new());
    let (mut fragments, mut requests, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        match key {
            Key::AssembledTrace(id) => assembled.push(binary(&id.0)),
            Key::Trace(id) => traces.push(binary(&id.0)),
            Key::Span(id) => spans.push(binary(&id.0)),
            Key::Fragment(id) => fragments.push(lit(*id)),
            Key::TcpSequences(request, response) => {
                requests.push(lit(*request));
                rest.push((*request, *response));
            }
            Key::XRequestId(_) => {}
        }
    }
    let one_of = |name: &str, values: Vec<Expr>| {
        (!values.is_empty()).then(|| col(name).in_list(values, false))
    };
    let hops = one_of(column::REQUEST_TCP_SEQ, requests).map(|requests| {
        let responses = rest.iter().map(|(_, response)| lit(*response)).collect();
        requests.and(col(column::RESPONSE_TCP_SEQ).in_list(responses, false))
    });
    let ids: Vec<Expr> = keys
        .iter()
        .filter_map(|key| match key {
            Key::XRequestId(id) => Some(lit(id.as_str())),
            _ => None,
        })
        .collect();
    [
        one_of(column::ASSEMBLED_TRACE_ID, assembled),
        one_of(column::TRACE_ID, traces),
        one_of(column::SPAN_ID, spans),
        one_of(column::FRAGMENT_ID, fragments),
        hops,
        one_of(column::X_REQUEST_ID, ids),
    ]
    .into_iter()
    .flatten()
    .reduce(Expr::or)
}

fn time_filter(time: TimeRange) -> Option<Expr> {
    let start = || col(column::START_UNIX_NANO);
    let from = (time.from_unix_nano > i64::MIN).then(|| start().gt_eq(lit(time.from_unix_nano)));
    let to = (time.to_unix_nano < i64::MAX).then(|| start().lt(lit(time.to_unix_nano)));
    from.into_iter().chain(to).reduce(Expr::and)
}

/// Rows that fulfil a query, newest first.
pub(super) async fn find(
    recent: Vec<RecordBatch>,
    files: &[SpanFile],
    query: &Query,
) -> Result<Vec<RecordBatch>, StoreError> {
    let failed = || engine("cannot search");
    let files: Vec<SpanFile> =
        files.iter().filter(|file| file.overlaps(query.time)).cloned().collect();
    let (_context, mut spans) = session(recent, &files, usize::MAX / 2).await?;
    if let Some(filter) = filter(query) {
        spans = spans.filter(filter).map_err(failed())?;
    }
    if !query.columns.is_empty() {
        // The order needs its column, whether asked for or not.
        let mut names = query.columns.clone();
        if !names.contains(&column::START_UNIX_NANO) {
            names.push(column::START_UNIX_NANO);
        }
        spans = spans.select_columns(&names).map_err(failed())?;
    }
    let newest_first = vec![col(column::START_UNIX_NANO).sort(false, false)];
    spans
        .sort(newest_first)
        .and_then(|sorted| sorted.limit(0, Some(query.limit)))
        .map_err(failed())?
        .collect()
        .await
        .map_err(failed())
}

fn filter(query: &Query) -> Option<Expr> {
    let predicate = &query.predicate;
    let is = |name: &str, value: &str| col(name).eq(lit(value));
    let attribute = ScalarUDF::from(AttributeFunction::new());
    let mut all: Vec<Expr> = time_filter(query.time).into_iter().collect();
    all.extend(predicate.service.as_deref().map(|service| is(column::SERVICE, service)));
    all.extend(predicate.operation.as_deref().map(|operation| is(column::OPERATION, operation)));
    let duration = || col(column::DURATION_NANO);
    all.extend(predicate.min_duration_nano.map(|least| duration().gt_eq(lit(least))));
    all.extend(predicate.max_duration_nano.map(|most| duration().lt_eq(lit(most))));
    match predicate.status {
        Some(spanwise_model::Status::Ok) => {
            // What nobody called an error went well.
            all.push(col(column::STATUS).not_eq(lit("error")));
        }
        Some(status) => all.push(is(column::STATUS, status.as_str())),
        None => {}
    }
    all.extend(predicate.attributes.iter().map(|wanted| {
        attribute
            .call(vec![col(column::ATTRIBUTES), lit(wanted.key.as_str())])
            .eq(lit(wanted.value.as_str()))
    }));
    if predicate.assembled {
        all.push(col(column::ASSEMBLED_TRACE_ID).is_not_null());
    }
    if predicate.root {
        all.push(col(column::ASSEMBLED_PARENT).is_null());
    }
    all.into_iter().reduce(Expr::and)
}

/// `attribute(attributes, 'key')`: the value's text; null where there is no
/// such key.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AttributeFunction {
    signature: Signature,
}

impl AttributeFunction {
    fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for AttributeFunction {
    fn name(&self) -> &str {
        "attribute"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType, DataFusionError> {
        match arguments {
            [DataType::Map(..), DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8] => {
                Ok(DataType::Utf8)
            }
            _ => Err(DataFusionError::Plan("write attribute(attributes, 'key')".to_owned())),
        }
    }

    fn invoke_with_args(
        &self,
        arguments: ScalarFunctionArgs,
    ) -> Result<ColumnarValue, DataFusionError> {
        let wrong = || DataFusionError::Plan("write attribute(attributes, 'key')".to_owned());
        let [ColumnarValue::Array(maps), ColumnarValue::Scalar(key)] = arguments.args.as_slice()
        else {
            return Err(wrong());
        };
        let key = key.try_as_str().flatten().ok_or_else(wrong)?;
        let maps = maps.as_map_opt().ok_or_else(wrong)?;
        let keys = maps.keys().as_string_opt::<i32>().ok_or_else(wrong)?;
        let values = maps.values().as_struct_opt().ok_or_else(wrong)?;
        let texts = values.column_by_name("value").and_then(|c| c.as_string_opt::<i32>());
        let texts = texts.ok_or_else(wrong)?;
        debug_assert!(values.column(0).as_any().is::<UInt8Array>());
        let offsets = maps.value_offsets();
        let mut found = StringBuilder::new();
        for row in 0..maps.len() {
            let entries = offsets[row] as usize..offsets[row + 1] as usize;
            let at = entries.into_iter().find(|&entry| keys.value(entry) == key);
            found.append_option(at.filter(|_| maps.is_valid(row)).map(|entry| texts.value(entry)));
        }
        Ok(ColumnarValue::Array(Arc::new(found.finish()) as ArrayRef))
    }
}
