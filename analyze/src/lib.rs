//! Computes answers from traces. Pure functions.

mod graph;
mod labels;
mod names;
mod quantile;
mod summary;

pub use graph::{Address, Call, Figures, Graph, GraphEdge, GraphNode};
pub use labels::Labels;
pub use names::{Name, Names};
pub use quantile::quantile;
pub use summary::{ErrorSide, ErrorSummary, RootSummary, ServiceShare, TraceSummary};
