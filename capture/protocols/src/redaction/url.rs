//! Addresses: query strings, and the user information before a host.

use std::borrow::Cow;

use super::names::{Secrecy, secrecy};
use super::{REDACTED, Rewriter, hides_secret, shapes};

/// Whether a byte separates two parameters. HTML 4 also allowed `;`, and `#` starts a fragment.
const fn separates(byte: u8) -> bool {
    matches!(byte, b'&' | b';' | b'#')
}

/// Whether a byte cannot be part of a parameter name.
const fn ends_name(byte: u8) -> bool {
    matches!(
        byte,
        b'&' | b';'
            | b'#'
            | b'?'
            | b'='
            | b'/'
            | b','
            | b' '
            | b'+'
            | b'|'
            | b'{'
            | b'}'
            | b'"'
            | b'\''
            | b'('
            | b')'
            | b':'
    )
}

/// Redacts a query string: values of parameters with secret names, values that look like secrets,
/// and values that are addresses containing a secret.
pub(crate) fn query(query: &str) -> Cow<'_, str> {
    redact(query, true)
}

/// Redacts the parameters in a text. Other parts of the text are not checked.
pub(super) fn pairs(text: &str) -> Cow<'_, str> {
    redact(text, false)
}

fn redact(text: &str, whole: bool) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut kept = Rewriter::of(text);
    let mut from = 0;
    loop {
        let end = bytes[from..].iter().position(|byte| separates(*byte));
        let end = end.map_or(bytes.len(), |end| from + end);
        if let Some(at) = secret_of_pair(&text[from..end], whole) {
            kept.replace(from + at, end, REDACTED);
        }
        if end == bytes.len() {
            return kept.finish();
        }
        from = end + 1;
    }
}

/// Start of the secret in a parameter, if any. The secret extends to the parameter's end.
fn secret_of_pair(pair: &str, whole: bool) -> Option<usize> {
    let bytes = pair.as_bytes();
    let mut value_at = None;
    for equals in memchr::memchr_iter(b'=', bytes) {
        value_at.get_or_insert(equals + 1);
        let name = bytes[..equals].iter().rposition(|byte| ends_name(*byte));
        let name = &pair[name.map_or(0, |before| before + 1)..equals];
        if is_secret(name, &pair[equals + 1..]) {
            return Some(equals + 1);
        }
    }
    if !whole {
        return None;
    }
    let value_at = value_at.unwrap_or(0);
    let value = &pair[value_at..];
    let bytes = value.as_bytes();
    let special = |byte: &u8| matches!(byte, b'%' | b'@' | b'"' | b':' | b'?' | b'+' | b' ');
    let looks = bytes.len() >= 13 && shapes::is_token(bytes)
        || bytes.iter().any(special) && hides_secret(value);
    looks.then_some(value_at)
}

/// Whether a parameter with this name and value is a secret.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    match secrecy(name) {
        Secrecy::No => false,
        Secrecy::UnlessNumber => !value.bytes().all(|byte| byte.is_ascii_digit()),
        Secrecy::UnlessPlain => !is_plain_value(value),
        Secrecy::Yes => !value.is_empty(),
    }
}

/// Whether a value is too plain for a secret: a status, a token count, a switch.
fn is_plain_value(value: &str) -> bool {
    let number = value.bytes().all(|byte| byte.is_ascii_digit());
    value.is_empty()
        || (number && value.len() <= 3)
        || matches!(value, "true" | "false" | "null" | "none" | "on" | "off" | "yes" | "no")
}

/// Host and port of an authority, without the user information (RFC 3986, section 3.2).
pub(crate) fn host_of(authority: &[u8]) -> &[u8] {
    match memchr::memrchr(b'@', authority) {
        Some(at) => &authority[at + 1..],
        None => authority,
    }
}

/// End of the authority at the start of these bytes. Passwords with a slash are invalid but do
/// occur.
pub(crate) fn authority_end(rest: &[u8]) -> usize {
    let end = |from: usize| {
        let found = memchr::memchr2(b'/', b'?', &rest[from..]);
        found.map_or(rest.len(), |found| from + found)
    };
    let first = end(0);
    let before = &rest[..first];
    let Some(colon) = memchr::memrchr(b':', before) else { return first };
    let port = before[colon + 1..].iter().all(u8::is_ascii_digit);
    match memchr::memrchr(b'@', &rest[first..]) {
        Some(at) if !port && memchr::memchr(b'@', before).is_none() => end(first + at),
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        let cases = [
            (
                "user=7&password=hunter2&api_key=k&X-Amz-Signature=abc&q=a=b&flag",
                "user=7&password=REDACTED&api_key=REDACTED&X-Amz-Signature=REDACTED&q=a=b&flag",
            ),
            ("Access-Token=1", "Access-Token=REDACTED"),
            ("a=1;token=x;b=2", "a=1;token=REDACTED;b=2"),
            (
                "user[password]=x&user%5Bpassword%5D=y",
                "user[password]=REDACTED&user%5Bpassword%5D=REDACTED",
            ),
            ("next=/a?token=x&b=1", "next=/a?token=REDACTED&b=1"),
            ("next=https%3A%2F%2Fh%2F%3Ftoken%3Dx&b=1", "next=REDACTED&b=1"),
            ("next=https%253A%252F%252Fh%252F%253Ftoken%253Dx", "next=REDACTED"),
            ("url=https://user:pw@h/a", "url=REDACTED"),
            ("url=https%3A%2F%2Fuser%3Apw%40h%2Fa", "url=REDACTED"),
            ("filter={\"password\":\"x\"}", "filter=REDACTED"),
            ("filter=%7B%22password%22%3A%22x%22%7D", "filter=REDACTED"),
            ("x=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "x=REDACTED"),
            ("q=SplxlOBeZQQYbYS6WxSbIA", "q=REDACTED"),
            ("a=1#access_token=x&state=1", "a=1#access_token=REDACTED&state=1"),
            ("code=4/P7q7W91a-oMsCeLvIaQm6bTrgtp7", "code=REDACTED"),
            ("SplxlOBeZQQYbYS6WxSbIA", "REDACTED"),
            ("back=%2Freset%2FAbC123xyz", "back=REDACTED"),
        ];
        for (text, expected) in cases {
            assert_eq!(query(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "",
            "&&=",
            "keyboard=qwerty&monkey=1&tokenizer=bpe",
            "code=404&max_tokens=4096&error_code=E1234",
            "q=hello%20world&page=2&sort=-price",
            "id=550e8400-e29b-41d4-a716-446655440000",
            "mail=bob@example.com&time=10:30:00",
            "next=/orders/42?page=2",
            "next=https%3A%2F%2Fshop.example%2Forders%2F42%3Fpage%3D2",
            "password=&token=",
            "discount=100%",
            "response_type=code&grant_type=authorization_code",
        ] {
            let kept = query(text);
            assert!(matches!(kept, Cow::Borrowed(_)), "{text} became {kept}");
        }
    }

    #[test]
    fn who_stands_before_a_host_goes() {
        assert_eq!(host_of(b"user:pw@host:80"), b"host:80");
        assert_eq!(host_of(b"user:p@w@host"), b"host");
        assert_eq!(host_of(b"host"), b"host");
    }
}
