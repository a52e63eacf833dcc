//! Output for people: colours, aligned tables, and safe display of untrusted texts.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

use chrono::{DateTime, Local, TimeZone as _};
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use crate::failure::Failure;

/// Writes the program's own text to standard output. Untrusted parts must be [`harmless`]. A closed
/// pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match shows_to_a_person() {
        true => write(visible(text, OwnColours::Kept).as_bytes()),
        false => write(text.as_bytes()),
    }
}

/// Writes foreign data: unchanged, except on a terminal, where control characters are made visible.
pub(crate) fn print_foreign(bytes: &[u8]) -> Result<(), Failure> {
    match shows_to_a_person() {
        true => write(visible(&String::from_utf8_lossy(bytes), OwnColours::None).as_bytes()),
        false => write(bytes),
    }
}

/// Whether standard output is a terminal, which should not receive binary data.
pub(crate) fn shows_to_a_person() -> bool {
    std::io::stdout().is_terminal()
}

fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::cannot(format_args!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

/// Resets the colour.
const RESET: &str = "\x1b[0m";

/// Whether the text contains [`Paint`]'s colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnColours {
    Kept,
    None,
}

/// The text with visible control characters. Line breaks and tabs are kept.
fn visible(text: &str, colours: OwnColours) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\x1b' if colours == OwnColours::Kept => colour_length(rest),
            '\n' | '\t' => 1,
            '\r' if rest.starts_with("\r\n") => 2,
            _ if is_obeyed(c) => 0,
            _ => c.len_utf8(),
        };
        if length > 0 {
            shown.push_str(&rest[..length]);
            rest = &rest[length..];
        } else {
            escape(c, &mut shown);
            rest = &rest[c.len_utf8()..];
        }
    }
    shown
}

/// The length of a colour escape at the start of the text, `ESC [ digits m`; 0 if there is none.
fn colour_length(text: &str) -> usize {
    let Some(codes) = text.strip_prefix("\x1b[") else { return 0 };
    match codes.find(|c: char| !c.is_ascii_digit() && c != ';') {
        Some(end) if codes[end..].starts_with('m') => "\x1b[m".len() + end,
        _ => 0,
    }
}

/// A failure's message for standard error.
pub(crate) fn complaint(text: &str) -> String {
    visible(text, OwnColours::None)
}

/// Whether to use colours (<https://no-color.org>).
fn colours(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether logs may be coloured.
pub(crate) fn log_colours() -> bool {
    colours(std::io::stderr().is_terminal())
}

/// The zone in which times are displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// The zone of this host, or of the variable `TZ`.
    Local,
    Utc,
}

impl Zone {
    /// The zone's offset from UTC at this time.
    fn offset(self, unix_seconds: i64) -> UtcOffset {
        let seconds = match self {
            Self::Utc => 0,
            Self::Local => DateTime::from_timestamp(unix_seconds, 0).map_or(0, |moment| {
                Local.offset_from_utc_datetime(&moment.naive_utc()).local_minus_utc()
            }),
        };
        UtcOffset::from_whole_seconds(seconds).unwrap_or(UtcOffset::UTC)
    }

    /// The time of this local time. If a clock change repeats the local time, the first. If the
    /// clock change skips it, the time just before the change.
    pub(crate) fn moment(self, time: PrimitiveDateTime) -> OffsetDateTime {
        let as_utc = time.assume_utc().unix_timestamp();
        let first = self.offset(as_utc - i64::from(self.offset(as_utc).whole_seconds()));
        let second = self.offset(as_utc - i64::from(first.whole_seconds()));
        time.assume_offset(if first == second { first } else { first.max(second) })
    }
}

/// Display options: colours, and the zone of times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
    zone: Zone,
}

impl Paint {
    /// The options for standard output.
    pub(crate) fn for_stdout(zone: Zone) -> Self {
        Self { on: colours(std::io::stdout().is_terminal()), zone }
    }

    #[cfg(test)]
    pub(crate) fn off() -> Self {
        Self { on: false, zone: Zone::Utc }
    }

    /// A time with milliseconds and zone in the format of RFC 3339.
    pub(crate) fn moment(self, unix_nano: i64) -> String {
        moment(unix_nano, self.zone)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() {
            format!("\x1b[{code}m{text}{RESET}")
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

/// Whether the character affects how a terminal displays other text. Bidirectional controls reorder
/// text, like escape sequences. Invisible characters make different names look equal.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

fn escape(c: char, into: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(into, "{}", c.escape_default());
}

/// The text with visible control characters. Names on spans are untrusted.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            escape(c, &mut safe);
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Like [`harmless`], limited to `columns` characters.
pub(crate) fn brief(text: &str, columns: usize) -> String {
    let safe = harmless(text);
    if safe.chars().count() <= columns {
        return safe;
    }
    let mut cut: String = safe.chars().take(columns.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A line with [`Paint`]'s colours, cut to this many columns.
pub(crate) fn fitted(line: &str, columns: usize) -> String {
    let mut kept = String::with_capacity(line.len());
    let (mut rest, mut used, mut coloured) = (line, 0, false);
    while let Some(c) = rest.chars().next() {
        let colour = if c == '\x1b' { colour_length(rest) } else { 0 };
        if colour > 0 {
            let (code, after) = rest.split_at(colour);
            coloured = code != RESET;
            kept.push_str(code);
            rest = after;
            continue;
        }
        let is_last = rest.len() == c.len_utf8();
        if used + 1 == columns && !is_last && visible_columns(rest) > 1 {
            kept.push('…');
            break;
        }
        kept.push(c);
        used += 1;
        rest = &rest[c.len_utf8()..];
    }
    if coloured && !kept.ends_with(RESET) {
        kept.push_str(RESET);
    }
    kept
}

/// Number of characters of a line, without colours.
fn visible_columns(line: &str) -> usize {
    let (mut rest, mut columns) = (line, 0);
    while let Some(c) = rest.chars().next() {
        let colour = if c == '\x1b' { colour_length(rest) } else { 0 };
        columns += usize::from(colour == 0);
        rest = &rest[colour.max(c.len_utf8())..];
    }
    columns
}

/// The columns and rows of the terminal on standard output; `None` if standard output is not a
/// terminal.
pub(crate) fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}

/// Prints a long text through a pager, if standard output is a terminal and the text does not fit.
/// The pager is that of `SPANWISE_PAGER` or `PAGER`, by default `less`. An empty value means none.
pub(crate) fn print_paged(text: &str) -> Result<(), Failure> {
    let lines = text.lines().count();
    if size().is_none_or(|(_, rows)| lines < rows) {
        return print(text);
    }
    let named = std::env::var("SPANWISE_PAGER").or_else(|_| std::env::var("PAGER"));
    let pager = named.unwrap_or_else(|_| "less -FRX".to_owned());
    if pager.trim().is_empty() || pager.trim() == "cat" {
        return print(text);
    }
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &pager]).stdin(std::process::Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return print(text) };
    if let Some(mut input) = child.stdin.take() {
        // If the user quits the pager early, the rest is not needed.
        let _ = input.write_all(visible(text, OwnColours::Kept).as_bytes());
    }
    match child.wait() {
        // The shell did not find the pager, and has reported that.
        Ok(status) if status.code() == Some(127) => print(text),
        _ => Ok(()),
    }
}

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Aligned columns with headings.
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

    /// Adds a row. Cells must be plain text without colours, one for each column.
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

fn moment(unix_nano: i64, zone: Zone) -> String {
    use time::format_description::BorrowedFormatItem;
    const TIME: &[BorrowedFormatItem<'_>] = time::macros::format_description!(
        "[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]"
    );
    const OFFSET: &[BorrowedFormatItem<'_>] =
        time::macros::format_description!("[offset_hour sign:mandatory]:[offset_minute]");
    let shown = || {
        let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_nano)).ok()?;
        let offset = zone.offset(moment.unix_timestamp());
        let moment = moment.checked_to_offset(offset)?;
        let name =
            if offset == UtcOffset::UTC { "Z".to_owned() } else { moment.format(OFFSET).ok()? };
        Some(moment.format(TIME).ok()? + &name)
    };
    shown().unwrap_or_else(|| unix_nano.to_string())
}

/// A number with its noun: `1 span`, `2 spans`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A number of bytes, for display.
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
    fn lines_are_cut_by_what_is_seen_of_them() {
        let line = "\x1b[31mabc\x1b[0mdéf";
        for (columns, expected) in
            [(7, line), (6, line), (5, "\x1b[31mabc\x1b[0md…"), (2, "\x1b[31ma…\x1b[0m")]
        {
            assert_eq!(fitted(line, columns), expected, "{columns}");
        }
        assert_eq!(fitted("", 3), "");
    }

    #[test]
    fn tables_align_by_characters_not_bytes() {
        let mut table = Table::new([("name", Align::Left), ("n", Align::Right)]);
        table.row(vec!["é".into(), "10".into()]);
        table.row(vec!["longer".into(), "7".into()]);
        assert_eq!(table.render(Paint::off()), "name     n\né       10\nlonger   7\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        let csv = "a\x1b]0;x\x07\u{7f}\u{9b}1m\u{202e}\u{200b}é\tb\r\nc\rd\n";
        assert_eq!(
            visible(csv, OwnColours::None),
            "a\\u{1b}]0;x\\u{7}\\u{7f}\\u{9b}1m\\u{202e}\\u{200b}é\tb\r\nc\\rd\n"
        );
        // Only colours are kept in the program's own text.
        let own = "\x1b[31mred\x1b[0m \x1b[2J \x1b[1;31H \x1b";
        assert_eq!(
            visible(own, OwnColours::Kept),
            "\x1b[31mred\x1b[0m \\u{1b}[2J \\u{1b}[1;31H \\u{1b}"
        );
        assert!(!visible(own, OwnColours::None).contains('\x1b'));
    }

    #[test]
    fn moments_name_their_zone() {
        assert_eq!(moment(1_700_000_000_123_456_789, Zone::Utc), "2023-11-14 22:13:20.123Z");
        let here = moment(1_700_000_000_123_456_789, Zone::Local);
        let read = |text: &str| {
            let text = text.replace(' ', "T");
            OffsetDateTime::parse(&text, &time::format_description::well_known::Rfc3339)
        };
        let nano = read(&here).expect("RFC 3339").unix_timestamp_nanos();
        assert_eq!(nano, 1_700_000_000_123_000_000, "{here}");
        let plain = read(&here).expect("RFC 3339");
        let plain = PrimitiveDateTime::new(plain.date(), plain.time());
        assert_eq!(Zone::Local.moment(plain).unix_timestamp(), 1_700_000_000, "{here}");
    }
}
