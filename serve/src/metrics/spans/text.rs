//! Prometheus' text format 0.0.4, and OpenMetrics 1.0, which has exemplars.

use std::fmt::Write as _;

use spanwise_analyze::red::Histogram;

use super::super::exposition::escaped;
use super::{FamilyKind, Labels, MetricWriter, seconds};

#[derive(Debug)]
pub(super) struct TextWriter {
    text: String,
    is_open_metrics: bool,
    family: &'static str,
}

impl TextWriter {
    pub(super) const fn new(is_open_metrics: bool) -> Self {
        Self { text: String::new(), is_open_metrics, family: "" }
    }

    fn sample(&mut self, suffix: &str, labels: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{}{suffix}{{{labels}}} {value}", self.family);
    }
}

impl MetricWriter for TextWriter {
    fn family(&mut self, name: &'static str, kind: FamilyKind, help: &'static str) {
        self.family = name;
        let (kind, suffix) = match kind {
            FamilyKind::Counter if self.is_open_metrics => ("counter", ""),
            FamilyKind::Counter => ("counter", "_total"),
            FamilyKind::Histogram => ("histogram", ""),
        };
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}.");
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {kind}");
    }

    fn counter(&mut self, labels: &Labels<'_>, _since_unix_nano: i64, value: u64) {
        self.sample("_total", &written(labels), value);
        self.text.push('\n');
    }

    fn histogram(
        &mut self,
        labels: &Labels<'_>,
        _since_unix_nano: i64,
        histogram: &Histogram,
        bounds_nano: &[i64],
    ) {
        let labels = written(labels);
        let mut count = 0;
        let bounds = bounds_nano.iter().map(|nano| Some(seconds(*nano))).chain([None]);
        for (bucket, (bound, within)) in bounds.zip(&histogram.classic).enumerate() {
            count += within;
            let bound = match bound {
                // OpenMetrics writes 1 as 1.0.
                Some(bound) if self.is_open_metrics => format!("{bound:?}"),
                Some(bound) => bound.to_string(),
                None => "+Inf".to_owned(),
            };
            self.sample("_bucket", &format!("{labels},le=\"{bound}\""), count);
            if let Some(exemplar) = histogram.exemplar(bucket).filter(|_| self.is_open_metrics) {
                let (trace, at) = (exemplar.trace_id, exemplar.at_unix_nano / 1_000_000);
                let (value, (at, ms)) = (seconds(exemplar.nano), (at / 1_000, at % 1_000));
                let _ = write!(self.text, " # {{trace_id=\"{trace}\"}} {value} {at}.{ms:03}");
            }
            self.text.push('\n');
        }
        self.sample("_sum", &labels, histogram.sum_nano as f64 / 1e9);
        self.text.push('\n');
        self.sample("_count", &labels, histogram.count);
        self.text.push('\n');
    }

    fn finish(mut self) -> Vec<u8> {
        if self.is_open_metrics {
            self.text.push_str("# EOF\n");
        }
        self.text.into_bytes()
    }
}

fn written(labels: &Labels<'_>) -> String {
    let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
    labels.iter().map(label).collect::<Vec<_>>().join(",")
}
