//! `spanwise trace`: the tree in the terminal.

use std::collections::HashMap;
use std::fmt::Write as _;

use spanwise_api::{Span, SpanStatus, TraceHead, TracePage};
use spanwise_model::Evidence;

use crate::terminal::{Paint, brief, counted, duration, harmless};

/// Characters that show when in the trace a span ran.
const BAR: usize = 24;
/// Deeper spans are indented no further: a terminal ends somewhere.
const MAX_INDENT: usize = 40;

/// The tree, one line a span.
pub(super) fn render(trace: &TracePage, paint: Paint) -> String {
    let mut text = head(&trace.head, paint);
    let by_id: HashMap<&str, &Span> =
        trace.spans.iter().map(|span| (span.span_id.as_str(), span)).collect();
    // By depth: whether the span there is its parent's last child, and so
    // draws no line further down.
    let mut last_at: Vec<bool> = Vec::new();
    let mut guessed = false;
    for span in &trace.spans {
        let depth = usize::try_from(span.depth).unwrap_or(MAX_INDENT).min(MAX_INDENT);
        last_at.truncate(depth);
        last_at.resize(depth, false);
        last_at.push(is_last_child(span, &by_id));
        let certain = is_certain(span);
        guessed |= !certain;
        let mut line = timing(&trace.head, span, paint);
        line.push_str(&paint.dim(&branch(depth, &last_at, certain)));
        line.push_str(&label(span, paint));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if guessed {
        let _ = writeln!(
            text,
            "\n{}",
            paint.dim("─ certain   ┄ less than certain, with the evidence and how sure it is")
        );
    }
    for warning in &trace.head.warnings {
        let _ = writeln!(text, "{} {}", paint.yellow("warning:"), harmless(warning));
    }
    text
}

fn head(trace: &TraceHead, paint: Paint) -> String {
    let errors = match trace.error_count {
        0 => String::new(),
        number => format!("  {}", paint.red(&counted(number, "error", "errors"))),
    };
    let incomplete = match trace.complete {
        true => String::new(),
        false => format!("  {}", paint.yellow("incomplete")),
    };
    format!(
        "{} {}\n{}  {}  {}  {}{errors}  {}{incomplete}\n\n",
        paint.bold("trace"),
        harmless(&trace.trace_id),
        paint.moment(trace.start_unix_nano.0),
        paint.bold(&duration(trace.duration_nano.0)),
        counted(trace.span_count, "span", "spans"),
        counted(trace.services.len() as u64, "service", "services"),
        counted(trace.depth, "level", "levels"),
    )
}

fn is_last_child(span: &Span, by_id: &HashMap<&str, &Span>) -> bool {
    let parent = span.parent.as_deref().and_then(|id| by_id.get(id));
    parent.is_none_or(|parent| parent.children.last() == Some(&span.span_id))
}

fn is_certain(span: &Span) -> bool {
    match (&span.parent, span.evidence, span.confidence) {
        // A root is certain, unless there were several that could be its parent.
        (None, evidence, _) => evidence != Some(Evidence::Ambiguous),
        (Some(_), _, confidence) => confidence.is_none_or(|sure| sure >= Evidence::CERTAIN),
    }
}

/// `├─ ` and what stands before it.
fn branch(depth: usize, last_at: &[bool], certain: bool) -> String {
    let dash = if certain { '─' } else { '┄' };
    if depth == 0 {
        return if certain { String::new() } else { format!("{dash} ") };
    }
    let mut text = String::new();
    for &last in &last_at[1..depth] {
        text.push_str(if last { "   " } else { "│  " });
    }
    text.push(if last_at[depth] { '└' } else { '├' });
    text.push(dash);
    text.push(' ');
    text
}

/// The span's duration and its place in the trace's time.
fn timing(trace: &TraceHead, span: &Span, paint: Paint) -> String {
    let whole = trace.duration_nano.0.max(1) as f64;
    let place = |nano: i64| ((nano as f64 / whole) * BAR as f64).clamp(0.0, BAR as f64);
    let begin = span.start_unix_nano.0.saturating_sub(trace.start_unix_nano.0);
    let from = (place(begin) as usize).min(BAR - 1);
    let to =
        (place(begin.saturating_add(span.duration_nano.0)).ceil() as usize).clamp(from + 1, BAR);
    let bar = format!("{}{}{}", " ".repeat(from), "▬".repeat(to - from), " ".repeat(BAR - to));
    let bar = if is_error(span) { paint.red(&bar) } else { paint.cyan(&bar) };
    format!("{:>9}  {bar}  ", duration(span.duration_nano.0))
}

fn is_error(span: &Span) -> bool {
    span.status == SpanStatus::Error
}

fn label(span: &Span, paint: Paint) -> String {
    let mut text =
        format!("{} {}", paint.bold(&brief(&span.service, 60)), brief(&span.operation, 80));
    if let Some(code) = span.status_code {
        let code = format!(" {code}");
        text.push_str(&if is_error(span) { paint.red(&code) } else { code });
    }
    if is_error(span) {
        let reason = span.error.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("error");
        let _ = write!(text, " {}", paint.red(&brief(reason, 80)));
    }
    if span.status == SpanStatus::Unknown {
        let _ = write!(text, " {}", paint.dim("status unknown"));
    }
    let _ = write!(text, "  {}", paint.dim(&format!("[{}]", span.capture)));
    if !is_certain(span) {
        let evidence = span.evidence.map_or("no evidence", Evidence::as_str);
        let mark = match span.confidence {
            Some(confidence) if span.parent.is_some() => format!("({evidence} {confidence:.2})"),
            _ => format!("({evidence})"),
        };
        let _ = write!(text, " {}", paint.yellow(&mark));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: &str, parent: Option<&str>, depth: usize, children: &[&str]) -> serde_json::Value {
        serde_json::json!({
            "span_id": id, "parent": parent, "depth": depth, "children": children,
            "start_unix_nano": (depth * 1_000_000).to_string(), "duration_nano": "4000000",
            "service": format!("s{id}"), "operation": "GET /", "capture": "server-process",
            "status": "unset", "kind": "server", "self_nano": "0",
        })
    }

    fn service(name: &str) -> serde_json::Value {
        serde_json::json!({ "name": name, "spans": 2, "errors": 0, "busy_nano": "0" })
    }

    /// A page with these members.
    fn page(members: serde_json::Value) -> TracePage {
        let mut page = serde_json::json!({
            "trace_id": "t", "start_unix_nano": "0", "duration_nano": "0", "roots": [],
            "services": [], "clocks": [], "warnings": [], "span_count": 1, "error_count": 0,
            "depth": 1, "complete": true, "first": 0, "next_after": null, "snapshot": "s",
        });
        let members = members.as_object().expect("an object").clone();
        page.as_object_mut().expect("an object").extend(members);
        serde_json::from_value(page).expect("a page")
    }

    #[test]
    fn the_tree_is_drawn_with_guesses_marked() {
        let mut guess = span("b", Some("a"), 1, &[]);
        guess["evidence"] = "sole_request".into();
        guess["confidence"] = 0.9.into();
        let mut failed = span("d", Some("c"), 2, &[]);
        failed["status"] = "error".into();
        failed["status_code"] = 500.into();
        failed["error"] = "boom\x1b[2J".into();
        let trace = page(serde_json::json!({
            "duration_nano": "8000000",
            "spans": [span("a", None, 0, &["b", "c"]), guess, span("c", Some("a"), 1, &["d"]), failed],
            "services": [service("a"), service("b")], "warnings": ["clock: 1 ms"],
            "span_count": 12_004, "error_count": 7, "depth": 1, "complete": false,
        }));
        let expected = "\
trace t
1970-01-01 00:00:00.000Z  8.00 ms  12004 spans  2 services  7 errors  1 level  incomplete

  4.00 ms  ▬▬▬▬▬▬▬▬▬▬▬▬              sa GET /  [server-process]
  4.00 ms     ▬▬▬▬▬▬▬▬▬▬▬▬           ├┄ sb GET /  [server-process] (sole_request 0.90)
  4.00 ms     ▬▬▬▬▬▬▬▬▬▬▬▬           └─ sc GET /  [server-process]
  4.00 ms        ▬▬▬▬▬▬▬▬▬▬▬▬           └─ sd GET / 500 boom\\u{1b}[2J  [server-process]

─ certain   ┄ less than certain, with the evidence and how sure it is
warning: clock: 1 ms
";
        assert_eq!(render(&trace, Paint::off()), expected);
    }

    #[test]
    fn an_ambiguous_root_says_so() {
        let mut root = span("a", None, 0, &[]);
        root["evidence"] = "ambiguous".into();
        let trace = page(serde_json::json!({ "spans": [root] }));
        assert!(render(&trace, Paint::off()).contains("┄ sa GET /  [server-process] (ambiguous)"));
    }
}
