//! Conditions on attributes, as they are written in a search.

use spanwise_store::{AttributeCondition, AttributeTest, Number};

/// The forms of a condition, for error messages.
pub const FORMS: &str = "KEY=VALUE, for example http.request.method=POST, or KEY!=VALUE, \
                                KEY>NUMBER (>=, <, <=), KEY~PART, KEY (there is one) or !KEY \
                                (there is none)";

/// Reads a condition.
///
/// # Errors
/// Why the text is not a condition.
pub fn read(text: &str) -> Result<AttributeCondition, String> {
    let text = text.trim_start();
    let (key, test) = match text.strip_prefix('!') {
        Some(key) => (key, None),
        None => {
            let at = text.find(['=', '<', '>', '~']).unwrap_or(text.len());
            let (key, operator) = text.split_at(at);
            match key.strip_suffix('!').filter(|_| operator.starts_with('=')) {
                Some(key) => (key, Some(format!("!{operator}"))),
                None => (key, Some(operator.to_owned())),
            }
        }
    };
    let is_spaced = key.ends_with(' ');
    let key = key.trim();
    if key.is_empty() {
        return Err("it names no key".to_owned());
    }
    if key.contains(['=', '<', '>', '~']) {
        return Err("`!` asks for what has no such key, and takes no value".to_owned());
    }
    let test = test.map_or(Ok(AttributeTest::Absent), |test| self::test(&test, is_spaced))?;
    Ok(AttributeCondition { key: key.to_owned(), test })
}

/// A test that compares with a number.
type Compared = fn(Number) -> AttributeTest;

/// Reads an operator and its operand.
fn test(text: &str, is_spaced: bool) -> Result<AttributeTest, String> {
    let known: [(&str, Compared); 4] = [
        (">=", AttributeTest::GreaterOrEqual),
        ("<=", AttributeTest::LessOrEqual),
        (">", AttributeTest::Greater),
        ("<", AttributeTest::Less),
    ];
    // If there is a space before the operator, one space after it is not part of the value.
    let value = |rest: &str| {
        let rest = if is_spaced { rest.strip_prefix(' ').unwrap_or(rest) } else { rest };
        rest.to_owned()
    };
    if text.trim().is_empty() {
        return Ok(AttributeTest::Exists);
    }
    if let Some(rest) = text.strip_prefix("!=") {
        return Ok(AttributeTest::NotEqual(value(rest)));
    }
    if let Some(rest) = text.strip_prefix('=') {
        return Ok(AttributeTest::Equal(value(rest)));
    }
    if let Some(rest) = text.strip_prefix('~') {
        return match value(rest) {
            part if part.is_empty() => Err("nothing stands after `~`".to_owned()),
            part => Ok(AttributeTest::Contains(part)),
        };
    }
    for (operator, test) in known {
        if let Some(rest) = text.strip_prefix(operator) {
            let number = Number::parse(rest.trim());
            return number.map(test).ok_or_else(|| {
                format!(
                    "what stands after `{operator}` is no number (durations have no units here)"
                )
            });
        }
    }
    Err("it is not understood".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_in_every_form() {
        let equal = |value: &str| AttributeTest::Equal(value.to_owned());
        let whole = Number::Int;
        for (text, key, test) in [
            ("a.b=c", "a.b", equal("c")),
            ("a==c", "a", equal("=c")),
            ("a=", "a", equal("")),
            ("a=b=c", "a", equal("b=c")),
            ("a = b c ", "a", equal("b c ")),
            ("a= b", "a", equal(" b")),
            ("a=x!=y", "a", equal("x!=y")),
            ("a!=c", "a", AttributeTest::NotEqual("c".to_owned())),
            ("a != c", "a", AttributeTest::NotEqual("c".to_owned())),
            ("a>5", "a", AttributeTest::Greater(whole(5))),
            ("a>=5", "a", AttributeTest::GreaterOrEqual(whole(5))),
            ("a <= -0.5", "a", AttributeTest::LessOrEqual(Number::Double(-0.5))),
            ("a<1e3", "a", AttributeTest::Less(Number::Double(1e3))),
            ("a~select", "a", AttributeTest::Contains("select".to_owned())),
            ("a", "a", AttributeTest::Exists),
            (" a ", "a", AttributeTest::Exists),
            ("!a", "a", AttributeTest::Absent),
            ("! a", "a", AttributeTest::Absent),
        ] {
            let read = read(text).unwrap();
            assert_eq!((read.key.as_str(), read.test), (key, test), "{text}");
        }
        for (text, why) in [
            ("=x", "no key"),
            ("!", "no key"),
            (">5", "no key"),
            ("a>x", "no number"),
            ("a>=10ms", "no number"),
            ("a<", "no number"),
            ("a~", "nothing stands"),
            ("!a=b", "no such key"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
