//! Parents of spans that an application reported.

use std::cmp::Reverse;

use spanwise_model::{Capture, Evidence, Kind, SpanId, TraceId};

use super::{MAX_CANDIDATES, Verdict};
use crate::index::Index;
use crate::row::{Row, Side};
use crate::slot::Slot;
use crate::text::Text;
use crate::timeline::Sort;

/// Slack between times of an SDK and of the kernel on one host.
const START_SLACK_NANO: i64 = 5_000_000;
/// An SDK may close its span after the response was sent.
const END_SLACK_NANO: i64 = 50_000_000;
/// Confidence of a link by time within a process, for a span that represents a request.
const BY_COVER: f32 = 0.9;
/// The same for other spans, which may belong to no request.
const BY_COVER_INTERNAL: f32 = 0.7;
/// Confidence of a link by header if only time identifies the process.
const BY_HEADER_AND_TIME: f32 = 0.95;
/// Maximum calls of a trace that are examined.
const MAX_CALLS: usize = 2048;
/// Maximum length of a chain of SDK spans that is followed.
const MAX_CHAIN: usize = 64;

fn covers(request: &Row, row: &Row) -> bool {
    request.covers(row, START_SLACK_NANO, END_SLACK_NANO)
}

const fn is_entry(row: &Row) -> bool {
    matches!(row.kind, Kind::Server | Kind::Consumer)
}

/// The SDK span that the row names as its parent. Zipkin's tracers report both sides of a call
/// under one id. If both halves of a span match the id, the parent is the half of the row's own
/// process. A row that is not known to be of the calling process belongs to the called half.
fn named(index: &Index, row: &Row) -> Option<Slot> {
    if let Some(calling) = calling_twin(index, row) {
        return Some(calling);
    }
    let (trace, parent) = row.trace_id.zip(row.parent_span_id)?;
    let own = |slot: Slot| index.row(slot).same_process(row);
    let named = super::few(index.apps(trace, parent)).min_by_key(|slot| {
        let is_called = Side::of(index.row(*slot).kind) == Side::Called;
        (Reverse(own(*slot)), Reverse(is_called), index.row(*slot).at)
    });
    if !index.has_halves() {
        return named;
    }
    let half = parent.receiving_half();
    // Only a call has a second half. The second half is itself a child of the first.
    let may_have_half =
        named.is_none_or(|slot| matches!(index.row(slot).kind, Kind::Client | Kind::Producer));
    if !may_have_half || row.span_id == half {
        return named;
    }
    let received = super::few(index.apps(trace, half))
        .find(|slot| index.row(*slot).parent_span_id == Some(parent));
    match (named, received) {
        (Some(named), Some(received)) if own(named) && !own(received) => Some(named),
        (named, received) => received.or(named),
    }
}

/// The calling side of a span, if this row is the called side and has the same id without saying
/// so.
fn calling_twin(index: &Index, row: &Row) -> Option<Slot> {
    let trace = row.trace_id.filter(|_| Side::of(row.kind) == Side::Called)?;
    super::few(index.apps(trace, row.span_id))
        .filter(|slot| Side::of(index.row(*slot).kind) == Side::Calling)
        .min_by_key(|slot| index.row(*slot).at)
}

/// The parent of a shared span, for use if the other half never arrives.
fn above(index: &Index, row: &Row) -> Option<Slot> {
    let (trace, above) = row.trace_id.zip(row.above)?;
    super::few(index.apps(trace, above)).min_by_key(|slot| index.row(*slot).at)
}

/// The trace id and span id that the header of the row's request carried.
fn header_of(index: &Index, row: &Row) -> Option<(TraceId, SpanId)> {
    let id = match calling_twin(index, row) {
        Some(_) => Some(row.span_id),
        None => row.parent_span_id,
    };
    row.trace_id.zip(id)
}

/// The SDK ancestors of a span within its process, nearest first.
pub(super) fn ancestors(index: &Index, slot: Slot) -> Vec<Slot> {
    let mut chain = Vec::new();
    let mut at = slot;
    while chain.len() < MAX_CHAIN
        && let Some(parent) = named(index, index.row(at))
        && parent != slot
        && !chain.contains(&parent)
        && index.row(parent).same_process(index.row(slot))
    {
        chain.push(parent);
        at = parent;
    }
    chain
}

/// Whether the row is the topmost known SDK span of its process.
fn is_local_root(index: &Index, row: &Row) -> bool {
    is_entry(row) || named(index, row).is_none_or(|parent| !index.row(parent).same_process(row))
}

/// Rule: the header from which the SDK took its parent came with a captured request.
pub(super) fn request_with_header(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some((trace, parent)) = header_of(index, row) else {
        return Verdict::Nothing;
    };
    let requests = index.with_header(trace, parent);
    // Most spans have no such request and need no further checks.
    if requests.len() == 0 || !is_local_root(index, row) {
        return Verdict::Nothing;
    }
    if requests.len() > MAX_CANDIDATES {
        return Verdict::Several;
    }
    let around: Vec<Slot> = requests
        .filter(|slot| {
            let request = index.row(*slot);
            request.capture == Capture::ServerProcess && covers(request, row)
        })
        .collect();
    let own = |slot: &Slot| index.row(*slot).same_process(row);
    let own: Vec<Slot> = around.iter().copied().filter(own).collect();
    if !own.is_empty() {
        return Verdict::only(narrowed(index, row, own).into_iter(), Evidence::TraceHeader, 1.0);
    }
    if !is_entry(row) {
        return Verdict::Nothing;
    }
    // Proxies pass the header on. The innermost request is the process's own.
    let innermost = around.into_iter().max_by_key(|slot| {
        let request = index.row(*slot);
        (request.start_unix_nano, Reverse(request.span_id))
    });
    innermost.map_or(Verdict::Nothing, |slot| {
        Verdict::child(slot, Evidence::TraceHeader, BY_HEADER_AND_TIME)
    })
}

/// Rule: the parent that the SDK names.
pub(super) fn span_context(index: &Index, _: Slot, row: &Row) -> Verdict {
    named(index, row)
        .or_else(|| above(index, row))
        .map_or(Verdict::Nothing, |slot| Verdict::child(slot, Evidence::SpanContext, 1.0))
}

/// Rule: the SDK reports the client port of its request.
pub(super) fn same_connection(index: &Index, slot: Slot, row: &Row) -> Verdict {
    let Some(port) = row.client_port.filter(|_| is_entry(row)) else { return Verdict::Nothing };
    let requests = requests_around(index, slot).into_iter().filter(|slot| {
        let request = index.row(*slot);
        let server_ports = row.server_port.is_none()
            || request.server_port.is_none()
            || row.server_port == request.server_port;
        request.client_port == Some(port) && server_ports
    });
    Verdict::only(requests, Evidence::Enclosing, 1.0)
}

/// Rule: a call of the fragment carries the SDK's trace id, so the SDK worked for the fragment's
/// request.
pub(super) fn fragment_of_trace(index: &Index, _: Slot, row: &Row) -> Verdict {
    let Some(trace) = row.trace_id else { return Verdict::Nothing };
    let mut found: Option<(Slot, f32)> = None;
    let calls = index.clients_of_trace(trace);
    if calls.len() > MAX_CALLS {
        return Verdict::Nothing;
    }
    for call in calls {
        let call = index.row(call);
        let Some(fragment) = call.fragment_id else { continue };
        if !call.same_process(row) || !row.covers_start(call, START_SLACK_NANO) {
            continue;
        }
        let request =
            index.servers_of_fragment(fragment).find(|slot| covers(index.row(*slot), row));
        let Some(request) = request else { continue };
        // The link is as certain as the least certain of the fragment's calls.
        let confidence = call.confidence.unwrap_or(BY_COVER);
        match &mut found {
            None => found = Some((request, confidence)),
            Some((slot, least)) if *slot == request => *least = least.min(confidence),
            Some(_) => return Verdict::Several,
        }
    }
    found.map_or(Verdict::Nothing, |(slot, confidence)| {
        Verdict::child(slot, Evidence::Enclosing, confidence)
    })
}

/// Rule: the process was serving exactly one request that fits.
pub(super) fn only_request_around(index: &Index, slot: Slot, row: &Row) -> Verdict {
    if !is_local_root(index, row) {
        return Verdict::Nothing;
    }
    let around = narrowed(index, row, requests_around(index, slot));
    let confidence = if is_entry(row) { BY_COVER } else { BY_COVER_INTERNAL };
    Verdict::only(around.into_iter(), Evidence::Enclosing, confidence)
}

fn requests_around(index: &Index, slot: Slot) -> Vec<Slot> {
    index.covering(Sort::Server, slot, START_SLACK_NANO, END_SLACK_NANO)
}

/// The requests that fit best: they have the method and path that the SDK reports, and no header
/// that the SDK would have continued.
fn narrowed(index: &Index, row: &Row, mut requests: Vec<Slot>) -> Vec<Slot> {
    let agree =
        |one: Option<Text>, other: Option<Text>| one.is_none() || other.is_none() || one == other;
    requests.retain(|slot| {
        let request = index.row(*slot);
        agree(row.method, request.method) && agree(row.path, request.path)
    });
    if let Some(port) = row.client_port.filter(|_| is_entry(row))
        && requests.iter().any(|slot| index.row(*slot).client_port == Some(port))
    {
        requests.retain(|slot| index.row(*slot).client_port == Some(port));
    }
    let own = |slot: &Slot| {
        let header = index.row(*slot).trace_id;
        header.is_none() || header == row.trace_id
    };
    if requests.iter().any(own) {
        requests.retain(own);
    }
    requests
}
