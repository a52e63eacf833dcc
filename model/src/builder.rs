//! Rows to a record batch.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, FixedSizeBinaryBuilder, Float32Builder, Int32Builder, Int64Builder,
    ListBuilder, MapBuilder, MapFieldNames, RecordBatch, StringBuilder, StringDictionaryBuilder,
    StructBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{Field, Int32Type};

use crate::schema::{self, MAP_NAMES};
use crate::{AttributeValue, ModelError, Span};

type Dictionary = StringDictionaryBuilder<Int32Type>;
type AttributeMap = MapBuilder<StringBuilder, StructBuilder>;

/// Collects spans and turns them into one record batch of the span schema.
pub struct SpanBatchBuilder {
    rows: usize,
    trace_id: FixedSizeBinaryBuilder,
    span_id: FixedSizeBinaryBuilder,
    parent_span_id: FixedSizeBinaryBuilder,
    trace_state: StringBuilder,
    start_unix_nano: Int64Builder,
    duration_nano: Int64Builder,
    service: Dictionary,
    instance: Dictionary,
    operation: Dictionary,
    kind: Dictionary,
    protocol: Dictionary,
    status: Dictionary,
    status_code: Int32Builder,
    error: Dictionary,
    capture: Dictionary,
    fragment_id: UInt64Builder,
    request_tcp_seq: UInt32Builder,
    response_tcp_seq: UInt32Builder,
    client_address: Dictionary,
    client_port: UInt16Builder,
    server_address: Dictionary,
    server_port: UInt16Builder,
    network_namespace: UInt32Builder,
    x_request_id: StringBuilder,
    logical_key: StringBuilder,
    assembled_trace_id: FixedSizeBinaryBuilder,
    assembled_parent: FixedSizeBinaryBuilder,
    evidence: Dictionary,
    confidence: Float32Builder,
    host: Dictionary,
    process_id: UInt32Builder,
    resource: Dictionary,
    connect_nano: Int64Builder,
    rtt_nano: Int64Builder,
    retransmits: UInt32Builder,
    zero_windows: UInt32Builder,
    resets: UInt32Builder,
    request_bytes: UInt64Builder,
    response_bytes: UInt64Builder,
    attributes: AttributeMap,
    events: ListBuilder<StructBuilder>,
    links: ListBuilder<StructBuilder>,
}

fn map_builder() -> AttributeMap {
    let names = MapFieldNames {
        entry: MAP_NAMES[0].to_owned(),
        key: MAP_NAMES[1].to_owned(),
        value: MAP_NAMES[2].to_owned(),
    };
    let values = StructBuilder::new(
        schema::value_fields(),
        vec![Box::new(UInt8Builder::new()), Box::new(StringBuilder::new())],
    );
    let value_field =
        Field::new(MAP_NAMES[2], arrow::datatypes::DataType::Struct(schema::value_fields()), false);
    MapBuilder::new(Some(names), StringBuilder::new(), values).with_values_field(value_field)
}

fn push_attributes(map: &mut AttributeMap, attributes: &[(String, AttributeValue)]) {
    for (key, value) in attributes {
        map.keys().append_value(key);
        let entry = map.values();
        child::<UInt8Builder>(entry, 0).append_value(value.type_number());
        let text = child::<StringBuilder>(entry, 1);
        match value {
            AttributeValue::String(t) | AttributeValue::Bytes(t) | AttributeValue::Json(t) => {
                text.append_value(t);
            }
            scalar => text.append_value(scalar.to_string()),
        }
        entry.append(true);
    }
    map.append(true).expect("keys and values were appended in pairs");
}

/// The `index`-th child of a struct builder that this module has built, so its
/// type is known.
fn child<T: ArrayBuilder>(builder: &mut StructBuilder, index: usize) -> &mut T {
    builder.field_builder::<T>(index).expect("the struct was built with this child")
}

fn id<const N: usize>(builder: &mut FixedSizeBinaryBuilder, value: Option<[u8; N]>) {
    match value {
        Some(bytes) => builder.append_value(bytes).expect("the width is the column's"),
        None => builder.append_null(),
    }
}

impl Default for SpanBatchBuilder {
    fn default() -> Self {
        let list = |fields: arrow::datatypes::Fields, children: Vec<Box<dyn ArrayBuilder>>| {
            ListBuilder::new(StructBuilder::new(fields.clone(), children))
                .with_field(schema::list_item(fields))
        };
        Self {
            rows: 0,
            trace_id: FixedSizeBinaryBuilder::new(16),
            span_id: FixedSizeBinaryBuilder::new(8),
            parent_span_id: FixedSizeBinaryBuilder::new(8),
            trace_state: StringBuilder::new(),
            start_unix_nano: Int64Builder::new(),
            duration_nano: Int64Builder::new(),
            service: Dictionary::new(),
            instance: Dictionary::new(),
            operation: Dictionary::new(),
            kind: Dictionary::new(),
            protocol: Dictionary::new(),
            status: Dictionary::new(),
            status_code: Int32Builder::new(),
            error: Dictionary::new(),
            capture: Dictionary::new(),
            fragment_id: UInt64Builder::new(),
            request_tcp_seq: UInt32Builder::new(),
            response_tcp_seq: UInt32Builder::new(),
            client_address: Dictionary::new(),
            client_port: UInt16Builder::new(),
            server_address: Dictionary::new(),
            server_port: UInt16Builder::new(),
            network_namespace: UInt32Builder::new(),
            x_request_id: StringBuilder::new(),
            logical_key: StringBuilder::new(),
            assembled_trace_id: FixedSizeBinaryBuilder::new(16),
            assembled_parent: FixedSizeBinaryBuilder::new(8),
            evidence: Dictionary::new(),
            confidence: Float32Builder::new(),
            host: Dictionary::new(),
            process_id: UInt32Builder::new(),
            resource: Dictionary::new(),
            connect_nano: Int64Builder::new(),
            rtt_nano: Int64Builder::new(),
            retransmits: UInt32Builder::new(),
            zero_windows: UInt32Builder::new(),
            resets: UInt32Builder::new(),
            request_bytes: UInt64Builder::new(),
            response_bytes: UInt64Builder::new(),
            attributes: map_builder(),
            events: list(
                schema::event_fields(),
                vec![
                    Box::new(Int64Builder::new()),
                    Box::new(StringBuilder::new()),
                    Box::new(map_builder()),
                ],
            ),
            links: list(
                schema::link_fields(),
                vec![
                    Box::new(FixedSizeBinaryBuilder::new(16)),
                    Box::new(FixedSizeBinaryBuilder::new(8)),
                    Box::new(StringBuilder::new()),
                    Box::new(map_builder()),
                ],
            ),
        }
    }
}

impl SpanBatchBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Spans pushed since the last [`Self::finish`].
    pub const fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is nothing to finish.
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends one span.
    pub fn push(&mut self, span: &Span) {
        self.rows += 1;
        id(&mut self.trace_id, span.trace_id.map(|i| i.0));
        id(&mut self.span_id, Some(span.span_id.0));
        id(&mut self.parent_span_id, span.parent_span_id.map(|i| i.0));
        self.trace_state.append_option(span.trace_state.as_deref());
        self.start_unix_nano.append_value(span.start_unix_nano);
        self.duration_nano.append_value(span.duration_nano);
        self.service.append_value(&span.service);
        self.instance.append_option(span.instance.as_deref());
        self.operation.append_value(&span.operation);
        self.kind.append_value(span.kind.as_str());
        self.protocol.append_option(span.protocol.as_deref());
        self.status.append_value(span.status.as_str());
        self.status_code.append_option(span.status_code);
        self.error.append_option(span.error.as_deref());
        self.capture.append_value(span.capture.as_str());
        self.fragment_id.append_option(span.fragment_id);
        self.request_tcp_seq.append_option(span.request_tcp_seq);
        self.response_tcp_seq.append_option(span.response_tcp_seq);
        self.client_address.append_option(span.flow.client_address.as_deref());
        self.client_port.append_option(span.flow.client_port);
        self.server_address.append_option(span.flow.server_address.as_deref());
        self.server_port.append_option(span.flow.server_port);
        self.network_namespace.append_option(span.flow.network_namespace);
        self.x_request_id.append_option(span.x_request_id.as_deref());
        self.logical_key.append_option(span.logical_key.as_deref());
        id(&mut self.assembled_trace_id, span.assembled_trace_id.map(|i| i.0));
        id(&mut self.assembled_parent, span.assembled_parent.map(|i| i.0));
        self.evidence.append_option(span.evidence.map(crate::Evidence::as_str));
        self.confidence.append_option(span.confidence);
        self.host.append_option(span.host.as_deref());
        self.process_id.append_option(span.process_id);
        self.resource.append_value(span.resource.as_str());
        self.connect_nano.append_option(span.network.connect_nano);
        self.rtt_nano.append_option(span.network.rtt_nano);
        self.retransmits.append_option(span.network.retransmits);
        self.zero_windows.append_option(span.network.zero_windows);
        self.resets.append_option(span.network.resets);
        self.request_bytes.append_option(span.network.request_bytes);
        self.response_bytes.append_option(span.network.response_bytes);
        push_attributes(&mut self.attributes, &span.attributes);
        for event in &span.events {
            let item = self.events.values();
            child::<Int64Builder>(item, 0).append_value(event.time_unix_nano);
            child::<StringBuilder>(item, 1).append_value(&event.name);
            push_attributes(child::<AttributeMap>(item, 2), &event.attributes);
            item.append(true);
        }
        self.events.append(true);
        for link in &span.links {
            let item = self.links.values();
            id(child(item, 0), Some(link.trace_id.0));
            id(child(item, 1), Some(link.span_id.0));
            child::<StringBuilder>(item, 2).append_option(link.trace_state.as_deref());
            push_attributes(child::<AttributeMap>(item, 3), &link.attributes);
            item.append(true);
        }
        self.links.append(true);
    }

    /// The spans pushed so far as one batch; the builder is empty afterwards.
    ///
    /// # Errors
    /// Where Arrow refuses the columns, which would be a mistake in this module.
    pub fn finish(&mut self) -> Result<RecordBatch, ModelError> {
        self.rows = 0;
        macro_rules! columns {
            ($($field:ident),+ $(,)?) => { vec![$({
                // Builders start with room for a thousand values: without this
                // a batch of one span takes 380 kB, and batches are kept.
                let mut column = self.$field.finish();
                column.shrink_to_fit();
                Arc::new(column) as _
            }),+] };
        }
        let columns = columns![
            trace_id,
            span_id,
            parent_span_id,
            trace_state,
            start_unix_nano,
            duration_nano,
            service,
            instance,
            operation,
            kind,
            protocol,
            status,
            status_code,
            error,
            capture,
            fragment_id,
            request_tcp_seq,
            response_tcp_seq,
            client_address,
            client_port,
            server_address,
            server_port,
            network_namespace,
            x_request_id,
            logical_key,
            assembled_trace_id,
            assembled_parent,
            evidence,
            confidence,
            host,
            process_id,
            resource,
            connect_nano,
            rtt_nano,
            retransmits,
            zero_windows,
            resets,
            request_bytes,
            response_bytes,
            attributes,
            events,
            links,
        ];
        Ok(RecordBatch::try_new(schema::span_schema(), columns)?)
    }
}

impl<'a> FromIterator<&'a Span> for SpanBatchBuilder {
    fn from_iter<I: IntoIterator<Item = &'a Span>>(spans: I) -> Self {
        let mut builder = Self::new();
        spans.into_iter().for_each(|span| builder.push(span));
        builder
    }
}
