//! Whose request a call is for: what exchanges tell of themselves, and what they ask.
//! `capture/attribution` answers.

use std::sync::Arc;

use spanwise_model::Evidence;

use crate::bytes::Mark;
use crate::process::Process;

/// Sort of the calls of which it is not known what they are.
pub const NO_SORT: u64 = 0;

/// A fragment by each order in which a program may go on with what it has read: with the last
/// at once; with the first, when all is read.
pub type ByOrder = [u64; 2];

/// Knows the open server requests of processes, and by them which request a call is for.
pub trait Attribution {
    /// Who a process is. Its requests are followed from now on.
    fn process(&mut self, process: u32) -> Arc<Process>;

    /// A request of this sort was read to its head's end; on a `stream` of its connection, if
    /// that has several.
    fn request_read(
        &mut self,
        reader: Caller,
        connection: u64,
        stream: u64,
        exchange: u64,
        sort: u64,
    ) -> Fragment;

    /// The request that `reader` has read is handled by another task.
    fn request_handed(&mut self, reader: Caller, exchange: u64, task: u64);

    /// A task begins to handle a request that was not seen.
    fn unseen_handed(&mut self, process: u32, task: u64);

    /// A request is sent: for which server request? `opener` has connected for it, where
    /// it is the first on its connection.
    fn call_made(&mut self, sender: Caller, opener: Option<Caller>, call: Call) -> Fragment;

    /// As [`Self::call_made`], on a connection that carries several at once: where
    /// tasks share it, whoever writes may take along what others have put there.
    fn call_made_among_others(
        &mut self,
        sender: Caller,
        opener: Option<Caller>,
        call: Call,
    ) -> Fragment;

    /// The fragment for which a call was made, if turns can be trusted in the process; or what
    /// stands for it and for that of what follows from the call.
    fn turn_of(&mut self, sender: Caller, opener: Option<Caller>) -> Option<ByOrder>;

    /// A request was sent that will be answered, and for whom, as far as is known.
    fn answer_awaited(&mut self, sender: Caller, connection: u64, fragment: Fragment);

    /// From here on the response's end can only be told from silence.
    fn weaken(&mut self, reader: Caller, exchange: u64);

    /// The answer to a request has begun, written by this task. Where no task has read the
    /// request, that tells whose connection it is.
    fn answered_by(&mut self, process: u32, exchange: u64, task: u64);

    /// The request that `reader` has read is over, at this time; `handled` where its
    /// response was written to the end.
    fn request_over(
        &mut self,
        reader: Caller,
        exchange: u64,
        end_nano: u64,
        handled: Option<Handled>,
    );
}

/// Who makes a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Its process.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// The logical task, in a runtime that has such; 0: none is known.
    pub task: u64,
    /// The task by which that was made.
    pub parent_task: u64,
    /// When, `CLOCK_MONOTONIC`.
    pub time_nano: u64,
    /// How often the thread had waited by then; 0: not known.
    pub sleeps: u32,
}

impl From<Mark> for Caller {
    fn from(mark: Mark) -> Self {
        let Mark { process, thread, task, parent_task, time_nano, sleeps, .. } = mark;
        Self { process, thread, task, parent_task, time_nano, sleeps }
    }
}

/// Who wrote the response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handled {
    /// Its first byte.
    pub first_writer: Caller,
    /// The thread that wrote its last byte.
    pub last_thread: u32,
}

/// A span's place in its process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fragment {
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
    /// A client request that could have been made for any of several, or for the only one
    /// or none.
    Ambiguous {
        /// How many are open.
        candidates: usize,
    },
}

/// A call whose request is asked for, and what sort of call it is: a number that those of
/// one operation have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// It is new.
    New(u64),
    /// It was asked for before.
    Again(u64),
}

impl Call {
    /// The number.
    pub const fn sort(self) -> u64 {
        match self {
            Self::New(sort) | Self::Again(sort) => sort,
        }
    }
}
