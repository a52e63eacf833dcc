//! Parameters as Tempo's clients write them. Names that are not known are ignored, as Tempo does:
//! its clients send some that only Tempo understands.

use spanwise_query::now_unix_nano;
use spanwise_traceql::metrics::default_step_nanos;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::refusal::Refusal;

const SECOND_NANO: i64 = 1_000_000_000;
/// Where `start` and `end` of metrics are absent.
const SINCE_NANO: i64 = 3_600 * SECOND_NANO;

/// The parameters of a request.
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(super) fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The first value of this name that is not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, value)| n == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    /// A whole number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            Refusal::invalid(format!("invalid {name}: `{}` is no whole number", brief(text)))
        })
    }

    /// A duration such as `100ms` or `1h30m`, in nanoseconds.
    pub(super) fn duration(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        duration_nanos(text).map(Some).ok_or_else(|| {
            Refusal::invalid(format!(
                "invalid {name}: `{}` is no duration; write for example 100ms, 1.5s or 1h30m",
                brief(text)
            ))
        })
    }

    /// The time of a metrics query, in nanoseconds.
    pub(super) fn metrics_time(&self) -> Result<(u64, u64), Refusal> {
        let now = now_unix_nano();
        let since = match self.text("since") {
            Some(_) => self.duration("since")?.and_then(|nano| i64::try_from(nano).ok()),
            None => None,
        };
        let end = self.moment("end")?.unwrap_or(now);
        let start = self.moment("start")?;
        let start =
            start.unwrap_or_else(|| end.min(now).saturating_sub(since.unwrap_or(SINCE_NANO)));
        if start >= end {
            return Err(Refusal::invalid(format!(
                "start must be before end: start is {start} and end {end}, in nanoseconds"
            )));
        }
        Ok((start.max(0).cast_unsigned(), end.max(0).cast_unsigned()))
    }

    /// Seconds or nanoseconds of Unix time, a fraction of seconds, or RFC 3339.
    fn moment(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        moment(text).map(Some).ok_or_else(|| {
            Refusal::invalid(format!(
                "could not parse '{name}' parameter: `{}` is no time; write seconds or nanoseconds \
                 of Unix time, or RFC 3339",
                brief(text)
            ))
        })
    }

    /// The step of a metrics query, in nanoseconds: seconds, or a duration.
    pub(super) fn step(&self, (start, end): (u64, u64)) -> Result<u64, Refusal> {
        let Some(text) = self.text("step") else { return Ok(default_step_nanos(start, end)) };
        let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..9e9).contains(seconds));
        let nanos = seconds.map(|seconds| (seconds * 1e9) as u64).or_else(|| duration_nanos(text));
        nanos.ok_or_else(|| {
            Refusal::invalid(format!(
                "cannot parse {:?} to a valid duration: write a step such as 15s",
                brief(text)
            ))
        })
    }
}

fn moment(text: &str) -> Option<i64> {
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
fn duration_nanos(text: &str) -> Option<u64> {
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

/// The beginning of a text that may be long.
pub(super) fn brief(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The pairs of a text in logfmt: `key=value key="value with spaces"`.
pub(super) fn logfmt(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let wrong = |what: &str| {
        Refusal::invalid(format!("invalid tags: {what}; write key=value, or key=\"a b\""))
    };
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        if key.is_empty() {
            return Err(wrong("there is a value without a key"));
        }
        let Some(after) = after.strip_prefix('=') else {
            return Err(wrong(&format!("`{}` has no value", brief(key))));
        };
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => {
                unquoted(quoted).ok_or_else(|| wrong("a quotation mark is not closed"))?
            }
            None => {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        if pairs.iter().any(|(known, _)| known == key) {
            let key = brief(key);
            return Err(Refusal::invalid(format!("invalid tags: tag {key} has been set twice")));
        }
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// The text up to a quotation mark, and what comes after it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
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
            assert_eq!(moment(text), nano, "{text}");
        }
    }

    #[test]
    fn tags() {
        let read = |text| logfmt(text).map_err(|refusal| refusal.detail);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            read(r#"service.name=a  http.url="b \"c\" d" e="#),
            Ok(vec![pair("service.name", "a"), pair("http.url", "b \"c\" d"), pair("e", "")])
        );
        for (text, part) in [
            ("a", "no value"),
            ("=b", "without a key"),
            (r#"a="b"#, "not closed"),
            ("a=1 a=2", "twice"),
        ] {
            assert!(read(text).is_err_and(|why| why.contains(part)), "{text}");
        }
    }
}
