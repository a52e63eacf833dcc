//! Strings and durations.

/// Nanoseconds of each unit. Longer names come first.
const UNITS: [(&str, i64); 11] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("d", 24 * 3_600 * 1_000_000_000),
    ("w", 7 * 24 * 3_600 * 1_000_000_000),
    ("y", 365 * 24 * 3_600 * 1_000_000_000),
];

/// The duration at the start of `text`, such as `1h30m` or `1.5s`, and the length of its text. The
/// duration is `None` if it does not fit.
pub(crate) fn duration(text: &str) -> Option<(Option<i64>, usize)> {
    let mut total = Some(0_i64);
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let number = &rest[..digits];
        if digits == 0 || !number.bytes().any(|byte| byte.is_ascii_digit()) {
            break;
        }
        let Some((unit, nanoseconds)) =
            UNITS.iter().find(|(unit, _)| rest[digits..].starts_with(unit))
        else {
            break;
        };
        // Days and longer units take no fraction.
        let points = number.matches('.').count();
        if points > 1 || (points == 1 && ["d", "w", "y"].contains(unit)) {
            break;
        }
        total = total.and_then(|total| scaled(number, *nanoseconds)?.checked_add(total));
        at += digits + unit.len();
    }
    (at > 0).then_some((total, at))
}

/// `number`, which may have a fraction, times `unit`. Fractions of a nanosecond are cut off.
fn scaled(number: &str, unit: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()? };
    // Even for hours, further digits are below a nanosecond.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<i64>().ok()? };
    let places = 10_i128.pow(fraction.len() as u32);
    let total = i128::from(whole) * i128::from(unit) + i128::from(part) * i128::from(unit) / places;
    i64::try_from(total).ok()
}

/// The canonical form of a duration: an integer in the largest unit that divides it, at most hours.
pub(crate) fn duration_text(nanoseconds: i64) -> String {
    let units = [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000)];
    let small = [("ms", 1_000_000), ("us", 1_000)];
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    for (unit, size) in units.into_iter().chain(small) {
        if nanoseconds % size == 0 {
            return format!("{}{unit}", nanoseconds / size);
        }
    }
    format!("{nanoseconds}ns")
}

/// The string at the start of `text`, in backticks or in double quotes with Go's escapes, and the
/// length of its text. An error has its offset.
pub(crate) fn string(text: &str) -> Result<(String, usize), (usize, &'static str)> {
    if let Some(raw) = text.strip_prefix('`') {
        let end = raw.find('`').ok_or((0, "expected a backtick at the end of this string"))?;
        // As in Go, carriage returns are left out.
        return Ok((raw[..end].replace('\r', ""), end + 2));
    }
    let mut bytes: Vec<u8> = Vec::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => {
                let text = String::from_utf8(bytes)
                    .map_err(|_| (0, "the bytes of this string are not UTF-8"))?;
                return Ok((text, at + 1));
            }
            '\n' => return Err((at, "expected `\"` before the end of the line")),
            '\\' => escape(text, at, &mut chars, &mut bytes)?,
            _ => bytes.extend(char.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Err((0, "expected `\"` at the end of this string"))
}

fn escape(
    text: &str,
    at: usize,
    chars: &mut impl Iterator<Item = (usize, char)>,
    bytes: &mut Vec<u8>,
) -> Result<(), (usize, &'static str)> {
    const UNKNOWN: &str =
        "no such escape; a backslash is written `\\\\`, or the string in backticks";
    let (place, char) = chars.next().ok_or((at, UNKNOWN))?;
    let mut digits = |start: usize, count: usize, radix: u32| {
        let digits = text.get(start..start + count).ok_or((at, UNKNOWN))?;
        if !digits.chars().all(|digit| digit.is_digit(radix)) {
            return Err((at, UNKNOWN));
        }
        for _ in place + 1..start + count {
            chars.next();
        }
        u32::from_str_radix(digits, radix).map_err(|_| (at, UNKNOWN))
    };
    let simple = match char {
        'a' => 7,
        'b' => 8,
        't' => b'\t',
        'n' => b'\n',
        'v' => 11,
        'f' => 12,
        'r' => b'\r',
        '\\' => b'\\',
        '"' => b'"',
        'x' => digits(place + 1, 2, 16)? as u8,
        '0'..='7' => u8::try_from(digits(place, 3, 8)?).map_err(|_| (at, UNKNOWN))?,
        'u' | 'U' => {
            let code = digits(place + 1, if char == 'u' { 4 } else { 8 }, 16)?;
            let char = char::from_u32(code).ok_or((at, "no such character"))?;
            bytes.extend(char.encode_utf8(&mut [0; 4]).bytes());
            return Ok(());
        }
        _ => return Err((at, UNKNOWN)),
    };
    bytes.push(simple);
    Ok(())
}

/// The string as a literal of a query.
pub(crate) fn string_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            _ if char.is_control() => out.push_str(&format!("\\U{:08x}", u32::from(char))),
            _ => out.push(char),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, nanoseconds) in [
            ("1ns", 1),
            ("1.5s", 1_500_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1d", 86_400_000_000_000),
            ("2w", 1_209_600_000_000_000),
            ("1y", 31_536_000_000_000_000),
            ("100µs", 100_000),
            (".5ms", 500_000),
            ("0.3us", 300),
            ("1.0000000001s", 1_000_000_000),
        ] {
            assert_eq!(duration(text), Some((Some(nanoseconds), text.len())), "{text}");
        }
        assert_eq!(duration("293y"), Some((None, 4)));
        assert_eq!(duration("12"), None);
        assert_eq!(duration("1x"), None);
        assert_eq!(duration("1.5d"), None);
    }

    #[test]
    fn durations_in_their_largest_unit() {
        for (nanoseconds, text) in
            [(0, "0s"), (1_500_000_000, "1500ms"), (-3_600_000_000_000, "-1h"), (7, "7ns")]
        {
            assert_eq!(duration_text(nanoseconds), text);
        }
    }

    #[test]
    fn strings() {
        for (text, expected) in [
            (r#""""#, ""),
            (r#""a\"b\\""#, "a\"b\\"),
            (r#""\x41\101é\U0001F600""#, "AAé😀"),
            (r#""\xc3\xa9""#, "é"),
            ("`a\\d\"`", "a\\d\""),
        ] {
            assert_eq!(string(text), Ok((expected.to_owned(), text.len())), "{text}");
        }
        for (text, at) in
            [(r#""a\d""#, 2), (r#""a"#, 0), ("`a", 0), ("\"a\n\"", 2), (r#""\xff""#, 0)]
        {
            assert_eq!(string(text).expect_err(text).0, at, "{text}");
        }
    }
}
