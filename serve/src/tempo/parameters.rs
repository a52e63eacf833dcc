//! Parameters as Tempo's clients write them. Names that are not known are ignored, as Tempo does:
//! its clients send some that only Tempo understands.

use spanwise_parameters::tempo::{duration_nanos, moment_unix_nano};
use spanwise_query::now_unix_nano;
use spanwise_traceql::metrics::default_step_nanos;

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
        moment_unix_nano(text).map(Some).ok_or_else(|| {
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

/// The beginning of a text that may be long.
pub(super) fn brief(text: &str) -> String {
    text.chars().take(64).collect()
}
