//! `spanwise trace`: draws the tree in the terminal.

mod fold;

use std::collections::HashMap;
use std::fmt::Write as _;

use spanwise_api::{Span, SpanLink, SpanStatus, TraceHead, TracePage};
use spanwise_model::Evidence;

use crate::terminal::{Paint, brief, counted, duration, fitted, harmless};
use fold::{Folded, Line, lines};

/// Options of the drawing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The terminal's width in columns; `None` if lines may have any length.
    pub(super) columns: Option<usize>,
    /// Whether repeated calls are drawn as one line.
    pub(super) fold: bool,
}

impl Layout {
    /// Width of the bar that shows when a span ran.
    fn bar(self) -> usize {
        self.columns.map_or(24, |columns| (columns / 5).clamp(8, 60))
    }
}

/// Links of a span that are shown.
const MAX_LINKS: usize = 3;
/// Deeper spans are not indented further, to fit the terminal.
const MAX_INDENT: usize = 40;

/// The tree, one line for each span.
pub(super) fn render(trace: &TracePage, layout: Layout, paint: Paint) -> String {
    let mut text = head(&trace.head, paint);
    let by_id: HashMap<&str, &Span> =
        trace.spans.iter().map(|span| (span.span_id.as_str(), span)).collect();
    let mut tree = Tree { by_id, last_at: Vec::new() };
    let chart = Chart { trace: &trace.head, columns: layout.bar(), paint };
    let (mut guessed, mut folds) = (false, false);
    for line in lines(&trace.spans, layout.fold) {
        let line = match line {
            Line::Span(span) => {
                let certain = is_certain(span);
                guessed |= !certain;
                let branch = paint.dim(&tree.branch(span, span, certain));
                chart.span(span) + &branch + &label(span, paint)
            }
            Line::Folded(folded) => {
                folds = true;
                let branch = tree.branch(folded.first, folded.last, is_certain(folded.first));
                chart.folded(&folded) + &paint.dim(&(branch + &repeated(&folded)))
            }
        };
        let line = line.trim_end();
        let _ = match layout.columns {
            Some(columns) => writeln!(text, "{}", fitted(line, columns)),
            None => writeln!(text, "{line}"),
        };
    }
    let mut legend = Vec::new();
    if guessed {
        legend.push("─ certain   ┄ less than certain, with the evidence and how sure it is");
    }
    if folds {
        legend.push("× calls like the one above; --all draws each");
    }
    for (index, line) in legend.iter().enumerate() {
        let _ = writeln!(text, "{}{}", if index == 0 { "\n" } else { "" }, paint.dim(line));
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

/// Draws the lines between spans and their parents.
struct Tree<'a> {
    by_id: HashMap<&'a str, &'a Span>,
    /// By depth: whether the last span drawn at this depth is its parent's last child, so that no
    /// line continues below it.
    last_at: Vec<bool>,
}

impl Tree<'_> {
    /// The line up to and including `├─ ` for these spans.
    fn branch(&mut self, first: &Span, last: &Span, certain: bool) -> String {
        let depth = usize::try_from(first.depth).unwrap_or(MAX_INDENT).min(MAX_INDENT);
        self.last_at.truncate(depth);
        self.last_at.resize(depth, false);
        self.last_at.push(self.is_last_child(last));
        branch(depth, &self.last_at, certain)
    }

    fn is_last_child(&self, span: &Span) -> bool {
        let parent = span.parent.as_deref().and_then(|id| self.by_id.get(id));
        parent.is_none_or(|parent| parent.children.last() == Some(&span.span_id))
    }
}

fn is_certain(span: &Span) -> bool {
    match (&span.parent, span.evidence, span.confidence) {
        // A root is certain, unless several spans could be its parent.
        (None, evidence, _) => evidence != Some(Evidence::Ambiguous),
        (Some(_), _, confidence) => confidence.is_none_or(|sure| sure >= Evidence::CERTAIN),
    }
}

/// The line up to and including `├─ `.
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

/// Draws when spans ran within the trace.
struct Chart<'a> {
    trace: &'a TraceHead,
    columns: usize,
    paint: Paint,
}

impl Chart<'_> {
    /// The span's duration and its bar.
    fn span(&self, span: &Span) -> String {
        let end = span.start_unix_nano.0.saturating_add(span.duration_nano.0);
        let bar = self.bar(span.start_unix_nano.0, end, "▬");
        let bar = if is_error(span) { self.paint.red(&bar) } else { self.paint.cyan(&bar) };
        format!("{:>9}  {bar}  ", duration(span.duration_nano.0))
    }

    /// The number of calls, and a bar from the start of the first to the end of the last.
    fn folded(&self, folded: &Folded<'_>) -> String {
        let bar = self.bar(folded.first.start_unix_nano.0, folded.end_unix_nano, "┅");
        let times = format!("{:>9}", format!("×{}", folded.siblings));
        format!("{}  {}  ", self.paint.dim(&times), self.paint.cyan(&bar))
    }

    fn bar(&self, start_unix_nano: i64, end_unix_nano: i64, mark: &str) -> String {
        let whole = self.trace.duration_nano.0.max(1) as f64;
        let columns = self.columns;
        let place = |unix_nano: i64| {
            let nano = unix_nano.saturating_sub(self.trace.start_unix_nano.0);
            (nano as f64 / whole * columns as f64).clamp(0.0, columns as f64)
        };
        let from = (place(start_unix_nano) as usize).min(columns - 1);
        let to = (place(end_unix_nano).ceil() as usize).clamp(from + 1, columns);
        format!("{}{}{}", " ".repeat(from), mark.repeat(to - from), " ".repeat(columns - to))
    }
}

/// Describes the folded calls.
fn repeated(folded: &Folded<'_>) -> String {
    let name =
        format!("{} {}", brief(&folded.first.service, 60), brief(&folded.first.operation, 80));
    let below = match folded.below as u64 {
        0 => String::new(),
        below => format!(", {} below", counted(below, "span", "spans")),
    };
    format!(
        "{name}  {} to {}{below}",
        duration(folded.shortest_nano),
        duration(folded.longest_nano)
    )
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
    for link in span.links.iter().flatten().take(MAX_LINKS) {
        let _ = write!(text, "  {}", paint.dim(&linked(link)));
    }
    text
}

/// A link to a span of another trace: `⇢ received by mailer BRPOP, trace 4bf9…`.
fn linked(link: &SpanLink) -> String {
    let value = |key: &str| {
        let attribute = link.attributes.iter().find(|attribute| attribute.key == key)?;
        attribute.value.as_str()
    };
    let who = match (value("spanwise.link"), value("service.name"), value("name")) {
        (Some(did), Some(service), Some(name)) => {
            format!("{} by {} {}, ", brief(did, 20), brief(service, 60), brief(name, 80))
        }
        _ => String::new(),
    };
    format!("⇢ {who}trace {}", harmless(&link.trace_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Layout = Layout { columns: None, fold: true };

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
        assert_eq!(render(&trace, WIDE, Paint::off()), expected);
    }

    #[test]
    fn links_are_shown_with_who_is_at_their_other_end() {
        let attribute = |key: &str, value: &str| serde_json::json!({ "key": key, "type": "string", "value": value });
        let attributes = [
            attribute("spanwise.link", "received"),
            attribute("service.name", "mailer"),
            attribute("name", "process mails"),
        ];
        let mut queued = span("a", None, 0, &[]);
        queued["links"] = serde_json::json!([
            { "trace_id": "t2", "span_id": "s2", "trace_state": null, "attributes": attributes },
            { "trace_id": "t3", "span_id": "s3", "trace_state": null, "attributes": [] },
        ]);
        let text = render(&page(serde_json::json!({ "spans": [queued] })), WIDE, Paint::off());
        let expected =
            "[server-process]  ⇢ received by mailer process mails, trace t2  ⇢ trace t3\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn repeated_calls_are_one_line_and_lines_fit_the_terminal() {
        let ids = ["b", "c", "d", "e", "f"];
        let mut spans = vec![span("a", None, 0, &ids)];
        for (index, id) in ids.iter().enumerate() {
            let mut call = span(id, Some("a"), 1, &[]);
            call["service"] = "db".into();
            call["duration_nano"] = (index * 1_000_000).to_string().into();
            spans.push(call);
        }
        let trace = page(serde_json::json!({ "duration_nano": "8000000", "spans": spans }));
        let text = render(&trace, WIDE, Paint::off());
        let expected = "
  4.00 ms  ▬▬▬▬▬▬▬▬▬▬▬▬              sa GET /  [server-process]
     0 ns     ▬                      ├─ db GET /  [server-process]
       ×4     ┅┅┅┅┅┅┅┅┅┅┅┅           └─ db GET /  1.00 ms to 4.00 ms

× calls like the one above; --all draws each
";
        assert!(text.ends_with(expected), "{text}");
        let narrow = Layout { columns: Some(40), fold: false };
        let text = render(&trace, narrow, Paint::off());
        assert_eq!(text.matches("db").count(), 5, "{text}");
        let tree = text.lines().skip(3);
        assert!(tree.clone().all(|line| line.chars().count() <= 40), "{text}");
        assert!(tree.clone().any(|line| line.ends_with('…')), "{text}");
    }

    #[test]
    fn an_ambiguous_root_says_so() {
        let mut root = span("a", None, 0, &[]);
        root["evidence"] = "ambiguous".into();
        let trace = page(serde_json::json!({ "spans": [root] }));
        assert!(
            render(&trace, WIDE, Paint::off()).contains("┄ sa GET /  [server-process] (ambiguous)")
        );
    }
}
