//! Moments and durations as people write them.

use std::time::{SystemTime, UNIX_EPOCH};

use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime, PrimitiveDateTime, Time, UtcOffset};

/// The forms of a moment, for error messages.
pub const MOMENT_FORMS: &str = "`now`, a time before now such as -15m or -2h, a date and time such \
                                as 2026-11-26T09:30:00Z or 2026-11-26T10:30:00+01:00, a date, or \
                                nanoseconds since 1970";

const DATE: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");
const TIMES: [&[BorrowedFormatItem<'_>]; 3] = [
    format_description!("[hour]:[minute]:[second].[subsecond]"),
    format_description!("[hour]:[minute]:[second]"),
    format_description!("[hour]:[minute]"),
];

/// Now, in nanoseconds since 1970.
pub fn now_unix_nano() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}

/// A duration such as `10ms`, in nanoseconds.
pub fn duration_nano(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic() || c == 'µ');
    let unit = match &text[digits.len()..] {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "d" => 86_400e9,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    let nano = number * unit;
    // Converting saturates, so bounds are checked before.
    (nano.is_finite() && (0.0..9e18).contains(&nano)).then_some(nano as i64)
}

/// Reads a moment, in nanoseconds since 1970. `local` gives the zone of a time that is written
/// without one.
pub fn moment_unix_nano(
    text: &str,
    now_unix_nano: i64,
    local: impl Fn(PrimitiveDateTime) -> OffsetDateTime,
) -> Option<i64> {
    let text = text.trim();
    if text == "now" {
        return Some(now_unix_nano);
    }
    if let Some(before) = text.strip_prefix('-')
        && let Some(nano) = duration_nano(before)
    {
        return Some(now_unix_nano.saturating_sub(nano));
    }
    if let Ok(nano) = text.parse() {
        return Some(nano);
    }
    let moment = match zoned(text) {
        Some(moment) => moment,
        None => local(plain(text)?),
    };
    i64::try_from(moment.unix_timestamp_nanos()).ok()
}

/// Reads a time with a zone. A `+` may have become a space in a URL.
fn zoned(text: &str) -> Option<OffsetDateTime> {
    if let Ok(moment) = OffsetDateTime::parse(&text.to_ascii_uppercase(), &Rfc3339) {
        return Some(moment);
    }
    let (before, zone) = match text.strip_suffix(['Z', 'z']) {
        Some(before) => (before, UtcOffset::UTC),
        None => {
            let at = text.rfind(['+', '-', ' ']).filter(|at| *at > "2026-11-26".len())?;
            let (hours, minutes) = text[at + 1..].split_once(':')?;
            let sign = if text[at..].starts_with('-') { -1 } else { 1 };
            let part = |text: &str| text.parse::<i8>().ok().filter(|_| text.len() == 2);
            let zone = UtcOffset::from_hms(sign * part(hours)?, sign * part(minutes)?, 0).ok()?;
            // `2026-11-26 10:30` ends with a time, not with a zone.
            (plain(&text[..at]).map(|_| &text[..at])?, zone)
        }
    };
    Some(plain(before.trim_end())?.assume_offset(zone))
}

/// A date, or a date and a time, without a zone.
fn plain(text: &str) -> Option<PrimitiveDateTime> {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else {
        return Some(Date::parse(text, DATE).ok()?.midnight());
    };
    let date = Date::parse(date, DATE).ok()?;
    let time = TIMES.iter().find_map(|format| Time::parse(time, format).ok())?;
    Some(date.with_time(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<i64> {
        moment_unix_nano(text, 1_000_000_000_000, PrimitiveDateTime::assume_utc)
    }

    #[test]
    fn durations() {
        assert_eq!(duration_nano("1.5s"), Some(1_500_000_000));
        assert_eq!(duration_nano("200us"), Some(200_000));
        assert_eq!(duration_nano("2µs"), Some(2_000));
        for wrong in ["", "10", "ms", "-1s", "1y", "nans", "infs", "9999999999999999h"] {
            assert_eq!(duration_nano(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn moments_are_read_in_every_form() {
        const HALF_PAST_NINE: i64 = 1_795_685_400;
        for (text, nano) in [
            ("now", 1_000_000_000_000),
            ("-15m", 100_000_000_000),
            ("12345", 12_345),
            ("-5", -5),
            ("2026-11-26T09:30:00Z", HALF_PAST_NINE * 1_000_000_000),
            ("2026-11-26t09:30:00z", HALF_PAST_NINE * 1_000_000_000),
            ("2026-11-26T10:30:00+01:00", HALF_PAST_NINE * 1_000_000_000),
            ("2026-11-26T10:30:00 01:00", HALF_PAST_NINE * 1_000_000_000),
            ("2026-11-26 10:30+01:00", HALF_PAST_NINE * 1_000_000_000),
            ("2026-11-26T00:30:00-09:00", HALF_PAST_NINE * 1_000_000_000),
            ("2026-11-26 09:30:00.25Z", HALF_PAST_NINE * 1_000_000_000 + 250_000_000),
            ("2026-11-26T09:30:00", HALF_PAST_NINE * 1_000_000_000),
            ("2026-11-26 09:30", HALF_PAST_NINE * 1_000_000_000),
            ("2026-11-26", (HALF_PAST_NINE - 9 * 3_600 - 1_800) * 1_000_000_000),
            (" 2026-11-26 ", (HALF_PAST_NINE - 9 * 3_600 - 1_800) * 1_000_000_000),
        ] {
            assert_eq!(read(text), Some(nano), "{text}");
        }
        for wrong in [
            "",
            "yesterday",
            "2026-13-01",
            "2026-11-26T25:00:00Z",
            "2026-11-26T",
            "9999-01-01T00:00:00Z",
            "é",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
