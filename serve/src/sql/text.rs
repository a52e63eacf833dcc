//! Rows as text: CSV (RFC 4180) and a plain table.

use std::fmt::Write as _;

use arrow::array::RecordBatch;
use serde_json::Value;

use crate::cells;

/// A cell of a table is cut after these characters; the other formats have it
/// whole.
const CELL_MAX: usize = 80;

fn names(batches: &[RecordBatch]) -> Vec<String> {
    let schema = batches.first().map(RecordBatch::schema);
    let fields = schema.iter().flat_map(|schema| schema.fields().iter());
    fields.map(|field| field.name().clone()).collect()
}

/// Null is an empty field, an empty text a quoted one.
pub(super) fn csv(batches: &[RecordBatch]) -> String {
    let mut text = String::new();
    let mut line = |fields: &mut dyn Iterator<Item = String>| {
        for (index, field) in fields.enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(&field);
        }
        text.push_str("\r\n");
    };
    line(&mut names(batches).iter().map(|name| quoted(name)));
    for row in cells::rows(batches) {
        line(&mut row.iter().map(|cell| match cell {
            Value::Null => String::new(),
            Value::String(text) => quoted(text),
            other => other.to_string(),
        }));
    }
    text
}

fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && !text.contains(['"', ',', '\r', '\n']);
    if plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// Columns under their names, numbers to the right.
pub(super) fn table(batches: &[RecordBatch], truncated: bool) -> String {
    let names = names(batches);
    let rows = cells::rows(batches);
    let shown: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(plain).collect()).collect();
    let mut widths: Vec<usize> = names.iter().map(|name| name.chars().count()).collect();
    for row in &shown {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    let mut line = |cells: &[String], right: &dyn Fn(usize) -> bool| {
        let begin = text.len();
        for (index, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            let gap = if index > 0 { "  " } else { "" };
            // Writing to a String cannot fail.
            let _ = if right(index) {
                write!(text, "{gap}{cell:>width$}")
            } else {
                write!(text, "{gap}{cell:<width$}")
            };
        }
        text.truncate(begin + text[begin..].trim_end().len());
        text.push('\n');
    };
    line(&names, &|_| false);
    for (row, shown) in rows.iter().zip(&shown) {
        line(shown, &|index| row[index].is_number());
    }
    let more = if truncated { ", and more; use LIMIT and OFFSET, csv or arrow" } else { "" };
    let noun = if rows.len() == 1 { "row" } else { "rows" };
    let _ = writeln!(text, "({} {noun}{more})", rows.len());
    text
}

/// One line, without control characters, of bounded length.
fn plain(cell: &Value) -> String {
    let text = match cell {
        Value::Null => String::new(),
        Value::String(text) => text.replace(char::is_control, "·"),
        other => other.to_string(),
    };
    match text.char_indices().nth(CELL_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
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

    #[test]
    fn csv_is_quoted_where_it_must_be_and_tells_null_from_nothing() {
        let expected =
            "t,n\r\n\"a,\"\"b\"\"\n\",1\r\n,-20\r\n\"\",\r\nplain,9223372036854775807\r\n";
        assert_eq!(csv(&[batch()]), expected);
        assert_eq!(csv(&[]), "\r\n");
    }

    #[test]
    fn a_table_is_aligned_and_cut() {
        let text = table(&[batch()], true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "t       n");
        assert_eq!(lines[1], "a,\"b\"·                    1");
        assert!(lines[5].starts_with("(4 rows, and more"), "{text}");
        let long: ArrayRef = Arc::new(StringArray::from(vec!["é".repeat(200)]));
        let batch = RecordBatch::try_from_iter([("c", long)]).expect("a batch");
        assert_eq!(table(&[batch], false).lines().nth(1).expect("a row").chars().count(), 81);
    }
}
