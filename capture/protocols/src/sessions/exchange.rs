//! One request, and its response.

use std::net::IpAddr;
use std::sync::Arc;

use spanwise_model::protocol;

use super::{Answer, Request, Shared};
use crate::attribution::{Attribution, ByOrder, Fragment, Handled};
use crate::bytes::Mark;
use crate::process::Process;

/// An address and a port. IPv4-mapped IPv6 addresses arrive here as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
}

/// How an exchange that is read in the clear was encrypted on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encryption {
    /// Negotiated version.
    pub version: Option<&'static str>,
    /// The server's name, as the client asked for it.
    pub server_name: Option<String>,
}

/// A request and its response.
#[derive(Debug)]
pub struct Exchange {
    /// Unique in the tracer.
    pub id: u64,
    /// First byte of the request.
    pub request_start: Mark,
    /// Last byte of its head.
    pub head_end: Mark,
    /// Past its last byte so far.
    pub request_end: Mark,
    /// First byte of the final response.
    pub response_start: Option<Mark>,
    /// Past its last byte so far.
    pub response_end: Option<Mark>,
    /// What the request says.
    pub request: Shared<Request>,
    /// What the response says.
    pub answer: Shared<Answer>,
    /// Whether the traced process serves it.
    pub serving: bool,
    /// Its place in the process.
    pub fragment: Fragment,
    /// The process as it was when the request passed.
    pub process: Arc<Process>,
    /// Whether it is the connection's first.
    pub first: bool,
    /// How it was encrypted on its way, if it was.
    pub encryption: Option<Arc<Encryption>>,
    /// The protocol that both spoke.
    pub protocol: &'static str,
    /// The other end, where the socket has no fixed one.
    pub other: Option<Endpoint>,
    /// Bytes of the request and of the response, where they were counted one
    /// frame after the other.
    pub counted: Option<[u64; 2]>,
    /// It is what passed on a connection that is only seen from outside, or on part of one:
    /// who asked and who answered is not known.
    pub outside: bool,
    /// Of an ambiguous call, the fragment that it is of if turns can be trusted.
    pub(super) turn: Option<ByOrder>,
    /// Its response may have passed unseen.
    pub(super) doubtful: bool,
    /// It ends with the connection, if nothing ends it before.
    pub(super) lasts: bool,
    /// Bytes that it holds.
    pub(super) weight: usize,
    /// Its span was made; it only keeps its place in the order.
    pub(super) spent: bool,
}

impl Exchange {
    /// Whether it is a call, and some of its answer was read at this time.
    pub fn was_read_at(&self, time_nano: u64) -> bool {
        let at = |mark: Option<Mark>| mark.is_some_and(|mark| mark.time_nano == time_nano);
        !self.serving && (at(self.response_end) || at(self.response_start))
    }

    /// Whether it is not known how it ended: its answer was not seen, or does not say what answers
    /// of its protocol always say.
    pub fn ended_unseen(&self) -> bool {
        let Answer { status_code, failure, unseen, .. } = &*self.answer;
        let always_said = matches!(self.protocol, protocol::HTTP | protocol::GRPC);
        failure.is_none() && !self.outside && (*unseen || (always_said && status_code.is_none()))
    }

    /// Bytes that it holds, with itself, as counted now.
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.request.held_bytes() + self.answer.held_bytes()
    }

    /// It is over for its process: what that does from now on is not done for it. `complete`
    /// where all of its response was seen.
    pub(super) fn leave_process(&self, complete: bool, attribution: &mut dyn Attribution) {
        if !self.serving {
            return;
        }
        let handled = match (self.response_start, self.response_end) {
            (Some(first), Some(last)) if complete => {
                Some(Handled { first_writer: first.into(), last_thread: last.thread })
            }
            _ => None,
        };
        if let Some(task) = self.response_start.map(|mark| mark.task).filter(|task| *task != 0) {
            attribution.answered_by(self.head_end.process, self.id, task);
        }
        let end_nano = self.response_end.unwrap_or(self.request_end).time_nano;
        attribution.request_over(self.head_end.into(), self.id, end_nano, handled);
    }

    /// Bytes that it holds, with itself, as they were counted last.
    pub fn weight(&self) -> usize {
        self.weight.max(size_of::<Self>())
    }

    /// The fragment of the request that it was made for, as far as turns tell.
    pub const fn made_for(&self) -> Option<ByOrder> {
        match self.fragment {
            Fragment::Within { fragment, .. } => Some([fragment; 2]),
            _ => self.turn,
        }
    }

    /// What passed on a connection that is only seen from outside: its two
    /// ways, each with its first byte and past its last.
    #[expect(clippy::too_many_arguments, reason = "one caller, and all of it is needed")]
    pub fn outside(
        id: u64,
        request: Request,
        answer: Answer,
        [request_start, request_end]: [Mark; 2],
        (response_start, response_end): (Option<Mark>, Mark),
        serving: bool,
        fragment: Fragment,
        process: Arc<Process>,
        first: bool,
        protocol: &'static str,
    ) -> Self {
        Self {
            id,
            request_start,
            head_end: request_start,
            request_end,
            response_start,
            response_end: Some(response_end),
            request: request.into(),
            answer: answer.into(),
            serving,
            fragment,
            turn: None,
            process,
            first,
            encryption: None,
            protocol,
            other: None,
            counted: None,
            outside: true,
            doubtful: false,
            lasts: false,
            weight: 0,
            spent: false,
        }
    }

    /// What keeps the place of an exchange whose span is made.
    pub(super) fn placeholder(&self) -> Self {
        Self {
            request: Request {
                tag: self.request.tag,
                stream: self.request.stream,
                ..Request::new(String::new())
            }
            .into(),
            answer: Shared::default(),
            process: Arc::clone(&self.process),
            encryption: None,
            weight: 0,
            spent: true,
            ..*self
        }
    }
}
