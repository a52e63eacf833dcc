//! Links by the thread of a request, and by the turns of a loop.

use super::*;

#[test]
fn one_request_at_a_time_proves_nothing_of_several() {
    let mut attributor = attributor(other());
    one_after_the_other(&mut attributor, 0);
    let first = read(&mut attributor, 1, 1, 1);
    assert_eq!(attributor.request_sent(caller(1), None), within(first, Evidence::Thread, 1.0));
    // A loop would do the same now, and not be seen through yet.
    read(&mut attributor, 2, 2, 2);
    assert_eq!(attributor.request_sent(caller(1), None), within(first, Evidence::Thread, LIKELY));
}

#[test]
fn a_thread_is_likely_until_proven_and_certain_then() {
    let mut attributor = attributor(other());
    let fragment = read(&mut attributor, 1, 1, 1);
    assert_eq!(
        attributor.request_sent(caller(1), None),
        within(fragment, Evidence::Thread, LIKELY)
    );
    over(&mut attributor, 1, 1, 1);
    prove(&mut attributor);
    let first = read(&mut attributor, 1, 2, 2);
    let second = read(&mut attributor, 2, 3, 3);
    assert_eq!(attributor.request_sent(caller(1), None), within(first, Evidence::Thread, 1.0));
    assert_eq!(attributor.request_sent(caller(2), None), within(second, Evidence::Thread, 1.0));
}

#[test]
fn without_an_open_request_there_is_no_fragment() {
    let mut attributor = attributor(other());
    assert_eq!(attributor.request_sent(caller(1), None), Fragment::None);
    read(&mut attributor, 1, 1, 1);
    over(&mut attributor, 1, 1, 1);
    assert_eq!(attributor.request_sent(caller(1), None), Fragment::None);
    assert_eq!(attributor.request_sent(Caller { process: 99, ..caller(1) }, None), Fragment::None);
}

#[test]
fn another_thread_may_only_have_the_sole_request() {
    let mut attributor = attributor(other());
    let fragment = read(&mut attributor, 1, 1, 1);
    let sole = within(fragment, Evidence::SoleRequest, LIKELY);
    assert_eq!(attributor.request_sent(caller(7), None), sole);
    read(&mut attributor, 2, 2, 2);
    assert_eq!(attributor.request_sent(caller(7), None), Fragment::Ambiguous { candidates: 2 });
}

#[test]
fn who_calls_as_often_while_no_request_is_open_calls_for_none() {
    let mut attributor = attributor(other());
    let at = |thread, millis: u64| Caller { time_nano: millis * 1_000_000, ..caller(thread) };
    for round in 1..50u64 {
        let from = round * 20;
        read_at(&mut attributor, 1, 1, round, from * 1_000_000);
        attributor.request_sent(at(7, from + 5), None);
        attributor.request_over(at(1, from), round, (from + 10) * 1_000_000, None);
        assert_eq!(attributor.request_sent(at(7, from + 15), None), Fragment::None);
    }
    let fragment = read_at(&mut attributor, 1, 1, 100, 1_000_000_000);
    assert_eq!(attributor.request_sent(at(7, 1_005), None), Fragment::None);
    // Asking again is no other call.
    assert_eq!(attributor.call_made(at(7, 1_005), None, Call::Again(NO_SORT)), Fragment::None);
    // A thread that makes none in between.
    let sole = within(fragment, Evidence::SoleRequest, LIKELY);
    assert_eq!(attributor.request_sent(at(8, 1_006), None), sole);
    // And what it does itself, it does for its request.
    let own = within(fragment, Evidence::Thread, LIKELY);
    assert_eq!(attributor.request_sent(at(1, 1_007), None), own);
}

#[test]
fn go_and_node_threads_say_nothing() {
    for runtime in [Runtime::Go, Runtime::Node] {
        let mut attributor = attributor(runtime);
        let fragment = read(&mut attributor, 1, 1, 1);
        let sole = within(fragment, Evidence::SoleRequest, LIKELY);
        assert_eq!(attributor.request_sent(caller(1), None), sole);
        read(&mut attributor, 2, 2, 2);
        assert_eq!(attributor.request_sent(caller(1), None), Fragment::Ambiguous { candidates: 2 });
    }
}

/// Reads and answers requests of this sort, of which another thread answers some.
fn handle(attributor: &mut Attributor, sort: u64, count: u64, writer: u32) {
    for exchange in 5000..5000 + count {
        attributor.request_read(caller(1), exchange, 0, exchange, sort);
        over(attributor, 1, exchange, writer);
    }
}

#[test]
fn an_endpoint_that_others_answer_says_nothing_of_the_rest() {
    const OWN: u64 = 7;
    const OTHERS: u64 = 8;
    let mut attributor = attributor(other());
    handle(&mut attributor, OTHERS, 20, 2);
    assert_eq!(attributor.take_demoted(), 1);
    // One of a new kind is as those that are known.
    let ask = |attributor: &mut Attributor, sort| {
        let read = attributor.request_read(caller(1), 1, 0, 1, sort);
        read_at(attributor, 2, 2, 2, 0);
        let found = attributor.request_sent(caller(1), None);
        over(attributor, 2, 2, 2);
        attributor.request_over(caller(1), 1, 0, None);
        (read, found)
    };
    assert_eq!(ask(&mut attributor, OWN).1, Fragment::Ambiguous { candidates: 2 });
    handle(&mut attributor, OWN, 20, 1);
    let (Fragment::Own(fragment), found) = ask(&mut attributor, OWN) else { panic!() };
    assert_eq!(found, within(fragment, Evidence::Thread, LIKELY), "as before");
    assert_eq!(ask(&mut attributor, OTHERS).1, Fragment::Ambiguous { candidates: 2 });
    // That threads wait for their calls says that those are of what they have read.
    prove(&mut attributor);
    let (Fragment::Own(fragment), found) = ask(&mut attributor, OTHERS) else { panic!() };
    assert_eq!(found, within(fragment, Evidence::Thread, LIKELY));
    let (Fragment::Own(fragment), found) = ask(&mut attributor, OWN) else { panic!() };
    assert_eq!(found, within(fragment, Evidence::Thread, 1.0));
}

#[test]
fn who_hands_a_request_over_reads_the_next() {
    let mut attributor = attributor(other());
    prove(&mut attributor);
    read(&mut attributor, 1, 1, 1);
    let second = read(&mut attributor, 1, 2, 2);
    assert_eq!(
        attributor.request_sent(caller(1), None),
        within(second, Evidence::Thread, LIKELY),
        "the first is with another thread"
    );
    over(&mut attributor, 1, 1, 3);
    over(&mut attributor, 1, 2, 1);
    assert_eq!(attributor.take_demoted(), 0);
}

#[test]
fn loops_that_never_did_one_thing_at_a_time_are_not_believed() {
    let mut attributor = attributor(other());
    read(&mut attributor, 1, 1, 1);
    read(&mut attributor, 1, 2, 2);
    assert_eq!(attributor.take_demoted(), 1);
    assert_eq!(attributor.request_sent(caller(1), None), Fragment::Ambiguous { candidates: 2 });
}

/// What event loops with one connection each do, and threads that wait for their calls never.
#[test]
fn one_thing_that_a_waiting_thread_does_not_do_costs_all_certainty() {
    type Does = fn(&mut Attributor);
    let does: [(&str, Does); 4] = [
        ("answers while its call is not answered", |attributor| {
            read(attributor, 1, 1, 1);
            called(attributor, 1, 50);
            let first_writer = Caller { time_nano: 1, ..caller(1) };
            let handled = Handled { first_writer, last_thread: 1 };
            attributor.request_over(caller(1), 1, 1, Some(handled));
        }),
        ("has the answer read by another thread", |attributor| {
            read(attributor, 1, 1, 1);
            waits(attributor, 1, 50, 2);
            over(attributor, 1, 1, 1);
        }),
        ("reads something else meanwhile", |attributor| {
            read(attributor, 1, 1, 1);
            called(attributor, 1, 50);
            attributor.bytes_read(caller(1), 51);
            over(attributor, 1, 1, 1);
        }),
        ("calls while it serves nobody", |attributor| {
            attributor.bytes_read(caller(1), 51);
            called(attributor, 1, 50);
        }),
    ];
    for (what, does) in does {
        let mut attributor = attributor(other());
        prove(&mut attributor);
        does(&mut attributor);
        read(&mut attributor, 1, 3, 3);
        let second = read(&mut attributor, 2, 4, 4);
        assert_eq!(
            attributor.request_sent(caller(2), None),
            within(second, Evidence::Thread, LIKELY),
            "{what}"
        );
        // Where it is the rule, threads tell nothing.
        over(&mut attributor, 1, 3, 1);
        over(&mut attributor, 2, 4, 2);
        for _ in 0..5 {
            does(&mut attributor);
        }
        read(&mut attributor, 1, 3, 3);
        read(&mut attributor, 2, 4, 4);
        let found = attributor.request_sent(caller(2), None);
        assert_eq!(found, Fragment::Ambiguous { candidates: 2 }, "{what}");
    }
}

#[test]
fn a_thread_that_has_given_up_its_call_or_left_one_for_later_does_nothing_else() {
    let mut attributor = attributor(other());
    prove(&mut attributor);
    read(&mut attributor, 1, 1, 1);
    called(&mut attributor, 1, 50);
    // It took too long, and the connection is closed.
    attributor.closed(50);
    over(&mut attributor, 1, 1, 1);
    // What is left to do after the answer.
    called(&mut attributor, 1, 51);
    attributor.bytes_read(caller(1), 51);
    let fragment = read(&mut attributor, 1, 2, 2);
    read(&mut attributor, 2, 3, 3);
    let certain = within(fragment, Evidence::Thread, 1.0);
    assert_eq!(attributor.request_sent(caller(1), None), certain);
}

#[test]
fn what_was_open_when_events_were_lost_blames_nobody_and_proves_nothing() {
    let mut attributor = attributor(other());
    prove(&mut attributor);
    let first = read_at(&mut attributor, 1, 1, 1, 5);
    attributor.events_lost(10);
    // The thread may be at a request that nobody saw.
    assert_eq!(attributor.request_sent(caller(1), None), within(first, Evidence::Thread, LIKELY));
    // It is at another one now: the end of the first was not seen.
    let second = read_at(&mut attributor, 1, 2, 2, 20);
    assert_eq!(attributor.take_demoted(), 0);
    assert_eq!(attributor.request_sent(caller(1), None), within(second, Evidence::Thread, LIKELY));
    over(&mut attributor, 1, 2, 1);
    prove_at(&mut attributor, 25);
    let third = read_at(&mut attributor, 1, 3, 3, 30);
    assert_eq!(attributor.request_sent(caller(1), None), within(third, Evidence::Thread, 1.0));
    // What another thread wrote may be the response to what was not seen.
    over(&mut attributor, 1, 3, 1);
    read_at(&mut attributor, 1, 3, 5, 32);
    attributor.events_lost(33);
    over(&mut attributor, 1, 5, 2);
    assert_eq!(attributor.take_demoted(), 0);
    // With nothing lost in between, another thread has the first of two.
    read_at(&mut attributor, 1, 3, 6, 35);
    let last = read_at(&mut attributor, 1, 4, 4, 40);
    assert_eq!(attributor.request_sent(caller(1), None), within(last, Evidence::Thread, LIKELY));
    assert_eq!(attributor.take_demoted(), 0);
}

#[test]
fn pipelined_requests_are_ambiguous_but_no_violation() {
    let mut attributor = attributor(other());
    prove(&mut attributor);
    read(&mut attributor, 1, 1, 1);
    let second = read(&mut attributor, 1, 1, 2);
    assert_eq!(attributor.request_sent(caller(1), None), Fragment::Ambiguous { candidates: 2 });
    over(&mut attributor, 1, 1, 1);
    assert_eq!(attributor.request_sent(caller(1), None), within(second, Evidence::Thread, 1.0));
    assert_eq!(attributor.take_demoted(), 0);
}

#[test]
fn a_response_without_a_visible_end_is_over_when_its_thread_reads_again() {
    let mut attributor = attributor(other());
    prove(&mut attributor);
    let first = read(&mut attributor, 1, 1, 1);
    attributor.weaken(caller(1), 1);
    assert_eq!(attributor.request_sent(caller(1), None), within(first, Evidence::Thread, 1.0));
    let second = read(&mut attributor, 1, 2, 2);
    assert_eq!(attributor.request_sent(caller(1), None), within(second, Evidence::Thread, 1.0));
    assert_eq!(attributor.take_demoted(), 0);
    // What was taken for over may be closed again without harm.
    over(&mut attributor, 1, 1, 1);
    over(&mut attributor, 1, 2, 1);
    assert_eq!(attributor.request_sent(caller(1), None), Fragment::None);
}

#[test]
fn a_request_whose_connection_closed_proves_nothing() {
    let mut attributor = attributor(other());
    for exchange in 0..100 {
        read(&mut attributor, 1, exchange, exchange);
        attributor.request_over(caller(1), exchange, 0, None);
    }
    let fragment = read(&mut attributor, 1, 200, 200);
    assert_eq!(
        attributor.request_sent(caller(1), None),
        within(fragment, Evidence::Thread, LIKELY)
    );
}

/// A loop that serves one request at a time, and makes calls of its own meanwhile.
#[test]
fn a_thread_that_does_more_than_one_thing_at_a_time_is_never_certain() {
    let mut attributor = attributor(other());
    prove(&mut attributor);
    attributor.bytes_read(caller(1), 1);
    let fragment = read(&mut attributor, 1, 1, 1);
    let (call, own) = (2, 3);
    assert_eq!(called(&mut attributor, 1, call), within(fragment, Evidence::Thread, 1.0));
    attributor.bytes_read(Caller { time_nano: 1, ..caller(1) }, own);
    assert_eq!(
        attributor.request_sent(caller(1), None),
        within(fragment, Evidence::Thread, LIKELY)
    );
}

/// With several requests at once, what the loop has read tells which a call is for.
#[test]
fn the_calls_of_a_loop_belong_to_what_it_has_read() {
    let mut attributor = attributor(Runtime::Node);
    let at = |time_nano: u64| Caller { time_nano, sleeps: 1, ..caller(1) };
    let ask = |attributor: &mut Attributor, time_nano: u64| {
        attributor.bytes_read(at(time_nano), time_nano);
        match attributor.request_read(at(time_nano), time_nano, 0, time_nano, NO_SORT) {
            Fragment::Own(fragment) => fragment,
            found => panic!("{found:?}"),
        }
    };
    // One is open all the time.
    ask(&mut attributor, 1);
    for exchange in 2..=21 {
        ask(&mut attributor, exchange);
        let handled = Handled { first_writer: at(exchange), last_thread: 1 };
        attributor.request_over(at(exchange), exchange, exchange, Some(handled));
    }
    let turn = |fragment: u64| within(fragment, Evidence::Turn, 20.0 / 20.5);
    let first = ask(&mut attributor, 100);
    assert_eq!(attributor.request_sent(at(101), None), turn(first));
    let second = ask(&mut attributor, 102);
    assert_eq!(attributor.request_sent(at(103), None), turn(second));
    // The answer to the first one's call is read.
    attributor.bytes_read(at(104), 7);
    attributor.answer_read(at(104), 7, 0, Some([first; 3]), true);
    assert_eq!(attributor.request_sent(at(105), None), turn(first));
    // It connects in that turn, and writes when it has read something else.
    attributor.bytes_read(at(106), 8);
    assert_eq!(attributor.request_sent(at(107), Some(at(105))), turn(first));
    let after_a_timer = Caller { sleeps: 2, ..at(108) };
    assert_eq!(attributor.request_sent(after_a_timer, None), Fragment::Ambiguous { candidates: 3 });
}

/// A loop whose requests make their calls at once, and a timer that makes the same calls.
#[test]
fn calls_of_a_loop_in_nobodys_turn_are_judged_by_themselves() {
    const MILLI: u64 = 1_000_000;
    let mut attributor = attributor(Runtime::Node);
    let at = |time_nano, sleeps| Caller { time_nano, sleeps, ..caller(1) };
    let call = |attributor: &mut Attributor, sender, connection| {
        let fragment = attributor.call_made(sender, None, Call::New(3));
        attributor.answer_awaited(sender, connection, fragment, None);
        fragment
    };
    for round in 1..=40 {
        let (start, sleeps) = (round * 20 * MILLI, 10 * round as u32);
        attributor.bytes_read(at(start, sleeps), 5);
        let fragment = read_at_turn(&mut attributor, at(start, sleeps), 5, round);
        let own = call(&mut attributor, at(start + 1, sleeps), 77);
        // The timer comes while the request waits, and while nobody does.
        let timers = call(&mut attributor, at(start + 5 * MILLI, sleeps + 1), 78);
        let end = start + 10 * MILLI;
        let handled = Handled { first_writer: at(end, sleeps + 2), last_thread: 1 };
        attributor.request_over(at(end, sleeps + 2), round, end, Some(handled));
        call(&mut attributor, at(end + 5 * MILLI, sleeps + 3), 78);
        if round > 20 {
            assert_eq!(own, within(fragment, Evidence::SoleRequest, LIKELY), "{round}");
            assert_eq!(timers, Fragment::None, "{round}");
        }
    }
}

fn read_at_turn(
    attributor: &mut Attributor,
    reader: Caller,
    connection: u64,
    exchange: u64,
) -> u64 {
    match attributor.request_read(reader, connection, 0, exchange, NO_SORT) {
        Fragment::Own(fragment) => fragment,
        found => panic!("a server request has its own fragment, not {found:?}"),
    }
}
