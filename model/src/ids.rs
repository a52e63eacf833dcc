//! Trace and span identifiers (W3C Trace Context, section 3.2.2).

use std::fmt;
use std::str::FromStr;

/// An invalid identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}: expected {digits} hexadecimal digits, not all zero")]
pub struct IdError {
    text: String,
    what: &'static str,
    digits: usize,
}

macro_rules! identifier {
    ($name:ident, $bytes:literal, $what:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub [u8; $bytes]);

        impl $name {
            /// Length in bytes.
            pub const LEN: usize = $bytes;

            /// The identifier with these bytes; `None` if they are all zero (W3C forbids that) or
            /// have the wrong length.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let id: [u8; $bytes] = bytes.try_into().ok()?;
                (id != [0; $bytes]).then_some(Self(id))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut text = [0u8; $bytes * 2];
                // The buffer is exactly twice as long as the input.
                let _ = hex::encode_to_slice(self.0, &mut text);
                f.write_str(std::str::from_utf8(&text).unwrap_or_default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let mut id = [0u8; $bytes];
                hex::decode_to_slice(text, &mut id)
                    .ok()
                    .and_then(|()| Self::from_bytes(&id))
                    .ok_or_else(|| IdError {
                        text: text.chars().take(64).collect(),
                        what: $what,
                        digits: $bytes * 2,
                    })
            }
        }
    };
}

identifier!(
    TraceId,
    16,
    "trace id",
    "Sixteen bytes that name one trace; printed as 32 hexadecimal digits."
);
identifier!(
    SpanId,
    8,
    "span id",
    "Eight bytes that name one span; printed as 16 hexadecimal digits."
);

impl SpanId {
    /// The span id whose big-endian bytes are `value`; `None` for zero.
    pub fn from_u64(value: u64) -> Option<Self> {
        Self::from_bytes(&value.to_be_bytes())
    }

    /// The id of the called side's half of a span, if both sides report the span under this id, as
    /// Zipkin's tracers do. The calling side's half keeps the id. So no two rows of a trace have
    /// the same id, and spans of the called process, which refer to the original id, can be placed
    /// correctly.
    ///
    /// Distinct ids have distinct halves (the mixing is that of SplitMix64, which is a bijection
    /// and maps only zero to zero).
    pub const fn receiving_half(self) -> Self {
        let mut bits = u64::from_be_bytes(self.0);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((bits ^ (bits >> 31)).to_be_bytes())
    }

    /// The id as a big-endian integer.
    pub fn as_u64(self) -> u64 {
        u64::from_be_bytes(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_reads_hexadecimal() {
        let text = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(text.parse::<TraceId>().unwrap().to_string(), text);
        assert_eq!(SpanId::from_u64(0xb7).unwrap().to_string(), "00000000000000b7");
    }

    #[test]
    fn halves_are_told_apart() {
        let halves = [1, 2, u64::MAX].map(|n| SpanId::from_u64(n).unwrap().receiving_half());
        assert_eq!(halves[0].to_string(), "5692161d100b05e5");
        assert!(halves[0] != halves[1] && halves[1] != halves[2]);
    }

    #[test]
    fn refuses_zero_short_and_foreign_text() {
        for text in ["0000000000000000", "b7", "zzzzzzzzzzzzzzzz", ""] {
            let error = text.parse::<SpanId>().unwrap_err();
            assert!(error.to_string().contains("16 hexadecimal digits"), "{error}");
        }
    }
}
