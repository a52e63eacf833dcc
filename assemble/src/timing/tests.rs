//! How often times alone tell whom a call was made for, in processes that are
//! made up: the truth is known, and the same in every run.

use std::collections::VecDeque;

use super::model::Model;
use super::solve::{Call, Random, Request, State, learn, solve};
use super::{SURE_ENOUGH, trusted};

const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;

/// What a handler does between its request and its answer: calls of these sorts,
/// one after the other, or several at a time.
type Plan = &'static [&'static [u16]];

/// An event loop that reads what is ready, and then goes on with each request
/// whose bytes it has read, in that order. `clients` send their next request when
/// they have had their answer.
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
    // When something comes to a client's task: its request, or a call's answer.
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

/// Share of calls whose request was found, and of those found that are right.
fn right(clients: usize, plans: &[Plan], work_micros: i64) -> (f64, f64) {
    let mut random = Random::new(7);
    let (requests, calls, truth) = event_loop(clients, 300, plans, work_micros, &mut random);
    let mut model = Model::default();
    let mut found = Vec::new();
    for _ in 0..3 {
        let solution = solve(&model, &requests, &calls, 2, &mut random);
        model = Model::default();
        let of = |call: usize| solution.found[call].map(|(request, _)| request);
        learn(&mut model, &requests, &calls, of, |_| 1.0);
        found = trusted(solution);
    }
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

/// Where requests wait for each other most of the time, order and gaps say little.
#[test]
fn of_a_loop_that_is_too_busy_nothing_is_said() {
    for plans in [ONE, TWO, MIXED] {
        let (all, said) = right(32, plans, 200);
        assert_eq!((all, said), (0.0, 0.0), "nothing");
    }
}
