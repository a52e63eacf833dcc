//! Metrics by name.

use std::collections::BTreeMap;

use serde_json::Number;
use spanwise_api::Count;

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Never decreases; written with the suffix `_total`.
    Counter,
    Gauge,
}

/// All samples with one name.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) kind: Kind,
    pub(super) help: String,
    /// Values by labels, which have a fixed order.
    pub(super) samples: BTreeMap<Vec<(String, String)>, Number>,
}

/// Families by name, without `_total`.
#[derive(Debug, Default)]
pub(super) struct Families(pub(super) BTreeMap<String, Family>);

impl Families {
    /// Adds a sample, if there is a number.
    pub(super) fn put(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        labels: &[(&str, &str)],
        value: impl Into<Sample>,
    ) {
        let Some(number) = value.into().0 else { return };
        let family = self.0.entry(name.to_owned()).or_insert_with(|| Family {
            kind,
            help: help.to_owned(),
            samples: BTreeMap::new(),
        });
        let labels =
            labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        // Agents choose the names of their counters, and may use the name of a metric with another
        // type.
        if family.kind == kind {
            family.samples.insert(labels, number);
        }
    }
}

/// The number of a sample; `None` if unknown.
pub(super) struct Sample(Option<Number>);

impl From<Count> for Sample {
    fn from(count: Count) -> Self {
        Self(Some(count.0.into()))
    }
}

impl From<u64> for Sample {
    fn from(count: u64) -> Self {
        Self(Some(count.into()))
    }
}

impl From<bool> for Sample {
    fn from(is_so: bool) -> Self {
        u64::from(is_so).into()
    }
}

impl From<f64> for Sample {
    fn from(number: f64) -> Self {
        Self(Number::from_f64(number))
    }
}

impl<T: Into<Self>> From<Option<T>> for Sample {
    fn from(number: Option<T>) -> Self {
        number.map_or(Self(None), Into::into)
    }
}

/// Maximum length of a part of a name. Agents choose names, too.
const NAME_MAX: usize = 100;

/// The text as part of a metric's name.
pub(super) fn metric_name(text: &str) -> String {
    // The suffix is added when counters are written.
    let text = text.strip_suffix("_total").unwrap_or(text);
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    text.chars().take(NAME_MAX).map(allowed).collect()
}
