//! `spanwise search`

use super::answers::Found;
use super::http::Request;
use crate::flags::SearchFlags;
use crate::terminal::{Align, Paint, Table, brief, duration, moment};

/// The request that the flags mean.
pub(super) fn request(flags: &SearchFlags) -> Request {
    let optional = [
        ("service", &flags.service),
        ("operation", &flags.operation),
        ("min_duration", &flags.min_duration),
        ("max_duration", &flags.max_duration),
        ("status", &flags.status),
        ("start", &flags.start),
        ("end", &flags.end),
    ];
    let mut request = Request::get("/api/v1/search").parameter("limit", &flags.limit.to_string());
    for (key, value) in optional {
        if let Some(value) = value {
            request = request.parameter(key, value);
        }
    }
    flags.attributes.iter().fold(request, |request, value| request.parameter("attribute", value))
}

/// One line a trace.
pub(super) fn render(answer: &Found, paint: Paint) -> String {
    if answer.traces.is_empty() {
        return "no trace fits; look further back with --start -24h, or ask for less\n".to_owned();
    }
    let mut table = Table::new([
        ("STARTED", Align::Left),
        ("DURATION", Align::Right),
        ("SPANS", Align::Right),
        ("SERVICES", Align::Right),
        ("ERRORS", Align::Right),
        ("GUESSED", Align::Right),
        ("TRACE", Align::Left),
        ("ROOT", Align::Left),
    ]);
    for trace in &answer.traces {
        table.row(vec![
            moment(trace.start_unix_nano.0),
            duration(trace.duration_nano.0),
            trace.spans.to_string(),
            trace.services.len().to_string(),
            trace.errors.to_string(),
            trace.uncertain_links.to_string(),
            brief(&trace.trace_id, 32),
            format!("{} {}", brief(&trace.root.service, 40), brief(&trace.root.operation, 60)),
        ]);
    }
    let mut text = table.render(paint);
    if let Some(end) = &answer.older_end_unix_nano {
        text.push_str(&paint.dim(&format!("there are older ones: add --end {}\n", end.0)));
    }
    text
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
        ];
        let Command::Search(flags) = Flags::parse_from(typed).command else { unreachable!() };
        assert_eq!(
            request(&flags),
            Request::get(
                "/api/v1/search?limit=5&service=cart&operation=GET%20%2Fx&min_duration=10ms\
                 &max_duration=1s&status=error&start=-2h&end=now&attribute=a%3Db&attribute=c%3Dd"
            )
        );
    }
}
