//! Rows as text: CSV (RFC 4180) and a plain table.

use std::fmt::Write as _;
use std::io;

use arrow::array::RecordBatch;
use serde_json::Value;
use spanwise_store::MAX_ANSWER_BYTES;

use super::bounded_writer::{BoundedWriter, WRITTEN_WITHIN};
use super::format::Body;

/// The line ending of CSV.
const END: &str = "\r\n";

/// Maximum characters of a cell in a table. Other formats do not truncate cells.
const CELL_MAX: usize = 80;

fn names(batches: &[RecordBatch]) -> Vec<String> {
    let schema = batches.first().map(RecordBatch::schema);
    let fields = schema.iter().flat_map(|schema| schema.fields().iter());
    fields.map(|field| field.name().clone()).collect()
}

/// CSV of at most so many bytes. Null is an empty field; an empty text is a quoted empty field.
pub(super) fn csv(batches: &[RecordBatch], truncated: bool, most_bytes: usize) -> Body {
    let mut written = BoundedWriter::within(most_bytes, WRITTEN_WITHIN);
    let mut whole = written.begin(|to| {
        for (index, name) in names(batches).iter().enumerate() {
            to.text(if index > 0 { "," } else { "" })?;
            quoted(to, name)?;
        }
        to.text(END)
    });
    for batch in batches {
        for row in 0..batch.num_rows() {
            whole = whole
                && written.row(|to| {
                    for (index, column) in batch.columns().iter().enumerate() {
                        to.text(if index > 0 { "," } else { "" })?;
                        match to.cell(column, row) {
                            Value::Null => {}
                            Value::String(text) => quoted(to, &text)?,
                            other => to.json(&other)?,
                        }
                    }
                    to.text(END)
                });
            if !whole {
                break;
            }
        }
    }
    let rows = written.rows();
    Body::new(written.end_with(""), rows, truncated || !whole)
}

fn quoted(to: &mut BoundedWriter, text: &str) -> io::Result<()> {
    if !text.is_empty() && !text.contains(['"', ',', '\r', '\n']) {
        return to.text(text);
    }
    to.text("\"")?;
    for (index, part) in text.split('"').enumerate() {
        to.text(if index > 0 { "\"\"" } else { "" })?;
        to.text(part)?;
    }
    to.text("\"")
}

/// A cell as displayed in a table.
struct DisplayedCell {
    text: String,
    is_number: bool,
}

/// The rows of a table that fit into memory.
fn shown(
    written: &BoundedWriter,
    batches: &[RecordBatch],
    cell_max: usize,
) -> (Vec<Vec<DisplayedCell>>, bool) {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    let text = |cell: &Value| plain(cell, cell_max);
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| written.cell(column, row));
            let cells =
                cells.map(|cell| DisplayedCell { text: text(&cell), is_number: cell.is_number() });
            let cells: Vec<DisplayedCell> = cells.collect();
            bytes += cells
                .iter()
                .map(|cell| size_of::<DisplayedCell>() + cell.text.len())
                .sum::<usize>();
            if bytes > MAX_ANSWER_BYTES {
                return (rows, false);
            }
            rows.push(cells);
        }
    }
    (rows, true)
}

/// A table: columns under their names, numbers right-aligned.
pub(super) fn table(batches: &[RecordBatch], truncated: bool) -> Body {
    let names = names(batches);
    let mut written = BoundedWriter::default();
    let (rows, are_all) = shown(&written, batches, cell_max(&names));
    let mut widths: Vec<usize> = names.iter().map(|name| name.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.text.chars().count().max(*width);
        }
    }
    let head = line(&widths, names.iter().map(|name| (name.as_str(), false)));
    let mut whole = written.begin(|to| to.text(&head));
    for row in &rows {
        let cells = row.iter().map(|cell| (cell.text.as_str(), cell.is_number));
        let line = line(&widths, cells);
        whole = whole && written.row(|to| to.text(&line));
        if !whole {
            break;
        }
    }
    let truncated = truncated || !whole || !are_all;
    let rows = written.rows();
    let more = if truncated { ", and more; use LIMIT and OFFSET, csv or arrow" } else { "" };
    let noun = if rows == 1 { "row" } else { "rows" };
    Body::new(written.end_with(&format!("({rows} {noun}{more})\n")), rows, truncated)
}

fn line<'a>(widths: &[usize], cells: impl Iterator<Item = (&'a str, bool)>) -> String {
    let mut line = String::new();
    for (index, ((cell, is_number), &width)) in cells.zip(widths).enumerate() {
        let gap = if index > 0 { "  " } else { "" };
        // Writing to a String cannot fail.
        let _ = if is_number {
            write!(line, "{gap}{cell:>width$}")
        } else {
            write!(line, "{gap}{cell:<width$}")
        };
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

/// Maximum characters of a cell. Query plans are not truncated.
fn cell_max(names: &[String]) -> usize {
    match names {
        [kind, plan] if kind == "plan_type" && plan == "plan" => usize::MAX,
        _ => CELL_MAX,
    }
}

/// One line, without control characters, of bounded length.
fn plain(cell: &Value, most_chars: usize) -> String {
    let text = match cell {
        Value::Null => String::new(),
        Value::String(text) => return brief(text, most_chars),
        other => other.to_string(),
    };
    brief(&text, most_chars)
}

fn brief(text: &str, most_chars: usize) -> String {
    let one_line = |text: &str| text.replace(char::is_control, "·");
    match text.char_indices().nth(most_chars) {
        Some((end, _)) => one_line(&text[..end]) + "…",
        None => one_line(text),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn batch() -> RecordBatch {
        let texts = StringArray::from(vec![Some("a,\"b\"\n"), None, Some(""), Some("plain")]);
        let numbers = Int64Array::from(vec![Some(1), Some(-20), None, Some(i64::MAX)]);
        let columns: [(&str, ArrayRef); 2] = [("t", Arc::new(texts)), ("n", Arc::new(numbers))];
        RecordBatch::try_from_iter(columns).expect("a batch")
    }

    fn text(body: Body) -> String {
        String::from_utf8(body.bytes).expect("text")
    }

    #[test]
    fn csv_is_quoted_where_it_must_be_and_tells_null_from_nothing() {
        let expected =
            "t,n\r\n\"a,\"\"b\"\"\n\",1\r\n,-20\r\n\"\",\r\nplain,9223372036854775807\r\n";
        assert_eq!(csv(&[batch()], false, MAX_ANSWER_BYTES).bytes, expected.as_bytes());
        assert_eq!(csv(&[], false, MAX_ANSWER_BYTES).bytes, b"\r\n");
    }

    #[test]
    fn a_table_is_aligned_and_cut() {
        let text = text(table(&[batch()], true));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "t       n");
        assert_eq!(lines[1], "a,\"b\"·                    1");
        assert!(lines[5].starts_with("(4 rows, and more"), "{text}");
        let long: ArrayRef = Arc::new(StringArray::from(vec!["é".repeat(200)]));
        let batch = RecordBatch::try_from_iter([("c", long)]).expect("a batch");
        assert_eq!(
            self::text(table(&[batch], false)).lines().nth(1).expect("a row").chars().count(),
            81
        );
    }
}
