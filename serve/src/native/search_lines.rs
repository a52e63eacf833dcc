//! `GET /api/v1/search` in lines: traces are sent while they are found, page by page.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use spanwise_api::endpoints::LINES;
use spanwise_api::{SearchEnd, SearchLine};
use spanwise_model::TraceId;
use spanwise_query::{Queries, QueryError, SearchAnswer, SearchQuery};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{convert, search};
use crate::answer_limits::Permit;
use crate::problem::Problem;

/// Traces that are looked for at a time.
const PAGE: usize = 100;
/// How long a search may go on.
const TIME: Duration = Duration::from_secs(60);
/// Pages that wait for a slow reader, and how long each may.
const PAGES_WAITING: usize = 2;
const PAGE_WAITS: Duration = Duration::from_secs(30);

/// Whether a client accepts lines before everything else.
pub(super) fn are_wanted(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    let first = accepted.next().and_then(|it| it.split([',', ';']).next());
    first.is_some_and(|first| first.trim().eq_ignore_ascii_case(LINES))
}

/// # Errors
/// Where the first page cannot be answered.
pub(super) async fn answer(
    queries: Queries,
    mut query: SearchQuery,
    permit: Permit,
) -> Result<Response, Problem> {
    let mut lines =
        Lines { left: query.limit, told: HashSet::new(), began: Instant::now(), warnings: vec![] };
    query.limit = lines.next_limit(&query);
    // What is wrong with the question is an error, and not a broken answer.
    let first = queries.search(&query).await?;
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(PAGES_WAITING);
    tokio::spawn(async move {
        let _permit = permit;
        let mut page: Result<SearchAnswer, QueryError> = Ok(first);
        loop {
            let (text, is_end) = match page {
                Ok(found) => lines.page(&mut query, found),
                Err(error) => {
                    tracing::warn!("an answer in lines was broken off: {error}");
                    let _ = sender.send(Err(io::Error::other(error.to_string()))).await;
                    return;
                }
            };
            let sent = tokio::time::timeout(PAGE_WAITS, sender.send(Ok(text.into()))).await;
            if is_end || !matches!(sent, Ok(Ok(()))) {
                return;
            }
            page = queries.search(&query).await;
        }
    });
    let kind = [(header::CONTENT_TYPE, LINES)];
    Ok((kind, Body::from_stream(ReceiverStream::new(receiver))).into_response())
}

/// An answer under way.
struct Lines {
    left: usize,
    /// Traces that were told: spans of a trace may be on several pages.
    told: HashSet<TraceId>,
    began: Instant,
    warnings: Vec<String>,
}

impl Lines {
    /// How many traces are asked for next. Orders other than by time are not continued.
    fn next_limit(&self, query: &SearchQuery) -> usize {
        match query.order {
            spanwise_query::TraceOrder::Newest => self.left.min(PAGE),
            _ => self.left,
        }
    }

    /// The lines of a page, and whether they are the last. The query becomes that of the next.
    fn page(&mut self, query: &mut SearchQuery, found: SearchAnswer) -> (String, bool) {
        let SearchAnswer { traces, covered, next, warnings, advice, .. } = found;
        let mut text = String::new();
        for trace in traces {
            if self.told.insert(trace.trace_id) {
                self.left = self.left.saturating_sub(1);
                write(&mut text, &SearchLine::Trace(Box::new(convert::summary(trace))));
            }
        }
        // Pages that were not looked at as a whole are continued.
        self.warnings.extend(warnings.into_iter().filter(|_| next.is_none()));
        let is_late = self.began.elapsed() >= TIME;
        let goes_on = next.as_ref().filter(|_| self.left > 0 && !is_late);
        if let Some(next) = goes_on {
            query.time.to_unix_nano = next.end_unix_nano;
            query.skip.clone_from(&next.skip);
            query.limit = self.next_limit(query);
            return (text, false);
        }
        if is_late && self.left > 0 && next.is_some() {
            self.warnings.push(format!(
                "the search stopped after {} s: continue with the cursor, or choose a shorter time",
                TIME.as_secs()
            ));
        }
        let is_first = self.told.is_empty();
        let end = SearchEnd {
            advice: if is_first { advice } else { Vec::new() },
            covered: search::covered(covered, query),
            next_cursor: next.as_ref().map(search::cursor),
            traces: self.told.len() as u64,
            warnings: std::mem::take(&mut self.warnings),
        };
        write(&mut text, &SearchLine::End(end));
        (text, true)
    }
}

fn write(text: &mut String, line: &SearchLine) {
    // Nothing in it can fail to be written.
    text.push_str(&serde_json::to_string(line).unwrap_or_default());
    text.push('\n');
}
