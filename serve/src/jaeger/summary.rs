//! A trace summed up, as version 3 and the remote storage's API have it.

use serde_json::{Value, json};
use spanwise_assemble::Node;
use spanwise_model::ModelError;
use spanwise_query::TraceTree;

use crate::dialect::placed::{self, Reading};

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TraceSummary {
    pub(super) trace_id: spanwise_model::TraceId,
    pub(super) root_service: String,
    pub(super) root_operation: String,
    pub(super) start_unix_nano: u64,
    pub(super) end_unix_nano: u64,
    pub(super) spans: i32,
    pub(super) errors: i32,
    /// Spans whose parents are not in the trace.
    pub(super) orphans: i32,
    /// Of each service its spans, and those that failed.
    pub(super) services: Vec<(String, i32, i32)>,
}

impl TraceSummary {
    /// # Errors
    /// Where a row is no span.
    pub(super) fn of(tree: &TraceTree) -> Result<Self, ModelError> {
        let nodes = &tree.trace.nodes;
        let parent = |node: &Node| placed::parent_of(tree, node, Reading::Assembled);
        let root = nodes.iter().find(|node| parent(node).is_none()).or(nodes.first());
        let root = root.map(|root| placed::span_of(tree, root)).transpose()?;
        let orphans = nodes.iter().filter(|node| node.parent.is_none() && parent(node).is_some());
        let nano = |nano: i64| u64::try_from(nano).unwrap_or(0);
        let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        Ok(Self {
            trace_id: tree.trace.trace_id,
            root_service: root.as_ref().map(|root| root.service.clone()).unwrap_or_default(),
            root_operation: root.map(|root| root.operation).unwrap_or_default(),
            start_unix_nano: nano(tree.start_unix_nano),
            end_unix_nano: nano(tree.start_unix_nano.saturating_add(tree.duration_nano)),
            spans: count(tree.len()),
            errors: count(tree.error_count),
            orphans: count(orphans.count()),
            services: tree
                .services
                .iter()
                .map(|share| (share.name.clone(), count(share.spans), count(share.errors)))
                .collect(),
        })
    }

    /// As JSON of version 3. Like protobuf's JSON, it leaves out what is zero.
    pub(super) fn json(&self) -> Value {
        let mut json = json!({
            "traceId": self.trace_id.to_string(),
            "rootServiceName": self.root_service,
            "rootOperationName": self.root_operation,
            "minStartTimeUnixNano": self.start_unix_nano.to_string(),
            "maxEndTimeUnixNano": self.end_unix_nano.to_string(),
            "spanCount": self.spans,
            "services": self.services.iter().map(|(name, spans, errors)| {
                let mut service = json!({ "name": name, "spanCount": spans });
                if *errors > 0 {
                    service["errorSpanCount"] = (*errors).into();
                }
                service
            }).collect::<Vec<_>>(),
        });
        for (name, count) in [("errorSpanCount", self.errors), ("orphanSpanCount", self.orphans)] {
            if count > 0 {
                json[name] = count.into();
            }
        }
        json
    }
}
