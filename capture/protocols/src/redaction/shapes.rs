//! What secrets look like, wherever they occur.

/// Minimum length of a text that counts as a secret because it looks random.
const MIN_RANDOM_BYTES: usize = 20;

/// Prefixes of the tokens of well-known services.
const KNOWN_BEGINNINGS: [&str; 24] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxs-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "whsec_",
    "sk-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "npm_",
    "hvs.",
    "SG.",
    "dop_v1_",
];
/// Minimum length of such a token.
const MIN_KNOWN_BYTES: usize = 16;

/// Whether these bytes have the form of a JSON Web Token or of a well-known service's token.
pub(crate) fn is_known_token(text: &[u8]) -> bool {
    if text.len() < MIN_KNOWN_BYTES {
        return false;
    }
    // The header of a JSON Web Token is a JSON object.
    if text.starts_with(b"eyJ") {
        return memchr::memchr(b'.', text).is_some();
    }
    KNOWN_BEGINNINGS.iter().any(|begin| text.starts_with(begin.as_bytes()))
}

/// Whether these bytes look random enough to be a secret. Purely hexadecimal text does not count:
/// ids of orders, traces and commits look like that.
pub(super) fn is_random(text: &[u8]) -> bool {
    if text.len() < MIN_RANDOM_BYTES {
        return false;
    }
    let (mut digits, mut upper, mut lower) = (0usize, 0usize, 0usize);
    let (mut turns, mut borders, mut run, mut longest) = (0usize, 0usize, 0usize, 0usize);
    let (mut hexadecimal, mut before) = (true, 0u8);
    for byte in text {
        let class = match byte {
            b'0'..=b'9' => {
                digits += 1;
                1
            }
            b'A'..=b'Z' => {
                upper += 1;
                2
            }
            b'a'..=b'z' => {
                lower += 1;
                3
            }
            b'-' | b'_' | b'=' | b'+' | b'~' => 0,
            _ => return false,
        };
        hexadecimal &= byte.is_ascii_hexdigit() || *byte == b'-';
        if class != before && class != 0 && before != 0 {
            turns += 1;
            borders += usize::from(class == 1 || before == 1);
        }
        run = if class == 3 { run + 1 } else { 0 };
        longest = longest.max(run);
        before = class;
    }
    if hexadecimal {
        return false;
    }
    let mixed = digits > 0 && upper > 1 && lower > 1;
    // Camel-case words have long runs of lower-case letters and few digits.
    mixed && (2 * turns >= text.len() || (digits > 2 && longest <= 6))
        || (digits > 3 && borders >= 6 && longest <= 6)
}

/// Whether these bytes are a token, by their form or because they look random.
pub(super) fn is_token(text: &[u8]) -> bool {
    is_known_token(text) || is_random(text)
}

/// Whether digits, perhaps with blanks and dashes, are a card number: the last digit is a checksum
/// of the others (ISO/IEC 7812-1).
pub(super) fn is_card_number(text: &[u8]) -> bool {
    let digits = text.iter().rev().filter(|byte| byte.is_ascii_digit());
    let (mut count, mut sum) = (0u32, 0u32);
    for digit in digits {
        let mut value = u32::from(digit - b'0');
        if count % 2 == 1 {
            value = if value > 4 { 2 * value - 9 } else { 2 * value };
        }
        sum += value;
        count += 1;
    }
    (13..=19).contains(&count) && sum > 0 && sum.is_multiple_of(10)
}

/// Whether this is a word or short text that nobody would use as a secret in a path.
pub(super) fn is_plain(text: &[u8]) -> bool {
    if text.len() <= 3 {
        return true;
    }
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits == text.len() {
        return text.len() <= 20;
    }
    if digits > 0 || text.len() > 32 || !text.is_ascii() {
        return false;
    }
    // Accepts `Word`, `word`, `WORD` and sequences of them, but not `wOrd`.
    text.split(|byte| matches!(byte, b'-' | b'_' | b'.' | b' ' | b'*')).all(|word| {
        let rest = word.get(1..).unwrap_or_default();
        let letters = word.iter().all(u8::is_ascii_alphabetic);
        letters
            && (rest.iter().all(u8::is_ascii_lowercase) || word.iter().all(u8::is_ascii_uppercase))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_told_from_names() {
        for token in [
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "AKIAIOSFODNN7EXAMPLE",
            "SplxlOBeZQQYbYS6WxSbIA",
            "dGhlIHNhbXBsZSBub25jZQ7x",
            "k3j9x8q2m4n7p1z5w6v0",
            "Zx8-Qw2_Lp9RtY5uIo1A",
        ] {
            assert!(is_token(token.as_bytes()), "{token}");
        }
        for name in [
            "550e8400-e29b-41d4-a716-446655440000",
            "9f86d081884c7d659a2feaa0c55ad015",
            "507f1f77bcf86cd799439011",
            "OrderServiceImplementation2",
            "the-quick-brown-fox-jumps-2026",
            "com.example.shop.OrderService",
            "eyJpZCI6",
            "recommendation-service-v2",
            "2026-11-21T10:00:00Z",
            "",
        ] {
            assert!(!is_token(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn numbers_of_cards_are_told_from_others() {
        assert!(is_card_number(b"4111 1111 1111 1111") && is_card_number(b"378282246310005"));
        assert!(!is_card_number(b"4111111111111112") && !is_card_number(b"0000000000000000"));
        assert!(!is_card_number(b"42"));
    }

    #[test]
    fn plain_words_are_no_secrets() {
        for plain in ["new", "edit", "Orders", "v1", "4711", "password", "set-password", "USERS"] {
            assert!(is_plain(plain.as_bytes()), "{plain}");
        }
        for other in ["hunter2", "AbCdEf", "c3x-9a8b", "geheimÄ"] {
            assert!(!is_plain(other.as_bytes()), "{other}");
        }
    }
}
