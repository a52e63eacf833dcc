//! The text of an answer, with a bound, so that it fits a model's context.

use std::fmt::Write as _;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The longest answer without its notes: some 12,000 tokens.
pub(super) const MOST_BYTES: usize = 40_000;
/// The longest note, and the most of them.
const MOST_NOTE_CHARACTERS: usize = 500;
const MOST_NOTES: usize = 12;
/// The longest name, message or value in a line.
pub(super) const MOST_NAME_CHARACTERS: usize = 160;

/// An answer that is being written.
#[derive(Debug, Default)]
pub(super) struct Text {
    lines: String,
    notes: Vec<String>,
    further_notes: usize,
}

impl Text {
    /// Adds a line, if there is room for it.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let has_room = self.lines.len() + line.len() < MOST_BYTES;
        if has_room {
            self.lines.push_str(line);
            self.lines.push('\n');
        }
        has_room
    }

    /// Adds the lines for which there is room; how many are written.
    pub(super) fn lines(&mut self, lines: impl Iterator<Item = String>) -> usize {
        let mut written = 0;
        for line in lines {
            if !self.line(&line) {
                break;
            }
            written += 1;
        }
        written
    }

    /// Adds what has to be known of the answer. Notes stand at its end.
    pub(super) fn note(&mut self, note: &str) {
        match self.notes.len() < MOST_NOTES {
            true => self.notes.push(clean(note, MOST_NOTE_CHARACTERS)),
            false => self.further_notes += 1,
        }
    }

    /// The whole answer.
    pub(super) fn finish(self) -> String {
        let Self { mut lines, notes, further_notes } = self;
        for note in notes {
            _ = writeln!(lines, "Note: {note}");
        }
        if further_notes > 0 {
            _ = writeln!(lines, "Note: {further_notes} further notes are left out");
        }
        lines
    }
}

/// A text from outside on one line, and not too long.
pub(super) fn clean(text: &str, most_characters: usize) -> String {
    let mut out = String::with_capacity(text.len().min(4 * most_characters));
    let mut letters = text.chars();
    for letter in letters.by_ref().take(most_characters) {
        match letter {
            '\n' => out.push_str("\\n"),
            letter if letter.is_control() => {
                _ = write!(out, "\\u{{{:x}}}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    if letters.next().is_some() {
        out.push('…');
    }
    out
}

/// A name in a line.
pub(super) fn name(text: &str) -> String {
    clean(text, MOST_NAME_CHARACTERS)
}

/// A duration for people.
pub(super) fn duration(nano: i64) -> String {
    let sign = if nano < 0 { "-" } else { "" };
    let nano = nano.unsigned_abs();
    let (unit, name) = match nano {
        0..1_000 => return format!("{sign}{nano}ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = nano as f64 / unit;
    match value {
        100.0.. => format!("{sign}{value:.0}{name}"),
        10.0.. => format!("{sign}{value:.1}{name}"),
        _ => format!("{sign}{value:.2}{name}"),
    }
}

/// A time for people, in UTC.
pub(super) fn moment(unix_nano: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(unix_nano.into());
    let milliseconds = time.ok().and_then(|time| {
        let whole = time.nanosecond() / 1_000_000 * 1_000_000;
        time.replace_nanosecond(whole).ok()
    });
    let text = milliseconds.and_then(|time| time.format(&Rfc3339).ok());
    text.unwrap_or_else(|| unix_nano.to_string())
}

/// A share for people.
pub(super) fn percent(part: u64, whole: u64) -> String {
    match part {
        0 => "0%".to_owned(),
        part => format!("{:.1}%", part as f64 * 100.0 / (whole as f64).max(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_outside_stay_on_their_line_and_are_short() {
        assert_eq!(clean("a\nNote: b\u{1b}[2J", 99), "a\\nNote: b\\u{1b}[2J");
        assert_eq!(clean("übergang", 4), "über…");
        assert_eq!(clean("über", 4), "über");
    }

    #[test]
    fn figures_are_short() {
        for (nano, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_500, "1.50us"),
            (12_345_678, "12.3ms"),
            (345_678_901, "346ms"),
            (-2_000_000_000, "-2.00s"),
            (i64::MIN, "-9223372037s"),
        ] {
            assert_eq!(duration(nano), text);
        }
        assert_eq!(moment(1_700_000_000_123_456_789), "2023-11-14T22:13:20.123Z");
        assert_eq!(percent(1, 8), "12.5%");
    }

    #[test]
    fn an_answer_has_a_bound() {
        let mut text = Text::default();
        let written = text.lines((0..100_000).map(|number| format!("line {number}")));
        assert!(written > 1_000 && written < 100_000);
        for _ in 0..1_000 {
            text.note(&"long ".repeat(1_000));
        }
        let whole = text.finish();
        assert!(whole.len() < MOST_BYTES + 13 * 600, "{}", whole.len());
        assert!(whole.ends_with("further notes are left out\n"));
    }
}
