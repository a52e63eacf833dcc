//! What several protocols say alike.

pub(crate) mod http;
pub(crate) mod messaging;
pub(crate) mod sql;
