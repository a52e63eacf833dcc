//! `spanwise search`

use spanwise_api::endpoints::SEARCH;
use spanwise_api::{CoveredRange, Nano, SearchAnswer, Sort, TraceError, TraceSummary};

use super::http::Request;
use crate::flags::SearchFlags;
use crate::terminal::{Align, Paint, Table, Zone, brief, counted, duration, harmless};

/// Converts a time to the server's format. A time without a zone is in the zone in which times are
/// displayed.
pub(super) fn moment(text: &str, zone: Zone, now_unix_nano: i64) -> String {
    // Relative times are passed on. The server refuses what it cannot parse.
    let is_absolute = text.trim().starts_with(|first: char| first.is_ascii_digit());
    let read = spanwise_query::moment_unix_nano(text, now_unix_nano, |time| zone.moment(time));
    read.filter(|_| is_absolute).map_or_else(|| text.to_owned(), |nano| nano.to_string())
}

/// The request for these flags.
pub(super) fn request(flags: &SearchFlags, now_unix_nano: i64) -> Request {
    let filter = &flags.filter;
    let zoned = |text: &Option<String>| {
        text.as_deref().map(|text| moment(text, filter.server.zone(), now_unix_nano))
    };
    let (start, end) = (zoned(&flags.start), zoned(&flags.end));
    let optional = [
        ("q", &flags.query),
        ("service", &filter.service),
        ("operation", &filter.operation),
        ("min_duration", &filter.min_duration),
        ("max_duration", &filter.max_duration),
        ("status", &filter.status),
        ("start", &start),
        ("end", &end),
    ];
    let mut request =
        Request::get(&SEARCH.url_path(&[])).parameter("limit", &flags.limit.to_string());
    if flags.sort != "newest" {
        request = request.parameter("sort", &flags.sort);
    }
    for (key, value) in optional {
        if let Some(value) = value {
            request = request.parameter(key, value);
        }
    }
    filter.attributes.iter().fold(request, |request, value| request.parameter("attribute", value))
}

/// One line for each trace, followed by its errors.
pub(super) fn render(answer: &SearchAnswer, paint: Paint) -> String {
    let mut text = match answer.traces.is_empty() {
        true => format!("no trace fits, {}\n", {
            between(answer.searched.start_unix_nano, answer.searched.end_unix_nano, paint)
        }),
        false => table(&answer.traces, paint),
    };
    for advice in &answer.advice {
        text.push_str(&format!("{}\n", harmless(advice)));
    }
    let mut note = |said: String| text.push_str(&paint.dim(&format!("{said}\n")));
    if !answer.traces.is_empty() {
        let CoveredRange { start_unix_nano, end_unix_nano, .. } = answer.covered;
        let order = match answer.sort {
            Sort::Newest => "the newest",
            Sort::Slowest => "the slowest",
            Sort::Errors => "those with most errors",
            Sort::Largest => "those with most spans",
        };
        note(format!("{order} of all {}", between(start_unix_nano, end_unix_nano, paint)));
    }
    if let Some(end) = &answer.older_end_unix_nano {
        note(format!("there are older ones: add --end {}", end.0));
    }
    for warning in &answer.warnings {
        text.push_str(&format!("{} {}\n", paint.yellow("warning:"), harmless(warning)));
    }
    text
}

fn between(start: Nano, end: Nano, paint: Paint) -> String {
    format!("begun between {} and {}", paint.moment(start.0), paint.moment(end.0))
}

fn table(traces: &[TraceSummary], paint: Paint) -> String {
    let mut table = Table::new([
        ("STARTED", Align::Left),
        ("DURATION", Align::Right),
        ("SPANS", Align::Right),
        ("SERVICES", Align::Right),
        ("ERRORS", Align::Right),
        ("GUESSED", Align::Right),
        ("TRACE", Align::Left),
        ("ROOT", Align::Left),
        ("ERROR", Align::Left),
    ]);
    for trace in traces {
        let root = trace
            .root
            .as_ref()
            .map(|root| format!("{} {}", brief(&root.service, 40), brief(&root.operation, 60)));
        let incomplete = if trace.complete { "" } else { " (incomplete)" };
        let doubtful = if trace.doubtful { "!" } else { "" };
        table.row(vec![
            paint.moment(trace.start_unix_nano.0),
            duration(trace.duration_nano.0),
            trace.spans.to_string(),
            trace.services.len().to_string(),
            trace.errors.to_string(),
            format!("{}{doubtful}", trace.uncertain_links),
            brief(&trace.trace_id, 32),
            format!("{}{incomplete}", root.unwrap_or_default()),
            trace.error.as_ref().map(failure).unwrap_or_default(),
        ]);
    }
    let shown = paint.dim(&format!("{}\n", counted(traces.len() as u64, "trace", "traces")));
    table.render(paint) + &shown
}

/// The status code, the error's text, and the service that failed.
pub(super) fn failure(error: &TraceError) -> String {
    let code = error.status_code.map(|code| format!("{code} ")).unwrap_or_default();
    let text = error.text.as_deref().map(|text| format!("{} ", brief(text, 60)));
    let place = format!("{} {}", brief(&error.service, 40), brief(&error.operation, 40));
    format!("{code}{}[{place}]", text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::{Command, Flags};

    #[test]
    fn every_flag_reaches_the_api() {
        let typed = [
            "spanwise",
            "search",
            "--service",
            "cart",
            "--operation",
            "GET /x",
            "--min-duration",
            "10ms",
            "--max-duration",
            "1s",
            "--status",
            "error",
            "--attribute",
            "a=b",
            "--attribute",
            "c=d",
            "--start",
            "-2h",
            "--end",
            "now",
            "--limit",
            "5",
            "--sort",
            "slowest",
        ];
        let Command::Search(flags) = Flags::try_parse_from(typed).expect("flags").command else {
            unreachable!()
        };
        assert_eq!(
            request(&flags, 0),
            Request::get(
                "/api/v1/search?limit=5&sort=slowest&service=cart&operation=GET%20%2Fx&min_duration=10ms\
                 &max_duration=1s&status=error&start=-2h&end=now&attribute=a%3Db&attribute=c%3Dd"
            )
        );
    }

    #[test]
    fn a_query_goes_with_other_flags() {
        let typed = ["spanwise", "search", "{ status = error }", "--service", "cart"];
        let Command::Search(flags) = Flags::try_parse_from(typed).expect("flags").command else {
            unreachable!()
        };
        let expected = "/api/v1/search?limit=20&q=%7B%20status%20%3D%20error%20%7D&service=cart";
        assert_eq!(request(&flags, 0), Request::get(expected));
    }

    #[test]
    fn what_is_typed_without_a_zone_is_meant_as_it_is_shown() {
        for (typed, sent) in [
            ("2026-11-26T09:30", "1795685400000000000"),
            ("2026-11-26 10:30:00+01:00", "1795685400000000000"),
            ("1795685400000000000", "1795685400000000000"),
            ("-2h", "-2h"),
            ("now", "now"),
            ("yesterday", "yesterday"),
        ] {
            assert_eq!(moment(typed, Zone::Utc, 0), sent);
        }
    }

    #[test]
    fn a_list_says_what_failed_and_what_it_covers() {
        let answer: SearchAnswer = serde_json::from_value(serde_json::json!({
            "traces": [{
                "trace_id": "ab", "root": {"service": "web", "operation": "GET /",
                         "kind": "server", "capture": "server-process"},
                "start_unix_nano": "0", "duration_nano": "1500000", "spans": 1, "errors": 1,
                "services": [{"name": "web", "spans": 1, "errors": 1, "busy_nano": "1"}],
                "protocols": [], "status": "error", "uncertain_links": 2, "doubtful": true, "complete": false,
                "error": {"service": "db\u{7f}", "operation": "SELECT", "status_code": 1146,
                          "text": "no such table", "side": "client"},
            }],
            "sort": "slowest",
            "searched": {"start_unix_nano": "0", "end_unix_nano": "3000000000"},
            "covered": {"start_unix_nano": "1000000000", "end_unix_nano": "3000000000",
                        "complete": false},
            "warnings": ["not all"], "advice": [], "older_end_unix_nano": null,
        }))
        .expect("an answer");
        let text = render(&answer, Paint::off());
        assert!(
            text.contains(
                "ab     web GET / (incomplete)  1146 no such table [db\\u{7f} SELECT]\n1 trace\n"
            ),
            "{text}"
        );
        assert!(text.contains(
            "the slowest of all begun between 1970-01-01 00:00:01.000Z and 1970-01-01 00:00:03.000Z\n\
             warning: not all\n"
        ), "{text}");
        let nothing =
            SearchAnswer { traces: Vec::new(), advice: vec!["no service".into()], ..answer };
        let text = render(&nothing, Paint::off());
        assert!(
            text.starts_with("no trace fits, begun between 1970-01-01 00:00:00.000Z and"),
            "{text}"
        );
        assert!(text.contains("\nno service\n"), "{text}");
    }
}
