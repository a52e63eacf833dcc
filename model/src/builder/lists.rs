//! The columns of events and links: a list for each row.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, StructArray};
use arrow::datatypes::Fields;

use super::attributes::AttributeMaps;
use super::reuse::{TextList, forget_offsets, taken, taken_offsets};
use super::sparse::Ids;
use super::texts::Texts;
use crate::{ModelError, SpanId, TraceId, schema};

pub(super) struct Events {
    offsets: Vec<i32>,
    times: Vec<i64>,
    names: TextList,
    pub(super) attributes: AttributeMaps,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            times: Vec::new(),
            names: TextList::default(),
            attributes: AttributeMaps::default(),
        }
    }
}

impl Events {
    /// Appends an event to the current row. The caller adds its attributes before or after, and
    /// ends them.
    pub(super) fn push(&mut self, time_unix_nano: i64, name: &str) {
        self.times.push(time_unix_nano);
        self.names.push(name);
    }

    pub(super) fn end_row(&mut self) {
        self.offsets.push(self.times.len() as i32);
    }

    /// Whether no row has events. If so, the column is reset.
    pub(super) fn end_unset(&mut self) -> bool {
        let is_unset = self.times.is_empty();
        if is_unset {
            forget_offsets(&mut self.offsets);
        }
        is_unset
    }

    pub(super) fn finish(&mut self) -> Result<ListArray, ModelError> {
        let times = Int64Array::new(taken(&mut self.times), None);
        let names = self.names.finish(None)?;
        let columns: [ArrayRef; 3] =
            [Arc::new(times), Arc::new(names), Arc::new(self.attributes.finish()?)];
        list(&mut self.offsets, schema::event_fields(), columns.into())
    }
}

pub(super) struct Links {
    offsets: Vec<i32>,
    count: usize,
    trace_ids: Ids<16>,
    span_ids: Ids<8>,
    trace_states: Texts,
    pub(super) attributes: AttributeMaps,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            count: 0,
            trace_ids: Ids::default(),
            span_ids: Ids::default(),
            trace_states: Texts::default(),
            attributes: AttributeMaps::default(),
        }
    }
}

impl Links {
    /// See [`Events::push`].
    pub(super) fn push(&mut self, trace_id: TraceId, span_id: SpanId, trace_state: Option<&str>) {
        self.trace_ids.set(self.count, Some(trace_id.0));
        self.span_ids.set(self.count, Some(span_id.0));
        self.trace_states.set(self.count, trace_state);
        self.count += 1;
    }

    pub(super) fn end_row(&mut self) {
        self.offsets.push(self.count as i32);
    }

    /// See [`Events::end_unset`].
    pub(super) fn end_unset(&mut self) -> bool {
        let is_unset = self.count == 0;
        if is_unset {
            forget_offsets(&mut self.offsets);
        }
        is_unset
    }

    pub(super) fn finish(&mut self) -> Result<ListArray, ModelError> {
        let count = std::mem::take(&mut self.count);
        let columns: [ArrayRef; 4] = [
            Arc::new(self.trace_ids.finish(count)?),
            Arc::new(self.span_ids.finish(count)?),
            Arc::new(self.trace_states.finish(count)?),
            Arc::new(self.attributes.finish()?),
        ];
        list(&mut self.offsets, schema::link_fields(), columns.into())
    }
}

fn list(
    offsets: &mut Vec<i32>,
    fields: Fields,
    columns: Vec<ArrayRef>,
) -> Result<ListArray, ModelError> {
    let items = StructArray::try_new(fields.clone(), columns, None)?;
    let offsets = taken_offsets(offsets);
    Ok(ListArray::try_new(schema::list_item(fields), offsets, Arc::new(items), None)?)
}
