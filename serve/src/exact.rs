//! JSON whose numbers stay exact for everyone: readers that keep all of them as doubles
//! (browsers) round integers beyond 2^53, so those go out as texts.

use serde_json::Value;

/// The integers that a JSON number holds exactly.
const EXACT: u64 = 1 << 53;

/// Whether every reader takes this integer as it is.
pub(crate) const fn is_exact(number: i64) -> bool {
    number.unsigned_abs() <= EXACT
}

/// Appends a text that is JSON.
pub(crate) fn write(json: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'-' | b'0'..=b'9' => {
                let is_of_it =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let length = bytes[at..].iter().take_while(|byte| is_of_it(byte)).count();
                let number = &text[at..at + length];
                let is_integer = !number.contains(['.', 'e', 'E']);
                if is_integer && !number.parse().is_ok_and(is_exact) {
                    json.extend_from_slice(&bytes[copied..at]);
                    json.push(b'"');
                    json.extend_from_slice(number.as_bytes());
                    json.push(b'"');
                    copied = at + length;
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    json.extend_from_slice(&bytes[copied..]);
}

/// The place after a string that begins there.
fn string_end(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The same of a value in memory.
pub(crate) fn exact(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let is_it = match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => is_exact(number),
                (None, Some(_)) => false,
                (None, None) => true,
            };
            if is_it { Value::Number(number) } else { number.to_string().into() }
        }
        Value::Array(items) => items.into_iter().map(exact).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, exact(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_integers_become_texts_wherever_they_stand() {
        for (text, written) in [
            ("9007199254740992", "9007199254740992"),
            ("9007199254740993", "\"9007199254740993\""),
            ("[-9007199254740993,1]", "[\"-9007199254740993\",1]"),
            (
                "[18446744073709551615, 99999999999999999999]",
                "[\"18446744073709551615\", \"99999999999999999999\"]",
            ),
            (
                r#"{"a\"9":{"b":9223372036854775807},"c":"9223372036854775807"}"#,
                r#"{"a\"9":{"b":"9223372036854775807"},"c":"9223372036854775807"}"#,
            ),
            (
                "[1e21,9007199254740993.0,-0,0.5,true,null]",
                "[1e21,9007199254740993.0,-0,0.5,true,null]",
            ),
            (r#""a \\""#, r#""a \\""#),
        ] {
            let mut json = Vec::new();
            write(&mut json, text);
            assert_eq!(String::from_utf8(json).unwrap(), written);
        }
        assert_eq!(
            exact(json!({"a": [i64::MAX, 1, u64::MAX, 0.5], "b": i64::MIN})),
            json!({"a": [i64::MAX.to_string(), 1, u64::MAX.to_string(), 0.5],
                   "b": i64::MIN.to_string()})
        );
    }
}
