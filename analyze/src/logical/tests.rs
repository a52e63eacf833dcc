use spanwise_model::{Kind, TraceId};

use super::*;

const MINUTE: i64 = 60_000_000_000;

fn visit(trace: u8, service: &'static str, from: i64, to: i64, failed: bool) -> Visit<'static> {
    Visit {
        trace_id: TraceId([trace; 16]),
        service,
        operation: "do",
        kind: Kind::Server,
        start_unix_nano: from * MINUTE,
        end_unix_nano: to * MINUTE,
        failed,
        links: &[],
    }
}

#[test]
fn a_timeline_has_steps_gaps_retries_and_hand_offs() {
    let mut packed = visit(1, "packing", 5, 7, false);
    packed.kind = Kind::Consumer;
    let visits = [
        // In another order than that of time.
        visit(3, "shipping", 120, 121, false),
        visit(1, "checkout", 0, 4, false),
        visit(1, "checkout", 1, 2, false),
        visit(1, "stock", 1, 3, false),
        packed,
        visit(2, "shipping", 60, 61, true),
    ];
    let timeline = Timeline::of(&visits, 30 * MINUTE);
    let steps: Vec<_> = (timeline.steps.iter())
        .map(|step| (step.service, step.spans, step.attempt, step.is_message))
        .collect();
    let expected = [
        ("checkout", 2, 1, false),
        ("stock", 1, 1, false),
        ("packing", 1, 1, true),
        ("shipping", 1, 1, false),
        ("shipping", 1, 2, false),
    ];
    assert_eq!(steps, expected);
    let gap = |after, before, minutes| Gap { after, before, nano: minutes * MINUTE };
    assert_eq!(timeline.gaps, [gap(2, 3, 53), gap(3, 4, 59)]);
    let hand = |from, to, minutes, evidence| HandOff { from, to, nano: minutes * MINUTE, evidence };
    let expected = [hand(1, 2, 4, HandOffEvidence::Message), hand(2, 3, 55, HandOffEvidence::Time)];
    assert_eq!(timeline.hand_offs, expected);
    assert_eq!((timeline.traces, timeline.busy_nano, timeline.left_out), (3, 8 * MINUTE, 0));
    assert_eq!(Timeline::of(&[], MINUTE), Timeline::default());
}

#[test]
fn a_success_ends_the_attempts_and_what_runs_beside_is_none() {
    let visits = [
        visit(1, "pay", 0, 2, true),
        visit(2, "pay", 1, 3, true),
        visit(3, "pay", 4, 5, false),
        visit(4, "pay", 6, 7, true),
    ];
    let attempts: Vec<_> =
        Timeline::of(&visits, MINUTE).steps.iter().map(|step| step.attempt).collect();
    assert_eq!(attempts, [1, 1, 2, 1]);
}

#[test]
fn a_timeline_is_bounded_and_says_what_is_left_out() {
    let many: Vec<Visit<'_>> =
        (0..MAX_STEPS as i64 + 5).map(|at| visit(1, "a", at * 2, at * 2 + 1, false)).collect();
    let timeline = Timeline::of(&many, 2 * MINUTE);
    assert_eq!((timeline.steps.len(), timeline.left_out), (MAX_STEPS, 5));
}

#[test]
fn a_link_is_better_than_time() {
    let linked = [TraceId([1; 16])];
    let mut received = visit(3, "mail", 9, 10, false);
    received.kind = Kind::Consumer;
    let mut known = visit(4, "ship", 11, 12, false);
    known.links = &linked;
    let visits = [visit(1, "shop", 0, 1, false), visit(2, "stock", 5, 6, false), received, known];
    let timeline = Timeline::of(&visits, 60 * MINUTE);
    let hands: Vec<_> =
        timeline.hand_offs.iter().map(|hand| (hand.from, hand.to, hand.evidence)).collect();
    let expected = [
        (0, 1, HandOffEvidence::Time),
        (1, 2, HandOffEvidence::MessageInTime),
        (0, 3, HandOffEvidence::Link),
    ];
    assert_eq!(hands, expected);
}
