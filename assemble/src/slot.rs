//! Rows by number.

/// A row's place in an [`Index`](crate::index::Index), and in every table beside it.
pub(crate) type Slot = u32;
