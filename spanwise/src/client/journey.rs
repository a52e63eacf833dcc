//! `spanwise journey`

use spanwise_api::endpoints::JOURNEY;
use spanwise_api::{Journey, JourneyEvidence, JourneyStep};

use super::http::Request;
use super::search::moment;
use crate::failure::Failure;
use crate::flags::JourneyFlags;
use crate::key;
use crate::terminal::{Align, Paint, Table, brief, counted, duration, harmless};

/// The request for these flags.
pub(super) fn request(flags: &JourneyFlags, now_unix_nano: i64) -> Result<Request, Failure> {
    let (name, value) = key::typed(&flags.key)?;
    let mut request = Request::get(&JOURNEY.url_path(&[]))
        .parameter("key", name)
        .parameter("value", value)
        .parameter("gap", &flags.gap)
        .parameter("limit", &flags.rows.limit.to_string());
    for (parameter, text) in [("start", &flags.start), ("end", &flags.end)] {
        if let Some(text) = text {
            let moment = moment(text, flags.server.zone(), now_unix_nano);
            request = request.parameter(parameter, &moment);
        }
    }
    Ok(request)
}

/// The timeline: a line for each step, with the gaps between them.
pub(super) fn render(journey: &Journey, paint: Paint) -> String {
    let mut text = head(journey, paint);
    if !journey.steps.is_empty() {
        text.push_str(&timeline(journey, paint));
        text.push('\n');
        text.push_str(&traces(journey, paint));
    }
    for warning in &journey.warnings {
        text.push_str(&format!("{} {}\n", paint.yellow("warning:"), harmless(warning)));
    }
    text
}

fn head(journey: &Journey, paint: Paint) -> String {
    let name = format!("{} = {}", harmless(&journey.key), harmless(&journey.value));
    let hashed = if journey.hashed { paint.dim("  (hash)") } else { String::new() };
    let mut text = format!("{}{hashed}\n", paint.bold(&name));
    let (Some(first), Some(end)) =
        (journey.steps.first(), journey.steps.iter().map(end_unix_nano).max())
    else {
        return text;
    };
    text.push_str(&paint.dim(&format!(
        "{} in {}, {} with the key; {} from {} on, in {} of which something ran\n",
        counted(journey.total_steps, "step", "steps"),
        counted(journey.total_traces, "trace", "traces"),
        counted(journey.spans, "span", "spans"),
        long(end.saturating_sub(first.start_unix_nano.0)),
        paint.moment(first.start_unix_nano.0),
        long(journey.busy_nano.0),
    )));
    text.push('\n');
    text
}

/// A length of time that may be of days.
fn long(nano: i64) -> String {
    match nano as f64 / 1e9 {
        seconds if seconds < 120.0 => duration(nano),
        seconds if seconds < 7200.0 => format!("{:.0} minutes", seconds / 60.0),
        seconds if seconds < 172_800.0 => format!("{:.1} hours", seconds / 3600.0),
        seconds => format!("{:.1} days", seconds / 86_400.0),
    }
}

fn end_unix_nano(step: &JourneyStep) -> i64 {
    step.start_unix_nano.0.saturating_add(step.duration_nano.0)
}

fn timeline(journey: &Journey, paint: Paint) -> String {
    let mut table = Table::new([
        ("STARTED", Align::Left),
        ("SERVICE", Align::Left),
        ("OPERATION", Align::Left),
        ("TOOK", Align::Right),
        ("STATUS", Align::Left),
        ("HOW IT CAME HERE", Align::Left),
        ("TRACE", Align::Left),
    ]);
    for (place, step) in journey.steps.iter().enumerate() {
        table.row(vec![
            paint.moment(step.start_unix_nano.0),
            brief(&step.service, 30),
            brief(&step.operation, 40),
            duration(step.duration_nano.0),
            status(step),
            how(journey, place, step),
            harmless(&step.trace_id),
        ]);
    }
    let mut text = String::new();
    // The first line is the table's head.
    for (line, row) in table.render(paint).lines().enumerate() {
        let gap = line.checked_sub(1).and_then(|place| {
            journey.gaps.iter().find(|gap| usize::try_from(gap.before) == Ok(place))
        });
        if let Some(gap) = gap {
            let words = format!("  … nothing for {}\n", long(gap.duration_nano.0));
            text.push_str(&paint.yellow(&words));
        }
        text.push_str(row);
        text.push('\n');
    }
    text
}

fn status(step: &JourneyStep) -> String {
    let code = step.status_code.map_or(String::new(), |code| code.to_string());
    match (step.failed, &step.error) {
        (false, _) if code.is_empty() => "ok".to_owned(),
        (false, _) => code,
        (true, Some(error)) => format!("failed: {}", brief(error, 30)),
        (true, None) if code.is_empty() => "failed".to_owned(),
        (true, None) => format!("failed: {code}"),
    }
}

/// A further attempt, and a hand-off.
fn how(journey: &Journey, place: usize, step: &JourneyStep) -> String {
    let mut words = Vec::new();
    if step.attempt > 1 {
        words.push(format!("attempt {}", step.attempt));
    }
    let is_here = |to: u64| usize::try_from(to) == Ok(place);
    if let Some(hand) = journey.hand_offs.iter().find(|hand| is_here(hand.to)) {
        let from = usize::try_from(hand.from).ok().and_then(|from| journey.steps.get(from));
        let from = from.map_or(String::new(), |step| brief(&step.service, 30));
        let later = long(hand.duration_nano.0);
        words.push(match hand.evidence {
            JourneyEvidence::Link => format!("linked to {from}, {later} later"),
            JourneyEvidence::Message => format!("message of {from}, {later} later"),
            JourneyEvidence::MessageInTime => format!("message, perhaps of {from}, {later} later"),
            JourneyEvidence::Time => format!("after {from}, {later} later"),
        });
    }
    words.join("; ")
}

fn traces(journey: &Journey, paint: Paint) -> String {
    let mut table = Table::new([
        ("TRACE", Align::Left),
        ("STARTED", Align::Left),
        ("TOOK", Align::Right),
        ("BEGAN WITH", Align::Left),
        ("SPANS", Align::Right),
        ("ERRORS", Align::Right),
        ("SERVICES", Align::Left),
    ]);
    for trace in &journey.traces {
        let root = [&trace.service, &trace.operation].map(|text| text.as_deref().unwrap_or("?"));
        table.row(vec![
            harmless(&trace.trace_id),
            paint.moment(trace.start_unix_nano.0),
            duration(trace.duration_nano.0),
            brief(&root.join(" "), 50),
            trace.spans.to_string(),
            trace.errors.to_string(),
            brief(&trace.services.join(", "), 60),
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::flags::{Command, Flags};

    fn flags(typed: &[&str]) -> JourneyFlags {
        let typed = ["spanwise", "journey"].iter().chain(typed);
        match Flags::try_parse_from(typed).unwrap_or_else(|error| panic!("{error}")).command {
            Command::Journey(flags) => flags,
            _ => unreachable!(),
        }
    }

    fn step(service: &str, start_seconds: i64, failed: bool, attempt: u64, trace: &str) -> Value {
        let start = start_seconds * 1_000_000_000;
        json!({
            "attempt": attempt, "duration_nano": "2000000000", "error": null, "failed": failed,
            "is_message": false, "operation": "pay", "service": service, "span_id": "01",
            "spans": 1, "start_unix_nano": start.to_string(),
            "status_code": if failed { json!(503) } else { Value::Null }, "trace_id": trace,
        })
    }

    #[test]
    fn a_timeline_shows_gaps_attempts_and_hand_offs() {
        let journey = json!({
            "busy_nano": "6000000000", "covered_from_unix_nano": "0",
            "end_unix_nano": "400000000000",
            "gaps": [{"after": 0, "before": 1, "duration_nano": "118000000000"}],
            "hand_offs": [{"duration_nano": "3000000000", "evidence": "link", "from": 1, "to": 2}],
            "hashed": false, "key": "order", "known_keys": ["order"], "spans": 3,
            "start_unix_nano": "0",
            "steps": [
                step("pay", 0, true, 1, "aa"),
                step("pay", 120, false, 2, "bb"),
                step("ship", 123, false, 1, "cc"),
            ],
            "total_steps": 3, "total_traces": 3,
            "traces": [{
                "duration_nano": "2000000000", "errors": 1, "operation": "POST /pay",
                "service": "shop", "services": ["pay", "shop"], "spans": 4,
                "start_unix_nano": "0", "steps": 1, "trace_id": "aa",
            }],
            "value": "4711", "warnings": ["not all"],
        });
        let text = render(&serde_json::from_value(journey).expect("a journey"), Paint::off());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "order = 4711");
        assert!(lines[1].starts_with("3 steps in 3 traces, 3 spans with the key"), "{text}");
        assert!(lines[4].contains("failed: 503"), "{text}");
        assert!(lines[5].contains("nothing for"), "{text}");
        assert!(lines[6].contains("attempt 2"), "{text}");
        assert!(lines[7].contains("linked to pay"), "{text}");
        assert!(text.contains("shop POST /pay") && text.ends_with("warning: not all\n"), "{text}");
    }

    #[test]
    fn a_key_has_a_name_and_a_value() {
        assert!(request(&flags(&["order=a=b"]), 0).is_ok());
        for wrong in ["order", "=4711", "order="] {
            let error = request(&flags(&[wrong]), 0).expect_err(wrong).to_string();
            assert!(error.contains("order=4711"), "{error}");
        }
    }
}
