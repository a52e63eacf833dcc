//! Short ways to say what failed.

use std::error::Error;
use std::io;

use crate::contract::StoreError;

/// The system refused what `context` says.
pub(super) fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> StoreError {
    let context = context.into();
    move |source| StoreError::Io { context, source }
}

/// Arrow, Parquet or DataFusion failed at what `context` says.
pub(crate) fn engine<E>(context: impl Into<String>) -> impl FnOnce(E) -> StoreError
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let context = context.into();
    move |source| StoreError::Engine { context, source: source.into() }
}
