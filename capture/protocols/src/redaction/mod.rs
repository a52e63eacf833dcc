//! Removes secrets from what leaves the host. Parsers leave out the bytes that a protocol defines
//! as values. Free-form text that they show (addresses, names, error messages) passes through this
//! module. docs/redaction.md describes the result.
//!
//! If there is nothing to remove, which is nearly always the case, a function returns its input
//! without a copy. No function fails, whatever the input.

mod names;
mod paths;
mod prose;
mod shapes;
mod url;

use std::borrow::Cow;
use std::str::FromStr;

#[cfg(feature = "plugins")]
pub(crate) use self::names::{Secrecy, secrecy};
pub(crate) use self::paths::{keyed_name, path};
pub(crate) use self::prose::{client_name, own_words, prose, without_quoted, without_values};
pub(crate) use self::shapes::is_known_token;
pub(crate) use self::url::{authority_end, host_of, query};

/// Replaces a secret value, following the OpenTelemetry conventions.
pub(crate) const REDACTED: &str = "REDACTED";

/// Maximum layers of percent-encoding that are decoded.
const MAX_LAYERS: usize = 4;

/// What the operator hides in addition to secrets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hidden {
    /// Keys of Redis and Memcached.
    pub keys: bool,
    /// Error messages; the kind of error is kept.
    pub errors: bool,
}

impl FromStr for Hidden {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut hidden = Self::default();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "keys" => hidden.keys = true,
                "errors" => hidden.errors = true,
                other => {
                    return Err(format!("`{other}` cannot be hidden; write keys, errors or both"));
                }
            }
        }
        Ok(hidden)
    }
}

/// Redacts an owned text, without a copy if it has no secrets.
pub(crate) fn owned(text: String, redact: impl FnOnce(&str) -> Cow<'_, str>) -> String {
    let kept = match redact(&text) {
        Cow::Borrowed(same) if same.len() == text.len() => None,
        other => Some(other.into_owned()),
    };
    kept.unwrap_or(text)
}

/// Redacts a text that is compared with others, such as a message id. Such a text may look random,
/// so only known secrets are removed.
pub(crate) fn identifier(text: String) -> String {
    let random = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if random(&text) && !is_known_token(text.as_bytes()) { text } else { owned(text, prose) }
}

/// Whether a text contains a secret, also below layers of percent-encoding.
fn hides_secret(text: &str) -> bool {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MAX_LAYERS {
        let changed = |kept: Cow<'_, str>| matches!(kept, Cow::Owned(_));
        if changed(prose(&text)) || changed(url::pairs(&text)) || changed(paths::plain_path(&text))
        {
            return true;
        }
        match decoded(&text) {
            Some(further) => text = Cow::Owned(further),
            None => return false,
        }
    }
    // Text with this many layers of encoding is treated as hiding something.
    true
}

/// Removes one layer of percent-encoding; `None` if there is none.
fn decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    memchr::memchr(b'%', bytes)?;
    let mut found = Vec::with_capacity(bytes.len());
    let (mut at, mut any) = (0, false);
    while at < bytes.len() {
        let digit =
            |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        match (bytes[at], digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                found.push((high * 16 + low) as u8);
                any = true;
                at += 3;
            }
            (byte, ..) => {
                found.push(byte);
                at += 1;
            }
        }
    }
    any.then(|| String::from_utf8_lossy(&found).into_owned())
}

/// Rebuilds a text when something is removed from it.
struct Rewriter<'a> {
    text: &'a str,
    kept: String,
    copied: usize,
}

impl<'a> Rewriter<'a> {
    const fn of(text: &'a str) -> Self {
        Self { text, kept: String::new(), copied: 0 }
    }

    /// Replaces a part, which must come after all parts replaced so far.
    fn replace(&mut self, from: usize, to: usize, by: &str) {
        if from < self.copied || to < from {
            return;
        }
        self.kept.push_str(&self.text[self.copied..from]);
        self.kept.push_str(by);
        self.copied = to;
    }

    /// End of the last replaced part.
    const fn done(&self) -> usize {
        self.copied
    }

    fn finish(mut self) -> Cow<'a, str> {
        if self.copied == 0 {
            return Cow::Borrowed(self.text);
        }
        self.kept.push_str(&self.text[self.copied..]);
        Cow::Owned(self.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_messages_stay_however_random_they_look() {
        for id in ["c-1", "9f86d081884c7d65", "0aF3kQ9xZ2LmN8pR5tV7wYbC", "a b", ""] {
            assert_eq!(identifier(id.to_owned()), id);
        }
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
        assert_eq!(identifier(token.to_owned()), REDACTED);
        assert_eq!(identifier("token=abc".to_owned()), "token=REDACTED");
    }

    /// Measures the cost of finding nothing: `cargo test --release -- --ignored --nocapture cost`.
    #[test]
    #[ignore = "a measurement"]
    fn cost() {
        const TIMES: u32 = 2_000_000;
        let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0";
        type Filter = fn(&str) -> Cow<'_, str>;
        let cases: [(&str, &str, Filter); 7] = [
            ("path of words", "/api/v1/orders/items", path),
            ("path with numbers", "/api/v1/orders/4711/items/42", path),
            ("path with a UUID", "/u/550e8400-e29b-41d4-a716-446655440000/profile", path),
            ("query", "page=2&limit=50&sort=-price", query),
            ("key", "cart:4711:items", keyed_name),
            ("user agent", agent, client_name),
            ("error", "HTTP 404", prose),
        ];
        for (what, text, redact) in cases {
            let begun = std::time::Instant::now();
            for _ in 0..TIMES {
                std::hint::black_box(redact(std::hint::black_box(text)));
            }
            let nanos = begun.elapsed().as_nanos() / u128::from(TIMES);
            println!("{what}: {nanos} ns");
        }
    }

    #[test]
    fn what_is_left_out_has_a_name() {
        assert_eq!("keys, errors".parse(), Ok(Hidden { keys: true, errors: true }));
        assert_eq!("errors".parse(), Ok(Hidden { keys: false, errors: true }));
        assert_eq!("".parse(), Ok(Hidden::default()));
        assert!("bodies".parse::<Hidden>().unwrap_err().contains("`bodies`"));
    }

    #[test]
    fn layers_of_encoding_are_taken_off() {
        assert_eq!(decoded("a%3Db%2").as_deref(), Some("a=b%2"));
        assert_eq!(decoded("100% sure"), None);
        assert_eq!(decoded("plain"), None);
    }
}
