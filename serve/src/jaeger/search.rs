//! A search as all of Jaeger's APIs know it: one span of the trace meets all of it.

use spanwise_model::schema::column;
use spanwise_model::{Capture, Kind, Status, TraceId};
use spanwise_query::{
    Queries, QueryError, RowQuery, RowTest, SpanPredicate, WholeAnswer, WholeQuery,
};
use spanwise_store::{AttributeCondition, AttributeTest, TimeRange};

use crate::dialect::placed::{CAPTURE, EVIDENCE, PROTOCOL, STATUS_DESCRIPTION};

/// The most traces of an answer.
pub(super) const MOST_TRACES: usize = 1_500;
/// The default.
pub(super) const DEFAULT_TRACES: usize = 100;
/// The field of a log that names its event.
const EVENT: &str = "event";
/// The most tags of a search.
const MOST_TAGS: usize = 32;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Search {
    pub(super) service: Option<String>,
    pub(super) operation: Option<String>,
    pub(super) tags: Vec<(String, String)>,
    pub(super) min_duration_nano: Option<i64>,
    pub(super) max_duration_nano: Option<i64>,
    pub(super) time: TimeRange,
    pub(super) limit: usize,
}

impl Search {
    /// Searches.
    pub(super) async fn run(&self, queries: &Queries) -> Result<WholeAnswer, QueryError> {
        let rows = self.rows();
        let is_of_any = rows[0] == RowQuery::default();
        let spans = if is_of_any { Vec::new() } else { vec![rows] };
        let query = WholeQuery { spans, time: self.time, limit: self.limit };
        queries.whole_traces(&query, |_| true).await
    }

    /// The span; also, where it is asked for its event, one that has an event of that name.
    fn rows(&self) -> Vec<RowQuery> {
        let row = RowQuery {
            span: SpanPredicate {
                service: self.service.clone(),
                operation: self.operation.clone(),
                min_duration_nano: self.min_duration_nano,
                max_duration_nano: self.max_duration_nano,
                ..SpanPredicate::default()
            },
            test: RowTest::default(),
        };
        let mut rows = vec![row.clone()];
        self.tags.iter().for_each(|(key, value)| add_tag(&mut rows[0], key, value));
        if let Some((_, name)) = self.tags.iter().find(|(key, _)| key == EVENT) {
            let mut row = row;
            let others = self.tags.iter().filter(|(key, _)| key != EVENT);
            others.for_each(|(key, value)| add_tag(&mut row, key, value));
            row.test.event_name = Some(name.clone());
            rows.push(row);
        }
        rows
    }

    /// Why it is refused; `None` where it is not.
    pub(super) fn refusal(&self) -> Option<String> {
        if let (Some(least), Some(most)) = (self.min_duration_nano, self.max_duration_nano)
            && most < least
        {
            return Some("'maxDuration' should be greater than 'minDuration'".to_owned());
        }
        if self.tags.len() > MOST_TAGS {
            return Some(format!("there are more than {MOST_TAGS} tags"));
        }
        if self.limit > MOST_TRACES {
            return Some(format!(
                "the limit is {}; at most {MOST_TRACES} are answered",
                self.limit
            ));
        }
        None
    }
}

/// Adds what a tag asks for. Some of Jaeger's tags are columns here.
fn add_tag(row: &mut RowQuery, key: &str, value: &str) {
    let mut is_word = |column, words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        row.test.words.push((column, words));
    };
    let (error, ok, unset) = (Status::Error.as_str(), Status::Ok.as_str(), Status::Unset.as_str());
    match (key, value.to_ascii_lowercase().as_str()) {
        ("error", "true") => row.span.status = Some(Status::Error),
        ("error", "false") => is_word(column::STATUS, &[ok, unset]),
        ("span.kind", kind) if kind.parse::<Kind>().is_ok() => is_word(column::KIND, &[kind]),
        ("otel.status_code", "error") => is_word(column::STATUS, &[error]),
        ("otel.status_code", "ok") => is_word(column::STATUS, &[ok]),
        ("otel.status_code", "unset") => is_word(column::STATUS, &[unset]),
        (STATUS_DESCRIPTION, _) => is_word(column::ERROR, &[value]),
        (CAPTURE, _) => is_word(column::CAPTURE, &[value]),
        (EVIDENCE, _) => is_word(column::EVIDENCE, &[value]),
        (PROTOCOL, _) => {
            is_word(column::PROTOCOL, &[value]);
            // It is shown on these only.
            let captured = Capture::ALL.iter().filter(|capture| !capture.is_reported());
            is_word(column::CAPTURE, &captured.map(|capture| capture.as_str()).collect::<Vec<_>>());
        }
        _ => row.span.anywhere.push(AttributeCondition {
            key: key.to_owned(),
            test: AttributeTest::Equal(value.to_owned()),
        }),
    }
}

/// The id of a trace that was asked for: the trace is shown under it, also where it has become a
/// part of another, so that who asks finds it.
pub(super) fn asked_id(id: spanwise_model::WrittenId) -> TraceId {
    id.trace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_that_are_columns_are_asked_of_them() {
        let row = |key: &str, value: &str| {
            let mut row = RowQuery::default();
            add_tag(&mut row, key, value);
            row
        };
        assert_eq!(row("error", "true").span.status, Some(Status::Error));
        let words = |key: &str, value: &str| row(key, value).test.words;
        assert_eq!(words("span.kind", "server"), [(column::KIND, vec!["server".to_owned()])]);
        assert_eq!(words("error", "false")[0].1, ["ok", "unset"]);
        assert_eq!(words(PROTOCOL, "redis").len(), 2, "of spans that no SDK reported");
        assert_eq!(words("otel.status_code", "ERROR")[0].1, ["error"]);
        let other = row("error", "timeout");
        let equal = AttributeTest::Equal("timeout".to_owned());
        assert!(other.test.words.is_empty() && other.span.anywhere[0].test == equal);
        assert_eq!(row("span.kind", "sideways").span.anywhere.len(), 1);
    }
}
