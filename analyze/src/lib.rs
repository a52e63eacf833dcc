//! Computes answers from traces. Pure functions.

pub mod bottlenecks;
pub mod cause;
mod chains;
pub mod forecast;
mod graph;
mod labels;
pub mod logical;
mod names;
mod network;
mod quantile;
pub mod red;
pub mod rollup;
mod summary;
pub mod watch;

pub use chains::{
    Chain, ChainCall, ChainNode, Chains, Dependency, Entrance, Example, Follow, Load, Operation,
    Path, PathFigures, PathId, PathMap, Peak, Peaks, Relation, Shape, ShapeId, Sketch, Sources,
    Strength, Verdict, calls, capacity,
};
pub use graph::{Address, Around, Call, Figures, Graph, GraphEdge, GraphNode};
pub use labels::Labels;
pub use names::{Name, Names};
pub use network::{CallNetwork, EdgeNetwork, NetworkFigures, ResentCall, Steps};
pub use quantile::quantile;
pub use summary::{ErrorSide, ErrorSummary, RootSummary, ServiceShare, TraceSummary};
