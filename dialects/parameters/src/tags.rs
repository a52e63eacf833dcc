//! Tags as the clients of Tempo, Jaeger and Zipkin write them: keys, each with a value.

use serde_json::{Map, Value};

/// The pairs of a text in logfmt: `key=value key="value with spaces"`.
///
/// # Errors
/// What is wrong with it.
pub fn logfmt(text: &str) -> Result<Vec<(String, String)>, String> {
    let wrong = |what: &str| format!("{what}; write key=value, or key=\"a b\"");
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        if key.is_empty() {
            return Err(wrong("there is a value without a key"));
        }
        let Some(after) = after.strip_prefix('=') else {
            return Err(wrong(&format!("`{}` has no value", brief(key))));
        };
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => {
                unquoted(quoted).ok_or_else(|| wrong("a quotation mark is not closed"))?
            }
            None => {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        if pairs.iter().any(|(known, _)| known == key) {
            return Err(format!("tag {} has been set twice", brief(key)));
        }
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// The text up to a quotation mark, and what comes after it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

fn brief(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Jaeger's JSON object of tags. Jaeger takes texts only; what else is meant is clear.
///
/// # Errors
/// Where it is no JSON object.
pub fn object(text: &str) -> Result<Vec<(String, String)>, serde_json::Error> {
    let object: Map<String, Value> = serde_json::from_str(text)?;
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(object.into_iter().map(|(key, value)| (key, text(value))).collect())
}

/// The parts of an `annotationQuery`. A value that is given wins over a key alone, and the last
/// of several values.
pub fn annotations(text: &str) -> Vec<(String, Option<String>)> {
    let mut parts: Vec<(String, Option<String>)> = Vec::new();
    for part in text.split(" and ") {
        let (key, value) = match part.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim()).filter(|it| !it.is_empty())),
            None => (part.trim(), None),
        };
        if key.is_empty() {
            continue;
        }
        let value = value.map(str::to_owned);
        match parts.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) if part.contains('=') => *known = value,
            Some(_) => {}
            None => parts.push((key.to_owned(), value)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags() {
        let read = logfmt;
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            read(r#"service.name=a  http.url="b \"c\" d" e="#),
            Ok(vec![pair("service.name", "a"), pair("http.url", "b \"c\" d"), pair("e", "")])
        );
        for (text, part) in [
            ("a", "no value"),
            ("=b", "without a key"),
            (r#"a="b"#, "not closed"),
            ("a=1 a=2", "twice"),
        ] {
            assert!(read(text).is_err_and(|why| why.contains(part)), "{text}");
        }
    }
}
