//! Typed attributes and resources.

use std::fmt;

/// One attribute's value, with OpenTelemetry's types.
///
/// In the `attributes` column, a value is stored as its type's number (see
/// [`AttributeValue::type_number`]) and its canonical text.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// UTF-8 text.
    String(String),
    /// Signed 64-bit integer.
    Int(i64),
    /// IEEE 754 double.
    Double(f64),
    /// Boolean.
    Bool(bool),
    /// Bytes, as base64 text.
    Bytes(String),
    /// An array or a map, as JSON text.
    Json(String),
}

/// A span's attributes in their original order. Keys are not made unique.
pub type Attributes = Vec<(String, AttributeValue)>;

/// The slot of a text among `SLOTS`, a power of two, for small caches of recently seen keys and
/// values. It depends on the text's first and last bytes and its length, which distinguish nearly
/// all names.
#[inline]
pub fn key_slot<const SLOTS: usize>(key: &[u8]) -> usize {
    const { assert!(SLOTS.is_power_of_two() && SLOTS > 1) };
    let (first, last) = match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (key.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), 0),
    };
    let mixed = first.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(32) ^ last;
    let mixed = (mixed ^ key.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The upper bits are the best mixed ones.
    (mixed >> (u64::BITS - SLOTS.ilog2())) as usize
}

/// Whether two texts are equal. Like `==`, but inlined for short texts such as keys. They are
/// compared many times for each span, and a function call would take longer than the comparison.
#[inline]
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    /// The first and last bytes, which together cover a text of up to twice `N` bytes.
    fn ends<const N: usize>(text: &[u8]) -> Option<[&[u8; N]; 2]> {
        Some([text.first_chunk()?, text.last_chunk()?])
    }
    one.len() == other.len()
        && match one.len() {
            17..=32 => ends::<16>(one) == ends(other),
            8..=16 => ends::<8>(one) == ends(other),
            4..8 => ends::<4>(one) == ends(other),
            0..4 => one.iter().eq(other),
            _ => one == other,
        }
}

/// An [`AttributeValue`] with borrowed text.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "documented on `AttributeValue`")]
pub enum AttributeRef<'a> {
    String(&'a str),
    Int(i64),
    Double(f64),
    Bool(bool),
    Bytes(&'a str),
    Json(&'a str),
}

impl<'a> AttributeRef<'a> {
    /// The value with this type number and canonical text. If the number cannot be parsed or the
    /// type is unknown, the value becomes a string, so that nothing stored is lost.
    pub fn from_parts(type_number: u8, text: &'a str) -> Self {
        let parsed = match type_number {
            1 => text.parse().ok().map(Self::Int),
            2 => text.parse().ok().map(Self::Double),
            3 => text.parse().ok().map(Self::Bool),
            4 => Some(Self::Bytes(text)),
            5 => Some(Self::Json(text)),
            _ => None,
        };
        parsed.unwrap_or(Self::String(text))
    }

    /// See [`AttributeValue::type_number`].
    pub const fn type_number(self) -> u8 {
        match self {
            Self::String(_) => 0,
            Self::Int(_) => 1,
            Self::Double(_) => 2,
            Self::Bool(_) => 3,
            Self::Bytes(_) => 4,
            Self::Json(_) => 5,
        }
    }

    /// A value with its own text.
    pub fn to_value(self) -> AttributeValue {
        match self {
            Self::String(text) => AttributeValue::String(text.to_owned()),
            Self::Int(number) => AttributeValue::Int(number),
            Self::Double(number) => AttributeValue::Double(number),
            Self::Bool(flag) => AttributeValue::Bool(flag),
            Self::Bytes(text) => AttributeValue::Bytes(text.to_owned()),
            Self::Json(text) => AttributeValue::Json(text.to_owned()),
        }
    }
}

/// The canonical text, as it is stored.
impl fmt::Display for AttributeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) | Self::Bytes(text) | Self::Json(text) => f.write_str(text),
            Self::Int(number) => number.fmt(f),
            Self::Double(number) => write!(f, "{number:?}"),
            Self::Bool(flag) => flag.fmt(f),
        }
    }
}

impl AttributeValue {
    /// A value with borrowed text.
    pub fn as_ref(&self) -> AttributeRef<'_> {
        match self {
            Self::String(text) => AttributeRef::String(text),
            Self::Int(number) => AttributeRef::Int(*number),
            Self::Double(number) => AttributeRef::Double(*number),
            Self::Bool(flag) => AttributeRef::Bool(*flag),
            Self::Bytes(text) => AttributeRef::Bytes(text),
            Self::Json(text) => AttributeRef::Json(text),
        }
    }

    /// The number of the value's type in the `type` field of the column.
    pub fn type_number(&self) -> u8 {
        self.as_ref().type_number()
    }

    /// Like [`AttributeRef::from_parts`], with its own text.
    pub fn from_parts(type_number: u8, text: &str) -> Self {
        AttributeRef::from_parts(type_number, text).to_value()
    }

    /// The text, if the value is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if the value is an integer.
    pub const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::String(text) | Self::Bytes(text) => text.as_str().into(),
            Self::Int(number) => (*number).into(),
            Self::Double(number) => serde_json::Number::from_f64(*number)
                .map_or_else(|| number.to_string().into(), Into::into),
            Self::Bool(flag) => (*flag).into(),
            Self::Json(text) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
        }
    }
}

/// The canonical text, as it is stored.
impl fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<bool> for AttributeValue {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

/// A resource (the emitter of spans) as one JSON object with sorted keys. Equal resources have
/// equal texts, so the column's dictionary contains each once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceJson(String);

impl ResourceJson {
    /// The resource with these attributes. If keys are equal, the last one counts.
    pub fn from_attributes<'a>(
        attributes: impl IntoIterator<Item = (&'a str, &'a AttributeValue)>,
    ) -> Self {
        let map: serde_json::Map<String, serde_json::Value> =
            attributes.into_iter().map(|(key, value)| (key.to_owned(), value.to_json())).collect();
        // serde_json's map is sorted by key, unless the feature `preserve_order` is on.
        let mut entries: Vec<_> = map.into_iter().collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let mut text = String::from("{");
        for (index, (key, value)) in entries.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::from(key.as_str()).to_string());
            text.push(':');
            text.push_str(&value.to_string());
        }
        text.push('}');
        Self(text)
    }

    /// A resource from a column's text.
    pub fn from_column(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ResourceJson {
    fn default() -> Self {
        Self("{}".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_where_all_their_bytes_are() {
        for length in 0..40 {
            let text: Vec<u8> = (1..=length).collect();
            assert!(is_same(&text, &text.clone()) && !is_same(&text, &[&text[..], &[0]].concat()));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 1;
                assert!(!is_same(&text, &other), "byte {at} of {length}");
            }
        }
    }

    #[test]
    fn values_survive_their_text() {
        for value in [
            AttributeValue::from("a"),
            AttributeValue::Int(-7),
            AttributeValue::Double(0.1),
            AttributeValue::Double(3.0),
            AttributeValue::Bool(true),
            AttributeValue::Bytes("AQI=".into()),
            AttributeValue::Json("[1,2]".into()),
        ] {
            assert_eq!(AttributeValue::from_parts(value.type_number(), &value.to_string()), value);
        }
    }

    #[test]
    fn equal_resources_are_equal_texts() {
        let (a, b) = (AttributeValue::from("x"), AttributeValue::Int(1));
        let one = ResourceJson::from_attributes([("host.name", &a), ("process.pid", &b)]);
        let two = ResourceJson::from_attributes([("process.pid", &b), ("host.name", &a)]);
        assert_eq!(one, two);
        assert_eq!(one.as_str(), r#"{"host.name":"x","process.pid":1}"#);
    }
}
