//! The tool `read_spans`: all that is known of some spans, as the native API has it.

use spanwise_model::SpanId;

use super::text::MOST_BYTES;
use super::trace;
use crate::Shared;
use crate::native::{self, Parameters};
use crate::problem::Problem;

/// The most spans of an answer, and the most children that are told of each.
const MOST_SPANS: usize = 50;
const MOST_CHILDREN: usize = 20;

pub(super) async fn read(shared: &Shared, parameters: &Parameters) -> Result<String, Problem> {
    let ids: Vec<&str> = parameters.all("span_ids").filter(|id| !id.is_empty()).collect();
    if ids.len() > MOST_SPANS {
        return Err(Problem::invalid(format!(
            "`span_ids` has {} ids; {MOST_SPANS} are taken",
            ids.len()
        )));
    }
    let tree = trace::tree(shared, parameters.text("trace_id").unwrap_or_default()).await?;
    let positions: Result<Vec<usize>, Problem> =
        ids.iter().map(|id| trace::position(&tree, id)).collect();
    let positions = positions?;
    let (json, written) = native::spans_json(&tree, &positions, MOST_BYTES, MOST_CHILDREN);
    let mut text = format!(
        "{}\n",
        String::from_utf8(json).map_err(|error| Problem::internal(error.to_string()))?
    );
    let nodes = &tree.trace.nodes;
    if positions[..written].iter().any(|at| nodes[*at].children.len() > MOST_CHILDREN) {
        text.push_str(&format!(
            "Note: of the children of a span, the first {MOST_CHILDREN} are given; read_trace with \
             its span_id draws them\n"
        ));
    }
    let left_out: Vec<SpanId> =
        positions[written..].iter().map(|at| nodes[*at].row.span_id).collect();
    let further = match left_out.split_first() {
        Some((first, further)) if written == 0 => {
            text.push_str(&format!(
                "Note: the span {first} alone is longer than the {MOST_BYTES} bytes of an answer; \
                 run_sql reads a part of it, such as substr(attribute(attributes, 'KEY'), 1, 1000)\n"
            ));
            further
        }
        _ => &left_out,
    };
    if !further.is_empty() {
        let ids: Vec<String> = further.iter().map(ToString::to_string).collect();
        text.push_str(&format!(
            "Note: {} spans are left out, because an answer has {MOST_BYTES} bytes at most: ask \
             for {} in a further call\n",
            ids.len(),
            ids.join(", ")
        ));
    }
    Ok(text)
}
