//! Durations and moments as Tempo's clients write them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const SECOND_NANO: i64 = 1_000_000_000;

/// Seconds or nanoseconds of Unix time, a fraction of seconds, or RFC 3339.
pub fn moment_unix_nano(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse::<i64>() {
        return if text.len() <= 10 { number.checked_mul(SECOND_NANO) } else { Some(number) };
    }
    if let Some((seconds, fraction)) = text.split_once('.')
        && let Ok(seconds) = seconds.parse::<i64>()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
    {
        let nano = format!("{fraction:0<9}").get(..9)?.parse::<i64>().ok()?;
        return seconds.checked_mul(SECOND_NANO)?.checked_add(nano);
    }
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(moment.unix_timestamp_nanos()).ok()
}

/// A duration as Go and Prometheus write them, in nanoseconds.
pub fn duration_nanos(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let nanos = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3_600e9,
            "d" => 86_400e9,
            "w" => 604_800e9,
            "y" => 31_536_000e9,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * nanos;
        rest = after;
    }
    (!text.is_empty() && total < 9e18).then_some(total as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, nanos) in [
            ("10ms", Some(10_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("2µs", Some(2_000)),
            ("1d", Some(86_400_000_000_000)),
            ("", None),
            ("10", None),
            ("s", None),
            ("-1s", None),
            ("1x", None),
            ("1.2.3s", None),
            ("999999999999h", None),
        ] {
            assert_eq!(duration_nanos(text), nanos, "{text}");
        }
    }

    #[test]
    fn moments() {
        for (text, nano) in [
            ("1700000000", Some(1_700_000_000_000_000_000)),
            ("1700000000123456789", Some(1_700_000_000_123_456_789)),
            ("1700000000.5", Some(1_700_000_000_500_000_000)),
            ("2023-11-14T22:13:20Z", Some(1_700_000_000_000_000_000)),
            ("x", None),
            ("1.x", None),
            ("9999999999.9999999999", None),
        ] {
            assert_eq!(moment_unix_nano(text), nano, "{text}");
        }
    }
}
