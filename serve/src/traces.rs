//! `GET /api/v1/traces/{id}`: one trace, in pages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query as UrlQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use spanwise_assemble::{Expansion, SearchKey};
use spanwise_model::{SpanId, WrittenId};
use spanwise_store::{Key, TimeRange};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use crate::ApiState;
use crate::held;
use crate::parameters::{self, Parameters, brief};
use crate::places::{Place, Places};
use crate::problem::Problem;
use crate::tree::{Page, Tree};
use crate::trees::Trees;

/// Spans of one trace that are looked at; beyond, the answer says that it is cut.
const MAX_SPANS: usize = 200_000;
/// Spans of a page, where the asker says nothing, and at most.
const DEFAULT_LIMIT: usize = 10_000;
const MAX_LIMIT: usize = 20_000;
/// Keys are reused over time: what is further away than this is another trace's.
const AROUND_NANO: i64 = 3_600_000_000_000;
const PARAMETERS: &[&str] = &["limit", "after", "snapshot", "around", "download"];
/// Parts of a download that may wait for a slow reader.
const PARTS_WAITING: usize = 4;
/// How long each of them may.
const PART_WAITS: Duration = Duration::from_secs(30);
/// How long a download may take.
const DOWNLOAD: Duration = Duration::from_secs(600);

pub(crate) async fn trace(
    State(state): State<ApiState>,
    State(trees): State<Arc<Trees>>,
    State(places): State<Arc<Places>>,
    Path(id): Path<String>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let parameters = Parameters::new(pairs);
    parameters.only(PARAMETERS)?;
    let limit = parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let after = parameters.position("after")?;
    let around = parameters.text("around").map(span_id).transpose()?;
    let download = parameters.flag("download")?;
    let wanted = parameters::id(&id)?;
    // However it was written.
    let id = wanted.trace().to_string();
    let snapshot = parameters.text("snapshot");
    let download_place = download.then(|| places.to_download()).transpose()?;
    let _reading = places.to_read().await?;
    let tree = match snapshot.and_then(|snapshot| trees.get(&id, snapshot)) {
        Some(tree) => tree,
        None => {
            let now = trees.now();
            let search = find(&state, wanted).await?;
            let tree = Arc::new(aside(move || Tree::of(search.finish())).await??);
            if tree.len() > limit && !download {
                trees.keep(&id, &tree, &now);
            }
            tree
        }
    };
    if let Some(place) = download_place {
        return Ok(whole(tree, place));
    }
    let page = match around {
        None => Page { after, limit },
        Some(span) => {
            let position = tree.position(span).ok_or_else(|| {
                Problem::not_found(format!(
                    "the trace {id} has no span {span}, as far as it is here"
                ))
            })?;
            Page::holding(position, limit)
        }
    };
    let changed = snapshot.is_some_and(|snapshot| snapshot != tree.snapshot()).then(|| {
        "the trace has changed since its page before this one was read: spans came, or were \
         deleted; read it again from its first page"
            .to_owned()
    });
    let json = aside(move || tree.page(page, changed)).await?;
    let json = json.map_err(|error| Problem::internal(format!("writing a page: {error}")))?;
    let place = places.to_answer(json.len())?;
    let json = held::answer(json, place);
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

/// The whole trace in one document, to be kept as a file. It goes out as it is
/// written, as fast as it is read; whoever reads it too slowly gets no end of it.
fn whole(tree: Arc<Tree>, place: Place) -> Response {
    let id = tree.trace_id();
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, io::Error>>(PARTS_WAITING);
    let runtime = tokio::runtime::Handle::current();
    let is_late = Arc::new(AtomicBool::new(false));
    let late = Arc::clone(&is_late);
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let end = tokio::time::Instant::now() + DOWNLOAD;
        let mut sender = Some(sender);
        let mut send = |part: Result<Bytes, io::Error>| {
            let Some(to) = &sender else { return };
            let until = end.min(tokio::time::Instant::now() + PART_WAITS);
            let sent = async { tokio::time::timeout_at(until, to.send(part)).await };
            match runtime.block_on(sent) {
                Ok(Ok(())) => {}
                // Who has gone away is not written for; the rest is soon made.
                Ok(Err(_)) => sender = None,
                Err(_) => {
                    tracing::warn!("a download of the trace {id} was read too slowly: broken off");
                    sender = None;
                    late.store(true, Ordering::Release);
                }
            }
        };
        let all = Page { after: 0, limit: usize::MAX };
        let written = tree.write(all, None, |part| send(Ok(std::mem::take(part).into())));
        if let Err(error) = written {
            send(Err(io::Error::other(error)));
        }
    });
    let name = format!("attachment; filename=\"trace-{id}.json\"");
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    // It must not look whole.
    let end = std::iter::from_fn(move || {
        let is_late = is_late.swap(false, Ordering::AcqRel);
        is_late.then(|| Err(io::Error::other("the download was not read in time")))
    });
    let parts = ReceiverStream::new(receiver).chain(tokio_stream::iter(end));
    (headers, Body::from_stream(parts)).into_response()
}

/// Runs what takes a while for a large trace where others are answered meanwhile.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal(format!("making the tree: {error}")))
}

/// All rows of the trace with this id, or of the one that has the span with
/// this id.
async fn find(state: &ApiState, wanted: WrittenId) -> Result<Expansion, Problem> {
    let id = wanted.trace();
    let asked = [SearchKey::Assembled(id), SearchKey::Header(id)];
    let mut search = Expansion::new(MAX_SPANS, asked);
    add(state, &mut search, &[Key::AssembledTrace(id), Key::Trace(id)], TimeRange::ALL).await?;
    // A span; or the first one of a trace whose id was made for want of one in a
    // header, and which a late header named otherwise.
    let span = match wanted {
        WrittenId::TraceOrSpan(_, span) => Some(span),
        WrittenId::Trace(id) => SpanId::from_bytes(&id.0[8..]),
    };
    if search.time_range().is_none()
        && let Some(span) = span
    {
        add(state, &mut search, &[Key::Span(span)], TimeRange::ALL).await?;
    }
    let Some(first) = search.time_range() else {
        return Err(Problem::not_found(match wanted {
            WrittenId::Trace(id) => format!(
                "no span of {id} is stored; it may have been older than the retention, or not have \
                 arrived yet: try again in a few seconds"
            ),
            WrittenId::TraceOrSpan(_, id) => format!(
                "no trace with the id {id}, and no span, is stored; where these are the last 16 \
                 digits of a longer trace id, write all 32; else it may have been older than the \
                 retention, or not have arrived yet: try again in a few seconds"
            ),
        }));
    };
    let around = TimeRange {
        from_unix_nano: first.0.saturating_sub(AROUND_NANO),
        to_unix_nano: first.1.saturating_add(AROUND_NANO),
    };
    loop {
        let keys: Vec<Key> = search.next_keys().into_iter().map(key).collect();
        if keys.is_empty() {
            return Ok(search);
        }
        add(state, &mut search, &keys, around).await?;
    }
}

pub(crate) const fn key(key: SearchKey) -> Key {
    match key {
        SearchKey::Assembled(id) => Key::AssembledTrace(id),
        SearchKey::Header(id) => Key::Trace(id),
        SearchKey::Fragment(id) => Key::Fragment(id),
        SearchKey::Hop(request, response) => Key::TcpSequences(request, response),
    }
}

async fn add(
    state: &ApiState,
    search: &mut Expansion,
    keys: &[Key],
    time: TimeRange,
) -> Result<(), Problem> {
    for batch in state.store.find_by_keys(keys, time).await? {
        search.add(batch)?;
    }
    Ok(())
}
