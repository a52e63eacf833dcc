//! Names and values of fields, to complete what is typed into a query. They are those of the
//! newest spans, so that the answer is fast; services and names of spans are complete.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use spanwise_model::AttributeRef;
use spanwise_store::{
    AttributeNames, AttributeValues, Order, Predicate, Query as RowQuery, TimeRange,
};
use spanwise_traceql::ast::{Attribute, Field, Intrinsic, Scope};
use spanwise_traceql::trace::TraceView;
use spanwise_traceql::{Condition, Value};

use super::plan;
use super::search::EVALUATING;
use super::spans::{self, Looked, MADE, OF_SCOPE, SERVICE, STATUS_DESCRIPTION, SpanReader};
use crate::{Queries, QueryError, on_blocking_thread};

/// Spans that are looked at.
const ROWS: usize = 5_000;
/// Longer values do not help to complete one.
const MAX_VALUE_BYTES: usize = 1024;

/// A question for names or values.
#[derive(Debug, Clone)]
pub struct TagsQuery {
    /// Only those of spans that started in this time,
    pub time: TimeRange,
    /// and that satisfy this.
    pub condition: Condition,
    /// The most names of a scope, or values.
    pub limit: usize,
}

/// Where an attribute is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "TraceQL's own")]
pub enum TagScope {
    Span,
    Resource,
    Event,
    Link,
    Instrumentation,
}

impl TagScope {
    /// Where an attribute is that is stored with the row, and its name there; `None` for what is
    /// an intrinsic.
    pub(super) fn of_own(key: &str) -> (Self, Option<&str>) {
        match key.strip_prefix(OF_SCOPE) {
            Some(name) => {
                let is_intrinsic = matches!(name, "name" | "version");
                (Self::Instrumentation, (!is_intrinsic).then_some(name))
            }
            None => (Self::Span, (key != STATUS_DESCRIPTION).then_some(key)),
        }
    }
}

/// The name of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// Where it is.
    pub scope: TagScope,
    /// Its name.
    pub name: String,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagValue {
    /// `string`, `int`, `float`, `bool`, `duration` or `keyword`.
    pub kind: &'static str,
    /// As it is written.
    pub text: String,
}

/// Values of a field, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagValues {
    /// The values.
    pub values: Vec<TagValue>,
    /// Spans that were looked at.
    pub examined_spans: usize,
}

impl Queries {
    /// The names of attributes, in order.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn traceql_tags(&self, query: &TagsQuery) -> Result<Vec<Tag>, QueryError> {
        // Of all spans together, the store knows most names.
        let known = match &query.condition {
            Condition::Always => self.store.attribute_names(query.time).await?,
            _ => None,
        };
        let looked = match known {
            Some(_) => Looked::at([]).with_names(false),
            None => Looked::at(query.condition.fields()).with_names(true),
        };
        let condition = query.condition.clone();
        let batches = self.newest_rows(query, &looked, None).await?;
        let limit = query.limit;
        on_blocking_thread(EVALUATING, move || {
            let mut tags = Tags { names: BTreeMap::new(), limit };
            known.into_iter().for_each(|known| tags.add_known(known));
            for batch in &batches {
                let mut reader = SpanReader::new(batch, &looked)?;
                for row in 0..reader.len() {
                    if holds(&mut reader, row, &condition) {
                        reader.names(row, |scope, name| tags.add(scope, name));
                    }
                }
            }
            let of_scope = |(scope, names): (TagScope, BTreeSet<String>)| {
                names.into_iter().map(move |name| Tag { scope, name })
            };
            Ok(tags.names.into_iter().flat_map(of_scope).collect())
        })
        .await?
    }

    /// The values of a field.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn traceql_tag_values(
        &self,
        field: &Field,
        query: &TagsQuery,
    ) -> Result<TagValues, QueryError> {
        if let Some(words) = self.words_of(field, &query.condition, query.time).await? {
            let kind = match field {
                Field::Intrinsic(Intrinsic::Kind | Intrinsic::Status) => "keyword",
                _ => "string",
            };
            let value = |text| TagValue { kind, text };
            return Ok(TagValues {
                values: words.into_iter().take(query.limit).map(value).collect(),
                examined_spans: 0,
            });
        }
        if let Some(values) = self.known_values(field, query).await? {
            return Ok(values);
        }
        let looked = Looked::at(query.condition.fields().into_iter().chain([field]));
        let condition = query.condition.clone();
        let batches = self.newest_rows(query, &looked, Some(field)).await?;
        let (field, limit) = (field.clone(), query.limit);
        on_blocking_thread(EVALUATING, move || {
            let mut values: BTreeSet<TagValue> = BTreeSet::new();
            let mut add = |value: Value<'_>| {
                let value = tag_value(&value);
                values.extend(value.filter(|value| value.text.len() <= MAX_VALUE_BYTES));
            };
            each_row(&batches, &looked, &condition, |view| match view.field(0, &field) {
                Value::Array(all) => all.into_iter().for_each(&mut add),
                value => add(value),
            })?;
            Ok(TagValues {
                values: values.into_iter().take(limit).collect(),
                examined_spans: batches.iter().map(RecordBatch::num_rows).sum(),
            })
        })
        .await?
    }

    /// The values of an attribute where the store knows them all without rows.
    async fn known_values(
        &self,
        field: &Field,
        query: &TagsQuery,
    ) -> Result<Option<TagValues>, QueryError> {
        let Field::Attribute(Attribute { parent: false, scope, name }) = field else {
            return Ok(None);
        };
        let is_made = MADE.contains(&name.as_str()) || name == SERVICE;
        if query.condition != Condition::Always || is_made {
            return Ok(None);
        }
        let (of_spans, of_resources) = match scope {
            Scope::Any => (true, true),
            Scope::Span => (true, false),
            Scope::Resource => (false, true),
            _ => return Ok(None),
        };
        let known = self.store.attribute_values(name, query.time).await?;
        let Some(AttributeValues { own, resources }) = known else { return Ok(None) };
        let values = [(of_spans, own), (of_resources, resources)];
        let values = values.into_iter().filter(|(asked, _)| *asked).flat_map(|(_, all)| all);
        let values: BTreeSet<TagValue> = values
            .filter(|(_, text)| text.len() <= MAX_VALUE_BYTES)
            .filter_map(|(number, text)| {
                tag_value(&spans::single_value(AttributeRef::from_parts(number, &text))?)
            })
            .collect();
        Ok(Some(TagValues {
            values: values.into_iter().take(query.limit).collect(),
            examined_spans: 0,
        }))
    }

    /// The newest rows that may satisfy the condition and may have the field.
    async fn newest_rows(
        &self,
        query: &TagsQuery,
        looked: &Looked,
        field: Option<&Field>,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let exists = field.map_or(Condition::Always, |field| {
            Condition::Test(spanwise_traceql::Test {
                field: field.clone(),
                check: spanwise_traceql::Check::Exists,
            })
        });
        let both = Condition::All(vec![query.condition.clone(), exists]);
        let mut batches = Vec::new();
        for predicate in plan::predicates(&both) {
            let (columns, order) = (looked.columns(), Order::NewestFirst);
            let query = RowQuery {
                predicate: Predicate { assembled: false, ..predicate },
                time: query.time,
                columns,
                keys: looked.keys(),
                limit: ROWS,
                order,
            };
            batches.extend(self.store.find(&query).await?);
        }
        Ok(batches)
    }
}

/// Names that were found, of each scope as many as are asked for.
struct Tags {
    names: BTreeMap<TagScope, BTreeSet<String>>,
    limit: usize,
}

impl Tags {
    fn add(&mut self, scope: TagScope, name: &str) {
        let known = self.names.entry(scope).or_default();
        if known.len() < self.limit && !known.contains(name) {
            known.insert(name.to_owned());
        }
    }

    fn add_known(&mut self, known: AttributeNames) {
        for name in &known.own {
            let (scope, name) = TagScope::of_own(name);
            name.into_iter().for_each(|name| self.add(scope, name));
        }
        known.resources.iter().for_each(|name| self.add(TagScope::Resource, name));
    }
}

/// Whether a row satisfies the condition.
fn holds(reader: &mut SpanReader<'_>, row: usize, condition: &Condition) -> bool {
    *condition == Condition::Always || condition.holds(&TraceView::new(&reader.alone(row)), 0)
}

/// Gives each row that satisfies the condition.
fn each_row(
    batches: &[RecordBatch],
    looked: &Looked,
    condition: &Condition,
    mut give: impl FnMut(&TraceView<'_>),
) -> Result<(), QueryError> {
    for batch in batches {
        let mut reader = SpanReader::new(batch, looked)?;
        for row in 0..reader.len() {
            let trace = reader.alone(row);
            let view = TraceView::new(&trace);
            if *condition == Condition::Always || condition.holds(&view, 0) {
                give(&view);
            }
        }
    }
    Ok(())
}

fn tag_value(value: &Value<'_>) -> Option<TagValue> {
    let kind = match value {
        Value::Int(_) => "int",
        Value::Float(_) => "float",
        Value::Bool(_) => "bool",
        Value::Duration(_) => "duration",
        Value::Status(_) | Value::Kind(_) => "keyword",
        Value::String(_) => "string",
        Value::Nil | Value::Array(_) | Value::Other => return None,
    };
    Some(TagValue { kind, text: value.to_string() })
}
