//! Tasks that may outlive their request.

use super::*;

fn made_lasting(attributor: &mut Attributor, task: u64, parent: u64, time_nano: u64) {
    attributor.task_made(PROCESS, task, parent, 0, true, time_nano);
}

/// So many tasks are made for requests, make a call, and end.
fn prove_lasting(attributor: &mut Attributor, times: u64) {
    for number in 5000..5000 + times {
        serve(attributor, goroutine(number, 0, 1), number, number);
        made_lasting(attributor, 40_000 + number, number, 2);
        attributor.request_sent(goroutine(40_000 + number, 0, 3), None);
        attributor.request_over(goroutine(number, 0, 0), number, 4, None);
        attributor.task_ended(PROCESS, 40_000 + number);
    }
}

#[test]
fn what_may_be_a_pools_worker_is_never_certain() {
    let mut attributor = attributor(Runtime::Python);
    prove_children(&mut attributor);
    prove_lasting(&mut attributor, u64::from(PROVEN_AFTER));
    // A greenlet for each connection, made by the hub.
    made_lasting(&mut attributor, 50, 1, 1);
    made_lasting(&mut attributor, 51, 1, 1);
    let first = serve(&mut attributor, goroutine(50, 0, 2), 1, 1);
    let second = serve(&mut attributor, goroutine(51, 0, 2), 2, 2);
    assert_eq!(attributor.request_sent(goroutine(50, 0, 3), None), certain(first));
    assert_eq!(attributor.request_sent(goroutine(51, 0, 3), None), certain(second));
    // One that is started by a request, a attributor that it enters, and one that it starts.
    made_lasting(&mut attributor, 60, 50, 4);
    made(&mut attributor, 61, 60, 5);
    made_lasting(&mut attributor, 62, 60, 5);
    for task in [60, 61, 62, 60] {
        assert_eq!(attributor.request_sent(goroutine(task, 0, 6), None), likely(first));
    }
    // What the request's own task enters is the request's.
    made(&mut attributor, 63, 50, 5);
    assert_eq!(attributor.request_sent(goroutine(63, 0, 6), None), certain(first));
    // What it was started for may begin after the answer, once.
    made_lasting(&mut attributor, 64, 50, 5);
    attributor.request_over(goroutine(50, 0, 0), 1, 7, None);
    let sole = within(second, Evidence::SoleRequest, LIKELY);
    assert_eq!(attributor.request_sent(goroutine(64, 0, 8), None), likely(first));
    assert_eq!(attributor.request_sent(goroutine(64, 0, 9), None), sole);
}

#[test]
fn what_goes_on_after_its_request_takes_from_the_trust() {
    let mut attributor = attributor(Runtime::Python);
    let calls = |attributor: &mut Attributor, number: u64| {
        let first = serve(attributor, goroutine(50, 0, 10), 1, number);
        serve(attributor, goroutine(51, 0, 10), 2, number + 1);
        made_lasting(attributor, 60, 50, 11);
        let found = attributor.request_sent(goroutine(60, 0, 12), None);
        attributor.request_over(goroutine(50, 0, 0), number, 13, None);
        let later = attributor.request_sent(goroutine(60, 0, 14), None);
        assert_ne!(later, likely(first), "it goes on");
        attributor.request_over(goroutine(51, 0, 0), number + 1, 15, None);
        found == likely(first)
    };
    assert!(!calls(&mut attributor, 1), "nothing is proven");
    prove_lasting(&mut attributor, u64::from(PROVEN_AFTER));
    assert!(calls(&mut attributor, 3), "one of twenty");
    assert!(!calls(&mut attributor, 5), "two of twenty");
    prove_lasting(&mut attributor, 2 * u64::from(PROVEN_AFTER));
    assert!(calls(&mut attributor, 7), "three of sixty");
    assert!(!calls(&mut attributor, 9), "four of sixty");
}

#[test]
fn a_worker_of_a_connection_is_not_certain_of_what_is_read_there_later() {
    let mut attributor = attributor(Runtime::Python);
    let made_for_it = |attributor: &mut Attributor, connection: u64| {
        attributor.accepted(connection, 10);
        // A reader and a pool's worker, by one that was made since.
        made_lasting(attributor, 50, 1, 11);
        made_lasting(attributor, 51, 50, 12);
        made_lasting(attributor, 52, 50, 12);
        let fragment = serve(attributor, goroutine(51, 0, 13), connection, connection);
        let found = attributor.request_sent(goroutine(52, 0, 14), None);
        attributor.request_over(goroutine(51, 0, 0), connection, 15, None);
        (found, fragment)
    };
    let (found, fragment) = made_for_it(&mut attributor, 1);
    assert_eq!(found, within(fragment, Evidence::SoleRequest, LIKELY));
    prove_lasting(&mut attributor, u64::from(PROVEN_AFTER));
    // Another process's life: what was claimed is forgotten with it.
    let mut attributor = self::attributor(Runtime::Python);
    prove_lasting(&mut attributor, u64::from(PROVEN_AFTER));
    let (found, fragment) = made_for_it(&mut attributor, 1);
    assert_eq!(found, likely(fragment));
}
