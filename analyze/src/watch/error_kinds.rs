//! Kinds of errors, counted as spans come. Spans that did not fail cost a comparison each.

use ahash::AHashMap;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use spanwise_model::schema::column;
use spanwise_model::{ModelError, Status, Texts};

/// The most kinds.
const MOST_KINDS: usize = 2_000;
/// The longest name of a kind, in characters.
const MOST_CHARACTERS: usize = 80;
/// Failed spans of a batch that are looked at. The others are of the same moment.
const MOST_OF_BATCH: usize = 1_000;

/// A kind of error of a service.
pub(super) type Kind = (String, String);

/// What was counted of a kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    pub(super) count: u64,
    /// An operation that failed so.
    pub(super) operation: String,
}

/// Counts.
#[derive(Debug, Default)]
pub struct ErrorKinds {
    pub(super) kinds: AHashMap<Kind, Counted>,
    /// Failures that were not counted, because there are too many kinds or at a time.
    pub left_out: u64,
}

impl ErrorKinds {
    /// Counts the failed spans of a batch.
    ///
    /// # Errors
    /// If the batch does not have the span schema.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), ModelError> {
        let statuses = Texts::of(batch, column::STATUS)?;
        if !statuses.distinct().any(|status| status == Status::Error.as_str()) {
            return Ok(());
        }
        let (services, operations) =
            (Texts::of(batch, column::SERVICE)?, Texts::of(batch, column::OPERATION)?);
        let errors = Texts::of(batch, column::ERROR)?;
        let codes = batch.column_by_name(column::STATUS_CODE);
        let codes = codes.and_then(|codes| codes.as_primitive_opt::<Int32Type>());
        let failed =
            (0..batch.num_rows()).filter(|row| statuses.get(*row) == Some(Status::Error.as_str()));
        for (number, row) in failed.enumerate() {
            if number >= MOST_OF_BATCH {
                self.left_out += 1;
                continue;
            }
            let code = codes.filter(|codes| codes.is_valid(row)).map(|codes| codes.value(row));
            let kind = match (errors.get(row), code) {
                (Some(error), _) if !error.trim().is_empty() => name(error),
                (_, Some(code)) => code.to_string(),
                _ => "error".to_owned(),
            };
            let key = (services.get(row).unwrap_or_default().to_owned(), kind);
            if self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(&key) {
                self.left_out += 1;
                continue;
            }
            let counted = self.kinds.entry(key).or_default();
            counted.count += 1;
            if counted.operation.is_empty() {
                operations.get(row).unwrap_or_default().clone_into(&mut counted.operation);
            }
        }
        Ok(())
    }
}

/// The kind that a text of an error is of: numbers, ids and what is quoted are left out.
fn name(error: &str) -> String {
    let first = error.trim().lines().next().unwrap_or_default();
    let mut name = String::new();
    let mut quote = None;
    for word in first.split_inclusive(|character: char| !character.is_alphanumeric()) {
        let end = word.chars().last().filter(|character| !character.is_alphanumeric());
        let text = word.trim_end_matches(|character: char| !character.is_alphanumeric());
        if quote.is_none() {
            // A code of five digits, as databases have them, is a kind; what is mixed is an id.
            let is_number = text.bytes().any(|byte| byte.is_ascii_digit());
            let is_id = is_number && !(text.len() <= 5 && name.is_empty());
            name.push_str(if is_id { "…" } else { text });
        }
        match end {
            Some(mark @ ('"' | '\'' | '`')) if quote == Some(mark) => {
                quote = None;
                name.push(mark);
            }
            Some(mark @ ('"' | '`')) if quote.is_none() => {
                quote = Some(mark);
                name.push(mark);
                name.push('…');
            }
            Some(other) if quote.is_none() => name.push(other),
            _ => {}
        }
        if name.len() > 4 * MOST_CHARACTERS {
            break;
        }
    }
    name.chars().take(MOST_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_no_numbers_ids_or_quoted_texts() {
        for (error, kind) in [
            ("23505", "23505"),
            ("timeout after 3041 ms", "timeout after … ms"),
            ("connection to 10.0.0.9:5432 refused", "connection to …….…….……:… refused"),
            ("no such key \"cart-77\" here\nmore", "no such key \"…\" here"),
            ("java.lang.IllegalStateException", "java.lang.IllegalStateException"),
        ] {
            let kind = kind.replace("…….…….……:…", "….….….…:…");
            assert_eq!(name(error), kind, "{error}");
        }
        assert_eq!(name(&"x".repeat(1_000)).len(), 80);
    }
}
