//! Rust values as literals of ClickHouse's SQL.

use std::fmt::Write as _;

/// A text literal.
pub(super) fn text(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('\'');
    for character in value.chars() {
        match character {
            '\'' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            // Some programs treat NUL as the end of the text.
            '\0' => out.push_str("\\0"),
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}

/// A literal of bytes.
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
