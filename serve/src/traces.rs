//! `GET /api/v1/traces/{id}`: one trace, in pages.

use axum::extract::{Path, Query as UrlQuery, State};
use axum::response::Json;
use serde_json::Value;
use spanwise_assemble::{Expansion, SearchKey, Trace};
use spanwise_model::{SpanId, TraceId};
use spanwise_store::{Key, TimeRange};

use crate::json::Page;
use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::{ApiState, json};

/// Spans of one trace that are looked at; beyond, the answer says that it is cut.
const MAX_SPANS: usize = 200_000;
/// Spans of a page, where the asker says nothing, and at most.
const DEFAULT_LIMIT: usize = 10_000;
const MAX_LIMIT: usize = 20_000;
/// Keys are reused over time: what is further away than this is another trace's.
const AROUND_NANO: i64 = 3_600_000_000_000;
const PARAMETERS: &[&str] = &["limit", "after"];

pub(crate) async fn trace(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    let parameters = Parameters::new(pairs);
    parameters.only(PARAMETERS)?;
    let limit = parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let page = Page { after: parameters.position("after")?, limit };
    let search = find(&state, &id).await?;
    // A large trace takes a while, in which others shall be answered.
    let answer = tokio::task::spawn_blocking(move || {
        let found = search.finish();
        let mut warnings = Vec::new();
        if found.cut {
            let shown = found.rows.len();
            warnings.push(format!("the trace is larger than what is shown ({shown} spans)"));
        }
        json::trace(&Trace::of(found.rows), &found.batches, page, warnings)
    });
    let answer = answer.await;
    Ok(Json(answer.map_err(|error| Problem::internal(format!("making the tree: {error}")))??))
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
