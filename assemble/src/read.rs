//! A record batch of the span schema to [`Row`]s, column by column: only what
//! assembly needs is read, and each distinct text is held once a batch.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{
    Array, AsArray, FixedSizeBinaryArray, Float32Array, Int32Array, Int64Array, MapArray,
    PrimitiveArray, RecordBatch, StringArray, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{ArrowPrimitiveType, Int32Type};
use spanwise_model::schema::column;
use spanwise_model::{
    Capture, Evidence, Kind, ModelError, RowRef, SpanBatch, SpanId, TraceId, UnknownName,
};

use crate::row::{METHOD_KEYS, PATH_KEYS, Prior, Row, without_query};

/// A dictionary column whose values are turned into `T` once each.
struct Words<'a, T> {
    column: &'static str,
    keys: &'a Int32Array,
    values: Vec<Result<T, String>>,
}

impl<'a, T: Clone> Words<'a, T> {
    fn new(
        batch: &'a RecordBatch,
        column: &'static str,
        convert: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Self, ModelError> {
        let array = batch
            .column_by_name(column)
            .and_then(|array| array.as_dictionary_opt::<Int32Type>())
            .ok_or(ModelError::Column { column })?;
        let texts = array.values().as_string_opt::<i32>().ok_or(ModelError::Column { column })?;
        let values = texts.iter().map(|text| convert(text.unwrap_or_default())).collect();
        Ok(Self { column, keys: array.keys(), values })
    }

    fn get(&self, row: usize) -> Result<Option<T>, ModelError> {
        if self.keys.is_null(row) {
            return Ok(None);
        }
        let key = usize::try_from(self.keys.value(row)).unwrap_or(usize::MAX);
        match self.values.get(key) {
            Some(Ok(value)) => Ok(Some(value.clone())),
            Some(Err(reason)) => {
                Err(ModelError::Cell { column: self.column, row, reason: reason.clone() })
            }
            None => Ok(None),
        }
    }

    fn required(&self, row: usize) -> Result<T, ModelError> {
        let reason = || "is null".to_owned();
        self.get(row)?.ok_or_else(|| ModelError::Cell {
            column: self.column,
            row,
            reason: reason(),
        })
    }
}

fn texts<'a>(
    batch: &'a RecordBatch,
    column: &'static str,
) -> Result<Words<'a, Arc<str>>, ModelError> {
    Words::new(batch, column, |text| Ok(Arc::from(text)))
}

fn vocabulary<'a, T: Clone + FromStr<Err = UnknownName>>(
    batch: &'a RecordBatch,
    column: &'static str,
) -> Result<Words<'a, T>, ModelError> {
    Words::new(batch, column, |text| text.parse().map_err(|e: UnknownName| e.to_string()))
}

fn typed<'a, T: Array + 'static>(
    batch: &'a RecordBatch,
    column: &'static str,
) -> Result<&'a T, ModelError> {
    batch
        .column_by_name(column)
        .and_then(|array| array.as_any().downcast_ref::<T>())
        .ok_or(ModelError::Column { column })
}

fn value<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, row: usize) -> Option<T::Native> {
    array.is_valid(row).then(|| array.value(row))
}

fn trace_id(array: &FixedSizeBinaryArray, row: usize) -> Option<TraceId> {
    array.is_valid(row).then(|| TraceId::from_bytes(array.value(row))).flatten()
}

fn span_id(array: &FixedSizeBinaryArray, row: usize) -> Option<SpanId> {
    array.is_valid(row).then(|| SpanId::from_bytes(array.value(row))).flatten()
}

/// The text of the first of `wanted` that the row's attributes hold.
fn attribute<'a>(map: &'a MapArray, row: usize, wanted: &[&str]) -> Option<&'a str> {
    let offsets = map.value_offsets();
    let from = usize::try_from(*offsets.get(row)?).ok()?;
    let to = usize::try_from(*offsets.get(row + 1)?).ok()?;
    let keys = map.keys().as_string_opt::<i32>()?;
    let values = map.values().as_struct_opt()?.column(1).as_string_opt::<i32>()?;
    let find = |name: &&str| (from..to).find(|&i| keys.value(i) == *name);
    wanted.iter().find_map(find).map(|i| values.value(i))
}

impl Row {
    /// The rows of a batch that the store has numbered `batch_number`.
    ///
    /// # Errors
    /// Where the batch has not the span schema, or a cell holds a word outside
    /// its vocabulary.
    pub fn read(batch_number: u64, batch: &RecordBatch) -> Result<Vec<Self>, ModelError> {
        let batch = SpanBatch::try_from(batch.clone())?.into_record_batch();
        let batch = &batch;
        let ids = |name| typed::<FixedSizeBinaryArray>(batch, name);
        let (trace_ids, span_ids, parents) =
            (ids(column::TRACE_ID)?, ids(column::SPAN_ID)?, ids(column::PARENT_SPAN_ID)?);
        let prior_traces = ids(column::ASSEMBLED_TRACE_ID)?;
        let prior_parents = ids(column::ASSEMBLED_PARENT)?;
        let starts: &Int64Array = typed(batch, column::START_UNIX_NANO)?;
        let durations: &Int64Array = typed(batch, column::DURATION_NANO)?;
        let captures = vocabulary::<Capture>(batch, column::CAPTURE)?;
        let kinds = vocabulary::<Kind>(batch, column::KIND)?;
        let evidences = vocabulary::<Evidence>(batch, column::EVIDENCE)?;
        let confidences: &Float32Array = typed(batch, column::CONFIDENCE)?;
        let services = texts(batch, column::SERVICE)?;
        let hosts = texts(batch, column::HOST)?;
        let protocols = texts(batch, column::PROTOCOL)?;
        let processes: &UInt32Array = typed(batch, column::PROCESS_ID)?;
        let fragments: &UInt64Array = typed(batch, column::FRAGMENT_ID)?;
        let requests: &UInt32Array = typed(batch, column::REQUEST_TCP_SEQ)?;
        let responses: &UInt32Array = typed(batch, column::RESPONSE_TCP_SEQ)?;
        let client_ports: &UInt16Array = typed(batch, column::CLIENT_PORT)?;
        let server_ports: &UInt16Array = typed(batch, column::SERVER_PORT)?;
        let request_ids: &StringArray = typed(batch, column::X_REQUEST_ID)?;
        let attributes: &MapArray = typed(batch, column::ATTRIBUTES)?;

        let mut rows = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let kind = kinds.required(row)?;
            let of_server = |keys: &[&str]| {
                (kind == Kind::Server).then(|| attribute(attributes, row, keys)).flatten()
            };
            let start = starts.value(row);
            rows.push(Self {
                at: RowRef { batch: batch_number, row: u32::try_from(row).unwrap_or(u32::MAX) },
                span_id: span_id(span_ids, row).ok_or_else(|| ModelError::Cell {
                    column: column::SPAN_ID,
                    row,
                    reason: "is all zero".to_owned(),
                })?,
                trace_id: trace_id(trace_ids, row),
                parent_span_id: span_id(parents, row),
                start_unix_nano: start,
                end_unix_nano: start.saturating_add(durations.value(row).max(0)),
                capture: captures.required(row)?,
                kind,
                service: services.get(row)?.unwrap_or_else(|| Arc::from("")),
                host: hosts.get(row)?,
                process_id: value(processes, row),
                protocol: protocols.get(row)?,
                fragment_id: value(fragments, row),
                request_tcp_seq: value(requests, row),
                response_tcp_seq: value(responses, row),
                client_port: value(client_ports, row),
                server_port: value(server_ports, row),
                x_request_id: request_ids.is_valid(row).then(|| Arc::from(request_ids.value(row))),
                evidence: evidences.get(row)?,
                confidence: value(confidences, row),
                method: of_server(METHOD_KEYS).map(Arc::from),
                path: of_server(PATH_KEYS).map(|path| Arc::from(without_query(path))),
                prior: trace_id(prior_traces, row)
                    .map(|trace| Prior { trace_id: trace, parent: span_id(prior_parents, row) }),
            });
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::{AttributeValue, Span, SpanBatchBuilder};

    use super::*;

    #[test]
    fn columns_and_structs_give_the_same_rows() {
        let mut served = Span::new(
            SpanId([1; 8]),
            Capture::ServerProcess,
            Kind::Server,
            "cart",
            "GET /cart",
            1_000,
            -5,
        );
        served.trace_id = Some(TraceId([2; 16]));
        served.parent_span_id = Some(SpanId([3; 8]));
        served.host = Some("h".into());
        served.process_id = Some(7);
        served.protocol = Some("http".into());
        served.fragment_id = Some(u64::MAX);
        served.request_tcp_seq = Some(1);
        served.response_tcp_seq = Some(2);
        served.flow.client_port = Some(3);
        served.flow.server_port = Some(4);
        served.x_request_id = Some("r".into());
        served.evidence = Some(Evidence::Thread);
        served.confidence = Some(0.5);
        served.assembled_trace_id = Some(TraceId([4; 16]));
        served.assembled_parent = Some(SpanId([5; 8]));
        served.attributes = vec![
            ("n".into(), AttributeValue::Int(1)),
            ("http.target".into(), "/cart?a=b".into()),
            ("http.request.method".into(), "GET".into()),
        ];
        let bare = Span::new(SpanId([9; 8]), Capture::App, Kind::Internal, "s", "o", 5, 6);
        let spans = [served, bare];
        let mut builder: SpanBatchBuilder = spans.iter().collect();
        let rows = Row::read(3, &builder.finish().unwrap()).unwrap();
        let expected: Vec<Row> = (0..2)
            .map(|row| Row::from_span(RowRef { batch: 3, row: row as u32 }, &spans[row]))
            .collect();
        assert_eq!(rows, expected);
        assert_eq!(rows[0].path.as_deref(), Some("/cart"));
        assert_eq!(rows[0].method.as_deref(), Some("GET"));
    }
}
