//! `[[key]]`: where business keys are found.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spanwise_keys::{KeyHash, KeyRule, KeyRules, Place};

use super::table::KEY;
use crate::failure::Failure;

/// One `[[key]]`, as it is written.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(super) struct KeyTable {
    #[serde(default)]
    name: String,
    /// A text, or a list of texts.
    #[serde(default)]
    place: serde_json::Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(default)]
    hash: bool,
}

impl KeyTable {
    fn rule(self) -> Result<KeyRule, String> {
        let Self { name, place, service, hash } = self;
        let wrong = || {
            format!(
                "[[{KEY}]] \"{name}\": `place` must be a text or a list of texts, such as place = \
                 [\"header:x-order-id\", \"path:/orders/{{key}}\"]"
            )
        };
        let texts = match place {
            serde_json::Value::Null => Vec::new(),
            serde_json::Value::Array(texts) => texts,
            text => vec![text],
        };
        let mut places = Vec::with_capacity(texts.len());
        for text in &texts {
            let text = text.as_str().ok_or_else(wrong)?;
            let place = text.parse::<Place>();
            places.push(place.map_err(|error| format!("[[{KEY}]] \"{name}\": {error}"))?);
        }
        if service.as_deref() == Some("") {
            return Err(format!(
                "[[{KEY}]] \"{name}\": `service` is empty; leave it out for all services"
            ));
        }
        Ok(KeyRule { name, places, service, hash })
    }
}

/// The checked rules.
pub(super) fn rules(tables: Vec<KeyTable>) -> Result<Vec<KeyRule>, String> {
    let rules = tables.into_iter().map(KeyTable::rule).collect::<Result<Vec<_>, _>>()?;
    KeyRules::new(rules.clone(), None).map_err(|error| format!("[[{KEY}]]: {error}"))?;
    Ok(rules)
}

/// The rules, and the file of the secret.
#[derive(Debug, Clone)]
pub(crate) struct KeyConfig {
    pub(crate) rules: Vec<KeyRule>,
    pub(crate) secret_file: Option<PathBuf>,
}

impl KeyConfig {
    /// The rules with the secret, if there is a file of it. Without one, keys cannot be hashed.
    ///
    /// # Errors
    /// If the file cannot be read, or its secret can be guessed.
    pub(crate) fn load(&self) -> Result<KeyRules, Failure> {
        let hash = self.secret_file.as_deref().map(secret).transpose()?;
        KeyRules::new(self.rules.clone(), hash).map_err(|error| Failure::Usage(error.to_string()))
    }

    /// The rules for an agent, which stores no key that it cannot hash.
    ///
    /// # Errors
    /// The errors of [`Self::load`], and if there is no secret although a rule hashes.
    pub(crate) fn load_for_agent(&self) -> Result<KeyRules, Failure> {
        let rules = self.load()?;
        if !rules.lacks_secret() {
            return Ok(rules);
        }
        let name = rules.rules().iter().find(|rule| rule.hash).map_or("", |rule| &rule.name);
        Err(Failure::Usage(format!(
            "[[{KEY}]] \"{name}\" has hash = true, but there is no secret to hash with; write one \
             with `spanwise key secret > FILE`, and name the file: key_secret_file = \"FILE\" \
             (--key-secret-file)"
        )))
    }
}

/// Reads the secret. Spaces and line ends around it do not count.
fn secret(path: &Path) -> Result<KeyHash, Failure> {
    let file = path.display();
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::Usage(format!("cannot read key_secret_file {file}: {error}")))?;
    if let Ok(metadata) = std::fs::metadata(path)
        && metadata.mode() & 0o077 != 0
    {
        tracing::warn!("other users may read the secret in {file}; chmod 600 {file}");
    }
    KeyHash::new(bytes.trim_ascii()).ok_or_else(|| {
        Failure::Usage(format!(
            "the secret in key_secret_file {file} has fewer than {} bytes and can be guessed; \
             write another one with `spanwise key secret > FILE`",
            KeyHash::SHORTEST_SECRET
        ))
    })
}
