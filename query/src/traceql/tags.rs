//! Names and values of fields, to complete what is typed into a query. They are those of the
//! newest spans, so that the answer is fast; services and names of spans are complete.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use spanwise_store::{Order, Predicate, Query as RowQuery, TimeRange};
use spanwise_traceql::ast::{Field, Intrinsic};
use spanwise_traceql::trace::{AttributeValue, Attributes, TraceView};
use spanwise_traceql::{Condition, Value};

use super::plan;
use super::search::EVALUATING;
use super::spans::{Looked, SpanReader};
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
        let looked = Looked::at_all();
        let condition = query.condition.clone();
        let batches = self.newest_rows(query, &looked, None).await?;
        let limit = query.limit;
        on_blocking_thread(EVALUATING, move || {
            let mut tags: BTreeMap<TagScope, BTreeSet<String>> = BTreeMap::new();
            each_row(&batches, &looked, &condition, |view| {
                let span = &view.trace().spans[0];
                let mut add = |scope, attributes: &Attributes| {
                    let known = tags.entry(scope).or_default();
                    for (name, value) in attributes {
                        if *value != AttributeValue::Empty
                            && !known.contains(name)
                            && known.len() < limit
                        {
                            known.insert(name.clone());
                        }
                    }
                };
                add(TagScope::Span, &span.attributes);
                add(TagScope::Resource, &span.resource);
                add(TagScope::Instrumentation, &span.instrumentation.attributes);
                span.events.iter().for_each(|event| add(TagScope::Event, &event.attributes));
                span.links.iter().for_each(|link| add(TagScope::Link, &link.attributes));
            })?;
            let of_scope = |(scope, names): (TagScope, BTreeSet<String>)| {
                names.into_iter().map(move |name| Tag { scope, name })
            };
            Ok(tags.into_iter().flat_map(of_scope).collect())
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
                limit: ROWS,
                order,
            };
            batches.extend(self.store.find(&query).await?);
        }
        Ok(batches)
    }
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
            if condition.holds(&view, 0) {
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
