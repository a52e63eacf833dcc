//! The first profile: services in three instances, as one team instruments them.

mod resource;
mod span;

pub(crate) use resource::resource;
pub(crate) use span::{attributes, exception, statement_name};

/// Instances of each service; each exports on its own.
pub(crate) const INSTANCES: usize = 3;
