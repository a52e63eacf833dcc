//! Query parameters, as Zipkin's server reads them: unknown ones are ignored, and empty ones are
//! as good as absent.

use super::Failure;

/// Names and values in their order.
pub(super) type Pairs = Vec<(String, String)>;

/// See the module.
pub(super) struct Parameters(Pairs);

impl Parameters {
    pub(super) const fn new(pairs: Pairs) -> Self {
        Self(pairs)
    }

    /// The first value of this name that is not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, value)| n == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    /// A value that must be there.
    pub(super) fn required(&self, name: &str) -> Result<&str, Failure> {
        self.text(name).ok_or_else(|| Failure::invalid(format!("{name} is missing")))
    }

    /// A whole number above zero.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let shown: String = text.chars().take(64).collect();
        match text.parse::<i64>() {
            Ok(number) if number > 0 => Ok(Some(number)),
            Ok(_) => Err(Failure::invalid(format!("{name} <= 0"))),
            Err(_) => Err(Failure::invalid(format!("{name} is `{shown}`; write a whole number"))),
        }
    }
}
