//! `spanwise sql`

use serde_json::Value;
use spanwise_api::SqlAnswer;

use crate::terminal::{Align, Paint, Table, brief, counted};

/// Maximum column width. `--json` prints full values.
const COLUMN_MAX: usize = 80;

/// Columns of EXPLAIN, which are never truncated.
const PLAN: [&str; 2] = ["plan_type", "plan"];

/// The rows as a table.
pub(super) fn render(answer: &SqlAnswer, paint: Paint) -> String {
    let numeric = |data_type: &str| {
        ["Int", "UInt", "Float", "Decimal"].iter().any(|number| data_type.starts_with(number))
    };
    let mut table = Table::new(answer.columns.iter().map(|column| {
        let align = if numeric(&column.data_type) { Align::Right } else { Align::Left };
        (brief(&column.name, COLUMN_MAX), align)
    }));
    let is_plan = answer.columns.iter().map(|column| column.name.as_str()).eq(PLAN);
    let most = if is_plan { usize::MAX } else { COLUMN_MAX };
    for row in &answer.rows {
        table.row(row.iter().map(|value| cell(value, most)).collect());
    }
    let rows = counted(answer.rows.len() as u64, "row", "rows");
    let count = paint.dim(&format!("{rows}, {:.3} s", answer.end.elapsed_seconds));
    let more = if answer.end.truncated {
        "there are more rows; use LIMIT and OFFSET, or --format csv or arrow\n"
    } else {
        ""
    };
    format!("{}{count}\n{more}", table.render(paint))
}

fn cell(value: &Value, most: usize) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => brief(text, most),
        other => brief(&other.to_string(), most),
    }
}
