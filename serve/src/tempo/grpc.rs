//! `tempopb.StreamingQuerier`: the same questions by gRPC. A search answers with what it finds
//! as it finds it; each trace comes once. The others answer once.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response};
use prost::Message;
use spanwise_query::Queries;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::CompressionEncoding;
use tonic::server::Grpc;
use tonic::{Response as Answer, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::answers::{self, AskedScope};
use super::messages::{
    QueryInstantRequest, QueryInstantResponse, QueryRangeRequest, QueryRangeResponse,
    SearchMetrics, SearchRequest, SearchResponse, SearchTagValuesRequest, SearchTagValuesResponse,
    SearchTagValuesV2Response, SearchTagsRequest, SearchTagsResponse, SearchTagsV2Response,
    TraceSearchMetadata,
};
use super::questions;
use super::refusal::Refusal;
use crate::answer_limits::AnswerLimits;

/// A request has a query of at most 128 KiB, and little else.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// What a client takes in one message may be no more than 4 MiB.
const MESSAGE_BYTES: usize = 1 << 20;
/// Messages that may wait for a slow reader.
const WAITING: usize = 4;

type Messages<T> = ReceiverStream<Result<T, Status>>;
type Sender<T> = mpsc::Sender<Result<T, Status>>;

/// Answers a call with the messages that `work` sends.
async fn stream<Q, A, W>(
    request: Request<Body>,
    work: impl Fn(Q, Sender<A>) -> W + Clone + Send + Sync + 'static,
) -> Response<Body>
where
    Q: Message + Default + Send + Sync + 'static,
    A: Message + Send + Sync + 'static,
    W: Future<Output = Result<(), Refusal>> + Send + 'static,
{
    let service = service_fn(move |question: tonic::Request<Q>| {
        let (sender, receiver) = mpsc::channel(WAITING);
        let work = work(question.into_inner(), sender.clone());
        tokio::spawn(async move {
            // Whoever hangs up is not waited for.
            let ended = tokio::select! {
                ended = work => ended,
                () = sender.closed() => return,
            };
            if let Err(refusal) = ended {
                let _ = sender.send(Err(refusal.into())).await;
            }
        });
        async { Ok::<Answer<Messages<A>>, Status>(Answer::new(ReceiverStream::new(receiver))) }
    });
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default())
        .apply_max_message_size_config(Some(MAX_REQUEST_BYTES), None)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip);
    grpc.server_streaming(service, request).await.map(Body::new)
}

async fn send<T>(sender: &Sender<T>, message: T) {
    // Where nobody listens any more, the work ends by itself.
    let _ = sender.send(Ok(message)).await;
}

pub(super) async fn search(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request<Body>,
) -> Response<Body> {
    let work = move |request: SearchRequest, sender: Sender<SearchResponse>| {
        let (queries, limits) = (queries.clone(), Arc::clone(&limits));
        async move {
            let asked = questions::search(&request)?;
            let _evaluating = limits.to_evaluate().await?;
            let (progress, mut found) = mpsc::unbounded_channel::<Vec<TraceSearchMetadata>>();
            let told = sender.clone();
            // Not more than a search finds at most.
            let telling = async move {
                while let Some(traces) = found.recv().await {
                    for traces in in_messages(traces) {
                        let metrics = Some(SearchMetrics { total_jobs: 1, ..Default::default() });
                        send(&told, SearchResponse { traces, metrics }).await;
                    }
                }
            };
            let searching = async move {
                let mut left = asked.limit;
                let found = queries.traceql_search(&asked, |traces| {
                    let traces = &traces[..traces.len().min(left)];
                    left -= traces.len();
                    if !traces.is_empty() {
                        let _ = progress.send(traces.iter().map(answers::trace).collect());
                    }
                });
                found.await
            };
            let (found, ()) = tokio::join!(searching, telling);
            let metrics = Some(answers::metrics(&found?));
            send(&sender, SearchResponse { traces: Vec::new(), metrics }).await;
            Ok(())
        }
    };
    stream(request, work).await
}

/// Traces in messages that clients take.
fn in_messages(traces: Vec<TraceSearchMetadata>) -> Vec<Vec<TraceSearchMetadata>> {
    let mut messages: Vec<Vec<TraceSearchMetadata>> = Vec::new();
    let mut bytes = usize::MAX;
    for trace in traces {
        let own = trace.encoded_len();
        match messages.last_mut() {
            Some(last) if bytes.saturating_add(own) <= MESSAGE_BYTES => last.push(trace),
            _ => {
                messages.push(vec![trace]);
                bytes = 0;
            }
        }
        bytes += own;
    }
    messages
}

pub(super) async fn tags(State(queries): State<Queries>, request: Request<Body>) -> Response<Body> {
    let work = move |request: SearchTagsRequest, sender: Sender<SearchTagsResponse>| {
        let queries = queries.clone();
        async move {
            let (tags, scope) = asked_tags(&queries, &request).await?;
            send(&sender, answers::tags(&tags, scope)).await;
            Ok(())
        }
    };
    stream(request, work).await
}

pub(super) async fn tags_v2(
    State(queries): State<Queries>,
    request: Request<Body>,
) -> Response<Body> {
    let work = move |request: SearchTagsRequest, sender: Sender<SearchTagsV2Response>| {
        let queries = queries.clone();
        async move {
            let (tags, scope) = asked_tags(&queries, &request).await?;
            send(&sender, answers::tags_v2(&tags, scope)).await;
            Ok(())
        }
    };
    stream(request, work).await
}

async fn asked_tags(
    queries: &Queries,
    request: &SearchTagsRequest,
) -> Result<(Vec<spanwise_query::traceql::Tag>, AskedScope), Refusal> {
    let SearchTagsRequest { scope, query, start, end, max_tags_per_scope } = request;
    let scope = AskedScope::read(scope)?;
    let asked = questions::tags(query, *start, *end, *max_tags_per_scope)?;
    Ok((queries.traceql_tags(&asked).await?, scope))
}

pub(super) async fn tag_values(
    State(queries): State<Queries>,
    request: Request<Body>,
) -> Response<Body> {
    let work = move |request: SearchTagValuesRequest, sender: Sender<SearchTagValuesResponse>| {
        let queries = queries.clone();
        async move {
            let SearchTagValuesRequest { tag_name, query, start, end, max_tag_values } = request;
            let asked = questions::tags(&query, start, end, max_tag_values)?;
            let field = super::tag_name_v1(&tag_name);
            let values = questions::values(&queries, &field, &asked).await?;
            send(&sender, answers::tag_values(values)).await;
            Ok(())
        }
    };
    stream(request, work).await
}

pub(super) async fn tag_values_v2(
    State(queries): State<Queries>,
    request: Request<Body>,
) -> Response<Body> {
    let work = move |request: SearchTagValuesRequest, sender: Sender<SearchTagValuesV2Response>| {
        let queries = queries.clone();
        async move {
            let SearchTagValuesRequest { tag_name, query, start, end, max_tag_values } = request;
            let asked = questions::tags(&query, start, end, max_tag_values)?;
            let values = questions::values(&queries, &tag_name, &asked).await?;
            send(&sender, answers::tag_values_v2(values)).await;
            Ok(())
        }
    };
    stream(request, work).await
}

pub(super) async fn query_range(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request<Body>,
) -> Response<Body> {
    let work = move |request: QueryRangeRequest, sender: Sender<QueryRangeResponse>| {
        let (queries, limits) = (queries.clone(), Arc::clone(&limits));
        async move {
            let asked = questions::range(&request)?;
            let _evaluating = limits.to_evaluate().await?;
            let answer = queries.traceql_metrics(&asked).await?;
            send(&sender, answers::range(&answer, asked.grid)).await;
            Ok(())
        }
    };
    stream(request, work).await
}

pub(super) async fn query_instant(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request<Body>,
) -> Response<Body> {
    let work = move |request: QueryInstantRequest, sender: Sender<QueryInstantResponse>| {
        let (queries, limits) = (queries.clone(), Arc::clone(&limits));
        async move {
            let asked = questions::instant(&request)?;
            let _evaluating = limits.to_evaluate().await?;
            let answer = queries.traceql_metrics(&asked).await?;
            send(&sender, answers::instant(&answer)).await;
            Ok(())
        }
    };
    stream(request, work).await
}
