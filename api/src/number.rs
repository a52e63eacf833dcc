//! Integers of 64 bits in JSON, whose numbers stop being exact at 2^53.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::exact::is_exact;

/// Nanoseconds, as a string of decimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Nano(#[cfg_attr(test, schemars(with = "String"))] pub i64);

/// A number of bytes, as a string of decimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bytes(#[cfg_attr(test, schemars(with = "String"))] pub u64);

/// An integer: a number, or beyond 2^53 a string of decimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Count(#[cfg_attr(test, schemars(with = "NumberOrDigits"))] pub i64);

/// The two forms of a [`Count`].
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum NumberOrDigits {
    Number(i64),
    Digits(String),
}

impl From<u64> for Count {
    fn from(count: u64) -> Self {
        Self(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Count {
    fn from(count: usize) -> Self {
        Self(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Nano {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if is_exact(self.0) {
            serializer.serialize_i64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Nano {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        integer(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        integer(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        integer(deserializer).map(Self)
    }
}

/// Reads an integer in either form.
fn integer<'de, D: Deserializer<'de>, N: TryFrom<i128>>(deserializer: D) -> Result<N, D::Error> {
    let number = deserializer.deserialize_any(NumberOrText)?;
    N::try_from(number).map_err(|_| D::Error::custom(format_args!("{number} is out of range")))
}

struct NumberOrText;

impl Visitor<'_> for NumberOrText {
    type Value = i128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, or a string of its digits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<i128, E> {
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<i128, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i128, E> {
        Ok(number.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_value_in_either_form() {
        for (number, nano, count) in [
            (0, "\"0\"", "0"),
            (-5, "\"-5\"", "-5"),
            (1 << 53, "\"9007199254740992\"", "9007199254740992"),
            ((1 << 53) + 1, "\"9007199254740993\"", "\"9007199254740993\""),
            (i64::MIN, "\"-9223372036854775808\"", "\"-9223372036854775808\""),
        ] {
            assert_eq!(serde_json::to_string(&Nano(number)).unwrap(), nano);
            assert_eq!(serde_json::to_string(&Count(number)).unwrap(), count);
            for text in [nano.to_owned(), count.to_owned(), number.to_string()] {
                assert_eq!(serde_json::from_str::<Nano>(&text).unwrap(), Nano(number));
                assert_eq!(serde_json::from_str::<Count>(&text).unwrap(), Count(number));
            }
        }
        for wrong in ["\"\"", "\"1.5\"", "1.5", "18446744073709551615", "null"] {
            assert!(serde_json::from_str::<Count>(wrong).is_err(), "{wrong}");
        }
        let most = format!("\"{}\"", u64::MAX);
        assert_eq!(serde_json::from_str::<Bytes>(&most).unwrap(), Bytes(u64::MAX));
        assert_eq!(serde_json::to_string(&Bytes(u64::MAX)).unwrap(), most);
        assert!(serde_json::from_str::<Bytes>("-1").is_err());
    }
}
