//! Names with several parts: URL paths, keys, topics, subjects. A part is a secret because of the
//! part before it, or because it looks like one.

use std::borrow::Cow;

use super::{REDACTED, Rewriter, hides_secret, prose, shapes, url};

/// Maximum length of a word that is checked.
const MAX_WORD_BYTES: usize = 13;

/// Whether an ordinary part after this lower-case word may be a secret: password-reset links,
/// session keys.
const fn announces_secrets(word: &[u8]) -> bool {
    matches!(
        word,
        b"reset"
            | b"resets"
            | b"password"
            | b"passwords"
            | b"passwd"
            | b"passphrase"
            | b"activate"
            | b"token"
            | b"tokens"
            | b"invite"
            | b"invites"
            | b"invitation"
            | b"invitations"
            | b"magic"
            | b"magiclink"
            | b"unsubscribe"
            | b"session"
            | b"sessions"
            | b"sess"
            | b"sessionid"
            | b"apikey"
            | b"apikeys"
            | b"secret"
            | b"secrets"
            | b"credential"
            | b"credentials"
            | b"jwt"
            | b"saml"
            | b"recover"
            | b"recovery"
            | b"unlock"
            | b"signature"
            | b"refresh"
            | b"csrf"
            | b"cookie"
            | b"bearer"
    ) || announces_numbers(word)
}

/// Whether numbers after this word are secrets as well.
const fn announces_numbers(word: &[u8]) -> bool {
    matches!(
        word,
        b"otp"
            | b"totp"
            | b"pin"
            | b"passcode"
            | b"verify"
            | b"verification"
            | b"confirm"
            | b"confirmation"
            | b"activation"
    )
}

/// Redacts the path of an address.
pub(crate) fn path(path: &str) -> Cow<'_, str> {
    redact(path, |byte| byte == b'/', true)
}

/// Like [`path`], without checking percent-encoded text.
pub(super) fn plain_path(path: &str) -> Cow<'_, str> {
    redact(path, |byte| matches!(byte, b'/' | b'?'), false)
}

/// Redacts a key, topic or similar name, such as `session:a7Bc9d`.
pub(crate) fn keyed_name(name: &str) -> Cow<'_, str> {
    let separates = |byte| matches!(byte, b':' | b'/' | b'.' | b'|' | b'{' | b'}');
    // As in any text, a name may contain an address or a JSON Web Token.
    if memchr::memchr3(b'=', b'@', b'J', name.as_bytes()).is_none() {
        return redact(name, separates, false);
    }
    match prose(name) {
        Cow::Borrowed(same) => redact(same, separates, false),
        Cow::Owned(changed) => Cow::Owned(redact(&changed, separates, false).into_owned()),
    }
}

fn redact(name: &str, separates: impl Fn(u8) -> bool, encoded: bool) -> Cow<'_, str> {
    let bytes = name.as_bytes();
    // Most names have no special bytes and need no second check.
    let special = |byte: u8| matches!(byte, b';' | b'=' | b'@' | b'%' | b'#' | b'"');
    let (mut looks, mut length) = (false, 0usize);
    for byte in bytes {
        length = if separates(*byte) { 0 } else { length + 1 };
        looks |= special(*byte)
            || length >= 13
            || byte.is_ascii_digit() && length > 3
            || byte.is_ascii_uppercase() && length > 2
            || *byte >= 0x80;
    }
    if !looks {
        return Cow::Borrowed(name);
    }
    let mut kept = Rewriter::of(name);
    let mut from = 0;
    // Start of the first part after a word; determined on demand.
    let mut opened: Option<Opened> = None;
    // `//user:pw@host` names a host when it is sent to a proxy.
    if let Some(rest) = name.strip_prefix("//") {
        let end = rest.find('/').unwrap_or(rest.len());
        if let Some(at) = rest[..end].rfind('@') {
            kept.replace(2, 2 + at, REDACTED);
            from = 2 + at;
        }
    }
    loop {
        let end = bytes[from..].iter().position(|byte| separates(*byte));
        let end = end.map_or(bytes.len(), |end| from + end);
        let part = &name[from..end];
        if part.len() > 3 {
            part_of(part, from, encoded, &mut kept, || {
                let opened = opened.get_or_insert_default();
                opened.look(&bytes[..from], &separates);
                *opened
            });
        }
        if end == bytes.len() {
            return kept.finish();
        }
        from = end + 1;
    }
}

/// What the preceding parts indicate.
#[derive(Debug, Clone, Copy, Default)]
struct Opened {
    /// End of the parts checked so far.
    looked: usize,
    secrets: bool,
    numbers: bool,
}

impl Opened {
    fn look(&mut self, before: &[u8], separates: impl Fn(u8) -> bool) {
        for part in before[self.looked..].split(|byte| separates(*byte)) {
            let (secrets, numbers) = announces(part);
            self.secrets |= secrets;
            self.numbers |= numbers;
        }
        self.looked = before.len();
    }
}

/// Whether secrets follow a part, and whether numbers may be secrets, too.
fn announces(part: &[u8]) -> (bool, bool) {
    let mut found = (false, false);
    if part.len() < 3 || part.len() > 48 {
        return found;
    }
    let (mut word, mut length) = ([0; MAX_WORD_BYTES], 0);
    let mut after_small = false;
    for byte in part.iter().chain(b" ") {
        let ends = !byte.is_ascii_alphanumeric() || (after_small && byte.is_ascii_uppercase());
        if ends {
            if let Some(word) = word.get(..length) {
                found.0 |= announces_secrets(word);
                found.1 |= announces_numbers(word);
            }
            length = 0;
        }
        after_small = byte.is_ascii_lowercase();
        if byte.is_ascii_alphanumeric() {
            if let Some(place) = word.get_mut(length) {
                *place = byte.to_ascii_lowercase();
            }
            length += 1;
        }
    }
    found
}

fn part_of(
    part: &str,
    from: usize,
    encoded: bool,
    kept: &mut Rewriter<'_>,
    opened: impl FnOnce() -> Opened,
) {
    let bytes = part.as_bytes();
    let end = from + part.len();
    // Path parameters (`;jsessionid=`), and fragments that some clients send.
    let parameters = memchr::memchr3(b';', b'#', b'=', bytes);
    if let Some(at) = parameters.filter(|_| memchr::memchr(b'=', bytes).is_some()) {
        let at = if bytes[at] == b'=' { 0 } else { at };
        if let Cow::Owned(changed) = url::query(&part[at..]) {
            kept.replace(from + at, end, &changed);
            return;
        }
    }
    let name = &bytes[..parameters.unwrap_or(bytes.len())];
    if shapes::is_token(name) {
        kept.replace(from, end, REDACTED);
        return;
    }
    if !shapes::is_plain(name) || (name.len() > 3 && name.iter().all(u8::is_ascii_digit)) {
        let opened = opened();
        let number = name.iter().all(u8::is_ascii_digit);
        if (number && opened.numbers && name.len() <= 10) || (!number && opened.secrets) {
            kept.replace(from, end, REDACTED);
            return;
        }
    }
    if encoded && memchr::memchr2(b'%', b'@', bytes).is_some() && hides_secret(part) {
        kept.replace(from, end, REDACTED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_paths_go() {
        let cases = [
            ("/cart;jsessionid=0A1B2C3D?x", "/cart;jsessionid=REDACTED"),
            ("/cart;v=1;jsessionid=0A1B/items", "/cart;v=1;jsessionid=REDACTED/items"),
            ("/reset/c3x-9a8b7c", "/reset/REDACTED"),
            ("/reset-password/hunter2", "/reset-password/REDACTED"),
            ("/users/resetPassword/AbCdEf/done", "/users/resetPassword/REDACTED/done"),
            ("/reset/MQ/bkz2x1-9a8b7c6d/", "/reset/MQ/REDACTED/"),
            ("/verify/123456", "/verify/REDACTED"),
            ("/sessions/550e8400-e29b-41d4-a716-446655440000", "/sessions/REDACTED"),
            ("/x/SplxlOBeZQQYbYS6WxSbIA/y", "/x/REDACTED/y"),
            ("/t/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "/t/REDACTED"),
            ("//user:pw@host/a", "//REDACTED@host/a"),
            ("/fetch/https%3A%2F%2Fuser:pw%40h%2Fa", "/fetch/REDACTED"),
            ("/fetch/https%253A%252F%252Fh%253Ftoken%253Dx", "/fetch/REDACTED"),
            ("/a#access_token=x", "/a#access_token=REDACTED"),
            ("/login/password=hunter2", "/login/password=REDACTED"),
        ];
        for (text, expected) in cases {
            let text = text.split('?').next().unwrap_or_default();
            assert_eq!(path(text), expected, "{text}");
        }
    }

    #[test]
    fn other_paths_stay() {
        for text in [
            "",
            "/",
            "/orders/42/items/7",
            "/users/password/new",
            "/oauth/token",
            "/tokens/4711",
            "/sessions/42",
            "/api/v1/reset/v2",
            "/u/550e8400-e29b-41d4-a716-446655440000/profile",
            "/commit/9f86d081884c7d659a2feaa0c55ad015deadbeef",
            "/static/app-3.js",
            "/npm/@scope/package@1.0.2",
            "/keyboard=qwerty",
            "/bücher/größe",
            "/caf%C3%A9/menu",
            "/products/OrderServiceImplementation2",
        ] {
            let kept = path(text);
            assert!(matches!(kept, Cow::Borrowed(_)), "{text} became {kept}");
        }
    }

    #[test]
    fn secrets_in_keys_go_and_other_keys_stay() {
        let cases = [
            ("session:a7Bc9d", "session:REDACTED"),
            ("app:sess:550e8400-e29b-41d4-a716-446655440000", "app:sess:REDACTED"),
            ("otp:123456", "otp:REDACTED"),
            ("cache:https://user:pw@h/a", "cache:https://REDACTED@h/a"),
            ("auth.refresh.SplxlOBeZQQYbYS6WxSbIA", "auth.refresh.REDACTED"),
            ("devices/token=hunter2/x", "devices/token=REDACTED"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln:x", "REDACTED:x"),
            ("{user1}:password:hunter2", "{user1}:password:REDACTED"),
        ];
        for (text, expected) in cases {
            assert_eq!(keyed_name(text), expected, "{text}");
        }
        for text in ["user:42", "cart:bob:items", "orders.new", "session:count", "a/b/+/#", "q1"] {
            assert!(matches!(keyed_name(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
