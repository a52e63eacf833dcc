//! Regular expressions in RE2's syntax as in Go, anchored at both ends; `.` matches any character
//! ([TraceQL, comparison
//! operators](https://grafana.com/docs/tempo/latest/traceql/construct-traceql-queries/#comparison-operators)).
//!
//! The `regex` crate differs in details, so expressions are translated: its `\d`, `\w`, `\s`, `\b`
//! match Unicode while Go's match ASCII, a class may contain classes and set operators, and it does
//! not support `\Q…\E` or a literal brace that is not part of a repetition.

use regex::{Regex, RegexBuilder};

/// Maximum bytes of a compiled expression.
const COMPILED_BYTES: usize = 1 << 20;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: String,
    matcher: Matcher,
}

#[derive(Debug, Clone)]
enum Matcher {
    /// `a|b|c`: one of these texts, in this order.
    Texts(Vec<String>),
    Regex(Regex),
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Pattern {
    /// Compiles `source`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(source: &str) -> Result<Self, String> {
        let matcher = if source.contains(|char: char| r"\.+*?()[]{}^$".contains(char)) {
            Matcher::Regex(compiled(source)?)
        } else {
            let mut texts: Vec<String> = source.split('|').map(str::to_owned).collect();
            texts.sort_unstable();
            texts.dedup();
            Matcher::Texts(texts)
        };
        Ok(Pattern { source: source.to_owned(), matcher })
    }

    /// The source text.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The texts of `a|b|c`, in order, if the expression is nothing else.
    #[must_use]
    pub fn texts(&self) -> Option<&[String]> {
        match &self.matcher {
            Matcher::Texts(texts) => Some(texts),
            Matcher::Regex(_) => None,
        }
    }

    /// Whether it matches the whole of `text`.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match &self.matcher {
            Matcher::Texts(texts) => texts.binary_search_by(|one| one.as_str().cmp(text)).is_ok(),
            Matcher::Regex(regex) => regex.is_match(text),
        }
    }
}

fn compiled(source: &str) -> Result<Regex, String> {
    // Such an expression would escape the anchors.
    if closes_early(source) {
        return Err("not a regular expression: unopened group".to_owned());
    }
    RegexBuilder::new(&format!("^(?s:{})$", translated(source)))
        .size_limit(COMPILED_BYTES)
        .dfa_size_limit(COMPILED_BYTES)
        .nest_limit(100)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => format!(
                "the regular expression takes more than {limit} bytes when compiled; repeat less"
            ),
            error => {
                let told = error.to_string();
                let last = told.lines().last().unwrap_or_default();
                format!(
                    "not a regular expression: {}",
                    last.strip_prefix("error: ").unwrap_or(last)
                )
            }
        })
}

/// Whether a `)` closes a group that was not opened.
fn closes_early(source: &str) -> bool {
    let mut depth = 0_i32;
    let mut class = false;
    let mut chars = source.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' if chars.peek() == Some(&'Q') && !class => {
                let rest: String = chars.by_ref().collect();
                return rest.split_once("\\E").is_some_and(|(_, rest)| closes_early(rest));
            }
            '\\' => drop(chars.next()),
            '[' if !class => {
                class = true;
                chars.next_if_eq(&'^');
                chars.next_if_eq(&']');
            }
            ']' => class = false,
            '(' if !class => depth += 1,
            ')' if !class => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

fn translated(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut rest = source;
    // Whether the position is in a character class, and whether it is the first in it.
    let mut class = false;
    let mut first = false;
    while let Some(char) = rest.chars().next() {
        let at_start = std::mem::take(&mut first);
        let mut taken = char.len_utf8();
        match char {
            '\\' if rest.starts_with("\\Q") => {
                let quoted = &rest[2..];
                let (quoted, length) = match quoted.find("\\E") {
                    Some(end) => (&quoted[..end], end + 4),
                    None => (quoted, rest.len()),
                };
                out.push_str(&regex::escape(quoted));
                taken = length;
            }
            '\\' => {
                let Some(escaped) = rest[1..].chars().next() else {
                    out.push('\\');
                    break;
                };
                taken = 1 + escaped.len_utf8();
                match (escaped, class) {
                    ('d', false) => out.push_str("[0-9]"),
                    ('d', true) => out.push_str("0-9"),
                    ('D', _) => out.push_str("[^0-9]"),
                    ('w', false) => out.push_str("[0-9A-Za-z_]"),
                    ('w', true) => out.push_str("0-9A-Za-z_"),
                    ('W', _) => out.push_str("[^0-9A-Za-z_]"),
                    ('s', false) => out.push_str(r"[\t\n\f\r ]"),
                    ('s', true) => out.push_str(r"\t\n\f\r "),
                    ('S', _) => out.push_str(r"[^\t\n\f\r ]"),
                    ('b', false) => out.push_str(r"(?-u:\b)"),
                    ('<' | '>', _) => out.push(escaped),
                    _ => out.push_str(&rest[..taken]),
                }
            }
            '[' if !class => {
                class = true;
                first = true;
                out.push('[');
                if rest[1..].starts_with('^') {
                    out.push('^');
                    taken += 1;
                }
            }
            ']' if class && !at_start => {
                class = false;
                out.push(']');
            }
            ']' if class => out.push_str(r"\]"),
            '[' => match rest.starts_with("[:").then(|| rest.find(":]")).flatten() {
                Some(end) => {
                    taken = end + 2;
                    out.push_str(&rest[..taken]);
                }
                None => out.push_str(r"\["),
            },
            '&' | '~' if class => {
                out.push('\\');
                out.push(char);
            }
            '{' if !class && !is_repetition(rest) => out.push_str(r"\{"),
            _ => out.push(char),
        }
        rest = &rest[taken..];
    }
    out
}

/// Whether a repetition `{n}`, `{n,}` or `{n,m}` begins here.
fn is_repetition(text: &str) -> bool {
    let Some((inside, _)) = text[1..].split_once('}') else { return false };
    let (low, high) = inside.split_once(',').unwrap_or((inside, ""));
    !low.is_empty() && (low.bytes().chain(high.bytes())).all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")).matches(text)
    }

    #[test]
    fn go_syntax() {
        for (pattern, yes, no) in [
            ("bar", "bar", "abar"),
            ("a|b", "b", "ab"),
            (".*x", "a\nx", "xa"),
            (r"\d+", "12", "١٢"),
            (r"\w+", "az_9", "é"),
            (r"[\w-]+", "a-b", "a b"),
            (r"[\D]", "a", "1"),
            (r"\bfoo\b", "foo", "foob"),
            (r"\Qa.b\E", "a.b", "axb"),
            (r"\Qa.b", "a.b", "axb"),
            (r"[[]", "[", "a"),
            (r"[]a]+", "]a", "b"),
            (r"[^]a]", "b", "]"),
            (r"[a&&b]+", "a&b", "c"),
            (r"[a~~b]+", "a~b", "c"),
            (r"[[:alpha:]]+", "ab", "1"),
            (r"/{id}", "/{id}", "/id"),
            (r"a{,2}", "a{,2}", "aa"),
            (r"a{2}", "aa", "a"),
            (r"a{1,}", "aaa", ""),
            (r"\<b\>", "<b>", "b"),
            ("(?i)get", "GET", "PUT"),
            ("é+", "éé", "e"),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes}");
            assert!(!matches(pattern, no), "{pattern} {no}");
        }
    }

    #[test]
    fn texts_are_not_compiled() {
        let many: Vec<String> = (0..4_000).map(|number| format!("{number:032x}")).collect();
        let pattern = Pattern::new(&many.join("|")).expect("texts");
        assert_eq!(pattern.texts(), Some(many.as_slice()));
        assert!(many.iter().all(|text| pattern.matches(text)) && !pattern.matches("1"));
        assert!(matches("a||b", "") && !matches("a|b", ""));
        assert_eq!(Pattern::new("a.b").expect("an expression").texts(), None);
    }

    #[test]
    fn refused() {
        for (pattern, told) in [
            ("[", "not a regular expression"),
            ("a)|(b", "unopened group"),
            ("(((a{100}){100}){100})", "1048576 bytes"),
            ("(", "not a regular expression"),
            ("\\", "not a regular expression"),
        ] {
            let error = Pattern::new(pattern).expect_err(pattern);
            assert!(error.contains(told), "{pattern}: {error}");
        }
        assert!(Pattern::new(&"(".repeat(10_000)).is_err());
        assert!(Pattern::new(&("(".repeat(10_000) + &")".repeat(10_000))).is_err());
    }
}
