//! Reads rows from the columns of a record batch. It reads only what assembly needs, allocates
//! nothing for a row, and examines each distinct text of a dictionary once for each batch.

use std::str::FromStr;

use arrow::array::{
    Array, AsArray, FixedSizeBinaryArray, Float32Array, Int32Array, Int64Array, MapArray,
    PrimitiveArray, RecordBatch, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{ArrowPrimitiveType, Int32Type, UInt8Type};
use spanwise_model::schema::column;
use spanwise_model::{
    AttributeValue, Capture, ClockFault, Evidence, Kind, ModelError, RowRef, SpanBatch, SpanId,
    SpanRows, TraceId, UnknownName,
};

use crate::row::{ABOVE_KEY, METHOD_KEYS, Named, PATH_KEYS, Prior, Row, is_half, without_query};
use crate::text::Text;

/// A dictionary column with each value converted to `T` once.
struct Words<T> {
    column: &'static str,
    keys: Int32Array,
    values: Vec<Result<Option<T>, String>>,
}

impl<T: Copy> Words<T> {
    fn new(
        batch: &RecordBatch,
        column: &'static str,
        convert: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Self, ModelError> {
        let (keys, texts) = words(batch, column)?;
        let values = texts.iter().map(|text| text.map(&convert).transpose()).collect();
        Ok(Self { column, keys, values })
    }

    fn get(&self, row: usize) -> Result<Option<T>, ModelError> {
        if self.keys.is_null(row) {
            return Ok(None);
        }
        let key = usize::try_from(self.keys.value(row)).unwrap_or(usize::MAX);
        match self.values.get(key) {
            Some(Ok(value)) => Ok(*value),
            Some(Err(reason)) => {
                Err(ModelError::Cell { column: self.column, row, reason: reason.clone() })
            }
            None => Ok(None),
        }
    }

    fn required(&self, row: usize) -> Result<T, ModelError> {
        self.get(row)?.ok_or_else(|| ModelError::Cell {
            column: self.column,
            row,
            reason: "is null".to_owned(),
        })
    }
}

/// The keys and the texts of a dictionary column.
fn words(
    batch: &RecordBatch,
    column: &'static str,
) -> Result<(Int32Array, StringArray), ModelError> {
    let array = batch
        .column_by_name(column)
        .and_then(|array| array.as_dictionary_opt::<Int32Type>())
        .ok_or(ModelError::Column { column })?;
    let texts = array.values().as_string_opt::<i32>().ok_or(ModelError::Column { column })?;
    Ok((array.keys().clone(), texts.clone()))
}

fn texts(batch: &RecordBatch, column: &'static str) -> Result<Words<Text>, ModelError> {
    Words::new(batch, column, |text| Ok(Text::of(text)))
}

fn vocabulary<T: Copy + FromStr<Err = UnknownName>>(
    batch: &RecordBatch,
    column: &'static str,
) -> Result<Words<T>, ModelError> {
    Words::new(batch, column, |text| text.parse().map_err(|e: UnknownName| e.to_string()))
}

fn typed<T: Array + Clone + 'static>(
    batch: &RecordBatch,
    column: &'static str,
) -> Result<T, ModelError> {
    batch
        .column_by_name(column)
        .and_then(|array| array.as_any().downcast_ref::<T>())
        .cloned()
        .ok_or(ModelError::Column { column })
}

/// A column that is often entirely null. An entirely null column is not read.
struct Optional<T>(Option<T>);

impl<T: Array + Clone + 'static> Optional<T> {
    fn new(batch: &RecordBatch, column: &'static str) -> Result<Self, ModelError> {
        let array: T = typed(batch, column)?;
        Ok(Self((array.null_count() < array.len()).then_some(array)))
    }

    fn at(&self, row: usize) -> Option<&T> {
        self.0.as_ref().filter(|array| array.is_valid(row))
    }
}

impl<T: ArrowPrimitiveType> Optional<PrimitiveArray<T>> {
    fn get(&self, row: usize) -> Option<T::Native> {
        self.at(row).map(|array| array.value(row))
    }
}

impl Optional<FixedSizeBinaryArray> {
    fn trace_id(&self, row: usize) -> Option<TraceId> {
        self.at(row).and_then(|array| TraceId::from_bytes(array.value(row)))
    }

    fn span_id(&self, row: usize) -> Option<SpanId> {
        self.at(row).and_then(|array| SpanId::from_bytes(array.value(row)))
    }
}

/// Attributes that describe a request: method and path, the preferred key of each first.
const REQUEST_KEYS: [&str; 4] = [METHOD_KEYS[0], METHOD_KEYS[1], PATH_KEYS[0], PATH_KEYS[1]];

/// The attributes that describe a request.
struct Attributes {
    rows: SpanRows,
    maps: MapArray,
    keys: StringArray,
    types: UInt8Array,
    values: StringArray,
    /// Whether any row may have a clock fault.
    marked: bool,
}

impl Attributes {
    fn new(rows: &SpanRows, batch: &RecordBatch) -> Result<Self, ModelError> {
        let column = column::ATTRIBUTES;
        let wrong = || ModelError::Column { column };
        let maps: MapArray = typed(batch, column)?;
        let values = maps.values().as_struct_opt().ok_or_else(wrong)?;
        let types = values.column(0).as_primitive_opt::<UInt8Type>().ok_or_else(wrong)?.clone();
        let values = values.column(1).as_string_opt::<i32>().ok_or_else(wrong)?.clone();
        let keys = maps.keys().as_string_opt::<i32>().ok_or_else(wrong)?.clone();
        // Almost no batch has a clock fault. In a batch without one, no row is checked. Rows with a
        // clock fault have no template.
        let marked =
            memchr::memmem::find(keys.value_data(), ClockFault::ATTRIBUTE.as_bytes()).is_some();
        Ok(Self { rows: rows.clone(), maps, keys, types, values, marked })
    }

    /// The method and the path of the row's request.
    fn request(&self, row: usize) -> (Option<Text>, Option<Text>) {
        let [method, old_method, path, target] = self.texts(row, REQUEST_KEYS);
        let path = path.or(target).map(|path| Text::of(without_query(path)));
        (method.or(old_method).map(Text::of), path)
    }

    /// The first text for each of these keys.
    fn texts<const N: usize>(&self, row: usize, keys: [&str; N]) -> [Option<&str>; N] {
        let mut first: [Option<(u8, &str)>; N] = [None; N];
        let mut note = |(key, type_number, text)| {
            for (name, first) in keys.iter().zip(&mut first) {
                if first.is_none() && *name == key {
                    *first = Some((type_number, text));
                }
            }
        };
        let templated = self.rows.templated();
        match templated.and_then(|templated| Some((templated.texts(), templated.row(row)?))) {
            Some((texts, (template, own))) => {
                let own = (own..).map(|text| texts.value(text));
                template.attributes(own).for_each(note);
            }
            None if self.maps.is_valid(row) => {
                let entry = |entry| {
                    (self.keys.value(entry), self.types.value(entry), self.values.value(entry))
                };
                self.entries(row).map(entry).for_each(&mut note);
            }
            None => {}
        }
        first.map(|found| found.and_then(|(type_number, text)| as_text(type_number, text)))
    }

    /// The range of a row's entries in the map.
    fn entries(&self, row: usize) -> std::ops::Range<usize> {
        let offsets = self.maps.value_offsets();
        // Arrow offsets are ascending and not negative.
        offsets[row] as usize..offsets[row + 1] as usize
    }

    /// The row's clock fault.
    fn clock(&self, row: usize) -> Option<ClockFault> {
        if !self.marked || self.maps.is_null(row) {
            return None;
        }
        let is_mark = |entry: &usize| self.keys.value(*entry) == ClockFault::ATTRIBUTE;
        let mark = self.entries(row).find(is_mark)?;
        ClockFault::named(as_text(self.types.value(mark), self.values.value(mark))?)
    }
}

fn as_text(type_number: u8, text: &str) -> Option<&str> {
    let is_text =
        || matches!(AttributeValue::from_parts(type_number, text), AttributeValue::String(_));
    (type_number == 0 || is_text()).then_some(text)
}

/// The columns of a batch that assembly reads.
pub(crate) struct Columns {
    batch_number: u64,
    rows: usize,
    trace_ids: Optional<FixedSizeBinaryArray>,
    span_ids: Optional<FixedSizeBinaryArray>,
    parents: Optional<FixedSizeBinaryArray>,
    prior_traces: Optional<FixedSizeBinaryArray>,
    prior_parents: Optional<FixedSizeBinaryArray>,
    starts: Int64Array,
    durations: Int64Array,
    captures: Words<Capture>,
    kinds: Words<Kind>,
    evidences: Words<Evidence>,
    confidences: Optional<Float32Array>,
    services: Words<Text>,
    operations: Words<Text>,
    hosts: Words<Text>,
    host_names: StringArray,
    protocols: Words<Text>,
    processes: Optional<UInt32Array>,
    fragments: Optional<UInt64Array>,
    requests: Optional<UInt32Array>,
    responses: Optional<UInt32Array>,
    client_ports: Optional<UInt16Array>,
    server_ports: Optional<UInt16Array>,
    request_ids: Optional<StringArray>,
    attributes: Attributes,
}

impl Columns {
    /// The columns of a batch to which the store gave the number `batch_number`.
    ///
    /// # Errors
    /// If the batch does not have the span schema.
    pub(crate) fn of(batch_number: u64, rows: &SpanRows) -> Result<Self, ModelError> {
        let batch = &SpanBatch::try_from(rows.columns().clone())?.into_record_batch();
        Ok(Self {
            batch_number,
            rows: batch.num_rows(),
            trace_ids: Optional::new(batch, column::TRACE_ID)?,
            span_ids: Optional::new(batch, column::SPAN_ID)?,
            parents: Optional::new(batch, column::PARENT_SPAN_ID)?,
            prior_traces: Optional::new(batch, column::ASSEMBLED_TRACE_ID)?,
            prior_parents: Optional::new(batch, column::ASSEMBLED_PARENT)?,
            starts: typed(batch, column::START_UNIX_NANO)?,
            durations: typed(batch, column::DURATION_NANO)?,
            captures: vocabulary(batch, column::CAPTURE)?,
            kinds: vocabulary(batch, column::KIND)?,
            evidences: vocabulary(batch, column::EVIDENCE)?,
            confidences: Optional::new(batch, column::CONFIDENCE)?,
            services: texts(batch, column::SERVICE)?,
            operations: texts(batch, column::OPERATION)?,
            hosts: texts(batch, column::HOST)?,
            host_names: words(batch, column::HOST)?.1,
            protocols: texts(batch, column::PROTOCOL)?,
            processes: Optional::new(batch, column::PROCESS_ID)?,
            fragments: Optional::new(batch, column::FRAGMENT_ID)?,
            requests: Optional::new(batch, column::REQUEST_TCP_SEQ)?,
            responses: Optional::new(batch, column::RESPONSE_TCP_SEQ)?,
            client_ports: Optional::new(batch, column::CLIENT_PORT)?,
            server_ports: Optional::new(batch, column::SERVER_PORT)?,
            request_ids: Optional::new(batch, column::X_REQUEST_ID)?,
            attributes: Attributes::new(rows, batch)?,
        })
    }

    /// The hosts that rows may have, with their names.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (Text, &str)> {
        let hosts = self.hosts.values.iter().zip(self.host_names.iter());
        hosts.filter_map(|(host, name)| Some(((*host.as_ref().ok()?)?, name?)))
    }

    /// Number of rows.
    pub(crate) const fn len(&self) -> usize {
        self.rows
    }

    /// Reads a row. `row` must be below [`Self::len`].
    ///
    /// # Errors
    /// If a cell holds a value outside its vocabulary, or the span id is zero.
    pub(crate) fn row(&self, row: usize) -> Result<Row, ModelError> {
        let kind = self.kinds.required(row)?;
        let (method, path) = match kind {
            Kind::Server => self.attributes.request(row),
            _ => (None, None),
        };
        let start = self.starts.value(row);
        let span_id = self.span_ids.span_id(row).ok_or_else(|| ModelError::Cell {
            column: column::SPAN_ID,
            row,
            reason: "is all zero".to_owned(),
        })?;
        let parent_span_id = self.parents.span_id(row);
        let above = is_half(span_id, parent_span_id)
            .then(|| self.attributes.texts(row, [ABOVE_KEY]))
            .and_then(|[above]| above?.parse().ok());
        Ok(Row {
            at: RowRef { batch: self.batch_number, row: u32::try_from(row).unwrap_or(u32::MAX) },
            span_id,
            trace_id: self.trace_ids.trace_id(row),
            parent_span_id,
            start_unix_nano: start,
            end_unix_nano: start.saturating_add(self.durations.value(row).max(0)),
            capture: self.captures.required(row)?,
            kind,
            service: self.services.get(row)?.unwrap_or_else(|| Text::of("")),
            operation: self.operations.get(row)?.unwrap_or_else(|| Text::of("")),
            host: self.hosts.get(row)?,
            process_id: self.processes.get(row),
            protocol: self.protocols.get(row)?,
            fragment_id: self.fragments.get(row),
            request_tcp_seq: self.requests.get(row),
            response_tcp_seq: self.responses.get(row),
            client_port: self.client_ports.get(row),
            server_port: self.server_ports.get(row),
            x_request_id: self.request_ids.at(row).map(|ids| Text::of(ids.value(row))),
            evidence: self.evidences.get(row)?,
            confidence: self.confidences.get(row),
            method,
            path,
            above,
            clock: self.attributes.clock(row),
            prior: self
                .prior_traces
                .trace_id(row)
                .map(|trace_id| Prior { trace_id, parent: self.prior_parents.span_id(row) }),
        })
    }
}

/// The rows of a batch with only their own ids. Returns nothing if any row has other keys, or
/// cannot be read.
pub(crate) fn names(batch_number: u64, rows: &SpanRows) -> Option<Vec<Named>> {
    let batch = rows.columns();
    let captures = vocabulary::<Capture>(batch, column::CAPTURE).ok()?;
    let ids = |column| Optional::<FixedSizeBinaryArray>::new(batch, column).ok();
    let traces = ids(column::TRACE_ID)?;
    let spans = ids(column::SPAN_ID)?;
    let parents = ids(column::PARENT_SPAN_ID)?;
    let kinds = vocabulary::<Kind>(batch, column::KIND).ok()?;
    let name = |row: usize| {
        let capture = captures.required(row).ok()?;
        let at = RowRef { batch: batch_number, row: u32::try_from(row).ok()? };
        let (trace, span) = (traces.trace_id(row)?, spans.span_id(row)?);
        let name = Named::new(at, trace, span, parents.span_id(row), kinds.required(row).ok()?)?;
        capture.is_reported().then_some(name)
    };
    // Reserves space for all rows, because an iterator that may stop early gives no lower size
    // hint.
    let mut names = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        names.push(name(row)?);
    }
    Some(names)
}

impl Row {
    /// The columns from which rows are read.
    pub const COLUMNS: &'static [&'static str] = &[
        column::TRACE_ID,
        column::SPAN_ID,
        column::PARENT_SPAN_ID,
        column::ASSEMBLED_TRACE_ID,
        column::ASSEMBLED_PARENT,
        column::START_UNIX_NANO,
        column::DURATION_NANO,
        column::CAPTURE,
        column::KIND,
        column::EVIDENCE,
        column::CONFIDENCE,
        column::SERVICE,
        column::OPERATION,
        column::HOST,
        column::PROTOCOL,
        column::PROCESS_ID,
        column::FRAGMENT_ID,
        column::REQUEST_TCP_SEQ,
        column::RESPONSE_TCP_SEQ,
        column::CLIENT_PORT,
        column::SERVER_PORT,
        column::X_REQUEST_ID,
        column::ATTRIBUTES,
    ];

    /// The attributes from which rows are read.
    pub const ATTRIBUTES: &'static [&'static str] = &[
        METHOD_KEYS[0],
        METHOD_KEYS[1],
        PATH_KEYS[0],
        PATH_KEYS[1],
        ABOVE_KEY,
        ClockFault::ATTRIBUTE,
    ];

    /// The rows of a batch to which the store gave the number `batch_number`.
    ///
    /// # Errors
    /// If the batch does not have the span schema, or a cell holds a value outside its vocabulary.
    pub fn read(batch_number: u64, batch: &RecordBatch) -> Result<Vec<Self>, ModelError> {
        let columns = Columns::of(batch_number, &batch.clone().into())?;
        (0..columns.len()).map(|row| columns.row(row)).collect()
    }

    /// The rows of a batch as it was received; `None` in place of one that cannot be read.
    ///
    /// # Errors
    /// If the batch does not have the span schema.
    pub fn read_received(
        batch_number: u64,
        rows: &SpanRows,
    ) -> Result<Vec<Option<Self>>, ModelError> {
        let columns = Columns::of(batch_number, rows)?;
        Ok((0..columns.len()).map(|row| columns.row(row).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::new_null_array;
    use proptest::prelude::*;
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
            (ClockFault::ATTRIBUTE.into(), ClockFault::Future.as_str().into()),
            ("n".into(), AttributeValue::Int(1)),
            ("http.target".into(), "/cart?a=b".into()),
            ("http.request.method".into(), "GET".into()),
        ];
        let bare = Span::new(SpanId([9; 8]), Capture::App, Kind::Internal, "s", "o", 5, 6);
        let spans = [served, bare];
        let mut builder: SpanBatchBuilder = spans.iter().collect();
        let batch = builder.finish().unwrap();
        let rows = Row::read(3, &batch).unwrap();
        let expected: Vec<Row> = (0..2)
            .map(|row| Row::from_span(RowRef { batch: 3, row: row as u32 }, &spans[row]))
            .collect();
        assert_eq!(rows, expected);
        assert_eq!(rows[0].path, Some(Text::of("/cart")));
        assert_eq!(rows[0].method, Some(Text::of("GET")));
        // The listed columns are sufficient.
        let schema = batch.schema();
        let outline = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
            let needed = Row::COLUMNS.contains(&field.name().as_str()) || !field.is_nullable();
            if needed { column.clone() } else { new_null_array(field.data_type(), 2) }
        });
        let outline = RecordBatch::try_new(schema.clone(), outline.collect()).unwrap();
        assert_eq!(Row::read(3, &outline).unwrap(), expected);
        // So are the listed attributes.
        let mut spans = spans;
        spans[0].attributes.retain(|(key, _)| Row::ATTRIBUTES.contains(&key.as_str()));
        assert_eq!(spans[0].attributes.len(), 3);
        let outline = spans.iter().collect::<SpanBatchBuilder>().finish().unwrap();
        assert_eq!(Row::read(3, &outline).unwrap(), expected);
    }

    proptest! {
        /// Any combination of nulls and attributes gives the same rows as the structs.
        #[test]
        fn any_columns_give_the_rows_of_their_structs(
            picks in prop::collection::vec(
                (0..5usize, 0..5usize, 0..4usize, 0..6usize, 0..4usize, any::<u8>(), -3..3i64),
                1..20,
            ),
        ) {
            let spans: Vec<Span> = (1..).zip(picks).map(|(number, pick)| {
                let (capture, kind, key, value, word, some, duration) = pick;
                let id = SpanId::from_u64(number).expect("not zero");
                let (capture, kind) = (Capture::ALL[capture], Kind::ALL[kind]);
                let word = ["", "a", "b", "c?d"][word];
                let mut span = Span::new(id, capture, kind, word, word, i64::MAX, duration);
                let has = |bit: u32| some >> bit & 1 == 1;
                span.trace_id = has(0).then_some(TraceId([2; 16]));
                span.parent_span_id = has(1).then_some(id);
                span.host = has(2).then(|| word.to_owned());
                span.process_id = has(3).then_some(7);
                span.fragment_id = has(4).then_some(0);
                span.x_request_id = has(5).then(|| word.to_owned());
                span.assembled_trace_id = has(6).then_some(TraceId([3; 16]));
                span.evidence = has(7).then_some(Evidence::Thread);
                let value = match value {
                    0 => AttributeValue::Int(1),
                    1 => AttributeValue::Bytes(word.to_owned()),
                    2 => AttributeValue::Bool(true),
                    _ => word.into(),
                };
                let keys = ["http.request.method", "http.method", "url.path", "http.target"];
                span.attributes = vec![
                    ("other".into(), word.into()),
                    (keys[key].into(), value),
                    (keys[(key + 1) % 4].into(), word.into()),
                    (keys[key].into(), "twice".into()),
                ];
                span
            }).collect();
            let batch = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
            let made: Vec<Row> = (0..)
                .zip(&spans)
                .map(|(row, span)| Row::from_span(RowRef { batch: 3, row }, span))
                .collect();
            prop_assert_eq!(Row::read(3, &batch).expect("spans"), made);
        }
    }
}
