//! Facts that an agent reports about itself: a small JSON object. It is shown with every status, so
//! its shape and the total size of all agents' facts are limited.

use serde_json::Value;

/// Maximum depth of nested objects and lists.
const DEPTH: usize = 6;
/// Maximum number of values.
const VALUES: usize = 4096;
/// Maximum bytes of a key or a text.
const TEXT_BYTES: usize = 4096;
/// Approximate memory of a value besides its text.
const VALUE_BYTES: usize = 96;

/// Why facts are not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FactsError {
    Malformed,
    TooLarge,
}

/// Facts and the memory that they use.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Facts {
    pub(crate) value: Value,
    pub(crate) bytes: usize,
}

impl Facts {
    /// Parses facts. The caller limits the length of the text.
    pub(crate) fn read(text: &[u8]) -> Result<Self, FactsError> {
        let value: Value = serde_json::from_slice(text).map_err(|_| FactsError::Malformed)?;
        if !value.is_object() {
            return Err(FactsError::Malformed);
        }
        let mut size = Size::default();
        size.add(&value, DEPTH).ok_or(FactsError::TooLarge)?;
        Ok(Self { value, bytes: size.bytes })
    }
}

#[derive(Default)]
struct Size {
    values: usize,
    bytes: usize,
}

impl Size {
    /// Adds a value. Returns nothing if a limit is exceeded.
    fn add(&mut self, value: &Value, depth: usize) -> Option<()> {
        self.values += 1;
        self.bytes += VALUE_BYTES;
        if self.values > VALUES {
            return None;
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(()),
            Value::String(text) => self.text(text),
            Value::Array(values) => {
                let depth = depth.checked_sub(1)?;
                values.iter().try_for_each(|value| self.add(value, depth))
            }
            Value::Object(fields) => {
                let depth = depth.checked_sub(1)?;
                fields.iter().try_for_each(|(key, value)| {
                    self.text(key)?;
                    self.add(value, depth)
                })
            }
        }
    }

    fn text(&mut self, text: &str) -> Option<()> {
        self.bytes += text.len();
        (text.len() <= TEXT_BYTES).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_of_agents_fit_and_bombs_do_not() {
        let counters: serde_json::Map<String, Value> =
            (0..500).map(|number| (format!("counter_{number}"), number.into())).collect();
        let usual =
            json!({ "host": "a", "hook": "x", "counters": counters, "plugins": [{"a": 1}] });
        let read = Facts::read(usual.to_string().as_bytes()).unwrap();
        assert_eq!(read.value, usual);
        assert!(read.bytes < 100_000, "{}", read.bytes);
        let many = json!({ "a": vec![0; VALUES] });
        let deep = format!("{}1{}", "{\"a\":".repeat(DEPTH + 1), "}".repeat(DEPTH + 1));
        let long = json!({ "a": "x".repeat(TEXT_BYTES + 1) });
        for bomb in [many.to_string(), deep, long.to_string()] {
            assert_eq!(Facts::read(bomb.as_bytes()), Err(FactsError::TooLarge));
        }
        for wrong in ["[]", "1", "{", ""] {
            assert_eq!(Facts::read(wrong.as_bytes()), Err(FactsError::Malformed));
        }
    }
}
