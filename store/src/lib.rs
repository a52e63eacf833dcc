//! Storage of span rows: the [`Store`] contract and its implementations.
//!
//! A store knows rows, not traces. It takes record batches of the span schema, keeps them, and
//! finds them by key or by predicate.

#[cfg(feature = "clickhouse")]
pub mod clickhouse;
mod contract;
pub mod embedded;
mod room;

pub use contract::{
    Above, Appended, AttributeCondition, AttributeNames, AttributeTest, AttributeValues, Counting,
    Deleted, DerivedPart, DerivedPartName, Key, MAX_ANSWER_BYTES, Number, ObjectStorageStatus,
    Order, Origin, Outline, Predicate, Query, RowCounts, RowTotal, Selection, SqlAnswer,
    SqlFunctions, SqlLimits, Store, StoreError, StoreStatus, TimeRange, Unsettled,
};
pub use room::AnswerRoom;
