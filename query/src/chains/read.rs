//! Reads the traces of a range of time, a part at a time, and counts them on another thread.

use std::time::Instant;

use ahash::AHashSet;
use arrow::array::RecordBatch;
use spanwise_analyze::bottlenecks::Bottlenecks;
use spanwise_analyze::rollup::Minute;
use spanwise_analyze::{ChainCall, Chains, Labels, Peaks, calls};
use spanwise_assemble::Row;
use spanwise_model::TraceId;
use spanwise_store::{Outline, Predicate, TimeRange};
use tokio::sync::mpsc;

use super::ObservedRuns;
use crate::trace::GatheredTraces;
use crate::traceql::{Bounds, Candidates, moment};
use crate::{Queries, QueryError, now_unix_nano};

/// Traces that are read together at first, and at most.
const FIRST_TRACES: usize = 64;
const MAX_TRACES: usize = 2_000;
/// Spans that are read together, about.
const SPANS_TOGETHER: usize = 50_000;
/// Parts that may wait to be counted.
const PARTS_WAITING: usize = 1;
/// The work, in error messages.
const COUNTING: &str = "counting chains";

/// Traces that were read together.
type Part = (GatheredTraces, Vec<TraceId>);

/// What counts traces.
pub(super) trait TraceCounter: Send + 'static {
    /// Counts a trace that starts at this time, by its calls; `None` if they are not all of its run.
    fn count(&mut self, trace_id: TraceId, start_unix_nano: i64, calls: Option<&[ChainCall<'_>]>);
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct ReadTraces {
    /// All traces from here on were read.
    pub(super) from_unix_nano: i64,
    pub(super) traces: usize,
    pub(super) spans: usize,
    /// What was reached before all was read.
    pub(super) stopped: Option<String>,
    /// What else limits the answer.
    pub(super) warnings: Vec<String>,
}

impl Queries {
    pub(super) async fn read_runs(
        &self,
        time: TimeRange,
        bounds: Bounds,
    ) -> Result<ObservedRuns, QueryError> {
        let (read, counted) = self.read_traces(time, bounds, Counted::new(time)).await?;
        let mut warnings = read.warnings;
        if let Some(reached) = &read.stopped {
            warnings.push(format!(
                "reading stopped when {reached}: only runs from {} on are counted; choose a \
                 shorter time for all of them",
                moment(read.from_unix_nano)
            ));
        }
        let Counted { chains, bottlenecks, peaks, .. } = counted;
        warnings.extend(left_out(&chains));
        if bottlenecks.left_out > 0 || peaks.left_out > 0 {
            warnings.push(format!(
                "there are too many different operations: {} calls are not in bottlenecks, and {} \
                 not in peaks",
                bottlenecks.left_out, peaks.left_out
            ));
        }
        Ok(ObservedRuns {
            window_seconds: window_seconds(counted.first_unix_nano, time),
            chains,
            bottlenecks,
            peaks,
            time,
            from_unix_nano: read.from_unix_nano,
            all_runs: None,
            runs_of_rollups: 0,
            outdated_rollups: 0,
            traces: read.traces,
            spans: read.spans,
            warnings,
        })
    }

    /// Counts the traces that start in this time, newest first, up to the bounds.
    pub(super) async fn read_traces<C: TraceCounter>(
        &self,
        time: TimeRange,
        bounds: Bounds,
        counter: C,
    ) -> Result<(ReadTraces, C), QueryError> {
        let began = Instant::now();
        let outline = outline();
        let roots = Predicate { assembled: true, root: true, ..Predicate::default() };
        let mut candidates = Candidates::new(vec![roots], time);
        let (parts, mut receiver) = mpsc::channel::<Part>(PARTS_WAITING);
        let counted = tokio::task::spawn_blocking(move || -> Result<C, QueryError> {
            let mut counting = Counting { time, known: AHashSet::new(), counter };
            while let Some((gathered, ids)) = receiver.blocking_recv() {
                counting.add(gathered, &ids)?;
            }
            Ok(counting.counter)
        });
        let mut read = ReadTraces { from_unix_nano: time.from_unix_nano, ..ReadTraces::default() };
        let mut count = FIRST_TRACES;
        loop {
            let part = candidates.next(self, count).await?;
            let (Some((newest, _)), Some((oldest, _))) = (part.first(), part.last()) else { break };
            let around =
                TimeRange { from_unix_nano: *oldest, to_unix_nano: newest.saturating_add(1) };
            let ids: Vec<TraceId> = part.iter().map(|(_, id)| *id).collect();
            let gathered = self.gather(ids.iter().copied(), around, Some(&outline)).await?;
            read.traces += ids.len();
            read.spans += gathered.batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            let is_last = ids.len() < count;
            if parts.send((gathered, ids)).await.is_err() || is_last {
                break;
            }
            if let Some(reached) = bounds.reached(began, read.traces, read.spans) {
                read.from_unix_nano = around.from_unix_nano;
                read.stopped = Some(reached);
                break;
            }
            let each = (read.spans / read.traces).max(1);
            count = (SPANS_TOGETHER / each).clamp(FIRST_TRACES / 4, MAX_TRACES).min(count * 4);
        }
        if candidates.passed_over {
            read.warnings.push(
                "more than 100000 traces start at one nanosecond, and not all of them are counted"
                    .to_owned(),
            );
        }
        drop(parts);
        let counter = counted
            .await
            .map_err(|source| QueryError::Interrupted { what: COUNTING, source })??;
        Ok((read, counter))
    }
}

/// What is needed of spans to count them.
pub(super) fn outline() -> Outline {
    Outline {
        columns: [Row::COLUMNS, Labels::COLUMNS].concat(),
        attributes: Row::ATTRIBUTES.iter().map(|key| (*key).to_owned()).collect(),
    }
}

/// The length of time that rates are computed over.
pub(super) fn window_seconds(first_unix_nano: Option<i64>, time: TimeRange) -> f64 {
    let until = time.to_unix_nano.min(now_unix_nano());
    let window = first_unix_nano.map_or(0, |first| until.saturating_sub(first));
    window.max(0) as f64 / 1e9
}

/// The interval of peaks in a range of this length: ten seconds or a minute, and longer over more
/// than a day.
fn step_nano(length_nano: i64) -> i64 {
    const SECOND_NANO: i64 = 1_000_000_000;
    let seconds = length_nano.max(0) / SECOND_NANO;
    let minutes = seconds / (1440 * 60) + 1;
    if seconds <= 600 { 10 * SECOND_NANO } else { minutes * 60 * SECOND_NANO }
}

/// What was counted up to now.
struct Counted {
    chains: Chains,
    bottlenecks: Bottlenecks,
    peaks: Peaks,
    first_unix_nano: Option<i64>,
}

impl Counted {
    fn new(time: TimeRange) -> Self {
        let length = time.to_unix_nano.min(now_unix_nano()).saturating_sub(time.from_unix_nano);
        Self {
            chains: Chains::default(),
            bottlenecks: Bottlenecks::default(),
            peaks: Peaks::new(step_nano(length)),
            first_unix_nano: None,
        }
    }
}

impl TraceCounter for Counted {
    fn count(&mut self, trace_id: TraceId, start: i64, calls: Option<&[ChainCall<'_>]>) {
        self.first_unix_nano = Some(self.first_unix_nano.map_or(start, |it| it.min(start)));
        let Some(calls) = calls else {
            self.chains.runs_left_out += 1;
            return;
        };
        self.chains.add_calls(trace_id, calls);
        self.bottlenecks.add_calls(trace_id, calls);
        self.peaks.add_calls(calls);
    }
}

impl TraceCounter for Minute {
    fn count(&mut self, trace_id: TraceId, _start: i64, calls: Option<&[ChainCall<'_>]>) {
        match calls {
            Some(calls) => self.add_calls(trace_id, calls),
            None => self.leave_out(),
        }
    }
}

/// Traces of a time, each once.
struct Counting<C> {
    time: TimeRange,
    known: AHashSet<TraceId>,
    counter: C,
}

impl<C: TraceCounter> Counting<C> {
    fn add(&mut self, mut gathered: GatheredTraces, ids: &[TraceId]) -> Result<(), QueryError> {
        let trees: Vec<_> = ids.iter().filter_map(|id| gathered.take(id)).collect();
        let labels = Labels::of(&gathered.batches)?;
        for tree in trees {
            // A trace is of the range in which its first root starts. Spans that arrived late may
            // have made one trace of two.
            let start = tree.first_root_unix_nano();
            let is_in_time = (self.time.from_unix_nano..self.time.to_unix_nano).contains(&start);
            if !is_in_time || !self.known.insert(tree.trace_id) {
                continue;
            }
            let calls = Chains::is_whole(&tree).then(|| calls(&tree, &labels));
            self.counter.count(tree.trace_id, start, calls.as_deref());
        }
        Ok(())
    }
}

/// What is missing in chains, in words.
pub(super) fn left_out(chains: &Chains) -> Vec<String> {
    let mut warnings = Vec::new();
    if chains.runs_left_out > 0 {
        warnings.push(format!(
            "traces left out: {}; a parent is missing or doubtful in them, or they are deeper \
             than 128 levels or have more than 10000 different paths",
            chains.runs_left_out
        ));
    }
    if chains.folded_runs > 0 {
        warnings.push(format!(
            "there are too many shapes of traces: {} of the rarest, with {} runs, are not counted",
            chains.folded_shapes, chains.folded_runs
        ));
    }
    warnings
}
