//! The calls of a trace: both sides of an exchange are one call, internal spans are part of the
//! call that they run in.

use spanwise_assemble::Trace;
use spanwise_model::Kind;

use crate::labels::Labels;

/// One call of a run. The first of a run is its entrance.
#[derive(Debug, Clone)]
pub struct ChainCall<'a> {
    /// The called service; if the called side was not captured, the protocol or `unknown`.
    pub service: &'a str,
    /// The called operation.
    pub operation: &'a str,
    /// Place of the calling call.
    pub parent: Option<usize>,
    /// When the caller began to wait, on the caller's clock.
    pub start_unix_nano: i64,
    /// When the caller's wait ended.
    pub end_unix_nano: i64,
    /// Start and end on the called side, on the clock of its own calls.
    pub served_unix_nano: (i64, i64),
    /// Time in which no synchronous call of its own ran. Includes the network.
    pub self_nano: i64,
    /// Whether either side reported an error.
    pub failed: bool,
    /// Whether the caller does not wait for it.
    pub asynchronous: bool,
}

/// The calls of a trace, callers before the called.
pub fn calls<'a>(trace: &Trace, labels: &Labels<'a>) -> Vec<ChainCall<'a>> {
    let mut calls: Vec<ChainCall<'a>> = Vec::new();
    // Start and end on the called side.
    let mut served: Vec<Option<(i64, i64)>> = Vec::new();
    let mut call_of: Vec<Option<usize>> = Vec::with_capacity(trace.nodes.len());
    for node in &trace.nodes {
        let row = &node.row;
        let caller = node.parent.and_then(|parent| call_of[parent]);
        let above = node.parent.map(|parent| &trace.nodes[parent].row);
        let is_served = row.kind == Kind::Server;
        let same = above.is_some_and(|above| match row.kind {
            Kind::Internal => true,
            // The other side, or an SDK's and the kernel's span of one side.
            Kind::Server => {
                above.kind == Kind::Client
                    || (above.kind == Kind::Server && above.service == row.service)
            }
            Kind::Client | Kind::Producer => above.kind == row.kind && above.service == row.service,
            Kind::Consumer => above.kind == Kind::Consumer && above.service == row.service,
        });
        let failed = labels.is_error(row.at);
        if let Some(place) = caller.filter(|_| same) {
            let call = &mut calls[place];
            // A failure inside that was handled is none of the call.
            call.failed |= failed && row.kind != Kind::Internal;
            if is_served && served[place].is_none() {
                served[place] = Some((row.start_unix_nano, row.end_unix_nano));
                (call.service, call.operation) = (labels.service(row.at), labels.operation(row.at));
            }
            call_of.push(Some(place));
            continue;
        }
        let calling = matches!(row.kind, Kind::Client | Kind::Producer);
        let service = match labels.protocol(row.at) {
            _ if !calling => labels.service(row.at),
            Some(protocol) => protocol,
            None => "unknown",
        };
        call_of.push(Some(calls.len()));
        served.push(is_served.then_some((row.start_unix_nano, row.end_unix_nano)));
        calls.push(ChainCall {
            service,
            operation: labels.operation(row.at),
            parent: caller,
            start_unix_nano: row.start_unix_nano,
            end_unix_nano: row.end_unix_nano,
            served_unix_nano: (row.start_unix_nano, row.end_unix_nano),
            self_nano: 0,
            failed,
            asynchronous: row.kind == Kind::Consumer && caller.is_some(),
        });
    }
    set_self_times(&mut calls, &served);
    calls
}

fn set_self_times(calls: &mut [ChainCall<'_>], served: &[Option<(i64, i64)>]) {
    // By caller: when it waited.
    let mut waits: Vec<(usize, i64, i64)> = (calls.iter())
        .filter(|call| !call.asynchronous)
        .filter_map(|call| Some((call.parent?, call.start_unix_nano, call.end_unix_nano)))
        .collect();
    waits.sort_unstable();
    let mut waits = waits.as_slice();
    for (place, call) in calls.iter_mut().enumerate() {
        let (own, others) = waits.split_at(waits.partition_point(|(caller, ..)| *caller == place));
        waits = others;
        let whole = call.end_unix_nano.saturating_sub(call.start_unix_nano);
        let (start, end) = served[place].unwrap_or((call.start_unix_nano, call.end_unix_nano));
        call.served_unix_nano = (start, end);
        let inside = end.saturating_sub(start);
        let (mut covered, mut reached) = (0_i64, start);
        for (_, from, to) in own {
            let (from, to) = ((*from).max(reached), (*to).min(end));
            if to > from {
                covered = covered.saturating_add(to.saturating_sub(from));
                reached = to;
            }
        }
        // Neither difference compares two clocks.
        let gap = whole.saturating_sub(inside).max(0);
        call.self_nano = inside.saturating_sub(covered).max(0).saturating_add(gap);
    }
}
