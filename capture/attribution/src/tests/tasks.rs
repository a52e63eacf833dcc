//! Links by tasks and their ancestors, and by the streams of a connection.

use super::*;

/// A pool makes its workers in requests, and gives them the work of others later.
#[test]
fn workers_made_in_a_request_are_never_certain_and_nobodys_once_they_are_seen() {
    let mut attributor = attributor(Runtime::Go);
    let first = serve(&mut attributor, goroutine(50, 1, 1), 1, 1);
    let likely = within(first, Evidence::Task, LIKELY);
    let workers = 60..70;
    for worker in workers.clone() {
        assert_eq!(attributor.request_sent(goroutine(worker, 50, 2), None), likely);
        assert_eq!(attributor.request_sent(goroutine(worker, 50, 2), None), likely);
    }
    attributor.request_over(goroutine(50, 1, 1), 1, 3, None);
    serve(&mut attributor, goroutine(51, 1, 4), 2, 2);
    serve(&mut attributor, goroutine(52, 1, 4), 3, 3);
    let found: Vec<Fragment> =
        workers.map(|worker| attributor.request_sent(goroutine(worker, 50, 5), None)).collect();
    let (guesses, rest) = found.split_at(2);
    assert!(guesses.iter().all(|guess| *guess == likely), "it may be left to do: {guesses:?}");
    assert!(rest.iter().all(|rest| *rest == Fragment::Ambiguous { candidates: 2 }), "{rest:?}");
}

/// Once workers were seen, who gives them their work tells for whom they call.
#[test]
fn workers_call_for_who_gave_them_their_work_and_are_never_certain() {
    let mut attributor = attributor(Runtime::Go);
    let first = serve(&mut attributor, goroutine(50, 1, 1), 1, 1);
    let given = |fragment| within(fragment, Evidence::Task, GIVEN);
    // Before, it is not looked at.
    attributor.task_given(PROCESS, 60, (52, 1), 1);
    let likely = within(first, Evidence::Task, LIKELY);
    assert_eq!(attributor.request_sent(goroutine(60, 50, 2), None), likely);
    assert!(attributor.take_workers().is_empty());
    attributor.request_over(goroutine(50, 1, 1), 1, 3, None);
    attributor.request_sent(goroutine(60, 50, 4), None);
    let second = serve(&mut attributor, goroutine(51, 1, 2_000_000_005), 2, 2);
    let third = serve(&mut attributor, goroutine(52, 1, 2_000_000_005), 3, 3);
    attributor.request_sent(goroutine(60, 50, 2_000_000_006), None);
    assert_eq!(attributor.take_workers(), [PROCESS]);
    attributor.task_given(PROCESS, 60, (52, 1), 2_000_000_007);
    let call = attributor.request_sent(goroutine(60, 50, 2_000_000_008), None);
    assert_eq!(call, given(third));
    // Who connects for it gives it the connection, and who reads from that the answer.
    attributor.task_given(PROCESS, 60, (89, 60), 2_000_000_009);
    attributor.answer_read(goroutine(90, 89, 2_000_000_009), 1, 60, None, true);
    attributor.task_given(PROCESS, 60, (90, 89), 2_000_000_010);
    attributor.task_given(PROCESS, 60, (91, 89), 2_000_000_010);
    let call = attributor.request_sent(goroutine(60, 50, 2_000_000_011), None);
    assert_eq!(call, given(third));
    // By one that was made in a request, and by another worker.
    attributor.task_given(PROCESS, 61, (70, 51), 2_000_000_012);
    attributor.task_given(PROCESS, 60, (61, 50), 2_000_000_013);
    let call = attributor.request_sent(goroutine(60, 50, 2_000_000_014), None);
    assert_eq!(call, given(second));
    // What does not come of a request gives it work of nobody.
    attributor.task_given(PROCESS, 60, (80, 1), 2_000_000_015);
    let call = attributor.request_sent(goroutine(60, 50, 2_000_000_016), None);
    assert_eq!(call, Fragment::Ambiguous { candidates: 2 });
    // Who serves a request itself is nobody's worker.
    attributor.task_given(PROCESS, 52, (51, 1), 2_000_000_017);
    assert_eq!(attributor.request_sent(goroutine(52, 1, 2_000_000_018), None), certain(third));
}

#[test]
fn one_task_that_goes_on_costs_the_certainty_of_all() {
    let mut attributor = attributor(Runtime::Go);
    prove_children(&mut attributor);
    let first = serve(&mut attributor, goroutine(50, 1, 1), 1, 1);
    assert_eq!(attributor.request_sent(goroutine(60, 50, 2), None), certain(first));
    attributor.request_over(goroutine(50, 1, 1), 1, 3, None);
    attributor.request_sent(goroutine(60, 50, 4), None);
    let second = serve(&mut attributor, goroutine(51, 1, 5), 2, 2);
    let likely = within(second, Evidence::Task, LIKELY);
    assert_eq!(attributor.request_sent(goroutine(61, 51, 6), None), likely);
    // What a task has read itself is its own.
    assert_eq!(attributor.request_sent(goroutine(51, 1, 7), None), certain(second));
}

#[test]
fn calls_of_a_task_and_of_those_made_by_it_are_certain() {
    let mut attributor = attributor(Runtime::Go);
    prove_children(&mut attributor);
    let first = serve(&mut attributor, goroutine(50, 1, 1), 1, 1);
    let second = serve(&mut attributor, goroutine(51, 1, 2), 2, 2);
    assert_eq!(attributor.request_sent(goroutine(50, 1, 3), None), certain(first));
    assert_eq!(attributor.request_sent(goroutine(51, 1, 4), None), certain(second));
    assert_eq!(attributor.request_sent(goroutine(60, 51, 5), None), certain(second));
    // A grandchild, whose parent was told of before and one that was not.
    attributor.task_known(PROCESS, 61, 50);
    assert_eq!(attributor.request_sent(goroutine(70, 61, 6), None), certain(first));
    let unknown = goroutine(71, 62, 7);
    assert_eq!(attributor.request_sent(unknown, None), Fragment::Ambiguous { candidates: 2 });
    assert_eq!(attributor.take_demoted(), 0);
}

#[test]
fn a_task_that_outlives_its_request_is_not_the_next_ones() {
    let mut attributor = attributor(Runtime::Go);
    prove_children(&mut attributor);
    let first = serve(&mut attributor, goroutine(50, 1, 1), 1, 1);
    let writer = |time_nano| goroutine(60, 50, time_nano);
    assert_eq!(attributor.request_sent(writer(2), None), certain(first));
    attributor.request_over(goroutine(50, 1, 1), 1, 10, None);
    // What it has left to do.
    assert_eq!(attributor.request_sent(writer(11), None), within(first, Evidence::Task, LIKELY));
    assert_eq!(attributor.request_sent(goroutine(50, 1, 11), None), certain(first));
    assert_eq!(
        attributor.request_sent(goroutine(61, 50, 12), None),
        within(first, Evidence::Task, LIKELY)
    );
    // Long after.
    assert_eq!(attributor.request_sent(writer(11 + ENDED_NANO), None), Fragment::None);
    let second = serve(&mut attributor, goroutine(50, 1, 20), 1, 2);
    let others = serve(&mut attributor, goroutine(51, 1, 21), 2, 3);
    assert_ne!(second, others);
    assert_eq!(attributor.request_sent(writer(22), None), Fragment::Ambiguous { candidates: 2 });
    // It may go on with the work of others, and so may any.
    assert_eq!(
        attributor.request_sent(goroutine(62, 50, 23), None),
        within(second, Evidence::Task, LIKELY)
    );
}

#[test]
fn several_requests_of_a_task_are_ambiguous_until_another_task_takes_one() {
    let mut attributor = attributor(Runtime::Go);
    prove_children(&mut attributor);
    let reader = goroutine(50, 1, 1);
    let first = serve(&mut attributor, reader, 1, 1);
    let second = serve(&mut attributor, reader, 1, 2);
    assert_eq!(
        attributor.request_sent(goroutine(60, 50, 2), None),
        Fragment::Ambiguous { candidates: 2 }
    );
    attributor.request_handed(reader, 1, 60);
    attributor.request_handed(reader, 2, 61);
    assert_eq!(attributor.request_sent(goroutine(60, 50, 3), None), certain(first));
    assert_eq!(attributor.request_sent(goroutine(70, 61, 3), None), certain(second));
    attributor.weaken(reader, 2);
    attributor.request_over(reader, 1, 4, None);
    attributor.request_over(reader, 2, 4, None);
    assert_eq!(attributor.request_sent(goroutine(60, 50, 5), None), certain(first));
    assert_eq!(attributor.request_sent(goroutine(62, 50, 5), None), Fragment::None);
}

#[test]
fn a_new_task_belongs_to_what_its_parent_serves_then() {
    let mut attributor = attributor(Runtime::Python);
    prove_children(&mut attributor);
    let first = serve(&mut attributor, goroutine(50, 0, 1), 1, 1);
    made(&mut attributor, 60, 50, 2);
    assert_eq!(attributor.request_sent(goroutine(60, 0, 2), None), certain(first));
    // Made while its parent serves nothing: what that serves later is not its.
    made(&mut attributor, 70, 80, 2);
    let second = serve(&mut attributor, goroutine(80, 0, 3), 2, 2);
    assert_eq!(
        attributor.request_sent(goroutine(70, 0, 4), None),
        Fragment::Ambiguous { candidates: 2 }
    );
    made(&mut attributor, 61, 80, 4);
    assert_eq!(attributor.request_sent(goroutine(61, 0, 5), None), certain(second));
    // The next request of the first's reader is not its children's.
    attributor.request_over(goroutine(50, 0, 1), 1, 7, None);
    let third = serve(&mut attributor, goroutine(50, 0, 8), 1, 3);
    assert_eq!(
        attributor.request_sent(goroutine(60, 0, 9), None),
        within(first, Evidence::Task, LIKELY)
    );
    made(&mut attributor, 62, 50, 9);
    made(&mut attributor, 63, 60, 9);
    let likely = within(third, Evidence::Task, LIKELY);
    assert_eq!(attributor.request_sent(goroutine(62, 0, 10), None), likely, "one has gone on");
    assert_eq!(
        attributor.request_sent(goroutine(63, 0, 10), None),
        within(first, Evidence::Task, LIKELY)
    );
}

/// As asyncio accepts: one task for the connection (10), in it a callback that adds the
/// reader (11) and one that begins with the handler (12); then the reader's (13) and the
/// handler's (14) own.
fn accept(attributor: &mut Attributor, base: u64, connection: u64, time_nano: u64) {
    attributor.accepted(connection, time_nano);
    made(attributor, base, 1, time_nano + 1);
    made(attributor, base + 1, base, time_nano + 2);
    made(attributor, base + 2, base, time_nano + 2);
    made(attributor, base + 3, base + 1, time_nano + 3);
    made(attributor, base + 4, base + 2, time_nano + 3);
}

#[test]
fn a_handler_that_was_made_beside_the_reader_of_its_connection_serves_its_requests() {
    let mut attributor = attributor(Runtime::Python);
    prove_children(&mut attributor);
    accept(&mut attributor, 10, 1, 1000);
    accept(&mut attributor, 20, 2, 2000);
    accept(&mut attributor, 30, 3, 3000);
    let first = serve(&mut attributor, goroutine(13, 0, 4000), 1, 1);
    let second = serve(&mut attributor, goroutine(23, 0, 4001), 2, 2);
    assert_eq!(attributor.request_sent(goroutine(14, 0, 4002), None), certain(first));
    made(&mut attributor, 25, 24, 4003);
    assert_eq!(attributor.request_sent(goroutine(25, 0, 4004), None), certain(second));
    // Nothing was read for the third, and none of that is the listener's.
    let several = Fragment::Ambiguous { candidates: 2 };
    assert_eq!(attributor.request_sent(goroutine(34, 0, 4005), None), several);
    assert_eq!(attributor.request_sent(goroutine(1, 0, 4006), None), several);
    // The next request on the connection; what was made for the one before is not its.
    attributor.request_over(goroutine(23, 0, 0), 2, 4010, None);
    assert_eq!(
        attributor.request_sent(goroutine(24, 0, 4011), None),
        within(second, Evidence::Task, LIKELY)
    );
    let third = serve(&mut attributor, goroutine(23, 0, 4012), 2, 3);
    assert_eq!(attributor.request_sent(goroutine(24, 0, 4013), None), certain(third));
    assert_eq!(
        attributor.request_sent(goroutine(25, 0, 4014), None),
        within(second, Evidence::Task, LIKELY)
    );
}

#[test]
fn what_two_connections_come_from_is_neithers() {
    let mut attributor = attributor(Runtime::Python);
    // Both were established before the listener's own task was made.
    attributor.accepted(1, 10);
    attributor.accepted(2, 10);
    made(&mut attributor, 50, 1, 20);
    made(&mut attributor, 51, 50, 21);
    made(&mut attributor, 52, 50, 21);
    serve(&mut attributor, goroutine(51, 0, 30), 1, 1);
    serve(&mut attributor, goroutine(52, 0, 31), 2, 2);
    made(&mut attributor, 53, 50, 32);
    let several = Fragment::Ambiguous { candidates: 2 };
    assert_eq!(attributor.request_sent(goroutine(53, 0, 33), None), several);
}

#[test]
fn who_begins_with_a_pipelined_request_is_not_sure() {
    let mut attributor = attributor(Runtime::Python);
    let reader = goroutine(50, 0, 1);
    serve(&mut attributor, reader, 1, 1);
    made(&mut attributor, 60, 50, 2);
    serve(&mut attributor, goroutine(50, 0, 3), 1, 2);
    attributor.request_over(reader, 1, 4, None);
    made(&mut attributor, 61, 60, 5);
    assert_eq!(
        attributor.request_sent(goroutine(61, 0, 6), None),
        Fragment::Ambiguous { candidates: 2 }
    );
}

#[test]
fn what_is_made_in_the_callback_of_a_read_is_that_connections() {
    let mut attributor = attributor(Runtime::Python);
    prove_children(&mut attributor);
    // The loop reads in no task at all.
    let first = serve(&mut attributor, goroutine(0, 0, 1), 1, 1);
    let second = serve(&mut attributor, goroutine(0, 0, 2), 2, 2);
    attributor.task_made(PROCESS, 60, 50, 2, false, 3);
    attributor.task_made(PROCESS, 61, 50, 1, false, 3);
    assert_eq!(attributor.request_sent(goroutine(60, 0, 4), None), certain(second));
    assert_eq!(attributor.request_sent(goroutine(61, 0, 4), None), certain(first));
    // What belongs to a request already does not change it.
    attributor.task_made(PROCESS, 62, 60, 1, false, 5);
    assert_eq!(attributor.request_sent(goroutine(62, 0, 6), None), certain(second));
}

#[test]
fn who_answers_a_connection_serves_it_from_then_on() {
    let mut attributor = attributor(Runtime::Python);
    let reader = goroutine(0, 0, 20);
    let serve_on = |attributor: &mut Attributor, connection: u64, exchange: u64| {
        serve(attributor, reader, connection, exchange)
    };
    attributor.accepted(1, 10);
    attributor.accepted(2, 10);
    made(&mut attributor, 60, 50, 11);
    made(&mut attributor, 61, 50, 11);
    made(&mut attributor, 5, 1, 9);
    let several = Fragment::Ambiguous { candidates: 2 };
    for exchange in [1, 3] {
        serve_on(&mut attributor, 1, exchange);
        serve_on(&mut attributor, 2, exchange + 1);
        // A task may have been made for one request, and answer it.
        assert_eq!(
            attributor.request_sent(goroutine(60, 0, 21), None),
            several,
            "nobody knows yet"
        );
        attributor.answered_by(PROCESS, exchange, 60);
        attributor.answered_by(PROCESS, exchange + 1, 61);
        attributor.request_over(reader, exchange, 22, None);
        attributor.request_over(reader, exchange + 1, 22, None);
    }
    let fifth = serve_on(&mut attributor, 1, 5);
    let sixth = serve_on(&mut attributor, 2, 6);
    assert_eq!(attributor.request_sent(goroutine(60, 0, 23), None), certain(fifth));
    assert_eq!(attributor.request_sent(goroutine(61, 0, 23), None), certain(sixth));
    // One that answers for both, and one that is older than the connection.
    attributor.answered_by(PROCESS, 6, 60);
    assert_eq!(attributor.request_sent(goroutine(60, 0, 24), None), several);
    attributor.answered_by(PROCESS, 5, 5);
    attributor.answered_by(PROCESS, 5, 5);
    assert_eq!(attributor.request_sent(goroutine(5, 0, 25), None), several);
}

#[test]
fn lineage_without_end_is_followed_only_so_far() {
    let mut attributor = attributor(Runtime::Go);
    attributor.task_known(PROCESS, 60, 61);
    attributor.task_known(PROCESS, 61, 60);
    assert_eq!(attributor.request_sent(goroutine(60, 61, 1), None), Fragment::None);
}

#[test]
fn a_stream_belongs_to_nobody_until_it_is_handed_over() {
    let mut attributor = attributor(Runtime::Go);
    let reader = goroutine(50, 1, 1);
    let Fragment::Own(first) = attributor.request_read(reader, 1, 3, 1, NO_SORT) else {
        panic!("a server request has its own fragment");
    };
    // Its parent reads for all; what this one handles was not seen.
    attributor.unseen_handed(PROCESS, 60);
    let guess = within(first, Evidence::SoleRequest, LIKELY);
    assert_eq!(attributor.request_sent(goroutine(60, 50, 2), None), guess);
    attributor.request_handed(reader, 1, 61);
    assert_eq!(attributor.request_sent(goroutine(61, 50, 3), None), certain(first));
    attributor.request_over(reader, 1, 4, None);
    assert_eq!(attributor.request_sent(goroutine(61, 50, 5), None), certain(first));
    attributor.unseen_handed(PROCESS, 61);
    assert_eq!(attributor.request_sent(goroutine(61, 50, 6), None), Fragment::None);
}
