//! Scalars of protobuf JSON. As its specification requires ("ProtoJSON Format"), both numbers and
//! texts are accepted.

use std::fmt;

use opentelemetry_proto::tonic::trace::v1::{span::SpanKind, status::StatusCode};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A JSON number, a text, or null.
pub(super) enum Scalar {
    Nothing,
    Unsigned(u64),
    Signed(i64),
    Double(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a text")
            }

            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Nothing)
            }

            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar::Unsigned(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Signed(number))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar::Double(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl Scalar {
    /// The value as an integer.
    fn integer<E: Error>(self) -> Result<i128, E> {
        match self {
            Self::Nothing => Ok(0),
            Self::Unsigned(number) => Ok(number.into()),
            Self::Signed(number) => Ok(number.into()),
            Self::Double(number) => whole(number)
                .ok_or_else(|| E::custom(format_args!("expected a whole number, got {number}"))),
            Self::Text(text) => {
                let text = text.trim();
                text.parse()
                    .ok()
                    .or_else(|| text.parse().ok().and_then(whole))
                    .ok_or_else(|| E::custom(format_args!("expected a number, got {text:?}")))
            }
        }
    }

    /// The value as a signed 64-bit integer.
    pub(super) fn signed64<E: Error>(self) -> Result<i64, E> {
        in_range(self.integer::<E>()?)
    }

    /// The value as a double.
    pub(super) fn double<E: Error>(self) -> Result<f64, E> {
        match self {
            Self::Nothing => Ok(0.0),
            #[expect(clippy::cast_precision_loss, reason = "that is what a double keeps")]
            Self::Unsigned(number) => Ok(number as f64),
            #[expect(clippy::cast_precision_loss, reason = "that is what a double keeps")]
            Self::Signed(number) => Ok(number as f64),
            Self::Double(number) => Ok(number),
            // Rust parses `NaN`, `Infinity` and `-Infinity` as ProtoJSON writes them.
            Self::Text(text) => text
                .trim()
                .parse()
                .map_err(|_| E::custom(format_args!("expected a number, got {text:?}"))),
        }
    }
}

/// The integer value of a double, if it is exact.
fn whole(number: f64) -> Option<i128> {
    const EXACT: f64 = 18_446_744_073_709_551_616.0;
    #[expect(clippy::cast_possible_truncation, reason = "its range was checked")]
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i128)
}

fn in_range<T: TryFrom<i128>, E: Error>(number: i128) -> Result<T, E> {
    T::try_from(number).map_err(|_| E::custom(format_args!("{number} is out of range")))
}

/// An unsigned 64-bit integer.
pub(super) fn unsigned64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    in_range(Scalar::deserialize(deserializer)?.integer::<D::Error>()?)
}

/// An unsigned 32-bit integer.
pub(super) fn unsigned32<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    in_range(Scalar::deserialize(deserializer)?.integer::<D::Error>()?)
}

/// A text. `null` is the empty text.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A list. `null` is an empty list.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// An id in hexadecimal digits, upper or lower case. Other text becomes one byte, which is not a
/// valid id. So only its span is rejected.
pub(super) fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = text(deserializer)?;
    Ok(hex::decode(&text).unwrap_or_else(|_| vec![0]))
}

/// A span kind as number or name. An unknown one becomes unspecified.
pub(super) fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    enumeration(deserializer, |name| SpanKind::from_str_name(name).map(|kind| kind as i32))
}

/// A status code as number or name. An unknown one becomes unset.
pub(super) fn status_code<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    enumeration(deserializer, |name| StatusCode::from_str_name(name).map(|code| code as i32))
}

fn enumeration<'de, D: Deserializer<'de>>(
    deserializer: D,
    number: impl Fn(&str) -> Option<i32>,
) -> Result<i32, D::Error> {
    match Scalar::deserialize(deserializer)? {
        Scalar::Text(name) => {
            Ok(number(&name).or_else(|| name.trim().parse().ok()).unwrap_or_default())
        }
        other => in_range(other.integer::<D::Error>()?),
    }
}
