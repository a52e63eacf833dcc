//! What a process called, and for which request.

use spanwise_model::{Capture, Evidence, Kind};

use super::{MAX_CANDIDATES, Verdict, app, few, same_hop};
use crate::chains::ChainIter;
use crate::index::Index;
use crate::row::Row;
use crate::slot::Slot;
use crate::timeline::Sort;

/// Two moments of one process, both told by the kernel.
const KERNEL_SLACK_NANO: i64 = 5_000_000;
/// A moment told by the kernel and one told by an SDK of the same host.
const SDK_SLACK_NANO: i64 = 5_000_000;
/// How sure a link by time and protocol alone is.
const BY_COVER: f32 = 0.9;

fn is_sure(row: &Row) -> bool {
    row.confidence.is_some_and(|confidence| confidence >= Evidence::CERTAIN)
}

/// Whether the call can have been made for the request: the same process was
/// serving it, it is not the call's own other end, and no sure fragment says
/// otherwise.
fn may_serve(request: &Row, call: &Row) -> bool {
    let elsewhere = is_sure(call)
        && call.fragment_id.is_some()
        && request.fragment_id.is_some()
        && call.fragment_id != request.fragment_id;
    request.capture == Capture::ServerProcess
        && request.surely_same_process(call)
        && request.covers_start(call, KERNEL_SLACK_NANO)
        && !same_hop(call, request)
        && !elsewhere
}

/// Rule: the SDK span of this process that made the call and put its id in the
/// header.
pub(super) fn own_app(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some((trace, parent)) = row.trace_id.zip(row.parent_span_id) else {
        return Verdict::Nothing;
    };
    // An SDK that reports no process is told by the absence of a request with
    // the same header: that would have brought the header in.
    let brought_in = !matches!(passed_on_header(index, 0, row), Verdict::Nothing);
    let app = few(index.apps(trace, parent)).find(|slot| {
        let app = index.row(*slot);
        let by_process = app.process_id.is_some() && app.same_process(row);
        by_process || (app.same_process(row) && !brought_in)
    });
    app.map_or(Verdict::Nothing, |slot| Verdict::child(slot, Evidence::TraceHeader, 1.0))
}

/// Rule: a proxy, or a program that copies headers, passes on what it got.
pub(super) fn passed_on_header(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some((trace, parent)) = row.trace_id.zip(row.parent_span_id) else {
        return Verdict::Nothing;
    };
    among(index, row, index.with_header(trace, parent), Evidence::TraceHeader)
}

/// Rule: a proxy passes on the request's id, or has made one.
pub(super) fn passed_on_request_id(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some(id) = row.x_request_id else { return Verdict::Nothing };
    among(index, row, index.with_x_request_id(id), Evidence::RequestId)
}

/// The one of the requests for which the call can have been made.
fn among(index: &Index, row: &Row, requests: ChainIter<'_>, evidence: Evidence) -> Verdict {
    if requests.len() > MAX_CANDIDATES {
        return Verdict::Several;
    }
    let fitting = |slot: &Slot| may_serve(index.row(*slot), row);
    let mut fitting: Vec<Slot> = requests.filter(fitting).collect();
    if fitting.len() > 1 && row.fragment_id.is_some() && is_sure(row) {
        fitting.retain(|slot| index.row(*slot).fragment_id == row.fragment_id);
    }
    Verdict::only(fitting.into_iter(), evidence, 1.0)
}

/// Rule: an SDK's client span around a call that carries no header, such as a
/// database query.
pub(super) fn app_around_call(index: &Index, slot: Slot, row: &Row) -> Verdict {
    if row.trace_id.is_some() {
        return Verdict::Nothing;
    }
    let around: Vec<Slot> = index
        .covering(Sort::App, slot, SDK_SLACK_NANO, SDK_SLACK_NANO)
        .into_iter()
        .filter(|slot| {
            let app = index.row(*slot);
            let ports = app.server_port.is_none()
                || row.server_port.is_none()
                || app.server_port == row.server_port;
            app.kind == Kind::Client
                && app.protocol.is_some()
                && app.protocol == row.protocol
                && ports
                && of_same_request(index, *slot, row)
        })
        .collect();
    match around.as_slice() {
        [] => Verdict::Nothing,
        [only] => Verdict::child(*only, Evidence::Enclosing, BY_COVER),
        // Two libraries may each report the call, one span inside the other.
        several => several
            .iter()
            .find(|deepest| {
                let above = app::ancestors(index, **deepest);
                several.iter().all(|other| other == *deepest || above.contains(other))
            })
            .map_or(Verdict::Several, |slot| Verdict::child(*slot, Evidence::Enclosing, BY_COVER)),
    }
}

/// Whether nothing says that an SDK's span and a call belong to two requests.
fn of_same_request(index: &Index, app: Slot, call: &Row) -> bool {
    let Some(fragment) = call.fragment_id else { return true };
    let top = app::ancestors(index, app).last().copied().unwrap_or(app);
    match super::verdict(index, top) {
        Verdict::Child(parent) => {
            let request = index.row(parent.slot);
            request.fragment_id.is_none_or(|other| other == fragment)
        }
        _ => true,
    }
}

/// Rule: what the agent saw in the process.
pub(super) fn fragment(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some(fragment) = row.fragment_id else { return Verdict::Nothing };
    let evidence = match row.evidence {
        Some(known @ (Evidence::Thread | Evidence::Task | Evidence::Turn)) => known,
        _ => Evidence::SoleRequest,
    };
    let requests = index.servers_of_fragment(fragment);
    Verdict::only(requests, evidence, row.confidence.unwrap_or(BY_COVER))
}

/// Rule: a process without SDK sent a header that it must have got, though the
/// request that brought it was not seen.
pub(super) fn any_app(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some((trace, parent)) = row.trace_id.zip(row.parent_span_id) else {
        return Verdict::Nothing;
    };
    let app = few(index.apps(trace, parent)).min_by_key(|slot| index.row(*slot).at);
    app.map_or(Verdict::Nothing, |slot| Verdict::child(slot, Evidence::TraceHeader, BY_COVER))
}
