//! The critical path of runs: what a run waited for, from its end back to its start.

use crate::chains::ChainCall;

/// Calls may overlap by this part of their caller's time and still be one after another.
const TOLERANCE: i64 = 100;

/// How much of the run's time each call is on the critical path itself, without its own calls.
pub(super) fn times(calls: &[ChainCall<'_>], below: &[Vec<usize>]) -> Vec<i64> {
    let mut times = vec![0_i64; calls.len()];
    let mut stack: Vec<usize> = Vec::new();
    for (place, call) in calls.iter().enumerate() {
        // Nobody waits for what is consumed, so it is the end of another path.
        if call.parent.is_none() || call.asynchronous {
            stack.push(place);
        }
    }
    while let Some(place) = stack.pop() {
        let call = &calls[place];
        if call.asynchronous {
            continue;
        }
        let (start, end) = call.served_unix_nano;
        let whole = call.end_unix_nano.saturating_sub(call.start_unix_nano);
        let inside = end.saturating_sub(start).max(0);
        let tolerance = inside / TOLERANCE;
        let mut children: Vec<usize> =
            below[place].iter().copied().filter(|child| !calls[*child].asynchronous).collect();
        children.sort_unstable_by_key(|child| std::cmp::Reverse(calls[*child].end_unix_nano));
        let (mut reached, mut own) = (end, whole.saturating_sub(inside).max(0));
        let mut is_last = true;
        for child in children {
            let (from, to) = (calls[child].start_unix_nano, calls[child].end_unix_nano);
            // The last one may end after its caller: its clock is another one, or nobody waited.
            let follows = to <= reached.saturating_add(tolerance) || is_last;
            if !follows || from >= reached || to <= start {
                continue;
            }
            is_last = false;
            own = own.saturating_add(reached.saturating_sub(to).max(0));
            reached = from.max(start);
            stack.push(child);
        }
        times[place] = own.saturating_add(reached.saturating_sub(start).max(0));
    }
    times
}
