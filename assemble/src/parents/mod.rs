//! The table of parent rules.
//!
//! A rule looks at one row and its neighbours. It returns the parent, or that there are several
//! candidates, or nothing. The result depends only on the set of rows, never on their order of
//! arrival.

mod app;
mod client;
mod hop;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use spanwise_model::{Capture, Evidence};

pub(crate) use hop::same_hop;

use crate::index::Index;
use crate::row::Row;
use crate::slot::Slot;

/// The parent of a row, with evidence and confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Parent {
    pub(crate) slot: Slot,
    pub(crate) evidence: Evidence,
    pub(crate) confidence: f32,
}

/// The result of one rule, or of all rules, for a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    /// No rule found a parent.
    Nothing,
    /// The row has this parent.
    Child(Parent),
    /// Several rows could be the parent.
    Several,
}

impl Verdict {
    fn child(slot: Slot, evidence: Evidence, confidence: f32) -> Self {
        Self::Child(Parent { slot, evidence, confidence })
    }

    /// The parent, if there is exactly one candidate.
    fn only(
        mut candidates: impl Iterator<Item = Slot>,
        evidence: Evidence,
        confidence: f32,
    ) -> Self {
        match (candidates.next(), candidates.next()) {
            (None, _) => Self::Nothing,
            (Some(slot), None) => Self::child(slot, evidence, confidence),
            _ => Self::Several,
        }
    }
}

/// Maximum rows with one header or id that are examined. If there are more, the sender uses the
/// same value for everything, and it proves nothing.
pub(crate) const MAX_CANDIDATES: usize = 256;

/// The rows of a key, or none if the key has too many rows to prove anything.
pub(crate) fn few(rows: impl ExactSizeIterator<Item = Slot>) -> impl Iterator<Item = Slot> {
    let few = if rows.len() > MAX_CANDIDATES { 0 } else { MAX_CANDIDATES };
    rows.take(few)
}

/// One rule of the table.
pub struct Rule {
    /// The rule's name.
    pub name: &'static str,
    /// The capture points of the rows to which the rule applies.
    pub applies_to: &'static [Capture],
    /// Which row becomes the parent.
    pub parent_is: &'static str,
    /// The evidence of the rule's links.
    pub evidence: &'static str,
    pub(crate) find: fn(&Index, Slot, &Row) -> Verdict,
}

const APP: &[Capture] = &[Capture::App, Capture::Jvm];
const CLIENT: &[Capture] = &[Capture::ClientProcess];
const SERVER: &[Capture] = &[Capture::ServerProcess];
const AFTER_CLIENT: &[Capture] = &[Capture::ClientNic, Capture::ServerNic, Capture::ServerProcess];

/// The parent rules. Of the rules for a row's capture point, the first that finds exactly one
/// parent decides.
pub const RULES: &[Rule] = &[
    Rule {
        name: "hop",
        applies_to: AFTER_CLIENT,
        parent_is: "the capture point before, towards the client, with the same TCP sequence \
                    numbers at the same time",
        evidence: "tcp_sequence 1.0",
        find: hop::by_sequences,
    },
    Rule {
        name: "hop by header",
        applies_to: SERVER,
        parent_is: "the one call of another process that sent the same trace header and whose \
                    other end was not seen",
        evidence: "trace_header 1.0",
        find: hop::by_header,
    },
    Rule {
        name: "caller's SDK span",
        applies_to: SERVER,
        parent_is: "the SDK span that the request's trace header names",
        evidence: "trace_header 1.0",
        find: hop::named_app,
    },
    Rule {
        name: "own SDK span",
        applies_to: CLIENT,
        parent_is: "the SDK span of the same process that the trace header it sent names",
        evidence: "trace_header 1.0",
        find: client::own_app,
    },
    Rule {
        name: "passed-on header",
        applies_to: CLIENT,
        parent_is: "the request that its process served with the same trace header",
        evidence: "trace_header 1.0",
        find: client::passed_on_header,
    },
    Rule {
        name: "passed-on request id",
        applies_to: CLIENT,
        parent_is: "the request that its process served with the same X-Request-ID",
        evidence: "request_id 1.0",
        find: client::passed_on_request_id,
    },
    Rule {
        name: "current span",
        applies_to: CLIENT,
        parent_is: "the span of the same process in which the calling thread worked, as the JVM \
                    agent told the kernel side",
        evidence: "current_span 1.0",
        find: client::current_span,
    },
    Rule {
        name: "SDK span around a call",
        applies_to: CLIENT,
        parent_is: "the only SDK client span of the same process, protocol and request that \
                    covers a call without a header",
        evidence: "enclosing 0.9",
        find: client::app_around_call,
    },
    Rule {
        name: "fragment",
        applies_to: CLIENT,
        parent_is: "the request that the agent says it was made for",
        evidence: "task, thread, turn or sole_request, as the agent says",
        find: client::fragment,
    },
    Rule {
        name: "remote SDK span",
        applies_to: CLIENT,
        parent_is: "the SDK span that the trace header names, of whatever process",
        evidence: "trace_header 0.9",
        find: client::any_app,
    },
    Rule {
        name: "request with the same header",
        applies_to: APP,
        parent_is: "the request with the same trace header that its own process served",
        evidence: "trace_header 1.0; 0.95 where only time tells the process",
        find: app::request_with_header,
    },
    Rule {
        name: "span context",
        applies_to: APP,
        parent_is: "the SDK span that it names itself, or whose other side it is; where the calling \
                    half of a shared span is missing, the span above it",
        evidence: "span_context 1.0",
        find: app::span_context,
    },
    Rule {
        name: "same connection",
        applies_to: APP,
        parent_is: "the request on the same client port that covers it",
        evidence: "enclosing 1.0",
        find: app::same_connection,
    },
    Rule {
        name: "fragment of its trace",
        applies_to: APP,
        parent_is: "the request of the fragment whose calls carry its trace on",
        evidence: "enclosing 0.9 or 1.0, as sure as the fragment",
        find: app::fragment_of_trace,
    },
    Rule {
        name: "only request around",
        applies_to: APP,
        parent_is: "the only request of its process that covers it, with the same method and path",
        evidence: "enclosing 0.9",
        find: app::only_request_around,
    },
];

/// The rules for each capture point.
fn rules_for(capture: Capture) -> &'static [&'static Rule] {
    static RULES_FOR: LazyLock<Vec<Vec<&'static Rule>>> = LazyLock::new(|| {
        let rules_for =
            |capture| RULES.iter().filter(|rule| rule.applies_to.contains(capture)).collect();
        Capture::ALL.iter().map(rules_for).collect()
    });
    &RULES_FOR[capture as usize]
}

/// The result of all rules for a row.
pub(crate) fn verdict(index: &Index, slot: Slot) -> Verdict {
    let row = index.row(slot);
    let mut several = row.capture == Capture::ClientProcess
        && row.evidence == Some(Evidence::Ambiguous)
        && row.prior.is_none_or(|prior| prior.parent.is_none());
    for rule in rules_for(row.capture) {
        match (rule.find)(index, slot, row) {
            Verdict::Child(parent) if parent.slot != slot => return Verdict::Child(parent),
            Verdict::Several => several = true,
            _ => {}
        }
    }
    if several { Verdict::Several } else { Verdict::Nothing }
}
