//! What an answer is written as.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};

use super::text;
use crate::cells;
use crate::problem::Problem;

/// Tells that the answer holds the first rows only, and how many.
const TRUNCATED: HeaderName = HeaderName::from_static("spanwise-truncated-rows");

/// The rows of an answer.
pub(super) struct Answer {
    pub(super) batches: Vec<RecordBatch>,
    /// There were more rows.
    pub(super) truncated: bool,
    pub(super) elapsed: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Csv,
    Arrow,
    Table,
}

impl Format {
    const ALL: [Self; 4] = [Self::Json, Self::Csv, Self::Arrow, Self::Table];

    const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
            Self::Table => "table",
        }
    }

    /// Its media type, as IANA has registered it.
    const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Table => "text/plain",
        }
    }

    /// Rows that an answer holds: what is read by people or parsed as one
    /// document is kept smaller than what is read row by row.
    pub(super) const fn most_rows(self) -> usize {
        match self {
            Self::Json | Self::Table => 10_000,
            Self::Csv | Self::Arrow => 100_000,
        }
    }

    /// The format that is named, else the first known one of the `Accept`
    /// header, else JSON.
    pub(super) fn wanted(named: Option<&str>, headers: &HeaderMap) -> Result<Self, Problem> {
        if let Some(named) = named {
            let known = Self::ALL.into_iter().find(|format| format.name() == named);
            return known.ok_or_else(|| {
                Problem::invalid(format!("`format` is `{named}`; write json, csv, arrow or table"))
            });
        }
        let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|text| text.to_str().ok());
        let mut types = accepted.flat_map(|text| text.split(',')).map(|part| {
            let (kind, parameters) = part.split_once(';').unwrap_or((part, ""));
            (kind.trim(), parameters.replace(' ', ""))
        });
        let found = types.find_map(|(kind, parameters)| {
            let refused = parameters.split(';').any(|one| one == "q=0");
            let known = Self::ALL.into_iter().find(|format| format.media_type() == kind);
            known.filter(|_| !refused)
        });
        Ok(found.unwrap_or(Self::Json))
    }

    pub(super) fn write(self, answer: &Answer) -> Result<Response, Problem> {
        let mut response = match self {
            Self::Json => Json(document(answer)).into_response(),
            Self::Csv => text::csv(&answer.batches).into_response(),
            Self::Table => text::table(&answer.batches, answer.truncated).into_response(),
            Self::Arrow => stream(&answer.batches)
                .map_err(|error| Problem::internal(format!("cannot write Arrow: {error}")))?
                .into_response(),
        };
        let kind = match self {
            Self::Json | Self::Arrow => self.media_type().to_owned(),
            // RFC 4180: without it, the header line could be taken for a row.
            Self::Csv => format!("{}; charset=utf-8; header=present", self.media_type()),
            Self::Table => format!("{}; charset=utf-8", self.media_type()),
        };
        let headers = response.headers_mut();
        if let Ok(kind) = HeaderValue::try_from(kind) {
            headers.insert(header::CONTENT_TYPE, kind);
        }
        if answer.truncated {
            headers.insert(TRUNCATED, HeaderValue::from(self.most_rows()));
        }
        Ok(response)
    }
}

fn document(answer: &Answer) -> Value {
    let schema = schema(&answer.batches);
    let columns = schema
        .iter()
        .flat_map(|schema| schema.fields().iter())
        .map(|field| json!({"name": field.name(), "type": field.data_type().to_string()}));
    json!({
        "columns": columns.collect::<Vec<_>>(),
        "rows": cells::rows(&answer.batches),
        "truncated": answer.truncated,
        "elapsed_seconds": answer.elapsed.as_secs_f64(),
    })
}

fn schema(batches: &[RecordBatch]) -> Option<SchemaRef> {
    batches.first().map(RecordBatch::schema)
}

/// The IPC streaming format.
fn stream(batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let Some(schema) = schema(batches) else { return Ok(Vec::new()) };
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(accept: &'static str) -> Format {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        Format::wanted(None, &headers).expect("no name to be wrong")
    }

    #[test]
    fn the_format_is_named_or_accepted() {
        assert_eq!(accepting("*/*"), Format::Json);
        assert_eq!(accepting("text/html, text/csv;q=0.9, */*"), Format::Csv);
        assert_eq!(accepting("text/csv; q=0, text/plain"), Format::Table);
        assert_eq!(accepting("application/vnd.apache.arrow.stream"), Format::Arrow);
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/csv"));
        assert_eq!(Format::wanted(Some("table"), &headers).expect("known"), Format::Table);
        assert!(Format::wanted(Some("xml"), &headers).is_err());
    }
}
