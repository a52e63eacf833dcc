//! Fragments: which server request a client request was made for.
//!
//! A set of open server requests is kept per thread and per process. Exactly
//! one candidate is taken, with what speaks for it; of several none is: a wrong
//! parent is worse than none.

use ahash::AHashMap;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use spanwise_model::Evidence;

use crate::process::Runtime;

/// Requests that a process must have handled each on one thread, before its
/// threads count as proof.
const PROVEN_AFTER: u32 = 20;
/// How sure a link is without that proof.
const LIKELY: f32 = 0.9;
/// Processes known at once; those beyond get no fragments.
const MAX_PROCESSES: usize = 65_536;

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
    by_thread: AHashMap<u32, Vec<Open>>,
    open: usize,
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
}

impl Context {
    /// A context whose fragment ids come from this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let random = SmallRng::seed_from_u64(seed);
        Self { processes: AHashMap::new(), random, lost_nano: 0, demoted: 0 }
    }

    /// Whether the process was introduced and has not gone since.
    pub(crate) fn knows(&self, process: u32) -> bool {
        self.processes.contains_key(&process)
    }

    /// Takes note of a process and of what its runtime means for threads.
    pub(crate) fn introduce(&mut self, process: u32, runtime: &Runtime) {
        if self.processes.len() < MAX_PROCESSES {
            let threads_shared = matches!(runtime, Runtime::Go | Runtime::Node);
            self.processes
                .insert(process, ProcessContext { threads_shared, ..ProcessContext::default() });
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

    /// A thread has read a request to its head's end, at this time.
    pub(crate) fn request_read(
        &mut self,
        process: u32,
        thread: u32,
        connection: u64,
        exchange: u64,
        read_nano: u64,
    ) -> Fragment {
        let Some(context) = self.processes.get_mut(&process) else {
            return Fragment::None;
        };
        let fragment = self.random.random::<u64>();
        let open = context.by_thread.entry(thread).or_default();
        // A thread that reads the next request is done with one whose response
        // had begun, unless it is of the kind that violates anyway. With one that
        // was there when events were lost it may be done; what was proven of the
        // process is to be proven again.
        let before = open.len();
        let lost_nano = self.lost_nano;
        let doubtful = |other: &Open| other.read_nano < lost_nano && other.connection != connection;
        if open.iter().any(|other| !other.weak && doubtful(other)) {
            context.disciplined = 0;
        }
        open.retain(|other| !other.weak && !doubtful(other));
        context.open -= before - open.len();
        let overlapped = !open.is_empty();
        let mut violated = false;
        for other in open.iter_mut() {
            other.overlapped = true;
            // Requests pipelined on one connection are handled one by one.
            violated |= other.connection != connection;
        }
        open.push(Open { exchange, connection, fragment, read_nano, weak: false, overlapped });
        context.open += 1;
        if violated {
            self.demote(process);
        }
        Fragment::Own(fragment)
    }

    /// From here on the response's end can only be told from silence.
    pub(crate) fn weaken(&mut self, process: u32, thread: u32, exchange: u64) {
        if let Some(open) = self
            .processes
            .get_mut(&process)
            .and_then(|context| context.by_thread.get_mut(&thread))
            .and_then(|open| open.iter_mut().find(|open| open.exchange == exchange))
        {
            open.weak = true;
        }
    }

    /// The request that `thread` has read is over; `handled` where its response
    /// was written to the end.
    pub(crate) fn request_over(
        &mut self,
        process: u32,
        thread: u32,
        exchange: u64,
        handled: Option<Handled>,
    ) {
        let Some(context) = self.processes.get_mut(&process) else { return };
        let Some(open) = context.by_thread.get_mut(&thread) else { return };
        let Some(index) = open.iter().position(|open| open.exchange == exchange) else { return };
        let closed = open.swap_remove(index);
        if open.is_empty() {
            context.by_thread.remove(&thread);
        }
        context.open -= 1;
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

    /// A thread sends a request of its own: for which server request?
    pub(crate) fn request_sent(&self, process: u32, thread: u32) -> Fragment {
        let Some(context) = self.processes.get(&process) else {
            return Fragment::None;
        };
        let within = |open: &Open, evidence, confidence| Fragment::Within {
            fragment: open.fragment,
            evidence,
            confidence,
        };
        if !context.threads_shared {
            match context.by_thread.get(&thread).map(Vec::as_slice) {
                Some([only]) => {
                    let proven =
                        context.disciplined >= PROVEN_AFTER && only.read_nano >= self.lost_nano;
                    return within(only, Evidence::Thread, if proven { 1.0 } else { LIKELY });
                }
                Some(several @ [_, _, ..]) => {
                    return Fragment::Ambiguous { candidates: several.len() };
                }
                _ => {}
            }
        }
        match context.open {
            0 => Fragment::None,
            1 => context
                .by_thread
                .values()
                .flatten()
                .next()
                .map_or(Fragment::None, |only| within(only, Evidence::SoleRequest, LIKELY)),
            candidates => Fragment::Ambiguous { candidates },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: u32 = 10;

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
        match context.request_read(PROCESS, thread, connection, exchange, read_nano) {
            Fragment::Own(fragment) => fragment,
            found => panic!("a server request has its own fragment, not {found:?}"),
        }
    }

    fn over(context: &mut Context, thread: u32, exchange: u64, writer: u32) {
        let handled = Handled { first_writer: writer, last_writer: writer };
        context.request_over(PROCESS, thread, exchange, Some(handled));
    }

    fn prove(context: &mut Context) {
        prove_at(context, 0);
    }

    fn prove_at(context: &mut Context, read_nano: u64) {
        for exchange in 1000..1000 + u64::from(PROVEN_AFTER) {
            read_at(context, 1, exchange, exchange, read_nano);
            over(context, 1, exchange, 1);
        }
    }

    fn within(fragment: u64, evidence: Evidence, confidence: f32) -> Fragment {
        Fragment::Within { fragment, evidence, confidence }
    }

    #[test]
    fn a_thread_is_likely_until_proven_and_certain_then() {
        let mut context = context(other());
        let fragment = read(&mut context, 1, 1, 1);
        assert_eq!(context.request_sent(PROCESS, 1), within(fragment, Evidence::Thread, 0.9));
        over(&mut context, 1, 1, 1);
        prove(&mut context);
        let first = read(&mut context, 1, 2, 2);
        let second = read(&mut context, 2, 3, 3);
        assert_eq!(context.request_sent(PROCESS, 1), within(first, Evidence::Thread, 1.0));
        assert_eq!(context.request_sent(PROCESS, 2), within(second, Evidence::Thread, 1.0));
    }

    #[test]
    fn without_an_open_request_there_is_no_fragment() {
        let mut context = context(other());
        assert_eq!(context.request_sent(PROCESS, 1), Fragment::None);
        read(&mut context, 1, 1, 1);
        over(&mut context, 1, 1, 1);
        assert_eq!(context.request_sent(PROCESS, 1), Fragment::None);
        assert_eq!(context.request_sent(99, 1), Fragment::None);
    }

    #[test]
    fn another_thread_may_only_have_the_sole_request() {
        let mut context = context(other());
        let fragment = read(&mut context, 1, 1, 1);
        let sole = within(fragment, Evidence::SoleRequest, 0.9);
        assert_eq!(context.request_sent(PROCESS, 7), sole);
        read(&mut context, 2, 2, 2);
        assert_eq!(context.request_sent(PROCESS, 7), Fragment::Ambiguous { candidates: 2 });
    }

    #[test]
    fn go_and_node_threads_say_nothing() {
        for runtime in [Runtime::Go, Runtime::Node] {
            let mut context = context(runtime);
            let fragment = read(&mut context, 1, 1, 1);
            let sole = within(fragment, Evidence::SoleRequest, 0.9);
            assert_eq!(context.request_sent(PROCESS, 1), sole);
            read(&mut context, 2, 2, 2);
            assert_eq!(context.request_sent(PROCESS, 1), Fragment::Ambiguous { candidates: 2 });
        }
    }

    #[test]
    fn a_second_request_on_a_thread_ends_the_trust_in_threads_for_good() {
        let mut context = context(other());
        prove(&mut context);
        read(&mut context, 1, 1, 1);
        read(&mut context, 1, 2, 2);
        assert_eq!(context.request_sent(PROCESS, 1), Fragment::Ambiguous { candidates: 2 });
        assert_eq!(context.take_demoted(), 1);
        over(&mut context, 1, 1, 1);
        over(&mut context, 1, 2, 1);
        prove(&mut context);
        let fragment = read(&mut context, 1, 3, 3);
        let sole = within(fragment, Evidence::SoleRequest, 0.9);
        assert_eq!(context.request_sent(PROCESS, 1), sole);
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
        assert_eq!(context.request_sent(PROCESS, 1), within(fragment, Evidence::Thread, 0.9));
    }

    #[test]
    fn what_was_open_when_events_were_lost_blames_nobody_and_proves_nothing() {
        let mut context = context(other());
        prove(&mut context);
        let first = read_at(&mut context, 1, 1, 1, 5);
        context.events_lost(10);
        // The thread may be at a request that nobody saw.
        assert_eq!(context.request_sent(PROCESS, 1), within(first, Evidence::Thread, 0.9));
        // It is at another one now: the end of the first was not seen.
        let second = read_at(&mut context, 1, 2, 2, 20);
        assert_eq!(context.take_demoted(), 0);
        assert_eq!(context.request_sent(PROCESS, 1), within(second, Evidence::Thread, 0.9));
        over(&mut context, 1, 2, 1);
        prove_at(&mut context, 25);
        let third = read_at(&mut context, 1, 3, 3, 30);
        assert_eq!(context.request_sent(PROCESS, 1), within(third, Evidence::Thread, 1.0));
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
        assert_eq!(context.request_sent(PROCESS, 1), Fragment::Ambiguous { candidates: 2 });
        over(&mut context, 1, 1, 1);
        assert_eq!(context.request_sent(PROCESS, 1), within(second, Evidence::Thread, 1.0));
        assert_eq!(context.take_demoted(), 0);
    }

    #[test]
    fn a_response_without_a_visible_end_is_over_when_its_thread_reads_again() {
        let mut context = context(other());
        prove(&mut context);
        let first = read(&mut context, 1, 1, 1);
        context.weaken(PROCESS, 1, 1);
        assert_eq!(context.request_sent(PROCESS, 1), within(first, Evidence::Thread, 1.0));
        let second = read(&mut context, 1, 2, 2);
        assert_eq!(context.request_sent(PROCESS, 1), within(second, Evidence::Thread, 1.0));
        assert_eq!(context.take_demoted(), 0);
        // What was taken for over may be closed again without harm.
        over(&mut context, 1, 1, 1);
        over(&mut context, 1, 2, 1);
        assert_eq!(context.request_sent(PROCESS, 1), Fragment::None);
    }

    #[test]
    fn a_request_whose_connection_closed_proves_nothing() {
        let mut context = context(other());
        for exchange in 0..100 {
            read(&mut context, 1, exchange, exchange);
            context.request_over(PROCESS, 1, exchange, None);
        }
        let fragment = read(&mut context, 1, 200, 200);
        assert_eq!(context.request_sent(PROCESS, 1), within(fragment, Evidence::Thread, 0.9));
    }
}
