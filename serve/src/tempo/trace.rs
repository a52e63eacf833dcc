//! Traces as Tempo has them: OTLP, whose JSON is Protocol Buffers' own. What TraceQL knows of a
//! span that no SDK sent is among its attributes.

use prost::Message as _;
use spanwise_model::ModelError;
use spanwise_query::TraceTree;

use super::messages::Trace;
use crate::dialect::otlp;

/// The trace of a tree, its spans by resource and scope, with the parents that assembly found.
pub(super) fn of_tree(tree: &TraceTree) -> Result<Trace, ModelError> {
    let data = otlp::whole(tree, |span| {
        if span.capture.is_reported() {
            return;
        }
        if let Some(retransmits) = span.network.retransmits {
            let retransmits = i64::from(retransmits);
            span.attributes.push(("spanwise.retransmits".to_owned(), retransmits.into()));
        }
        let flow = &span.flow;
        let ends = [
            ("spanwise.client", flow.client_address.clone(), flow.client_port),
            ("spanwise.server", flow.server_address.clone(), flow.server_port),
        ];
        for (key, address, port) in ends {
            if let Some(address) = address {
                let end = spanwise_query::traceql::endpoint(&address, port);
                span.attributes.push((key.to_owned(), end.into()));
            }
        }
    })?;
    // The messages differ only in their JSON.
    Trace::decode(data.encode_to_vec().as_slice())
        .map_err(|_| ModelError::Column { column: "of OTLP" })
}
