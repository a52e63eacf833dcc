//! The first profile: services with three instances, instrumented by one team.

mod resource;
mod span;

pub(crate) use resource::resource;
pub(crate) use span::{attributes, exception, statement_name};

/// Instances of each service. Each exports separately.
pub(crate) const INSTANCES: usize = 3;
