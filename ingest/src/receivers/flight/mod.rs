//! Arrow Flight from agents: `DoPut` of span batches, and no other method.

pub(crate) mod agents;
mod binding;
mod facts;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use spanwise_wire::flight::{Put, PutDecoder, PutReply};
use spanwise_wire::rpc_status::{RpcCode, RpcStatus};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::shared::Shared;
use crate::limits::Limits;
use crate::sink::Refused;
use crate::transport::ports::Peer;
use crate::transport::refusals::Caller;
use crate::transport::shutting_down;
use crate::transport::stream_limit::StreamPermit;
use agents::Name;
use binding::Binding;
use facts::{Facts, FactsError};

const AGENTS_FORGOTTEN: &str = "agents_forgotten";
const FACTS_MALFORMED: &str = "flight_facts_malformed";
const FACTS_TOO_LARGE: &str = "flight_facts_too_large";
const BATCHES: &str = "flight_batches_accepted";
const MALFORMED: &str = "flight_streams_malformed";
const REFUSED: &str = "flight_batches_refused";
const SPANS: &str = "flight_spans_accepted";
const STREAMS_REFUSED: &str = "flight_streams_refused";
const STREAMS_UNBOUND: &str = "flight_streams_without_secret";

/// Counters of this receiver.
pub(in crate::receivers) const COUNTERS: [&str; 9] = [
    AGENTS_FORGOTTEN,
    FACTS_MALFORMED,
    FACTS_TOO_LARGE,
    BATCHES,
    MALFORMED,
    REFUSED,
    SPANS,
    STREAMS_REFUSED,
    STREAMS_UNBOUND,
];

/// Maximum replies that wait for a sender who does not read them.
const WAITING_REPLIES: usize = 64;

struct Flight {
    shared: Arc<Shared>,
}

/// The gRPC service for agents.
pub(super) fn service(shared: Arc<Shared>) -> FlightServiceServer<impl FlightService> {
    // The maximum body, plus its header and metadata.
    let message_bytes = shared.limits.flight.message_bytes + (1 << 20);
    FlightServiceServer::new(Flight { shared }).max_decoding_message_size(message_bytes)
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn only_put() -> Status {
    Status::unimplemented(
        "Spanwise takes span batches by DoPut; query them over HTTP at /api/v1/sql",
    )
}

#[async_trait::async_trait]
impl FlightService for Flight {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = ReceiverStream<Result<PutResult, Status>>;
    type DoExchangeStream = Answers<FlightData>;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let address = request.extensions().get::<Peer>().map(|peer| peer.0);
        let Some(permit) = self.shared.flight_streams.take(address.map(|at| at.ip())) else {
            self.shared.counters.add(STREAMS_REFUSED, 1);
            return Err(RpcStatus {
                code: RpcCode::ResourceExhausted,
                message: "as many agents are connected as are allowed; retry later".to_owned(),
                retry_after: Some(self.shared.limits.retry_after),
            }
            .into());
        };
        let (replies, answers) = mpsc::channel(WAITING_REPLIES);
        let put = PutStream {
            decoder: PutDecoder::new(self.shared.limits.flight, Arc::clone(&self.shared.templates)),
            shared: Arc::clone(&self.shared),
            address,
            agent: None,
            replies,
            _permit: permit,
        };
        tokio::spawn(put.run(request.into_inner()));
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        // Clients may send a handshake. There is nothing to negotiate.
        let hello = HandshakeResponse { protocol_version: 0, payload: Bytes::new() };
        Ok(Response::new(stream::iter([Ok(hello)]).boxed()))
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(only_put())
    }

    async fn get_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        Err(only_put())
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        Err(only_put())
    }

    async fn get_schema(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        Err(only_put())
    }

    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        Err(only_put())
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(only_put())
    }

    async fn do_action(
        &self,
        _: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        Err(only_put())
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        Err(only_put())
    }
}

struct PutStream {
    shared: Arc<Shared>,
    decoder: PutDecoder,
    address: Option<SocketAddr>,
    /// The agent, once it has sent its name.
    agent: Option<Name>,
    replies: mpsc::Sender<Result<PutResult, Status>>,
    _permit: StreamPermit,
}

impl PutStream {
    async fn run(mut self, mut messages: Streaming<FlightData>) {
        let mut closing = self.shared.closing.subscribe();
        let Limits { header_time, idle_time, .. } = self.shared.limits;
        // Agents send their first message at once, and facts every few seconds.
        let mut patience = header_time;
        loop {
            let message = tokio::select! {
                // Only between messages, so that a batch in progress gets its reply.
                () = shutting_down(&mut closing) => {
                    Err(Status::unavailable("the server is shutting down; reconnect"))
                }
                message = timeout(patience, messages.message()) => message.unwrap_or_else(|_| {
                    Err(Status::unavailable("nothing came for too long; reconnect"))
                }),
            };
            patience = idle_time * 2;
            let data = match message {
                Ok(Some(data)) => data,
                Ok(None) => break,
                Err(status) => {
                    // tonic refused the message (too large), the connection broke, or the server is
                    // shutting down.
                    tracing::debug!(%status, address = ?self.address, "an agent's stream ended");
                    let _ = self.replies.send(Err(status)).await;
                    break;
                }
            };
            match self.message(data).await {
                Ok(None) => {}
                Ok(Some(reply)) => {
                    let refused = matches!(reply, PutReply::Refused { .. });
                    let result = PutResult { app_metadata: reply.encode() };
                    if self.replies.send(Ok(result)).await.is_err() || refused {
                        break;
                    }
                }
                Err(status) => {
                    self.shared.counters.add(MALFORMED, 1);
                    let from = Caller { protocol: "agent", peer: self.address.map(Peer) };
                    let ended = format!("its stream is ended: {}", status.message());
                    self.shared.refused_in_part(from, &ended);
                    let _ = self.replies.send(Err(status)).await;
                    break;
                }
            }
        }
    }

    async fn message(&mut self, data: FlightData) -> Result<Option<PutReply>, Status> {
        match self.decoder.push(data)? {
            None => Ok(None),
            Some(Put::Facts { source, facts }) => {
                let agent = self.named(source)?;
                self.facts(agent, &facts);
                Ok(None)
            }
            Some(Put::Batch { origin, rows, facts }) => {
                // Imported files are sent by people, not by agents with a status.
                let agent = match origin.is_content() {
                    true => None,
                    false => Some(self.named(origin.source)?),
                };
                if let (Some(agent), Some(facts)) = (agent, facts) {
                    self.facts(agent, &facts);
                }
                let sequence = origin.sequence;
                let origin = self.bound().origin(origin);
                let mut lease = self.shared.budget.lease();
                if !lease.grow(rows.memory_bytes()) {
                    self.shared.counters.add(REFUSED, 1);
                    return Ok(Some(PutReply::Refused {
                        sequence,
                        retry_after: self.shared.limits.retry_after,
                        reason: "the server's receivers are short of memory".to_owned(),
                    }));
                }
                let spans = rows.num_rows() as u64;
                match self.shared.sink.accept(rows, Some(origin)).await {
                    Ok(()) => {
                        self.shared.counters.add(BATCHES, 1);
                        self.shared.counters.add(SPANS, spans);
                        if let Some(agent) = agent {
                            self.shared.agents.seen(agent, |status| {
                                status.batches += 1;
                                status.spans += spans;
                                status.last_sequence = status.last_sequence.max(sequence);
                            });
                        }
                        Ok(Some(PutReply::Durable { sequence }))
                    }
                    Err(Refused::Later { reason, retry_after }) => {
                        self.shared.counters.add(REFUSED, 1);
                        Ok(Some(PutReply::Refused { sequence, retry_after, reason }))
                    }
                    // The sender drops the batch, counts it, and continues with the next.
                    Err(Refused::TooLarge { reason }) => Err(Status::invalid_argument(reason)),
                }
            }
        }
    }

    fn bound(&self) -> Binding {
        match self.decoder.secret() {
            Some(secret) => Binding::ToSecret(secret),
            None => Binding::ToAddress(self.address.map(|address| address.ip())),
        }
    }

    /// The agent with this name. All messages of a stream must have the same name.
    fn named(&mut self, source: [u8; 16]) -> Result<Name, Status> {
        if let Some(agent) = self.agent {
            let is_it = agent.given == source;
            let other = || Status::invalid_argument("a stream is of one agent");
            return is_it.then_some(agent).ok_or_else(other);
        }
        let agent = Name { given: source, bound: self.bound().source(source) };
        if self.decoder.secret().is_none() {
            self.shared.counters.add(STREAMS_UNBOUND, 1);
            let from = Caller { protocol: "agent", peer: self.address.map(Peer) };
            let said = "it is of an older version, and known by its address only: another \
                        program there could pass for it; run agents of the server's version";
            self.shared.refused_in_part(from, said);
        }
        self.agent = Some(agent);
        self.shared.agents.opened(agent, self.address);
        Ok(agent)
    }

    fn facts(&self, agent: Name, facts: &Bytes) {
        match Facts::read(facts) {
            Ok(facts) => self.shared.agents.told(agent, facts),
            Err(FactsError::Malformed) => self.shared.counters.add(FACTS_MALFORMED, 1),
            Err(FactsError::TooLarge) => self.shared.counters.add(FACTS_TOO_LARGE, 1),
        }
    }
}

impl Drop for PutStream {
    fn drop(&mut self) {
        if let Some(agent) = self.agent {
            self.shared.agents.closed(agent);
        }
    }
}
