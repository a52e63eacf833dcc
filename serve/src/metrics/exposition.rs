//! Formats of metrics, and metric families as text: Prometheus' text format 0.0.4, and OpenMetrics
//! 1.0.

use std::fmt::Write as _;

use super::family::{Families, Family, Kind};

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exposition {
    Prometheus,
    OpenMetrics,
    /// Prometheus' messages, which alone have native histograms.
    Protobuf,
}

/// Suffixes that are units in OpenMetrics.
const UNITS: [&str; 2] = ["seconds", "bytes"];

impl Exposition {
    /// The text formats.
    pub(super) const TEXTS: &[Self] = &[Self::Prometheus, Self::OpenMetrics];
    /// All formats.
    pub(super) const ALL: &[Self] = &[Self::Prometheus, Self::OpenMetrics, Self::Protobuf];

    /// Of these formats, the one that a scraper's `Accept` header likes best.
    pub(super) fn wanted(accept: &str, of: &[Self]) -> Self {
        let mut best = (0.0, Self::Prometheus);
        for (quality, format) in accept.split(',').filter_map(Self::accepted) {
            if quality > best.0 && of.contains(&format) {
                best = (quality, format);
            }
        }
        best.1
    }

    /// A part of an `Accept` header: a format, and how much it is liked.
    fn accepted(part: &str) -> Option<(f64, Self)> {
        let mut parts = part.split(';').map(str::trim);
        let kind = parts.next()?;
        let mut quality = 1.0;
        let mut is_delimited = false;
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => quality = value.trim().parse().ok()?,
                "encoding" => is_delimited = value.trim() == "delimited",
                _ => {}
            }
        }
        let format = match kind {
            "text/plain" => Self::Prometheus,
            "application/openmetrics-text" => Self::OpenMetrics,
            "application/vnd.google.protobuf" if is_delimited => Self::Protobuf,
            _ => return None,
        };
        Some((quality, format))
    }

    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }

    /// The families as text.
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
            Self::OpenMetrics => name.to_owned(),
            _ => format!("{name}{suffix}"),
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

pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_what_it_likes_best() {
        let old = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.6,*/*;q=0.1";
        let later = "application/openmetrics-text; version=1.0.0; escaping=allow-utf-8;q=0.5, application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited ;q=0.7,text/plain;version=1.0.0;q=0.2";
        for (accept, of_all, of_texts) in [
            (old, Exposition::OpenMetrics, Exposition::OpenMetrics),
            (native, Exposition::Protobuf, Exposition::OpenMetrics),
            (later, Exposition::Protobuf, Exposition::OpenMetrics),
            (
                "text/plain, application/openmetrics-text;q=0.1",
                Exposition::Prometheus,
                Exposition::Prometheus,
            ),
            (
                "application/vnd.google.protobuf;encoding=text",
                Exposition::Prometheus,
                Exposition::Prometheus,
            ),
            ("application/openmetrics-text;q=0", Exposition::Prometheus, Exposition::Prometheus),
            ("application/openmetrics-text;q=x", Exposition::Prometheus, Exposition::Prometheus),
            ("text/html,*/*;q=0.8", Exposition::Prometheus, Exposition::Prometheus),
            ("", Exposition::Prometheus, Exposition::Prometheus),
        ] {
            assert_eq!(Exposition::wanted(accept, Exposition::ALL), of_all, "{accept}");
            assert_eq!(Exposition::wanted(accept, Exposition::TEXTS), of_texts, "{accept}");
        }
    }
}
