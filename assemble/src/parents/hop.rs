//! From one end of a connection to the other.

use std::cmp::Reverse;

use spanwise_model::{Capture, Evidence};

use super::{MAX_CANDIDATES, Verdict, few};
use crate::index::Index;
use crate::row::Row;
use crate::slot::Slot;

/// Both ends of a hop on one host read the same clock, but not at the same moment.
const SAME_HOST_SLACK_NANO: i64 = 50_000_000;
/// Maximum difference of two hosts' synchronised clocks.
const OTHER_HOST_SLACK_NANO: i64 = 1_000_000_000;
/// Maximum difference of unsynchronised clocks. If both sequence numbers and both ports agree, they
/// identify an exchange for longer than any clock should be wrong.
const UNKEPT_CLOCK_SLACK_NANO: i64 = 600_000_000_000;

fn same_host(one: &Row, other: &Row) -> bool {
    one.host.is_some() && one.host == other.host
}

fn slack(one: &Row, other: &Row) -> i64 {
    if same_host(one, other) { SAME_HOST_SLACK_NANO } else { OTHER_HOST_SLACK_NANO }
}

fn ports(row: &Row) -> Option<(u16, u16)> {
    row.client_port.zip(row.server_port)
}

/// Whether two kernel rows captured the same exchange; `near` is nearer to the client.
///
/// Sequence numbers repeat, so the request must also have arrived during the call. The end of the
/// far row proves nothing: a server's end may be inferred from silence, and a client may have given
/// up before. If one side has no response, the ports must show that the connection is the same.
pub(crate) fn same_hop(near: &Row, far: &Row) -> bool {
    let same_ports = ports(near).is_some() && ports(near) == ports(far);
    let (responses, slack) = match near.response_tcp_seq.zip(far.response_tcp_seq) {
        Some((one, other)) if same_ports && !same_host(near, far) => {
            (one == other, UNKEPT_CLOCK_SLACK_NANO)
        }
        Some((one, other)) => (one == other, slack(near, far)),
        None => (same_ports, slack(near, far)),
    };
    responses
        && near.capture < far.capture
        && !near.capture.is_reported()
        && near.request_tcp_seq.is_some()
        && near.request_tcp_seq == far.request_tcp_seq
        && near.protocols_agree(far)
        && near.covers_start(far, slack)
}

/// Rule: the nearest capture point before this one on the same exchange.
pub(super) fn by_sequences(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some(seq) = row.request_tcp_seq else { return Verdict::Nothing };
    let near = few(index.with_request_seq(seq)).filter(|slot| same_hop(index.row(*slot), row));
    // Of several capture points, take the last before this one. Of several rows of a point, take
    // the best match, and always the same one.
    let best = near.max_by_key(|slot| {
        let near = index.row(*slot);
        let distance = row.start_unix_nano.abs_diff(near.start_unix_nano);
        (
            near.capture,
            near.client_port.is_some() && near.client_port == row.client_port,
            near.response_tcp_seq == row.response_tcp_seq,
            Reverse(distance),
            Reverse(near.span_id),
        )
    });
    best.map_or(Verdict::Nothing, |slot| Verdict::child(slot, Evidence::TcpSequence, 1.0))
}

/// Rule: the trace header joins both sides, because an unseen proxy or balancer ended one
/// connection and opened another.
pub(super) fn by_header(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some((trace, parent)) = row.trace_id.zip(row.parent_span_id) else {
        return Verdict::Nothing;
    };
    let rows = index.with_header(trace, parent);
    if rows.len() > MAX_CANDIDATES {
        return Verdict::Nothing;
    }
    let calls = rows.filter(|slot| {
        let call = index.row(*slot);
        call.capture == Capture::ClientProcess
            && !call.same_process(row)
            && call.protocols_agree(row)
            && call.covers_start(row, slack(call, row))
            && !has_other_end(index, call)
    });
    Verdict::only(calls, Evidence::TraceHeader, 1.0)
}

fn has_other_end(index: &Index, call: &Row) -> bool {
    call.request_tcp_seq.is_some_and(|seq| {
        few(index.with_request_seq(seq)).any(|far| same_hop(call, index.row(far)))
    })
}

/// Rule: the SDK span that the header names, if the call was not captured.
pub(super) fn named_app(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some((trace, parent)) = row.trace_id.zip(row.parent_span_id) else {
        return Verdict::Nothing;
    };
    let app = few(index.apps(trace, parent)).min_by_key(|slot| index.row(*slot).at);
    app.map_or(Verdict::Nothing, |slot| Verdict::child(slot, Evidence::TraceHeader, 1.0))
}
