//! Searches in TraceQL: the newest traces of which spans are selected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ahash::AHashSet;
use spanwise_model::TraceId;
use spanwise_store::TimeRange;
use spanwise_traceql::ast::{Body, Field, Intrinsic, Pipeline, Scope, Status};
use spanwise_traceql::trace::{Trace, TraceView};
use spanwise_traceql::{Query, Spanset, Value, search};

use super::Bounds;
use super::candidates::Candidates;
use super::plan;
use super::spans::{self, Looked, SpanReader};
use crate::trace::GatheredTraces;
use crate::{Queries, QueryError, on_blocking_thread};

/// The first traces that are looked at together, and the most. Most candidates are selected.
const FIRST_TRACES: usize = 16;
const MAX_TRACES: usize = 512;
/// Spans that are looked at together, about.
const SPANS_TOGETHER: usize = 30_000;
/// The work, in error messages.
pub(super) const EVALUATING: &str = "evaluating a query";

/// A search in TraceQL.
#[derive(Debug, Clone)]
pub struct TraceqlSearch {
    /// The query, which is no metrics query.
    pub query: Arc<Query>,
    /// When one of the selected spans must have started.
    pub time: TimeRange,
    /// The least and the longest duration of the trace.
    pub min_duration_nano: Option<u64>,
    /// See [`Self::min_duration_nano`].
    pub max_duration_nano: Option<u64>,
    /// The most traces.
    pub limit: usize,
    /// The most spans of a set that are told.
    pub spans_per_set: usize,
    /// What the search may take.
    pub bounds: Bounds,
}

/// The traces that a search found, the newest first.
#[derive(Debug, Clone, Default)]
pub struct TraceqlFound {
    /// The traces.
    pub traces: Vec<FoundTrace>,
    /// Traces that were looked at.
    pub examined_traces: usize,
    /// Their spans.
    pub examined_spans: usize,
    /// Why it ended before its time was searched and its limit reached.
    pub stopped: Option<String>,
}

/// A trace of which spans are selected.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundTrace {
    /// Its id.
    pub id: TraceId,
    /// Service and name of its root, if that is there.
    pub root: Option<(String, String)>,
    /// Its earliest start.
    pub start_unix_nanos: u64,
    /// From there to its latest end.
    pub duration_nanos: u64,
    /// What was selected.
    pub sets: Vec<FoundSet>,
    /// Its services, with their spans and those that failed.
    pub services: BTreeMap<String, (u32, u32)>,
}

/// A set of selected spans.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundSet {
    /// Spans in it.
    pub matched: usize,
    /// What was grouped by, and what was computed.
    pub attributes: Vec<(Arc<str>, Value<'static>)>,
    /// The first of its spans.
    pub spans: Vec<FoundSpan>,
}

/// A selected span.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundSpan {
    /// Its id.
    pub id: [u8; 8],
    /// Its name.
    pub name: String,
    /// Its start.
    pub start_unix_nanos: u64,
    /// Its duration.
    pub duration_nanos: u64,
    /// What the query names of it.
    pub attributes: Vec<(String, Value<'static>)>,
}

impl Queries {
    /// Searches for traces. `progress` is called with those that are found, as they are.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn traceql_search(
        &self,
        search: &TraceqlSearch,
        mut progress: impl FnMut(&[FoundTrace]) + Send,
    ) -> Result<TraceqlFound, QueryError> {
        let began = Instant::now();
        let mut answer = TraceqlFound::default();
        let Body::Search(pipeline) = &search.query.body else { return Ok(answer) };
        let looked = Arc::new(Looked::at(pipeline.fields()));
        let outline = looked.outline();
        let (predicates, time) = plan::of_traces(&pipeline.needs(), search.time);
        let mut candidates = Candidates::new(predicates, time);
        let mut known: AHashSet<TraceId> = AHashSet::new();
        let mut count = (search.limit + search.limit / 8).clamp(FIRST_TRACES, MAX_TRACES);
        loop {
            let part = candidates.next(self, count).await?;
            let (Some((newest, _)), Some((last, _))) = (part.first(), part.last()) else { break };
            let time = TimeRange { from_unix_nano: *last, to_unix_nano: newest.saturating_add(1) };
            let oldest = *last;
            let ids: Vec<TraceId> = part.iter().map(|(_, id)| *id).collect();
            let gathered = self.gather(ids.iter().copied(), time, outline.as_ref()).await?;
            let (looked, asked) = (Arc::clone(&looked), search.clone());
            let seen = std::mem::take(&mut known);
            let work = move || select(&asked, gathered, &ids, &looked, seen);
            let selected = on_blocking_thread(EVALUATING, work).await??;
            known = selected.known;
            answer.examined_traces += part.len();
            answer.examined_spans += selected.spans;
            progress(&selected.found);
            answer.traces.extend(selected.found);
            if answer.traces.len() >= search.limit || part.len() < count {
                break;
            }
            let (traces, spans) = (answer.examined_traces, answer.examined_spans);
            if let Some(reached) = search.bounds.reached(began, traces, spans) {
                answer.stopped = Some(format!(
                    "the search stopped when {reached}: it looked at {} traces back to {}; choose \
                     a shorter time, or ask for a service, a name or an attribute as well",
                    answer.examined_traces,
                    super::moment(oldest),
                ));
                break;
            }
            let each = (answer.examined_spans / answer.examined_traces).max(1);
            count = (SPANS_TOGETHER / each).clamp(FIRST_TRACES / 2, MAX_TRACES).min(count * 4);
        }
        if candidates.passed_over && answer.stopped.is_none() && answer.traces.len() < search.limit
        {
            answer.stopped = Some(
                "more than 100000 spans start at one nanosecond, and not all of their traces were \
                 looked at"
                    .to_owned(),
            );
        }
        answer.traces.sort_by(|one, other| {
            (other.start_unix_nanos, other.id).cmp(&(one.start_unix_nanos, one.id))
        });
        answer.traces.truncate(search.limit);
        Ok(answer)
    }
}

/// What was selected of some traces.
struct Selected {
    found: Vec<FoundTrace>,
    spans: usize,
    known: AHashSet<TraceId>,
}

fn select(
    asked: &TraceqlSearch,
    mut gathered: GatheredTraces,
    ids: &[TraceId],
    looked: &Looked,
    mut known: AHashSet<TraceId>,
) -> Result<Selected, QueryError> {
    let (mut found, mut spans) = (Vec::new(), 0);
    each_trace(&mut gathered, ids, looked, &mut known, |trace| {
        spans += trace.spans.len();
        found.extend(select_one(asked, &trace));
    })?;
    Ok(Selected { found, spans, known })
}

/// Gives each trace once, whatever ids it was gathered by.
pub(super) fn each_trace(
    gathered: &mut GatheredTraces,
    ids: &[TraceId],
    looked: &Looked,
    known: &mut AHashSet<TraceId>,
    mut give: impl FnMut(Trace),
) -> Result<(), QueryError> {
    let trees: Vec<_> = ids.iter().filter_map(|id| gathered.take(id)).collect();
    let readers: Result<Vec<_>, _> =
        gathered.batches.iter().map(|batch| SpanReader::new(batch, looked)).collect();
    let mut readers = readers?;
    for tree in trees {
        // Spans that arrived late may have made one trace of two.
        if known.insert(tree.trace_id) {
            give(spans::trace(&tree, &mut readers));
        }
    }
    Ok(())
}

fn select_one(asked: &TraceqlSearch, trace: &Trace) -> Option<FoundTrace> {
    let Body::Search(pipeline) = &asked.query.body else { return None };
    let view = TraceView::new(trace);
    let sets = search(pipeline, &view);
    let is_in_time = |span: &u32| {
        let start = trace.spans[*span as usize].start_unix_nanos.cast_signed();
        start >= asked.time.from_unix_nano && start < asked.time.to_unix_nano
    };
    if !sets.iter().flat_map(|set| &set.spans).any(is_in_time) {
        return None;
    }
    let field = |intrinsic| view.field(0, &Field::Intrinsic(intrinsic));
    let duration_nanos = match field(Intrinsic::TraceDuration) {
        Value::Duration(nano) => nano.max(0).cast_unsigned(),
        _ => 0,
    };
    if asked.min_duration_nano.is_some_and(|least| duration_nanos < least)
        || asked.max_duration_nano.is_some_and(|most| duration_nanos > most)
    {
        return None;
    }
    let root = match (field(Intrinsic::RootService), field(Intrinsic::RootName)) {
        (Value::String(service), Value::String(name)) => {
            Some((service.into_owned(), name.into_owned()))
        }
        _ => None,
    };
    let mut services: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for span in &trace.spans {
        let service = spans::service(span);
        if !services.contains_key(service) {
            services.insert(service.to_owned(), (0, 0));
        }
        if let Some((spans, failed)) = services.get_mut(service) {
            *spans += 1;
            *failed += u32::from(span.status == Status::Error);
        }
    }
    let told = told(pipeline);
    Some(FoundTrace {
        id: TraceId(trace.id),
        root,
        start_unix_nanos: trace.spans.iter().map(|span| span.start_unix_nanos).min().unwrap_or(0),
        duration_nanos,
        sets: sets.into_iter().map(|set| found_set(set, asked, &told, &view)).collect(),
        services,
    })
}

/// The fields that are told of spans; others have a place of their own.
fn told(pipeline: &Pipeline) -> Vec<(&Field, String)> {
    let name = |field: &Field| match field {
        Field::Intrinsic(
            Intrinsic::Name
            | Intrinsic::Duration
            | Intrinsic::TraceDuration
            | Intrinsic::RootName
            | Intrinsic::RootService
            | Intrinsic::TraceId
            | Intrinsic::SpanId,
        ) => None,
        Field::Intrinsic(_) => Some(field.to_string()),
        Field::Attribute(attribute) => Some(attribute.name.clone()),
    };
    let mut told: Vec<(&Field, String)> = Vec::new();
    for field in pipeline.fields() {
        // `.x` and `span.x` are told once.
        let is_wider = matches!(field, Field::Attribute(one) if one.scope == Scope::Any);
        if let Some(name) = name(field)
            && !(is_wider && told.iter().any(|(_, known)| *known == name))
        {
            told.push((field, name));
        }
    }
    told
}

fn found_set(
    set: Spanset,
    asked: &TraceqlSearch,
    told: &[(&Field, String)],
    view: &TraceView<'_>,
) -> FoundSet {
    let span = |index: &u32| {
        let span = &view.trace().spans[*index as usize];
        let attributes = told.iter().filter_map(|(field, name)| {
            let value = view.field(*index as usize, field);
            (value != Value::Nil).then(|| (name.clone(), value.into_owned()))
        });
        FoundSpan {
            id: span.id,
            name: span.name.clone(),
            start_unix_nanos: span.start_unix_nanos,
            duration_nanos: span.duration_nanos,
            attributes: attributes.collect(),
        }
    };
    FoundSet {
        matched: set.spans.len(),
        spans: set.spans.iter().take(asked.spans_per_set).map(span).collect(),
        attributes: set.attributes,
    }
}
