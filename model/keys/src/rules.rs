//! How keys are found, hidden and stored.

use std::fmt;

use crate::body;
use crate::carrier::Carrier;
use crate::hash::KeyHash;
use crate::place::Place;

/// The part of a body in which a key is looked for, in bytes.
pub const BODY_BYTES: usize = body::LONGEST;
/// What the names of attributes with keys begin with.
pub const ATTRIBUTE_PREFIX: &str = "spanwise.key.";
/// The longest name of a key in bytes.
const LONGEST_NAME: usize = 64;
/// The most rules: each span is held against all of them.
const MOST_RULES: usize = 64;
/// The most places of a rule.
const MOST_PLACES: usize = 32;

/// The attribute that holds keys of this name.
pub fn attribute_of(name: &str) -> String {
    format!("{ATTRIBUTE_PREFIX}{name}")
}

/// How keys of one name are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRule {
    /// What the key is called, such as `order`.
    pub name: String,
    /// Where it may be, the best place first. Bodies are looked at last.
    pub places: Vec<Place>,
    /// Only spans of this service.
    pub service: Option<String>,
    /// Whether a hash replaces it.
    pub hash: bool,
}

/// Why rules cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleError {
    /// There are too many.
    TooMany,
    /// A name is not one.
    Name(String),
    /// A rule has no place, or too many.
    Places(String),
    /// Rules of one name differ in whether they hash.
    Mixed(String),
}

impl fmt::Display for RuleError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(out, "there are more than {MOST_RULES} rules of keys"),
            Self::Name(name) => write!(
                out,
                "`{name}` is no name of a key; write up to {LONGEST_NAME} of a-z, 0-9, `-`, `_` \
                 and `.`, such as order"
            ),
            Self::Places(name) => write!(
                out,
                "the key `{name}` has no place, or more than {MOST_PLACES}; add one, such as place \
                 = \"header:x-order-id\""
            ),
            Self::Mixed(name) => write!(
                out,
                "one rule of the key `{name}` has hash = true and another has not; give all of \
                 them the same, or the key is in spans after all"
            ),
        }
    }
}

impl std::error::Error for RuleError {}

/// A key of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanKey {
    /// The place of its rule in [`KeyRules::rules`].
    pub rule: usize,
    /// What is stored: the key, or its hash.
    pub shown: String,
    /// If a hash replaces the key: the forms of the key that nobody may see.
    pub hidden: Vec<String>,
}

impl SpanKey {
    /// Bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        let hidden: usize = self.hidden.iter().map(|text| size_of::<String>() + text.len()).sum();
        size_of::<Self>() + self.shown.len() + hidden
    }
}

/// All rules, with the secret of those that hash.
#[derive(Debug, Clone, Default)]
pub struct KeyRules {
    rules: Vec<KeyRule>,
    attributes: Vec<String>,
    /// Headers that may hold a key, in lower case, each once.
    headers: Vec<String>,
    hash: Option<KeyHash>,
}

impl KeyRules {
    /// These rules.
    ///
    /// # Errors
    /// If a rule cannot be used.
    pub fn new(mut rules: Vec<KeyRule>, hash: Option<KeyHash>) -> Result<Self, RuleError> {
        if rules.len() > MOST_RULES {
            return Err(RuleError::TooMany);
        }
        let mut headers = Vec::new();
        for rule in &mut rules {
            let is_part = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte)
            };
            let name = &rule.name;
            if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_part) {
                return Err(RuleError::Name(name.chars().take(LONGEST_NAME).collect()));
            }
            if rule.places.is_empty() || rule.places.len() > MOST_PLACES {
                return Err(RuleError::Places(name.clone()));
            }
            rule.places.sort_by_key(Place::is_body);
            for place in &rule.places {
                let header = match place {
                    Place::Header(name) => name.as_str(),
                    Place::Baggage(_) => "baggage",
                    _ => continue,
                };
                if !headers.iter().any(|known| known == header) {
                    headers.push(header.to_owned());
                }
            }
        }
        for rule in &rules {
            if rules.iter().any(|other| other.name == rule.name && other.hash != rule.hash) {
                return Err(RuleError::Mixed(rule.name.clone()));
            }
        }
        let attributes = rules.iter().map(|rule| attribute_of(&rule.name)).collect();
        Ok(Self { rules, attributes, headers, hash })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, in the order in which they were given.
    pub fn rules(&self) -> &[KeyRule] {
        &self.rules
    }

    /// The rule of this name.
    pub fn named(&self, name: &str) -> Option<&KeyRule> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    /// The attribute in which keys of this rule are stored.
    pub fn attribute(&self, rule: usize) -> &str {
        self.attributes.get(rule).map_or("", String::as_str)
    }

    /// Headers that may hold a key, in lower case.
    pub fn headers(&self) -> &[String] {
        &self.headers
    }

    /// Whether a body may hold a key.
    pub fn reads_bodies(&self) -> bool {
        self.rules.iter().any(|rule| rule.places.iter().any(Place::is_body))
    }

    /// Whether there is a secret, so that keys can be hashed.
    pub const fn has_secret(&self) -> bool {
        self.hash.is_some()
    }

    /// Whether a rule needs a secret and there is none.
    pub fn lacks_secret(&self) -> bool {
        self.hash.is_none() && self.rules.iter().any(|rule| rule.hash)
    }

    /// The form in which a key of this name is stored, and searched for; `None` if it is hashed and
    /// there is no secret.
    pub fn shown(&self, name: &str, key: &str) -> Option<String> {
        match self.named(name) {
            Some(rule) if rule.hash => Some(self.hash.as_ref()?.hash(name, key)),
            _ => Some(key.to_owned()),
        }
    }

    /// The key of one rule in this. `Err` if there is one that cannot be stored, because there is
    /// no secret to hash it with.
    pub fn find(&self, rule: usize, carrier: &dyn Carrier) -> Result<Option<SpanKey>, Unhashed> {
        let Some(KeyRule { name, places, hash, .. }) = self.rules.get(rule) else {
            return Ok(None);
        };
        let Some(found) = places.iter().find_map(|place| place.find(carrier)) else {
            return Ok(None);
        };
        if !hash {
            return Ok(Some(SpanKey { rule, shown: found.text, hidden: Vec::new() }));
        }
        let Some(with) = &self.hash else { return Err(Unhashed) };
        let shown = with.hash(name, &found.text);
        let hidden = std::iter::once(found.text).chain(found.written).collect();
        Ok(Some(SpanKey { rule, shown, hidden }))
    }

    /// The keys in this of rules of which none is known yet. What cannot be hashed is left out.
    pub fn add(&self, carrier: &dyn Carrier, to: &mut Vec<SpanKey>) {
        for rule in 0..self.rules.len() {
            if to.iter().all(|key| key.rule != rule)
                && let Ok(Some(key)) = self.find(rule, carrier)
            {
                to.push(key);
            }
        }
    }
}

/// A key was found that is to be hashed, and there is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unhashed;
