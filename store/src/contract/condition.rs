//! Conditions on the attributes of a row.

use std::borrow::Cow;
use std::cmp::Ordering;

/// A condition on the values of one key. A row may have two values: that of the span's own
/// attribute (the first, if the key occurs more than once), and that of its resource, which
/// includes the labels of the process.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeCondition {
    /// The attribute's key.
    pub key: String,
    /// The test of the key's values.
    pub test: AttributeTest,
}

/// A test of the values of a key. A value's text is what is displayed: the string itself, or the
/// JSON text of a number, a boolean or a JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeTest {
    /// A value has this text or is this number. For integers and doubles, `3`, `3.0` and `3e0` are
    /// the same, and so are `0` and `-0.0`. A string equals only its exact text.
    Equal(String),
    /// There is a value, and none is [equal](Self::Equal).
    NotEqual(String),
    /// A value is a number less than this. A string that can be parsed as a number counts as one,
    /// since some senders only send strings. The same is true of the tests below.
    Less(Number),
    /// A value is a number less than or equal to this.
    LessOrEqual(Number),
    /// A value is a number greater than this.
    Greater(Number),
    /// A value is a number greater than or equal to this.
    GreaterOrEqual(Number),
    /// A value's text contains this, ignoring case.
    Contains(String),
    /// One of them passes this, or an element of one that is a list; a list within a
    /// list is not looked into, and passes. Only what asks for one value that passes.
    Element(Box<AttributeTest>),
    /// There is one.
    Exists,
    /// There is no value.
    Absent,
}

/// A number to compare with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A 64-bit integer, compared exactly.
    Int(i64),
    /// Any other finite number.
    Double(f64),
}

impl Number {
    /// Parses a finite number.
    pub fn parse(text: &str) -> Option<Self> {
        // Rejects `inf` and `nan`, which the standard parser accepts.
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
            return None;
        }
        match text.parse() {
            Ok(number) => Some(Self::Int(number)),
            Err(_) => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Self::Double),
        }
    }

    /// Compares two numbers.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(one), Self::Int(other)) => one.cmp(&other),
            (Self::Int(one), Self::Double(other)) => compare(one, other),
            (Self::Double(one), Self::Int(other)) => compare(other, one).reverse(),
            // Both are finite.
            (Self::Double(one), Self::Double(other)) => {
                one.partial_cmp(&other).unwrap_or(Ordering::Equal)
            }
        }
    }
}

/// 2^63, which a double represents exactly.
const END: f64 = 9_223_372_036_854_775_808.0;

/// Compares an integer with a finite double, without rounding.
fn compare(one: i64, other: f64) -> Ordering {
    if other >= END {
        Ordering::Less
    } else if other < -END {
        Ordering::Greater
    } else {
        let whole = other.floor();
        // A whole number within the bounds is converted exactly.
        one.cmp(&(whole as i64)).then(if other > whole { Ordering::Less } else { Ordering::Equal })
    }
}

/// The type number of integer attributes; see [`spanwise_model::AttributeValue::type_number`].
pub(crate) const INT: u8 = 1;
/// The type number of double attributes.
pub(crate) const DOUBLE: u8 = 2;
/// That of one that is a flag.
const BOOL: u8 = 3;
/// That of one that is a list or a map.
pub(crate) const JSON: u8 = 5;

impl AttributeTest {
    /// Whether a value of this type and text passes. For [`Self::NotEqual`] and [`Self::Absent`],
    /// this returns whether the value makes the test fail.
    pub(crate) fn passes(&self, type_number: u8, text: &str) -> bool {
        let compared = |with: Number| {
            let number = Number::parse(text).filter(|_| !matches!(type_number, 3..=5));
            number.map(|number| number.compare(with))
        };
        match self {
            Self::Equal(wanted) | Self::NotEqual(wanted) => {
                text == wanted
                    || matches!(type_number, INT | DOUBLE)
                        && Number::parse(text).zip(Number::parse(wanted)).is_some_and(
                            |(number, wanted)| number.compare(wanted) == Ordering::Equal,
                        )
            }
            Self::Less(number) => compared(*number) == Some(Ordering::Less),
            Self::LessOrEqual(number) => compared(*number).is_some_and(Ordering::is_le),
            Self::Greater(number) => compared(*number) == Some(Ordering::Greater),
            Self::GreaterOrEqual(number) => compared(*number).is_some_and(Ordering::is_ge),
            Self::Contains(part) => contains(text, part),
            Self::Element(test) => {
                test.passes(type_number, text)
                    || type_number == JSON && any_element(text, |of, text| test.passes(of, text))
            }
            Self::Exists | Self::Absent => true,
        }
    }

    /// Whether a row matches, given whether it has a value of the key and whether one of its values
    /// passes.
    pub(crate) const fn holds(&self, has: bool, passes: bool) -> bool {
        match self {
            Self::NotEqual(_) => has && !passes,
            Self::Absent => !has,
            Self::Exists => has,
            _ => passes,
        }
    }

    /// What shall hold of a value that is no list.
    pub(crate) fn of_single(&self) -> &Self {
        match self {
            Self::Element(test) => test,
            test => test,
        }
    }

    /// All texts that an equal value may have, whatever its type; none where values
    /// of other texts may pass.
    pub(crate) fn equal_texts(&self) -> Option<Vec<String>> {
        let Self::Equal(wanted) = self else { return None };
        let mut texts = vec![wanted.clone()];
        let mut also = |text: String| {
            if !texts.contains(&text) {
                texts.push(text);
            }
        };
        match Number::parse(wanted) {
            Some(Number::Int(number)) => {
                also(number.to_string());
                also(double_text(number as f64));
            }
            Some(Number::Double(number)) => {
                also(double_text(number));
                if number.fract() == 0.0 && (-END..END).contains(&number) {
                    also((number as i64).to_string());
                }
            }
            None => {}
        }
        if texts.iter().any(|text| text == "0.0" || text == "-0.0") {
            // Both zeros are equal but have different texts.
            for zero in ["0", "0.0", "-0.0"] {
                if !texts.iter().any(|text| text == zero) {
                    texts.push(zero.to_owned());
                }
            }
        }
        Some(texts)
    }
}

/// Whether a value in a list, given as JSON, is so, by its type and text, or is a list.
fn any_element(list: &str, is_so: impl Fn(u8, &str) -> bool) -> bool {
    let Ok(elements) = serde_json::from_str::<Vec<serde_json::Value>>(list) else { return false };
    elements.iter().any(|element| {
        let (type_number, text) = typed_text(element);
        element.is_array() || is_so(type_number, &text)
    })
}

/// The type and the text of a value that is written as JSON.
pub(crate) fn typed_text(value: &serde_json::Value) -> (u8, Cow<'_, str>) {
    use serde_json::Value;
    match value {
        Value::String(text) => (0, Cow::Borrowed(text)),
        Value::Number(number) => {
            let is_whole = number.is_i64() || number.is_u64();
            (if is_whole { INT } else { DOUBLE }, Cow::Owned(number.to_string()))
        }
        Value::Bool(flag) => (BOOL, Cow::Borrowed(if *flag { "true" } else { "false" })),
        other => (JSON, Cow::Owned(other.to_string())),
    }
}

/// The canonical text of a double.
fn double_text(number: f64) -> String {
    spanwise_model::AttributeRef::Double(number).to_string()
}

fn contains(text: &str, part: &str) -> bool {
    if part.is_empty() {
        return true;
    }
    if !part.is_ascii() || !text.is_ascii() {
        return text.to_lowercase().contains(&part.to_lowercase());
    }
    text.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRING: u8 = 0;

    #[test]
    fn equal_is_what_is_shown_or_the_same_number() {
        let equal = |wanted: &str, type_number, text: &str| {
            let test = AttributeTest::Equal(wanted.to_owned());
            let passes = test.passes(type_number, text);
            // The texts for index look-ups are complete.
            let texts = test.equal_texts().expect("texts");
            assert!(!passes || texts.iter().any(|it| it == text), "{wanted} {text} {texts:?}");
            passes
        };
        for (wanted, text) in [
            ("0.1", "0.1"),
            (".1", "0.1"),
            ("1e21", "1e21"),
            ("1e+21", "1e21"),
            ("1000000000000000000000", "1e21"),
            ("-0.0", "-0.0"),
            ("0", "-0.0"),
            ("-0", "0.0"),
            ("3", "3.0"),
            ("3.0", "3.0"),
            ("3e0", "3.0"),
            ("NaN", "NaN"),
            ("inf", "inf"),
        ] {
            assert!(equal(wanted, DOUBLE, text), "{wanted} {text}");
        }
        for (wanted, text) in [("3", "3"), ("3.0", "3"), ("-0.0", "0"), ("03", "3")] {
            assert!(equal(wanted, INT, text), "{wanted} {text}");
        }
        assert!(!equal("3", STRING, "3.0"));
        assert!(!equal("3.0", STRING, "3"));
        assert!(equal("3.0", STRING, "3.0"));
        // Larger than what a double represents exactly.
        assert!(equal("9007199254740993", INT, "9007199254740993"));
        assert!(!equal("9007199254740993", INT, "9007199254740992"));
        assert!(!equal("9007199254740993", DOUBLE, "9007199254740992.0"));
        assert!(!equal("", STRING, "x") && equal("", STRING, ""));
    }

    #[test]
    fn numbers_are_compared_exactly() {
        let number = |text: &str| Number::parse(text).expect("a number");
        for (less, more) in [
            ("-1e300", "-9223372036854775808"),
            ("9007199254740992", "9007199254740993"),
            ("9007199254740992.0", "9007199254740993"),
            ("9223372036854775807", "9223372036854775808"),
            ("-0.5", "0"),
            ("0", "1e-300"),
            ("2", "2.5"),
        ] {
            assert_eq!(number(less).compare(number(more)), Ordering::Less, "{less} {more}");
            assert_eq!(number(more).compare(number(less)), Ordering::Greater, "{less} {more}");
        }
        for text in ["", "-", "inf", "NaN", "-inf", "1e999", "x1", "1x", " 1", "0x10"] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_neither_less_nor_more() {
        let bound = Number::Int(500);
        let (least, less) = (AttributeTest::GreaterOrEqual(bound), AttributeTest::Less(bound));
        for (type_number, text) in [(STRING, "503"), (INT, "500"), (DOUBLE, "500.0")] {
            assert!(least.passes(type_number, text) && !less.passes(type_number, text), "{text}");
        }
        for (type_number, text) in [(STRING, "many"), (3, "true"), (4, "1234"), (5, "[7]")] {
            assert!(!least.passes(type_number, text) && !less.passes(type_number, text), "{text}");
        }
    }

    #[test]
    fn text_is_found_whatever_its_case() {
        let contains = |part: &str, text| AttributeTest::Contains(part.into()).passes(0, text);
        assert!(contains("SELECT", "select 1") && contains("", "") && contains("é", "CAFÉ"));
        assert!(!contains("select 12", "select 1") && !contains("x", ""));
    }
}
