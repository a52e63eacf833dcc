//! Business keys in requests and messages. They are read from what passed, before secrets are
//! removed. Without rules, nothing is looked at.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use spanwise_keys::{BODY_BYTES, Carrier, KeyRules, SpanKey};

use crate::sessions::Conversation;

/// The most different keys of one name that a request or a batch of messages has.
const MAX_KEYS: usize = 8;

/// The rules, for parsers.
#[derive(Debug, Clone, Default)]
pub struct Keys(Arc<KeyRules>);

impl Keys {
    /// Rules that parsers follow.
    pub const fn new(rules: Arc<KeyRules>) -> Self {
        Self(rules)
    }

    /// The keys in this.
    pub(crate) fn of(&self, carrier: &dyn Carrier) -> Vec<SpanKey> {
        let mut keys = Vec::new();
        if !self.is_empty() {
            self.add(carrier, &mut keys);
        }
        keys
    }

    /// Adds the keys of one of several messages.
    pub(crate) fn add_message(&self, message: &Message<'_>, to: &mut Vec<SpanKey>) {
        for key in self.of(message) {
            let others = to.iter().filter(|other| other.rule == key.rule);
            if others.count() < MAX_KEYS && !to.contains(&key) {
                to.push(key);
            }
        }
    }
}

impl Deref for Keys {
    type Target = KeyRules;

    fn deref(&self) -> &KeyRules {
        &self.0
    }
}

impl Conversation<'_> {
    /// The rules of keys.
    pub(crate) fn keys(&mut self) -> Keys {
        self.memory.of::<Keys>().clone()
    }

    /// Looks for further keys of the request that is being sent.
    pub(crate) fn look_for_keys(&mut self, carrier: &dyn Carrier) {
        let rules = self.keys();
        let Some(exchange) = self.uploading() else { return };
        let mut keys = exchange.request.keys.clone();
        let before = keys.len();
        rules.add(carrier, &mut keys);
        if keys.len() > before {
            self.change_request(|request| request.keys = keys);
        }
    }
}

fn utf8(bytes: &[u8]) -> Option<Cow<'_, str>> {
    std::str::from_utf8(bytes).ok().map(Cow::Borrowed)
}

/// A path and its query, as they were sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PathAndQuery<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) query: Option<&'a [u8]>,
}

impl<'a> PathAndQuery<'a> {
    pub(crate) fn path(self) -> Option<&'a str> {
        std::str::from_utf8(self.path).ok().filter(|path| !path.is_empty())
    }

    pub(crate) fn query(self) -> Option<&'a str> {
        std::str::from_utf8(self.query?).ok()
    }
}

/// The value of a header, of headers as they were sent.
pub(crate) fn header<'a>(
    mut headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    name: &str,
) -> Option<Cow<'a, str>> {
    let (_, value) = headers.find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))?;
    utf8(value)
}

/// A message of a broker.
#[derive(Debug, Default)]
pub(crate) struct Message<'a> {
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) headers: Vec<(&'a [u8], &'a [u8])>,
    /// What there is of its body.
    pub(crate) body: &'a [u8],
}

impl Carrier for Message<'_> {
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        header(self.headers.iter().copied(), name)
    }

    fn bodies(&self) -> Vec<&[u8]> {
        vec![self.body]
    }

    fn message_key(&self) -> Option<Cow<'_, str>> {
        utf8(self.key?)
    }
}

/// The beginning of a request's body, if keys are looked for in it.
#[derive(Debug, Default)]
pub(crate) struct BodyPrefix(Option<Vec<u8>>);

impl BodyPrefix {
    /// Nothing is looked for.
    pub(crate) const NONE: Self = Self(None);

    /// A body begins.
    pub(crate) fn begin(&mut self) {
        self.0 = Some(Vec::new());
    }

    /// Adds what comes next. What is no JSON is not kept.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let Some(kept) = &mut self.0 else { return };
        let begins = bytes.trim_ascii_start().first();
        if kept.is_empty() && begins.is_some_and(|byte| !matches!(byte, b'{' | b'[')) {
            self.0 = None;
            return;
        }
        let room = BODY_BYTES - kept.len();
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Whether no more of it is kept.
    pub(crate) fn is_full(&self) -> bool {
        self.0.as_ref().is_some_and(|kept| kept.len() == BODY_BYTES)
    }

    /// Whether a body is kept.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// What there is of it, to look into; it ends here.
    pub(crate) fn finish(&mut self) -> Option<Self> {
        let kept = self.0.take().filter(|kept| !kept.is_empty());
        kept.map(|kept| Self(Some(kept)))
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::capacity)
    }
}

impl Carrier for BodyPrefix {
    fn bodies(&self) -> Vec<&[u8]> {
        self.0.iter().map(Vec::as_slice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_json_is_kept_up_to_a_bound() {
        let mut body = BodyPrefix::NONE;
        body.add(b"{");
        assert!(body.finish().is_none());
        body.begin();
        body.add(b"  {\"a\":");
        body.add(b"1}");
        assert_eq!(body.finish().expect("a body").bodies(), [b"  {\"a\":1}"]);
        assert!(!body.is_wanted());
        body.begin();
        body.add(b"a=1");
        assert!(!body.is_wanted());
        body.begin();
        body.add(&vec![b'['; BODY_BYTES - 1]);
        assert!(!body.is_full());
        body.add(b"[[[");
        assert!(body.is_full());
        assert_eq!(body.bodies()[0].len(), BODY_BYTES);
    }
}
