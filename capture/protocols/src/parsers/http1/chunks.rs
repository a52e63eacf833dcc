//! The chunked coding (RFC 9112, section 7.1).

/// The size in a chunk's first line: hexadecimal, extensions after a semicolon.
pub(super) fn size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Whether bytes end with the chunk of size 0, without trailers.
pub(super) fn ends_with_last(bytes: &[u8]) -> bool {
    bytes == b"0\r\n\r\n" || bytes.ends_with(b"\r\n0\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_hexadecimal_and_extensions_are_ignored() {
        assert_eq!(size(b"1aF\r\n"), Some(0x1af));
        assert_eq!(size(b"10;name=value\r\n"), Some(16));
        for line in [b"\r\n".as_slice(), b"x\r\n", b"-1\r\n", b"fffffffffffffffff\r\n"] {
            assert_eq!(size(line), None, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn only_a_chunk_of_its_own_is_the_last() {
        assert!(ends_with_last(b"0\r\n\r\n"));
        assert!(ends_with_last(b"abc\r\n0\r\n\r\n"));
        assert!(!ends_with_last(b"10\r\n\r\n"));
    }
}
