//! An example for each rule of the table.

use spanwise_model::{Assembled, Evidence, Kind};

use super::RULES;
use crate::resolve::assemble_all;
use crate::row::Row;
use crate::testing::{app, client, id, jvm, server};

/// Checks the result for the row with this number, for several orders of the rows.
#[track_caller]
fn check(rows: &[Row], number: u64, parent: Option<u64>, evidence: Option<(Evidence, f32)>) {
    for turn in 0..rows.len() {
        let mut rows = rows.to_vec();
        rows.rotate_left(turn);
        let results: Vec<Assembled> = assemble_all(rows.clone());
        let at = rows.iter().position(|row| row.span_id == id(number)).expect("is there");
        let result = results[at];
        assert_eq!(result.parent, parent.map(id), "parent of {number}");
        assert_eq!(result.evidence, evidence.map(|(evidence, _)| evidence), "of {number}");
        assert_eq!(result.confidence, evidence.map(|(_, confidence)| confidence), "of {number}");
    }
}

#[track_caller]
fn child(rows: &[Row], number: u64, parent: u64, evidence: Evidence, confidence: f32) {
    check(rows, number, Some(parent), Some((evidence, confidence)));
}

#[track_caller]
fn root(rows: &[Row], number: u64) {
    check(rows, number, None, None);
}

#[track_caller]
fn ambiguous(rows: &[Row], number: u64) {
    for turn in 0..rows.len() {
        let mut rows = rows.to_vec();
        rows.rotate_left(turn);
        let at = rows.iter().position(|row| row.span_id == id(number)).expect("is there");
        let result = assemble_all(rows.clone())[at];
        assert_eq!((result.parent, result.evidence), (None, Some(Evidence::Ambiguous)));
    }
}

use Evidence::{Enclosing, RequestId, SoleRequest, SpanContext, TcpSequence, Thread, TraceHeader};

#[test]
fn hop_joins_by_both_sequences_at_the_same_time() {
    let call = client(1, "a", 0, 100).hop(7, 8);
    child(&[call, server(2, "b", 10, 90).hop(7, 8)], 2, 1, TcpSequence, 1.0);
    // Another response, protocol, time and clock.
    root(&[call, server(2, "b", 10, 90).hop(7, 9)], 2);
    root(&[call, server(2, "b", 10, 90).hop(7, 8).protocol("redis")], 2);
    root(&[call, server(2, "b", 200, 290).hop(7, 8)], 2);
    child(&[call, server(2, "b", 200, 290).hop(7, 8).on("h2", 1)], 2, 1, TcpSequence, 1.0);
    root(&[call, server(2, "b", 1_200, 1_290).hop(7, 8).on("h2", 1)], 2);
}

#[test]
fn hop_between_hosts_joins_over_any_clocks_where_the_ports_agree_as_well() {
    let call = client(1, "a", 0, 100).hop(7, 8).ports(40_000, 80);
    let served = |from, port| server(2, "b", from, from + 80).hop(7, 8).ports(port, 80);
    child(&[call, served(300_000, 40_000).on("h2", 1)], 2, 1, TcpSequence, 1.0);
    child(&[call, served(-300_000, 40_000).on("h2", 1)], 2, 1, TcpSequence, 1.0);
    root(&[call, served(700_000, 40_000).on("h2", 1)], 2);
    root(&[call, served(300_000, 40_001).on("h2", 1)], 2);
    // One host has one clock.
    root(&[call, served(300_000, 40_000)], 2);
}

#[test]
fn hop_without_a_response_needs_the_ports() {
    let call = client(1, "a", 0, 100).unanswered(7).ports(40_000, 80);
    child(&[call, server(2, "b", 10, 500).hop(7, 8).ports(40_000, 80)], 2, 1, TcpSequence, 1.0);
    root(&[call, server(2, "b", 10, 500).hop(7, 8).ports(40_001, 80)], 2);
    root(&[call, server(2, "b", 10, 500).hop(7, 8)], 2);
}

#[test]
fn both_reports_of_one_side_hang_under_the_other_side() {
    let rows = [
        client(1, "a", 0, 9).hop(7, 8),
        server(2, "b", 1, 8).hop(7, 8),
        server(3, "c", 1, 8).hop(7, 8),
    ];
    child(&rows, 2, 1, TcpSequence, 1.0);
    child(&rows, 3, 1, TcpSequence, 1.0);
}

#[test]
fn hop_by_header_bridges_an_unseen_balancer() {
    let call = client(1, "a", 0, 100).hop(1, 2).context(1, 50);
    let served = server(2, "b", 10, 90).hop(3, 4).context(1, 50);
    child(&[call, served], 2, 1, TraceHeader, 1.0);
    // The call's server side is known, and it is another row.
    let other_end = server(3, "c", 5, 95).hop(1, 2).context(1, 50);
    root(&[call, served, other_end], 2);
}

#[test]
fn an_unseen_call_leaves_the_callers_sdk_span() {
    let rows =
        [app(50, Kind::Client, "a", 0, 100).context(1, 49), server(2, "b", 10, 90).context(1, 50)];
    child(&rows, 2, 50, TraceHeader, 1.0);
}

#[test]
fn a_call_hangs_under_the_sdk_span_that_made_it() {
    let span = app(50, Kind::Client, "a", 0, 100).context(1, 49);
    let call = client(1, "a", 1, 99).context(1, 50).within(5, Thread, 1.0);
    let served = server(2, "a", 0, 110).serves(5);
    child(&[span, call, served], 1, 50, TraceHeader, 1.0);
    // An SDK that reports only its service's name.
    child(&[span.nowhere(), call, served], 1, 50, TraceHeader, 1.0);
}

#[test]
fn a_proxy_that_passes_a_header_on_comes_between() {
    let rows = [
        app(50, Kind::Client, "a", 0, 100).context(1, 49),
        client(1, "a", 1, 99).hop(1, 2).context(1, 50),
        server(2, "proxy", 2, 98).hop(1, 2).context(1, 50),
        client(3, "proxy", 3, 97).hop(3, 4).context(1, 50),
        server(4, "b", 4, 96).hop(3, 4).context(1, 50),
        app(51, Kind::Server, "b", 5, 95).context(1, 50),
    ];
    child(&rows, 1, 50, TraceHeader, 1.0);
    child(&rows, 2, 1, TcpSequence, 1.0);
    child(&rows, 3, 2, TraceHeader, 1.0);
    child(&rows, 4, 3, TcpSequence, 1.0);
    child(&rows, 51, 4, TraceHeader, 1.0);
}

#[test]
fn of_two_requests_with_one_header_the_fragment_decides_or_nothing() {
    let rows = |call: Row| {
        vec![
            server(2, "p", 0, 100).context(1, 50).serves(5),
            server(3, "p", 0, 100).context(1, 50).serves(6),
            call.context(1, 50),
        ]
    };
    child(&rows(client(1, "p", 10, 20).within(6, Thread, 1.0)), 1, 3, TraceHeader, 1.0);
    child(&rows(client(1, "p", 10, 20).within(6, SoleRequest, 0.9)), 1, 3, SoleRequest, 0.9);
    ambiguous(&rows(client(1, "p", 10, 20)), 1);
}

#[test]
fn a_service_that_calls_itself_makes_no_circle() {
    let rows = [
        app(50, Kind::Client, "a", 0, 100).context(1, 49),
        client(1, "a", 1, 99).hop(1, 2).context(1, 50),
        server(2, "a", 1, 98).hop(1, 2).context(1, 50),
    ];
    child(&rows, 1, 50, TraceHeader, 1.0);
    child(&rows, 2, 1, TcpSequence, 1.0);
}

#[test]
fn a_request_id_joins_only_inside_one_process_and_time() {
    let served = server(1, "p", 0, 100).request_id("r");
    child(&[served, client(2, "p", 1, 99).request_id("r").ambiguous()], 2, 1, RequestId, 1.0);
    root(&[served, client(2, "q", 1, 99).request_id("r")], 2);
    root(&[served, client(2, "p", 200, 300).request_id("r")], 2);
    root(&[served, client(2, "p", 1, 99).request_id("x")], 2);
    let twice =
        [served, server(3, "p", 0, 100).request_id("r"), client(2, "p", 1, 99).request_id("r")];
    ambiguous(&twice, 2);
}

#[test]
fn a_sure_fragment_beats_a_request_id_that_everyone_sends() {
    let rows = [
        server(1, "p", 0, 100).request_id("r").serves(5),
        client(2, "p", 1, 99).request_id("r").within(6, Thread, 1.0),
        server(3, "p", 0, 100).serves(6),
    ];
    child(&rows, 2, 3, Thread, 1.0);
}

#[test]
fn an_sdk_span_covers_the_query_that_it_made() {
    let query = client(1, "a", 11, 19).protocol("redis").within(5, Thread, 1.0);
    let served = server(2, "a", 0, 100).serves(5).context(1, 40);
    let entry = app(50, Kind::Server, "a", 1, 99).context(1, 40);
    let span = app(51, Kind::Client, "a", 10, 20).context(1, 50).protocol("redis");
    let rows = [query, served, entry, span];
    child(&rows, 1, 51, Enclosing, 0.9);
    // The inner one of two nested spans.
    let inner = app(52, Kind::Client, "a", 10, 20).context(1, 51).protocol("redis");
    let nested = [query, served, entry, span, inner];
    child(&nested, 1, 52, Enclosing, 0.9);
    // Another protocol, and a span of another request.
    let sql = app(51, Kind::Client, "a", 10, 20).context(1, 50).protocol("postgresql");
    child(&[query, served, entry, sql], 1, 2, Thread, 1.0);
    let others = [
        query,
        served,
        server(3, "a", 0, 100).serves(6).context(2, 41),
        app(60, Kind::Server, "a", 1, 99).context(2, 41),
        app(61, Kind::Client, "a", 10, 20).context(2, 60).protocol("redis"),
    ];
    child(&others, 1, 2, Thread, 1.0);
}

#[test]
fn a_call_hangs_under_the_span_in_which_its_thread_worked() {
    let call = client(1, "a", 11, 30).protocol("redis").within(5, Thread, 1.0).in_span(51);
    let served = server(2, "a", 0, 100).serves(5).ports(40_001, 80);
    let entry = jvm(50, Kind::Server, "a", 1, 99).context(1, 0).ports(40_001, 80);
    let lookup = jvm(51, Kind::Internal, "a", 10, 20).context(1, 50);
    let rows = [call, served, entry, lookup];
    // It is answered after the span.
    child(&rows, 1, 51, Evidence::CurrentSpan, 1.0);
    child(&rows, 50, 2, Enclosing, 1.0);
    // The agent kept no such span, it was over, or it is another process's.
    child(&rows[..3], 1, 2, Thread, 1.0);
    let over = jvm(51, Kind::Internal, "a", 1, 2).context(1, 50);
    child(&[call, served, entry, over], 1, 2, Thread, 1.0);
    let other = jvm(51, Kind::Internal, "b", 10, 20).context(1, 50);
    child(&[call, served, entry, other], 1, 2, Thread, 1.0);
}

#[test]
fn a_fragment_is_as_sure_as_the_agent_says() {
    let served = server(1, "a", 0, 100).serves(5);
    let call = client(2, "a", 1, 9);
    child(&[served, call.within(5, Thread, 1.0)], 2, 1, Thread, 1.0);
    child(&[served, call.within(5, Evidence::Task, 1.0)], 2, 1, Evidence::Task, 1.0);
    child(&[served, call.within(5, Evidence::Turn, 0.95)], 2, 1, Evidence::Turn, 0.95);
    child(&[served, call.within(5, SoleRequest, 0.9)], 2, 1, SoleRequest, 0.9);
    ambiguous(&[served, call.ambiguous()], 2);
    // The request is still running. The fragment's evidence is kept for later.
    check(&[call.within(5, Thread, 1.0)], 2, None, Some((Thread, 1.0)));
}

#[test]
fn a_program_that_copies_headers_and_was_not_seen_to_get_them() {
    let rows =
        [app(50, Kind::Client, "a", 0, 100).context(1, 49), client(1, "b", 5, 90).context(1, 50)];
    child(&rows, 1, 50, TraceHeader, 0.9);
}

#[test]
fn an_sdk_entry_hangs_under_the_request_with_its_header() {
    let entry = app(50, Kind::Server, "a", 1, 99).context(1, 40);
    let served = server(1, "a", 0, 100).context(1, 40);
    child(&[entry, served], 50, 1, TraceHeader, 1.0);
    // This holds although the SDK span that made the call is known, too.
    let caller = app(40, Kind::Client, "c", 0, 100).context(1, 39);
    child(&[entry, served, caller], 50, 1, TraceHeader, 1.0);
    child(&[entry, caller], 50, 40, SpanContext, 1.0);
    // If no name matches, the innermost request with the header is the parent.
    let outer = server(1, "proxy", 0, 100).context(1, 40);
    let inner = server(2, "other-name", 1, 100).context(1, 40);
    child(&[entry.nowhere(), outer, inner], 50, 2, TraceHeader, 0.95);
}

#[test]
fn sdk_spans_hang_under_each_other() {
    let rows = [
        app(50, Kind::Server, "a", 0, 9).context(1, 0),
        app(51, Kind::Internal, "a", 1, 8).context(1, 50),
    ];
    child(&rows, 51, 50, SpanContext, 1.0);
    root(&rows, 50);
}

#[test]
fn an_sdk_root_finds_its_connection() {
    let rows = [
        server(1, "a", 0, 100).ports(40_000, 80),
        server(2, "a", 0, 100).ports(40_001, 80),
        app(50, Kind::Server, "a", 1, 99).context(1, 0).ports(40_001, 80),
    ];
    child(&rows, 50, 2, Enclosing, 1.0);
}

#[test]
fn an_sdk_root_finds_the_fragment_that_carries_its_trace_on() {
    let rows = |sure: f32| {
        [
            server(1, "a", 0, 100).serves(5),
            server(2, "a", 0, 100).serves(6),
            app(50, Kind::Server, "a", 1, 99).context(1, 0),
            client(3, "a", 10, 20).context(1, 51).within(6, Thread, sure),
        ]
    };
    child(&rows(1.0), 50, 2, Enclosing, 1.0);
    child(&rows(0.9), 50, 2, Enclosing, 0.9);
}

#[test]
fn an_sdk_root_finds_the_only_request_around_it() {
    let entry = app(50, Kind::Server, "a", 1, 99).context(1, 0).get("/x");
    let other = server(2, "a", 0, 100).get("/y");
    child(&[entry, server(1, "a", 0, 100).get("/x"), other], 50, 1, Enclosing, 0.9);
    root(&[entry, other], 50);
    ambiguous(&[entry, server(1, "a", 0, 100).get("/x"), server(2, "a", 0, 100).get("/x")], 50);
    let job = app(50, Kind::Internal, "a", 1, 99).context(1, 0);
    child(&[job, server(1, "a", 0, 100)], 50, 1, Enclosing, 0.7);
}

#[test]
fn every_rule_says_what_it_is() {
    for rule in RULES {
        assert!(!rule.applies_to.is_empty() && !rule.parent_is.is_empty(), "{}", rule.name);
        let word = rule.evidence.split([' ', ',']).next().unwrap_or_default();
        assert!(word.parse::<Evidence>().is_ok(), "{}", rule.evidence);
    }
}

/// Both halves of a span that client and server report under one id.
fn shared(number: u64) -> [Row; 2] {
    let half = id(number).receiving_half();
    let call = app(number, Kind::Client, "front", 10, 90).context(1, 1);
    let mut answer = app(number + 1, Kind::Server, "back", 20, 80).context(1, number);
    answer.span_id = half;
    [call, answer]
}

#[test]
fn a_shared_span_shows_both_sides() {
    let [call, answer] = shared(10);
    let half = answer.span_id.as_u64();
    let root = app(1, Kind::Server, "front", 0, 100).context(1, 99);
    let work = app(20, Kind::Internal, "back", 30, 70).context(1, 10);
    let connect = app(21, Kind::Internal, "front", 11, 15).context(1, 10);
    let rows = [root, call, answer, work, connect];
    child(&rows, 10, 1, SpanContext, 1.0);
    child(&rows, half, 10, SpanContext, 1.0);
    // The spans of each process are children of its own half.
    child(&rows, 20, half, SpanContext, 1.0);
    child(&rows, 21, 10, SpanContext, 1.0);
}

#[test]
fn a_shared_span_of_which_one_side_is_missing_is_no_riddle() {
    let [call, answer] = shared(10);
    let half = answer.span_id.as_u64();
    let work = app(20, Kind::Internal, "back", 30, 70).context(1, 10);
    child(&[answer, work], 20, half, SpanContext, 1.0);
    root(&[answer, work], half);
    child(&[call, work], 20, 10, SpanContext, 1.0);
    // A third process: its span belongs to the called side.
    let other = app(22, Kind::Internal, "other", 30, 70).context(1, 10);
    child(&[call, answer, other], 22, half, SpanContext, 1.0);
}

#[test]
fn two_sides_with_one_id_are_told_apart_by_what_they_are() {
    let call = app(10, Kind::Client, "front", 10, 90).context(1, 0);
    let answer = app(10, Kind::Server, "back", 20, 80).context(1, 0);
    let work = app(20, Kind::Internal, "back", 30, 70).context(1, 10);
    let other = app(22, Kind::Internal, "other", 30, 70).context(1, 10);
    for rows in
        [[call, answer, work, other], [answer, work, other, call], [work, answer, call, other]]
    {
        let rows: Vec<Row> = (0..)
            .zip(rows)
            .map(|(row, it)| Row { at: spanwise_model::RowRef { batch: 1, row }, ..it })
            .collect();
        let found = assemble_all(rows.iter().copied());
        let of = |wanted: Row| {
            let is_it = |row: &&Row| (row.span_id, row.kind) == (wanted.span_id, wanted.kind);
            let at = rows.iter().find(is_it).map(|row| row.at);
            found.iter().find(|one| Some(one.row) == at).map(|one| (one.parent, one.evidence))
        };
        assert_eq!(of(call), Some((None, None)));
        assert_eq!(of(answer), Some((Some(id(10)), Some(SpanContext))));
        assert_eq!(of(work), Some((Some(id(10)), Some(SpanContext))));
    }
}

#[test]
fn a_shared_span_whose_calling_half_never_comes_hangs_under_the_span_above_it() {
    let [call, mut answer] = shared(10);
    let half = answer.span_id.as_u64();
    let root_row = app(1, Kind::Server, "front", 0, 100).context(1, 0);
    answer.above = Some(id(1));
    let work = app(20, Kind::Internal, "back", 30, 70).context(1, 10);
    child(&[root_row, answer, work], half, 1, SpanContext, 1.0);
    child(&[root_row, answer, work], 20, half, SpanContext, 1.0);
    // When the calling side arrives, it becomes the parent, even if another result was reported
    // before.
    let prior = spanwise_model::TraceId([1; 16]);
    answer.prior = Some(crate::row::Prior { trace_id: prior, parent: Some(id(1)) });
    (answer.evidence, answer.confidence) = (Some(SpanContext), Some(1.0));
    child(&[root_row, call, answer, work], half, 10, SpanContext, 1.0);
    child(&[root_row, answer, work], half, 1, SpanContext, 1.0);
}

#[test]
fn the_kernel_sees_a_shared_span_too() {
    let [sdk_call, sdk_answer] = shared(10);
    let half = sdk_answer.span_id.as_u64();
    let call = client(30, "front", 12, 88).hop(7, 8).context(1, 10);
    let request = server(40, "back", 18, 82).hop(7, 8).context(1, 10);
    let rows = [sdk_call, sdk_answer, call, request];
    child(&rows, 30, 10, TraceHeader, 1.0);
    child(&rows, 40, 30, TcpSequence, 1.0);
    child(&rows, half, 40, TraceHeader, 1.0);
}
