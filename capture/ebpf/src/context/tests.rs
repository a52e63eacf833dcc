use super::*;

const PROCESS: u32 = 10;

/// A thread without a task, as time begins.
fn caller(thread: u32) -> Caller {
    Caller { process: PROCESS, thread, task: 0, parent_task: 0, time_nano: 0, sleeps: 0 }
}

fn context(runtime: Runtime) -> Context {
    let mut context = Context::new(1);
    context.introduce(PROCESS, &runtime);
    context
}

fn other() -> Runtime {
    Runtime::Other("app".to_owned())
}

fn read(context: &mut Context, thread: u32, connection: u64, exchange: u64) -> u64 {
    read_at(context, thread, connection, exchange, 0)
}

fn read_at(
    context: &mut Context,
    thread: u32,
    connection: u64,
    exchange: u64,
    read_nano: u64,
) -> u64 {
    let reader = Caller { time_nano: read_nano, ..caller(thread) };
    match context.request_read(reader, connection, 0, exchange) {
        Fragment::Own(fragment) => fragment,
        found => panic!("a server request has its own fragment, not {found:?}"),
    }
}

fn over(context: &mut Context, thread: u32, exchange: u64, writer: u32) {
    let handled = Handled { first_writer: caller(writer), last_thread: writer };
    context.request_over(caller(thread), exchange, 0, Some(handled));
}

fn prove(context: &mut Context) {
    prove_at(context, 0);
}

/// Threads serve one request each, also while others do.
fn prove_at(context: &mut Context, read_nano: u64) {
    read_at(context, 99, 999, 999, read_nano);
    one_after_the_other(context, read_nano);
    over(context, 99, 999, 99);
}

fn one_after_the_other(context: &mut Context, read_nano: u64) {
    for exchange in 1000..1000 + u64::from(PROVEN_AFTER) {
        read_at(context, 1, exchange, exchange, read_nano);
        over(context, 1, exchange, 1);
    }
}

#[test]
fn one_request_at_a_time_proves_nothing_of_several() {
    let mut context = context(other());
    one_after_the_other(&mut context, 0);
    let first = read(&mut context, 1, 1, 1);
    assert_eq!(context.request_sent(caller(1), None), within(first, Evidence::Thread, 1.0));
    // A loop would do the same now, and not be seen through yet.
    read(&mut context, 2, 2, 2);
    assert_eq!(context.request_sent(caller(1), None), within(first, Evidence::Thread, LIKELY));
}

#[test]
fn a_thread_is_likely_until_proven_and_certain_then() {
    let mut context = context(other());
    let fragment = read(&mut context, 1, 1, 1);
    assert_eq!(context.request_sent(caller(1), None), within(fragment, Evidence::Thread, 0.9));
    over(&mut context, 1, 1, 1);
    prove(&mut context);
    let first = read(&mut context, 1, 2, 2);
    let second = read(&mut context, 2, 3, 3);
    assert_eq!(context.request_sent(caller(1), None), within(first, Evidence::Thread, 1.0));
    assert_eq!(context.request_sent(caller(2), None), within(second, Evidence::Thread, 1.0));
}

#[test]
fn without_an_open_request_there_is_no_fragment() {
    let mut context = context(other());
    assert_eq!(context.request_sent(caller(1), None), Fragment::None);
    read(&mut context, 1, 1, 1);
    over(&mut context, 1, 1, 1);
    assert_eq!(context.request_sent(caller(1), None), Fragment::None);
    assert_eq!(context.request_sent(Caller { process: 99, ..caller(1) }, None), Fragment::None);
}

#[test]
fn another_thread_may_only_have_the_sole_request() {
    let mut context = context(other());
    let fragment = read(&mut context, 1, 1, 1);
    let sole = within(fragment, Evidence::SoleRequest, 0.9);
    assert_eq!(context.request_sent(caller(7), None), sole);
    read(&mut context, 2, 2, 2);
    assert_eq!(context.request_sent(caller(7), None), Fragment::Ambiguous { candidates: 2 });
}

#[test]
fn who_calls_as_often_while_no_request_is_open_calls_for_none() {
    let mut context = context(other());
    let at = |thread, millis: u64| Caller { time_nano: millis * 1_000_000, ..caller(thread) };
    for round in 1..50u64 {
        let from = round * 20;
        read_at(&mut context, 1, 1, round, from * 1_000_000);
        context.request_sent(at(7, from + 5), None);
        context.request_over(at(1, from), round, (from + 10) * 1_000_000, None);
        assert_eq!(context.request_sent(at(7, from + 15), None), Fragment::None);
    }
    let fragment = read_at(&mut context, 1, 1, 100, 1_000_000_000);
    let perhaps = Fragment::Ambiguous { candidates: 1 };
    assert_eq!(context.request_sent(at(7, 1_005), None), perhaps);
    // Asking again is no other call.
    assert_eq!(context.call_made(at(7, 1_005), None, Call::Again(NO_SORT)), perhaps);
    // A thread that makes none in between.
    let sole = within(fragment, Evidence::SoleRequest, LIKELY);
    assert_eq!(context.request_sent(at(8, 1_006), None), sole);
    // And what it does itself, it does for its request.
    let own = within(fragment, Evidence::Thread, LIKELY);
    assert_eq!(context.request_sent(at(1, 1_007), None), own);
}

#[test]
fn go_and_node_threads_say_nothing() {
    for runtime in [Runtime::Go, Runtime::Node] {
        let mut context = context(runtime);
        let fragment = read(&mut context, 1, 1, 1);
        let sole = within(fragment, Evidence::SoleRequest, 0.9);
        assert_eq!(context.request_sent(caller(1), None), sole);
        read(&mut context, 2, 2, 2);
        assert_eq!(context.request_sent(caller(1), None), Fragment::Ambiguous { candidates: 2 });
    }
}

#[test]
fn a_second_request_on_a_thread_ends_the_trust_in_threads_for_good() {
    let mut context = context(other());
    prove(&mut context);
    read(&mut context, 1, 1, 1);
    read(&mut context, 1, 2, 2);
    assert_eq!(context.request_sent(caller(1), None), Fragment::Ambiguous { candidates: 2 });
    assert_eq!(context.take_demoted(), 1);
    over(&mut context, 1, 1, 1);
    over(&mut context, 1, 2, 1);
    prove(&mut context);
    let fragment = read(&mut context, 1, 3, 3);
    let sole = within(fragment, Evidence::SoleRequest, 0.9);
    assert_eq!(context.request_sent(caller(1), None), sole);
    assert_eq!(context.take_demoted(), 0);
}

#[test]
fn a_response_written_elsewhere_ends_it_too() {
    let mut context = context(other());
    prove(&mut context);
    read(&mut context, 1, 1, 1);
    over(&mut context, 1, 1, 2);
    assert_eq!(context.take_demoted(), 1);
    context.forget(PROCESS);
    context.introduce(PROCESS, &other());
    let fragment = read(&mut context, 1, 2, 2);
    assert_eq!(context.request_sent(caller(1), None), within(fragment, Evidence::Thread, 0.9));
}

#[test]
fn what_was_open_when_events_were_lost_blames_nobody_and_proves_nothing() {
    let mut context = context(other());
    prove(&mut context);
    let first = read_at(&mut context, 1, 1, 1, 5);
    context.events_lost(10);
    // The thread may be at a request that nobody saw.
    assert_eq!(context.request_sent(caller(1), None), within(first, Evidence::Thread, 0.9));
    // It is at another one now: the end of the first was not seen.
    let second = read_at(&mut context, 1, 2, 2, 20);
    assert_eq!(context.take_demoted(), 0);
    assert_eq!(context.request_sent(caller(1), None), within(second, Evidence::Thread, 0.9));
    over(&mut context, 1, 2, 1);
    prove_at(&mut context, 25);
    let third = read_at(&mut context, 1, 3, 3, 30);
    assert_eq!(context.request_sent(caller(1), None), within(third, Evidence::Thread, 1.0));
    // What another thread wrote may be the response to what was not seen.
    over(&mut context, 1, 3, 1);
    read_at(&mut context, 1, 3, 5, 32);
    context.events_lost(33);
    over(&mut context, 1, 5, 2);
    assert_eq!(context.take_demoted(), 0);
    // With nothing lost in between, two at a time are two at a time.
    read_at(&mut context, 1, 3, 6, 35);
    read_at(&mut context, 1, 4, 4, 40);
    assert_eq!(context.take_demoted(), 1);
}

#[test]
fn pipelined_requests_are_ambiguous_but_no_violation() {
    let mut context = context(other());
    prove(&mut context);
    read(&mut context, 1, 1, 1);
    let second = read(&mut context, 1, 1, 2);
    assert_eq!(context.request_sent(caller(1), None), Fragment::Ambiguous { candidates: 2 });
    over(&mut context, 1, 1, 1);
    assert_eq!(context.request_sent(caller(1), None), within(second, Evidence::Thread, 1.0));
    assert_eq!(context.take_demoted(), 0);
}

#[test]
fn a_response_without_a_visible_end_is_over_when_its_thread_reads_again() {
    let mut context = context(other());
    prove(&mut context);
    let first = read(&mut context, 1, 1, 1);
    context.weaken(caller(1), 1);
    assert_eq!(context.request_sent(caller(1), None), within(first, Evidence::Thread, 1.0));
    let second = read(&mut context, 1, 2, 2);
    assert_eq!(context.request_sent(caller(1), None), within(second, Evidence::Thread, 1.0));
    assert_eq!(context.take_demoted(), 0);
    // What was taken for over may be closed again without harm.
    over(&mut context, 1, 1, 1);
    over(&mut context, 1, 2, 1);
    assert_eq!(context.request_sent(caller(1), None), Fragment::None);
}

#[test]
fn a_request_whose_connection_closed_proves_nothing() {
    let mut context = context(other());
    for exchange in 0..100 {
        read(&mut context, 1, exchange, exchange);
        context.request_over(caller(1), exchange, 0, None);
    }
    let fragment = read(&mut context, 1, 200, 200);
    assert_eq!(context.request_sent(caller(1), None), within(fragment, Evidence::Thread, 0.9));
}

/// A loop that serves one request at a time, and makes calls of its own meanwhile.
#[test]
fn a_thread_that_does_more_than_one_thing_at_a_time_is_never_certain() {
    let mut context = context(other());
    prove(&mut context);
    context.bytes_read(caller(1), 1);
    let fragment = read(&mut context, 1, 1, 1);
    let (call, own) = (2, 3);
    for round in 0..3 {
        assert_eq!(context.request_sent(caller(1), None), within(fragment, Evidence::Thread, 1.0));
        context.answer_awaited(caller(1), call);
        context.bytes_read(Caller { time_nano: round, ..caller(1) }, own);
    }
    assert_eq!(context.request_sent(caller(1), None), within(fragment, Evidence::Thread, 0.9));
}

/// With several requests at once, what the loop has read tells which a call is for.
#[test]
fn the_calls_of_a_loop_belong_to_what_it_has_read() {
    let mut context = context(Runtime::Node);
    let at = |time_nano: u64| Caller { time_nano, sleeps: 1, ..caller(1) };
    let ask = |context: &mut Context, time_nano: u64| {
        context.bytes_read(at(time_nano), time_nano);
        match context.request_read(at(time_nano), time_nano, 0, time_nano) {
            Fragment::Own(fragment) => fragment,
            found => panic!("{found:?}"),
        }
    };
    // One is open all the time.
    ask(&mut context, 1);
    for exchange in 2..=21 {
        ask(&mut context, exchange);
        let handled = Handled { first_writer: at(exchange), last_thread: 1 };
        context.request_over(at(exchange), exchange, exchange, Some(handled));
    }
    let turn = |fragment: u64| within(fragment, Evidence::Turn, 0.99);
    let first = ask(&mut context, 100);
    assert_eq!(context.request_sent(at(101), None), turn(first));
    let second = ask(&mut context, 102);
    assert_eq!(context.request_sent(at(103), None), turn(second));
    // The answer to the first one's call is read.
    context.bytes_read(at(104), 7);
    context.answer_read(at(104), first);
    assert_eq!(context.request_sent(at(105), None), turn(first));
    // It connects in that turn, and writes when it has read something else.
    ask(&mut context, 106);
    assert_eq!(context.request_sent(at(107), Some(at(105))), turn(first));
    let after_a_timer = Caller { sleeps: 2, ..at(108) };
    assert_eq!(context.request_sent(after_a_timer, None), Fragment::Ambiguous { candidates: 4 });
}

/// Goroutines on whatever threads.
fn goroutine(task: u64, parent_task: u64, time_nano: u64) -> Caller {
    let thread = u32::try_from(time_nano % 4).expect("small");
    Caller { process: PROCESS, thread, task, parent_task, time_nano, sleeps: 0 }
}

fn serve(context: &mut Context, reader: Caller, connection: u64, exchange: u64) -> u64 {
    match context.request_read(reader, connection, 0, exchange) {
        Fragment::Own(fragment) => fragment,
        found => panic!("a server request has its own fragment, not {found:?}"),
    }
}

fn certain(fragment: u64) -> Fragment {
    within(fragment, Evidence::Task, 1.0)
}

#[test]
fn calls_of_a_task_and_of_those_made_by_it_are_certain() {
    let mut context = context(Runtime::Go);
    let first = serve(&mut context, goroutine(50, 1, 1), 1, 1);
    let second = serve(&mut context, goroutine(51, 1, 2), 2, 2);
    assert_eq!(context.request_sent(goroutine(50, 1, 3), None), certain(first));
    assert_eq!(context.request_sent(goroutine(51, 1, 4), None), certain(second));
    assert_eq!(context.request_sent(goroutine(60, 51, 5), None), certain(second));
    // A grandchild, whose parent was told of before and one that was not.
    context.task_known(PROCESS, 61, 50);
    assert_eq!(context.request_sent(goroutine(70, 61, 6), None), certain(first));
    let unknown = goroutine(71, 62, 7);
    assert_eq!(context.request_sent(unknown, None), Fragment::Ambiguous { candidates: 2 });
    assert_eq!(context.take_demoted(), 0);
}

#[test]
fn a_task_that_outlives_its_request_is_not_the_next_ones() {
    let mut context = context(Runtime::Go);
    let first = serve(&mut context, goroutine(50, 1, 1), 1, 1);
    let writer = |time_nano| goroutine(60, 50, time_nano);
    assert_eq!(context.request_sent(writer(2), None), certain(first));
    context.request_over(goroutine(50, 1, 1), 1, 10, None);
    // What it has left to do.
    assert_eq!(context.request_sent(writer(11), None), within(first, Evidence::Task, LIKELY));
    assert_eq!(context.request_sent(goroutine(50, 1, 11), None), certain(first));
    assert_eq!(
        context.request_sent(goroutine(61, 50, 12), None),
        within(first, Evidence::Task, LIKELY)
    );
    // Long after.
    assert_eq!(context.request_sent(writer(11 + ENDED_NANO), None), Fragment::None);
    let second = serve(&mut context, goroutine(50, 1, 20), 1, 2);
    let others = serve(&mut context, goroutine(51, 1, 21), 2, 3);
    assert_ne!(second, others);
    assert_eq!(context.request_sent(writer(22), None), Fragment::Ambiguous { candidates: 2 });
    assert_eq!(context.request_sent(goroutine(62, 50, 23), None), certain(second));
}

#[test]
fn several_requests_of_a_task_are_ambiguous_until_another_task_takes_one() {
    let mut context = context(Runtime::Go);
    let reader = goroutine(50, 1, 1);
    let first = serve(&mut context, reader, 1, 1);
    let second = serve(&mut context, reader, 1, 2);
    assert_eq!(
        context.request_sent(goroutine(60, 50, 2), None),
        Fragment::Ambiguous { candidates: 2 }
    );
    context.request_handed(reader, 1, 60);
    context.request_handed(reader, 2, 61);
    assert_eq!(context.request_sent(goroutine(60, 50, 3), None), certain(first));
    assert_eq!(context.request_sent(goroutine(70, 61, 3), None), certain(second));
    context.weaken(reader, 2);
    context.request_over(reader, 1, 4, None);
    context.request_over(reader, 2, 4, None);
    assert_eq!(context.request_sent(goroutine(60, 50, 5), None), certain(first));
    assert_eq!(context.request_sent(goroutine(62, 50, 5), None), Fragment::None);
}

fn made(context: &mut Context, task: u64, parent: u64, time_nano: u64) {
    context.task_made(PROCESS, task, parent, 0, false, time_nano);
}

#[test]
fn a_new_task_belongs_to_what_its_parent_serves_then() {
    let mut context = context(Runtime::Python);
    let first = serve(&mut context, goroutine(50, 0, 1), 1, 1);
    made(&mut context, 60, 50, 2);
    assert_eq!(context.request_sent(goroutine(60, 0, 2), None), certain(first));
    // Made while its parent serves nothing: what that serves later is not its.
    made(&mut context, 70, 80, 2);
    let second = serve(&mut context, goroutine(80, 0, 3), 2, 2);
    assert_eq!(
        context.request_sent(goroutine(70, 0, 4), None),
        Fragment::Ambiguous { candidates: 2 }
    );
    made(&mut context, 61, 80, 4);
    assert_eq!(context.request_sent(goroutine(61, 0, 5), None), certain(second));
    // The next request of the first's reader is not its children's.
    context.request_over(goroutine(50, 0, 1), 1, 7, None);
    let third = serve(&mut context, goroutine(50, 0, 8), 1, 3);
    assert_eq!(
        context.request_sent(goroutine(60, 0, 9), None),
        within(first, Evidence::Task, LIKELY)
    );
    made(&mut context, 62, 50, 9);
    made(&mut context, 63, 60, 9);
    assert_eq!(context.request_sent(goroutine(62, 0, 10), None), certain(third));
    assert_eq!(
        context.request_sent(goroutine(63, 0, 10), None),
        within(first, Evidence::Task, LIKELY)
    );
}

/// As asyncio accepts: one task for the connection (10), in it a callback that adds the
/// reader (11) and one that begins with the handler (12); then the reader's (13) and the
/// handler's (14) own.
fn accept(context: &mut Context, base: u64, connection: u64, time_nano: u64) {
    context.accepted(connection, time_nano);
    made(context, base, 1, time_nano + 1);
    made(context, base + 1, base, time_nano + 2);
    made(context, base + 2, base, time_nano + 2);
    made(context, base + 3, base + 1, time_nano + 3);
    made(context, base + 4, base + 2, time_nano + 3);
}

#[test]
fn a_handler_that_was_made_beside_the_reader_of_its_connection_serves_its_requests() {
    let mut context = context(Runtime::Python);
    accept(&mut context, 10, 1, 1000);
    accept(&mut context, 20, 2, 2000);
    accept(&mut context, 30, 3, 3000);
    let first = serve(&mut context, goroutine(13, 0, 4000), 1, 1);
    let second = serve(&mut context, goroutine(23, 0, 4001), 2, 2);
    assert_eq!(context.request_sent(goroutine(14, 0, 4002), None), certain(first));
    made(&mut context, 25, 24, 4003);
    assert_eq!(context.request_sent(goroutine(25, 0, 4004), None), certain(second));
    // Nothing was read for the third, and none of that is the listener's.
    let several = Fragment::Ambiguous { candidates: 2 };
    assert_eq!(context.request_sent(goroutine(34, 0, 4005), None), several);
    assert_eq!(context.request_sent(goroutine(1, 0, 4006), None), several);
    // The next request on the connection; what was made for the one before is not its.
    context.request_over(goroutine(23, 0, 0), 2, 4010, None);
    assert_eq!(
        context.request_sent(goroutine(24, 0, 4011), None),
        within(second, Evidence::Task, LIKELY)
    );
    let third = serve(&mut context, goroutine(23, 0, 4012), 2, 3);
    assert_eq!(context.request_sent(goroutine(24, 0, 4013), None), certain(third));
    assert_eq!(
        context.request_sent(goroutine(25, 0, 4014), None),
        within(second, Evidence::Task, LIKELY)
    );
}

#[test]
fn what_two_connections_come_from_is_neithers() {
    let mut context = context(Runtime::Python);
    // Both were established before the listener's own task was made.
    context.accepted(1, 10);
    context.accepted(2, 10);
    made(&mut context, 50, 1, 20);
    made(&mut context, 51, 50, 21);
    made(&mut context, 52, 50, 21);
    serve(&mut context, goroutine(51, 0, 30), 1, 1);
    serve(&mut context, goroutine(52, 0, 31), 2, 2);
    made(&mut context, 53, 50, 32);
    let several = Fragment::Ambiguous { candidates: 2 };
    assert_eq!(context.request_sent(goroutine(53, 0, 33), None), several);
}

#[test]
fn who_begins_with_a_pipelined_request_is_not_sure() {
    let mut context = context(Runtime::Python);
    let reader = goroutine(50, 0, 1);
    serve(&mut context, reader, 1, 1);
    made(&mut context, 60, 50, 2);
    serve(&mut context, goroutine(50, 0, 3), 1, 2);
    context.request_over(reader, 1, 4, None);
    made(&mut context, 61, 60, 5);
    assert_eq!(
        context.request_sent(goroutine(61, 0, 6), None),
        Fragment::Ambiguous { candidates: 2 }
    );
}

#[test]
fn what_is_made_in_the_callback_of_a_read_is_that_connections() {
    let mut context = context(Runtime::Python);
    // The loop reads in no task at all.
    let first = serve(&mut context, goroutine(0, 0, 1), 1, 1);
    let second = serve(&mut context, goroutine(0, 0, 2), 2, 2);
    context.task_made(PROCESS, 60, 50, 2, false, 3);
    context.task_made(PROCESS, 61, 50, 1, false, 3);
    assert_eq!(context.request_sent(goroutine(60, 0, 4), None), certain(second));
    assert_eq!(context.request_sent(goroutine(61, 0, 4), None), certain(first));
    // What belongs to a request already does not change it.
    context.task_made(PROCESS, 62, 60, 1, false, 5);
    assert_eq!(context.request_sent(goroutine(62, 0, 6), None), certain(second));
}

#[test]
fn who_answers_a_connection_serves_it_from_then_on() {
    let mut context = context(Runtime::Python);
    let reader = goroutine(0, 0, 20);
    let serve_on = |context: &mut Context, connection: u64, exchange: u64| {
        serve(context, reader, connection, exchange)
    };
    context.accepted(1, 10);
    context.accepted(2, 10);
    made(&mut context, 60, 50, 11);
    made(&mut context, 61, 50, 11);
    made(&mut context, 5, 1, 9);
    let several = Fragment::Ambiguous { candidates: 2 };
    for exchange in [1, 3] {
        serve_on(&mut context, 1, exchange);
        serve_on(&mut context, 2, exchange + 1);
        // A task may have been made for one request, and answer it.
        assert_eq!(context.request_sent(goroutine(60, 0, 21), None), several, "nobody knows yet");
        context.answered_by(PROCESS, exchange, 60);
        context.answered_by(PROCESS, exchange + 1, 61);
        context.request_over(reader, exchange, 22, None);
        context.request_over(reader, exchange + 1, 22, None);
    }
    let fifth = serve_on(&mut context, 1, 5);
    let sixth = serve_on(&mut context, 2, 6);
    assert_eq!(context.request_sent(goroutine(60, 0, 23), None), certain(fifth));
    assert_eq!(context.request_sent(goroutine(61, 0, 23), None), certain(sixth));
    // One that answers for both, and one that is older than the connection.
    context.answered_by(PROCESS, 6, 60);
    assert_eq!(context.request_sent(goroutine(60, 0, 24), None), several);
    context.answered_by(PROCESS, 5, 5);
    context.answered_by(PROCESS, 5, 5);
    assert_eq!(context.request_sent(goroutine(5, 0, 25), None), several);
}

#[test]
fn lineage_without_end_is_followed_only_so_far() {
    let mut context = context(Runtime::Go);
    context.task_known(PROCESS, 60, 61);
    context.task_known(PROCESS, 61, 60);
    assert_eq!(context.request_sent(goroutine(60, 61, 1), None), Fragment::None);
}

#[test]
fn a_stream_belongs_to_nobody_until_it_is_handed_over() {
    let mut context = context(Runtime::Go);
    let reader = goroutine(50, 1, 1);
    let Fragment::Own(first) = context.request_read(reader, 1, 3, 1) else {
        panic!("a server request has its own fragment");
    };
    // Its parent reads for all; what this one handles was not seen.
    context.unseen_handed(PROCESS, 60);
    let guess = within(first, Evidence::SoleRequest, LIKELY);
    assert_eq!(context.request_sent(goroutine(60, 50, 2), None), guess);
    context.request_handed(reader, 1, 61);
    assert_eq!(context.request_sent(goroutine(61, 50, 3), None), certain(first));
    context.request_over(reader, 1, 4, None);
    assert_eq!(context.request_sent(goroutine(61, 50, 5), None), certain(first));
    context.unseen_handed(PROCESS, 61);
    assert_eq!(context.request_sent(goroutine(61, 50, 6), None), Fragment::None);
}

fn made_lasting(context: &mut Context, task: u64, parent: u64, time_nano: u64) {
    context.task_made(PROCESS, task, parent, 0, true, time_nano);
}

fn likely(fragment: u64) -> Fragment {
    within(fragment, Evidence::Task, LIKELY)
}

/// So many tasks are made for requests, make a call, and end.
fn prove_lasting(context: &mut Context, times: u64) {
    for number in 5000..5000 + times {
        serve(context, goroutine(number, 0, 1), number, number);
        made_lasting(context, 40_000 + number, number, 2);
        context.request_sent(goroutine(40_000 + number, 0, 3), None);
        context.request_over(goroutine(number, 0, 0), number, 4, None);
        context.task_ended(PROCESS, 40_000 + number);
    }
}

#[test]
fn what_may_be_a_pools_worker_is_never_certain() {
    let mut context = context(Runtime::Python);
    prove_lasting(&mut context, u64::from(PROVEN_AFTER));
    // A greenlet for each connection, made by the hub.
    made_lasting(&mut context, 50, 1, 1);
    made_lasting(&mut context, 51, 1, 1);
    let first = serve(&mut context, goroutine(50, 0, 2), 1, 1);
    let second = serve(&mut context, goroutine(51, 0, 2), 2, 2);
    assert_eq!(context.request_sent(goroutine(50, 0, 3), None), certain(first));
    assert_eq!(context.request_sent(goroutine(51, 0, 3), None), certain(second));
    // One that is started by a request, a context that it enters, and one that it starts.
    made_lasting(&mut context, 60, 50, 4);
    made(&mut context, 61, 60, 5);
    made_lasting(&mut context, 62, 60, 5);
    for task in [60, 61, 62, 60] {
        assert_eq!(context.request_sent(goroutine(task, 0, 6), None), likely(first));
    }
    // What the request's own task enters is the request's.
    made(&mut context, 63, 50, 5);
    assert_eq!(context.request_sent(goroutine(63, 0, 6), None), certain(first));
    // What it was started for may begin after the answer, once.
    made_lasting(&mut context, 64, 50, 5);
    context.request_over(goroutine(50, 0, 0), 1, 7, None);
    let sole = within(second, Evidence::SoleRequest, LIKELY);
    assert_eq!(context.request_sent(goroutine(64, 0, 8), None), likely(first));
    assert_eq!(context.request_sent(goroutine(64, 0, 9), None), sole);
}

#[test]
fn what_goes_on_after_its_request_takes_from_the_trust() {
    let mut context = context(Runtime::Python);
    let calls = |context: &mut Context, number: u64| {
        let first = serve(context, goroutine(50, 0, 10), 1, number);
        serve(context, goroutine(51, 0, 10), 2, number + 1);
        made_lasting(context, 60, 50, 11);
        let found = context.request_sent(goroutine(60, 0, 12), None);
        context.request_over(goroutine(50, 0, 0), number, 13, None);
        let later = context.request_sent(goroutine(60, 0, 14), None);
        assert_ne!(later, likely(first), "it goes on");
        context.request_over(goroutine(51, 0, 0), number + 1, 15, None);
        found == likely(first)
    };
    assert!(!calls(&mut context, 1), "nothing is proven");
    prove_lasting(&mut context, u64::from(PROVEN_AFTER));
    assert!(calls(&mut context, 3), "one of twenty");
    assert!(!calls(&mut context, 5), "two of twenty");
    prove_lasting(&mut context, 2 * u64::from(PROVEN_AFTER));
    assert!(calls(&mut context, 7), "three of sixty");
    assert!(!calls(&mut context, 9), "four of sixty");
}

#[test]
fn a_worker_of_a_connection_is_not_certain_of_what_is_read_there_later() {
    let mut context = context(Runtime::Python);
    let made_for_it = |context: &mut Context, connection: u64| {
        context.accepted(connection, 10);
        // A reader and a pool's worker, by one that was made since.
        made_lasting(context, 50, 1, 11);
        made_lasting(context, 51, 50, 12);
        made_lasting(context, 52, 50, 12);
        let fragment = serve(context, goroutine(51, 0, 13), connection, connection);
        let found = context.request_sent(goroutine(52, 0, 14), None);
        context.request_over(goroutine(51, 0, 0), connection, 15, None);
        (found, fragment)
    };
    let (found, fragment) = made_for_it(&mut context, 1);
    assert_eq!(found, within(fragment, Evidence::SoleRequest, LIKELY));
    prove_lasting(&mut context, u64::from(PROVEN_AFTER));
    // Another process's life: what was claimed is forgotten with it.
    let mut context = self::context(Runtime::Python);
    prove_lasting(&mut context, u64::from(PROVEN_AFTER));
    let (found, fragment) = made_for_it(&mut context, 1);
    assert_eq!(found, likely(fragment));
}

fn thread_made(context: &mut Context, thread: u32, maker: u32, time_nano: u64) {
    context.thread_made(Caller { time_nano, ..caller(maker) }, thread);
}

fn by_thread(fragment: u64) -> Fragment {
    within(fragment, Evidence::Thread, LIKELY)
}

/// Threads are made for requests, make a call, and end.
fn prove_threads(context: &mut Context) {
    for exchange in 5000..5000 + u64::from(PROVEN_AFTER) {
        read(context, 90, exchange, exchange);
        thread_made(context, 91, 90, 1);
        let found = context.request_sent(caller(91), None);
        assert!(!matches!(found, Fragment::Within { evidence: Evidence::Thread, .. }));
        context.thread_ended(PROCESS, 91);
        over(context, 90, exchange, 90);
    }
}

#[test]
fn a_thread_that_a_request_starts_is_likely_its_own() {
    let mut context = context(other());
    prove_threads(&mut context);
    let first = read(&mut context, 1, 1, 1);
    let second = read(&mut context, 2, 2, 2);
    // Threads are watched since one was missed.
    assert_eq!(context.take_thread_makers(), [PROCESS]);
    assert_eq!(context.request_sent(caller(7), None), Fragment::Ambiguous { candidates: 2 });
    assert!(context.take_thread_makers().is_empty());
    thread_made(&mut context, 8, 1, 5);
    thread_made(&mut context, 9, 2, 5);
    thread_made(&mut context, 10, 9, 6);
    thread_made(&mut context, 11, 7, 6);
    assert_eq!(context.request_sent(caller(8), None), by_thread(first));
    assert_eq!(context.request_sent(caller(8), None), by_thread(first));
    assert_eq!(context.request_sent(caller(9), None), by_thread(second));
    assert_eq!(context.request_sent(caller(10), None), by_thread(second));
    let several = Fragment::Ambiguous { candidates: 2 };
    assert_eq!(context.request_sent(caller(11), None), several);
    // What has a request of its own is not its maker's.
    let third = read(&mut context, 8, 3, 3);
    assert_eq!(context.request_sent(caller(8), None), within(third, Evidence::Thread, LIKELY));
    // The number is another thread's now.
    thread_made(&mut context, 9, 1, 7);
    assert_eq!(context.request_sent(caller(9), None), by_thread(first));
    // Or may be.
    context.events_lost(8);
    assert_eq!(context.request_sent(caller(9), None), Fragment::Ambiguous { candidates: 3 });
}

#[test]
fn threads_that_outlive_their_request_are_workers() {
    let mut context = context(other());
    prove_threads(&mut context);
    let first = read(&mut context, 1, 1, 1);
    read(&mut context, 2, 2, 2);
    read(&mut context, 3, 3, 3);
    thread_made(&mut context, 8, 1, 5);
    assert_eq!(context.request_sent(caller(8), None), by_thread(first));
    over(&mut context, 1, 1, 1);
    let several = Fragment::Ambiguous { candidates: 2 };
    assert_eq!(context.request_sent(caller(8), None), several);
    // Two of twenty are too many.
    read(&mut context, 1, 1, 4);
    thread_made(&mut context, 9, 1, 6);
    assert!(matches!(context.request_sent(caller(9), None), Fragment::Within { .. }));
    over(&mut context, 1, 4, 1);
    assert_eq!(context.request_sent(caller(9), None), several);
    read(&mut context, 1, 1, 5);
    thread_made(&mut context, 9, 1, 6);
    assert_eq!(context.request_sent(caller(9), None), Fragment::Ambiguous { candidates: 3 });
}

#[test]
fn threads_of_a_process_that_shares_them_say_nothing_of_those_that_they_start() {
    let mut context = context(Runtime::Node);
    read(&mut context, 1, 1, 1);
    read(&mut context, 2, 2, 2);
    thread_made(&mut context, 8, 1, 5);
    let several = Fragment::Ambiguous { candidates: 2 };
    assert_eq!(context.request_sent(caller(8), None), several);
    assert!(context.take_thread_makers().is_empty());
}

#[test]
fn a_thread_that_a_task_starts_is_likely_the_tasks() {
    let mut context = context(Runtime::Python);
    prove_threads(&mut context);
    let first = serve(&mut context, goroutine(50, 0, 1), 1, 1);
    serve(&mut context, goroutine(51, 0, 2), 2, 2);
    context.thread_made(goroutine(50, 0, 3), 8);
    let sender = Caller { time_nano: 4, ..caller(8) };
    assert_eq!(context.request_sent(sender, None), by_thread(first));
}

#[test]
fn where_tasks_tell_what_they_do_not_tell_of_is_nobodys_unless_it_may_serve() {
    let mut context = context(Runtime::Python);
    context.accepted(1, 5);
    context.task_made(PROCESS, 50, 0, 0, false, 6);
    let reader = |time_nano| goroutine(50, 0, time_nano);
    let fragment = serve(&mut context, reader(10), 1, 1);
    let alone = within(fragment, Evidence::SoleRequest, LIKELY);
    // One that was there before anybody looked, and one that has made its first calls.
    let background = |time_nano| goroutine(40, 0, time_nano);
    assert_eq!(context.request_sent(background(11), None), alone);
    for time_nano in 20..20 + u64::from(PROVEN_AFTER) {
        assert_eq!(context.request_sent(reader(time_nano), None), certain(fragment));
    }
    let of_others = Fragment::Ambiguous { candidates: 1 };
    assert_eq!(context.request_sent(background(50), None), of_others);
    // Made since, by nobody's task: it may be what serves the connection.
    context.task_made(PROCESS, 60, 0, 0, false, 51);
    assert_eq!(context.request_sent(goroutine(60, 0, 52), None), alone);
    // What is older than the agent may have any task.
    context.request_over(reader(10), 1, 60, None);
    let older = serve(&mut context, reader(61), 2, 2);
    let alone = within(older, Evidence::SoleRequest, LIKELY);
    assert_eq!(context.request_sent(background(62), None), alone);
}
