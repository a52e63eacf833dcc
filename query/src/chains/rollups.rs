//! Runs from rollups where there are any, and from spans for the rest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spanwise_analyze::bottlenecks::Bottlenecks;
use spanwise_analyze::rollup::{Minute, RollupError, RollupHead, RollupPart};
use spanwise_analyze::{ChainCall, Chains, PathId, Peaks, ShapeId};
use spanwise_model::TraceId;
use spanwise_store::embedded::{DerivedFile, DerivedFiles};
use spanwise_store::{DerivedPart, DerivedPartName, TimeRange};

use super::ObservedRuns;
use super::read::{TraceCounter, left_out, window_seconds};
use crate::traceql::{Bounds, moment};
use crate::{Queries, QueryError, now_unix_nano, on_blocking_thread};

/// A rollup that a range begins or ends in is used as a whole if the range is so many times as long.
const LONGER: i64 = 6;
/// How often an answer is begun again because a file was damaged or replaced meanwhile.
const ATTEMPTS: usize = 5;
const READING: &str = "reading rollups";

/// What was read of one file. `None` if it is not there, or not intact.
pub(super) fn read_parts(
    files: &DerivedFiles,
    file: DerivedFile,
    is_wanted: impl Fn(RollupPart) -> bool,
) -> Option<Vec<(RollupPart, Vec<u8>)>> {
    let part = |name: DerivedPartName| RollupPart::of(name.kind, name.id);
    let parts = files.read(file, |name| part(name).is_some_and(&is_wanted))?;
    Some(parts.into_iter().filter_map(|found| Some((part(found.name)?, found.bytes))).collect())
}

/// Parts as the store keeps them.
pub(super) fn derived_parts(minute: &Minute) -> Vec<DerivedPart> {
    let parts = minute.to_parts().into_iter().map(|(part, bytes)| {
        let (kind, id) = part.numbers();
        DerivedPart { name: DerivedPartName { kind, id }, bytes }
    });
    parts.collect()
}

/// Adds all parts of a file. Returns `None`, and sets a damaged file aside, if that is not possible.
pub(super) fn merge_file(
    files: &DerivedFiles,
    file: DerivedFile,
    into: &mut Minute,
    is_wanted: impl Fn(RollupPart) -> bool,
) -> Option<()> {
    let mut read = Minute::default();
    for (part, bytes) in read_parts(files, file, is_wanted)? {
        if let Err(error) = read.merge_part(part, &bytes) {
            set_aside(files, file, error);
            return None;
        }
    }
    into.merge_all(read);
    Some(())
}

fn set_aside(files: &DerivedFiles, file: DerivedFile, error: RollupError) {
    files.set_aside(file, &error.to_string());
}

/// The range with ends that are inside of a much shorter rollup moved back to its start.
fn snapped(files: &DerivedFiles, time: TimeRange) -> TimeRange {
    let until = time.to_unix_nano.min(now_unix_nano());
    let length = until.saturating_sub(time.from_unix_nano);
    let back = |edge: i64| {
        let before = edge.saturating_sub(1);
        let around = TimeRange { from_unix_nano: before, to_unix_nano: edge.saturating_add(1) };
        let inside = |file: &TimeRange| {
            let short = file.to_unix_nano - file.from_unix_nano <= length / LONGER;
            short && file.from_unix_nano < edge && edge < file.to_unix_nano
        };
        let mut around = files.covering(around).into_iter().map(|file| file.time);
        around.find(inside).map_or(edge, |file| file.from_unix_nano)
    };
    TimeRange { from_unix_nano: back(time.from_unix_nano), to_unix_nano: back(time.to_unix_nano) }
}

/// What of the range is not in these files, the newest first.
fn gaps(time: TimeRange, files: &[TimeRange]) -> Vec<TimeRange> {
    let mut gaps = Vec::new();
    let mut end = time.to_unix_nano;
    for file in files.iter().rev() {
        gaps.push(TimeRange { from_unix_nano: file.to_unix_nano, to_unix_nano: end });
        end = file.from_unix_nano;
    }
    gaps.push(TimeRange { from_unix_nano: time.from_unix_nano, to_unix_nano: end });
    gaps.retain(|gap| gap.from_unix_nano < gap.to_unix_nano);
    gaps
}

/// Runs that are counted from spans.
#[derive(Default)]
struct Rest {
    chains: Chains,
    first_unix_nano: Option<i64>,
}

impl TraceCounter for Rest {
    fn count(&mut self, trace_id: TraceId, start: i64, calls: Option<&[ChainCall<'_>]>) {
        self.first_unix_nano = Some(self.first_unix_nano.map_or(start, |it| it.min(start)));
        match calls {
            Some(calls) => self.chains.add_calls(trace_id, calls),
            None => self.chains.runs_left_out += 1,
        }
    }
}

/// The heads of the files inside of this range, the earliest first.
fn heads(files: &DerivedFiles, time: TimeRange) -> Vec<(DerivedFile, RollupHead)> {
    let mut heads = Vec::new();
    for file in files.covering(time) {
        let DerivedFile { time: of, .. } = file;
        if of.from_unix_nano < time.from_unix_nano || of.to_unix_nano > time.to_unix_nano {
            continue;
        }
        let Some(parts) = read_parts(files, file, |part| part == RollupPart::Head) else {
            continue;
        };
        match parts.first().map(|(_, bytes)| RollupHead::from_bytes(bytes)) {
            Some(Ok(head)) => heads.push((file, head)),
            Some(Err(error)) => set_aside(files, file, error),
            None => set_aside(files, file, RollupError::Damaged),
        }
    }
    heads
}

/// The shape that this one joined in the newest of these files, with its entrance.
fn joined(
    files: &DerivedFiles,
    heads: &[(DerivedFile, RollupHead)],
    shape: ShapeId,
) -> Option<(ShapeId, PathId)> {
    heads.iter().rev().find_map(|(file, head)| {
        let parts = read_parts(files, *file, |part| part == RollupPart::Joined)?;
        match Minute::joined_by(&parts.first()?.1, shape) {
            Ok(founder) => founder.and_then(|it| Some((it, head.entrance_of(it)?))),
            Err(error) => {
                set_aside(files, *file, error);
                None
            }
        }
    })
}

/// The chains of these files: all, or those of one entrance. `None` if a file is not there any more.
fn chains(
    files: &DerivedFiles,
    heads: &[(DerivedFile, RollupHead)],
    entrance: Option<PathId>,
) -> Option<Chains> {
    let mut minute = Minute::default();
    for (file, head) in heads {
        minute.merge_head(head);
        if entrance.is_some_and(|entrance| !head.shapes.contains_key(&entrance)) {
            continue;
        }
        let is_wanted = |part| match part {
            RollupPart::Entrance(found) => entrance.is_none_or(|wanted| found == wanted),
            RollupPart::Head | RollupPart::Operations | RollupPart::Joined => false,
        };
        merge_file(files, *file, &mut minute, is_wanted)?;
    }
    Some(minute.into_chains())
}

impl Queries {
    /// Chains of this time; those of the entrance with a shape, or all. `None` if no rollup is
    /// inside of the range.
    pub(super) async fn rolled_up_runs(
        &self,
        time: TimeRange,
        bounds: Bounds,
        shape: Option<ShapeId>,
    ) -> Result<Option<ObservedRuns>, QueryError> {
        let Some(files) = self.store.derived() else { return Ok(None) };
        let time = snapped(&files, time);
        for _ in 0..ATTEMPTS {
            let looked = Arc::clone(&files);
            let heads = on_blocking_thread(READING, move || heads(&looked, time)).await?;
            if heads.is_empty() {
                break;
            }
            if let Some(observed) = self.rolled_up(&files, time, bounds, shape, heads).await? {
                return Ok(Some(observed));
            }
        }
        Ok(None)
    }

    /// The same with these files; `None` if one of them is not there any more.
    async fn rolled_up(
        &self,
        files: &Arc<DerivedFiles>,
        time: TimeRange,
        bounds: Bounds,
        shape: Option<ShapeId>,
        heads: Vec<(DerivedFile, RollupHead)>,
    ) -> Result<Option<ObservedRuns>, QueryError> {
        let began = Instant::now();
        let inside: Vec<TimeRange> = heads.iter().map(|(file, _)| file.time).collect();
        let mut rest = Rest::default();
        let (mut traces, mut spans) = (0, 0);
        let (mut from_unix_nano, mut warnings) = (time.from_unix_nano, Vec::new());
        for gap in gaps(time, &inside) {
            let left = Bounds {
                time: bounds.time.saturating_sub(began.elapsed()).max(Duration::from_millis(1)),
                traces: bounds.traces.saturating_sub(traces).max(1),
                spans: bounds.spans.saturating_sub(spans).max(1),
            };
            let (read, counted) = self.read_traces(gap, left, rest).await?;
            rest = counted;
            traces += read.traces;
            spans += read.spans;
            warnings.extend(read.warnings);
            if let Some(reached) = read.stopped {
                from_unix_nano = from_unix_nano.max(read.from_unix_nano);
                warnings.push(format!(
                    "reading spans stopped when {reached}: of the time from {} to {}, no runs are \
                     counted; choose a shorter time for all of them",
                    moment(gap.from_unix_nano),
                    moment(read.from_unix_nano)
                ));
            }
        }
        let outdated_rollups = heads.iter().filter(|(file, _)| file.is_outdated).count();
        if outdated_rollups > 0 {
            warnings.push(format!(
                "spans came late to {outdated_rollups} rollups: their figures are those from before, \
                 and are being corrected"
            ));
        }
        let of_rollups: u64 = heads.iter().map(|(_, head)| head.runs).sum();
        let all_runs = of_rollups + rest.chains.runs();
        let first = heads.iter().filter(|(_, head)| head.runs > 0);
        let first = first.map(|(_, head)| head.first_unix_nano).chain(rest.first_unix_nano).min();
        let mut heads = heads;
        let entrance = shape.map(|shape| {
            let newest = heads.iter().rev().find_map(|(_, head)| head.entrance_of(shape));
            newest.or_else(|| rest.chains.entrance_of(shape))
        });
        let mut founder = None;
        let entrance = match (shape, entrance) {
            (Some(shape), Some(None)) => {
                let (looked, among) = (Arc::clone(files), heads);
                let look = move || (joined(&looked, &among, shape), among);
                let (found, among) = on_blocking_thread(READING, look).await?;
                heads = among;
                founder = found.map(|(founder, _)| (shape, founder));
                Some(found.map(|(_, entrance)| entrance))
            }
            (_, entrance) => entrance,
        };
        let entrance = match entrance {
            // No run is of a chain with it.
            Some(None) => {
                heads.clear();
                None
            }
            Some(found) => found,
            None => None,
        };
        let looked = Arc::clone(files);
        let Some(mut chains) =
            on_blocking_thread(READING, move || chains(&looked, &heads, entrance)).await?
        else {
            return Ok(None);
        };
        if let Some(entrance) = entrance {
            rest.chains.retain_entrance(entrance);
        }
        chains.merge(&rest.chains);
        if let Some((shape, founder)) = founder {
            chains.set_joined(shape, founder);
        }
        warnings.extend(left_out(&chains));
        Ok(Some(ObservedRuns {
            window_seconds: window_seconds(first, time),
            chains,
            bottlenecks: Bottlenecks::default(),
            peaks: Peaks::default(),
            time,
            from_unix_nano,
            all_runs: Some(all_runs),
            runs_of_rollups: of_rollups,
            outdated_rollups,
            traces,
            spans,
            warnings,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: i64, to: i64) -> TimeRange {
        TimeRange { from_unix_nano: from, to_unix_nano: to }
    }

    #[test]
    fn gaps_are_what_no_file_covers_the_newest_first() {
        let files = [range(10, 20), range(20, 30), range(50, 60)];
        assert_eq!(gaps(range(5, 70), &files), [range(60, 70), range(30, 50), range(5, 10)]);
        assert_eq!(gaps(range(10, 60), &files), [range(30, 50)]);
        assert_eq!(gaps(range(1, 2), &[]), [range(1, 2)]);
    }
}
