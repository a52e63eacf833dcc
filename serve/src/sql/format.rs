//! Output formats.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use spanwise_api::{SqlColumn, SqlEnd};
use spanwise_store::{MAX_ANSWER_BYTES, SqlAnswer};

use super::bounded_writer::BoundedWriter;
use super::text;
use crate::problem::Problem;
use crate::slow_reader;

/// Number of rows, if the answer contains only the first ones.
const TRUNCATED: HeaderName = HeaderName::from_static("spanwise-truncated-rows");

/// The result of a statement, and its duration.
pub(super) struct Answer {
    pub(super) rows: SqlAnswer,
    pub(super) elapsed: Duration,
}

/// An answer in one of the formats.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// Number of rows, if there were more.
    pub(super) first_rows: Option<usize>,
}

impl Body {
    pub(super) fn new(bytes: Vec<u8>, rows: usize, truncated: bool) -> Self {
        Self { bytes, first_rows: truncated.then_some(rows) }
    }
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

    /// The media type registered with IANA.
    const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Table => "text/plain",
        }
    }

    /// Maximum rows of an answer: lower for formats that people read or that are parsed as one
    /// document, higher for formats that are read row by row.
    pub(super) const fn most_rows(self) -> usize {
        match self {
            Self::Json | Self::Table => 10_000,
            Self::Csv | Self::Arrow => 100_000,
        }
    }

    /// The named format, else the first known one in the `Accept` header, else JSON.
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

    /// Writes the answer. The response keeps the statement's slot until it is sent.
    pub(super) fn write(self, answer: Answer) -> Result<Response, Problem> {
        let Answer { rows, elapsed } = answer;
        let body = match self {
            Self::Json => document(&rows.batches, rows.truncated, elapsed),
            Self::Csv => text::csv(&rows.batches, rows.truncated, MAX_ANSWER_BYTES),
            Self::Table => text::table(&rows.batches, rows.truncated),
            Self::Arrow => stream(&rows.batches, rows.truncated)
                .map_err(|error| Problem::internal(format!("cannot write Arrow: {error}")))?,
        };
        let kind = match self {
            Self::Json | Self::Arrow => self.media_type().to_owned(),
            // RFC 4180: otherwise the header line could be taken for a row.
            Self::Csv => format!("{}; charset=utf-8; header=present", self.media_type()),
            Self::Table => format!("{}; charset=utf-8", self.media_type()),
        };
        let SqlAnswer { batches, room, .. } = rows;
        drop(batches);
        let mut response = slow_reader::answer(body.bytes, room);
        let headers = response.headers_mut();
        if let Ok(kind) = HeaderValue::try_from(kind) {
            headers.insert(header::CONTENT_TYPE, kind);
        }
        if let Some(rows) = body.first_rows {
            headers.insert(TRUNCATED, HeaderValue::from(rows));
        }
        Ok(response)
    }
}

fn document(batches: &[RecordBatch], truncated: bool, elapsed: Duration) -> Body {
    let schema = schema(batches);
    let fields = schema.iter().flat_map(|schema| schema.fields().iter());
    let columns: Vec<SqlColumn> = fields
        .map(|field| SqlColumn {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
        })
        .collect();
    let mut written = BoundedWriter::default();
    let mut whole = written.begin(|to| {
        to.text("{\"columns\":")?;
        to.json(&columns)?;
        to.text(",\"rows\":[")
    });
    for batch in batches {
        for row in 0..batch.num_rows() {
            let comma = if written.rows() > 0 { ",[" } else { "[" };
            whole = whole
                && written.row(|to| {
                    to.text(comma)?;
                    for (index, column) in batch.columns().iter().enumerate() {
                        to.text(if index > 0 { "," } else { "" })?;
                        to.json(&to.cell(column, row))?;
                    }
                    to.text("]")
                });
            if !whole {
                break;
            }
        }
    }
    let truncated = truncated || !whole;
    let rows = written.rows();
    let end = SqlEnd { elapsed_seconds: elapsed.as_secs_f64(), truncated };
    let end = serde_json::to_string(&end).unwrap_or_default();
    let end = end.strip_prefix('{').unwrap_or("}");
    Body::new(written.end_with(&format!("],{end}")), rows, truncated)
}

fn schema(batches: &[RecordBatch]) -> Option<SchemaRef> {
    batches.first().map(RecordBatch::schema)
}

/// The IPC streaming format.
fn stream(batches: &[RecordBatch], truncated: bool) -> Result<Body, ArrowError> {
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let Some(schema) = schema(batches) else { return Ok(Body::new(Vec::new(), 0, truncated)) };
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(Body::new(writer.into_inner()?, rows, truncated))
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
