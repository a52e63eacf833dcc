//! `spanwise tail`: prints traces as they arrive.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use spanwise_api::{SearchAnswer, TraceSummary};

use super::{http, read, search};
use crate::failure::Failure;
use crate::flags::{SearchFlags, TailFlags};
use crate::terminal::{self, Paint, fitted, harmless, print};

/// Interval between queries.
const EVERY: Duration = Duration::from_secs(1);
/// A trace is printed when its last span is this old. Most of its spans have then arrived.
const SETTLED_NANO: i64 = 2_000_000_000;
/// Time range of most queries. Spans arrive late.
const LOOK_BACK_NANO: i64 = 10_000_000_000;
/// Time range of every tenth query: long requests began early.
const LONG_LOOK_BACK_NANO: i64 = 120_000_000_000;
/// Maximum traces of one page, and pages of one query.
const LIMIT: u16 = 500;
const MAX_PAGES: usize = 20;

/// Prints matching traces until it is interrupted or standard output is closed.
pub(super) fn run(flags: &TailFlags) -> Result<(), Failure> {
    let paint = Paint::for_stdout(flags.filter.server.zone());
    let mut shown = Shown::default();
    let begun_unix_nano = spanwise_query::now_unix_nano();
    let mut warned = false;
    for query in 0_u64.. {
        let now_unix_nano = spanwise_query::now_unix_nano();
        let look_back = if query % 10 == 9 { LONG_LOOK_BACK_NANO } else { LOOK_BACK_NANO };
        let (traces, complete) = ask(flags, now_unix_nano.saturating_sub(look_back))?;
        let mut lines = String::new();
        for trace in shown.take_settled(&traces, begun_unix_nano, now_unix_nano) {
            lines.push_str(&match flags.filter.server.json {
                true => serde_json::to_string(trace).map_err(Failure::cannot)? + "\n",
                false => line(trace, paint),
            });
        }
        if !complete && !warned {
            warned = true;
            eprintln!(
                "spanwise: more traces fit than can be followed, and some are not shown. Narrow \
                 it down, for example with --service or --min-duration"
            );
        }
        if !lines.is_empty() {
            print(&lines)?;
        }
        if flags.once {
            break;
        }
        std::thread::sleep(EVERY);
    }
    Ok(())
}

/// The traces since this moment, and whether these are all.
fn ask(flags: &TailFlags, from_unix_nano: i64) -> Result<(Vec<TraceSummary>, bool), Failure> {
    let filter = &flags.filter;
    let mut question = SearchFlags {
        query: None,
        filter: filter.clone(),
        sort: "newest".to_owned(),
        start: Some(from_unix_nano.to_string()),
        end: None,
        limit: LIMIT,
    };
    let mut traces = Vec::new();
    for _ in 0..MAX_PAGES {
        let body = http::ask(&filter.server.url, &search::request(&question, 0))?;
        let page: SearchAnswer = read(&filter.server, &body)?;
        traces.extend(page.traces);
        match page.older_end_unix_nano {
            Some(end) if end.0 > from_unix_nano => question.end = Some(end.0.to_string()),
            _ => return Ok((traces, true)),
        }
    }
    Ok((traces, false))
}

/// The traces that were printed.
#[derive(Debug, Default)]
struct Shown {
    starts_unix_nano: HashMap<String, i64>,
    /// In the order of printing.
    ids: VecDeque<String>,
}

impl Shown {
    /// The traces that have settled and were not printed yet, the oldest first.
    fn take_settled<'a>(
        &mut self,
        traces: &'a [TraceSummary],
        begun_unix_nano: i64,
        now_unix_nano: i64,
    ) -> Vec<&'a TraceSummary> {
        let settled = |trace: &&TraceSummary| {
            let end = trace.start_unix_nano.0.saturating_add(trace.duration_nano.0);
            end >= begun_unix_nano && end <= now_unix_nano.saturating_sub(SETTLED_NANO)
        };
        let mut new: Vec<&TraceSummary> = traces
            .iter()
            .filter(settled)
            .filter(|trace| !self.starts_unix_nano.contains_key(&trace.trace_id))
            .collect();
        new.sort_by_key(|trace| trace.start_unix_nano.0);
        for trace in &new {
            self.starts_unix_nano.insert(trace.trace_id.clone(), trace.start_unix_nano.0);
            self.ids.push_back(trace.trace_id.clone());
        }
        // Forgets traces that no query can return any more.
        let oldest = now_unix_nano.saturating_sub(2 * LONG_LOOK_BACK_NANO);
        while let Some(id) = self.ids.front() {
            if self.starts_unix_nano.get(id).is_some_and(|start| *start >= oldest) {
                break;
            }
            self.starts_unix_nano.remove(id);
            self.ids.pop_front();
        }
        new
    }
}

fn line(trace: &TraceSummary, paint: Paint) -> String {
    let root = trace.root.as_ref().map_or_else(
        || "(its root is missing)".to_owned(),
        |root| {
            let name = terminal::brief(&root.service, 40);
            format!("{} {}", paint.bold(&name), terminal::brief(&root.operation, 60))
        },
    );
    let failed = trace.error.as_ref().map(|error| format!("  {}", search::failure(error)));
    let line = format!(
        "{}  {:>9}  {}  {root}{}",
        paint.moment(trace.start_unix_nano.0),
        terminal::duration(trace.duration_nano.0),
        paint.dim(&harmless(&trace.trace_id)),
        failed.map(|text| paint.red(&text)).unwrap_or_default(),
    );
    match terminal::size() {
        Some((columns, _)) => fitted(&line, columns) + "\n",
        None => line + "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(id: &str, start: i64, duration: i64) -> TraceSummary {
        serde_json::from_value(serde_json::json!({
            "trace_id": id, "root": null, "start_unix_nano": start.to_string(),
            "duration_nano": duration.to_string(), "spans": 1, "errors": 0, "services": [],
            "protocols": [], "status": "ok", "uncertain_links": 0, "doubtful": false,
            "complete": false, "error": null,
        }))
        .expect("a trace")
    }

    #[test]
    fn each_trace_is_shown_once_when_it_has_settled() {
        const SECOND: i64 = 1_000_000_000;
        let mut shown = Shown::default();
        let mut ids = |traces: &[TraceSummary], now: i64| -> Vec<String> {
            shown
                .take_settled(traces, 100 * SECOND, now * SECOND)
                .iter()
                .map(|t| t.trace_id.clone())
                .collect()
        };
        let traces = [
            trace("late", 101 * SECOND, SECOND),
            trace("long", 99 * SECOND, 4 * SECOND),
            trace("before", 98 * SECOND, SECOND),
        ];
        assert_eq!(ids(&traces, 103), Vec::<String>::new());
        assert_eq!(ids(&traces, 104), ["late"]);
        assert_eq!(ids(&traces, 106), ["long"]);
        assert_eq!(ids(&traces, 107), Vec::<String>::new());
        // Much later, they are forgotten.
        assert_eq!(ids(&[], 1_000), Vec::<String>::new());
        assert!(shown.ids.is_empty() && shown.starts_unix_nano.is_empty());
    }
}
