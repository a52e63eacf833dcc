//! A search for traces, and its answer.

use spanwise_analyze::TraceSummary;
use spanwise_model::{Status, TraceId};
use spanwise_store::{AttributeCondition, Predicate, TimeRange};

/// A search for traces: those that have a span that meets `span`, and that meet `trace`
/// themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchQuery {
    /// What one span of the trace must be like. The store evaluates it.
    pub span: SpanPredicate,
    /// What the trace must be like. It is evaluated on assembled traces.
    pub trace: TracePredicate,
    /// When that span must have started.
    pub time: TimeRange,
    /// Which traces come first.
    pub order: TraceOrder,
    /// The most traces.
    pub limit: usize,
    /// In the order of [`TraceOrder::Newest`], traces that earlier answers had.
    pub skip: Vec<TraceId>,
}

/// What a span must be like; every given field must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpanPredicate {
    /// Its service.
    pub service: Option<String>,
    /// Its operation.
    pub operation: Option<String>,
    /// Its status.
    pub status: Option<Status>,
    /// Its least duration.
    pub min_duration_nano: Option<i64>,
    /// Its longest duration.
    pub max_duration_nano: Option<i64>,
    /// Conditions on its attributes and on its resource's.
    pub attributes: Vec<AttributeCondition>,
    /// Conditions on values anywhere in it: see [`Predicate::anywhere`].
    pub anywhere: Vec<AttributeCondition>,
}

/// What a trace must be like; every given field must hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TracePredicate {
    /// No span failed.
    pub without_errors: bool,
    /// Its least duration.
    pub min_duration_nano: Option<i64>,
    /// Its longest duration.
    pub max_duration_nano: Option<i64>,
}

/// An order of traces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TraceOrder {
    /// The latest start first.
    #[default]
    Newest,
    /// The longest duration first: of the span, if the search names one, else of the trace.
    Slowest,
    /// Most failed spans first.
    MostErrors,
    /// Most spans first.
    MostSpans,
}

/// The traces that were found.
#[derive(Debug, Clone)]
pub struct SearchAnswer {
    /// The traces, in order.
    pub traces: Vec<TraceSummary>,
    /// The range that the order holds for.
    pub covered: Covered,
    /// The end of the range in which the search for older traces continues; `None` if there
    /// are none, and in other orders than [`TraceOrder::Newest`].
    pub older_end_unix_nano: Option<i64>,
    /// The same without traces of this answer, and without the loss of those that start at the
    /// same nanosecond as its last one.
    pub next: Option<NextSearch>,
    /// What limits the answer.
    pub warnings: Vec<String>,
    /// Why nothing was found, and what to do.
    pub advice: Vec<String>,
}

/// Where a search for older traces continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextSearch {
    /// The end of its range.
    pub end_unix_nano: i64,
    /// Traces that have been told and start at the last nanosecond of it.
    pub skip: Vec<TraceId>,
}

/// From when on everything of a range is in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covered {
    /// The start of what is covered; the end is the end of the range.
    pub from_unix_nano: i64,
    /// Whether everything from there on was examined.
    pub complete: bool,
}

impl SpanPredicate {
    /// Whether it describes a particular span rather than any failed span.
    pub fn names_a_span(&self) -> bool {
        self.service.is_some()
            || self.operation.is_some()
            || self.min_duration_nano.is_some()
            || self.max_duration_nano.is_some()
            || !self.attributes.is_empty()
            || !self.anywhere.is_empty()
    }
}

impl TracePredicate {
    /// Whether every trace meets it.
    pub(super) const fn is_empty(&self) -> bool {
        !self.without_errors && self.min_duration_nano.is_none() && self.max_duration_nano.is_none()
    }

    pub(super) fn holds(&self, summary: &TraceSummary) -> bool {
        (summary.errors == 0 || !self.without_errors)
            && self.min_duration_nano.is_none_or(|least| summary.duration_nano >= least)
            && self.max_duration_nano.is_none_or(|most| summary.duration_nano <= most)
    }
}

/// How a search is carried out: the rows that the store is asked for, and what remains to be
/// checked on assembled traces.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SearchPlan {
    pub(super) rows: Predicate,
    pub(super) names_a_span: bool,
    pub(super) trace: TracePredicate,
    pub(super) time: TimeRange,
    pub(super) order: TraceOrder,
    pub(super) limit: usize,
    pub(super) skip: Vec<TraceId>,
}

impl From<&SearchQuery> for SearchPlan {
    fn from(query: &SearchQuery) -> Self {
        let SearchQuery { span, trace, time, order, limit, skip } = query;
        let names_a_span = span.names_a_span();
        let only_roots = !names_a_span && span.status.is_none();
        let mut rows = Predicate {
            service: span.service.clone(),
            operation: span.operation.clone(),
            min_duration_nano: span.min_duration_nano,
            max_duration_nano: span.max_duration_nano,
            status: span.status,
            attributes: span.attributes.clone(),
            anywhere: span.anywhere.clone(),
            assembled: true,
            // If any row of the trace will do, one row a trace is enough.
            root: only_roots,
            above: None,
        };
        if only_roots {
            // The duration of the root excludes most traces that are too short or too long.
            rows.min_duration_nano = trace.min_duration_nano;
            rows.max_duration_nano = trace.max_duration_nano;
        }
        Self {
            rows,
            names_a_span,
            trace: *trace,
            time: *time,
            order: *order,
            limit: *limit,
            skip: skip.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(span: SpanPredicate, trace: TracePredicate) -> SearchPlan {
        let (time, order) = (TimeRange::ALL, TraceOrder::Newest);
        SearchPlan::from(&SearchQuery { span, trace, time, order, limit: 1, skip: Vec::new() })
    }

    #[test]
    fn the_store_is_asked_for_roots_only_where_any_row_of_a_trace_will_do() {
        let trace = TracePredicate { min_duration_nano: Some(5), ..TracePredicate::default() };
        let any = plan(SpanPredicate::default(), trace);
        assert!(!any.names_a_span && any.rows.root && any.rows.assembled);
        assert_eq!(any.rows.min_duration_nano, Some(5), "short roots are of short traces");

        let failed = SpanPredicate { status: Some(Status::Error), ..SpanPredicate::default() };
        let failed = plan(failed, trace);
        assert!(!failed.names_a_span && !failed.rows.root);
        assert_eq!(failed.rows.min_duration_nano, None, "a failed span may be short");
        assert_eq!(failed.trace.min_duration_nano, Some(5));

        let span = SpanPredicate {
            service: Some("cart".to_owned()),
            max_duration_nano: Some(9),
            ..SpanPredicate::default()
        };
        let named = plan(span, TracePredicate::default());
        assert!(named.names_a_span && !named.rows.root && named.trace.is_empty());
        assert_eq!(
            (named.rows.service.as_deref(), named.rows.max_duration_nano),
            (Some("cart"), Some(9))
        );
    }
}
