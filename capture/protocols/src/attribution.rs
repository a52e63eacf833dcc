//! The interface of request attribution: what exchanges report about themselves, and what they ask.
//! `capture/attribution` implements it.

use std::sync::Arc;

use spanwise_model::Evidence;

use crate::bytes::Mark;
use crate::process::Process;

/// Sort of calls whose operation is unknown.
pub const NO_SORT: u64 = 0;

/// Number of orders in which a program may process what it has read: the last one at once; after
/// reading all, the first one first; or that, with all calls written together afterwards.
pub const ORDERS: usize = 3;

/// One fragment for each order.
pub type ByOrder = [u64; ORDERS];

/// Tracks the open server requests of processes and finds the request that a call was made for.
pub trait Attribution {
    /// Returns the process's description. Requests of the process are tracked from now on.
    fn process(&mut self, process: u32) -> Arc<Process>;

    /// A request of this sort was read up to the end of its head. `stream` is its stream, on a
    /// connection with several streams.
    fn request_read(
        &mut self,
        reader: Caller,
        connection: u64,
        stream: u64,
        exchange: u64,
        sort: u64,
    ) -> Fragment;

    /// Another task now handles the request that `reader` has read.
    fn request_handed(&mut self, reader: Caller, exchange: u64, task: u64);

    /// A task starts to handle a request that was not seen.
    fn unseen_handed(&mut self, process: u32, task: u64);

    /// A request is sent; returns the server request it was made for. `opener` opened the
    /// connection for it, if this is the connection's first request.
    fn call_made(&mut self, sender: Caller, opener: Option<Caller>, call: Call) -> Fragment;

    /// Like [`Self::call_made`], on a connection with several concurrent requests. If tasks share
    /// the connection, a writer may also send what other tasks have queued.
    fn call_made_among_others(
        &mut self,
        sender: Caller,
        opener: Option<Caller>,
        call: Call,
    ) -> Fragment;

    /// The fragment for which a call was made, if turns can be trusted in the process; otherwise a
    /// substitute for that fragment and for the one of whatever follows from the call.
    fn turn_of(&mut self, sender: Caller, opener: Option<Caller>) -> Option<ByOrder>;

    /// A request that expects a response was sent, with the fragment it was made for, if known, or
    /// what [`Self::turn_of`] said.
    fn answer_awaited(
        &mut self,
        sender: Caller,
        connection: u64,
        fragment: Fragment,
        turn: Option<ByOrder>,
    );

    /// The first byte of the response to a request was written.
    fn answer_begun(&mut self, writer: Caller, exchange: u64);

    /// From here on, the end of the response can only be inferred from silence.
    fn weaken(&mut self, reader: Caller, exchange: u64);

    /// This task has begun to write the response to a request. If no task has read the request,
    /// this identifies the owner of the connection.
    fn answered_by(&mut self, process: u32, exchange: u64, task: u64);

    /// The request that `reader` has read ended at this time. `handled` is set if its response was
    /// written completely.
    fn request_over(
        &mut self,
        reader: Caller,
        exchange: u64,
        end_nano: u64,
        handled: Option<Handled>,
    );
}

/// The caller of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Process that makes the call.
    pub process: u32,
    /// Thread that makes the call.
    pub thread: u32,
    /// Logical task, if the runtime has tasks; 0 if unknown.
    pub task: u64,
    /// The task that created this task.
    pub parent_task: u64,
    /// Time of the call, `CLOCK_MONOTONIC`.
    pub time_nano: u64,
    /// How often the thread had waited before the call; 0 if unknown.
    pub sleeps: u32,
}

impl From<Mark> for Caller {
    fn from(mark: Mark) -> Self {
        let parent_task = mark.parent_task();
        let Mark { process, thread, task, time_nano, sleeps, .. } = mark;
        Self { process, thread, task, parent_task, time_nano, sleeps }
    }
}

/// The writers of the response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handled {
    /// The caller that wrote its first byte.
    pub first_writer: Caller,
    /// The thread that wrote its last byte.
    pub last_thread: u32,
}

/// Place of a span in its process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fragment {
    /// No server request was open.
    None,
    /// The span is the server request that gives the fragment its id.
    Own(u64),
    /// The span is a client request made for the fragment's server request.
    Within {
        /// The fragment.
        fragment: u64,
        /// Evidence for the assignment.
        evidence: Evidence,
        /// Confidence from 0 to 1.
        confidence: f32,
    },
    /// A client request with several possible server requests, or with one that is uncertain.
    Ambiguous {
        /// Number of open candidates.
        candidates: usize,
    },
}

/// A call whose server request is looked up, with the call's sort: a number shared by all calls of
/// one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// First lookup for this call.
    New(u64),
    /// Repeated lookup for this call.
    Again(u64),
}

impl Call {
    /// The sort number.
    pub const fn sort(self) -> u64 {
        match self {
            Self::New(sort) | Self::Again(sort) => sort,
        }
    }
}
