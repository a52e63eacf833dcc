//! The business keys that a span shows, and what it then hides.

use std::borrow::Cow;

use spanwise_keys::{KeyRules, SpanKey};
use spanwise_model::{AttributeRef, AttributeValue, RowWriter};

/// Stands for a key that is hashed.
pub(crate) const REDACTED: &str = "REDACTED";
/// Shorter keys are only hidden where they stand alone: any text has such letters.
const SHORT: usize = 4;

/// The keys of a span.
#[derive(Debug, Default)]
pub(crate) struct ShownKeys<'a> {
    /// As attributes.
    pub(crate) attributes: Vec<(&'a str, AttributeValue)>,
    /// Texts that the span must not have, the longest first.
    pub(crate) hidden: Vec<&'a str>,
}

impl<'a> ShownKeys<'a> {
    /// The keys of a span of this service. Of several rules for one name, the first that applies
    /// counts.
    pub(crate) fn of<S: AsRef<str>>(
        keys: &'a [SpanKey],
        rules: &'a KeyRules,
        service: impl FnOnce() -> S,
    ) -> Self {
        let needs_service =
            |key: &SpanKey| rules.rules().get(key.rule).is_some_and(|rule| rule.service.is_some());
        let service = keys.iter().any(needs_service).then(service);
        let service = service.as_ref().map(AsRef::as_ref);
        let mut found: Vec<(&'a str, usize, Vec<&'a str>)> = Vec::new();
        let mut hidden = Vec::new();
        let mut order: Vec<&SpanKey> = keys.iter().collect();
        order.sort_by_key(|key| key.rule);
        for key in order {
            let Some(rule) = rules.rules().get(key.rule) else { continue };
            if rule.service.as_deref().is_some_and(|of| service != Some(of)) {
                continue;
            }
            let name = rules.attribute(key.rule);
            match found.iter_mut().find(|(known, ..)| *known == name) {
                // Several messages.
                Some((_, rule, values)) if *rule == key.rule => {
                    let shown = key.shown.as_str();
                    if !values.contains(&shown) {
                        values.push(shown);
                    }
                }
                Some(_) => {}
                None => found.push((name, key.rule, vec![&key.shown])),
            }
            hidden.extend(key.hidden.iter().map(String::as_str));
        }
        hidden.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
        let attributes = found.into_iter().map(|(name, _, values)| match values.as_slice() {
            [one] => (name, AttributeValue::String((*one).to_owned())),
            several => (name, AttributeValue::Json(serde_json::Value::from(several).to_string())),
        });
        Self { attributes: attributes.collect(), hidden }
    }

    /// A text without what must not be seen.
    pub(crate) fn hide<'t>(&self, text: &'t str, by: &str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        for hidden in &self.hidden {
            if shown.contains(hidden) {
                shown = Cow::Owned(replaced(&shown, hidden, by));
            }
        }
        shown
    }

    /// Writes an attribute without what must not be seen.
    pub(crate) fn tell(&self, key: &str, value: AttributeRef<'_>, row: &mut RowWriter<'_>) {
        if self.hidden.is_empty() {
            return row.attribute(key, value);
        }
        let shown;
        let value = match value {
            AttributeRef::String(text) => {
                shown = self.hide(text, REDACTED);
                AttributeRef::String(&shown)
            }
            AttributeRef::Json(text) => {
                shown = self.hide(text, REDACTED);
                AttributeRef::Json(&shown)
            }
            other => other,
        };
        row.attribute(key, value);
    }
}

fn replaced(text: &str, hidden: &str, by: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(hidden) {
        let (before, from) = rest.split_at(at);
        let after = &from[hidden.len()..];
        let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let last = before.chars().next_back().or_else(|| shown.chars().next_back());
        let is_alone = !is_word(last) && !is_word(after.chars().next());
        shown.push_str(before);
        shown.push_str(if is_alone || hidden.len() >= SHORT { by } else { hidden });
        rest = after;
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use spanwise_keys::{KeyHash, KeyRule};

    use super::*;

    fn rule(name: &str, service: Option<&str>) -> KeyRule {
        let places = vec!["message-key".parse().expect("a place")];
        KeyRule { name: name.into(), places, service: service.map(str::to_owned), hash: false }
    }

    fn key(rule: usize, shown: &str) -> SpanKey {
        SpanKey { rule, shown: shown.to_owned(), hidden: Vec::new() }
    }

    #[test]
    fn rules_are_of_a_service_and_several_messages_are_a_list() {
        let rules = vec![rule("order", Some("a")), rule("order", None), rule("user", None)];
        let rules = KeyRules::new(rules, KeyHash::new(b"")).expect("are rules");
        let keys = [key(2, "u"), key(1, "7"), key(0, "5"), key(0, "6")];
        let shown = |service: &str| -> Vec<(String, String)> {
            let shown = ShownKeys::of(&keys, &rules, || service);
            let text = |(name, value): (&str, AttributeValue)| (name.to_owned(), value.to_string());
            shown.attributes.into_iter().map(text).collect()
        };
        let attribute = |name: &str, text: &str| (format!("spanwise.key.{name}"), text.to_owned());
        let user = attribute("user", "u");
        assert_eq!(shown("a"), [attribute("order", "[\"5\",\"6\"]"), user.clone()]);
        assert_eq!(shown("b"), [attribute("order", "7"), user]);
    }

    #[test]
    fn what_is_hidden_is_nowhere() {
        let hide = |hidden: &[&str], text: &str| {
            let keys = ShownKeys { attributes: Vec::new(), hidden: hidden.to_vec() };
            keys.hide(text, "?").into_owned()
        };
        assert_eq!(hide(&["4711"], "/orders/4711/x47110"), "/orders/?/x?0");
        assert_eq!(hide(&["47%2F1", "47/1"], "/o/47%2F1 of 47/1"), "/o/? of ?");
        assert_eq!(hide(&["1"], "HTTP/1.1 order 11 and x1, 1"), "HTTP/?.? order 11 and x1, ?");
        assert_eq!(hide(&["é"], "é"), "?");
        assert_eq!(hide(&[], "same"), "same");
    }
}
