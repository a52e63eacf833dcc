//! What one caller calls: again and again, once more after a failure, at the same time, or one
//! after another without need.

use std::collections::BTreeMap;

use spanwise_model::TraceId;

use super::{Bottlenecks, MAX_PAIRS};
use crate::chains::{ChainCall, PathId};

/// So many calls of one path, one after another, are repeated ones.
const REPEATED: u64 = 5;
/// So many calls at a time are a fan-out.
const WIDE: u64 = 10;

impl Bottlenecks {
    /// Adds the synchronous calls of one caller, by their start.
    pub(super) fn add_siblings(
        &mut self,
        trace_id: TraceId,
        calls: &[ChainCall<'_>],
        ids: &[PathId],
        caller: usize,
        below: &[usize],
    ) {
        self.add_width(trace_id, calls, ids[caller], below);
        let mut by_path: BTreeMap<PathId, Vec<usize>> = BTreeMap::new();
        for place in below {
            by_path.entry(ids[*place]).or_default().push(*place);
        }
        for (path, places) in by_path.iter().filter(|(_, places)| places.len() > 1) {
            self.add_same(trace_id, calls, *path, places);
        }
        if by_path.len() > 1 {
            self.add_pairs(trace_id, calls, ids, caller, below);
        }
    }

    fn add_width(
        &mut self,
        trace_id: TraceId,
        calls: &[ChainCall<'_>],
        caller: PathId,
        below: &[usize],
    ) {
        if (below.len() as u64) < WIDE {
            return;
        }
        let mut changes: Vec<(i64, i64)> = Vec::with_capacity(2 * below.len());
        for place in below {
            changes.push((calls[*place].start_unix_nano, 1));
            changes.push((calls[*place].end_unix_nano, -1));
        }
        // What ends at a time ends before another begins.
        changes.sort_unstable();
        let (mut now, mut widest) = (0_i64, 0_i64);
        for (_, change) in changes {
            now += change;
            widest = widest.max(now);
        }
        let widest = widest.unsigned_abs();
        if widest >= WIDE
            && let Some(figures) = self.path(caller)
        {
            figures.wide.callers += 1;
            figures.wide.most = figures.wide.most.max(Some((widest, trace_id)));
        }
    }

    /// Adds calls of one path below one caller.
    fn add_same(
        &mut self,
        trace_id: TraceId,
        calls: &[ChainCall<'_>],
        path: PathId,
        places: &[usize],
    ) {
        let length = |call: &ChainCall<'_>| {
            u128::from(
                call.end_unix_nano.saturating_sub(call.start_unix_nano).max(0).unsigned_abs(),
            )
        };
        let (mut in_row, mut row_nano) = (0_u64, 0_u128);
        let (mut attempts, mut attempt_nano, mut rescued) = (0_u64, 0_u128, false);
        let mut reached = i64::MIN;
        let mut failed_at: Option<i64> = None;
        for place in places {
            let call = &calls[*place];
            let is_after = call.start_unix_nano >= reached;
            if let Some(began) = failed_at.take().filter(|_| is_after) {
                attempts += 1;
                let waited = call.start_unix_nano.saturating_sub(began).max(0);
                attempt_nano += u128::from(waited.unsigned_abs());
                rescued |= !call.failed;
            } else if is_after {
                in_row += 1;
                row_nano += length(call);
            }
            reached = reached.max(call.end_unix_nano);
            failed_at = call.failed.then_some(call.start_unix_nano);
        }
        let Some(figures) = self.path(path) else { return };
        if in_row >= REPEATED {
            figures.repeated.callers += 1;
            figures.repeated.calls += in_row;
            figures.repeated.nano += row_nano;
            figures.repeated.most = figures.repeated.most.max(Some((in_row, trace_id)));
        }
        if attempts > 0 {
            figures.retried.attempts += attempts;
            figures.retried.nano += attempt_nano;
            figures.retried.rescued += u64::from(rescued);
            figures.retried.most = figures.retried.most.max(Some((attempts + 1, trace_id)));
        }
    }

    /// Adds neighbours of different paths: each call with the next one.
    fn add_pairs(
        &mut self,
        trace_id: TraceId,
        calls: &[ChainCall<'_>],
        ids: &[PathId],
        caller: usize,
        below: &[usize],
    ) {
        // A pair counts once for each caller.
        let mut seen: BTreeMap<(PathId, PathId), (usize, usize)> = BTreeMap::new();
        for (earlier, later) in below.iter().zip(&below[1..]) {
            let (one, two) = (ids[*earlier], ids[*later]);
            if one != two {
                seen.entry((one.min(two), one.max(two))).or_insert((*earlier, *later));
            }
        }
        for ((one, two), (earlier, later)) in seen {
            let key = (ids[caller], one, two);
            if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
                self.left_out += 1;
                continue;
            }
            let pair = self.pairs.entry(key).or_default();
            let (before, after) = (&calls[earlier], &calls[later]);
            if after.start_unix_nano < before.end_unix_nano {
                pair.overlapped += 1;
                continue;
            }
            let length = |call: &ChainCall<'_>| {
                call.end_unix_nano.saturating_sub(call.start_unix_nano).max(0)
            };
            let saved = length(before).min(length(after));
            *if ids[earlier] == one { &mut pair.in_order } else { &mut pair.reversed } += 1;
            pair.after_failure += u64::from(before.failed);
            pair.saved_nano += u128::from(saved.unsigned_abs());
            pair.example = pair.example.max(Some((saved, trace_id)));
        }
    }
}
