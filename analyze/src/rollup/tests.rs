use std::collections::BTreeMap;

use proptest::prelude::*;
use spanwise_model::TraceId;

use super::*;

const MS: i64 = 1_000_000;
const START: i64 = 1_750_000_020_000_000_000;

/// A trace of `calls` calls of the stock after this many minutes.
fn trace(minute: i64, calls: usize, failed: bool) -> Vec<ChainCall<'static>> {
    let call = |place: usize| {
        let from = START + minute * MINUTE_NANO + place as i64 * 10 * MS;
        ChainCall {
            service: if place == 0 { "checkout" } else { "stock" },
            operation: "do",
            parent: (place > 0).then_some(0),
            start_unix_nano: from,
            end_unix_nano: from + if place == 0 { 100 * MS } else { 5 * MS },
            served_unix_nano: (from, from),
            self_nano: 5 * MS,
            failed: failed && place > 0,
            asynchronous: false,
        }
    };
    (0..=calls).map(call).collect()
}

fn id(number: usize) -> TraceId {
    let mut id = [1; 16];
    id[8..].copy_from_slice(&number.to_be_bytes());
    TraceId(id)
}

/// What a reader of a minute sees.
fn figures(minute: &Minute) -> BTreeMap<String, [u64; 4]> {
    let of = |timed: &Timed| {
        let micros = (timed.self_nano / 1_000) as u64;
        [timed.calls, timed.failures, timed.durations.count(), micros]
    };
    let mut seen = BTreeMap::new();
    for (key, timed) in minute.operations() {
        seen.insert(key.join(" "), of(timed));
    }
    for (caller, called, timed) in minute.edges() {
        seen.insert(format!("{} > {}", caller.join(" "), called.join(" ")), of(timed));
    }
    for chain in minute.chains().chains() {
        for node in chain.nodes {
            let figures = &node.figures;
            let follow = &figures.below_caller;
            let key = format!("chain {} {}", node.level, node.service);
            let counts = [figures.calls, figures.failures, figures.runs, follow.successes];
            seen.insert(key, counts);
        }
    }
    seen
}

fn total(parts: &BTreeMap<i64, Vec<Part>>, number: i64) -> BTreeMap<String, [u64; 4]> {
    let mut sum = Minute::default();
    let parts = &parts[&number];
    parts.iter().for_each(|part| sum.merge(&part.added));
    parts.iter().filter_map(|part| part.removed.as_ref()).for_each(|part| sum.subtract(part));
    figures(&sum)
}

#[test]
fn a_trace_that_changes_is_counted_once_as_it_is_in_the_end() {
    let mut rollup = Rollup::new(RollupConfig::default());
    let mut wanted = Rollup::new(RollupConfig::default());
    rollup.settle(id(1), &trace(0, 1, true));
    rollup.settle(id(2), &trace(0, 2, false));
    // Its late spans arrive.
    rollup.settle(id(1), &trace(0, 3, false));
    wanted.settle(id(1), &trace(0, 3, false));
    wanted.settle(id(2), &trace(0, 2, false));
    let of =
        |rollup: &Rollup| rollup.open().map(|(_, part)| figures(&part.added)).collect::<Vec<_>>();
    assert_eq!(of(&rollup), of(&wanted));
    assert_eq!(of(&rollup)[0]["checkout do > stock do"], [5, 0, 5, 25_000]);
    assert_eq!(
        rollup.counters,
        RollupCounters { traces: 2, corrected: 1, ..RollupCounters::default() }
    );
}

fn store(rollup: &mut Rollup, stored: &mut BTreeMap<i64, Vec<Part>>) {
    for (number, part) in rollup.take_before(i64::MAX) {
        stored.entry(number).or_default().push(part);
    }
}

#[test]
fn a_stored_minute_is_corrected_by_a_part_of_its_own() {
    let mut rollup = Rollup::new(RollupConfig::default());
    let mut stored: BTreeMap<i64, Vec<Part>> = BTreeMap::new();
    rollup.settle(id(1), &trace(0, 1, true));
    rollup.settle(id(2), &trace(0, 2, false));
    store(&mut rollup, &mut stored);
    // The first changes twice, once in the open part; it also moves to another minute.
    rollup.settle(id(1), &trace(0, 3, false));
    rollup.settle(id(1), &trace(1, 4, false));
    store(&mut rollup, &mut stored);
    let number = START.div_euclid(MINUTE_NANO);
    let mut wanted = Minute::default();
    wanted.add(id(2), &trace(0, 2, false), &mut minute::Scratch::default());
    assert_eq!(total(&stored, number), figures(&wanted));
    assert_eq!(total(&stored, number + 1)["checkout do > stock do"], [4, 0, 4, 20_000]);
}

#[test]
fn what_is_kept_for_corrections_is_bounded_and_late_changes_are_counted() {
    let config = RollupConfig { kept_calls: 10, known_traces: 2, ..RollupConfig::default() };
    let mut rollup = Rollup::new(config);
    (0..6).for_each(|number| rollup.settle(id(number), &trace(0, 3, false)));
    assert_eq!((rollup.kept_calls, rollup.kept.len(), rollup.known.len()), (8, 2, 2));
    rollup.settle(id(5), &trace(0, 1, false));
    rollup.settle(id(3), &trace(0, 1, false));
    assert_eq!(
        rollup.counters,
        RollupCounters { traces: 6, corrected: 1, changed_too_late: 1, left_out: 0 }
    );
    let (_, part) = rollup.open().next().expect("a minute");
    assert_eq!(figures(&part.added)["stock do"][0], 5 * 3 + 1);
    assert!(rollup.order.len() <= 4);
}

#[test]
fn names_and_minutes_are_bounded() {
    let config = RollupConfig { names: 3, minutes: 2, ..RollupConfig::default() };
    let mut rollup = Rollup::new(config);
    let names: Vec<String> = (0..50).map(|number| format!("GET /{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let mut calls = trace(number as i64, 1, false);
        calls[1].operation = name;
        rollup.settle(id(number), &calls);
        assert!(rollup.names.len() <= 3 + 3);
        if rollup.is_full() {
            assert_eq!(rollup.take_before(0).len(), 1);
        }
    }
    assert_eq!(rollup.open().count(), 2);
    // A trace whose names were forgotten is not counted twice.
    rollup.settle(id(0), &trace(0, 1, false));
    assert_eq!(rollup.counters.changed_too_late, 1);
}

fn minute(traces: &[(i64, usize, bool)]) -> Minute {
    let mut minute = Minute::default();
    for (number, (at, calls, failed)) in traces.iter().enumerate() {
        minute.add(id(number), &trace(*at, *calls, *failed), &mut minute::Scratch::default());
    }
    minute
}

#[test]
fn bytes_of_a_later_program_are_refused() {
    let mut bytes = minute(&[(0, 2, false)]).to_bytes();
    bytes[0] = 9;
    let told = Minute::from_bytes(&bytes).map(|_| ()).expect_err("is refused");
    assert_eq!(told, RollupError::Version(9));
    assert!(told.to_string().contains("later Spanwise"), "{told}");
    assert!(Minute::from_bytes(&[]).is_err());
}

#[test]
fn the_first_form_stays_readable() {
    // Written once; it must not be changed.
    let bytes = include_bytes!("first-form.bin");
    let minute = Minute::from_bytes(bytes).expect("is readable");
    assert_eq!(figures(&minute), figures(&self::minute(&[(0, 2, false), (0, 3, true)])));
    assert_eq!(minute.chains().chains()[0].total.runs, 2);
}

proptest! {
    #[test]
    fn bytes_hold_all_and_minutes_merge_in_any_order(
        traces in prop::collection::vec((0..3i64, 0..5usize, any::<bool>()), 1..20),
        half in 0..20usize,
    ) {
        let whole = minute(&traces);
        let bytes = whole.to_bytes();
        let read = Minute::from_bytes(&bytes).expect("is readable");
        prop_assert_eq!(&read.to_bytes(), &bytes);
        prop_assert!(read.chains() == whole.chains());
        prop_assert_eq!(figures(&read), figures(&whole));
        let (one, two) = traces.split_at(half.min(traces.len()));
        let mut merged = minute(two);
        merged.merge(&minute(one));
        prop_assert_eq!(figures(&merged), figures(&whole));
        merged.subtract(&minute(two));
        prop_assert_eq!(figures(&merged), figures(&minute(one)));
    }

    #[test]
    fn damaged_bytes_are_refused_or_readable(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = minute(&[(0, 2, false), (0, 3, true), (1, 0, false)]).to_bytes();
        let mut bytes = whole.clone();
        prop_assert!(Minute::from_bytes(&bytes[..cut.index(bytes.len())]).is_err());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(mut minute) = Minute::from_bytes(&bytes) {
            // What is readable can be used.
            minute.merge(&Minute::from_bytes(&whole).expect("is readable"));
            figures(&minute);
            minute.to_bytes();
        }
    }
}
