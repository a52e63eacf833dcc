//! Recognises batches and spans that were already stored, so that each is stored once.

pub(super) mod identity;
mod identity_set;
pub(super) mod origins;
pub(super) mod resent;
pub(super) mod seen;
