use proptest::prelude::*;
use spanwise_assemble::Row;
use spanwise_model::{Capture, Kind, RowRef, Span, SpanBatchBuilder, SpanId, Status};

use super::fold::Bound;
use super::*;

const MS: i64 = 1_000_000;

/// A call: its service, its caller's place, from and to in ms, and whether it failed.
type Told = (&'static str, Option<usize>, i64, i64, bool);

/// A run of calls that all have the operation `do`. Self times are what direct children leave.
fn run(told: &[Told]) -> Vec<ChainCall<'static>> {
    let below = |place: usize| -> i64 {
        let children = told.iter().filter(|(_, parent, ..)| *parent == Some(place));
        children.map(|(_, _, from, to, _)| to - from).sum()
    };
    let call = |(place, (service, parent, from, to, failed)): (usize, &Told)| ChainCall {
        service,
        operation: "do",
        parent: *parent,
        start_unix_nano: from * MS,
        end_unix_nano: to * MS,
        served_unix_nano: (from * MS, to * MS),
        self_nano: (to - from - below(place)) * MS,
        failed: *failed,
        asynchronous: false,
    };
    told.iter().enumerate().map(call).collect()
}

fn id(number: u8) -> TraceId {
    TraceId([number; 16])
}

fn of(runs: &[&[Told]]) -> Chains {
    let mut chains = Chains::default();
    for (number, told) in (1..).zip(runs) {
        chains.add_calls(id(number), &run(told));
    }
    chains
}

/// The worked example of `docs/analysis.md`.
const FULL: &[Told] = &[
    ("checkout", None, 0, 100, false),
    ("stock", Some(0), 10, 40, false),
    ("mysql", Some(1), 12, 17, false),
    ("mysql", Some(1), 20, 25, false),
    ("mail", Some(0), 50, 60, false),
];
const SHORT: &[Told] = &[
    ("checkout", None, 0, 60, false),
    ("stock", Some(0), 10, 30, false),
    ("stock", Some(0), 30, 50, false),
];

#[test]
fn the_worked_example() {
    let chains = of(&[FULL, SHORT]);
    let found = chains.chains();
    let [chain] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((chain.shapes.len(), chain.total.runs, chain.service.as_str()), (2, 2, "checkout"));
    let nodes: Vec<_> = chain
        .nodes
        .iter()
        .map(|node| (node.level, node.service.as_str(), node.lr, node.dr, node.cr, node.present))
        .collect();
    let expected = [
        (0, "checkout", 0.5, 1.0, 1.0, 1.0),
        (1, "stock", 0.375, 1.5, 1.5, 1.0),
        (2, "mysql", 0.0625, 2.0 / 3.0, 1.0, 0.5),
        (1, "mail", 0.0625, 0.5, 0.5, 0.5),
    ];
    assert_eq!(nodes, expected);
    let all = chains.chains();
    let loads = capacity(&all, 2.0, |chain| if chain.service == "checkout" { 3.0 } else { 1.0 });
    let mysql = &loads[&named("mysql")];
    assert_eq!((mysql.now_per_second, mysql.predicted_per_second), (1.0, 3.0));
    assert!((mysql.busy_predicted - 0.015).abs() < 1e-12, "{mysql:?}");
    assert_eq!(mysql.by_chain[&0], 3.0);
    assert_eq!(chain.total.slowest, (100 * MS, id(1)));
}

#[test]
fn rare_shapes_of_many_join_their_chains_and_are_found() {
    // Optional calls in all combinations; the more calls, the rarer.
    let names = ["a", "b", "c", "d", "e", "f"];
    let (mut chains, mut runs) = (Chains::default(), 0);
    for shape in 0..64_usize {
        let mut told: Vec<Told> = vec![("shop", None, 0, 100, false)];
        let called = (0..6).filter(|place| shape >> place & 1 == 1);
        told.extend(
            called.map(|at| (names[at], Some(0), at as i64 * 10, at as i64 * 10 + 5, false)),
        );
        for _ in 0..=7 - told.len() {
            chains.add_calls(id(1), &run(&told));
            runs += 1;
        }
    }
    let other = run(&[("search", None, 0, 1, false)]);
    chains.add_calls(id(2), &other);
    let all = chains.clone();
    assert!(chains.join_rare_shapes(1_000).is_empty() && chains == all, "there is room");
    let joined = chains.join_rare_shapes(100);
    assert!(all.cells() > 250 && chains.cells() < 130, "{}", chains.cells());
    assert_eq!((chains.runs(), chains.joined_shapes), (runs + 1, joined.len() as u64));
    assert_eq!(chains.shapes.len() + joined.len(), all.shapes.len());
    // No figure of the entrance changes.
    assert_eq!(chains.entrances(), all.entrances());
    assert_eq!(chains.strengths(), all.strengths());
    let sums = |chains: &Chains| {
        let mut sums: BTreeMap<PathId, (u64, u64, u128)> = BTreeMap::new();
        for (path, figures) in chains.shapes.values().flat_map(|shape| &shape.paths) {
            let sum = sums.entry(*path).or_default();
            sum.0 += figures.calls;
            sum.1 += figures.runs;
            sum.2 += figures.self_nano;
        }
        sums
    };
    assert_eq!(sums(&chains), sums(&all));
    for (shape, founder) in joined {
        chains.set_joined(shape, founder);
        let found = chains.chains();
        let of = |id| found.iter().position(|chain| chain.shapes.contains(&id));
        assert!(of(shape).is_some() && of(shape) == of(founder));
    }
}

fn named(service: &str) -> Operation {
    Operation { service: service.to_owned(), operation: "do".to_owned() }
}

#[test]
fn sources_and_strengths_are_of_all_chains_and_of_any_distance() {
    let mut chains = Chains::default();
    chains.add_calls(id(1), &run(FULL));
    let stock = chains.sources("stock", None, 128);
    assert_eq!(stock.calls, 1);
    assert_eq!(
        stock.callers,
        BTreeMap::from([(named("checkout"), Relation { distance: 1, calls: 1 })])
    );
    assert_eq!(
        stock.called,
        BTreeMap::from([(named("mysql"), Relation { distance: 1, calls: 2 })])
    );
    let mysql = chains.sources("mysql", Some("do"), 128);
    assert_eq!(mysql.callers[&named("checkout")], Relation { distance: 2, calls: 2 });
    assert_eq!(mysql.entrances, BTreeMap::from([(named("checkout"), 2)]));
    let near = chains.sources("mysql", None, 1);
    assert!(!near.callers.contains_key(&named("checkout")), "{near:?}");
    assert_eq!(chains.sources("mysql", Some("other"), 1), Sources::default());
    let strengths = chains.strengths();
    assert_eq!(strengths.len(), 3);
    assert_eq!(strengths[&(named("stock"), named("mysql"))].calls, 2);
    let entrance = &chains.entrances()[&named("checkout")];
    assert_eq!((entrance.runs, entrance.calls), (1, 5));
}

#[test]
fn names_with_ids_do_not_make_chains_without_end() {
    let names: Vec<String> = (0..700).map(|number| format!("user-{number}")).collect();
    let mut chains = Chains::default();
    for name in &names {
        let mut calls = run(&[("checkout", None, 0, 100, false), ("user", Some(0), 10, 40, false)]);
        calls[1].operation = name;
        chains.add_calls(id(1), &calls);
    }
    let found = chains.chains();
    assert_eq!(found.len(), figures::MAX_CHAINS);
    assert_eq!(found.iter().map(|chain| chain.total.runs).sum::<u64>(), 700);
    assert_eq!(found.iter().map(|chain| chain.shapes.len()).sum::<usize>(), 700);
}

#[test]
fn a_peak_is_the_busiest_interval() {
    let mut peaks = Peaks::new(25 * MS);
    peaks.add_calls(&run(FULL));
    let services = peaks.services();
    assert_eq!(services["mysql"].per_second, 80.0, "{services:?}");
    assert_eq!(peaks.operations()[&named("mysql")], services["mysql"]);
}

fn stock(chains: &Chains) -> (Verdict, Verdict) {
    let chain = chains.chains().remove(0);
    let node = chain.nodes.iter().find(|node| node.service == "stock").expect("is called");
    (node.edge, node.chain)
}

#[test]
fn dependency_needs_failures_and_follows_what_was_called_afterwards() {
    let stopped: &[Told] = &[("checkout", None, 0, 20, true), ("stock", Some(0), 10, 15, true)];
    let went_on: &[Told] = &[
        ("checkout", None, 0, 60, false),
        ("stock", Some(0), 10, 40, true),
        ("mail", Some(0), 50, 60, false),
    ];
    let with = |failed: &[&'static [Told]]| {
        let mut runs: Vec<&[Told]> = vec![FULL; 20];
        runs.extend(failed);
        stock(&of(&runs))
    };
    let (edge, chain) = with(&[stopped; 5]);
    assert_eq!((edge.dependency, edge.failures), (Dependency::Strong, 5));
    assert_eq!(chain.dependency, Dependency::Strong);
    assert!((edge.confidence - 0.566).abs() < 0.001, "{edge:?}");
    let (edge, chain) = with(&[went_on; 5]);
    assert_eq!((edge.dependency, chain.dependency), (Dependency::Weak, Dependency::Weak));
    assert_eq!(with(&[stopped; 4]).0.dependency, Dependency::Unknown, "too few");
    let both = [stopped, went_on, stopped, went_on, stopped, went_on];
    assert_eq!(with(&both).0.dependency, Dependency::Unknown, "they do not agree");
    let only: Vec<&[Told]> = vec![stopped; 9];
    assert_eq!(stock(&of(&only)).0.dependency, Dependency::Unknown, "no success was seen");
}

#[test]
fn only_the_last_attempt_counts() {
    let retried: &[Told] = &[
        ("checkout", None, 0, 60, false),
        ("stock", Some(0), 10, 20, true),
        ("stock", Some(0), 21, 40, false),
        ("mail", Some(0), 50, 60, false),
    ];
    let (edge, _) = stock(&of(&[retried; 9]));
    assert_eq!((edge.failures, edge.dependency), (0, Dependency::Unknown));
}

#[test]
fn what_runs_beside_a_call_does_not_follow_it() {
    // Mails are sent one by one while the stock is asked for; then the price is.
    let made = |failed| -> Vec<Told> {
        let mut told = vec![
            ("checkout", None, 0, 60, failed),
            ("stock", Some(0), 10, 15, failed),
            ("mail", Some(0), 10, 20, false),
            ("mail", Some(0), 21, 30, false),
        ];
        if !failed {
            told.push(("price", Some(0), 40, 50, false));
        }
        told
    };
    let (well, ill) = (made(false), made(true));
    let with = |failed: &Vec<Told>| {
        let runs: Vec<&[Told]> = [vec![well.as_slice(); 9], vec![failed.as_slice(); 9]].concat();
        stock(&of(&runs)).0.dependency
    };
    assert_eq!(with(&ill), Dependency::Strong);
    let mut went_on = well.clone();
    went_on[1].4 = true;
    assert_eq!(with(&went_on), Dependency::Weak);
}

#[test]
fn a_last_call_is_strong_if_its_failure_fails_the_caller() {
    let made = |failed| -> Vec<Told> {
        vec![("checkout", None, 0, 20, failed), ("stock", Some(0), 10, 15, failed)]
    };
    let (well, ill) = (made(false), made(true));
    let swallowed: Vec<Told> = vec![well[0], ill[1]];
    let with = |failed: &Vec<Told>| {
        let runs: Vec<&[Told]> = [vec![well.as_slice(); 9], vec![failed.as_slice(); 9]].concat();
        stock(&of(&runs)).0.dependency
    };
    assert_eq!((with(&ill), with(&swallowed)), (Dependency::Strong, Dependency::Weak));
}

#[test]
fn both_sides_of_a_call_are_one_and_the_gap_is_the_callees() {
    let span = |number, parent, kind, service: &str, from: i64, to: i64| {
        let id = SpanId::from_u64(number).expect("not zero");
        let length = (to - from) * MS;
        let mut span = Span::new(id, Capture::App, kind, service, "do", from * MS, length);
        (span.trace_id, span.parent_span_id) = (Some(self::id(7)), SpanId::from_u64(parent));
        span
    };
    let mut spans = [
        span(1, 0, Kind::Server, "web", 0, 100),
        span(2, 1, Kind::Internal, "web", 5, 90),
        span(3, 2, Kind::Client, "web", 10, 60),
        // Its clock is 500 ms ahead.
        span(4, 3, Kind::Server, "cart", 515, 555),
        span(5, 4, Kind::Client, "cart", 520, 530),
    ];
    spans[4].protocol = Some("redis".into());
    spans[3].status = Status::Error;
    let batches = [spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch")];
    let rows = (0..).zip(&spans).map(|(row, span)| Row::from_span(RowRef { batch: 0, row }, span));
    let trace = Trace::of(rows.collect());
    let labels = Labels::of(&batches).expect("all columns");
    let found: Vec<_> = calls(&trace, &labels)
        .iter()
        .map(|call| (call.service.to_owned(), call.parent, call.self_nano / MS, call.failed))
        .collect();
    let expected = [
        ("web".to_owned(), None, 50, false),
        ("cart".to_owned(), Some(0), 40, true),
        ("redis".to_owned(), Some(1), 10, false),
    ];
    assert_eq!(found, expected);
    let mut chains = Chains::default();
    chains.add(&trace, &labels);
    assert_eq!(chains.chains()[0].nodes.len(), 3);
    // Without its parent, the rest of the trace is no run.
    let rows = (1..).zip(&spans[1..]);
    let rows = rows.map(|(row, span)| Row::from_span(RowRef { batch: 0, row }, span));
    chains.add(&Trace::of(rows.collect()), &labels);
    assert_eq!((chains.chains().len(), chains.runs_left_out), (1, 1));
}

#[test]
fn too_many_shapes_join_their_chains_first() {
    let other: &[Told] = &[("search", None, 0, 1, false)];
    let far: &[Told] = &[
        ("checkout", None, 0, 9, false),
        ("tax", Some(0), 1, 2, false),
        ("duty", Some(0), 3, 4, false),
        ("fees", Some(0), 5, 6, false),
    ];
    let all = of(&[FULL, FULL, SHORT, far, other]);
    let mut chains = all.clone();
    chains.fold(Bound { shapes: 4, cells: 1_000 });
    assert!(chains == all, "there is room");
    chains.fold(Bound { shapes: 3, cells: 160 });
    let counts = |chains: &Chains| {
        [chains.joined_shapes, chains.misplaced_runs, chains.folded_shapes, chains.folded_runs]
    };
    // Short runs are of the chain anyway; runs that differ join it because there is no room.
    assert_eq!(counts(&chains), [2, 1, 0, 0]);
    let found = chains.chains();
    let nodes = found[0].nodes.iter().map(|node| (node.service.as_str(), node.figures.calls));
    let expected = [
        ("checkout", 4),
        ("stock", 4),
        ("mysql", 4),
        ("mail", 2),
        ("duty", 1),
        ("fees", 1),
        ("tax", 1),
    ];
    let mut nodes: Vec<_> = nodes.collect();
    nodes[4..].sort_unstable();
    assert_eq!((found.len(), found[0].total.runs, nodes), (2, 4, expected.to_vec()));
    assert_eq!(found.iter().map(|chain| chain.total.runs).sum::<u64>(), 5, "no run is lost");
    // A shape that joined is still of the chain if it is seen again, also in another part.
    let mut again = of(&[SHORT]);
    again.merge(&chains);
    assert_eq!(again.chains()[0].total.runs, 5);
    assert_eq!(again.cells(), again.shapes.values().map(|shape| shape.paths.len()).sum::<usize>());
    // Too many entrances: the rarest are folded.
    chains.fold(Bound { shapes: 1, cells: 160 });
    assert_eq!(counts(&chains), [2, 1, 2, 5]);
    assert_eq!((chains.cells, chains.paths.len(), chains.chains().len()), (0, 0, 0));
    // Ever new names below one entrance do not push the entrance out.
    let mut chains = all;
    chains.fold(Bound { shapes: 4, cells: 16 * 6 - 1 });
    assert_eq!(counts(&chains), [0, 0, 0, 0]);
    chains.fold(Bound { shapes: 3, cells: 16 * 6 - 1 });
    assert_eq!(counts(&chains), [0, 0, 2, 2]);
    assert_eq!(chains.chains()[0].total.runs, 2);
}

/// A random run: each call's caller is an earlier call.
fn any_run() -> impl Strategy<Value = Vec<Told>> {
    let call = (0..4usize, any::<prop::sample::Index>(), 0..50i64, 1..20i64, any::<bool>());
    prop::collection::vec(call, 1..8).prop_map(|calls| {
        let services = ["a", "b", "c", "d"];
        let calls = calls.iter().enumerate();
        calls
            .map(|(place, (service, parent, from, length, failed))| {
                let parent = (place > 0).then(|| parent.index(place));
                (services[*service], parent, *from, from + length, *failed)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn partial_results_merge_in_any_order(
        runs in prop::collection::vec((any_run(), 0..4usize), 0..30),
        order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
    ) {
        let mut whole = Chains::default();
        let mut parts = vec![Chains::default(); 4];
        for (number, (told, part)) in (1..).zip(&runs) {
            whole.add_calls(id(number), &run(told));
            parts[*part].add_calls(id(number), &run(told));
        }
        let mut merged = Chains::default();
        for part in order {
            merged.merge(&parts[part]);
        }
        prop_assert_eq!(&merged, &whole);
        let chains = merged.chains();
        let nodes = chains.iter().flat_map(|chain| &chain.nodes);
        let calls: u64 = nodes.map(|node| node.figures.calls).sum();
        prop_assert_eq!(calls, runs.iter().map(|(told, _)| told.len() as u64).sum::<u64>());
    }
}
