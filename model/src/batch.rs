//! Converts record batches to rows.

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, Float32Array, Int32Array, Int64Array,
    ListArray, MapArray, RecordBatch, StringArray, StructArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow::datatypes::Schema;

use crate::schema::{column, span_schema};
use crate::{
    AttributeValue, Attributes, Event, Flow, Link, ModelError, Network, ResourceJson, Span, SpanId,
    Status, Texts, TraceId,
};

/// A record batch with the span schema, for access by column and row.
pub struct SpanBatch {
    batch: RecordBatch,
}

fn attributes_at(map: &MapArray, row: usize) -> Attributes {
    if map.is_null(row) {
        return Attributes::new();
    }
    let entries = map.value(row);
    let keys = entries.column(0).as_string::<i32>();
    let values = entries.column(1).as_struct();
    let types: &UInt8Array = values.column(0).as_primitive();
    let texts = values.column(1).as_string::<i32>();
    (0..keys.len())
        .map(|i| {
            let value = AttributeValue::from_parts(types.value(i), texts.value(i));
            (keys.value(i).to_owned(), value)
        })
        .collect()
}

fn trace_id_at(ids: &FixedSizeBinaryArray, row: usize) -> Option<TraceId> {
    ids.is_valid(row).then(|| TraceId::from_bytes(ids.value(row))).flatten()
}

fn span_id_at(ids: &FixedSizeBinaryArray, row: usize) -> Option<SpanId> {
    ids.is_valid(row).then(|| SpanId::from_bytes(ids.value(row))).flatten()
}

macro_rules! optional {
    ($self:ident, $array:ty, $column:expr, $row:ident) => {{
        let array = $self.typed::<$array>($column);
        array.is_valid($row).then(|| array.value($row))
    }};
}

impl TryFrom<RecordBatch> for SpanBatch {
    type Error = ModelError;

    /// Checks that the batch has every column of the span schema with its type. Columns may be in
    /// another order. Additional ones are dropped.
    fn try_from(batch: RecordBatch) -> Result<Self, ModelError> {
        let wanted = span_schema();
        let have = batch.schema();
        if have.fields() == wanted.fields() {
            return Ok(Self { batch });
        }
        let columns = column_refs(&wanted, &batch)?;
        Ok(Self { batch: RecordBatch::try_new(wanted, columns)? })
    }
}

fn column_refs(wanted: &Schema, batch: &RecordBatch) -> Result<Vec<ArrayRef>, ModelError> {
    let mut columns = Vec::with_capacity(wanted.fields().len());
    for (index, field) in wanted.fields().iter().enumerate() {
        let found = batch
            .column_by_name(field.name())
            .filter(|array| array.data_type() == field.data_type());
        let Some(array) = found else {
            return Err(ModelError::Column { column: column_name(index) });
        };
        columns.push(ArrayRef::clone(array));
    }
    Ok(columns)
}

/// The name of the `index`-th column with a static lifetime.
fn column_name(index: usize) -> &'static str {
    use std::sync::LazyLock;
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        span_schema()
            .fields()
            .iter()
            .map(|field| &*Box::leak(field.name().clone().into_boxed_str()))
            .collect()
    });
    NAMES.get(index).copied().unwrap_or("?")
}

impl SpanBatch {
    /// The record batch itself.
    pub const fn record_batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// The record batch itself.
    pub fn into_record_batch(self) -> RecordBatch {
        self.batch
    }

    /// Number of spans.
    pub fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// Whether there are no spans.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn typed<T: Array + 'static>(&self, name: &str) -> &T {
        self.batch
            .column_by_name(name)
            .and_then(|array| array.as_any().downcast_ref::<T>())
            .expect("the schema was checked when the batch was taken")
    }

    fn texts(&self, name: &'static str) -> Texts<'_> {
        Texts::of(&self.batch, name).expect("the schema was checked when the batch was taken")
    }

    fn text(&self, name: &'static str, row: usize) -> Option<String> {
        self.texts(name).get(row).map(str::to_owned)
    }

    fn word<T: std::str::FromStr>(
        &self,
        name: &'static str,
        row: usize,
    ) -> Result<Option<T>, ModelError>
    where
        T::Err: std::fmt::Display,
    {
        self.texts(name)
            .get(row)
            .map(|text| {
                text.parse().map_err(|reason: T::Err| ModelError::Cell {
                    column: name,
                    row,
                    reason: reason.to_string(),
                })
            })
            .transpose()
    }

    fn required_word<T: std::str::FromStr>(
        &self,
        name: &'static str,
        row: usize,
    ) -> Result<T, ModelError>
    where
        T::Err: std::fmt::Display,
    {
        self.word(name, row)?.ok_or_else(|| ModelError::Cell {
            column: name,
            row,
            reason: "is null".to_owned(),
        })
    }

    /// The span in a row.
    ///
    /// # Errors
    /// If a cell contains a value outside its vocabulary, or the span id is zero.
    ///
    /// # Panics
    /// If `row` is not below [`Self::len`].
    pub fn span(&self, row: usize) -> Result<Span, ModelError> {
        let binary = |name| self.typed::<FixedSizeBinaryArray>(name);
        let span_id = span_id_at(binary(column::SPAN_ID), row).ok_or(ModelError::Cell {
            column: column::SPAN_ID,
            row,
            reason: "is all zero".to_owned(),
        })?;
        Ok(Span {
            trace_id: trace_id_at(binary(column::TRACE_ID), row),
            span_id,
            parent_span_id: span_id_at(binary(column::PARENT_SPAN_ID), row),
            trace_state: optional!(self, StringArray, column::TRACE_STATE, row).map(str::to_owned),
            start_unix_nano: self.typed::<Int64Array>(column::START_UNIX_NANO).value(row),
            duration_nano: self.typed::<Int64Array>(column::DURATION_NANO).value(row),
            service: self.text(column::SERVICE, row).unwrap_or_default(),
            instance: self.text(column::INSTANCE, row),
            operation: self.text(column::OPERATION, row).unwrap_or_default(),
            kind: self.required_word(column::KIND, row)?,
            protocol: self.text(column::PROTOCOL, row),
            status: self.word(column::STATUS, row)?.unwrap_or(Status::Unset),
            status_code: optional!(self, Int32Array, column::STATUS_CODE, row),
            error: self.text(column::ERROR, row),
            capture: self.required_word(column::CAPTURE, row)?,
            fragment_id: optional!(self, UInt64Array, column::FRAGMENT_ID, row),
            request_tcp_seq: optional!(self, UInt32Array, column::REQUEST_TCP_SEQ, row),
            response_tcp_seq: optional!(self, UInt32Array, column::RESPONSE_TCP_SEQ, row),
            flow: Flow {
                client_address: self.text(column::CLIENT_ADDRESS, row),
                client_port: optional!(self, UInt16Array, column::CLIENT_PORT, row),
                server_address: self.text(column::SERVER_ADDRESS, row),
                server_port: optional!(self, UInt16Array, column::SERVER_PORT, row),
                network_namespace: optional!(self, UInt32Array, column::NETWORK_NAMESPACE, row),
            },
            x_request_id: optional!(self, StringArray, column::X_REQUEST_ID, row)
                .map(str::to_owned),
            logical_key: optional!(self, StringArray, column::LOGICAL_KEY, row).map(str::to_owned),
            assembled_trace_id: trace_id_at(binary(column::ASSEMBLED_TRACE_ID), row),
            assembled_parent: span_id_at(binary(column::ASSEMBLED_PARENT), row),
            evidence: self.word(column::EVIDENCE, row)?,
            confidence: optional!(self, Float32Array, column::CONFIDENCE, row),
            host: self.text(column::HOST, row),
            process_id: optional!(self, UInt32Array, column::PROCESS_ID, row),
            resource: self
                .texts(column::RESOURCE)
                .get(row)
                .map(ResourceJson::from_column)
                .unwrap_or_default(),
            network: Network {
                connect_nano: optional!(self, Int64Array, column::CONNECT_NANO, row),
                rtt_nano: optional!(self, Int64Array, column::RTT_NANO, row),
                retransmits: optional!(self, UInt32Array, column::RETRANSMITS, row),
                zero_windows: optional!(self, UInt32Array, column::ZERO_WINDOWS, row),
                resets: optional!(self, UInt32Array, column::RESETS, row),
                request_bytes: optional!(self, UInt64Array, column::REQUEST_BYTES, row),
                response_bytes: optional!(self, UInt64Array, column::RESPONSE_BYTES, row),
            },
            attributes: attributes_at(self.typed(column::ATTRIBUTES), row),
            events: self.list(column::EVENTS, row).map_or_else(Vec::new, |items| events(&items)),
            links: self.list(column::LINKS, row).map_or_else(Vec::new, |items| links(&items)),
        })
    }

    /// Every span, in order.
    pub fn spans(&self) -> impl Iterator<Item = Result<Span, ModelError>> + '_ {
        (0..self.len()).map(|row| self.span(row))
    }

    fn list(&self, name: &str, row: usize) -> Option<StructArray> {
        let lists: &ListArray = self.typed(name);
        lists.is_valid(row).then(|| lists.value(row).as_struct().clone())
    }
}

fn events(items: &StructArray) -> Vec<Event> {
    let times: &Int64Array = items.column(0).as_primitive();
    let names = items.column(1).as_string::<i32>();
    let attributes = items.column(2).as_map();
    (0..items.len())
        .map(|i| Event {
            time_unix_nano: times.value(i),
            name: names.value(i).to_owned(),
            attributes: attributes_at(attributes, i),
        })
        .collect()
}

fn links(items: &StructArray) -> Vec<Link> {
    let traces = items.column(0).as_fixed_size_binary();
    let spans = items.column(1).as_fixed_size_binary();
    let states = items.column(2).as_string::<i32>();
    let attributes = items.column(3).as_map();
    (0..items.len())
        .filter_map(|i| {
            Some(Link {
                trace_id: trace_id_at(traces, i)?,
                span_id: span_id_at(spans, i)?,
                trace_state: states.is_valid(i).then(|| states.value(i).to_owned()),
                attributes: attributes_at(attributes, i),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capture, Evidence, Kind, SpanBatchBuilder};

    fn full_span() -> Span {
        let mut span = Span::new(
            SpanId([1; 8]),
            Capture::ServerProcess,
            Kind::Server,
            "cart",
            "GET /cart",
            1_700_000_000_000_000_000,
            5_000,
        );
        span.trace_id = Some(TraceId([2; 16]));
        span.parent_span_id = Some(SpanId([3; 8]));
        span.trace_state = Some("k=v".into());
        span.instance = Some("host/1".into());
        span.protocol = Some(crate::protocol::HTTP.into());
        span.status = Status::Error;
        span.status_code = Some(500);
        span.error = Some("500".into());
        span.fragment_id = Some(u64::MAX);
        span.request_tcp_seq = Some(u32::MAX);
        span.response_tcp_seq = Some(0);
        span.flow = Flow {
            client_address: Some("127.0.0.1".into()),
            client_port: Some(40_000),
            server_address: Some("::1".into()),
            server_port: Some(80),
            network_namespace: Some(4_026_531_840),
        };
        span.x_request_id = Some("r".into());
        span.logical_key = Some("order-1".into());
        span.assembled_trace_id = Some(TraceId([4; 16]));
        span.assembled_parent = Some(SpanId([5; 8]));
        span.evidence = Some(Evidence::TcpSequence);
        span.confidence = Some(1.0);
        span.host = Some("host".into());
        span.process_id = Some(1);
        span.network = Network {
            connect_nano: Some(1),
            rtt_nano: Some(2),
            retransmits: Some(3),
            zero_windows: Some(4),
            resets: Some(5),
            request_bytes: Some(6),
            response_bytes: Some(7),
        };
        span.attributes = vec![
            ("http.route".into(), "/cart".into()),
            ("n".into(), AttributeValue::Int(-1)),
            ("d".into(), AttributeValue::Double(0.5)),
        ];
        span.events = vec![Event {
            time_unix_nano: 9,
            name: "exception".into(),
            attributes: vec![("exception.type".into(), "E".into())],
        }];
        span.links = vec![Link {
            trace_id: TraceId([6; 16]),
            span_id: SpanId([7; 8]),
            trace_state: None,
            attributes: vec![("a".into(), true.into())],
        }];
        span
    }

    #[test]
    fn rows_survive_the_batch() {
        let bare = Span::new(SpanId([9; 8]), Capture::App, Kind::Internal, "s", "o", 0, 0);
        let mut other = full_span();
        other.service = "orders".into();
        other.events.clear();
        other.links.push(other.links[0].clone());
        let spans =
            [bare.clone(), full_span(), bare.clone(), other, full_span(), bare.clone(), bare];
        let mut builder = SpanBatchBuilder::new();
        // One batch leaves no state for the next.
        for spans in [&spans[..], &spans[2..3], &[], &spans[1..4]] {
            spans.iter().for_each(|span| builder.push(span));
            assert_eq!(builder.len(), spans.len());
            let batch = SpanBatch::try_from(builder.finish().unwrap()).unwrap();
            let back: Vec<Span> = batch.spans().collect::<Result<_, _>>().unwrap();
            assert_eq!(back, spans);
            assert!(builder.is_empty());
        }
    }

    #[test]
    fn any_rows_may_lack_what_others_have() {
        let mut builder = SpanBatchBuilder::new();
        for pattern in 0_u32..1 << 7 {
            let spans: Vec<Span> = (0..7)
                .map(|row| match pattern >> row & 1 {
                    1 => full_span(),
                    _ => Span::new(SpanId([9; 8]), Capture::App, Kind::Internal, "s", "o", 0, 0),
                })
                .collect();
            spans.iter().for_each(|span| builder.push(span));
            let batch = SpanBatch::try_from(builder.finish().unwrap()).unwrap();
            assert_eq!(batch.spans().collect::<Result<Vec<_>, _>>().unwrap(), spans);
        }
    }

    #[test]
    fn a_foreign_batch_is_refused_with_the_column_that_is_wrong() {
        let mut builder: SpanBatchBuilder = [full_span()].iter().collect();
        let batch = builder.finish().unwrap();
        let keep: Vec<usize> = (0..batch.num_columns()).filter(|i| *i != 6).collect();
        let error = SpanBatch::try_from(batch.project(&keep).unwrap()).err().unwrap();
        assert!(error.to_string().contains("`service`"), "{error}");
    }

    #[test]
    fn column_order_does_not_matter() {
        let mut builder: SpanBatchBuilder = [full_span()].iter().collect();
        let batch = builder.finish().unwrap();
        let reversed: Vec<usize> = (0..batch.num_columns()).rev().collect();
        let batch = SpanBatch::try_from(batch.project(&reversed).unwrap()).unwrap();
        assert_eq!(batch.span(0).unwrap(), full_span());
    }
}
