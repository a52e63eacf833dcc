//! The tool `compare_traces`: where two traces differ. Spans are compared by their places: the
//! services and operations from the root down to them.

use std::hash::{BuildHasher as _, RandomState};

use ahash::AHashMap;
use spanwise_analyze::Labels;
use spanwise_query::TraceTree;

use super::folding::duration_nano;
use super::text::{self, Text};
use super::trace;
use crate::Shared;
use crate::native::Parameters;
use crate::problem::Problem;

/// Lines: where nothing is said, and at most.
pub(super) const DEFAULT_LINES: usize = 40;
pub(super) const MOST_LINES: usize = 200;

pub(super) async fn compare(shared: &Shared, parameters: &Parameters) -> Result<String, Problem> {
    let lines = parameters.count("lines", DEFAULT_LINES, MOST_LINES)?;
    // One after the other: each takes a permit.
    let first = trace::tree(shared, parameters.text("trace_id").unwrap_or_default()).await?;
    let second = trace::tree(shared, parameters.text("other_trace_id").unwrap_or_default()).await?;
    let written = tokio::task::spawn_blocking(move || {
        let [first_batches, second_batches] = [&first, &second].map(|tree| trace::batches(tree));
        let internal = |error: spanwise_model::ModelError| Problem::internal(error.to_string());
        let first_labels = Labels::of(&first_batches).map_err(internal)?;
        let second_labels = Labels::of(&second_batches).map_err(internal)?;
        Ok(differences([(&first, &first_labels), (&second, &second_labels)], lines))
    });
    written.await.map_err(|error| Problem::internal(format!("comparing traces: {error}")))?
}

/// The spans of one place, in both traces.
struct Place<'a> {
    service: &'a str,
    operation: &'a str,
    /// Service and operation of the place above.
    above: Option<(&'a str, &'a str)>,
    sums: [Sums; 2],
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    spans: i64,
    failed: i64,
    total_nano: i64,
    self_nano: i64,
}

impl Place<'_> {
    fn self_difference(&self) -> i64 {
        self.sums[1].self_nano.saturating_sub(self.sums[0].self_nano)
    }
}

fn differences(traces: [(&TraceTree, &Labels<'_>); 2], most: usize) -> String {
    let hasher = RandomState::new();
    let mut places: AHashMap<u64, Place<'_>> = AHashMap::new();
    for (side, (tree, labels)) in traces.iter().enumerate() {
        let nodes = &tree.trace.nodes;
        let mut hashes: Vec<u64> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let name = |at| (labels.service(at), labels.operation(at));
            let own = name(node.row.at);
            // Parents stand before their children.
            let above = node.parent.map(|parent| hashes[parent]);
            let hash = hasher.hash_one((above, own));
            hashes.push(hash);
            let place = places.entry(hash).or_insert_with(|| Place {
                service: own.0,
                operation: own.1,
                above: node.parent.map(|parent| name(nodes[parent].row.at)),
                sums: Default::default(),
            });
            let sums = &mut place.sums[side];
            sums.spans += 1;
            sums.failed += i64::from(labels.is_error(node.row.at));
            sums.total_nano = sums.total_nano.saturating_add(duration_nano(node));
            sums.self_nano = sums.self_nano.saturating_add(node.self_nano);
        }
    }
    let mut text = Text::default();
    for (name, (tree, _)) in ["A", "B"].iter().zip(traces) {
        text.line(&format!(
            "{name} = trace {}: {} spans, {} failed, takes {}, starts {}",
            tree.trace.trace_id,
            tree.len(),
            tree.error_count,
            text::duration(tree.duration_nano),
            text::moment(tree.start_unix_nano),
        ));
    }
    let shared = places.values().filter(|place| place.sums.iter().all(|sums| sums.spans > 0));
    let shared = shared.count();
    text.line(&format!(
        "{} places in both, {} in one of them (a place: services and operations from the root \
         down)",
        shared,
        places.len() - shared
    ));
    let mut differing: Vec<&Place<'_>> =
        places.values().filter(|place| place.sums[0] != place.sums[1]).collect();
    differing.sort_by_key(|place| {
        let [a, b] = place.sums;
        (
            std::cmp::Reverse(a.failed.abs_diff(b.failed).min(1)),
            std::cmp::Reverse(place.self_difference().unsigned_abs()),
            std::cmp::Reverse(a.spans.abs_diff(b.spans)),
            (place.service, place.operation, place.above),
        )
    });
    text.line("");
    text.line(
        "differences, places with other failures first, then by time that no child covers (self):",
    );
    let written = text.lines(differing.iter().take(most).map(|place| line(place)));
    if written < differing.len() {
        let left_out = &differing[written..];
        let nano = left_out
            .iter()
            .fold(0_i64, |sum, place| sum.saturating_add(place.self_difference().saturating_abs()));
        text.note(&format!(
            "{} further places differ, by {} of self time together: ask again with more lines (at \
             most {MOST_LINES}), or read_trace both",
            left_out.len(),
            text::duration(nano),
        ));
    }
    for (name, (tree, _)) in ["A", "B"].iter().zip(traces) {
        let uncertain = tree.trace.uncertain_links();
        if uncertain > 0 {
            text.note(&format!(
                "{name} has {uncertain} links that are guesses; places below them may be wrong"
            ));
        }
        for warning in tree.warnings.iter().take(3) {
            text.note(&format!("{name}: {warning}"));
        }
    }
    text.finish()
}

fn line(place: &Place<'_>) -> String {
    let side = |sums: Sums| match sums.spans {
        0 => "absent".to_owned(),
        spans => {
            let failed = match sums.failed {
                0 => String::new(),
                failed => format!(" {failed} FAILED"),
            };
            format!(
                "x{spans}{failed} total {} self {}",
                text::duration(sums.total_nano),
                text::duration(sums.self_nano)
            )
        }
    };
    let above = place.above.map(|(service, operation)| {
        format!(" (below {}: {})", text::name(service), text::name(operation))
    });
    let difference = place.self_difference();
    let sign = if difference >= 0 { "+" } else { "" };
    format!(
        "{sign}{} self: {}: {}{}: A {}, B {}",
        text::duration(difference),
        text::name(place.service),
        text::name(place.operation),
        above.unwrap_or_default(),
        side(place.sums[0]),
        side(place.sums[1]),
    )
}
