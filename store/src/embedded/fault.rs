//! Short constructors for errors.

use std::error::Error;
use std::io;

use crate::contract::StoreError;

/// An IO error; `context` says what was attempted.
pub(super) fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> StoreError {
    let context = context.into();
    move |source| StoreError::Io { context, source }
}

/// An error of Arrow, Parquet or DataFusion; `context` says what was attempted.
pub(crate) fn engine<E>(context: impl Into<String>) -> impl FnOnce(E) -> StoreError
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let context = context.into();
    move |source| StoreError::Engine { context, source: source.into() }
}
