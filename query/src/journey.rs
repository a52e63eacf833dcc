//! What happened for one business key, over traces: spans that have it, as a timeline.

use std::collections::{BTreeSet, HashMap};

use spanwise_analyze::TraceSummary;
use spanwise_analyze::logical::{Gap, HandOff, Step, Timeline, Visit};
use spanwise_assemble::{Carrier, link_messages};
use spanwise_keys::{ATTRIBUTE_PREFIX, attribute_of};
use spanwise_model::{Span, SpanBatch, SpanId, Status, TraceId};
use spanwise_store::{AttributeCondition, AttributeTest, Order, Predicate, Query, TimeRange};

use crate::trace::messages::trace_of;
use crate::traceql::moment;
use crate::{Queries, QueryError, on_blocking_thread};

/// The most links of a span that are followed.
const MAX_LINKS: usize = 128;

/// A question about a key.
#[derive(Debug, Clone)]
pub struct JourneyQuery {
    /// The key's name.
    pub name: String,
    /// Its value as it is stored, which may be a hash.
    pub value: String,
    /// Only spans that started in this time.
    pub time: TimeRange,
    /// A time without steps is a gap from this length on.
    pub gap_nano: i64,
    /// Bounds of the answer.
    pub bounds: JourneyBounds,
}

/// What an answer may contain, and what may be read for it.
#[derive(Debug, Clone, Copy)]
pub struct JourneyBounds {
    /// Spans with the key that are read, the newest ones.
    pub spans: usize,
    /// Steps that are told, and traces, the first ones.
    pub rows: usize,
}

/// What happened for a key.
#[derive(Debug, Clone, Default)]
pub struct Journey {
    /// What services did, by time.
    pub steps: Vec<JourneyStep>,
    /// Long times without steps. They refer to places in `steps`.
    pub gaps: Vec<Gap>,
    /// How it went from one service to another, likewise.
    pub hand_offs: Vec<HandOff>,
    /// The traces, in the order in which they have their first step.
    pub traces: Vec<JourneyTrace>,
    /// All steps, and all traces.
    pub total_steps: usize,
    /// See above.
    pub total_traces: usize,
    /// Spans with the key that were read.
    pub spans: usize,
    /// All spans from here on were read; the start of the range if none are missing.
    pub from_unix_nano: i64,
    /// Time in which some step ran.
    pub busy_nano: i64,
    /// Names of keys that spans of this time have, if that is known.
    pub names: BTreeSet<String>,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// What a service did in one go.
#[derive(Debug, Clone, PartialEq)]
pub struct JourneyStep {
    /// The trace.
    pub trace_id: TraceId,
    /// The first span.
    pub span_id: SpanId,
    /// The service.
    pub service: String,
    /// The operation of the first span.
    pub operation: String,
    /// The start of the first span.
    pub start_unix_nano: i64,
    /// Its length.
    pub duration_nano: i64,
    /// Whether it failed.
    pub failed: bool,
    /// Its protocol's own status code.
    pub status_code: Option<i32>,
    /// Its error.
    pub error: Option<String>,
    /// Spans with the key.
    pub spans: usize,
    /// 1, or more if steps before it failed and this one does the same again.
    pub attempt: usize,
    /// Whether it began with a message.
    pub is_message: bool,
}

/// A trace with the key.
#[derive(Debug, Clone)]
pub struct JourneyTrace {
    /// All of the trace.
    pub summary: TraceSummary,
    /// Its steps, of all that there are.
    pub steps: usize,
}

impl Queries {
    /// What happened for a key.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn journey(&self, query: &JourneyQuery) -> Result<Journey, QueryError> {
        let JourneyQuery { name, value, time, gap_nano, bounds } = query;
        let attribute = attribute_of(name);
        // A span of several messages has a list of keys.
        let test = AttributeTest::Element(Box::new(AttributeTest::Equal(value.clone())));
        let wanted = AttributeCondition { key: attribute.clone(), test };
        let rows = Query {
            predicate: Predicate { attributes: vec![wanted], ..Predicate::default() },
            time: *time,
            columns: Vec::new(),
            keys: Some(vec![attribute]),
            limit: bounds.spans.saturating_add(1),
            order: Order::NewestFirst,
        };
        let batches = self.store.find(&rows).await?;
        let mut spans: Vec<Span> = Vec::new();
        for batch in batches {
            for span in SpanBatch::try_from(batch)?.spans() {
                spans.push(span?);
            }
        }
        let mut warnings = Vec::new();
        let mut from_unix_nano = time.from_unix_nano;
        if spans.len() > bounds.spans {
            spans.sort_unstable_by_key(|span| std::cmp::Reverse(span.start_unix_nano));
            spans.truncate(bounds.spans);
            from_unix_nano = spans.last().map_or(from_unix_nano, |span| span.start_unix_nano);
            warnings.push(format!(
                "more than {} spans have this key: only those from {} on are told; choose a \
                 shorter time for earlier ones",
                bounds.spans,
                moment(from_unix_nano)
            ));
        }
        let (gap_nano, rows) = (*gap_nano, bounds.rows);
        let told = on_blocking_thread("ordering a journey", move || told(&spans, gap_nano, rows));
        let (mut journey, ids, last_unix_nano) = told.await?;
        if journey.total_steps > journey.steps.len() {
            warnings.push(format!(
                "only the first {} of {} steps are told",
                journey.steps.len(),
                journey.total_steps
            ));
        }
        if journey.total_traces > ids.len() {
            warnings.push(format!(
                "only the first {} of {} traces are told",
                ids.len(),
                journey.total_traces
            ));
        }
        let around = TimeRange {
            from_unix_nano: journey.steps.first().map_or(0, |step| step.start_unix_nano),
            to_unix_nano: last_unix_nano.saturating_add(1),
        };
        let known: Vec<TraceId> = ids.iter().map(|(id, _)| *id).collect();
        let summaries = self.summaries_of(&known, around).await?;
        let steps: HashMap<TraceId, usize> = ids.into_iter().collect();
        let trace = |summary: TraceSummary| {
            let steps = steps.get(&summary.trace_id).copied().unwrap_or_default();
            JourneyTrace { summary, steps }
        };
        journey.traces = summaries.into_iter().map(trace).collect();
        let names = self.store.attribute_names(*time).await?.unwrap_or_default().own;
        journey.names = names
            .iter()
            .filter_map(|name| name.strip_prefix(ATTRIBUTE_PREFIX).map(str::to_owned))
            .collect();
        Ok(Journey { from_unix_nano, warnings, ..journey })
    }
}

/// The journey of these spans without what is known of whole traces, the traces with their steps in
/// the order of their first one, and the end of the last step.
fn told(spans: &[Span], gap_nano: i64, rows: usize) -> (Journey, Vec<(TraceId, usize)>, i64) {
    let links = links(spans);
    let visits: Vec<Visit<'_>> = spans
        .iter()
        .zip(&links)
        .map(|(span, links)| Visit {
            trace_id: trace_of(span),
            service: &span.service,
            operation: &span.operation,
            kind: span.kind,
            start_unix_nano: span.start_unix_nano,
            end_unix_nano: span.end_unix_nano(),
            failed: span.status == Status::Error,
            links,
        })
        .collect();
    let timeline = Timeline::of(&visits, gap_nano);
    let mut order = Vec::new();
    let mut counts: HashMap<TraceId, usize> = HashMap::new();
    for step in &timeline.steps {
        let count = counts.entry(step.trace_id).or_default();
        if *count == 0 {
            order.push(step.trace_id);
        }
        *count += 1;
    }
    order.truncate(rows);
    let ids = order.into_iter().map(|id| (id, counts.get(&id).copied().unwrap_or(0))).collect();
    let told = &timeline.steps[..timeline.steps.len().min(rows)];
    let last = told.iter().map(|step| step.end_unix_nano).max().unwrap_or(0);
    let gaps = timeline.gaps.iter().filter(|gap| gap.before < told.len()).copied().collect();
    let hand_offs =
        timeline.hand_offs.iter().filter(|hand| hand.to < told.len()).copied().collect();
    let journey = Journey {
        steps: told.iter().map(|step| journey_step(step, &spans[step.visit])).collect(),
        gaps,
        hand_offs,
        total_steps: timeline.steps.len() + timeline.left_out,
        total_traces: timeline.traces,
        spans: spans.len(),
        busy_nano: timeline.busy_nano,
        ..Journey::default()
    };
    (journey, ids, last)
}

fn journey_step(step: &Step<'_>, span: &Span) -> JourneyStep {
    JourneyStep {
        trace_id: step.trace_id,
        span_id: span.span_id,
        service: step.service.to_owned(),
        operation: step.operation.to_owned(),
        start_unix_nano: step.start_unix_nano,
        duration_nano: step.end_unix_nano.saturating_sub(step.start_unix_nano),
        failed: step.failed,
        status_code: span.status_code,
        error: span.error.clone(),
        spans: step.spans,
        attempt: step.attempt,
        is_message: step.is_message,
    }
}

/// For each span, the traces that it is linked to: by its own links, or because it received a
/// message that a span of theirs sent.
fn links(spans: &[Span]) -> Vec<Vec<TraceId>> {
    let assembled: HashMap<TraceId, TraceId> =
        spans.iter().filter_map(|span| Some((span.trace_id?, trace_of(span)))).collect();
    let found = |id: TraceId| assembled.get(&id).copied().unwrap_or(id);
    let own = |span: &Span| -> Vec<TraceId> {
        span.links.iter().take(MAX_LINKS).map(|link| found(link.trace_id)).collect()
    };
    let mut links: Vec<Vec<TraceId>> = spans.iter().map(own).collect();
    let carriers: Vec<Carrier<'_>> = spans
        .iter()
        .map(|span| Carrier {
            kind: span.kind,
            start_unix_nano: span.start_unix_nano,
            end_unix_nano: span.end_unix_nano(),
            broker: (span.flow.server_address.as_deref(), span.flow.server_port),
            logical_key: span.logical_key.as_deref().unwrap_or_default(),
        })
        .collect();
    for link in link_messages(&carriers) {
        let of_receiver = &mut links[link.receiver];
        if of_receiver.len() < MAX_LINKS {
            of_receiver.push(trace_of(&spans[link.sender]));
        }
    }
    links
}
