//! Query parameters: read strictly, refused with an example of a right one.

use std::time::{SystemTime, UNIX_EPOCH};

use spanwise_store::{AttributeCondition, AttributeTest, TimeRange};

use crate::problem::Problem;

/// The parameters of a request, in their order; names may repeat.
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) const fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// Refuses names outside `known`: a misspelt filter must not be ignored.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => Err(Problem::invalid(format!(
                "there is no parameter `{name}`; known: {}",
                known.join(", ")
            ))),
            None => Ok(()),
        }
    }

    /// The first value of this name that is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, value)| n == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// A duration such as `10ms`, in nanoseconds.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<i64>, Problem> {
        self.text(name)
            .map(|text| {
                duration_nano(text).ok_or_else(|| {
                    Problem::invalid(format!(
                        "`{name}` is `{text}`, which is no duration; write for example 250us, \
                         10ms, 1.5s or 2m"
                    ))
                })
            })
            .transpose()
    }

    /// A whole number from 1 to `most`.
    pub(crate) fn count(&self, name: &str, default: usize, most: usize) -> Result<usize, Problem> {
        let Some(text) = self.text(name) else { return Ok(default) };
        match text.parse() {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => Err(Problem::invalid(format!(
                "`{name}` is `{text}`; write a whole number from 1 to {most}"
            ))),
        }
    }

    /// How many entries come before those asked for; 0 where it is absent.
    pub(crate) fn position(&self, name: &str) -> Result<usize, Problem> {
        let Some(text) = self.text(name) else { return Ok(0) };
        text.parse().map_err(|_| {
            Problem::invalid(format!(
                "`{name}` is `{text}`; write the `next_after` of the page before, or leave it out"
            ))
        })
    }

    /// `attribute=key=value`, as often as it stands there.
    pub(crate) fn attributes(&self, name: &str) -> Result<Vec<AttributeCondition>, Problem> {
        self.all(name)
            .filter(|text| !text.is_empty())
            .map(|text| match text.split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    let test = AttributeTest::Equal(value.to_owned());
                    Ok(AttributeCondition { key: key.to_owned(), test })
                }
                _ => Err(Problem::invalid(format!(
                    "`{name}` is `{text}`; write KEY=VALUE, for example \
                     http.request.method=POST"
                ))),
            })
            .collect()
    }

    /// `start` and `end`; the last hour where they are absent.
    pub(crate) fn time_range(&self) -> Result<TimeRange, Problem> {
        let now = now_unix_nano();
        let moment = |name: &str, default: i64| match self.text(name) {
            None => Ok(default),
            Some(text) => moment_unix_nano(text, now).ok_or_else(|| {
                Problem::invalid(format!(
                    "`{name}` is `{text}`, which is no time; write `now`, a time before now such \
                     as -15m or -2h, or nanoseconds since 1970"
                ))
            }),
        };
        let from_unix_nano = moment("start", now.saturating_sub(3_600_000_000_000))?;
        // Spans of this very moment belong to the default range.
        let to_unix_nano = moment("end", now.saturating_add(60_000_000_000))?;
        if from_unix_nano >= to_unix_nano {
            return Err(Problem::invalid("`start` is not before `end`"));
        }
        Ok(TimeRange { from_unix_nano, to_unix_nano })
    }
}

/// Now, in nanoseconds since 1970.
pub(crate) fn now_unix_nano() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}

fn duration_nano(text: &str) -> Option<i64> {
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

fn moment_unix_nano(text: &str, now: i64) -> Option<i64> {
    if text == "now" {
        return Some(now);
    }
    if let Some(before) = text.strip_prefix('-')
        && let Some(nano) = duration_nano(before)
    {
        return Some(now.saturating_sub(nano));
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_moments() {
        assert_eq!(duration_nano("1.5s"), Some(1_500_000_000));
        assert_eq!(duration_nano("200us"), Some(200_000));
        assert_eq!(duration_nano("2µs"), Some(2_000));
        for wrong in ["", "10", "ms", "-1s", "1y", "nans", "infs", "9999999999999999h"] {
            assert_eq!(duration_nano(wrong), None, "{wrong}");
        }
        assert_eq!(moment_unix_nano("-15m", 1_000_000_000_000), Some(100_000_000_000));
        assert_eq!(moment_unix_nano("12345", 0), Some(12_345));
        assert_eq!(moment_unix_nano("yesterday", 0), None);
    }
}
