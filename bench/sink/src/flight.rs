//! The receiving side of `DoPut`, as far as an agent needs it.

use std::pin::Pin;
use std::sync::Arc;

use arrow::ipc::root_as_message;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::{Stream, StreamExt, stream};
use spanwise_wire::flight::{FlightError, FlightLimits, Put, PutDecoder, PutMetadata, PutReply};
use tonic::{Request, Response, Status, Streaming};

use crate::totals::Totals;

pub(crate) struct Sink {
    totals: Arc<Totals>,
    kinds: bool,
}

impl Sink {
    /// A sink. It decodes batches only if it must distinguish `kinds` of spans.
    pub(crate) fn new(totals: Arc<Totals>, kinds: bool) -> Self {
        Self { totals, kinds }
    }
}

/// One agent's stream.
struct Received {
    messages: Streaming<FlightData>,
    decoder: Option<PutDecoder>,
    totals: Arc<Totals>,
}

impl Received {
    /// The next reply; `None` if the agent has ended the stream.
    async fn next(&mut self) -> Result<Option<PutResult>, Status> {
        while let Some(data) = self.messages.message().await? {
            if let Some(sequence) = self.message(data)? {
                let app_metadata = PutReply::Durable { sequence }.encode();
                return Ok(Some(PutResult { app_metadata }));
            }
        }
        Ok(None)
    }

    /// Counts a message. Returns the number of the batch that it completes.
    fn message(&mut self, data: FlightData) -> Result<Option<u64>, FlightError> {
        self.totals.bytes(data.data_body.len());
        // Only facts and rows have metadata. The schema's metadata is the stream's secret.
        let metadata = (!data.app_metadata.is_empty() && !is_schema(&data))
            .then(|| PutMetadata::decode(&data.app_metadata))
            .transpose()?;
        let rows = rows(&data);
        let decoded = self.decoder.as_mut().map(|decoder| decoder.push(data)).transpose()?;
        if let Some(Some(Put::Batch { rows, .. })) = decoded {
            self.totals.kinds(rows.columns());
        }
        let Some(PutMetadata { origin, facts }) = metadata else { return Ok(None) };
        if let Some(facts) = facts {
            self.totals.facts(origin.source, &facts);
        }
        let Some(rows) = rows else { return Ok(None) };
        self.totals.batch(rows);
        Ok(Some(origin.sequence))
    }
}

fn is_schema(data: &FlightData) -> bool {
    root_as_message(&data.data_header).is_ok_and(|message| message.header_as_schema().is_some())
}

/// Number of rows in the message, if it is a record batch.
fn rows(data: &FlightData) -> Option<u64> {
    let message = root_as_message(&data.data_header).ok()?;
    u64::try_from(message.header_as_record_batch()?.length()).ok()
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn only_put() -> Status {
    Status::unimplemented("this is a sink: it takes span batches by DoPut, and forgets them")
}

#[async_trait::async_trait]
impl FlightService for Sink {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = Answers<FlightData>;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        self.totals.stream();
        let received = Received {
            messages: request.into_inner(),
            decoder: self.kinds.then(|| PutDecoder::new(FlightLimits::default(), Arc::default())),
            totals: Arc::clone(&self.totals),
        };
        let answers = stream::unfold(Some(received), |received| async move {
            let mut received = received?;
            match received.next().await {
                Ok(answer) => Some((Ok(answer?), Some(received))),
                Err(status) => {
                    received.totals.stream_failed();
                    eprintln!("an agent's stream is ended: {status}");
                    Some((Err(status), None))
                }
            }
        });
        Ok(Response::new(answers.boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(only_put())
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
