//! Builds record batches from rows.
//!
//! Columns are written in their final form. Columns without a value in a row are not touched: most
//! columns of most rows are null. Texts are copied once, from the input to their column.

mod attributes;
mod lists;
mod reuse;
mod sharing;
mod sparse;
mod texts;
mod written;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Float32Type, Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};

use crate::absent::shared_without_values;
use crate::schema::column;
use crate::{
    AttributeRef, Attributes, Emitter, ModelError, Observed, Span, SpanId, SpanRef, SpanRows,
    Template, TraceId, schema,
};
pub(crate) use attributes::AttributeMaps;
use lists::{Events, Links};
pub use sharing::KnownTemplate;
use sharing::Sharing;
use sparse::{Ids, Numbers};
use texts::{Dictionary, TextPlace, Texts, Vocabulary};
use written::BatchId;
pub use written::Written;

/// Collects spans and converts them to one record batch of the span schema.
#[derive(Default)]
pub struct SpanBatchBuilder {
    batch: BatchId,
    rows: usize,
    trace_id: Ids<16>,
    span_id: Ids<8>,
    parent_span_id: Ids<8>,
    trace_state: Texts,
    start_unix_nano: Numbers<Int64Type>,
    duration_nano: Numbers<Int64Type>,
    service: Dictionary,
    instance: Dictionary,
    operation: Dictionary,
    kind: Vocabulary,
    protocol: Dictionary,
    status: Vocabulary,
    status_code: Numbers<Int32Type>,
    error: Dictionary,
    capture: Vocabulary,
    fragment_id: Numbers<UInt64Type>,
    request_tcp_seq: Numbers<UInt32Type>,
    response_tcp_seq: Numbers<UInt32Type>,
    client_address: Dictionary,
    client_port: Numbers<UInt16Type>,
    server_address: Dictionary,
    server_port: Numbers<UInt16Type>,
    network_namespace: Numbers<UInt32Type>,
    x_request_id: Texts,
    logical_key: Texts,
    assembled_trace_id: Ids<16>,
    assembled_parent: Ids<8>,
    evidence: Vocabulary,
    confidence: Numbers<Float32Type>,
    host: Dictionary,
    process_id: Numbers<UInt32Type>,
    resource: Dictionary,
    connect_nano: Numbers<Int64Type>,
    rtt_nano: Numbers<Int64Type>,
    retransmits: Numbers<UInt32Type>,
    zero_windows: Numbers<UInt32Type>,
    resets: Numbers<UInt32Type>,
    request_bytes: Numbers<UInt64Type>,
    response_bytes: Numbers<UInt64Type>,
    attributes: AttributeMaps,
    /// State for shared attributes.
    sharing: Option<Box<Sharing>>,
    events: Events,
    links: Links,
}

/// An [`Emitter`] in the dictionaries of one builder, where all its spans refer to it. Not valid
/// after [`SpanBatchBuilder::finish`].
#[derive(Debug, Clone, Copy)]
pub struct EmitterPlaces {
    service: TextPlace,
    instance: Option<TextPlace>,
    host: Option<TextPlace>,
    process_id: Option<u32>,
    resource: TextPlace,
}

/// The addresses of a span's connection in the dictionaries of one builder. Not valid after
/// [`SpanBatchBuilder::finish`].
#[derive(Debug, Clone, Copy, Default)]
pub struct AddressPlaces {
    client: Option<TextPlace>,
    server: Option<TextPlace>,
}

/// A row to which attributes, events and links can be added. The row ends when this is dropped.
pub struct RowWriter<'a> {
    builder: &'a mut SpanBatchBuilder,
    /// Whether the row can still get a template.
    shares: bool,
}

/// The attributes of an event or a link. They end when this is dropped.
pub struct InnerAttributes<'a>(&'a mut AttributeMaps);

impl SpanBatchBuilder {
    /// Maximum bytes of a text in a template, see [`Self::shares`].
    pub const LONGEST_SHARED: usize = sharing::LONGEST_SHARED;

    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty builder for many batches that learns templates. Its batches must be finished with
    /// [`Self::finish_rows`].
    pub fn sharing() -> Self {
        Self::sharing_where(sharing::FEW_ALONE)
    }

    /// Like [`Self::sharing`], for senders that only forward batches: less is shared, and fewer
    /// templates are made.
    pub fn sharing_less() -> Self {
        Self::sharing_where(sharing::HARDLY_ALONE)
    }

    fn sharing_where(most_alone: usize) -> Self {
        Self { sharing: Some(Box::new(Sharing::new(most_alone))), ..Self::default() }
    }

    /// Number of spans since the last [`Self::finish`].
    pub const fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no spans.
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds the emitter of spans to the dictionaries.
    pub fn emitter(&mut self, emitter: &Emitter<'_>) -> EmitterPlaces {
        EmitterPlaces {
            service: self.service.place(emitter.service),
            instance: emitter.instance.map(|text| self.instance.place(text)),
            host: emitter.host.map(|text| self.host.place(text)),
            process_id: emitter.process_id,
            resource: self.resource.place(emitter.resource.as_str()),
        }
    }

    /// Adds the addresses of a connection to the dictionaries.
    pub fn addresses(&mut self, client: Option<&str>, server: Option<&str>) -> AddressPlaces {
        AddressPlaces {
            client: client.map(|text| self.client_address.place(text)),
            server: server.map(|text| self.server_address.place(text)),
        }
    }

    /// While rows get templates, a number that changes when templates are forgotten or the choice
    /// of shared keys changes.
    pub fn sharing_epoch(&self) -> Option<u64> {
        self.sharing.as_ref()?.epoch()
    }

    /// Whether values of this key are shared, if their type and length permit. `None` if rows with
    /// this key get no template.
    pub fn shares(&mut self, key: &str) -> Option<bool> {
        self.sharing.as_mut()?.shares(key)
    }

    /// The template of the last completed row.
    pub fn last_template(&self) -> Option<(KnownTemplate, &Template)> {
        self.sharing.as_ref()?.last()
    }

    /// Appends a row with a known template and these own values. The span has no events and no
    /// links. Returns `false` and appends nothing if the template is not known any more, or needs
    /// another number of values.
    pub fn push_known<'v>(
        &mut self,
        template: KnownTemplate,
        span: &SpanRef<'_>,
        emitter: &EmitterPlaces,
        own: impl Iterator<Item = AttributeRef<'v>>,
    ) -> bool {
        let sharing = self.sharing.as_mut();
        let ended = sharing.is_some_and(|sharing| sharing.push_known(template, own));
        if ended {
            self.columns(span, emitter, None);
            self.end_row();
        }
        ended
    }

    /// Starts the row of a span with borrowed texts.
    pub fn begin(&mut self, span: &SpanRef<'_>, emitter: &EmitterPlaces) -> RowWriter<'_> {
        self.begin_row(span, emitter, None)
    }

    /// Like [`Self::begin`], for a span with known addresses. Its own addresses are ignored.
    pub fn begin_between(
        &mut self,
        span: &SpanRef<'_>,
        emitter: &EmitterPlaces,
        addresses: AddressPlaces,
    ) -> RowWriter<'_> {
        self.begin_row(span, emitter, Some(addresses))
    }

    fn begin_row(
        &mut self,
        span: &SpanRef<'_>,
        emitter: &EmitterPlaces,
        addresses: Option<AddressPlaces>,
    ) -> RowWriter<'_> {
        self.columns(span, emitter, addresses);
        let shares = self.sharing.as_ref().is_some_and(|sharing| sharing.is_on());
        RowWriter { builder: self, shares }
    }

    fn columns(
        &mut self,
        span: &SpanRef<'_>,
        emitter: &EmitterPlaces,
        addresses: Option<AddressPlaces>,
    ) {
        let row = self.rows;
        let addresses =
            addresses.unwrap_or_else(|| self.addresses(span.client_address, span.server_address));
        self.trace_id.set(row, span.trace_id.map(|id| id.0));
        self.span_id.set(row, Some(span.span_id.0));
        self.parent_span_id.set(row, span.parent_span_id.map(|id| id.0));
        self.trace_state.set(row, span.trace_state);
        self.start_unix_nano.set(row, Some(span.start_unix_nano));
        self.duration_nano.set(row, Some(span.duration_nano));
        self.service.set_place(row, Some(emitter.service));
        self.instance.set_place(row, emitter.instance);
        self.operation.set(row, Some(span.operation));
        self.kind.set(row, span.kind as usize, span.kind.as_str());
        self.protocol.set(row, span.protocol);
        self.status.set(row, span.status as usize, span.status.as_str());
        self.status_code.set(row, span.status_code);
        self.error.set(row, span.error);
        self.capture.set(row, span.capture as usize, span.capture.as_str());
        self.client_address.set_place(row, addresses.client);
        self.client_port.set(row, span.client_port);
        self.server_address.set_place(row, addresses.server);
        self.server_port.set(row, span.server_port);
        self.x_request_id.set(row, span.x_request_id);
        self.host.set_place(row, emitter.host);
        self.process_id.set(row, emitter.process_id);
        self.resource.set_place(row, Some(emitter.resource));
    }

    fn end_row(&mut self) {
        self.attributes.end_row();
        self.events.end_row();
        self.links.end_row();
        self.rows += 1;
    }

    /// Sets the observed columns of the next row.
    pub fn observe(&mut self, observed: &Observed) {
        let row = self.rows;
        self.fragment_id.set(row, observed.fragment_id);
        self.request_tcp_seq.set(row, observed.request_tcp_seq);
        self.response_tcp_seq.set(row, observed.response_tcp_seq);
        self.network_namespace.set(row, observed.network_namespace);
        if let Some(evidence) = observed.evidence {
            self.evidence.set(row, evidence as usize, evidence.as_str());
        }
        self.confidence.set(row, observed.confidence);
        let network = &observed.network;
        self.connect_nano.set(row, network.connect_nano);
        self.rtt_nano.set(row, network.rtt_nano);
        self.retransmits.set(row, network.retransmits);
        self.zero_windows.set(row, network.zero_windows);
        self.resets.set(row, network.resets);
        self.request_bytes.set(row, network.request_bytes);
        self.response_bytes.set(row, network.response_bytes);
    }

    /// Sets the logical key of the next row.
    pub fn logical_key(&mut self, key: &str) {
        self.logical_key.set(self.rows, Some(key));
    }

    /// Appends one span.
    pub fn push(&mut self, span: &Span) {
        let row = self.rows;
        self.logical_key.set(row, span.logical_key.as_deref());
        self.assembled_trace_id.set(row, span.assembled_trace_id.map(|id| id.0));
        self.assembled_parent.set(row, span.assembled_parent.map(|id| id.0));
        self.observe(&Observed::from(span));
        let emitter = self.emitter(&Emitter {
            service: &span.service,
            instance: span.instance.as_deref(),
            host: span.host.as_deref(),
            process_id: span.process_id,
            resource: &span.resource,
        });
        let mut writer = self.begin(&SpanRef::from(span), &emitter);
        writer.attributes(&span.attributes);
        for event in &span.events {
            writer.event(event.time_unix_nano, &event.name).attributes(&event.attributes);
        }
        for link in &span.links {
            writer
                .link(link.trace_id, link.span_id, link.trace_state.as_deref())
                .attributes(&link.attributes);
        }
    }

    /// All spans as one batch. Afterwards the builder is empty, and keeps memory for a batch of
    /// normal size.
    ///
    /// # Errors
    /// If Arrow refuses the columns, which would be an error in this module.
    pub fn finish(&mut self) -> Result<RecordBatch, ModelError> {
        self.finish_rows()?.whole()
    }

    /// Like [`Self::finish`], with templates.
    ///
    /// # Errors
    /// The errors of [`Self::finish`].
    pub fn finish_rows(&mut self) -> Result<SpanRows, ModelError> {
        let rows = self.finish_all();
        if rows.is_err() {
            // Some columns may be finished and others not.
            let sharing = self.sharing.as_ref().map(|sharing| Box::new(sharing.anew()));
            *self = Self { sharing, ..Self::default() };
        }
        rows
    }

    fn finish_all(&mut self) -> Result<SpanRows, ModelError> {
        let columns = self.finish_columns()?;
        let Some(sharing) = &mut self.sharing else { return Ok(columns.into()) };
        let (templated, new_bytes) = sharing.finish()?;
        Ok(SpanRows::new(columns, templated)?.with_new_templates(new_bytes))
    }

    fn finish_columns(&mut self) -> Result<RecordBatch, ModelError> {
        let rows = std::mem::take(&mut self.rows);
        self.batch = BatchId::default();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(column::ALL.len());
        macro_rules! columns {
            ($($field:ident: $finished:expr),+ $(,)?) => { $({
                let $field = &mut self.$field;
                // Most columns have no values, and no allocation is needed.
                let column = match $field.end_unset() {
                    true => shared_without_values(columns.len(), rows)?,
                    false => Arc::new($finished),
                };
                columns.push(column);
            })+ };
        }
        columns! {
            trace_id: trace_id.finish(rows)?,
            span_id: span_id.finish(rows)?,
            parent_span_id: parent_span_id.finish(rows)?,
            trace_state: trace_state.finish(rows)?,
            start_unix_nano: start_unix_nano.finish(rows),
            duration_nano: duration_nano.finish(rows),
            service: service.finish(rows)?,
            instance: instance.finish(rows)?,
            operation: operation.finish(rows)?,
            kind: kind.finish(rows)?,
            protocol: protocol.finish(rows)?,
            status: status.finish(rows)?,
            status_code: status_code.finish(rows),
            error: error.finish(rows)?,
            capture: capture.finish(rows)?,
            fragment_id: fragment_id.finish(rows),
            request_tcp_seq: request_tcp_seq.finish(rows),
            response_tcp_seq: response_tcp_seq.finish(rows),
            client_address: client_address.finish(rows)?,
            client_port: client_port.finish(rows),
            server_address: server_address.finish(rows)?,
            server_port: server_port.finish(rows),
            network_namespace: network_namespace.finish(rows),
            x_request_id: x_request_id.finish(rows)?,
            logical_key: logical_key.finish(rows)?,
            assembled_trace_id: assembled_trace_id.finish(rows)?,
            assembled_parent: assembled_parent.finish(rows)?,
            evidence: evidence.finish(rows)?,
            confidence: confidence.finish(rows),
            host: host.finish(rows)?,
            process_id: process_id.finish(rows),
            resource: resource.finish(rows)?,
            connect_nano: connect_nano.finish(rows),
            rtt_nano: rtt_nano.finish(rows),
            retransmits: retransmits.finish(rows),
            zero_windows: zero_windows.finish(rows),
            resets: resets.finish(rows),
            request_bytes: request_bytes.finish(rows),
            response_bytes: response_bytes.finish(rows),
            attributes: attributes.finish()?,
            events: events.finish()?,
            links: links.finish()?,
        }
        Ok(RecordBatch::try_new(schema::span_schema(), columns)?)
    }
}

impl RowWriter<'_> {
    /// Adds an attribute.
    pub fn attribute(&mut self, key: &str, value: AttributeRef<'_>) {
        let SpanBatchBuilder { attributes, sharing, .. } = &mut *self.builder;
        match sharing {
            Some(sharing) if self.shares => {
                self.shares = sharing.push(key, value, attributes);
                if self.shares {
                    return;
                }
            }
            Some(sharing) => sharing.study(key, value),
            None => {}
        }
        attributes.push(key, value);
    }

    /// Adds attributes.
    pub fn attributes(&mut self, attributes: &Attributes) {
        for (key, value) in attributes {
            self.attribute(key, value.as_ref());
        }
    }

    /// Adds attributes that many rows have. They must always be the same for the same `written`.
    pub fn repeated<'v>(
        &mut self,
        written: &Written,
        attributes: impl Iterator<Item = (&'v str, AttributeRef<'v>)>,
    ) {
        let SpanBatchBuilder { attributes: to, sharing, batch, .. } = &mut *self.builder;
        match sharing {
            Some(sharing) if self.shares => {
                if sharing.repeat(written) {
                    return;
                }
                let piece = sharing.begin_piece(written);
                attributes.for_each(|(key, value)| self.attribute(key, value));
                let sharing = self.builder.sharing.as_mut().filter(|_| self.shares);
                if let Some((sharing, piece)) = sharing.zip(piece) {
                    sharing.end_piece(piece, written);
                }
            }
            Some(sharing) if sharing.studies() => {
                attributes.for_each(|(key, value)| self.attribute(key, value));
            }
            _ => {
                if let Some(entries) = written.places(*batch) {
                    return to.repeat(entries);
                }
                let start = to.len();
                attributes.for_each(|(key, value)| to.push(key, value));
                written.set(*batch, start..to.len());
            }
        }
    }

    /// Adds an event. Its attributes can be added to the returned value.
    pub fn event(&mut self, time_unix_nano: i64, name: &str) -> InnerAttributes<'_> {
        let events = &mut self.builder.events;
        events.push(time_unix_nano, name);
        InnerAttributes(&mut events.attributes)
    }

    /// Adds a link. Its attributes can be added to the returned value.
    pub fn link(
        &mut self,
        trace_id: TraceId,
        span_id: SpanId,
        trace_state: Option<&str>,
    ) -> InnerAttributes<'_> {
        let links = &mut self.builder.links;
        links.push(trace_id, span_id, trace_state);
        InnerAttributes(&mut links.attributes)
    }
}

impl Drop for RowWriter<'_> {
    fn drop(&mut self) {
        if let Some(sharing) = &mut self.builder.sharing {
            sharing.end_row();
        }
        self.builder.end_row();
    }
}

impl InnerAttributes<'_> {
    /// Adds an attribute.
    pub fn attribute(&mut self, key: &str, value: AttributeRef<'_>) {
        self.0.push(key, value);
    }

    /// Adds attributes.
    pub fn attributes(&mut self, attributes: &Attributes) {
        for (key, value) in attributes {
            self.0.push(key, value.as_ref());
        }
    }
}

impl Drop for InnerAttributes<'_> {
    fn drop(&mut self) {
        self.0.end_row();
    }
}

impl<'a> FromIterator<&'a Span> for SpanBatchBuilder {
    fn from_iter<I: IntoIterator<Item = &'a Span>>(spans: I) -> Self {
        let mut builder = Self::new();
        spans.into_iter().for_each(|span| builder.push(span));
        builder
    }
}
