use spanwise_capture_protocols::process::Naming;
use spanwise_model::ResourceJson;

use super::*;

/// Nobody knows who processes are.
pub(crate) struct NoProcesses;

impl ProcessDirectory for NoProcesses {
    fn describe(&mut self, process: u32) -> Arc<Process> {
        Arc::new(Process {
            process,
            host: String::new(),
            instance: String::new(),
            runtime: Runtime::Other(String::new()),
            resource: ResourceJson::default(),
            default_service: String::new(),
            naming: Naming::Fixed(String::new()),
            served_ports: Vec::new(),
            search_domains: Vec::new(),
        })
    }

    fn forget(&mut self, _: u32) {}
}

const PROCESS: u32 = 10;

/// A thread without a task, as time begins.
fn caller(thread: u32) -> Caller {
    Caller { process: PROCESS, thread, task: 0, parent_task: 0, time_nano: 0, sleeps: 0 }
}

fn attributor(runtime: Runtime) -> Attributor {
    let mut attributor = Attributor::new(1, Box::new(NoProcesses));
    attributor.introduce(PROCESS, &runtime);
    attributor
}

fn other() -> Runtime {
    Runtime::Other("app".to_owned())
}

fn read(attributor: &mut Attributor, thread: u32, connection: u64, exchange: u64) -> u64 {
    read_at(attributor, thread, connection, exchange, 0)
}

fn read_at(
    attributor: &mut Attributor,
    thread: u32,
    connection: u64,
    exchange: u64,
    read_nano: u64,
) -> u64 {
    let reader = Caller { time_nano: read_nano, ..caller(thread) };
    match attributor.request_read(reader, connection, 0, exchange, NO_SORT) {
        Fragment::Own(fragment) => fragment,
        found => panic!("a server request has its own fragment, not {found:?}"),
    }
}

fn over(attributor: &mut Attributor, thread: u32, exchange: u64, writer: u32) {
    let handled = Handled { first_writer: caller(writer), last_thread: writer };
    attributor.request_over(caller(thread), exchange, 0, Some(handled));
}

fn prove(attributor: &mut Attributor) {
    prove_at(attributor, 0);
}

/// Threads serve one request each, also while others do.
fn prove_at(attributor: &mut Attributor, read_nano: u64) {
    read_at(attributor, 99, 999, 999, read_nano);
    one_after_the_other(attributor, read_nano);
    over(attributor, 99, 999, 99);
}

fn one_after_the_other(attributor: &mut Attributor, read_nano: u64) {
    for exchange in 1000..1000 + u64::from(PROVEN_AFTER) {
        read_at(attributor, 1, exchange, exchange, read_nano);
        waits(attributor, 1, exchange + 1000, 1);
        over(attributor, 1, exchange, 1);
    }
}

/// A thread makes a call on a connection, on which this one reads the answer.
fn waits(attributor: &mut Attributor, thread: u32, connection: u64, reader: u32) {
    called(attributor, thread, connection);
    attributor.bytes_read(caller(reader), connection);
}

fn called(attributor: &mut Attributor, thread: u32, connection: u64) -> Fragment {
    let fragment = attributor.request_sent(caller(thread), None);
    attributor.answer_awaited(caller(thread), connection, fragment);
    fragment
}

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
    assert_eq!(attributor.request_sent(caller(1), None), within(fragment, Evidence::Thread, 0.9));
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
    let sole = within(fragment, Evidence::SoleRequest, 0.9);
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
        let sole = within(fragment, Evidence::SoleRequest, 0.9);
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
    assert_eq!(attributor.request_sent(caller(1), None), within(first, Evidence::Thread, 0.9));
    // It is at another one now: the end of the first was not seen.
    let second = read_at(&mut attributor, 1, 2, 2, 20);
    assert_eq!(attributor.take_demoted(), 0);
    assert_eq!(attributor.request_sent(caller(1), None), within(second, Evidence::Thread, 0.9));
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
    assert_eq!(attributor.request_sent(caller(1), None), within(last, Evidence::Thread, 0.9));
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
    assert_eq!(attributor.request_sent(caller(1), None), within(fragment, Evidence::Thread, 0.9));
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
    assert_eq!(attributor.request_sent(caller(1), None), within(fragment, Evidence::Thread, 0.9));
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
    attributor.answer_read(at(104), 7, Some([first; 2]));
    assert_eq!(attributor.request_sent(at(105), None), turn(first));
    // It connects in that turn, and writes when it has read something else.
    attributor.bytes_read(at(106), 8);
    assert_eq!(attributor.request_sent(at(107), Some(at(105))), turn(first));
    let after_a_timer = Caller { sleeps: 2, ..at(108) };
    assert_eq!(attributor.request_sent(after_a_timer, None), Fragment::Ambiguous { candidates: 3 });
}

/// Goroutines on whatever threads.
fn goroutine(task: u64, parent_task: u64, time_nano: u64) -> Caller {
    let thread = u32::try_from(time_nano % 4).expect("small");
    Caller { process: PROCESS, thread, task, parent_task, time_nano, sleeps: 0 }
}

fn serve(attributor: &mut Attributor, reader: Caller, connection: u64, exchange: u64) -> u64 {
    match attributor.request_read(reader, connection, 0, exchange, NO_SORT) {
        Fragment::Own(fragment) => fragment,
        found => panic!("a server request has its own fragment, not {found:?}"),
    }
}

fn certain(fragment: u64) -> Fragment {
    within(fragment, Evidence::Task, 1.0)
}

/// Tasks that are made in requests do no more than that.
fn prove_children(attributor: &mut Attributor) {
    let mut child_of_one = |number: u64, time_nano| {
        let server = goroutine(30_000 + number, 0, time_nano);
        serve(attributor, server, 30_000 + number, 30_000 + number);
        attributor.request_sent(goroutine(40_000 + number, 30_000 + number, time_nano), None);
        attributor.request_over(server, 30_000 + number, time_nano, None);
    };
    (0..u64::from(PROVEN_AFTER)).for_each(|number| child_of_one(number, 1));
    child_of_one(u64::from(PROVEN_AFTER), 1 + ENDED_NANO);
}

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

fn made(attributor: &mut Attributor, task: u64, parent: u64, time_nano: u64) {
    attributor.task_made(PROCESS, task, parent, 0, false, time_nano);
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

fn made_lasting(attributor: &mut Attributor, task: u64, parent: u64, time_nano: u64) {
    attributor.task_made(PROCESS, task, parent, 0, true, time_nano);
}

fn likely(fragment: u64) -> Fragment {
    within(fragment, Evidence::Task, LIKELY)
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
