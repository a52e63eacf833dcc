//! Calls that could be for several requests, until who has made them answers one: from events
//! alone.

mod support;

use std::collections::HashMap;

use spanwise_capture_tracer::Tracer;
use spanwise_capture_tracer::event::{Direction, ProcessEvent, Task};
use spanwise_capture_tracer::recording::{RecordedData, RecordedEvent};
use spanwise_model::{Capture, Evidence, Span};
use support::{data, tracer};

use Direction::{Received, Sent};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const MILLI: u64 = 1_000_000;

/// A thread, or a task on one.
#[derive(Clone, Copy)]
struct Who {
    thread: u32,
    task: u64,
}

const fn thread(thread: u32) -> Who {
    Who { thread, task: 0 }
}

/// On the loop's thread.
const fn task(task: u64) -> Who {
    Who { thread: 1, task }
}

/// A process, a millisecond between two of its calls.
struct Process {
    tracer: Tracer,
    time_nano: u64,
    /// How often its threads have waited; 0: not known.
    sleeps: u32,
    seqs: HashMap<(u64, Direction), u32>,
}

impl Process {
    fn new() -> Self {
        Self { tracer: tracer(), time_nano: 1_000_000_000, sleeps: 0, seqs: HashMap::new() }
    }

    fn transfer(&mut self, who: Who, connection: u64, direction: Direction, bytes: &[u8]) {
        self.time_nano += MILLI;
        let seq = self.seqs.entry((connection, direction)).or_insert(1);
        let RecordedEvent::Data(event) = data(connection, direction, *seq, bytes) else {
            unreachable!("data makes data");
        };
        *seq += bytes.len() as u32;
        let (Who { thread, task }, time_nano, sleeps) = (who, self.time_nano, self.sleeps);
        let event = RecordedData { time_nano, thread, task, sleeps, ..event };
        self.tracer.event(&RecordedEvent::Data(event).event());
    }

    /// A request `/in/CONNECTION` is read.
    fn read(&mut self, who: Who, connection: u64) {
        let request = format!("GET /in/{connection} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.transfer(who, connection, Received, request.as_bytes());
    }

    fn answer(&mut self, who: Who, connection: u64) {
        self.transfer(who, connection, Sent, RESPONSE);
    }

    /// A call `/out/CONNECTION` is made, and its answer read by `reader`.
    fn call(&mut self, who: Who, connection: u64, reader: Who) {
        self.ask(who, connection);
        self.transfer(reader, connection, Received, RESPONSE);
    }

    fn ask(&mut self, who: Who, connection: u64) {
        let request = format!("GET /out/{connection} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.transfer(who, connection, Sent, request.as_bytes());
    }

    fn make_task(&mut self, made: u64, parent: u64) {
        self.make(made, parent, false);
    }

    fn make(&mut self, made: u64, parent: u64, lasting: bool) {
        self.time_nano += MILLI;
        let task = Task {
            time_nano: self.time_nano,
            process: 1,
            task: made,
            parent_task: parent,
            connection: 0,
            stream: 0,
            new: true,
            lasting,
            teller: 0,
            giver: 0,
        };
        self.tracer.event(&RecordedEvent::Task(task).event());
    }

    /// What was finished since the last time, as `call -> request`, `call ?` where that is
    /// ambiguous, in the order in which it came out.
    fn links(&mut self) -> Vec<String> {
        self.tracer.tick(self.time_nano);
        let mut spans = Vec::new();
        self.tracer.drain(&mut spans).unwrap();
        let path = |span: &Span| {
            let path = span.attribute("url.path").unwrap().as_str().unwrap();
            path.rsplit('/').next().unwrap().to_owned()
        };
        let served = |span: &Span| {
            let mut requests = spans.iter().filter(|span| span.capture == Capture::ServerProcess);
            let request = requests.find(|request| request.fragment_id == span.fragment_id);
            request.map_or_else(|| "elsewhere".to_owned(), path)
        };
        let calls = spans.iter().filter(|span| span.capture == Capture::ClientProcess);
        let told = |call: &Span| match (call.fragment_id, call.evidence) {
            (None, evidence) => {
                assert_eq!(evidence, Some(Evidence::Ambiguous));
                format!("{} ?", path(call))
            }
            (Some(_), evidence) => {
                assert!(call.confidence.is_some_and(|sure| sure < 0.999), "never certain");
                let evidence = evidence.unwrap().as_str();
                format!("{} -> {} by {evidence}", path(call), served(call))
            }
        };
        calls.map(told).collect()
    }

    fn ambiguous(&self) -> u64 {
        self.tracer
            .counters()
            .into_iter()
            .find(|(name, _)| *name == "fragments_ambiguous")
            .unwrap()
            .1
    }
}

/// Thread 1 has read requests on connections 1 to `requests`.
fn busy(requests: u64) -> Process {
    let mut process = Process::new();
    for connection in 1..=requests {
        process.read(thread(1), connection);
    }
    process
}

#[test]
fn who_answers_has_made_the_calls() {
    let mut process = busy(3);
    let [first, second] = [thread(7), thread(8)];
    process.call(first, 20, first);
    process.call(second, 21, second);
    process.call(first, 22, first);
    assert!(process.links().is_empty(), "nothing is said before it is known");
    process.answer(first, 3);
    assert_eq!(process.links(), ["20 -> 3 by thread", "22 -> 3 by thread"]);
    process.call(second, 21, second);
    process.answer(second, 1);
    assert_eq!(process.links(), ["21 -> 1 by thread", "21 -> 1 by thread"]);
    assert_eq!(process.ambiguous(), 0);
    // The next one of the pool's thread begins anew.
    process.read(thread(1), 4);
    process.call(first, 20, first);
    process.answer(first, 2);
    assert_eq!(process.links(), ["20 -> 2 by thread"]);
}

#[test]
fn what_was_done_before_the_request_came_was_not_done_for_it() {
    let mut process = busy(2);
    process.call(thread(7), 20, thread(7));
    process.read(thread(1), 3);
    process.answer(thread(7), 3);
    assert_eq!(process.links(), ["20 ?"]);
    assert_eq!(process.ambiguous(), 1);
}

#[test]
fn loops_answer_for_others() {
    let mut process = busy(2);
    // It reads requests itself.
    process.call(thread(1), 20, thread(1));
    // Its answer is read by another: who waits for nothing may do several things at a time.
    process.call(thread(7), 21, thread(8));
    assert_eq!(process.links(), ["20 ?", "21 ?"]);
    process.answer(thread(7), 1);
    process.answer(thread(1), 2);
    assert!(process.links().is_empty());
}

#[test]
fn a_task_answers_for_those_that_it_made_meanwhile() {
    let mut process = Process::new();
    process.make_task(10, 5);
    // Its child of old does what it always did.
    process.make_task(11, 10);
    process.make_task(20, 5);
    process.read(thread(1), 1);
    process.read(thread(1), 2);
    process.make_task(12, 10);
    process.make_task(13, 12);
    for (made_by, call) in [(10, 30), (11, 31), (12, 32), (13, 33), (20, 34)] {
        process.call(task(made_by), call, thread(1));
    }
    assert!(process.links().is_empty());
    process.answer(task(10), 2);
    let of_task = ["30 -> 2 by task", "31 ?", "32 -> 2 by task", "33 -> 2 by task"];
    assert_eq!(process.links(), of_task);
    process.answer(task(20), 1);
    assert_eq!(process.links(), ["34 -> 1 by task"]);
}

#[test]
fn who_has_made_a_pools_worker_does_not_answer_for_it() {
    let mut process = Process::new();
    process.make_task(10, 5);
    process.read(thread(1), 1);
    process.read(thread(1), 2);
    // A greenlet, say.
    process.make(12, 10, true);
    process.call(task(12), 30, thread(1));
    process.answer(task(10), 2);
    assert!(process.links().is_empty());
    // What it answers itself, it has worked for.
    process.answer(task(12), 1);
    assert_eq!(process.links(), ["30 -> 1 by task"]);
}

#[test]
fn what_nobody_claims_comes_out_when_all_that_was_open_is_over() {
    let mut process = busy(2);
    process.call(thread(7), 20, thread(7));
    process.answer(thread(1), 1);
    process.read(thread(1), 3);
    assert!(process.links().is_empty(), "the second one is still open");
    process.answer(thread(1), 2);
    process.time_nano += 30 * MILLI;
    assert_eq!(process.links(), ["20 ?"]);
}

#[test]
fn a_long_request_does_not_keep_calls_for_ever() {
    let mut process = busy(2);
    process.call(thread(7), 20, thread(7));
    process.time_nano += 9_000 * MILLI;
    assert!(process.links().is_empty());
    process.time_nano += 2_000 * MILLI;
    assert_eq!(process.links(), ["20 ?"]);
}

#[test]
fn nothing_is_kept_of_a_process_that_has_ended_or_past_the_tracers_end() {
    let mut process = busy(2);
    process.call(thread(7), 20, thread(7));
    let exit = ProcessEvent { time_nano: process.time_nano, process: 1 };
    process.tracer.event(&RecordedEvent::Exit(exit).event());
    assert_eq!(process.links(), ["20 ?"]);
    let mut process = busy(2);
    process.call(thread(7), 20, thread(7));
    process.tracer.report_open();
    assert_eq!(process.links(), ["20 ?"]);
    assert!(process.tracer.held_bytes() < 16 << 10);
}

#[test]
fn memory_is_bounded_and_hopeless_processes_wait_no_longer() {
    let mut process = busy(2);
    for round in 0..40_000_u32 {
        let caller = thread(100 + round % 1000);
        process.time_nano -= 2 * MILLI - 1000;
        process.call(caller, 20 + u64::from(round % 1000), caller);
        assert!(process.tracer.held_bytes() < 9 << 20, "round {round}");
    }
    process.links();
    for connection in [1, 2] {
        process.answer(thread(1), connection);
    }
    process.time_nano += 30 * MILLI;
    process.links();
    assert_eq!(process.ambiguous(), 40_000);
    for connection in [1, 2] {
        process.read(thread(1), connection);
    }
    for call in 0..160 {
        process.call(thread(7), 20 + call, thread(7));
    }
    assert_eq!(process.links().len(), 150, "one of sixteen waits");
}

/// A loop that reads requests 1 to 40 and calls for each at once (`/out/100` and on); it
/// answers when the answer to the call has come, the others `beside` that.
fn looping(beside: u64) -> Vec<String> {
    let the_loop = thread(1);
    let mut process = Process::new();
    // It is seen to be one.
    process.read(the_loop, 51);
    process.read(the_loop, 52);
    for request in 1..=40 {
        process.sleeps += 1;
        process.read(the_loop, request);
        process.ask(the_loop, 100 + request);
    }
    assert!(process.links().is_empty());
    for request in 1..=40 {
        process.sleeps += 1;
        process.transfer(the_loop, 100 + request, Received, RESPONSE);
        process.answer(the_loop, (request + beside - 1) % 40 + 1);
    }
    process.time_nano += 1_100 * MILLI;
    process.links()
}

#[test]
fn the_first_calls_of_a_loop_wait_until_its_turns_are_judged() {
    let mut links = looping(0);
    links.sort_unstable();
    let told = |request| format!("{} -> {request} by turn", 100 + request);
    assert_eq!(links, (1..=40).map(told).collect::<Vec<_>>());
}

#[test]
fn a_loop_that_answers_out_of_turn_tells_nothing() {
    let mut links = looping(7);
    links.sort_unstable();
    assert_eq!(links, (101..=140).map(|call| format!("{call} ?")).collect::<Vec<_>>());
}
