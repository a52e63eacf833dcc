//! Durations as Go's `time.ParseDuration` reads them: `1.5s`, `1h15m`, `-300us`.

/// Reads a duration, in nanoseconds. `None` for what is none, or longer than 292 years.
pub fn read(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nano: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        nano += part(number, unit)?;
        rest = after;
    }
    i64::try_from(sign * nano).ok()
}

fn part(number: &str, unit: &str) -> Option<i128> {
    let unit: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || whole.len() > 19 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits beyond these say less than a nanosecond.
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10_i128.pow(fraction.len() as u32);
    let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some(whole * unit + fraction * unit / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nano) in [
            ("0", 0),
            ("10ms", 10_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1h15m30.918273645s", 4_530_918_273_645),
            ("-300us", -300_000),
            ("+2µs", 2_000),
            ("2μs", 2_000),
            ("1.0000000000000000000000009s", 1_000_000_000),
            ("2562047h", 9_223_369_200_000_000_000),
        ] {
            assert_eq!(read(text), Some(nano), "{text}");
        }
        for text in ["", "-", "10", "ms", "1d", "1 s", ".s", "1..5s", "1s5", "9999999999h", "é"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
