//! Which batches and spans were stored before, so that each is stored once.

pub(super) mod identity;
pub(super) mod origins;
pub(super) mod resent;
pub(super) mod seen;
