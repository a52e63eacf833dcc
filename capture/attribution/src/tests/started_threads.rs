//! Threads that requests and tasks start.

use super::*;

fn thread_made(attributor: &mut Attributor, thread: u32, maker: u32, time_nano: u64) {
    attributor.thread_made(Caller { time_nano, ..caller(maker) }, thread);
}

fn by_thread(fragment: u64) -> Fragment {
    within(fragment, Evidence::Thread, LIKELY)
}

/// Threads are made for requests, make a call, and end.
fn prove_threads(attributor: &mut Attributor) {
    for exchange in 5000..5000 + u64::from(PROVEN_AFTER) {
        read(attributor, 90, exchange, exchange);
        thread_made(attributor, 91, 90, 1);
        let found = attributor.request_sent(caller(91), None);
        assert!(!matches!(found, Fragment::Within { evidence: Evidence::Thread, .. }));
        attributor.thread_ended(PROCESS, 91);
        over(attributor, 90, exchange, 90);
    }
}

#[test]
fn a_thread_that_a_request_starts_is_likely_its_own() {
    let mut attributor = attributor(other());
    prove_threads(&mut attributor);
    let first = read(&mut attributor, 1, 1, 1);
    let second = read(&mut attributor, 2, 2, 2);
    // Threads are watched since one was missed.
    assert_eq!(attributor.take_thread_makers(), [PROCESS]);
    assert_eq!(attributor.request_sent(caller(7), None), Fragment::Ambiguous { candidates: 2 });
    assert!(attributor.take_thread_makers().is_empty());
    thread_made(&mut attributor, 8, 1, 5);
    thread_made(&mut attributor, 9, 2, 5);
    thread_made(&mut attributor, 10, 9, 6);
    thread_made(&mut attributor, 11, 7, 6);
    assert_eq!(attributor.request_sent(caller(8), None), by_thread(first));
    assert_eq!(attributor.request_sent(caller(8), None), by_thread(first));
    assert_eq!(attributor.request_sent(caller(9), None), by_thread(second));
    assert_eq!(attributor.request_sent(caller(10), None), by_thread(second));
    let several = Fragment::Ambiguous { candidates: 2 };
    assert_eq!(attributor.request_sent(caller(11), None), several);
    // What has a request of its own is not its maker's.
    let third = read(&mut attributor, 8, 3, 3);
    assert_eq!(attributor.request_sent(caller(8), None), within(third, Evidence::Thread, LIKELY));
    // The number is another thread's now.
    thread_made(&mut attributor, 9, 1, 7);
    assert_eq!(attributor.request_sent(caller(9), None), by_thread(first));
    // Or may be.
    attributor.events_lost(8);
    assert_eq!(attributor.request_sent(caller(9), None), Fragment::Ambiguous { candidates: 3 });
}

#[test]
fn threads_that_outlive_their_request_are_workers() {
    let mut attributor = attributor(other());
    prove_threads(&mut attributor);
    let first = read(&mut attributor, 1, 1, 1);
    read(&mut attributor, 2, 2, 2);
    read(&mut attributor, 3, 3, 3);
    thread_made(&mut attributor, 8, 1, 5);
    assert_eq!(attributor.request_sent(caller(8), None), by_thread(first));
    over(&mut attributor, 1, 1, 1);
    let several = Fragment::Ambiguous { candidates: 2 };
    assert_eq!(attributor.request_sent(caller(8), None), several);
    // Two of twenty are too many.
    read(&mut attributor, 1, 1, 4);
    thread_made(&mut attributor, 9, 1, 6);
    assert!(matches!(attributor.request_sent(caller(9), None), Fragment::Within { .. }));
    over(&mut attributor, 1, 4, 1);
    assert_eq!(attributor.request_sent(caller(9), None), several);
    read(&mut attributor, 1, 1, 5);
    thread_made(&mut attributor, 9, 1, 6);
    assert_eq!(attributor.request_sent(caller(9), None), Fragment::Ambiguous { candidates: 3 });
}

#[test]
fn threads_of_a_process_that_shares_them_say_nothing_of_those_that_they_start() {
    let mut attributor = attributor(Runtime::Node);
    read(&mut attributor, 1, 1, 1);
    read(&mut attributor, 2, 2, 2);
    thread_made(&mut attributor, 8, 1, 5);
    let several = Fragment::Ambiguous { candidates: 2 };
    assert_eq!(attributor.request_sent(caller(8), None), several);
    assert!(attributor.take_thread_makers().is_empty());
}

#[test]
fn a_thread_that_a_task_starts_is_likely_the_tasks() {
    let mut attributor = attributor(Runtime::Python);
    prove_threads(&mut attributor);
    let first = serve(&mut attributor, goroutine(50, 0, 1), 1, 1);
    serve(&mut attributor, goroutine(51, 0, 2), 2, 2);
    attributor.thread_made(goroutine(50, 0, 3), 8);
    let sender = Caller { time_nano: 4, ..caller(8) };
    assert_eq!(attributor.request_sent(sender, None), by_thread(first));
}

#[test]
fn where_tasks_tell_what_they_do_not_tell_of_is_nobodys_unless_it_may_serve() {
    let mut attributor = attributor(Runtime::Python);
    attributor.accepted(1, 5);
    attributor.task_made(PROCESS, 50, 0, 0, false, 6);
    let reader = |time_nano| goroutine(50, 0, time_nano);
    let fragment = serve(&mut attributor, reader(10), 1, 1);
    let alone = within(fragment, Evidence::SoleRequest, LIKELY);
    // One that was there before anybody looked, and one that has made its first calls.
    let background = |time_nano| goroutine(40, 0, time_nano);
    assert_eq!(attributor.request_sent(background(11), None), alone);
    for time_nano in 20..20 + u64::from(PROVEN_AFTER) {
        assert_eq!(attributor.request_sent(reader(time_nano), None), certain(fragment));
    }
    let of_others = Fragment::Ambiguous { candidates: 1 };
    assert_eq!(attributor.request_sent(background(50), None), of_others);
    // Made since, by nobody's task: it may be what serves the connection.
    attributor.task_made(PROCESS, 60, 0, 0, false, 51);
    assert_eq!(attributor.request_sent(goroutine(60, 0, 52), None), alone);
    // What is older than the agent may have any task.
    attributor.request_over(reader(10), 1, 60, None);
    let older = serve(&mut attributor, reader(61), 2, 2);
    let alone = within(older, Evidence::SoleRequest, LIKELY);
    assert_eq!(attributor.request_sent(background(62), None), alone);
}
