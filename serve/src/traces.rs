//! `GET /api/v1/traces/{id}`: one trace, in pages.

use std::sync::Arc;

use axum::extract::{Path, Query as UrlQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use spanwise_assemble::{Expansion, SearchKey};
use spanwise_model::{SpanId, TraceId};
use spanwise_store::{Key, TimeRange};

use crate::ApiState;
use crate::parameters::Parameters;
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
const PARAMETERS: &[&str] = &["limit", "after", "snapshot"];

pub(crate) async fn trace(
    State(state): State<ApiState>,
    State(trees): State<Arc<Trees>>,
    Path(id): Path<String>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let parameters = Parameters::new(pairs);
    parameters.only(PARAMETERS)?;
    let limit = parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let page = Page { after: parameters.position("after")?, limit };
    let snapshot = parameters.text("snapshot");
    let tree = match snapshot.and_then(|snapshot| trees.get(&id, snapshot)) {
        Some(tree) => tree,
        None => {
            let now = trees.now();
            let search = find(&state, &id).await?;
            let tree = Arc::new(aside(move || Tree::of(search.finish())).await??);
            if tree.len() > page.limit {
                trees.keep(&id, &tree, &now);
            }
            tree
        }
    };
    let changed = snapshot.is_some_and(|snapshot| snapshot != tree.snapshot()).then(|| {
        "the trace has changed since its page before this one was read: spans came, or were \
         deleted; read it again from its first page"
            .to_owned()
    });
    let json = aside(move || tree.page(page, changed)).await?;
    let json = json.map_err(|error| Problem::internal(format!("writing a page: {error}")))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// Runs what takes a while for a large trace where others are answered meanwhile.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal(format!("making the tree: {error}")))
}

/// All rows of the trace with this id, or of the one that has the span with
/// this id.
async fn find(state: &ApiState, id: &str) -> Result<Expansion, Problem> {
    let (keys, asked) = match (id.parse::<TraceId>(), id.parse::<SpanId>()) {
        (Ok(trace), _) => (
            vec![Key::AssembledTrace(trace), Key::Trace(trace)],
            vec![SearchKey::Assembled(trace), SearchKey::Header(trace)],
        ),
        (_, Ok(span)) => (vec![Key::Span(span)], Vec::new()),
        _ => {
            return Err(Problem::invalid(format!(
                "`{}` is no id; write a trace id (32 hexadecimal digits) or a span id (16)",
                id.chars().take(64).collect::<String>()
            )));
        }
    };
    let mut search = Expansion::new(MAX_SPANS, asked);
    add(state, &mut search, &keys, TimeRange::ALL).await?;
    if search.time_range().is_none()
        && let Some(first) = first_span(id)
    {
        add(state, &mut search, &[Key::Span(first)], TimeRange::ALL).await?;
    }
    let Some(first) = search.time_range() else {
        return Err(Problem::not_found(format!(
            "no span of {id} is stored; it may have been older than the retention, or not have \
             arrived yet: try again in a few seconds"
        )));
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

/// The span in the id of a trace that was made for want of one in a header. A
/// trace that a late header named otherwise is still found by its first id.
fn first_span(id: &str) -> Option<SpanId> {
    let id: TraceId = id.parse().ok()?;
    SpanId::from_bytes(&id.0[8..])
}

const fn key(key: SearchKey) -> Key {
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
