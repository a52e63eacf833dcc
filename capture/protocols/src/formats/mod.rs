//! What several protocols say alike.

pub(crate) mod http;
pub(crate) mod messaging;
pub(crate) mod redact;
pub(crate) mod sql;
