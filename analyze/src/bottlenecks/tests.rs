use super::*;
use crate::chains::{Chains, Operation};

const MS: i64 = 1_000_000;

/// Service, place of the caller, start and end in milliseconds, whether it failed.
type Told = (&'static str, Option<usize>, i64, i64, bool);

fn named(service: &str) -> Operation {
    Operation { service: service.to_owned(), operation: "do".to_owned() }
}

fn found(runs: &[Vec<Told>]) -> Found {
    let (mut chains, mut bottlenecks) = (Chains::default(), Bottlenecks::default());
    for (number, run) in runs.iter().enumerate() {
        let call = |(service, parent, from, to, failed): &Told| ChainCall {
            service,
            operation: "do",
            parent: *parent,
            start_unix_nano: from * MS,
            end_unix_nano: to * MS,
            served_unix_nano: (from * MS, to * MS),
            self_nano: 0,
            failed: *failed,
            asynchronous: false,
        };
        let calls: Vec<ChainCall<'_>> = run.iter().map(call).collect();
        let id = TraceId([number as u8 + 1; 16]);
        chains.add_calls(id, &calls);
        bottlenecks.add_calls(id, &calls);
    }
    bottlenecks.found(&chains, |_| true)
}

#[test]
fn the_critical_path_goes_from_the_end_to_the_start() {
    // `side` runs beside `long`, which the run waits for.
    let run: Vec<Told> = vec![
        ("shop", None, 0, 100, false),
        ("long", Some(0), 10, 80, false),
        ("side", Some(0), 10, 70, false),
        ("db", Some(1), 20, 50, false),
        ("last", Some(0), 85, 95, false),
    ];
    let found = found(&[run]);
    let critical = |service: &str| {
        let share = found.shares.iter().find(|share| share.place.called == named(service));
        let share = share.expect("is there");
        (share.critical_nano / MS as u128, (share.critical_share * 100.0).round())
    };
    // 5 after `last`, 5 before it, and 10 at the start.
    assert_eq!(critical("shop"), (20, 20.0));
    assert_eq!(critical("last"), (10, 10.0));
    assert_eq!(critical("long"), (40, 40.0));
    assert_eq!(critical("db"), (30, 30.0));
    assert_eq!(critical("side"), (0, 0.0));
}

#[test]
fn calls_again_and_again_are_repeated_and_after_failures_retried() {
    let mut repeated: Vec<Told> = vec![("shop", None, 0, 100, false)];
    repeated.extend((0..8).map(|at| ("db", Some(0), 10 * at, 10 * at + 5, false)));
    let mut few = repeated.clone();
    few.truncate(5);
    let retried: Vec<Told> = vec![
        ("shop", None, 0, 100, false),
        ("db", Some(0), 0, 10, true),
        ("db", Some(0), 20, 30, true),
        ("db", Some(0), 50, 60, false),
    ];
    let found = found(&[repeated, few, retried]);
    let [one] = found.repeated.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.callers, one.calls, one.nano), (1, 8, 40 * MS as u128));
    assert_eq!(one.most, (8, TraceId([1; 16])), "four calls are not many");
    assert_eq!(one.place.caller, Some(named("shop")));
    let [one] = found.retried.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.attempts, one.rescued, one.calls), (2, 1, 15));
    assert_eq!((one.nano, one.most), (50 * MS as u128, (3, TraceId([3; 16]))));
    assert!(found.fan_outs.is_empty() && found.sequential.is_empty(), "{found:?}");
}

#[test]
fn calls_at_a_time_are_a_fan_out() {
    let mut run: Vec<Told> = vec![("shop", None, 0, 100, false)];
    run.extend((0..12).map(|at| ("db", Some(0), at, 50 + at, false)));
    // One that begins when another ends is not beside it.
    run.push(("db", Some(0), 50, 60, false));
    let found = found(&[run]);
    let [one] = found.fan_outs.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.callers, one.most.0, &one.place.called), (1, 12, &named("shop")));
    assert!(found.repeated.is_empty(), "{found:?}");
}

#[test]
fn calls_one_after_another_are_proven_by_either_order_or_by_failures() {
    let run = |first, second, failed| -> Vec<Told> {
        vec![
            ("shop", None, 0, 100, false),
            (first, Some(0), 10, 40, failed),
            (second, Some(0), 45, 95, false),
        ]
    };
    let proven = |runs: &[Vec<Told>]| {
        let found = found(runs);
        let [one] = found.sequential.as_slice() else { panic!("{found:?}") };
        assert_eq!((&one.first, &one.second), (&named("stock"), &named("user")));
        assert_eq!(one.saved_nano, runs.len() as u128 * 30 * MS as u128);
        one.is_proven
    };
    let usual = || vec![run("stock", "user", false); 20];
    assert!(!proven(&usual()), "`user` may need what `stock` answers");
    let mut either = usual();
    either.extend(vec![run("user", "stock", false); 5]);
    assert!(proven(&either));
    let mut failed = usual();
    failed.extend(vec![run("stock", "user", true); 5]);
    assert!(proven(&failed));
    assert!(!proven(&vec![run("stock", "user", true); 20]), "it is called because of failures");
    assert!(found(&vec![run("stock", "user", false); 9]).sequential.is_empty(), "too few");
    let mut beside = usual();
    let mut overlapped = run("stock", "user", false);
    overlapped[2].2 = 20;
    beside.extend(vec![overlapped; 5]);
    assert!(found(&beside).sequential.is_empty(), "it does run them at the same time");
}
