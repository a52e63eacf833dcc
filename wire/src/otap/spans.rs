//! Converts rows of `SPANS`, with everything that refers to them, to rows of the span schema.

use arrow::array::{
    DurationNanosecondArray, FixedSizeBinaryArray, Int32Array, StringArray,
    TimestampNanosecondArray, UInt32Array,
};

use super::attributes::{SpanError, spend};
use super::columns::{Column, Columns};
use super::ids::IdColumn;
use super::payload::Payload;
use super::tables::{Related, Tables};
use super::{OtapError, OtapLimits};
use crate::otlp::Decoded;
use crate::otlp::rows::{
    Builder, Collector, Emitting, EventView, LinkView, Pair, ResourceFacts, ResourceView,
    ScopeFacts, ScopeView, SpanView, with_builder,
};

/// Approximate memory of a span, an event or a link besides its texts.
const ITEM_BYTES: usize = 64;

/// The columns of `SPANS`.
struct Spans<'a> {
    ids: Vec<Option<u32>>,
    resource_ids: Vec<Option<u32>>,
    resource_dropped: Column<'a, UInt32Array>,
    scope_ids: Vec<Option<u32>>,
    scope_name: Column<'a, StringArray>,
    scope_version: Column<'a, StringArray>,
    trace_id: Column<'a, FixedSizeBinaryArray>,
    span_id: Column<'a, FixedSizeBinaryArray>,
    parent_span_id: Column<'a, FixedSizeBinaryArray>,
    trace_state: Column<'a, StringArray>,
    name: Column<'a, StringArray>,
    kind: Column<'a, Int32Array>,
    start: Column<'a, TimestampNanosecondArray>,
    duration: Column<'a, DurationNanosecondArray>,
    dropped_attributes: Column<'a, UInt32Array>,
    dropped_events: Column<'a, UInt32Array>,
    dropped_links: Column<'a, UInt32Array>,
    status_code: Column<'a, Int32Array>,
    status_message: Column<'a, StringArray>,
}

impl<'a> Spans<'a> {
    fn new(columns: Columns<'a>) -> Result<Self, OtapError> {
        let (resource, scope) = (columns.within("resource")?, columns.within("scope")?);
        let status = columns.within("status")?;
        Ok(Self {
            ids: IdColumn::new(columns, "id")?.own()?,
            resource_ids: IdColumn::new(resource, "id")?.own()?,
            resource_dropped: resource.column("dropped_attributes_count")?,
            scope_ids: IdColumn::new(scope, "id")?.own()?,
            scope_name: scope.column("name")?,
            scope_version: scope.column("version")?,
            trace_id: columns.column("trace_id")?,
            span_id: columns.column("span_id")?,
            parent_span_id: columns.column("parent_span_id")?,
            trace_state: columns.column("trace_state")?,
            name: columns.column("name")?,
            kind: columns.column("kind")?,
            start: columns.column("start_time_unix_nano")?,
            duration: columns.column("duration_time_unix_nano")?,
            dropped_attributes: columns.column("dropped_attributes_count")?,
            dropped_events: columns.column("dropped_events_count")?,
            dropped_links: columns.column("dropped_links_count")?,
            status_code: status.column("code")?,
            status_message: status.column("status_message")?,
        })
    }
}

/// Distinguishes resources: an id and a count of dropped attributes.
type ResourceKey = (Option<u32>, u32);
/// Distinguishes scopes: id, name and version.
type ScopeKey<'a> = (Option<u32>, &'a str, &'a str);

/// Converts a batch's tables. Also returns the number of table rows that were left out because
/// their owner is not in the batch.
pub(super) fn rows(tables: &Tables, limits: &OtapLimits) -> Result<(Decoded, usize), OtapError> {
    with_builder(|builder| rows_with(builder, tables, limits))
}

fn rows_with(
    builder: &mut Builder,
    tables: &Tables,
    limits: &OtapLimits,
) -> Result<(Decoded, usize), OtapError> {
    let columns = tables.columns(Payload::Spans);
    let rows = Rows {
        spans: Spans::new(columns)?,
        related: Related::new(tables)?,
        span_bytes: limits.spans.span_bytes,
    };
    let mut collector = Collector::new(&limits.spans, builder);
    let mut view = SpanView::default();
    let mut order = Vec::new();
    // Spans of one resource and scope are adjacent.
    let mut emitting: Option<(ResourceKey, Emitting)> = None;
    let mut scope: Option<(ScopeKey<'_>, ScopeFacts)> = None;
    for row in 0..columns.rows() {
        let mut room = rows.span_bytes;
        view.clear();
        match rows.fill(row, &mut view, &mut order, &mut room) {
            Ok(()) => {
                if !collector.admit(rows.span_bytes - room)? {
                    continue;
                }
            }
            Err(SpanError::TooLarge) => {
                collector.admit(rows.span_bytes.saturating_add(1))?;
                continue;
            }
            Err(SpanError::Malformed(error)) => {
                if collector.admit(rows.span_bytes - room)? {
                    collector.malformed(|| (format!("SPANS row {row}"), error));
                }
                continue;
            }
        }
        // Only for an accepted row, so that everything it refers to is accounted for with it.
        let resource_key = rows.resource_key(row);
        let (_, emitting) = match emitting.take() {
            Some(known) if known.0 == resource_key => emitting.insert(known),
            _ => {
                let resource = rows.resource(resource_key, &mut view)?;
                emitting.insert((resource_key, collector.emitter(&resource)))
            }
        };
        let scope_key = rows.scope_key(row);
        let (_, scope) = match scope.take() {
            Some(known) if known.0 == scope_key => scope.insert(known),
            _ => scope.insert((scope_key, rows.scope(scope_key, &mut view)?)),
        };
        collector.push(&view, emitting, scope)?;
    }
    Ok((collector.finish()?, rows.orphans()))
}

struct Rows<'a> {
    spans: Spans<'a>,
    related: Related<'a>,
    span_bytes: usize,
}

impl<'a> Rows<'a> {
    /// Fills an empty view with this span. Its memory is subtracted from `room`. `order` is scratch
    /// space.
    fn fill(
        &self,
        row: usize,
        view: &mut SpanView<'a>,
        order: &mut Vec<usize>,
        room: &mut usize,
    ) -> Result<(), SpanError> {
        let spans = &self.spans;
        view.trace_id = spans.trace_id.get(row).unwrap_or_default();
        view.span_id = spans.span_id.get(row).unwrap_or_default();
        view.parent_span_id = spans.parent_span_id.get(row).unwrap_or_default();
        view.trace_state = spans.trace_state.get(row).unwrap_or_default();
        view.name = spans.name.get(row).unwrap_or_default();
        view.kind = spans.kind.get(row).unwrap_or_default();
        let start = spans.start.get(row).unwrap_or_default();
        view.start_time_unix_nano = start.cast_unsigned();
        view.end_time_unix_nano = end(start, spans.duration.get(row).unwrap_or_default());
        view.dropped_attributes_count = spans.dropped_attributes.get(row).unwrap_or_default();
        view.dropped_events_count = spans.dropped_events.get(row).unwrap_or_default();
        view.dropped_links_count = spans.dropped_links.get(row).unwrap_or_default();
        view.status_code = spans.status_code.get(row).unwrap_or_default();
        view.status_message = spans.status_message.get(row).unwrap_or_default();
        let texts = view.trace_state.len() + view.name.len() + view.status_message.len();
        spend(room, ITEM_BYTES + texts)?;
        let Some(Some(id)) = spans.ids.get(row).copied() else { return Ok(()) };
        let SpanView { keys, attributes, .. } = view;
        self.related.span_attributes.append(id, room, keys, attributes)?;
        self.events(id, view, order, room)?;
        self.links(id, view, room)
    }

    fn events(
        &self,
        span: u32,
        view: &mut SpanView<'a>,
        order: &mut Vec<usize>,
        room: &mut usize,
    ) -> Result<(), SpanError> {
        let events = &self.related.events;
        order.clear();
        order.extend(events.parents.rows_of(span));
        // The producer sorts events by name. Their times almost always give the original order.
        order.sort_by_key(|row| events.time.get(*row).unwrap_or_default());
        for &row in order.iter() {
            let name = events.name.get(row).unwrap_or_default();
            spend(room, ITEM_BYTES + name.len())?;
            let start = view.inner.len();
            if let Some(Some(id)) = events.ids.get(row).copied() {
                events.attributes.append(id, room, &mut view.keys, &mut view.inner)?;
            }
            view.events.push(EventView {
                time_unix_nano: events.time.get(row).unwrap_or_default().cast_unsigned(),
                name,
                attributes: start..view.inner.len(),
                dropped_attributes_count: events.dropped_attributes.get(row).unwrap_or_default(),
            });
        }
        Ok(())
    }

    fn links(&self, span: u32, view: &mut SpanView<'a>, room: &mut usize) -> Result<(), SpanError> {
        let links = &self.related.links;
        for row in links.parents.rows_of(span) {
            let trace_state = links.trace_state.get(row).unwrap_or_default();
            spend(room, ITEM_BYTES + trace_state.len())?;
            let start = view.inner.len();
            if let Some(Some(id)) = links.ids.get(row).copied() {
                links.attributes.append(id, room, &mut view.keys, &mut view.inner)?;
            }
            view.links.push(LinkView {
                trace_id: links.trace_id.get(row).unwrap_or_default(),
                span_id: links.span_id.get(row).unwrap_or_default(),
                trace_state,
                attributes: start..view.inner.len(),
                dropped_attributes_count: links.dropped_attributes.get(row).unwrap_or_default(),
            });
        }
        Ok(())
    }

    fn orphans(&self) -> usize {
        let (spans, Related { events, links, .. }) = (&self.spans, &self.related);
        self.related.resource_attributes.orphans(&spans.resource_ids)
            + self.related.scope_attributes.orphans(&spans.scope_ids)
            + self.related.span_attributes.orphans(&spans.ids)
            + events.parents.orphans(&spans.ids)
            + events.attributes.orphans(&events.ids)
            + links.parents.orphans(&spans.ids)
            + links.attributes.orphans(&links.ids)
    }

    fn resource_key(&self, row: usize) -> ResourceKey {
        let id = self.spans.resource_ids.get(row).copied().flatten();
        (id, self.spans.resource_dropped.get(row).unwrap_or_default())
    }

    fn resource(
        &self,
        (id, dropped_attributes_count): ResourceKey,
        view: &mut SpanView<'a>,
    ) -> Result<ResourceFacts, OtapError> {
        let mut attributes: Vec<Pair<'a>> = Vec::new();
        if let Some(id) = id {
            let mut room = self.span_bytes;
            self.related
                .resource_attributes
                .append(id, &mut room, &mut view.keys, &mut attributes)
                .map_err(|unfit| self.shared("the attributes of a resource", unfit))?;
        }
        Ok(ResourceFacts::new(&ResourceView { attributes, dropped_attributes_count }))
    }

    fn scope_key(&self, row: usize) -> ScopeKey<'a> {
        (
            self.spans.scope_ids.get(row).copied().flatten(),
            self.spans.scope_name.get(row).unwrap_or_default(),
            self.spans.scope_version.get(row).unwrap_or_default(),
        )
    }

    fn scope(
        &self,
        (id, name, version): ScopeKey<'a>,
        view: &mut SpanView<'a>,
    ) -> Result<ScopeFacts, OtapError> {
        let mut attributes: Vec<Pair<'a>> = Vec::new();
        if let Some(id) = id {
            let mut room = self.span_bytes;
            self.related
                .scope_attributes
                .append(id, &mut room, &mut view.keys, &mut attributes)
                .map_err(|unfit| self.shared("the attributes of a scope", unfit))?;
        }
        Ok(ScopeFacts::new(&ScopeView { name, version, attributes }))
    }

    /// Shared parts cannot be rejected with a single span.
    fn shared(&self, what: &'static str, unfit: SpanError) -> OtapError {
        match unfit {
            SpanError::TooLarge => OtapError::TooLarge { what, limit: self.span_bytes },
            SpanError::Malformed(error) => OtapError::malformed(what, error),
        }
    }
}

/// The end from which the duration was computed. The producer subtracts unsigned times, so a span
/// without an end has minus its start as duration.
fn end(start: i64, duration: i64) -> u64 {
    let end = i128::from(start) + i128::from(duration);
    u64::try_from(end.max(0)).unwrap_or(u64::MAX)
}
