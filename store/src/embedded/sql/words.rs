//! The SQL engine's errors, as messages for users.

use std::time::Duration;

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use crate::contract::StoreError;
use crate::embedded::fault;

/// Maximum length of an error message. Some repeat the whole statement.
const MESSAGE_CHARS: usize = 800;

/// The error of a table function, on its way through the engine.
pub(super) fn of_function(error: StoreError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Maps an error to its cause: the statement, a limit, or the program.
pub(super) fn refused(error: DataFusionError) -> StoreError {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => too_much_memory(),
        DataFusionError::ArrowError(cause, _)
            if matches!(
                **cause,
                ArrowError::ParquetError(_)
                    | ArrowError::IoError(..)
                    | ArrowError::ExternalError(_)
            ) =>
        {
            fault::engine("the statement failed")(error)
        }
        DataFusionError::External(inner) if inner.downcast_ref::<StoreError>().is_some() => {
            match inner.downcast_ref::<StoreError>() {
                Some(StoreError::Invalid(why)) => StoreError::Invalid(why.clone()),
                Some(StoreError::Limit(why)) => StoreError::Limit(why.clone()),
                _ => fault::engine("the statement failed")(error),
            }
        }
        DataFusionError::IoError(_) | DataFusionError::External(_) => {
            fault::engine("the statement failed")(error)
        }
        _ => match in_short(&error.strip_backtrace()) {
            told if asks_for_too_much(&told) => too_much_memory(),
            told => StoreError::Invalid(with_help(&told)),
        },
    }
}

/// The statement exceeded its timeout.
pub(super) fn too_slow(timeout: Duration) -> StoreError {
    StoreError::Limit(format!(
        "it took longer than {timeout:?}; ask for fewer columns or a shorter time"
    ))
}

/// The statement exceeded its memory limit.
pub(super) fn too_much_memory() -> StoreError {
    StoreError::Limit(
        "it needs more memory than a statement may take; group by less, sort less, or join less"
            .to_owned(),
    )
}

/// The statement was too deep for the stack, or the engine failed for another reason.
pub(super) fn too_complex(why: &str) -> StoreError {
    StoreError::Invalid(format!(
        "the statement was too complex, and the SQL engine gave up{}{why}. Write it simpler, or \
         as several statements",
        if why.is_empty() { "" } else { ": " }
    ))
}

/// The error for a panic of the engine. Some panics mean that memory ran out.
pub(super) fn gave_up(panic: &str) -> StoreError {
    match asks_for_too_much(panic) {
        true => too_much_memory(),
        false => too_complex(&cut(panic)),
    }
}

/// Messages of the engine and of Rust if memory for a value cannot be allocated. The engine has no
/// error kind for that.
fn asks_for_too_much(text: &str) -> bool {
    const SAID: [&str; 4] =
        ["capacity overflow", "offset overflow", "memory allocation failed", "failed to allocate"];
    SAID.iter().any(|words| text.contains(words))
}

/// The message without the engine's notes for its own developers.
fn in_short(text: &str) -> String {
    const ADVICE: &str = "This issue was likely caused by a bug";
    const ADVICE_ENDS: &str = "https://github.com/apache/datafusion/issues";
    const LABELS: [&str; 10] = [
        "Error during planning: ",
        "Execution error: ",
        "Internal error: ",
        "External error: ",
        "Schema error: ",
        "Arrow error: ",
        "Cast error: ",
        "SQL error: ParserError(\"",
        "SQL error: ",
        "datafusion.public.",
    ];
    let mut text = text.to_owned();
    while let Some(from) = text.find(ADVICE) {
        let end = text[from..].find(ADVICE_ENDS);
        let end = end.map_or(text.len(), |end| from + end + ADVICE_ENDS.len());
        text.replace_range(from..end, "");
    }
    for label in LABELS {
        text = text.replace(label, "");
    }
    // The message describes each variant of a function before this sentence.
    if let Some(from) = text.find("No function matches") {
        text.replace_range(..from, "");
        text.truncate(text.find(" You might need").unwrap_or(text.len()));
    }
    text = text.replace("\ncaused by\n", ": ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    // The end of a parser error. Its beginning is removed as a label.
    let words = words.strip_suffix("\")").unwrap_or(&words);
    cut(words.trim_end_matches(['.', ' ']))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Appends advice.
fn with_help(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let help = if says(&["no function matches", "coerc", "cannot infer common"]) {
        "Make the types fit with CAST. An attribute's value is a text: \
         CAST(attribute(attributes, 'key') AS DOUBLE) is a number, and TRY_CAST gives null where \
         a text is none"
    } else if says(&["cannot cast string", "cannot parse"]) {
        "TRY_CAST gives null where a text cannot be converted"
    } else if says(&["recursion limit", "recursionlimitexceeded"]) {
        "Write the statement with fewer parentheses and subqueries inside each other"
    } else {
        "One SELECT over the table `spans` can be run"
    };
    format!("{text}. {help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_the_engines_developers() {
        let inner = DataFusionError::Internal("it broke".to_owned());
        let error = DataFusionError::Context("while doing".to_owned(), Box::new(inner));
        let told = refused(error).to_string();
        assert_eq!(told, "while doing: it broke. One SELECT over the table `spans` can be run");
        let long = refused(DataFusionError::Plan("x".repeat(100_000))).to_string();
        assert!(long.len() < 1_000, "{}", long.len());
    }

    #[test]
    fn labels_of_the_engines_layers_are_left_out() {
        for (said, told) in [
            ("SQL error: ParserError(\"Expected: x, found: y\")", "Expected: x, found: y."),
            (
                "Error during planning: table 'datafusion.public.t' not found",
                "table 't' not found.",
            ),
        ] {
            assert!(with_help(&in_short(said)).starts_with(told), "{said}");
        }
    }

    #[test]
    fn types_that_do_not_fit_are_told_how_they_would() {
        let plan = "Function 'sum' user-defined coercion failed: No function matches 'sum(Utf8)'";
        let told = refused(DataFusionError::Plan(plan.to_owned())).to_string();
        assert!(told.contains("CAST(attribute(attributes, 'key') AS DOUBLE)"), "{told}");
    }
}
