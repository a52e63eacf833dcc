//! Rows between a receiver and a file.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MapArray, RecordBatch, StringArray, UInt32Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::{take, take_record_batch};
use arrow::datatypes::UInt8Type;
use arrow::error::ArrowError;

use crate::absent::is_shared;
use crate::builder::AttributeMaps;
use crate::schema::column;
use crate::{AttributeRef, ModelError, SpanBatch, Template};

/// Attributes of a batch's rows, as templates and the rows' own values.
#[derive(Debug, Clone)]
pub struct Templated {
    templates: Vec<Arc<Template>>,
    /// The index of each row's template.
    rows: ScalarBuffer<u32>,
    /// The offset of each row's own texts, and the end.
    offsets: OffsetBuffer<i32>,
    texts: StringArray,
}

/// Marks a row whose attributes are in the map.
pub(crate) const IN_MAP: u32 = u32::MAX;

impl Templated {
    /// Creates rows with these template indexes (`None` if the attributes are in the map) and own
    /// texts, row by row.
    ///
    /// # Errors
    /// If a row's template does not exist, or needs another number of texts.
    pub fn new(
        templates: Vec<Arc<Template>>,
        rows: Vec<Option<u32>>,
        texts: StringArray,
    ) -> Result<Self, ModelError> {
        let numbers = rows.iter().map(|place| place.unwrap_or(IN_MAP)).collect::<Vec<u32>>();
        let lengths = rows.iter().map(|place| match place {
            Some(place) => templates.get(*place as usize).map(|template| template.own_texts()),
            None => Some(0),
        });
        let lengths = lengths.collect::<Option<Vec<usize>>>().ok_or_else(unmatched)?;
        Self::of_parts(templates, numbers.into(), OffsetBuffer::from_lengths(lengths), texts)
    }

    /// Like [`Self::new`], for the builder, which guarantees consistency.
    pub(crate) fn of_parts(
        templates: Vec<Arc<Template>>,
        rows: ScalarBuffer<u32>,
        offsets: OffsetBuffer<i32>,
        texts: StringArray,
    ) -> Result<Self, ModelError> {
        let end = offsets.last().map_or(0, |end| *end as usize);
        if end != texts.len() || texts.null_count() > 0 || offsets.len() != rows.len() + 1 {
            return Err(unmatched());
        }
        Ok(Self { templates, rows, offsets, texts })
    }

    /// The templates of its rows.
    pub fn templates(&self) -> &[Arc<Template>] {
        &self.templates
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The index of a row's template; `None` if its attributes are in the map.
    pub fn place(&self, row: usize) -> Option<usize> {
        let place = self.rows[row];
        (place != IN_MAP).then_some(place as usize)
    }

    /// The range of a row's own texts in [`Self::texts`].
    pub fn own(&self, row: usize) -> Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// The offset of each row's own texts, and the end.
    pub const fn offsets(&self) -> &OffsetBuffer<i32> {
        &self.offsets
    }

    /// The rows' own texts, row by row.
    pub const fn texts(&self) -> &StringArray {
        &self.texts
    }

    /// A row's template, and the index of its first own text.
    pub fn row(&self, row: usize) -> Option<(&Template, usize)> {
        let template = self.templates.get(self.place(row)?)?;
        Some((template, self.offsets[row] as usize))
    }

    /// Memory without the templates, which other batches share.
    fn memory_bytes(&self) -> usize {
        let text = self.texts.value_data().len();
        (self.rows.len() + self.offsets.len() + self.texts.len()) * size_of::<u32>() + text
    }

    fn take(&self, rows: &UInt32Array) -> Result<Self, ArrowError> {
        let mut texts = Vec::new();
        let mut lengths = Vec::with_capacity(rows.len());
        let mut numbers = Vec::with_capacity(rows.len());
        for row in rows.values().iter().map(|row| *row as usize) {
            let own = self.own(row);
            lengths.push(own.len());
            numbers.push(self.rows[row]);
            texts.extend(own.map(|text| text as u32));
        }
        let texts = take(&self.texts, &UInt32Array::from(texts), None)?;
        let (templates, texts) = (self.templates.clone(), texts.as_string().clone());
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Self { templates, rows: numbers.into(), offsets, texts })
    }
}

fn unmatched() -> ModelError {
    let reason = "rows and templates do not belong together".to_owned();
    ArrowError::InvalidArgumentError(reason).into()
}

/// Rows of the span schema. Their attributes may be separate from the columns.
#[derive(Debug, Clone)]
pub struct SpanRows {
    columns: RecordBatch,
    templated: Option<Arc<Templated>>,
    /// Memory of the templates that were created for these rows.
    new_template_bytes: usize,
}

impl SpanRows {
    /// Rows of the span schema. Those with a template must have an empty map in the column of
    /// attributes.
    ///
    /// # Errors
    /// If the numbers of rows differ.
    pub fn new(columns: RecordBatch, templated: Templated) -> Result<Self, ModelError> {
        if templated.len() != columns.num_rows() {
            return Err(unmatched());
        }
        let templated = Some(Arc::new(templated));
        Ok(Self { columns, templated, new_template_bytes: 0 })
    }

    /// Adds the memory of templates that were created for these rows.
    pub fn with_new_templates(self, bytes: usize) -> Self {
        Self { new_template_bytes: bytes, ..self }
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.columns.num_rows()
    }

    /// All columns. The column of attributes contains only those of rows without a template.
    pub const fn columns(&self) -> &RecordBatch {
        &self.columns
    }

    /// The attributes of rows with a template.
    pub fn templated(&self) -> Option<&Templated> {
        self.templated.as_deref()
    }

    /// The same rows with other columns. The column of attributes must be the same.
    pub fn with_columns(&self, columns: RecordBatch) -> Self {
        Self { columns, templated: self.templated.clone(), ..*self }
    }

    /// The rows with these indexes.
    ///
    /// # Errors
    /// If texts are too large for one array.
    pub fn take(&self, rows: &UInt32Array) -> Result<Self, ArrowError> {
        let columns = take_record_batch(&self.columns, rows)?;
        let templated = self.templated.as_ref().map(|all| all.take(rows)).transpose()?;
        Ok(Self { columns, templated: templated.map(Arc::new), new_template_bytes: 0 })
    }

    /// Some columns, by index, of some rows.
    ///
    /// # Errors
    /// The errors of [`Self::whole`].
    pub fn pick(&self, columns: &[usize], rows: &UInt32Array) -> Result<RecordBatch, ModelError> {
        if self.needs_templates(columns)? {
            return Ok(self.take(rows)?.whole()?.project(columns)?);
        }
        Ok(take_record_batch(&self.columns.project(columns)?, rows)?)
    }

    /// Some columns, by index, of all rows.
    ///
    /// # Errors
    /// The errors of [`Self::whole`].
    pub fn project(&self, columns: &[usize]) -> Result<RecordBatch, ModelError> {
        match self.needs_templates(columns)? {
            true => Ok(self.whole()?.project(columns)?),
            false => Ok(self.columns.project(columns)?),
        }
    }

    /// Whether these columns include attributes, and these are separate.
    fn needs_templates(&self, columns: &[usize]) -> Result<bool, ModelError> {
        let attributes = self.columns.schema_ref().index_of(column::ATTRIBUTES)?;
        Ok(self.templated.is_some() && columns.contains(&attributes))
    }

    /// The attributes of all rows as one column.
    ///
    /// # Errors
    /// If texts are too large for one array.
    fn attributes(&self) -> Result<ArrayRef, ModelError> {
        let name = column::ATTRIBUTES;
        let map = self.columns.column_by_name(name).ok_or(ModelError::Column { column: name })?;
        let Some(templated) = self.templated() else { return Ok(Arc::clone(map)) };
        let map = map.as_map_opt().ok_or(ModelError::Column { column: name })?;
        let mut maps = AttributeMaps::default();
        for row in 0..self.num_rows() {
            match templated.row(row) {
                Some((template, first)) => {
                    let own = (first..).map(|text| templated.texts.value(text));
                    for (key, type_number, text) in template.attributes(own) {
                        maps.push_text(key, type_number, text);
                    }
                }
                None => copy_row(map, row, &mut maps),
            }
            maps.end_row();
        }
        Ok(Arc::new(maps.finish()?))
    }

    /// The attributes of a row, in order.
    ///
    /// # Errors
    /// If the column of attributes does not have its type.
    pub fn attributes_of<'a>(
        &'a self,
        row: usize,
        mut each: impl FnMut(&'a str, AttributeRef<'a>),
    ) -> Result<(), ModelError> {
        if let Some(templated) = &self.templated
            && let Some((template, first)) = templated.row(row)
        {
            let own = (first..).map(|text| templated.texts.value(text));
            for (key, type_number, text) in template.attributes(own) {
                each(key, AttributeRef::from_parts(type_number, text));
            }
            return Ok(());
        }
        let map = self.map()?;
        if map.is_null(row) {
            return Ok(());
        }
        let wrong = || ModelError::Column { column: column::ATTRIBUTES };
        let values = map.values().as_struct_opt().ok_or_else(wrong)?;
        let keys = map.keys().as_string_opt::<i32>().ok_or_else(wrong)?;
        let types = values.column(0).as_primitive_opt::<UInt8Type>().ok_or_else(wrong)?;
        let texts = values.column(1).as_string_opt::<i32>().ok_or_else(wrong)?;
        let offsets = map.value_offsets();
        for entry in offsets[row] as usize..offsets[row + 1] as usize {
            let value = AttributeRef::from_parts(types.value(entry), texts.value(entry));
            each(keys.value(entry), value);
        }
        Ok(())
    }

    fn map(&self) -> Result<&MapArray, ModelError> {
        let name = column::ATTRIBUTES;
        let map = self.columns.column_by_name(name).and_then(|column| column.as_map_opt());
        map.ok_or(ModelError::Column { column: name })
    }

    /// The rows with more attributes. `added` has the index of a row, a key and a value, sorted by
    /// row. The other rows keep their templates.
    ///
    /// # Errors
    /// If the column of attributes does not have its type, or texts are too large for one array.
    pub fn with_attributes(
        &self,
        added: &[(usize, &str, AttributeRef<'_>)],
    ) -> Result<Self, ModelError> {
        let map = self.map()?;
        let mut maps = AttributeMaps::default();
        let mut rest = added;
        let mut places = Vec::with_capacity(self.num_rows());
        let mut kept = Vec::new();
        for row in 0..self.num_rows() {
            let count = rest.iter().take_while(|(at, ..)| *at == row).count();
            let (own, after) = rest.split_at(count);
            rest = after;
            let template = self.templated.as_ref().and_then(|templated| templated.place(row));
            match (template, own.is_empty()) {
                (Some(place), true) => {
                    kept.extend(self.templated.iter().flat_map(|templated| templated.own(row)));
                    places.push(u32::try_from(place).ok());
                    maps.end_row();
                    continue;
                }
                (Some(_), false) => {
                    self.attributes_of(row, |key, value| maps.push(key, value))?;
                }
                (None, _) => copy_row(map, row, &mut maps),
            }
            for (_, key, value) in own {
                maps.push(key, *value);
            }
            places.push(None);
            maps.end_row();
        }
        let mut columns = self.columns.columns().to_vec();
        let attributes = self.columns.schema_ref().index_of(column::ATTRIBUTES)?;
        columns[attributes] = Arc::new(maps.finish()?);
        let columns = RecordBatch::try_new(self.columns.schema(), columns)?;
        let templated = match &self.templated {
            Some(templated) => {
                let kept: UInt32Array = kept.into_iter().map(|text| text as u32).collect();
                let texts = take(&templated.texts, &kept, None)?.as_string().clone();
                Some(Arc::new(Templated::new(templated.templates.clone(), places, texts)?))
            }
            None => None,
        };
        Ok(Self { columns, templated, ..*self })
    }

    /// The rows with all their attributes in the map.
    ///
    /// # Errors
    /// If texts are too large for one array.
    pub fn whole(&self) -> Result<RecordBatch, ModelError> {
        if self.templated.is_none() {
            return Ok(self.columns.clone());
        }
        let mut columns = self.columns.columns().to_vec();
        columns[self.columns.schema_ref().index_of(column::ATTRIBUTES)?] = self.attributes()?;
        Ok(RecordBatch::try_new(self.columns.schema(), columns)?)
    }

    /// Memory besides that of the columns.
    pub fn templated_bytes(&self) -> usize {
        self.new_template_bytes + self.templated().map_or(0, Templated::memory_bytes)
    }

    /// Memory of the rows.
    pub fn memory_bytes(&self) -> usize {
        let columns = self.columns.columns().iter().enumerate();
        let own = columns.filter(|(place, column)| !is_shared(*place, column));
        own.map(|(_, column)| column.get_array_memory_size()).sum::<usize>()
            + self.templated_bytes()
    }
}

fn copy_row(map: &MapArray, row: usize, to: &mut AttributeMaps) {
    let entries = map.value(row);
    let keys = entries.column(0).as_string::<i32>();
    let values = entries.column(1).as_struct();
    let types = values.column(0).as_primitive::<UInt8Type>();
    let texts = values.column(1).as_string::<i32>();
    for entry in 0..keys.len() {
        to.push_text(keys.value(entry), types.value(entry), texts.value(entry));
    }
}

impl From<RecordBatch> for SpanRows {
    fn from(columns: RecordBatch) -> Self {
        Self { columns, templated: None, new_template_bytes: 0 }
    }
}

impl TryFrom<SpanRows> for SpanBatch {
    type Error = ModelError;

    /// Converts the batch that [`SpanRows::whole`] returns.
    fn try_from(rows: SpanRows) -> Result<Self, ModelError> {
        rows.whole()?.try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttributeValue, Capture, Kind, Span, SpanBatchBuilder, SpanId};

    fn span(number: u8) -> Span {
        let id = SpanId([number; 8]);
        let mut span = Span::new(id, Capture::App, Kind::Server, "shop", "GET /", 1, 1);
        let attributes = [
            ("url.path", AttributeValue::from(format!("/orders/{number}"))),
            ("http.response.status_code", AttributeValue::Int(200)),
        ];
        span.attributes = attributes.map(|(key, value)| (key.to_owned(), value)).to_vec();
        span
    }

    /// With and without templates.
    #[test]
    fn attributes_are_read_and_added() {
        let spans: Vec<Span> = (1..=40).map(span).collect();
        for mut builder in [SpanBatchBuilder::new(), SpanBatchBuilder::sharing()] {
            // Templates are made of what was seen before.
            for _ in 0..3 {
                spans.iter().for_each(|span| builder.push(span));
                let rows = builder.finish_rows().expect("rows");
                let mut read = Vec::new();
                rows.attributes_of(6, |key, value| read.push((key.to_owned(), value.to_value())))
                    .expect("attributes");
                assert_eq!(read, spans[6].attributes);
                let added = [
                    (6, "a", AttributeRef::String("x")),
                    (6, "b", AttributeRef::Int(2)),
                    (39, "a", AttributeRef::String("y")),
                ];
                let more = rows.with_attributes(&added).expect("rows");
                let found: Vec<Span> = SpanBatch::try_from(more)
                    .expect("a batch")
                    .spans()
                    .collect::<Result<_, _>>()
                    .expect("spans");
                let mut expected = spans.clone();
                for (row, key, value) in added {
                    expected[row].attributes.push((key.to_owned(), value.to_value()));
                }
                assert_eq!(found, expected);
            }
        }
    }
}
