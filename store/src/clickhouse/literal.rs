//! Rust values as ClickHouse's SQL has them.

use std::fmt::Write as _;

/// A text as a literal.
pub(super) fn text(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('\'');
    for character in value.chars() {
        match character {
            '\'' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            // A NUL in the text would end it for some.
            '\0' => out.push_str("\\0"),
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}

/// Bytes as a literal.
pub(super) fn bytes(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len() * 4 + 2);
    out.push('\'');
    for byte in value {
        let _ = write!(out, "\\x{byte:02X}");
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_where_it_ends() {
        assert_eq!(text("a'b\\c\0é\n"), "'a\\'b\\\\c\\0é\n'");
        assert_eq!(text("' OR 1=1 --"), "'\\' OR 1=1 --'");
        assert_eq!(bytes(&[0, 39, 171]), r"'\x00\x27\xAB'");
    }
}
