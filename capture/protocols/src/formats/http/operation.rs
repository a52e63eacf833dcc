//! Names of HTTP operations: the method, and the path with what looks like an
//! identifier taken out, so that there are few.

use crate::redaction::REDACTED;

/// Segments kept of a path; deeper ones are folded into one.
const MAX_SEGMENTS: usize = 8;
/// Longer segments are no names.
const MAX_SEGMENT_BYTES: usize = 64;
/// From this length on a word with digits among its letters is an identifier.
const MIN_TOKEN_BYTES: usize = 20;

/// `METHOD /path`, with `{id}` for identifiers.
pub(crate) fn name(method: &str, path: &str) -> String {
    let mut name = String::with_capacity(method.len() + 1 + path.len());
    name.push_str(method);
    if path.is_empty() {
        return name;
    }
    name.push(' ');
    let mut rest = path;
    for _ in 0..=MAX_SEGMENTS {
        // Segments are short: a search that is made for long texts takes longer to begin.
        let end = rest.bytes().position(|byte| byte == b'/');
        let segment = &rest[..end.unwrap_or(rest.len())];
        // Parameters of a path (`;v=1`) name nothing.
        let named = segment.bytes().position(|byte| byte == b';');
        let segment = &segment[..named.unwrap_or(segment.len())];
        name.push_str(if is_identifier(segment) { "{id}" } else { segment });
        let Some(end) = end else { return name };
        name.push('/');
        rest = &rest[end + 1..];
    }
    name.push('*');
    name
}

/// Whether a part of a name looks like an identifier rather than a word.
pub(crate) fn is_identifier(segment: &str) -> bool {
    let bytes = segment.as_bytes();
    if bytes.is_empty() {
        return false;
    }
    // All names with it are of one kind.
    if segment.starts_with(REDACTED) {
        return true;
    }
    if bytes.len() > MAX_SEGMENT_BYTES {
        return true;
    }
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return false;
    }
    if digits == bytes.len() {
        return true;
    }
    // Numbers; also dates, and what else has no letters.
    if bytes.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'_' | b',')) {
        return true;
    }
    let hexadecimal = bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    if hexadecimal && bytes.len() >= 8 {
        return true;
    }
    bytes.len() >= MIN_TOKEN_BYTES
        && digits >= 2
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_taken_out() {
        let cases = [
            ("/", "GET /"),
            ("/orders/42", "GET /orders/{id}"),
            ("/orders/42/items/7", "GET /orders/{id}/items/{id}"),
            ("/u/550e8400-e29b-41d4-a716-446655440000/x", "GET /u/{id}/x"),
            ("/o/507f1f77bcf86cd799439011", "GET /o/{id}"),
            ("/t/eyJhbGciOiJIUzI1NiIsInR5cCI6", "GET /t/{id}"),
            ("/day/2026-11-21", "GET /day/{id}"),
            ("/reset/REDACTED", "GET /reset/{id}"),
            ("/cart;jsessionid=REDACTED/items", "GET /cart/items"),
        ];
        for (path, expected) in cases {
            assert_eq!(name("GET", path), expected);
        }
    }

    #[test]
    fn names_stay() {
        for path in ["/api/v1/users", "/oauth2/token", "/decade/facade", "/static/app-3.js"] {
            assert_eq!(name("GET", path), format!("GET {path}"));
        }
    }

    #[test]
    fn deep_and_long_paths_are_folded() {
        assert_eq!(name("GET", "/a/b/c/d/e/f/g/h/i/j"), "GET /a/b/c/d/e/f/g/h/*");
        assert_eq!(name("GET", &format!("/{}", "a".repeat(100))), "GET /{id}");
        assert_eq!(name("CONNECT", ""), "CONNECT");
    }
}
