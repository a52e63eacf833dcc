//! `spanwise cause`

use spanwise_api::endpoints::CAUSE;
use spanwise_api::{CauseSuspect, CauseTrace, Causes, Range};

use super::http::Request;
use super::search::moment;
use crate::flags::CauseFlags;
use crate::terminal::{Paint, counted, duration, harmless};

/// The request for these flags.
pub(super) fn request(flags: &CauseFlags, now_unix_nano: i64) -> Request {
    let mut request = Request::get(&CAUSE.url_path(&[]));
    for (key, value) in [("start", &flags.start), ("end", &flags.end)] {
        if let Some(text) = value {
            request = request.parameter(key, &moment(text, flags.server.zone(), now_unix_nano));
        }
    }
    if let Some(service) = &flags.service {
        request = request.parameter("service", service);
    }
    request
}

/// The story for somebody who was just woken up: who, what, since when, and what to open.
pub(super) fn render(causes: &Causes, paint: Paint) -> String {
    let mut text = String::new();
    let summary = harmless(&causes.summary);
    let summary = if causes.stands_out { paint.red(&summary) } else { paint.bold(&summary) };
    text.push_str(&format!("{summary}\n"));
    text.push_str(&paint.dim(&compared(causes, paint)));
    text.push('\n');
    let shown = causes.suspects.iter().filter(|suspect| suspect.stands_out);
    for (place, one) in shown.enumerate() {
        text.push('\n');
        text.push_str(&suspect(place + 1, one, paint));
    }
    let others: Vec<String> = (causes.suspects.iter())
        .filter(|suspect| !suspect.stands_out)
        .filter_map(|suspect| {
            let evidence = suspect.evidence.first()?;
            Some(format!("  {}: {}\n", harmless(&suspect.service), harmless(&evidence.text)))
        })
        .collect();
    if !others.is_empty() {
        text.push_str(&paint.dim("\nless clear, and probably nothing:\n"));
        text.extend(others);
    }
    if !causes.changes.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bold("began or ended")));
        for change in &causes.changes {
            let since = change.since_unix_nano.map_or(String::new(), |since| {
                paint.dim(&format!("  since {}", paint.moment(since.0)))
            });
            text.push_str(&format!("  {}{since}\n", harmless(&change.text)));
        }
    }
    for warning in &causes.warnings {
        text.push_str(&format!("{} {}\n", paint.yellow("warning:"), harmless(warning)));
    }
    text
}

fn compared(causes: &Causes, paint: Paint) -> String {
    let length =
        |range: &Range| duration(range.end_unix_nano.0.saturating_sub(range.start_unix_nano.0));
    let how = if causes.found { "unusual since" } else { "looked at" };
    let mut text = format!(
        "{how} {} for {}: {}",
        paint.moment(causes.range.start_unix_nano.0),
        length(&causes.range),
        counted(causes.spans, "span", "spans")
    );
    if let Some(usual) = &causes.usual_range {
        text.push_str(&format!(
            "; compared with {} since {}: {}",
            counted(causes.usual_ranges, "usual range", "usual ranges"),
            paint.moment(usual.start_unix_nano.0),
            counted(causes.usual_spans, "span", "spans")
        ));
    }
    text
}

fn suspect(place: usize, suspect: &CauseSuspect, paint: Paint) -> String {
    let operation = suspect
        .operation
        .as_ref()
        .map_or(String::new(), |operation| format!("  {}", harmless(operation)));
    let mut text = format!("{place}. {}{operation}", paint.bold(&harmless(&suspect.service)));
    if let Some(began) = suspect.began_unix_nano {
        text.push_str(&paint.dim(&format!("  began about {}", paint.moment(began.0))));
    }
    text.push('\n');
    let mut line = |title: &str, words: &str| {
        let title = paint.dim(&format!("{title:<10}"));
        text.push_str(&format!("   {title} {}\n", harmless(words)));
    };
    for (index, evidence) in suspect.evidence.iter().enumerate() {
        line(if index == 0 { "evidence" } else { "" }, &evidence.text);
    }
    for (index, place) in suspect.places.iter().enumerate() {
        line(if index == 0 { "where" } else { "" }, place);
    }
    if !suspect.callers.is_empty() {
        line("called by", &suspect.callers.join(", "));
    }
    for (index, attribute) in suspect.attributes.iter().enumerate() {
        let share = |share: f64| format!("{:.0} %", share * 100.0);
        let words = format!(
            "{} = {}: {} of bad requests, {} of good ones",
            attribute.key,
            attribute.value,
            share(attribute.bad_share),
            share(attribute.good_share)
        );
        line(if index == 0 { "only with" } else { "" }, &words);
    }
    let mut traces = |title: &str, traces: &[CauseTrace]| {
        for (index, trace) in traces.iter().enumerate() {
            let title = if index == 0 { title } else { "" };
            line(title, &format!("spanwise trace {}  {}", trace.trace_id, trace.shows));
        }
    };
    traces("bad", &suspect.bad_traces);
    traces("usual", &suspect.usual_traces);
    text
}
