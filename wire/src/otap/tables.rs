//! The joined tables of one batch.

use arrow::array::{
    FixedSizeBinaryArray, RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array,
};

use super::OtapError;
use super::attributes::Attributes;
use super::columns::{Column, Columns};
use super::ids::{IdColumn, Parents};
use super::payload::Payload;

/// The record batches of one message.
#[derive(Default)]
pub(super) struct Tables([Option<RecordBatch>; Payload::COUNT]);

impl Tables {
    pub(super) fn set(&mut self, payload: Payload, table: Option<RecordBatch>) {
        self.0[payload as usize] = table;
    }

    pub(super) fn columns(&self, payload: Payload) -> Columns<'_> {
        Columns::of(payload, self.0[payload as usize].as_ref())
    }
}

/// Everything that spans refer to, by id.
pub(super) struct Related<'a> {
    pub(super) resource_attributes: Attributes<'a>,
    pub(super) scope_attributes: Attributes<'a>,
    pub(super) span_attributes: Attributes<'a>,
    pub(super) events: Events<'a>,
    pub(super) links: Links<'a>,
}

/// `SPAN_EVENTS` and the attributes of the events.
pub(super) struct Events<'a> {
    /// By span.
    pub(super) parents: Parents,
    pub(super) ids: Vec<Option<u32>>,
    pub(super) time: Column<'a, TimestampNanosecondArray>,
    pub(super) name: Column<'a, StringArray>,
    pub(super) dropped_attributes: Column<'a, UInt32Array>,
    pub(super) attributes: Attributes<'a>,
}

/// `SPAN_LINKS` and the attributes of the links.
pub(super) struct Links<'a> {
    /// By span.
    pub(super) parents: Parents,
    pub(super) ids: Vec<Option<u32>>,
    pub(super) trace_id: Column<'a, FixedSizeBinaryArray>,
    pub(super) span_id: Column<'a, FixedSizeBinaryArray>,
    pub(super) trace_state: Column<'a, StringArray>,
    pub(super) dropped_attributes: Column<'a, UInt32Array>,
    pub(super) attributes: Attributes<'a>,
}

impl<'a> Related<'a> {
    pub(super) fn new(tables: &'a Tables) -> Result<Self, OtapError> {
        let attributes = |payload| Attributes::new(tables.columns(payload));
        Ok(Self {
            resource_attributes: attributes(Payload::ResourceAttributes)?,
            scope_attributes: attributes(Payload::ScopeAttributes)?,
            span_attributes: attributes(Payload::SpanAttributes)?,
            events: Events::new(
                tables.columns(Payload::SpanEvents),
                attributes(Payload::EventAttributes)?,
            )?,
            links: Links::new(
                tables.columns(Payload::SpanLinks),
                attributes(Payload::LinkAttributes)?,
            )?,
        })
    }
}

impl<'a> Events<'a> {
    fn new(columns: Columns<'a>, attributes: Attributes<'a>) -> Result<Self, OtapError> {
        let name: Column<'a, StringArray> = columns.column("name")?;
        // The Go producer writes an empty name as null, with the same meaning.
        let mut before = None;
        let same = |row| {
            let name = name.get(row).unwrap_or_default();
            Ok(before.replace(name) == Some(name))
        };
        Ok(Self {
            parents: IdColumn::new(columns, "parent_id")?.parents(same)?,
            ids: IdColumn::new(columns, "id")?.own()?,
            time: columns.column("time_unix_nano")?,
            name,
            dropped_attributes: columns.column("dropped_attributes_count")?,
            attributes,
        })
    }
}

impl<'a> Links<'a> {
    fn new(columns: Columns<'a>, attributes: Attributes<'a>) -> Result<Self, OtapError> {
        let trace_id: Column<'a, FixedSizeBinaryArray> = columns.column("trace_id")?;
        let mut before = None;
        let same = |row| {
            let trace_id = trace_id.get(row);
            Ok(before.replace(trace_id) == Some(trace_id))
        };
        Ok(Self {
            parents: IdColumn::new(columns, "parent_id")?.parents(same)?,
            ids: IdColumn::new(columns, "id")?.own()?,
            trace_id,
            span_id: columns.column("span_id")?,
            trace_state: columns.column("trace_state")?,
            dropped_attributes: columns.column("dropped_attributes_count")?,
            attributes,
        })
    }
}
