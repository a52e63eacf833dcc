//! JSON whose numbers every reader takes exactly. Readers that keep numbers as doubles, such
//! as browsers, round integers beyond 2^53, so these are written as strings.

/// The integers that a JSON number holds exactly.
const EXACT: u64 = 1 << 53;

/// Whether a JSON number holds this integer exactly for every reader.
pub const fn is_exact(number: i64) -> bool {
    number.unsigned_abs() <= EXACT
}

/// Appends a text that is JSON, with large integers as strings.
pub fn write(json: &mut Vec<u8>, text: &str) {
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

/// The position after the string that begins here.
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

#[cfg(test)]
mod tests {
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
    }
}
