//! Parents of calls: for which request a process made a call.

use spanwise_model::{Capture, Evidence, Kind};

use super::{MAX_CANDIDATES, Verdict, app, few, same_hop};
use crate::chains::ChainIter;
use crate::index::Index;
use crate::row::Row;
use crate::slot::Slot;
use crate::timeline::Sort;

/// Slack between two kernel times of one process.
const KERNEL_SLACK_NANO: i64 = 5_000_000;
/// Slack between a kernel time and an SDK time on one host.
const SDK_SLACK_NANO: i64 = 5_000_000;
/// Confidence of a link by time and protocol alone.
const BY_COVER: f32 = 0.9;

fn is_sure(row: &Row) -> bool {
    row.confidence.is_some_and(|confidence| confidence >= Evidence::CERTAIN)
}

/// Whether the call can have been made for the request: the same process was serving the request,
/// the request is not the call's own server side, and no certain fragment contradicts it.
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

/// Rule: this process's SDK span made the call and put its id in the header.
pub(super) fn own_app(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some((trace, parent)) = row.trace_id.zip(row.parent_span_id) else {
        return Verdict::Nothing;
    };
    // If the SDK reports no process, the span counts only if no request brought the same header in.
    let brought_in = !matches!(passed_on_header(index, 0, row), Verdict::Nothing);
    let app = few(index.apps(trace, parent)).find(|slot| {
        let app = index.row(*slot);
        let by_process = app.process_id.is_some() && app.same_process(row);
        by_process || (app.same_process(row) && !brought_in)
    });
    app.map_or(Verdict::Nothing, |slot| Verdict::child(slot, Evidence::TraceHeader, 1.0))
}

/// Rule: a proxy, or a program that copies headers, passes on a header that it received.
pub(super) fn passed_on_header(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some((trace, parent)) = row.trace_id.zip(row.parent_span_id) else {
        return Verdict::Nothing;
    };
    among(index, row, index.with_header(trace, parent), Evidence::TraceHeader)
}

/// Rule: a proxy passes on the request's X-Request-ID, or created it.
pub(super) fn passed_on_request_id(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some(id) = row.x_request_id else { return Verdict::Nothing };
    among(index, row, index.with_x_request_id(id), Evidence::RequestId)
}

/// The only one of the requests for which the call can have been made.
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

/// Rule: the thread that made the call said in which span it worked.
pub(super) fn current_span(index: &Index, slot: Slot, row: &Row) -> Verdict {
    // A call with a header names the parent itself.
    let (None, Some(current)) = (row.trace_id, row.parent_span_id) else {
        return Verdict::Nothing;
    };
    // A call may be answered after the span in which it was begun.
    let around = index.covering(Sort::App, slot, SDK_SLACK_NANO, i64::MAX);
    let named = around.into_iter().filter(|slot| index.row(*slot).span_id == current);
    Verdict::only(named, Evidence::CurrentSpan, 1.0)
}

/// Rule: an SDK's client span covers a call without a header, such as a database query.
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
        // Two libraries may both report the call. Their spans are then nested.
        several => several
            .iter()
            .find(|deepest| {
                let above = app::ancestors(index, **deepest);
                several.iter().all(|other| other == *deepest || above.contains(other))
            })
            .map_or(Verdict::Several, |slot| Verdict::child(*slot, Evidence::Enclosing, BY_COVER)),
    }
}

/// Whether an SDK span and a call may belong to the same request: no evidence contradicts it.
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

/// Rule: the fragment that the agent reported.
pub(super) fn fragment(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some(fragment) = row.fragment_id else { return Verdict::Nothing };
    let evidence = match row.evidence {
        Some(known @ (Evidence::Thread | Evidence::Task | Evidence::Turn)) => known,
        _ => Evidence::SoleRequest,
    };
    let requests = index.servers_of_fragment(fragment);
    Verdict::only(requests, evidence, row.confidence.unwrap_or(BY_COVER))
}

/// Rule: a process without an SDK sent a header that it must have received, but the request with
/// that header was not captured.
pub(super) fn any_app(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some((trace, parent)) = row.trace_id.zip(row.parent_span_id) else {
        return Verdict::Nothing;
    };
    let app = few(index.apps(trace, parent)).min_by_key(|slot| index.row(*slot).at);
    app.map_or(Verdict::Nothing, |slot| Verdict::child(slot, Evidence::TraceHeader, BY_COVER))
}
