//! Words of TSDL.

/// A word, and the line that it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    Number(i128),
    Text(String),
    /// `{`, `:=`, `...` and the like.
    Mark(&'static str),
}

const MARKS: [&str; 17] =
    ["...", ":=", "{", "}", "[", "]", "<", ">", "(", ")", ";", ":", ",", ".", "=", "*", "-"];

/// # Errors
/// If something is no word of TSDL.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, u32)>, String> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let skipped = if first.is_whitespace() {
            first.len_utf8()
        } else if let Some(comment) = rest.strip_prefix("/*") {
            2 + 2 + comment.find("*/").ok_or_else(|| at(line, "a comment does not end"))?
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            0
        };
        let taken = if skipped > 0 {
            skipped
        } else if first == '"' || first == '\'' {
            let (text, length) = quoted(rest, first, line)?;
            found.push((
                if first == '"' {
                    Token::Text(text)
                } else {
                    Token::Number(text.chars().next().map_or(0, |c| i128::from(u32::from(c))))
                },
                line,
            ));
            length
        } else if first.is_ascii_digit() {
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let number = number(&rest[..length])
                .ok_or_else(|| at(line, &format!("{:?} is no number", shortened(rest))))?;
            found.push((Token::Number(number), line));
            length
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length =
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            found.push((Token::Name(rest[..length].to_owned()), line));
            length
        } else if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
            found.push((Token::Mark(mark), line));
            mark.len()
        } else if first == '+' {
            1
        } else {
            return Err(at(line, &format!("{:?} is no TSDL", shortened(rest))));
        };
        line += u32::try_from(rest[..taken].matches('\n').count()).unwrap_or(0);
        rest = &rest[taken..];
    }
    Ok(found)
}

pub(super) fn at(line: u32, problem: &str) -> String {
    format!("metadata, line {line}: {problem}")
}

fn shortened(text: &str) -> String {
    text.chars().take(20).collect()
}

fn number(text: &str) -> Option<i128> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        u64::from_str_radix(binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    value.ok().map(i128::from)
}

/// A text between quotes, and its length with them.
fn quoted(rest: &str, quote: char, line: u32) -> Result<(String, usize), String> {
    let mut text = String::new();
    let mut letters = rest.char_indices().skip(1);
    while let Some((index, letter)) = letters.next() {
        if letter == quote {
            return Ok((text, index + 1));
        }
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        let Some((_, escaped)) = letters.next() else { break };
        text.push(match escaped {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'v' => '\x0b',
            '0' => '\0',
            other => other,
        });
    }
    Err(at(line, "a text does not end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_lines() {
        let found = tokens("a_1 := -0x1F // no\n/* no\n*/ \"x\\\"y\" 010 ... 5;").expect("TSDL");
        let words: Vec<_> = found.into_iter().collect();
        let mark = Token::Mark;
        assert_eq!(
            words,
            [
                (Token::Name("a_1".into()), 1),
                (mark(":="), 1),
                (mark("-"), 1),
                (Token::Number(31), 1),
                (Token::Text("x\"y".into()), 3),
                (Token::Number(8), 3),
                (mark("..."), 3),
                (Token::Number(5), 3),
                (mark(";"), 3),
            ]
        );
        for wrong in ["/*", "\"x", "9x", "ä", "\"\\", "99999999999999999999999"] {
            assert!(tokens(wrong).is_err(), "{wrong}");
        }
    }
}
