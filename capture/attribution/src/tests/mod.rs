//! What is linked to what, rule by rule. The helpers are here.

use spanwise_capture_protocols::process::Naming;
use spanwise_model::ResourceJson;

use super::ancestry::GIVEN;
use super::*;

mod lasting;
mod requests;
mod started_threads;
mod tasks;

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
    attributor.answer_awaited(caller(thread), connection, fragment, None);
    fragment
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

fn likely(fragment: u64) -> Fragment {
    within(fragment, Evidence::Task, LIKELY)
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

fn made(attributor: &mut Attributor, task: u64, parent: u64, time_nano: u64) {
    attributor.task_made(PROCESS, task, parent, 0, false, time_nano);
}
