//! Metric families as text: Prometheus' text format 0.0.4, and OpenMetrics 1.0.

use std::fmt::Write as _;

use super::family::{Families, Family, Kind};

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exposition {
    Prometheus,
    OpenMetrics,
}

/// Suffixes that are units in OpenMetrics.
const UNITS: [&str; 2] = ["seconds", "bytes"];

impl Exposition {
    /// The format that a scraper's `Accept` header requests.
    pub(super) fn wanted(accept: &str) -> Self {
        let mut kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim());
        if kinds.any(|kind| kind == "application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    pub(super) fn write(self, families: &Families) -> String {
        let mut text = String::new();
        for (name, family) in &families.0 {
            self.family(&mut text, name, family);
        }
        if self == Self::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    fn family(self, text: &mut String, name: &str, family: &Family) {
        let (kind, suffix) = match family.kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
        };
        // OpenMetrics names the family, Prometheus' format the samples.
        let named = match self {
            Self::Prometheus => format!("{name}{suffix}"),
            Self::OpenMetrics => name.to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {named} {}.", escaped(&family.help));
        let _ = writeln!(text, "# TYPE {named} {kind}");
        let unit = UNITS
            .iter()
            .find(|unit| name.strip_suffix(**unit).is_some_and(|before| before.ends_with('_')));
        if let (Self::OpenMetrics, Some(unit)) = (self, unit) {
            let _ = writeln!(text, "# UNIT {named} {unit}");
        }
        for (labels, value) in &family.samples {
            let _ = write!(text, "{name}{suffix}");
            for (index, (label, value)) in labels.iter().enumerate() {
                let before = if index == 0 { '{' } else { ',' };
                let _ = write!(text, "{before}{label}=\"{}\"", escaped(value));
            }
            let _ = writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" });
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
