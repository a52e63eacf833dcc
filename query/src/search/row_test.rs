//! What stores do not evaluate: tests on the rows that a store has found.

use arrow::array::{Array, AsArray, Int32Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;
use spanwise_model::schema::column;

/// The most rows whose events are looked through.
const MAX_EVENT_ROWS: usize = 50_000;

/// What a row must be like besides the store's predicate; everything given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowTest {
    /// Columns of words, such as the kind, each with the words that fit.
    pub words: Vec<(&'static str, Vec<String>)>,
    /// One of its events has this name.
    pub event_name: Option<String>,
}

impl RowTest {
    /// Whether every row passes.
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.event_name.is_none()
    }

    /// Columns that it reads.
    pub(super) fn columns(&self) -> Vec<&'static str> {
        let mut columns: Vec<&'static str> = self.words.iter().map(|(column, _)| *column).collect();
        columns.extend(self.event_name.is_some().then_some(column::EVENTS));
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// A bound on the rows that are read, where few of them may pass.
    pub(super) fn max_rows(&self) -> Option<usize> {
        self.event_name.is_some().then_some(MAX_EVENT_ROWS)
    }

    /// The test for the rows of a batch.
    pub(super) fn of<'a>(&'a self, batch: &'a RecordBatch) -> BatchTest<'a> {
        let words = self.words.iter().map(|(name, fitting)| {
            let (keys, words) = words(batch, name)?;
            let fits = words
                .iter()
                .map(|text| text.is_some_and(|text| fitting.iter().any(|fitting| fitting == text)));
            Some((keys, fits.collect()))
        });
        let event = self.event_name.as_deref().map(|name| {
            let events = batch.column_by_name(column::EVENTS)?.as_list_opt()?;
            Some((events, name))
        });
        BatchTest { words: words.collect(), event }
    }
}

/// A dictionary column.
fn words<'a>(batch: &'a RecordBatch, name: &str) -> Option<(&'a Int32Array, &'a StringArray)> {
    let column = batch.column_by_name(name)?.as_dictionary_opt::<Int32Type>()?;
    Some((column.keys(), column.values().as_string_opt::<i32>()?))
}

/// See [`RowTest`]. Where a column is missing, nothing passes.
pub(super) struct BatchTest<'a> {
    /// For each column its keys, and which words fit.
    words: Option<Vec<(&'a Int32Array, Vec<bool>)>>,
    /// The events, and the name that one must have.
    event: Option<Option<(&'a ListArray, &'a str)>>,
}

impl BatchTest<'_> {
    pub(super) fn passes(&self, row: usize) -> bool {
        let Some(words) = &self.words else { return false };
        let fits = |(keys, fits): &(&Int32Array, Vec<bool>)| {
            let key = keys.is_valid(row).then(|| usize::try_from(keys.value(row)).ok()).flatten();
            key.and_then(|key| fits.get(key)).copied().unwrap_or(false)
        };
        words.iter().all(fits)
            && self.event.is_none_or(|event| {
                event.is_some_and(|(events, name)| has_event(events, row, name))
            })
    }
}

fn has_event(events: &ListArray, row: usize, name: &str) -> bool {
    let offsets = events.value_offsets();
    let names = events.values().as_struct().column(1).as_string::<i32>();
    events.is_valid(row)
        && (offsets[row] as usize..offsets[row + 1] as usize).any(|at| names.value(at) == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_model::{Capture, Event, Kind, Span, SpanBatchBuilder, SpanId};

    #[test]
    fn words_of_columns_and_names_of_events_are_compared() {
        let id = |number| SpanId::from_u64(number).expect("not zero");
        let mut one = Span::new(id(1), Capture::App, Kind::Server, "s", "o", 1, 1);
        let event =
            |name: &str| Event { time_unix_nano: 1, name: name.into(), attributes: Vec::new() };
        one.events = vec![event("begun"), event("retry")];
        let other = Span::new(id(2), Capture::App, Kind::Client, "s", "o", 1, 1);
        let batch = [one, other].iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        let passing = |test: &RowTest| {
            let test = test.of(&batch);
            [0, 1].map(|row| test.passes(row))
        };
        let words = |column, words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            passing(&RowTest { words: vec![(column, words)], ..RowTest::default() })
        };
        assert_eq!(words(column::KIND, &["client"]), [false, true]);
        assert_eq!(words(column::STATUS, &["ok", "unset"]), [true, true]);
        assert_eq!(words(column::EVIDENCE, &["timing"]), [false, false], "there is none");
        assert_eq!(words("no column", &["x"]), [false, false]);
        let named = |name: &str| {
            passing(&RowTest { event_name: Some(name.to_owned()), ..RowTest::default() })
        };
        assert_eq!((named("retry"), named("retr")), ([true, false], [false, false]));
        assert_eq!(passing(&RowTest::default()), [true, true]);
    }
}
