//! Numbers of rows.

/// A row's index in an [`Index`](crate::index::Index), and in every table beside it.
pub(crate) type Slot = u32;
