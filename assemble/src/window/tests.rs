//! The window over time, compared with assembling all rows at once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use spanwise_model::{Assembled, Evidence, Kind, RowRef, SpanId, TraceId};

use super::{Window, WindowConfig};
use crate::resolve::assemble_all;
use crate::row::Row;
use crate::testing::{app, client, id, jvm, server, trace};
use crate::text::Text;

const MS: u64 = 1_000_000;

fn window() -> Window {
    Window::new(WindowConfig::default())
}

fn told(results: &[Assembled], number: u64) -> Option<(Option<SpanId>, TraceId)> {
    let row = RowRef { batch: 1, row: u32::try_from(number).expect("small") };
    results.iter().find(|result| result.row == row).map(|result| (result.parent, result.trace_id))
}

/// A request from `a` to `b`, which calls `c`. Sequence numbers start at `seq`.
fn chain(first: u64, seq: u32, start: i64) -> Vec<Row> {
    let fragment = u64::from(seq);
    vec![
        client(first, "a", start, start + 100).hop(seq, seq + 1),
        server(first + 1, "b", start + 1, start + 99).hop(seq, seq + 1).serves(fragment),
        client(first + 2, "b", start + 10, start + 50).hop(seq + 2, seq + 3).within(
            fragment,
            Evidence::Thread,
            1.0,
        ),
        server(first + 3, "c", start + 11, start + 49).hop(seq + 2, seq + 3).serves(fragment + 1),
    ]
}

#[test]
fn a_quiet_group_is_told_whole_and_once() {
    let mut window = window();
    let rows = chain(1, 100, 0);
    window.push_rows(rows[..2].to_vec(), 0);
    assert!(window.poll(300 * MS).is_empty(), "not quiet yet");
    window.push_rows(rows[2..].to_vec(), 300 * MS);
    assert!(window.poll(600 * MS).is_empty(), "a further row came meanwhile");
    let results = window.poll(700 * MS);
    assert_eq!(results.len(), 4);
    let parents: Vec<_> = (1..=4).map(|n| told(&results, n).expect("told").0).collect();
    assert_eq!(parents, [None, Some(id(1)), Some(id(2)), Some(id(3))]);
    let ids: BTreeSet<_> = results.iter().map(|result| result.trace_id).collect();
    assert_eq!(ids.len(), 1);
    assert!(window.poll(60_000 * MS).is_empty());
    assert_eq!(window.rows(), 0, "forgotten");
    assert_eq!((window.counters().told, window.counters().changed), (4, 0));
}

#[test]
fn nothing_waits_longer_than_the_longest_wait() {
    let mut window = window();
    for step in 0..10u64 {
        let call = client(step + 1, "a", 0, 9).context(1, 99);
        window.push_rows([call], step * 300 * MS);
        let results = window.poll(step * 300 * MS);
        assert_eq!(results.is_empty(), step * 300 < 2_000, "at step {step}");
        if !results.is_empty() {
            return;
        }
    }
}

#[test]
fn a_late_parent_changes_what_was_told_and_keeps_the_trace() {
    let mut window = window();
    let rows = chain(1, 100, 0);
    window.push_rows(rows[2..].to_vec(), 0);
    let first = window.poll(400 * MS);
    let trace = told(&first, 3).expect("told").1;
    assert_eq!(told(&first, 3), Some((None, trace)));
    // The request ends ten seconds later.
    window.push_rows(rows[..2].to_vec(), 10_000 * MS);
    let second = window.poll(10_400 * MS);
    assert_eq!(told(&second, 3), Some((Some(id(2)), trace)));
    assert_eq!(told(&second, 1), Some((None, trace)));
    assert_eq!(told(&second, 4), None, "nothing new about it");
    assert_eq!(window.counters().changed, 1);
}

#[test]
fn a_header_found_late_names_the_trace() {
    let mut window = window();
    let rows = chain(1, 100, 0);
    window.push_rows(rows[2..].to_vec(), 0);
    assert_ne!(told(&window.poll(400 * MS), 3).expect("told").1, trace(7));
    window.push_rows([rows[0], rows[1].context(7, 99)], 500 * MS);
    let results = window.poll(900 * MS);
    for number in 1..=4 {
        assert_eq!(told(&results, number).map(|told| told.1), Some(trace(7)));
    }
}

#[test]
fn reused_sequences_make_two_traces() {
    let mut window = window();
    window.push_rows(chain(1, 100, 0), 0);
    window.push_rows(chain(11, 100, 5_000).into_iter().map(other_fragments), 5_000 * MS);
    let results = window.flush(6_000 * MS);
    let ids: BTreeSet<_> = results.iter().map(|result| result.trace_id).collect();
    assert_eq!((results.len(), ids.len()), (8, 2));
    assert_eq!(told(&results, 12).expect("told").0, Some(id(11)));
}

fn other_fragments(mut row: Row) -> Row {
    row.fragment_id = row.fragment_id.map(|fragment| fragment + 1_000);
    row
}

#[test]
fn an_sdk_span_that_comes_seconds_later_is_woven_in() {
    let mut window = window();
    window.push_rows(chain(1, 100, 0), 0);
    let first = window.poll(400 * MS);
    let early = told(&first, 1).expect("told").1;
    window.push_rows([app(50, Kind::Server, "b", 2, 98).context(7, 0)], 5_000 * MS);
    let results = window.poll(5_400 * MS);
    assert_eq!(told(&results, 50), Some((Some(id(2)), trace(7))));
    assert_ne!(early, trace(7));
    assert_eq!(told(&results, 1), Some((None, trace(7))), "all of it is one trace now");
}

#[test]
fn a_request_that_comes_after_its_sdk_span_takes_it() {
    let mut window = window();
    window.push_rows([app(50, Kind::Server, "b", 2, 98).context(7, 0)], 0);
    assert_eq!(told(&window.poll(400 * MS), 50), Some((None, trace(7))));
    window.push_rows(chain(1, 100, 0), 1_000 * MS);
    assert_eq!(told(&window.poll(1_400 * MS), 50), Some((Some(id(2)), trace(7))));
    // A second request covers the span, so the candidate is no longer unique.
    window.push_rows([server(60, "b", 0, 120)], 2_000 * MS);
    let results = window.poll(2_400 * MS);
    assert_eq!(told(&results, 50), Some((None, trace(7))));
    let ambiguous = results.iter().any(|r| r.evidence == Some(Evidence::Ambiguous));
    assert!(ambiguous, "{results:?}");
}

#[test]
fn a_span_that_comes_later_takes_the_calls_that_its_thread_made() {
    let mut window = window();
    let call = client(1, "a", 11, 19).protocol("redis").within(5, Evidence::Thread, 1.0);
    let request = server(2, "a", 0, 100).serves(5).ports(40_001, 80);
    window.push_rows(vec![call.in_span(51), request], 0);
    assert_eq!(told(&window.poll(400 * MS), 1).expect("told").0, Some(id(2)));
    let work = jvm(51, Kind::Internal, "a", 10, 20).context(1, 50);
    let entry = jvm(50, Kind::Server, "a", 1, 99).context(1, 0).ports(40_001, 80);
    window.push_rows(vec![work, entry], 1_000 * MS);
    let results = window.poll(1_400 * MS);
    let parents: Vec<_> = [1, 51, 50].map(|n| told(&results, n).expect("told").0).into();
    assert_eq!(parents, [Some(id(51)), Some(id(50)), Some(id(2))]);
    let traces: BTreeSet<_> = results.iter().map(|result| result.trace_id).collect();
    assert_eq!(traces.len(), 1);
}

#[test]
fn one_request_id_for_everything_makes_no_single_trace() {
    let mut window = window();
    let rows = (0..10u64).flat_map(|n| {
        let at = i64::try_from(n).expect("small") * 1_000;
        [
            server(2 * n + 1, "p", at, at + 100).request_id("same"),
            client(2 * n + 2, "p", at + 1, at + 99).request_id("same"),
        ]
    });
    window.push_rows(rows, 0);
    let results = window.flush(1);
    let ids: BTreeSet<_> = results.iter().map(|result| result.trace_id).collect();
    assert_eq!((results.len(), ids.len()), (20, 10));
    assert_eq!(told(&results, 2).expect("told").0, Some(id(1)));
}

#[test]
fn bounds_on_rows_are_kept_and_what_goes_is_told_and_counted() {
    let config = WindowConfig { max_rows: 100, max_group_rows: 30, ..WindowConfig::default() };
    let mut window = Window::new(config);
    for n in 0..250u64 {
        window.push_rows([client(n + 1, "a", 0, 9).hop(n as u32, 1)], n);
    }
    assert_eq!(window.rows(), 100);
    assert_eq!(window.counters().groups_evicted, 150);
    for n in 250..350u64 {
        window.push_rows([client(n + 1, "a", 0, 9).context(1, 99)], n);
    }
    assert_eq!(window.counters().groups_too_large, 3);
    let results = window.flush(1_000);
    let rows: BTreeSet<_> = results.iter().map(|result| result.row).collect();
    assert_eq!((results.len(), rows.len()), (350, 350), "every row is told, once");
    assert!(window.rows() <= 100);
}

#[test]
fn the_same_bounds_hold_for_spans_of_sdks() {
    let config = WindowConfig { max_rows: 100, max_group_rows: 30, ..WindowConfig::default() };
    let mut window = Window::new(config);
    for n in 0..250u64 {
        let mut row = app(n + 1, Kind::Internal, "a", 0, 9).context(1, 0);
        row.trace_id = Some(TraceId(u128::from(n + 1).to_be_bytes()));
        window.push_rows([row], n);
    }
    assert_eq!((window.rows(), window.counters().groups_evicted), (100, 150));
    let of_one = (250..350u64).map(|n| app(n + 1, Kind::Internal, "a", 0, 9).context(1, 0));
    window.push_rows(of_one, 250);
    assert_eq!(window.counters().groups_too_large, 3);
    // An agent's row, so that the full window takes over.
    window.push_rows([client(400, "a", 0, 9)], 251);
    let results = window.flush(252);
    let rows: BTreeSet<_> = results.iter().map(|result| result.row).collect();
    assert_eq!((results.len(), rows.len()), (351, 351), "every row is told, once");
    assert!(window.rows() <= 26, "a quarter was kept as it came, and the agent's row");
}

#[test]
fn what_was_told_before_an_agents_row_came_is_not_told_again() {
    let mut window = window();
    let rows = [
        app(1, Kind::Client, "a", 0, 9).context(1, 0),
        app(2, Kind::Server, "b", 1, 8).context(1, 1),
    ];
    window.push_rows(rows, 0);
    assert_eq!(window.poll(400 * MS).len(), 2);
    // The two ends of the call, as the kernel captured them.
    let calls = [
        client(3, "a", 1, 8).hop(5, 6).context(1, 1),
        server(4, "b", 1, 8).hop(5, 6).context(1, 1),
    ];
    window.push_rows(calls, 500 * MS);
    let results = window.poll(900 * MS);
    let parents: Vec<_> = results.iter().map(|result| (result.row.row, result.parent)).collect();
    assert_eq!(parents, [(2, Some(id(4))), (3, Some(id(1))), (4, Some(id(3)))]);
}

#[test]
fn forgetting_leaves_nothing_behind() {
    let mut window = window();
    for turn in 0..5u64 {
        let at = turn * 100_000 * MS;
        let rows = chain(1, 100, 0).into_iter().map(|row| row.request_id("r"));
        window.push_rows(rows, at);
        window.push_rows([app(50, Kind::Server, "b", 2, 98).context(7, 0)], at);
        assert_eq!(window.flush(at).len(), 5);
        assert!(window.poll(at + 90_000 * MS).is_empty());
        assert_eq!((window.rows(), window.groups.len(), window.ages.len()), (0, 0, 0));
        assert_eq!((window.by_trace.len(), window.by_fragment.len()), (0, 0));
        assert!(window.index.is_bare() && window.only_sdk);
    }
}

/// A service's part in a simulated request, and its calls.
#[derive(Debug, Clone)]
struct Work {
    service: u8,
    sdk: bool,
    header: bool,
    sure: bool,
    calls: Vec<Work>,
}

fn work() -> impl Strategy<Value = Work> {
    let fields = (0..6u8, any::<bool>(), any::<bool>(), any::<bool>());
    let leaf = fields.clone().prop_map(|(service, sdk, header, sure)| Work {
        service,
        sdk,
        header,
        sure,
        calls: Vec::new(),
    });
    leaf.prop_recursive(3, 12, 3, move |inner| {
        (fields.clone(), prop::collection::vec(inner, 0..3)).prop_map(
            |((service, sdk, header, sure), calls)| Work { service, sdk, header, sure, calls },
        )
    })
}

/// Makes the rows that an agent and SDKs would report for requests.
#[derive(Default)]
struct Reporter {
    rows: Vec<Row>,
    number: u64,
    seq: u32,
}

impl Reporter {
    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// A call to `work` within `(from, to)`, reported by a row that `shape` completes.
    fn call(
        &mut self,
        caller: &str,
        work: &Work,
        (from, to): (i64, i64),
        trace: Option<(u8, u64)>,
        shape: &dyn Fn(Row) -> Row,
    ) {
        let services = ["a", "b", "c", "d", "e", "f"];
        let service = services[usize::from(work.service)];
        self.seq += 2;
        let (request, response) = (self.seq, self.seq + 1);
        let header = |row: Row| match trace {
            Some((trace, parent)) => row.context(trace, parent),
            None => row,
        };
        let number = self.number();
        let call = client(number, caller, from, to).hop(request, response);
        self.rows.push(shape(header(call)));
        let number = self.number();
        let fragment = number;
        let served = server(number, service, from + 1, to - 1).hop(request, response);
        self.rows.push(header(served.serves(fragment)));
        let mut inside = trace.filter(|_| work.header);
        if work.sdk {
            let entry = self.number();
            let (id, parent) = trace.unwrap_or((u8::try_from(number % 200).unwrap_or(0) + 1, 0));
            let span = app(entry, Kind::Server, service, from + 2, to - 2).context(id, parent);
            self.rows.push(span);
            inside = Some((id, entry));
        }
        let count = i64::try_from(work.calls.len()).expect("few");
        for (index, inner) in (0..).zip(&work.calls) {
            let each = (to - from - 20) / count.max(1);
            let begin = from + 10 + index * each;
            let within = (begin, begin + each - 1);
            let sure =
                if work.sure { (Evidence::Thread, 1.0) } else { (Evidence::SoleRequest, 0.9) };
            let mut carried = inside;
            if let Some((trace, parent)) = inside.filter(|_| work.sdk) {
                let span = self.number();
                let calling = app(span, Kind::Client, service, within.0 - 1, within.1 + 1);
                self.rows.push(calling.context(trace, parent));
                carried = Some((trace, span));
            }
            self.call(service, inner, within, carried, &|row| row.within(fragment, sure.0, sure.1));
        }
    }
}

fn requests() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((work(), 0..3i64), 1..5).prop_map(|requests| {
        let mut reporter = Reporter::default();
        for (index, (request, offset)) in (0..).zip(&requests) {
            let from = index * 400 + offset * 300;
            reporter.call("x", request, (from, from + 1_000), None, &|row| row);
        }
        reporter.rows
    })
}

type Tree = BTreeMap<RowRef, (Option<SpanId>, Option<Evidence>)>;

fn tree(results: impl IntoIterator<Item = Assembled>) -> Tree {
    // A later result for a row replaces an earlier one.
    results.into_iter().map(|r| (r.row, (r.parent, r.evidence))).collect()
}

fn partition(results: impl IntoIterator<Item = Assembled>) -> BTreeSet<BTreeSet<RowRef>> {
    let last: BTreeMap<RowRef, TraceId> =
        results.into_iter().map(|result| (result.row, result.trace_id)).collect();
    let mut parts: BTreeMap<TraceId, BTreeSet<RowRef>> = BTreeMap::new();
    for (row, trace) in last {
        parts.entry(trace).or_default().insert(row);
    }
    parts.into_values().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the order and the pauses in which rows arrive, the window's final result is the one
    /// of all rows at once.
    #[test]
    fn order_and_pauses_do_not_matter(
        (rows, shuffled) in requests().prop_flat_map(|rows| {
            (Just(rows.clone()), Just(rows).prop_shuffle())
        }),
        pauses in prop::collection::vec(0..900u64, 1..40),
    ) {
        let mut window = window();
        let mut results = Vec::new();
        let mut now = 0;
        for (row, pause) in shuffled.into_iter().zip(pauses.iter().cycle()) {
            window.push_rows([row], now);
            now += pause * MS / 4;
            results.extend(window.poll(now));
        }
        results.extend(window.flush(now));
        let whole = assemble_all(rows);
        prop_assert_eq!(tree(results.clone()), tree(whole.clone()));
        prop_assert_eq!(partition(results), partition(whole));
    }

    /// The same for SDK spans alone, with arbitrary parents, and also if an agent's row arrives at
    /// some time.
    #[test]
    fn sdk_spans_alone_are_told_as_among_others(
        names in prop::collection::vec((1..4u8, 0..30u64), 1..30),
        pauses in prop::collection::vec(0..900u64, 1..30),
        joined_at in prop::option::of(0..30usize),
    ) {
        let rows: Vec<Row> = (1..).zip(&names).map(|(n, (trace, parent))| {
            app(n, Kind::Internal, "a", 0, 9).context(*trace, *parent)
        }).collect();
        let stranger = client(99, "z", 0, 9).hop(1, 2);
        let mut window = window();
        let mut results = Vec::new();
        let (mut now, mut all) = (0, rows.clone());
        for (at, (row, pause)) in rows.into_iter().zip(pauses.iter().cycle()).enumerate() {
            if joined_at == Some(at) {
                window.push_rows([stranger], now);
                all.push(stranger);
            }
            window.push_rows([row], now);
            now += pause * MS;
            results.extend(window.poll(now));
        }
        results.extend(window.flush(now));
        prop_assert_eq!(window.counters().rows, all.len() as u64);
        prop_assert_eq!(window.counters().told, results.len() as u64);
        prop_assert_eq!(tree(results.clone()), tree(assemble_all(all.clone())));
        prop_assert_eq!(partition(results), partition(assemble_all(all)));
    }

    /// Rows that are sent twice are reported twice.
    #[test]
    fn repeated_rows_are_told_too(rows in requests()) {
        let mut window = window();
        window.push_rows(rows.clone(), 0);
        window.flush(0);
        let repeated = rows.iter().map(|row| Row { at: RowRef { batch: 2, ..row.at }, ..*row });
        window.push_rows(repeated, 1);
        let results = window.flush(1);
        let told = results.iter().filter(|result| result.row.batch == 2).count();
        prop_assert_eq!((told, window.rows()), (rows.len(), 2 * rows.len()));
    }

    /// The links form a forest, and certain links lead to the right place.
    #[test]
    fn sure_links_never_cross_fragments(rows in requests()) {
        let results = assemble_all(rows.clone());
        let by_span: BTreeMap<SpanId, usize> =
            rows.iter().enumerate().map(|(at, row)| (row.span_id, at)).collect();
        for (at, result) in results.iter().enumerate() {
            let mut up = at;
            for step in 0.. {
                prop_assert!(step <= rows.len(), "a circle through {:?}", rows[at].span_id);
                match results[up].parent {
                    Some(parent) => up = by_span[&parent],
                    None => break,
                }
            }
            let Some(parent) = result.parent else { continue };
            let (child, parent) = (&rows[at], &rows[by_span[&parent]]);
            let sure = result.confidence >= Some(Evidence::CERTAIN);
            // Only a hop leads from one fragment to another.
            if sure && result.evidence != Some(Evidence::TcpSequence) {
                prop_assert!(
                    child.fragment_id.is_none()
                        || parent.fragment_id.is_none()
                        || child.fragment_id == parent.fragment_id,
                    "{:?} under {:?}", child, parent
                );
            }
        }
    }

    /// Rows of any kind with random relations: no panic, no cycle, and each row is reported.
    #[test]
    fn nonsense_is_survived(
        picks in prop::collection::vec(
            (0..3u8, 0..4u8, 0..50i64, 0..50i64, 0..4u64, 0..4u32, 0..6u64, any::<bool>()),
            1..60,
        ),
    ) {
        let rows: Vec<Row> = (1..).zip(&picks).map(|(n, &(what, service, from, length, fragment, seq, parent, flag))| {
            let service = ["a", "b", "c", "d"][usize::from(service)];
            let row = match what {
                0 => client(n, service, from, from + length).within(fragment, Evidence::Thread, if flag { 1.0 } else { 0.9 }),
                1 => server(n, service, from, from + length).serves(fragment),
                _ => app(n, if flag { Kind::Server } else { Kind::Client }, service, from, from + length),
            };
            let row = if what < 2 { row.hop(seq, 0).request_id(service) } else { row };
            if what == 2 || flag { row.context(u8::try_from(fragment).expect("small") + 1, parent) } else { row }
        }).collect();
        let mut window = window();
        window.push_rows(rows.clone(), 0);
        let results = window.flush(1);
        let told: BTreeSet<RowRef> = results.iter().map(|result| result.row).collect();
        prop_assert_eq!((results.len(), told.len()), (rows.len(), rows.len()));
        let by_span: BTreeMap<SpanId, usize> = rows.iter().enumerate().map(|(at, row)| (row.span_id, at)).collect();
        let parents: BTreeMap<usize, usize> = results.iter().filter_map(|result| {
            Some((result.row.row as usize - 1, by_span[&result.parent?]))
        }).collect();
        for start in 0..rows.len() {
            let mut at = start;
            for _ in 0..=rows.len() {
                match parents.get(&at) { Some(up) => at = *up, None => break }
            }
            prop_assert!(!parents.contains_key(&at), "a circle through row {start}");
        }
    }
}

/// A process that serves two requests at a time on one thread. The agent could not assign its
/// calls. Returns the rows in order of arrival, and the request that made each call.
fn interleaved(requests: u64) -> Vec<(u64, Vec<Row>)> {
    (0..requests)
        .map(|number| {
            // Each request starts five milliseconds after the previous one and takes nine.
            let start = number.cast_signed() * 5;
            let first = 10 * number + 1;
            let end_ms = u64::try_from(start + 9).expect("not negative");
            let rows = vec![
                server(first, "loop", start, start + 9).serves(number + 1),
                client(first + 1, "loop", start + 1, start + 8).ambiguous(),
            ];
            (end_ms, rows)
        })
        .collect()
}

/// The last reported result of each row.
fn stream(window: &mut Window, rows: &[(u64, Vec<Row>)]) -> BTreeMap<u32, Assembled> {
    let mut told = BTreeMap::new();
    let mut keep = |results: Vec<Assembled>| {
        told.extend(results.into_iter().map(|result| (result.row.row, result)));
    };
    let mut now_ms = 0;
    for (end_ms, rows) in rows {
        for step in (now_ms..*end_ms).step_by(100) {
            keep(window.poll(step * MS));
        }
        now_ms = *end_ms;
        window.push_rows(rows.clone(), now_ms * MS);
    }
    for step in 0..40 {
        keep(window.poll((now_ms + step * 100) * MS));
    }
    told
}

#[test]
fn calls_are_linked_by_time_alone_where_one_request_is_likely() {
    let mut window = window();
    let requests = 300;
    let told = stream(&mut window, &interleaved(requests));
    let (mut right, mut wrong) = (0, 0);
    for number in 0..requests {
        let first = 10 * number + 1;
        let call = told[&u32::try_from(first + 1).expect("small")];
        match call.parent {
            Some(parent) => {
                assert_eq!(call.evidence, Some(Evidence::Timing));
                assert!(call.confidence.expect("a guess says how sure it is") < 0.98);
                if parent == id(first) { right += 1 } else { wrong += 1 }
            }
            None => assert_eq!(call.evidence, Some(Evidence::Ambiguous)),
        }
    }
    assert!(
        right * 100 >= requests * 95 && wrong * 100 <= requests,
        "{right} right, {wrong} wrong"
    );
    assert_eq!(window.counters().timing.linked, right + wrong);
}

#[test]
fn links_by_time_can_be_switched_off() {
    let config = WindowConfig { links_by_timing: false, ..WindowConfig::default() };
    let mut window = Window::new(config);
    let told = stream(&mut window, &interleaved(20));
    let by_time = |result: &&Assembled| result.evidence == Some(Evidence::Timing);
    assert_eq!(told.values().filter(by_time).count(), 0);
    assert_eq!(window.counters().timing.linked, 0);
}

#[test]
fn what_is_surer_takes_the_place_of_time() {
    let mut window = window();
    let mut rows = interleaved(100);
    // The agent is certain about every fourth call: it belongs to the previous request.
    for number in (4..100).step_by(4) {
        let call = rows[number].1[1];
        let fragment = u64::try_from(number).expect("small");
        rows[number].1[1] = Row { evidence: None, ..call }.within(fragment, Evidence::Thread, 1.0);
    }
    let told = stream(&mut window, &rows);
    for number in (4..100u32).step_by(4) {
        let call = told[&(10 * number + 2)];
        assert_eq!(call.evidence, Some(Evidence::Thread));
        assert_eq!(call.parent, Some(id(u64::from(10 * (number - 1) + 1))));
    }
}

#[test]
fn time_guesses_nothing_where_the_agent_knows_of_no_request() {
    let mut window = window();
    let mut rows = interleaved(100);
    for (_, rows) in rows.iter_mut().step_by(3) {
        rows[1].evidence = None;
    }
    let told = stream(&mut window, &rows);
    for number in (0..100u32).step_by(3) {
        assert_eq!(told[&(10 * number + 2)].parent, None);
    }
    assert!(window.counters().timing.linked > 50);
}

#[test]
fn clocks_of_hosts_that_are_heard_of_no_more_are_forgotten() {
    let mut window = window();
    for host in ["host", "other"] {
        window.clocks.name(Text::of(host), host);
    }
    let call = client(1, "a", 0, 100).hop(7, 8);
    let served = server(2, "b", 2_010, 2_090).hop(7, 8).ports(40_000, 80).on("other", 2);
    window.push_rows([call.ports(40_000, 80), served], 0);
    let told: Vec<_> = window.clock_differences().iter().map(|found| found.ahead_nano).collect();
    assert_eq!(told, [2_000_000_000]);
    // Only SDK spans from here on. They say nothing about clocks.
    for minutes in 1..4 {
        window.poll(minutes * 60_000 * MS);
    }
    assert!(window.clock_differences().is_empty());
}

/// With SDK spans alone, which have their own path, and with kernel rows.
#[test]
fn a_called_side_with_the_id_of_the_calling_one_is_told_under_it_whichever_comes_first() {
    let at = |row, number: u32| Row { at: RowRef { batch: 1, row: number }, ..row };
    let call = at(app(10, Kind::Client, "front", 10, 90).context(1, 0), 1);
    let answer = at(app(10, Kind::Server, "back", 20, 80).context(1, 0), 2);
    let work = at(app(20, Kind::Internal, "back", 30, 70).context(1, 10), 3);
    for rows in [[call, answer, work], [answer, call, work], [work, answer, call]] {
        for with_kernel in [false, true] {
            let mut window = window();
            if with_kernel {
                window.push_rows([client(99, "elsewhere", 0, 1)], 0);
            }
            let mut last = BTreeMap::new();
            for (step, row) in (1..).zip(rows) {
                window.push_rows([row], step * 500 * MS);
                let results = window.poll((step * 500 + 450) * MS);
                last.extend(results.iter().map(|result| (result.row.row, result.parent)));
            }
            assert_eq!(last[&1], None, "{with_kernel}");
            assert_eq!(last[&2], Some(id(10)), "{with_kernel}");
            assert_eq!(last[&3], Some(id(10)), "{with_kernel}");
        }
    }
}
