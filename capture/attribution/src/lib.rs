//! Fragments: which server request a client request was made for.
//!
//! A set of open server requests is kept for each line of execution of a process: for
//! each logical task where the kernel side knows it, else for each thread. A task's
//! calls belong to its own request, or to that of the task by which it was made. Exactly
//! one candidate is taken, with what speaks for it; of several none is: a wrong parent is
//! worse than none.

mod ancestry;
mod background_calls;
mod batches;
mod conduct;
mod handoff;
mod lineage;
mod lines;
mod names;
mod open;
pub mod pending_calls;
mod share;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use smallvec::SmallVec;
use spanwise_capture_protocols::attribution::{
    Attribution, ByOrder, Call, Caller, Fragment, Handled, NO_SORT, ORDERS,
};
use spanwise_capture_protocols::process::{Process, ProcessDirectory, Runtime};
use spanwise_model::Evidence;

use self::ancestry::Origin;
use self::background_calls::{BackgroundCalls, Whose};
use self::conduct::Conduct;
use self::lineage::{Ended, Lineage, Root};
use self::lines::{Line, THREAD, is_threads, is_work, origin};
pub use self::names::Names;
use self::open::{Open, OpenRequests};
pub use self::turns::Trust;
use self::turns::Turns;

/// Requests that a process must have handled each on one thread, before its
/// threads count as proof.
const PROVEN_AFTER: u32 = 20;
/// How sure a link is without that proof.
const LIKELY: f32 = 0.95;
/// Processes known at once; those beyond get no fragments.
const MAX_PROCESSES: usize = 65_536;
/// Tasks that may come to answer for a call: who has made it, and so many above it.
const MAX_MAKERS: usize = 4;
/// Threads of a process of which it is remembered that they read requests.
const MAX_READERS: usize = 4096;
/// What has led to answers and was not asked for.
const MAX_WOKEN: usize = 4096;
/// No fragment has this bit: what has it stands for one that is not known yet, of which calls
/// follow from each other.
const STRAND: u64 = 1 << 63;
/// Turns a sort of calls into that of calls in nobody's turn.
const LATE: u64 = 0x6c61_7465_0000_0000;
/// It is asked no more often that it is seen who gives work to the tasks of a process.
const SAY_WORKERS_EVERY_NANO: u64 = 1_000_000_000;
/// How long a request that is over is remembered for those that it has made.
const ENDED_NANO: u64 = 2_000_000_000;

#[derive(Debug, Default)]
struct ProcessState {
    open: OpenRequests,
    lineage: Lineage,
    handoffs: handoff::Handoffs,
    /// When it was last said that a task's origin is not known.
    orphan_nano: u64,
    /// What one task reads of a connection with streams, others handle (Go).
    hands_streams_over: bool,
    /// A task that writes to a connection which several share writes what waits of all.
    writes_for_others: bool,
    /// A thread says nothing, by the runtime's nature.
    threads_shared: bool,
    conduct: Conduct,
    /// Whether it was asked for that its threads are seen being made.
    threads_watched: bool,
    /// When it was last asked for that it is seen who gives work to its tasks.
    worked_nano: u64,
    /// Threads that have read requests, by no task.
    readers: AHashSet<u32>,
    /// Calls whose task told that they were made for a request.
    told_by_task: u32,
    turns: Turns,
    background: BackgroundCalls,
}

/// Who may have made a call for the request that it answers later on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maker {
    /// See [`origin`].
    pub(crate) line: u64,
    /// When it made the call, or whoever has: for what was read before.
    pub(crate) since_nano: u64,
}

/// The open server requests of every process.
pub struct Attributor {
    /// Who processes are.
    pub directory: Box<dyn ProcessDirectory>,
    processes: AHashMap<u32, ProcessState>,
    /// When connections were established that were accepted since.
    established: AHashMap<u64, u64>,
    random: SmallRng,
    /// By which process an answer is waited for, by connection.
    awaited: AHashMap<u64, u32>,
    /// Calls whose answers have led to that of a request, and its fragment.
    woken: Vec<(u64, u64)>,
    /// When events were last found to be lost, `CLOCK_MONOTONIC`.
    lost_nano: u64,
    /// Processes found to have no thread discipline since the last look.
    demoted: u64,
    /// Processes with tasks whose origin is not known, since the last look.
    orphans: Vec<u32>,
    /// Processes that make calls on threads of which that is so, likewise.
    thread_makers: Vec<u32>,
    /// Processes in which tasks go on with the work of others, likewise.
    workers: Vec<u32>,
}

impl Attributor {
    /// One whose fragment ids come from this seed.
    pub fn new(seed: u64, directory: Box<dyn ProcessDirectory>) -> Self {
        let random = SmallRng::seed_from_u64(seed);
        Self {
            directory,
            processes: AHashMap::new(),
            established: AHashMap::new(),
            awaited: AHashMap::new(),
            woken: Vec::new(),
            random,
            lost_nano: 0,
            demoted: 0,
            orphans: Vec::new(),
            thread_makers: Vec::new(),
            workers: Vec::new(),
        }
    }

    /// Whether the process was introduced and has not gone since.
    pub fn knows(&self, process: u32) -> bool {
        self.processes.contains_key(&process)
    }

    /// Takes note of a process and of what its runtime means for threads.
    pub fn introduce(&mut self, process: u32, runtime: &Runtime) {
        if self.processes.len() < MAX_PROCESSES {
            let threads_shared = matches!(runtime, Runtime::Go | Runtime::Node);
            let hands_streams_over = matches!(runtime, Runtime::Go);
            let writes_for_others = matches!(runtime, Runtime::Python);
            let fresh = ProcessState {
                threads_shared,
                hands_streams_over,
                writes_for_others,
                ..ProcessState::default()
            };
            self.processes.insert(process, fresh);
        }
    }

    /// The process has ended or runs another program now.
    pub fn forget(&mut self, process: u32) {
        self.processes.remove(&process);
    }

    /// A connection was accepted that was established at this time.
    pub fn accepted(&mut self, connection: u64, time_nano: u64) {
        self.established.insert(connection, time_nano);
    }

    /// A connection was established that this thread has begun.
    pub fn connected(&mut self, opener: Caller) {
        if let Some(state) = self.processes.get_mut(&opener.process)
            && follows_turns(opener.task)
        {
            state.turns.connected(opener);
        }
    }

    /// Nothing will be heard of a connection any more.
    pub fn closed(&mut self, connection: u64) {
        self.established.remove(&connection);
        if let Some(process) = self.awaited.remove(&connection)
            && let Some(state) = self.processes.get_mut(&process)
        {
            state.conduct.gave_up(connection);
        }
    }

    /// Events were lost, at this time or before. A request that was open then
    /// may be over, and its thread at another that was not seen: for that it is
    /// not the process that is to blame, but what it does is not certain either.
    pub const fn events_lost(&mut self, now_nano: u64) {
        self.lost_nano = now_nano;
    }

    /// A thread has read something on a connection; what, follows.
    pub fn bytes_read(&mut self, reader: Caller, connection: u64) {
        let Some(state) = self.processes.get_mut(&reader.process) else { return };
        if follows_turns(reader.task) {
            state.turns.read(reader, state.open.count());
        }
        let ProcessState { open, conduct, threads_shared, .. } = state;
        if !*threads_shared && is_threads(reader.task) {
            conduct.read(reader, connection, || {
                let open = open.on_line(Line::Thread(reader.thread));
                open.iter().any(|open| open.connection != connection)
            });
        }
    }

    /// What was read is the answer to a call that was made for this fragment's request, where
    /// that is known, or some of it, and all where it is `complete`; in the task `maker` (0: not
    /// known).
    pub fn answer_read(
        &mut self,
        reader: Caller,
        call: u64,
        maker: u64,
        fragment: Option<ByOrder>,
        complete: bool,
    ) {
        if let Some(state) = self.processes.get_mut(&reader.process) {
            let is_others = ![0, maker].contains(&reader.task) && maker != 0;
            if state.hands_streams_over && is_others && reader.parent_task != 0 {
                state.lineage.reads_for_others(reader.parent_task);
            }
            let fragments = fragment.unwrap_or([UNKNOWN; ORDERS]);
            state.turns.read_for(reader, fragments, call, complete);
        }
    }

    /// Of what is known of a call by order, that which counts in the process, while so many
    /// requests are open.
    pub(crate) fn in_order(&self, process: u32, open: usize, made_for: ByOrder) -> u64 {
        let turns = self.processes.get(&process).map(|state| &state.turns);
        turns.map_or(made_for[0], |turns| turns.in_order(open, made_for))
    }

    /// Whether what a process does when it has read something may tell of its calls.
    pub fn has_turns(&self, process: u32) -> bool {
        self.processes.get(&process).is_some_and(ProcessState::has_turns)
    }

    /// Whether a task that writes to a connection which several share may write what waits of
    /// others, and mostly writes its own.
    pub(crate) fn takes_writes_over(&self, process: u32) -> bool {
        self.processes.get(&process).is_some_and(|state| state.writes_for_others)
    }

    /// Calls whose answers were seen to lead to that of a request, with its fragment, since the
    /// last call.
    pub(crate) fn take_woken(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.woken)
    }

    /// Whether such fragments are those of the process's calls, while so many requests are
    /// open.
    pub fn trust_in_turns(&self, process: u32, open: usize) -> Trust {
        self.processes.get(&process).map_or(Trust::None, |state| state.trust_in_turns(open))
    }

    /// Whether links by thread of the process may turn out not to be certain.
    pub fn may_lose_certainty(&self, process: u32) -> bool {
        self.processes.get(&process).is_some_and(|state| state.conduct.is_young())
    }

    /// What a link that was certain by thread is now.
    pub(crate) fn again(&self, process: u32, link: Fragment) -> Fragment {
        let (Some(state), Fragment::Within { fragment, evidence: Evidence::Thread, .. }) =
            (self.processes.get(&process), link)
        else {
            return link;
        };
        let evidence = Evidence::Thread;
        if state.conduct.is_clean() {
            link
        } else if state.conduct.trusts(NO_SORT) {
            within(fragment, evidence, LIKELY)
        } else {
            Fragment::Ambiguous { candidates: state.open.count() + 1 }
        }
    }

    /// How many requests of a process are open.
    pub fn open(&self, process: u32) -> usize {
        self.processes.get(&process).map_or(0, |state| state.open.count())
    }

    /// Whether a request of the process that has this fragment is open.
    pub fn is_open(&self, process: u32, fragment: u64) -> bool {
        self.processes.get(&process).is_some_and(|state| state.open.has_fragment(fragment))
    }

    /// A task was made at this time. Where `connection` is not 0, it was made in a
    /// callback for what has just been read of that. One that is `lasting` may go on with
    /// what others give it.
    pub fn task_made(
        &mut self,
        process: u32,
        task: u64,
        parent: u64,
        connection: u64,
        lasting: bool,
        time_nano: u64,
    ) {
        let Some(state) = self.processes.get_mut(&process) else { return };
        let known = matches!(state.lineage.root(parent), Root::Request(_) | Root::Several(_));
        let root = match connection {
            connection if connection != 0 && !known => state.root_on(connection, time_nano),
            _ => state.root_by(parent, time_nano),
        };
        state.lineage.born(task, parent, root, lasting, time_nano);
        if connection != 0 && !known {
            state.lineage.handles(task);
        }
    }

    /// A thread is made.
    pub fn thread_made(&mut self, maker: Caller, thread: u32) {
        let Some(state) = self.processes.get_mut(&maker.process) else { return };
        let root = match Line::of(&maker) {
            Line::Thread(_) if state.threads_shared || state.conduct.does_several() => Root::None,
            Line::Thread(thread) => state.root_of_thread(thread),
            Line::Task(task) => state.root_by(task, maker.time_nano),
            Line::None => Root::None,
        };
        let made = u64::from(thread) | THREAD;
        state.lineage.born(made, origin(&maker), root, true, maker.time_nano);
    }

    /// A task has ended: it was no pool's worker, that goes on with the work of others.
    pub fn task_ended(&mut self, process: u32, task: u64) {
        if let Some(state) = self.processes.get_mut(&process) {
            state.lineage.task_ended(task);
        }
    }

    /// A thread has.
    pub fn thread_ended(&mut self, process: u32, thread: u32) {
        self.task_ended(process, u64::from(thread) | THREAD);
    }

    /// A task that waited was given something by another one, with which its parent comes.
    pub fn task_given(&mut self, process: u32, task: u64, giver: (u64, u64), time_nano: u64) {
        if let Some(state) = self.processes.get_mut(&process) {
            state.given(task, giver.0, giver.1, time_nano);
        }
    }

    /// A task that was made earlier has this parent.
    pub fn task_known(&mut self, process: u32, task: u64, parent: u64) {
        if let Some(state) = self.processes.get_mut(&process) {
            state.lineage.note(task, parent);
        }
    }

    /// The process tells of work, see `Task::teller` of the tracer.
    pub fn work_handed_over(&mut self, process: u32, work: u64, origin: u64, at: (u32, u64)) {
        if let Some(state) = self.processes.get_mut(&process) {
            state.work_handed_over(work, origin, at.0, at.1);
        }
    }

    /// Who may come to answer the request for which a call was made that could be for
    /// several: who has made it, and whom that comes of.
    pub fn makers(&mut self, sender: Caller) -> Vec<Maker> {
        let Some(state) = self.processes.get_mut(&sender.process) else { return Vec::new() };
        let reads = state.readers.contains(&sender.thread);
        let full = state.readers.len() >= MAX_READERS;
        let knows_better = is_work(sender.task);
        if knows_better || (sender.task == 0 && (reads || full)) {
            return Vec::new();
        }
        let mut makers = vec![Maker { line: origin(&sender), since_nano: sender.time_nano }];
        let mut child = sender.task;
        while makers.len() < MAX_MAKERS
            && let Some((line, since_nano)) = state.lineage.made_by(child)
        {
            makers.push(Maker { line, since_nano });
            child = line;
        }
        makers
    }

    /// When the request was read that a process has had open for the longest.
    pub fn oldest_open_nano(&self, process: u32) -> Option<u64> {
        self.processes.get(&process)?.open.oldest_nano()
    }

    /// Processes demoted since the last call.
    pub fn take_demoted(&mut self) -> u64 {
        std::mem::take(&mut self.demoted)
    }

    /// Processes that serve requests and make calls in tasks of which it is not known by
    /// which they were made, since the last call.
    pub fn take_orphans(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.orphans)
    }

    /// Processes in which tasks go on with the work of others than their maker, since the last
    /// call.
    pub fn take_workers(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.workers)
    }

    /// Processes that serve requests and make calls on threads of which it is not known by
    /// which they were made, since the last call.
    pub fn take_thread_makers(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.thread_makers)
    }

    /// A request is sent: for which server request? `opener` has connected for it, where
    /// it is the first on its connection.
    pub fn request_sent(&mut self, sender: Caller, opener: Option<Caller>) -> Fragment {
        self.call_made(sender, opener, Call::New(NO_SORT))
    }
}

impl Attribution for Attributor {
    fn process(&mut self, process: u32) -> Arc<Process> {
        let described = self.directory.describe(process);
        if !self.knows(process) {
            self.introduce(process, &described.runtime);
        }
        described
    }

    fn request_read(
        &mut self,
        reader: Caller,
        connection: u64,
        stream: u64,
        exchange: u64,
        sort: u64,
    ) -> Fragment {
        let Some(state) = self.processes.get_mut(&reader.process) else {
            return Fragment::None;
        };
        let fragment = self.random.random::<u64>() & !STRAND;
        state.background.passed(state.open.count(), reader.time_nano);
        state.turns.read_for(reader, [fragment; ORDERS], 0, true);
        let line = match Line::of(&reader) {
            // Until it is handed over, nobody makes calls for it.
            Line::Task(_) if stream != 0 && state.hands_streams_over => Line::None,
            line => line,
        };
        if let Line::Thread(thread) = line
            && state.readers.len() < MAX_READERS
        {
            state.readers.insert(thread);
        }
        if let Line::Task(task) = line {
            state.lineage.serves(task);
            if let Some(established_nano) = self.established.get(&connection) {
                state.lineage.read_by(task, connection, *established_nano);
            }
        }
        let open = state.open.on_line(line);
        // A thread that reads the next request is done with one whose response
        // had begun, unless it is of the kind that violates anyway. With one that
        // was there when events were lost it may be done; what was proven of the
        // process is to be proven again. On no line, each is by itself.
        let lost_nano = self.lost_nano;
        let doubtful = |other: &Open| other.read_nano < lost_nano && other.connection != connection;
        if open.iter().any(|other| !other.weak && doubtful(other)) {
            state.conduct.doubt();
        }
        let over = |other: &&Open| line != Line::None && (other.weak || doubtful(other));
        let gone: Vec<u64> = open.iter().filter(over).map(|other| other.exchange).collect();
        for exchange in gone {
            state.open.take(exchange);
        }
        let others = state.open.on_line_mut(line);
        let overlapped = !others.is_empty();
        let mut left: SmallVec<[(u64, u64); 1]> = SmallVec::new();
        for other in others {
            // Requests pipelined on one connection are handled one by one.
            let is_first = !std::mem::replace(&mut other.overlapped, true);
            if is_first && other.connection != connection && matches!(line, Line::Thread(_)) {
                left.push((other.exchange, other.sort));
            }
        }
        for (other, sort) in left {
            if state.threads_shared {
                break;
            }
            self.demoted += u64::from(state.conduct.handled(sort, false));
            // Others go on with it, where threads do one thing at a time.
            if state.conduct.trusts(sort) {
                state.open.move_to(other, Line::None);
            }
        }
        let read_nano = reader.time_nano;
        state
            .handoffs
            .read(line, handoff::Read { exchange, fragment, connection, nano: read_nano });
        let pipelined = state.open.on_connection(connection).next().is_some();
        let weak = false;
        let open =
            Open { exchange, connection, fragment, sort, read_nano, weak, overlapped, pipelined };
        state.open.insert(line, open);
        Fragment::Own(fragment)
    }

    fn request_handed(&mut self, reader: Caller, exchange: u64, task: u64) {
        let Some(state) = self.processes.get_mut(&reader.process) else { return };
        state.lineage.serves(task);
        state.open.move_to(exchange, Line::Task(task));
    }

    fn unseen_handed(&mut self, process: u32, task: u64) {
        if let Some(state) = self.processes.get_mut(&process) {
            state.lineage.serves(task);
        }
    }

    fn call_made(&mut self, sender: Caller, opener: Option<Caller>, call: Call) -> Fragment {
        let lost_nano = self.lost_nano;
        let Some(state) = self.processes.get_mut(&sender.process) else {
            return Fragment::None;
        };
        match state.of_task(sender, lost_nano) {
            Origin::Request(found) => {
                let is_new = matches!(call, Call::New(_));
                state.told_by_task = state.told_by_task.saturating_add(u32::from(is_new));
                return found;
            }
            Origin::Unknown if state.open.count() > 0 && state.is_orphan_due(sender.time_nano) => {
                self.orphans.push(sender.process);
            }
            Origin::Unknown | Origin::Elsewhere => {}
        }
        if sender.task != 0
            && state.lineage.has_workers()
            && sender.time_nano.saturating_sub(state.worked_nano) >= SAY_WORKERS_EVERY_NANO
        {
            state.worked_nano = sender.time_nano;
            self.workers.push(sender.process);
        }
        if sender.task != 0
            && follows_turns(sender.task)
            // It may be a worker, which goes on with what its thread did before.
            && let Trust::Sure(sure) = state.trust_in_turns(state.open.count())
            && let Some(fragment) = state.turn_of(opener.unwrap_or(sender))
        {
            return within(fragment, Evidence::Turn, sure);
        }
        if state.is_of_others(sender.task, &self.established) {
            return state.nobodys(sender, opener, call);
        }
        if sender.task != 0 {
            return state.sole(sender, opener, call);
        }
        // What the program says itself is better than what its threads are seen to do.
        if let Some(found) = state.of_started(sender, lost_nano) {
            return found;
        }
        let count = state.open.count();
        if let Trust::Sure(sure) = state.trust_in_turns(count)
            && let Some(fragment) = state.turn_of(opener.unwrap_or(sender))
        {
            return within(fragment, Evidence::Turn, sure);
        }
        if !state.threads_shared {
            match state.open.on_line(Line::Thread(sender.thread)) {
                [only] if state.conduct.trusts(only.sort) => {
                    let proven = only.read_nano >= lost_nano
                        && state.conduct.is_certain_of(only.sort, count);
                    return within(
                        only.fragment,
                        Evidence::Thread,
                        if proven { 1.0 } else { LIKELY },
                    );
                }
                [_] => return state.sole(sender, opener, call),
                [] => {}
                several => return Fragment::Ambiguous { candidates: several.len() },
            }
            let reads = state.readers.contains(&sender.thread);
            if reads && matches!(call, Call::New(_)) {
                state.conduct.called_without_request(sender);
            }
            if !reads && state.conduct.goes_on_for_nobody(sender) {
                state.count(sender, call);
                return Fragment::None;
            }
            if let Some(found) = state.of_thread(sender, lost_nano) {
                return found;
            }
            if state.open.count() > 0 && !std::mem::replace(&mut state.threads_watched, true) {
                self.thread_makers.push(sender.process);
            }
        }
        state.sole(sender, opener, call)
    }

    fn call_made_among_others(
        &mut self,
        sender: Caller,
        opener: Option<Caller>,
        call: Call,
    ) -> Fragment {
        match self.processes.get_mut(&sender.process) {
            Some(state) if state.writes_for_others || is_work(sender.task) => {
                state.sole(sender, opener, call)
            }
            _ => self.call_made(sender, opener, call),
        }
    }

    fn turn_of(&mut self, sender: Caller, opener: Option<Caller>) -> Option<ByOrder> {
        let state = self.processes.get(&sender.process)?;
        let caller = opener.unwrap_or(sender);
        if caller.sleeps == 0 || !follows_turns(sender.task) || !state.has_turns() {
            return None;
        }
        let new = self.random.random::<u64>() | STRAND;
        let is_of_it =
            |found: &u64| state.turns.is_unled(*found) || state.open.has_fragment(*found);
        Some(state.turns.causes(caller).map(|found| found.filter(is_of_it).unwrap_or(new)))
    }

    fn answer_awaited(
        &mut self,
        sender: Caller,
        connection: u64,
        fragment: Fragment,
        turn: Option<ByOrder>,
    ) {
        let Some(state) = self.processes.get_mut(&sender.process) else { return };
        if follows_turns(sender.task) {
            let made_for = match fragment {
                Fragment::Within { fragment, .. } => [fragment; ORDERS],
                _ => turn.unwrap_or([UNKNOWN; ORDERS]),
            };
            state.turns.called(sender, made_for);
        }
        if !state.threads_shared && is_threads(sender.task) {
            let serves = state.open.on_line(Line::Thread(sender.thread)).len() == 1;
            let nobodys = fragment == Fragment::None;
            state.conduct.called(sender, connection, serves, state.open.count(), nobodys);
            self.awaited.insert(connection, sender.process);
        }
    }

    fn answer_begun(&mut self, writer: Caller, exchange: u64) {
        let Some(state) = self.processes.get_mut(&writer.process) else { return };
        if follows_turns(writer.task)
            && let Some(fragment) = state.open.get(exchange).map(|open| open.fragment)
        {
            state.turns.answer_begun(writer, fragment, state.open.count());
        }
    }

    fn weaken(&mut self, reader: Caller, exchange: u64) {
        let Some(state) = self.processes.get_mut(&reader.process) else { return };
        if let Some(open) = state.open.get_mut(exchange) {
            open.weak = true;
        }
    }

    fn answered_by(&mut self, process: u32, exchange: u64, task: u64) {
        let Some(state) = self.processes.get_mut(&process) else { return };
        if !matches!(state.open.line_of(exchange), Some(Line::Thread(_))) {
            return;
        }
        let Some(connection) = state.open.get(exchange).map(|open| open.connection) else {
            return;
        };
        if let Some(established_nano) = self.established.get(&connection) {
            state.lineage.answered_by(task, connection, *established_nano);
        }
    }

    fn request_over(
        &mut self,
        reader: Caller,
        exchange: u64,
        end_nano: u64,
        handled: Option<Handled>,
    ) {
        let Caller { process, thread, .. } = reader;
        let Some(state) = self.processes.get_mut(&process) else { return };
        state.background.passed(state.open.count(), end_nano);
        let Some((line, closed)) = state.open.take(exchange) else { return };
        let Open { connection, fragment, .. } = closed;
        let task = if let Line::Task(task) = line { Some(task) } else { None };
        // Nobody else asks for what is over.
        if task.is_some() || state.lineage.has_tasks() || state.handoffs.has_begun() {
            state.lineage.ended(task, Ended { exchange, connection, fragment, end_nano });
        }
        let by_task = task.is_some();
        if (!by_task && !matches!(line, Line::Thread(_))) || !follows_turns(task.unwrap_or(0)) {
            return;
        }
        // What was written may answer another request, which nobody saw.
        let Some(handled) = handled.filter(|_| closed.read_nano >= self.lost_nano) else { return };
        let Handled { first_writer, last_thread } = handled;
        // Where no other request is open, whatever is done is done for this one.
        if state.open.count() > 0 {
            let (open, alone) = (state.open.count() + 1, state.readers.len() <= 1);
            let led = state.turns.answered(first_writer, fragment, open, alone);
            if let Some(call) = led.filter(|_| state.has_turns())
                && self.woken.len() < MAX_WOKEN
            {
                self.woken.push((call, fragment));
            }
        }
        if state.threads_shared || by_task {
            return;
        }
        state.conduct.answered(first_writer);
        let by_its_thread = first_writer.thread == thread && last_thread == thread;
        if !by_its_thread || !closed.overlapped {
            self.demoted += u64::from(state.conduct.handled(closed.sort, by_its_thread));
        }
    }
}

impl ProcessState {
    fn has_turns(&self) -> bool {
        self.threads_shared || self.conduct.does_several()
    }

    /// Where a thread does several things at a time, its answers tell; where it does one,
    /// that tells more.
    fn trust_in_turns(&self, open: usize) -> Trust {
        if self.has_turns() { self.turns.trust(open) } else { Trust::Unknown }
    }

    /// For which request that is open a call is made, if turns can be trusted.
    fn turn_of(&self, sender: Caller) -> Option<u64> {
        let made_for = self.turns.made_for(sender, self.open.count());
        made_for.filter(|fragment| self.open.has_fragment(*fragment))
    }

    /// A call with the sort that it is counted as. What an event loop does in the turn of an open
    /// request and what it does after timers are two sorts.
    fn sorted(&self, sender: Caller, opener: Option<Caller>, call: Call) -> Call {
        if !self.threads_shared || !follows_turns(sender.task) {
            return call;
        }
        let causes = self.turns.causes(opener.unwrap_or(sender));
        let is_in_turn = causes
            .iter()
            .flatten()
            .any(|found| self.turns.is_unled(*found) || self.open.has_fragment(*found));
        match call {
            _ if is_in_turn => call,
            Call::New(sort) => Call::New(sort ^ LATE),
            Call::Again(sort) => Call::Again(sort ^ LATE),
        }
    }

    fn count(&mut self, sender: Caller, call: Call) {
        if let Call::New(sort) = call {
            self.background.called(origin(&sender), sort, self.open.count(), sender.time_nano);
        }
    }

    /// Of no request, as far as its task tells; it may have been given the work.
    fn nobodys(&mut self, sender: Caller, opener: Option<Caller>, call: Call) -> Fragment {
        let call = self.sorted(sender, opener, call);
        self.count(sender, call);
        match self.open.count() {
            0 => Fragment::None,
            candidates => Fragment::Ambiguous { candidates },
        }
    }

    /// The only request that is open, unless calls of that kind are made for none as often.
    fn sole(&mut self, sender: Caller, opener: Option<Caller>, call: Call) -> Fragment {
        let call = self.sorted(sender, opener, call);
        self.count(sender, call);
        let candidates = self.open.count();
        if candidates == 0 {
            return Fragment::None;
        }
        let is_late = self.threads_shared && follows_turns(sender.task) && self.turns.is_late();
        match (self.background.whose(origin(&sender), call.sort(), candidates, LIKELY), candidates)
        {
            // A loop that puts off what it does calls late for requests, too.
            (Whose::Nobodys, _) if !is_late => Fragment::None,
            (Whose::Request(sure), 1) => self
                .open
                .any()
                .map_or(Fragment::None, |only| within(only.fragment, Evidence::SoleRequest, sure)),
            _ => Fragment::Ambiguous { candidates },
        }
    }
}

/// Whether turns are looked at: where tasks are known, those tell more, and the order of a
/// worker's calls says nothing of who gave it the work.
const fn follows_turns(task: u64) -> bool {
    task == 0
}

/// Stands for a call's request that is not known: nobody's fragment, but once in 2^64 times.
pub(crate) const UNKNOWN: u64 = 0;

/// Whether this stands for a fragment that is not known.
pub(crate) const fn is_strand(fragment: u64) -> bool {
    fragment & STRAND != 0
}

const fn within(fragment: u64, evidence: Evidence, confidence: f32) -> Fragment {
    Fragment::Within { fragment, evidence, confidence }
}
