//! The tool `read_trace`: a trace as a tree in text, folded.

use std::sync::Arc;

use arrow::array::RecordBatch;
use spanwise_analyze::Labels;
use spanwise_assemble::Node;
use spanwise_model::{SpanId, Status, WrittenId};
use spanwise_query::{PagePosition, TraceQuery, TraceTree};

use super::folding::{self, Folded, Line, Subtrees, duration_nano};
use super::text::{self, Text};
use crate::Shared;
use crate::native::{self, Parameters, brief};
use crate::problem::Problem;

/// Lines: where nothing is said, and at most.
pub(super) const DEFAULT_LINES: usize = 150;
pub(super) const MOST_LINES: usize = 500;
/// Failures that are listed below the tree.
const MOST_FAILURES: usize = 10;
/// Characters of a failure's message.
const MOST_MESSAGE: usize = 300;

/// The tree of the trace with this id.
pub(super) async fn tree(shared: &Shared, id: &str) -> Result<Arc<TraceTree>, Problem> {
    let _reading = shared.limits.to_read().await?;
    let query =
        TraceQuery { id: native::id(id)?, page: PagePosition::After(0), limit: 1, snapshot: None };
    Ok(shared.queries.trace(&query).await?.tree)
}

/// The position of a span in a tree.
pub(super) fn position(tree: &TraceTree, text: &str) -> Result<usize, Problem> {
    let span: SpanId = match WrittenId::read(text) {
        Some(WrittenId::TraceOrSpan(_, span)) => span,
        _ => {
            return Err(Problem::invalid(format!(
                "`{}` is no id of a span; write 16 hexadecimal digits, as read_trace shows them",
                brief(text)
            )));
        }
    };
    tree.position(span).ok_or_else(|| {
        Problem::not_found(format!(
            "the trace {} has no span {span} in its tree; read_trace shows the ids of its spans",
            tree.trace.trace_id
        ))
    })
}

/// The batches of a tree, to read labels from.
pub(super) fn batches(tree: &TraceTree) -> Vec<RecordBatch> {
    tree.batches.iter().map(|batch| batch.record_batch().clone()).collect()
}

pub(super) async fn read(shared: &Shared, parameters: &Parameters) -> Result<String, Problem> {
    let asked = Asked {
        span: parameters.text("span_id").map(str::to_owned),
        depth: match parameters.text("depth") {
            None => None,
            Some(_) => Some(parameters.count("depth", 1, 1_000)?),
        },
        lines: parameters.count("lines", DEFAULT_LINES, MOST_LINES)?,
        after: parameters.position("after")?,
        fold: !parameters.flag("unfolded")?,
    };
    let tree = tree(shared, parameters.text("trace_id").unwrap_or_default()).await?;
    let written = tokio::task::spawn_blocking(move || draw(&tree, &asked)).await;
    written.map_err(|error| Problem::internal(format!("drawing a trace: {error}")))?
}

struct Asked {
    span: Option<String>,
    depth: Option<usize>,
    lines: usize,
    after: usize,
    fold: bool,
}

fn draw(tree: &TraceTree, asked: &Asked) -> Result<String, Problem> {
    let batches = batches(tree);
    let labels = Labels::of(&batches).map_err(|error| Problem::internal(error.to_string()))?;
    let nodes = &tree.trace.nodes;
    let subtrees = Subtrees::of(&tree.trace, &labels);
    let top = asked.span.as_deref().map(|span| position(tree, span)).transpose()?;
    let tops: Vec<usize> = match top {
        Some(top) => vec![top],
        None => (0..nodes.len()).filter(|node| nodes[*node].parent.is_none()).collect(),
    };
    let mut text = Text::default();
    head(tree, &mut text);
    let lines = subtrees.lines(&tops, &labels, asked.fold);
    let deepest = lines.iter().map(|line| line.level).max().unwrap_or(0);
    let level = match asked.depth {
        Some(depth) => depth - 1,
        None => folding::fitting_level(&lines, asked.lines),
    };
    let lines: Vec<Line> = lines.into_iter().filter(|line| line.level <= level).collect();
    let page = lines.iter().skip(asked.after).take(asked.lines);
    text.line("");
    let drawing = Drawing { tree, labels: &labels, subtrees: &subtrees, cut_level: level };
    let written = text.lines(page.map(|line| drawing.line(line)));
    let next = asked.after + written;
    failures(&drawing, &tops, &mut text);
    if next < lines.len() {
        text.note(&format!(
            "{} further lines of this drawing are left out: ask again with after={next}",
            lines.len() - next
        ));
    }
    if level < deepest {
        text.note(&format!(
            "the tree is drawn {} levels deep of {}; `+N below` says how many spans are not \
             drawn: ask again with span_id of such a line, or with depth",
            level + 1,
            deepest + 1
        ));
    }
    if tree.left_out > 0 {
        text.note(&format!(
            "{} spans of this trace are not in its tree; run_sql reads them",
            tree.left_out
        ));
    }
    for warning in &tree.warnings {
        text.note(warning);
    }
    Ok(text.finish())
}

/// What is known of the whole trace.
fn head(tree: &TraceTree, text: &mut Text) {
    text.line(&format!(
        "trace {}: {} spans, {} failed, {} levels, starts {}, takes {}{}",
        tree.trace.trace_id,
        tree.len() + tree.left_out,
        tree.error_count,
        tree.depth,
        text::moment(tree.start_unix_nano),
        text::duration(tree.duration_nano),
        if tree.complete { "" } else { ", incomplete: parents of spans are missing" },
    ));
    let uncertain = tree.trace.uncertain_links();
    if uncertain > 0 {
        text.line(&format!(
            "{uncertain} links are no certainties; a span that hangs where it does by a guess is \
             marked ~guess(evidence, confidence)"
        ));
    }
    const MOST_SERVICES: usize = 20;
    let shares = tree.services.iter().take(MOST_SERVICES).map(|share| {
        let failed = match share.errors {
            0 => String::new(),
            errors => format!(" {errors} failed"),
        };
        format!(
            "{} {} spans{failed} busy {}",
            text::name(&share.name),
            share.spans,
            text::duration(share.busy_nano)
        )
    });
    let shares: Vec<String> = shares.collect();
    let further = tree.services.len().saturating_sub(MOST_SERVICES);
    let further = if further > 0 { format!("; {further} further ones") } else { String::new() };
    text.line(&format!("services, the busiest first: {}{further}", shares.join("; ")));
    text.line(
        "columns: span id, service: operation, start after the trace's, duration, time that no \
         child covers (self)",
    );
}

struct Drawing<'a> {
    tree: &'a TraceTree,
    labels: &'a Labels<'a>,
    subtrees: &'a Subtrees<'a>,
    /// What is below this level is not drawn.
    cut_level: usize,
}

impl Drawing<'_> {
    fn line(&self, line: &Line) -> String {
        /// Deeper levels are not indented further.
        const MOST_INDENT: usize = 40;
        let node = &self.tree.trace.nodes[line.node];
        let indent = " ".repeat(line.level.min(MOST_INDENT));
        let level = match line.level > MOST_INDENT {
            true => format!("[level {}] ", line.level + 1),
            false => String::new(),
        };
        let (service, operation) = self.names(node);
        match line.folded {
            Some(folded) => format!("{indent}{level}{}", self.folded(folded, &service, &operation)),
            None => {
                let below = match line.level == self.cut_level {
                    true => self.subtrees.sizes[line.node] - 1,
                    false => 0,
                };
                let failed =
                    if self.subtrees.has_failed[line.node] { ", with failures" } else { "" };
                let below = match below {
                    0 => String::new(),
                    below => format!(" (+{below} below{failed})"),
                };
                format!(
                    "{indent}{level}{} {service}: {operation} +{} {} self {}{}{}{below}",
                    node.row.span_id,
                    text::duration(node.row.start_unix_nano - self.tree.start_unix_nano),
                    text::duration(duration_nano(node)),
                    text::duration(node.self_nano),
                    self.failure(node),
                    guess(node),
                )
            }
        }
    }

    fn folded(&self, folded: Folded, service: &str, operation: &str) -> String {
        let Folded { siblings, below, failed, shortest_nano, longest_nano, longest, total_nano } =
            folded;
        let below = if below > 0 { format!(", {below} spans below them") } else { String::new() };
        let failed = match failed {
            0 => String::new(),
            failed => format!(", {failed} with failures"),
        };
        format!(
            "x{siblings} more {service}: {operation} {} to {}, {} together (longest {}){below}\
             {failed}",
            text::duration(shortest_nano),
            text::duration(longest_nano),
            text::duration(total_nano),
            self.tree.trace.nodes[longest].row.span_id,
        )
    }

    fn names(&self, node: &Node) -> (String, String) {
        let at = node.row.at;
        (text::name(self.labels.service(at)), text::name(self.labels.operation(at)))
    }

    /// That and why the span failed.
    fn failure(&self, node: &Node) -> String {
        let at = node.row.at;
        if !self.labels.is_error(at) {
            return String::new();
        }
        let code = self.labels.status_code(at).map(|code| format!(" {code}")).unwrap_or_default();
        let error = self.labels.error(at).unwrap_or_default();
        let error =
            if error.is_empty() { String::new() } else { format!(" {}", text::name(error)) };
        format!(" FAILED{code}{error}")
    }
}

fn guess(node: &Node) -> String {
    let evidence = node.assembled.evidence.map_or("none", |evidence| evidence.as_str());
    match node.assembled.confidence {
        _ if node.parent.is_none() && evidence == "ambiguous" => {
            " ~several parents are possible".to_owned()
        }
        Some(confidence) if folding::is_guess(node) => {
            format!(" ~guess({evidence}, {confidence:.2})")
        }
        None if folding::is_guess(node) => format!(" ~guess({evidence})"),
        _ => String::new(),
    }
}

/// The failures that no failure below them explains, which are the nearest to the causes.
fn failures(drawing: &Drawing<'_>, tops: &[usize], text: &mut Text) {
    let nodes = &drawing.tree.trace.nodes;
    let is_cause = |node: &usize| {
        drawing.labels.is_error(nodes[*node].row.at)
            && !nodes[*node].children.iter().any(|child| drawing.subtrees.has_failed[*child])
    };
    let all = tops.iter().flat_map(|top| *top..*top + drawing.subtrees.sizes[*top]);
    let mut causes: Vec<usize> = all.filter(is_cause).collect();
    if causes.is_empty() {
        return;
    }
    causes.sort_by_key(|node| std::cmp::Reverse(nodes[*node].depth));
    text.line("");
    text.line(&format!(
        "{} failures without a failure below them, the deepest first:",
        causes.len()
    ));
    for cause in causes.iter().take(MOST_FAILURES) {
        let node = &nodes[*cause];
        let at = node.row.at;
        let span =
            drawing.tree.batches.get(at.batch as usize).map(|rows| rows.span(at.row as usize));
        let message = match span {
            Some(Ok(span)) if span.status == Status::Error => span
                .attribute(crate::dialect::placed::STATUS_DESCRIPTION)
                .and_then(|text| text.as_str().map(str::to_owned))
                .or(span.error)
                .unwrap_or_default(),
            _ => String::new(),
        };
        let (service, operation) = drawing.names(node);
        text.line(&format!(
            "{} level {} {service}: {operation}{} {}",
            node.row.span_id,
            node.depth + 1,
            drawing.failure(node),
            text::clean(&message, MOST_MESSAGE),
        ));
    }
    if causes.len() > MOST_FAILURES {
        text.line("(others are left out; read_trace with span_id draws a part of the trace)");
    }
}
