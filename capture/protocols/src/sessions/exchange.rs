//! A request and its response.

use std::net::IpAddr;
use std::sync::Arc;

use spanwise_model::protocol;

use super::{Answer, Request, Shared};
use crate::attribution::{Attribution, ByOrder, Fragment, Handled, ORDERS};
use crate::bytes::Mark;
use crate::process::Process;

/// Address and port. IPv4-mapped IPv6 addresses are converted to IPv4 before they get here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Endpoint {
    /// IP address.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
}

/// Encryption of an exchange whose plaintext is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encryption {
    /// Negotiated protocol version.
    pub version: Option<&'static str>,
    /// Server name that the client requested.
    pub server_name: Option<String>,
}

/// A request and its response.
#[derive(Debug)]
pub struct Exchange {
    /// Id, unique in the tracer.
    pub id: u64,
    /// First byte of the request.
    pub request_start: Mark,
    /// Last byte of the request head.
    pub head_end: Mark,
    /// End of the request so far, exclusive.
    pub request_end: Mark,
    /// First byte of the final response.
    pub response_start: Option<Mark>,
    /// End of the response so far, exclusive.
    pub response_end: Option<Mark>,
    /// Content of the request.
    pub request: Shared<Request>,
    /// Content of the response.
    pub answer: Shared<Answer>,
    /// Whether the traced process is the server.
    pub serving: bool,
    /// Place of the span in the process.
    pub fragment: Fragment,
    /// The process as it was at the time of the request.
    pub process: Arc<Process>,
    /// Whether this is the first exchange of the connection.
    pub first: bool,
    /// How the connection is encrypted, if it is.
    pub encryption: Option<Arc<Encryption>>,
    /// Protocol of the connection.
    pub protocol: &'static str,
    /// The peer, if the socket has no fixed one.
    pub other: Option<Endpoint>,
    /// Bytes of the request and of the response, if frames were counted one by one.
    pub counted: Option<[u64; 2]>,
    /// The exchange stands for all or part of a connection that is only seen from outside. It is
    /// unknown which side sent requests.
    pub outside: bool,
    /// For an ambiguous call: its fragments, if turns can be trusted.
    pub(super) turn: Option<ByOrder>,
    /// The response may have been missed.
    pub(super) doubtful: bool,
    /// The exchange lasts until the connection closes, unless something ends it earlier.
    pub(super) lasts: bool,
    /// Number of bytes held.
    pub(super) weight: usize,
    /// The span was already made. The exchange only keeps its place in the order.
    pub(super) spent: bool,
}

impl Exchange {
    /// Whether this is a call and part of its response was read at this time.
    pub fn was_read_at(&self, time_nano: u64) -> bool {
        let at = |mark: Option<Mark>| mark.is_some_and(|mark| mark.time_nano == time_nano);
        !self.serving && (at(self.response_end) || at(self.response_start))
    }

    /// Whether the outcome is unknown: the response was not seen, or lacks what responses of its
    /// protocol always contain.
    pub fn ended_unseen(&self) -> bool {
        let Answer { status_code, failure, unseen, .. } = &*self.answer;
        let always_said = matches!(self.protocol, protocol::HTTP | protocol::GRPC);
        failure.is_none() && !self.outside && (*unseen || (always_said && status_code.is_none()))
    }

    /// Size in bytes including heap data, calculated now.
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.request.held_bytes() + self.answer.held_bytes()
    }

    /// Ends the server request for its process: later work of the process is not attributed to it.
    /// `complete` is true if the whole response was seen.
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

    /// Size in bytes including heap data, as calculated last.
    pub fn weight(&self) -> usize {
        self.weight.max(size_of::<Self>())
    }

    /// The fragment of the server request that this call was made for, as far as turns tell.
    pub const fn made_for(&self) -> Option<ByOrder> {
        match self.fragment {
            Fragment::Within { fragment, .. } => Some([fragment; ORDERS]),
            _ => self.turn,
        }
    }

    /// An exchange for the traffic on a connection seen only from outside: two directions, each
    /// with its first byte and its end.
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

    /// A placeholder for an exchange whose span was already made.
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
