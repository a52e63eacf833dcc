//! `GET /api/v1/traces/{id}`

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query as UrlQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use spanwise_api::endpoints::TRACE;
use spanwise_model::{SpanId, WrittenId};
use spanwise_query::{PagePosition, PageRange, Queries, TraceAnswer, TraceQuery, TraceTree};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::parameters::{self, Parameters, brief};
use super::trace_json;
use crate::answer_limits::{AnswerLimits, Permit};
use crate::problem::Problem;
use crate::slow_reader;

/// Spans on a page: the default and the maximum.
const DEFAULT_LIMIT: usize = 10_000;
const MAX_LIMIT: usize = 20_000;
/// Maximum parts of a download that wait for a slow reader.
const PARTS_WAITING: usize = 4;
/// Maximum time that each of them waits.
const PART_WAITS: Duration = Duration::from_secs(30);
/// Maximum time of a download.
const DOWNLOAD: Duration = Duration::from_secs(600);

pub(super) async fn trace(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    Path(id): Path<String>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let parameters = Parameters::of(&TRACE, pairs)?;
    let limit = parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let after = parameters.position("after")?;
    let around = parameters.text("around").map(span_id).transpose()?;
    let download = parameters.flag("download")?;
    let query = TraceQuery {
        id: parameters::id(&id)?,
        page: match around {
            _ if download => PagePosition::Whole,
            Some(span) => PagePosition::Around(span),
            None => PagePosition::After(after),
        },
        limit,
        snapshot: parameters.text("snapshot").map(str::to_owned),
    };
    let download_permit = download.then(|| limits.to_download()).transpose()?;
    let _reading = limits.to_read().await?;
    let TraceAnswer { tree, page, changed } = queries.trace(&query).await?;
    if let Some(permit) = download_permit {
        return Ok(whole(tree, permit));
    }
    // Writing a large page would delay every other request on this thread.
    let json = tokio::task::spawn_blocking(move || trace_json::page(&tree, page, changed)).await;
    let json = json.map_err(|error| Problem::internal(format!("making the tree: {error}")))?;
    let json = json.map_err(|error| Problem::internal(format!("writing a page: {error}")))?;
    let permit = limits.to_answer(json.len())?;
    let json = slow_reader::answer(json, permit);
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

fn span_id(text: &str) -> Result<SpanId, Problem> {
    match WrittenId::read(text) {
        Some(WrittenId::TraceOrSpan(_, span)) => Ok(span),
        _ => Err(Problem::invalid(format!(
            "`around` is `{}`; write a span id (16 hexadecimal digits)",
            brief(text)
        ))),
    }
}

/// The whole trace as one document for saving. It is sent while it is written, at the reader's
/// speed. A reader that is too slow does not get the end.
fn whole(tree: Arc<TraceTree>, permit: Permit) -> Response {
    let id = tree.trace.trace_id;
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, io::Error>>(PARTS_WAITING);
    let runtime = tokio::runtime::Handle::current();
    let is_late = Arc::new(AtomicBool::new(false));
    let late = Arc::clone(&is_late);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let end = tokio::time::Instant::now() + DOWNLOAD;
        let mut sender = Some(sender);
        let mut send = |part: Result<Bytes, io::Error>| {
            let Some(to) = &sender else { return };
            let until = end.min(tokio::time::Instant::now() + PART_WAITS);
            let sent = async { tokio::time::timeout_at(until, to.send(part)).await };
            match runtime.block_on(sent) {
                Ok(Ok(())) => {}
                // The client has disconnected.
                Ok(Err(_)) => sender = None,
                Err(_) => {
                    tracing::warn!("a download of the trace {id} was read too slowly: broken off");
                    sender = None;
                    late.store(true, Ordering::Release);
                }
            }
        };
        let all = PageRange { after: 0, limit: usize::MAX };
        let written =
            trace_json::write(&tree, all, None, |part| send(Ok(std::mem::take(part).into())));
        if let Err(error) = written {
            send(Err(io::Error::other(error)));
        }
    });
    let name = format!("attachment; filename=\"trace-{id}.json\"");
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    // An incomplete download must not look complete.
    let end = std::iter::from_fn(move || {
        let is_late = is_late.swap(false, Ordering::AcqRel);
        is_late.then(|| Err(io::Error::other("the download was not read in time")))
    });
    let parts = ReceiverStream::new(receiver).chain(tokio_stream::iter(end));
    (headers, Body::from_stream(parts)).into_response()
}
