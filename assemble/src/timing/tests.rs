//! How often times alone reveal which request made a call, in simulated processes. The truth is
//! known and the same in every run.

use std::collections::VecDeque;

use super::model::Model;
use super::solve::{Call, Effort, Random, Request, State, learn, nobodys, solve};
use super::{MOST_AT_WORK, SURE_ENOUGH, explain, nobodys_shares, sure};

const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;

/// The calls of a handler between request and response: one step after the other, each with one
/// call or several concurrent ones.
type Plan = &'static [&'static [u16]];

/// An event loop. It reads what is ready, and then continues each request whose bytes it has read,
/// in that order. Each of the `clients` sends its next request when it has the response.
fn event_loop(
    clients: usize,
    requests: usize,
    plans: &[Plan],
    work_micros: i64,
    random: &mut Random,
) -> (Vec<Request>, Vec<Call>, Vec<usize>) {
    struct Task {
        request: usize,
        step: usize,
        waits: usize,
    }
    let mut served: Vec<Request> = Vec::new();
    let (mut calls, mut truth) = (Vec::new(), Vec::new());
    let mut tasks: Vec<Option<Task>> = (0..clients).map(|_| None).collect();
    // When data arrives for a client's task: its request, or a call's response.
    let mut coming: Vec<(i64, usize, Option<usize>)> =
        (0..clients).map(|client| ((random.share() * 5e6) as i64, client, None)).collect();
    let mut now = 0;
    while served.len() < requests || !coming.is_empty() {
        let Some(next) = coming.iter().map(|(time, ..)| *time).min() else { break };
        now = now.max(next);
        let mut ready: Vec<_> = coming.iter().copied().filter(|(time, ..)| *time <= now).collect();
        coming.retain(|(time, ..)| *time > now);
        ready.sort_unstable();
        let mut run = VecDeque::new();
        for (_, client, call) in ready {
            now += 5 * MICRO;
            match call {
                Some(call) => {
                    let call: &mut Call = &mut calls[call];
                    call.end_nano = now;
                }
                None => {
                    let what = (random.share() * plans.len() as f64) as u16;
                    tasks[client] = Some(Task { request: served.len(), step: 0, waits: 1 });
                    served.push(Request { start_nano: now, end_nano: 0, what });
                }
            }
            let Some(task) = &mut tasks[client] else { continue };
            task.waits -= 1;
            if task.waits == 0 {
                run.push_back(client);
            }
        }
        for client in run {
            now += ((0.5 + random.share()) * (work_micros * MICRO) as f64) as i64;
            let Some(task) = &mut tasks[client] else { continue };
            let plan = plans[usize::from(served[task.request].what)];
            if let Some(together) = plan.get(task.step) {
                for what in *together {
                    now += 20 * MICRO;
                    let answer = now + MILLI + (random.share() * 9e6) as i64;
                    coming.push((answer, client, Some(calls.len())));
                    let state = State::Free;
                    calls.push(Call { start_nano: now, end_nano: 0, what: *what, state });
                    truth.push(task.request);
                    task.waits += 1;
                }
                task.step += 1;
                continue;
            }
            served[task.request].end_nano = now;
            tasks[client] = None;
            if served.len() < requests {
                coming.push((now + 100 * MICRO + (random.share() * 1e6) as i64, client, None));
            }
        }
    }
    (served, calls, truth)
}

/// The share of calls that were assigned, and the share of these that are right.
fn right(clients: usize, plans: &[Plan], work_micros: i64) -> (f64, f64) {
    let mut random = Random::new(7);
    let (requests, calls, truth) = event_loop(clients, 300, plans, work_micros, &mut random);
    let mut model = Model::default();
    let plain = solve(&model, &requests, &calls, 2, None, (&mut random, Effort::FULL));
    let of = |call: usize| plain.found[call].map(|(request, _)| request);
    learn(&mut model, &requests, &calls, of, |_| 1.0);
    let chances = (&mut random, Effort::FULL);
    let found = explain(plain, &model, &requests, &calls, 2, chances).found;
    let said = found.iter().flatten().filter(|(_, sure)| *sure >= SURE_ENOUGH).count();
    let right = found.iter().zip(&truth).filter(|(found, truth)| {
        found.is_some_and(|(request, sure)| request == **truth && sure >= SURE_ENOUGH)
    });
    let right = right.count() as f64;
    (right / truth.len() as f64, right / said.max(1) as f64)
}

const ONE: &[Plan] = &[&[&[0]]];
const TWO: &[Plan] = &[&[&[0], &[1]]];
const TWICE: &[Plan] = &[&[&[0], &[0]]];
const TOGETHER: &[Plan] = &[&[&[0, 0, 1]]];
const MIXED: &[Plan] = &[&[&[0], &[1]], &[&[0, 1], &[1]], &[&[1]]];

#[test]
fn requests_of_a_loop_that_is_not_too_busy_are_found() {
    for (name, plans, clients, least) in [
        ("one call", ONE, 1, 1.0),
        ("one call", ONE, 8, 0.98),
        ("two calls", TWO, 8, 0.95),
        ("a call twice", TWICE, 4, 0.95),
        ("calls together", TOGETHER, 4, 0.95),
        ("mixed", MIXED, 4, 0.97),
        ("mixed", MIXED, 8, 0.93),
    ] {
        let (all, said) = right(clients, plans, 200);
        assert!(all >= least && said >= least, "{name}, {clients} clients: {all:.3}, {said:.3}");
    }
}

/// If requests wait for each other most of the time, order and delays say little.
#[test]
fn of_a_loop_that_is_too_busy_nothing_is_said() {
    for plans in [ONE, TWO, MIXED] {
        let (all, said) = right(32, plans, 200);
        assert_eq!((all, said), (0.0, 0.0), "nothing");
    }
}

#[test]
fn what_was_found_every_time_is_surer_the_fewer_are_at_work() {
    let alone = sure(1.0, 1.0, 1.0, 1.0);
    assert!(alone > 0.93, "{alone}");
    // Each of the three counts, and one alone is not enough among several at work.
    for less in [(0.5, 1.0, 1.0), (1.0, 0.5, 1.0), (1.0, 1.0, 0.5)] {
        assert!(sure(less.0, less.1, less.2, 1.0) < alone, "{less:?}");
    }
    assert!(sure(1.0, 1.0, 1.0, 3.0) < alone);
    assert!(sure(1.0, 0.0, 0.0, 5.0) < SURE_ENOUGH);
    assert!(sure(1.0, 1.0, 1.0, 2.0 * MOST_AT_WORK) <= 0.0, "of this nothing is known");
}

const fn call(from: i64, to: i64, state: State) -> Call {
    Call { start_nano: from * MILLI, end_nano: to * MILLI, what: 0, state }
}

#[test]
fn calls_are_nobodys_where_no_request_can_have_made_them() {
    let request = |from, to| Request { start_nano: from * MILLI, end_nano: to * MILLI, what: 0 };
    let requests = [request(10, 20), request(30, 40)];
    let calls = [
        call(5, 7, State::ForNone),
        call(12, 14, State::For(0)),
        // Ends after the only request that was open when it began.
        call(19, 21, State::Free),
        call(25, 27, State::Unclear),
        call(32, 34, State::Free),
        // An SDK reported its parent.
        call(45, 47, State::Elsewhere),
    ];
    // In the last two milliseconds of a request, no call can begin that would belong to it.
    let found = nobodys(&requests, &calls, (0, 50 * MILLI));
    assert_eq!(found, [(0, 3.0, (50 - 8 - 8) as f64 * 1e6)]);
    let found = nobodys(&requests, &calls, (22 * MILLI, 50 * MILLI));
    assert_eq!(found, [(0, 1.0, (28 - 8) as f64 * 1e6)], "what was counted is not again");
}

#[test]
fn where_calls_come_as_often_without_a_request_none_is_surely_one_s() {
    let mut model = Model::default();
    model.saw_nobodys(0, 100.0, 980e6);
    let free = |count: i64| -> Vec<Call> {
        (0..count).map(|at| call(at * 1000 / count, 5000, State::Free)).collect()
    };
    let share = nobodys_shares(&model, &free(100))[&0];
    assert!(share > 0.95, "{share}");
    let share = nobodys_shares(&model, &free(1000))[&0];
    assert!((share - 0.1).abs() < 0.01, "{share}");
    // One call, although many background calls were expected in that time.
    assert!(nobodys_shares(&model, &free(1))[&0] > 0.99);
    assert!(nobodys_shares(&Model::default(), &free(10))[&0] <= 0.0);
    assert!(nobodys_shares(&model, &[]).is_empty());
}

#[test]
fn what_takes_too_much_is_given_up() {
    let request = |at: i64| Request { start_nano: at * MICRO, end_nano: 900 * MILLI, what: 0 };
    let requests: Vec<Request> = (0..64).map(request).collect();
    let one = |at: i64| Call { start_nano: MILLI + at * 100 * MICRO, ..call(0, 890, State::Free) };
    let calls: Vec<Call> = (0..4_000).map(one).collect();
    let model = Model::default();
    let random = &mut Random::new(1);
    let solution = solve(&model, &requests, &calls, 1, None, (random, Effort::FULL));
    assert!(solution.given_up);
    assert!(solution.found.iter().all(Option::is_none));
    assert!(solution.steps < 4_100_000, "{}", solution.steps);
}
