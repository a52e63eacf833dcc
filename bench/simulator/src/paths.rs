//! Places in call trees, by number.

use ahash::AHashMap;

use crate::topology::{OperationAt, Topology};
use crate::traffic::published;

/// Paths by caller, service and operation.
pub(crate) type Labelled = AHashMap<(Option<PathAt>, String, String), PathAt>;

/// Place of a path in [`Paths`].
pub(crate) type PathAt = usize;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    pub(crate) above: Option<PathAt>,
    pub(crate) operation: OperationAt,
    /// Whether it is the broker that carries a message to the operation.
    pub(crate) is_broker: bool,
}

/// All paths that were taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths {
    paths: Vec<Path>,
    places: AHashMap<(Option<PathAt>, OperationAt, bool), PathAt>,
}

impl Paths {
    pub(crate) fn root(&mut self, operation: OperationAt) -> PathAt {
        self.place(None, operation, false)
    }

    pub(crate) fn below(
        &mut self,
        above: PathAt,
        operation: OperationAt,
        is_broker: bool,
    ) -> PathAt {
        self.place(Some(above), operation, is_broker)
    }

    fn place(&mut self, above: Option<PathAt>, operation: OperationAt, is_broker: bool) -> PathAt {
        let new = self.paths.len();
        let place = *self.places.entry((above, operation, is_broker)).or_insert(new);
        if place == new {
            self.paths.push(Path { above, operation, is_broker });
        }
        place
    }

    pub(crate) fn get(&self, at: PathAt) -> Path {
        self.paths[at]
    }

    /// The service and the operation that the analysis should name.
    pub(crate) fn label(&self, at: PathAt, topology: &Topology) -> (String, String) {
        let path = self.paths[at];
        let operation = &topology.operations[path.operation];
        if path.is_broker {
            ("kafka".into(), published(&operation.service))
        } else {
            (operation.service.clone(), operation.name.clone())
        }
    }

    /// Places by caller, service and operation.
    pub(crate) fn labels(&self, topology: &Topology) -> Labelled {
        let label = |at: PathAt| {
            let (service, operation) = self.label(at, topology);
            ((self.paths[at].above, service, operation), at)
        };
        (0..self.paths.len()).map(label).collect()
    }
}
