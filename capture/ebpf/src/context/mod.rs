//! Fragments: which server request a client request was made for.
//!
//! A set of open server requests is kept for each line of execution of a process: for
//! each logical task where the kernel side knows it, else for each thread. A task's
//! calls belong to its own request, or to that of the task by which it was made. Exactly
//! one candidate is taken, with what speaks for it; of several none is: a wrong parent is
//! worse than none.

mod lineage;
#[cfg(test)]
mod tests;

use ahash::AHashMap;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use spanwise_model::Evidence;

use self::lineage::{Ended, Lineage, Root};
use crate::process::Runtime;
use crate::protocols::Mark;

/// Requests that a process must have handled each on one thread, before its
/// threads count as proof.
const PROVEN_AFTER: u32 = 20;
/// How sure a link is without that proof.
const LIKELY: f32 = 0.9;
/// Processes known at once; those beyond get no fragments.
const MAX_PROCESSES: usize = 65_536;
/// How long a request that is over is remembered for those that it has made.
const ENDED_NANO: u64 = 2_000_000_000;

/// It is said no more often of a process that the origin of its tasks is not known.
const SAY_ORPHANS_EVERY_NANO: u64 = 1_000_000_000;
/// The task that the program began with, where tasks are numbered (Go's).
const FIRST_TASK: u64 = 1;

/// A span's place in its process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fragment {
    /// No server request was open.
    None,
    /// The span is the server request that the fragment is named after.
    Own(u64),
    /// A client request made for the fragment's server request.
    Within {
        /// The fragment.
        fragment: u64,
        /// What speaks for it.
        evidence: Evidence,
        /// How sure it is, 0 to 1.
        confidence: f32,
    },
    /// A client request that could have been made for any of several.
    Ambiguous {
        /// How many.
        candidates: usize,
    },
}

/// Who makes a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) process: u32,
    pub(crate) thread: u32,
    /// See [`crate::event::Data::task`].
    pub(crate) task: u64,
    pub(crate) parent_task: u64,
    /// When, `CLOCK_MONOTONIC`.
    pub(crate) time_nano: u64,
}

impl From<Mark> for Caller {
    fn from(mark: Mark) -> Self {
        let Mark { process, thread, task, parent_task, time_nano, .. } = mark;
        Self { process, thread, task, parent_task, time_nano }
    }
}

impl Caller {
    const fn line(&self) -> Line {
        match self.task {
            0 => Line::Thread(self.thread),
            task => Line::Task(task),
        }
    }
}

/// What does one thing after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Line {
    Thread(u32),
    Task(u64),
    /// Nothing that could make a call.
    None,
}

/// Where a call comes from, by its task.
enum Origin {
    Request(Fragment),
    /// From no request, as far as its task tells.
    Elsewhere,
    /// It is not known by which task its task was made, or that one.
    Unknown,
}

/// A server request that is being handled.
#[derive(Debug)]
struct Open {
    exchange: u64,
    connection: u64,
    fragment: u64,
    /// When it was read, `CLOCK_MONOTONIC`.
    read_nano: u64,
    /// Its response has begun and its end cannot be seen in the bytes: it may
    /// be over already.
    weak: bool,
    /// Another request was open on the thread meanwhile.
    overlapped: bool,
}

#[derive(Debug, Default)]
struct ProcessContext {
    by_line: AHashMap<Line, Vec<Open>>,
    /// Requests that another line handles than has read them.
    moved: AHashMap<u64, Line>,
    open: usize,
    lineage: Lineage,
    /// When it was last said that a task's origin is not known.
    orphan_nano: u64,
    /// What one task reads of a connection with streams, others handle (Go).
    hands_streams_over: bool,
    /// A thread says nothing: by the runtime's nature, or as seen.
    threads_shared: bool,
    /// Requests handled each on one thread, alone.
    disciplined: u32,
}

/// The threads that read a request and wrote its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handled {
    /// Wrote the first byte.
    pub(crate) first_writer: u32,
    /// Wrote the last byte.
    pub(crate) last_writer: u32,
}

/// The open server requests of every process.
pub(crate) struct Context {
    processes: AHashMap<u32, ProcessContext>,
    random: SmallRng,
    /// When events were last found to be lost, `CLOCK_MONOTONIC`.
    lost_nano: u64,
    /// Processes found to have no thread discipline since the last look.
    demoted: u64,
    /// Processes with tasks whose origin is not known, since the last look.
    orphans: Vec<u32>,
}

impl Context {
    /// A context whose fragment ids come from this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let random = SmallRng::seed_from_u64(seed);
        Self { processes: AHashMap::new(), random, lost_nano: 0, demoted: 0, orphans: Vec::new() }
    }

    /// Whether the process was introduced and has not gone since.
    pub(crate) fn knows(&self, process: u32) -> bool {
        self.processes.contains_key(&process)
    }

    /// Takes note of a process and of what its runtime means for threads.
    pub(crate) fn introduce(&mut self, process: u32, runtime: &Runtime) {
        if self.processes.len() < MAX_PROCESSES {
            let threads_shared = matches!(runtime, Runtime::Go | Runtime::Node);
            let hands_streams_over = matches!(runtime, Runtime::Go);
            let fresh =
                ProcessContext { threads_shared, hands_streams_over, ..ProcessContext::default() };
            self.processes.insert(process, fresh);
        }
    }

    /// The process has ended or runs another program now.
    pub(crate) fn forget(&mut self, process: u32) {
        self.processes.remove(&process);
    }

    /// Events were lost, at this time or before. A request that was open then
    /// may be over, and its thread at another that was not seen: for that it is
    /// not the process that is to blame, but what it does is not certain either.
    pub(crate) const fn events_lost(&mut self, now_nano: u64) {
        self.lost_nano = now_nano;
    }

    /// A request was read to its head's end; on a `stream` of its connection, if that has
    /// several.
    pub(crate) fn request_read(
        &mut self,
        reader: Caller,
        connection: u64,
        stream: u64,
        exchange: u64,
    ) -> Fragment {
        let Some(context) = self.processes.get_mut(&reader.process) else {
            return Fragment::None;
        };
        let fragment = self.random.random::<u64>();
        let line = match reader.line() {
            // Until it is handed over, nobody makes calls for it.
            Line::Task(_) if stream != 0 && context.hands_streams_over => {
                context.moved.insert(exchange, Line::None);
                Line::None
            }
            line => line,
        };
        if let Line::Task(task) = line {
            context.lineage.serves(task);
        }
        let open = context.by_line.entry(line).or_default();
        // A thread that reads the next request is done with one whose response
        // had begun, unless it is of the kind that violates anyway. With one that
        // was there when events were lost it may be done; what was proven of the
        // process is to be proven again. On no line, each is by itself.
        let before = open.len();
        let lost_nano = self.lost_nano;
        let doubtful = |other: &Open| other.read_nano < lost_nano && other.connection != connection;
        if open.iter().any(|other| !other.weak && doubtful(other)) {
            context.disciplined = 0;
        }
        open.retain(|other| line == Line::None || (!other.weak && !doubtful(other)));
        context.open -= before - open.len();
        let overlapped = !open.is_empty();
        let mut violated = false;
        for other in open.iter_mut() {
            other.overlapped = true;
            // Requests pipelined on one connection are handled one by one.
            violated |= other.connection != connection;
        }
        let read_nano = reader.time_nano;
        open.push(Open { exchange, connection, fragment, read_nano, weak: false, overlapped });
        context.open += 1;
        if violated && matches!(line, Line::Thread(_)) {
            self.demote(reader.process);
        }
        Fragment::Own(fragment)
    }

    /// A task begins to handle a request that was not seen.
    pub(crate) fn unseen_handed(&mut self, process: u32, task: u64) {
        if let Some(context) = self.processes.get_mut(&process) {
            context.lineage.serves(task);
        }
    }

    /// The request that `reader` has read is handled by another task.
    pub(crate) fn request_handed(&mut self, reader: Caller, exchange: u64, task: u64) {
        let Some(context) = self.processes.get_mut(&reader.process) else { return };
        context.lineage.serves(task);
        context.move_open(reader.line(), exchange, Line::Task(task));
    }

    /// A task was made. What another at its address did is not its.
    pub(crate) fn task_made(&mut self, process: u32, task: u64, parent: u64) {
        let Some(context) = self.processes.get_mut(&process) else { return };
        let former: Vec<u64> = context
            .by_line
            .get(&Line::Task(task))
            .map(|open| open.iter().map(|open| open.exchange).collect())
            .unwrap_or_default();
        for exchange in former {
            context.move_open(Line::Task(task), exchange, Line::None);
        }
        let root = match context.by_line.get(&Line::Task(parent)).map(Vec::as_slice) {
            Some([only]) => Root::Request(only.exchange),
            Some([_, _, ..]) => Root::Unknown,
            _ => Root::None,
        };
        context.lineage.born(task, parent, root);
    }

    /// A task that was made earlier has this parent.
    pub(crate) fn task_known(&mut self, process: u32, task: u64, parent: u64) {
        if let Some(context) = self.processes.get_mut(&process) {
            context.lineage.note(task, parent);
        }
    }

    /// From here on the response's end can only be told from silence.
    pub(crate) fn weaken(&mut self, reader: Caller, exchange: u64) {
        let Some(context) = self.processes.get_mut(&reader.process) else { return };
        let line = context.line_of(reader.line(), exchange);
        if let Some(open) = context
            .by_line
            .get_mut(&line)
            .and_then(|open| open.iter_mut().find(|open| open.exchange == exchange))
        {
            open.weak = true;
        }
    }

    /// The request that `reader` has read is over, at this time; `handled` where its
    /// response was written to the end.
    pub(crate) fn request_over(
        &mut self,
        reader: Caller,
        exchange: u64,
        end_nano: u64,
        handled: Option<Handled>,
    ) {
        let Caller { process, thread, .. } = reader;
        let Some(context) = self.processes.get_mut(&process) else { return };
        let line = context.line_of(reader.line(), exchange);
        context.moved.remove(&exchange);
        let Some(closed) = context.take_open(line, exchange) else { return };
        context.open -= 1;
        if let Line::Task(task) = line {
            context.lineage.ended(task, Ended { exchange, fragment: closed.fragment, end_nano });
            return;
        }
        if line == Line::None {
            return;
        }
        // What was written may answer another request, which nobody saw.
        let Some(handled) = handled.filter(|_| closed.read_nano >= self.lost_nano) else { return };
        if handled.first_writer != thread || handled.last_writer != thread {
            self.demote(process);
        } else if !closed.overlapped {
            context.disciplined = context.disciplined.saturating_add(1);
        }
    }

    fn demote(&mut self, process: u32) {
        if let Some(context) = self.processes.get_mut(&process)
            && !context.threads_shared
        {
            context.threads_shared = true;
            self.demoted += 1;
        }
    }

    /// Processes demoted since the last call.
    pub(crate) fn take_demoted(&mut self) -> u64 {
        std::mem::take(&mut self.demoted)
    }

    /// Processes that serve requests and make calls in tasks of which it is not known by
    /// which they were made, since the last call.
    pub(crate) fn take_orphans(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.orphans)
    }

    /// A request is sent: for which server request?
    pub(crate) fn request_sent(&mut self, sender: Caller) -> Fragment {
        let lost_nano = self.lost_nano;
        let Some(context) = self.processes.get_mut(&sender.process) else {
            return Fragment::None;
        };
        match context.of_task(sender, lost_nano) {
            Origin::Request(found) => return found,
            Origin::Unknown if context.open > 0 && context.is_orphan_due(sender.time_nano) => {
                self.orphans.push(sender.process);
            }
            Origin::Unknown | Origin::Elsewhere => {}
        }
        if !context.threads_shared && sender.task == 0 {
            match context.by_line.get(&Line::Thread(sender.thread)).map(Vec::as_slice) {
                Some([only]) => {
                    let proven = context.disciplined >= PROVEN_AFTER && only.read_nano >= lost_nano;
                    return within(
                        only.fragment,
                        Evidence::Thread,
                        if proven { 1.0 } else { LIKELY },
                    );
                }
                Some(several @ [_, _, ..]) => {
                    return Fragment::Ambiguous { candidates: several.len() };
                }
                _ => {}
            }
        }
        match context.open {
            0 => Fragment::None,
            1 => context.by_line.values().flatten().next().map_or(Fragment::None, |only| {
                within(only.fragment, Evidence::SoleRequest, LIKELY)
            }),
            candidates => Fragment::Ambiguous { candidates },
        }
    }
}

const fn within(fragment: u64, evidence: Evidence, confidence: f32) -> Fragment {
    Fragment::Within { fragment, evidence, confidence }
}

impl ProcessContext {
    /// On which line a request is open that was read on this one.
    fn line_of(&self, read_on: Line, exchange: u64) -> Line {
        if self.moved.is_empty() {
            return read_on;
        }
        self.moved.get(&exchange).copied().unwrap_or(read_on)
    }

    fn take_open(&mut self, line: Line, exchange: u64) -> Option<Open> {
        let open = self.by_line.get_mut(&line)?;
        let index = open.iter().position(|open| open.exchange == exchange)?;
        let taken = open.swap_remove(index);
        if open.is_empty() {
            self.by_line.remove(&line);
        }
        Some(taken)
    }

    fn move_open(&mut self, read_on: Line, exchange: u64, to: Line) {
        let from = self.line_of(read_on, exchange);
        if let Some(open) = self.take_open(from, exchange) {
            self.moved.insert(exchange, to);
            self.by_line.entry(to).or_default().push(open);
        }
    }

    fn is_orphan_due(&mut self, now_nano: u64) -> bool {
        let due = now_nano.saturating_sub(self.orphan_nano) >= SAY_ORPHANS_EVERY_NANO;
        if due {
            self.orphan_nano = now_nano;
        }
        due
    }

    /// The request for which a task makes a call: its own, or that of the nearest task
    /// it comes from which has one.
    fn of_task(&mut self, sender: Caller, lost_nano: u64) -> Origin {
        if sender.task == 0 {
            return Origin::Elsewhere;
        }
        let sure = |open: &Open| if open.read_nano >= lost_nano { 1.0 } else { LIKELY };
        match self.by_line.get(&Line::Task(sender.task)).map(Vec::as_slice) {
            Some([only]) => {
                return Origin::Request(within(only.fragment, Evidence::Task, sure(only)));
            }
            Some(several @ [_, _, ..]) => {
                return Origin::Request(Fragment::Ambiguous { candidates: several.len() });
            }
            _ => {}
        }
        // It does nothing after its request but what it has left to do for it.
        if let Some(ended) = self.lineage.last_ended(sender.task, sender.time_nano) {
            let confidence = if ended.end_nano >= lost_nano { 1.0 } else { LIKELY };
            return Origin::Request(within(ended.fragment, Evidence::Task, confidence));
        }
        self.lineage.note(sender.task, sender.parent_task);
        let mut child = sender.task;
        for _ in 0..lineage::MAX_GENERATIONS {
            let Some(parent) = self.lineage.parent(child) else {
                return if child == FIRST_TASK { Origin::Elsewhere } else { Origin::Unknown };
            };
            let root = self.lineage.root(child);
            let open = self.by_line.get(&Line::Task(parent)).map_or(&[][..], Vec::as_slice);
            let found = match (root, open) {
                (Root::Request(exchange), open) => {
                    open.iter().find(|open| open.exchange == exchange)
                }
                (Root::Unknown, [only]) => Some(only),
                (Root::Unknown, several @ [_, _, ..]) => {
                    return Origin::Request(Fragment::Ambiguous { candidates: several.len() });
                }
                _ => None,
            };
            if let Some(open) = found {
                let found = within(open.fragment, Evidence::Task, sure(open));
                let exchange = open.exchange;
                self.lineage.bind(child, exchange);
                return Origin::Request(found);
            }
            // What outlives its request may by now work for others, as who writes to a
            // connection that all share.
            if open.is_empty()
                && let Some(ended) = self.lineage.last_ended(parent, sender.time_nano)
                && matches!(root, Root::Unknown | Root::Request(_))
                && (root == Root::Unknown || root == Root::Request(ended.exchange))
            {
                self.lineage.bind(child, ended.exchange);
                return Origin::Request(within(ended.fragment, Evidence::Task, LIKELY));
            }
            child = parent;
        }
        Origin::Elsewhere
    }
}
