//! Writing for people: colours, aligned tables, and texts from strangers made
//! harmless.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

use crate::failure::Failure;

/// Writes to standard output. A reader that has gone away (`| head`) is no
/// failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Whether standard output is a terminal, which bytes that are no text upset.
pub(crate) fn shows_to_a_person() -> bool {
    std::io::stdout().is_terminal()
}

/// As [`print`], for what is no text.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::cannot(format_args!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

/// Whether colours are wanted there (<https://no-color.org>).
fn colours(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether logs may be coloured.
pub(crate) fn log_colours() -> bool {
    colours(std::io::stderr().is_terminal())
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// As standard output wants it.
    pub(crate) fn for_stdout() -> Self {
        Self { on: colours(std::io::stdout().is_terminal()) }
    }

    #[cfg(test)]
    pub(crate) fn off() -> Self {
        Self { on: false }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }
}

/// The text without anything that a terminal would obey: names on spans come
/// from whoever sent them.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        // Bidirectional controls reorder what is read, as escapes do.
        if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            let _ = write!(safe, "{}", c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// [`harmless`], cut to at most `columns` characters.
pub(crate) fn brief(text: &str, columns: usize) -> String {
    let safe = harmless(text);
    if safe.chars().count() <= columns {
        return safe;
    }
    let mut cut: String = safe.chars().take(columns.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Which way a column leans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of cells under aligned headings.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        let columns = columns.into_iter().map(|(name, align)| (name.into(), align)).collect();
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; cells must be plain text (no colours), one per column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn render(&self, paint: Paint) -> String {
        let width = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = self.columns.iter().map(|(name, _)| width(name)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(cell));
            }
        }
        let line = |cells: &[&str]| {
            let mut text = String::new();
            for (index, ((cell, &wide), (_, align))) in
                cells.iter().zip(&widths).zip(&self.columns).enumerate()
            {
                if index > 0 {
                    text.push_str("  ");
                }
                let padding = " ".repeat(wide.saturating_sub(width(cell)));
                match align {
                    Align::Left => text.extend([*cell, &padding]),
                    Align::Right => text.extend([&*padding, cell]),
                }
            }
            text.truncate(text.trim_end().len());
            text
        };
        let heads: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut text = paint.bold(&line(&heads));
        text.push('\n');
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            text.push_str(&line(&cells));
            text.push('\n');
        }
        text
    }
}

/// A duration with three significant digits: `840 ns`, `12.3 µs`, `1.24 s`.
pub(crate) fn duration(nano: i64) -> String {
    let magnitude = nano.unsigned_abs();
    let (divisor, unit) = match magnitude {
        0..1_000 => return format!("{nano} ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = nano as f64 / divisor;
    let decimals = match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A moment, as RFC 3339 in UTC with milliseconds.
pub(crate) fn moment(unix_nano: i64) -> String {
    use time::format_description::BorrowedFormatItem;
    const FORMAT: &[BorrowedFormatItem<'_>] = time::macros::format_description!(
        "[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]Z"
    );
    time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_nano))
        .ok()
        .and_then(|moment| moment.format(FORMAT).ok())
        .unwrap_or_else(|| unix_nano.to_string())
}

/// A number of bytes, for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_three_digits() {
        for (nano, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_240, "1.24 µs"),
            (12_340, "12.3 µs"),
            (999_500, "1000 µs"),
            (128_400_000, "128 ms"),
            (1_500_000_000, "1.50 s"),
            (-2_000_000, "-2.00 ms"),
        ] {
            assert_eq!(duration(nano), text);
        }
    }

    #[test]
    fn terminal_escapes_in_names_are_shown_not_obeyed() {
        assert_eq!(harmless("GET \x1b[2J/é"), "GET \\u{1b}[2J/é");
        assert_eq!(brief("abcdef", 4), "abc…");
    }

    #[test]
    fn tables_align_by_characters_not_bytes() {
        let mut table = Table::new([("name", Align::Left), ("n", Align::Right)]);
        table.row(vec!["é".into(), "10".into()]);
        table.row(vec!["longer".into(), "7".into()]);
        assert_eq!(table.render(Paint::off()), "name     n\né       10\nlonger   7\n");
    }

    #[test]
    fn moments_are_utc() {
        assert_eq!(moment(1_700_000_000_123_456_789), "2023-11-14 22:13:20.123Z");
    }
}
