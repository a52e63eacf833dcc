//! Traces to answers. Pure functions.

mod graph;
mod labels;
mod quantile;
mod summary;

pub use graph::{Call, Figures, Graph, GraphEdge, GraphNode};
pub use labels::Labels;
pub use quantile::quantile;
pub use summary::{RootSummary, ServiceShare, TraceSummary};
