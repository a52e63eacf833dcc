//! Splits a query into tokens.
//!
//! Attribute names end only at white space and at one of `{}()=~!<>&|^,`: a `-`, `+`, `*`, `/`, `.`
//! or `:` is part of a name. Parts of a name may be in double quotes ([quoted attribute
//! names](https://grafana.com/docs/tempo/latest/traceql/construct-traceql-queries/#quoted-attribute-names)).

use crate::ast::{Attribute, Intrinsic, Scope};
use crate::error::Error;
use crate::literal;
use crate::names;

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    End,
    /// An operator or a bracket.
    Symbol(&'static str),
    /// A word that is not an attribute.
    Word(String),
    Attribute(Attribute),
    Intrinsic(Intrinsic),
    Text(String),
    Int(i64),
    Float(f64),
    Duration(i64),
}

/// Longer symbols come first.
const SYMBOLS: [&str; 35] = [
    "!>>", "!<<", "&>>", "&<<", "!=", "!~", "!>", "!<", "=~", ">=", "<=", ">>", "<<", "&&", "||",
    "&~", "&>", "&<", ",", "{", "}", "(", ")", "=", ">", "<", "+", "-", "/", "%", "*", "^", "!",
    "|", "~",
];

/// Whether a name may contain the character.
pub(crate) fn is_name_char(char: char) -> bool {
    !char.is_whitespace() && !"{}()=~!<>&|^,".contains(char)
}

/// Reads one token after another.
pub(crate) struct Lexer<'q> {
    text: &'q str,
    at: usize,
}

impl<'q> Lexer<'q> {
    pub(crate) fn new(text: &'q str) -> Self {
        Lexer { text, at: 0 }
    }

    pub(crate) fn error(&self, at: usize, message: impl Into<String>) -> Error {
        Error::new(self.text, at, message)
    }

    /// The text between two offsets.
    pub(crate) fn between(&self, start: usize, end: usize) -> &'q str {
        &self.text[start..end]
    }

    /// Returns the next token, its start and its end.
    pub(crate) fn next(&mut self) -> Result<(Token, usize, usize), Error> {
        self.skip_blank()?;
        let start = self.at;
        let token = self.token()?;
        Ok((token, start, self.at))
    }

    fn rest(&self) -> &'q str {
        &self.text[self.at..]
    }

    fn skip_blank(&mut self) -> Result<(), Error> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                let Some(end) = trimmed.find("*/") else {
                    return Err(self.error(self.at, "expected `*/` at the end of this comment"));
                };
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Token, Error> {
        let rest = self.rest();
        let start = self.at;
        let mut chars = rest.chars();
        let Some(first) = chars.next() else { return Ok(Token::End) };
        let second = chars.next();
        match first {
            '0'..='9' => self.number(),
            '.' if second.is_some_and(|digit| digit.is_ascii_digit()) => self.number(),
            '.' => {
                self.at += 1;
                self.attribute(false, Scope::Any)
            }
            '"' | '`' => {
                let (text, length) =
                    literal::string(rest).map_err(|(at, told)| self.error(start + at, told))?;
                self.at += length;
                Ok(Token::Text(text))
            }
            _ if first.is_alphabetic() || first == '_' => self.word(),
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    Ok(Token::Symbol(symbol))
                }
                None => Err(self.error(start, format!("`{first}` has no meaning here"))),
            },
        }
    }

    fn word(&mut self) -> Result<Token, Error> {
        let rest = self.rest();
        let length =
            rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
        let word = &rest[..length];
        let start = self.at;
        match rest[length..].chars().next() {
            Some('.') if word == "parent" => {
                self.at += length + 1;
                for (prefix, scope) in [("span.", Scope::Span), ("resource.", Scope::Resource)] {
                    if self.rest().starts_with(prefix) {
                        self.at += prefix.len();
                        return self.attribute(true, scope);
                    }
                }
                self.attribute(true, Scope::Any)
            }
            Some('.') if names::scope(word).is_some() => {
                self.at += length + 1;
                self.attribute(false, names::scope(word).unwrap_or(Scope::Any))
            }
            Some(':') if names::INTRINSIC_SCOPES.contains(&word) => {
                let after = &rest[length + 1..];
                let end = after
                    .find(|char: char| !char.is_alphanumeric() && char != '_')
                    .unwrap_or(after.len());
                let name = &rest[..length + 1 + end];
                match names::scoped_intrinsic(name) {
                    Some(intrinsic) => {
                        self.at += name.len();
                        Ok(Token::Intrinsic(intrinsic))
                    }
                    None => Err(self.error(
                        start + length + 1,
                        format!("expected one of {}", names::scoped_intrinsics_of(word)),
                    )),
                }
            }
            _ => {
                self.at += length;
                Ok(Token::Word(word.to_owned()))
            }
        }
    }

    fn attribute(&mut self, parent: bool, scope: Scope) -> Result<Token, Error> {
        let start = self.at;
        let mut name = String::new();
        while let Some(char) = self.rest().chars().next() {
            if char == '"' {
                self.quoted(&mut name)?;
            } else if is_name_char(char) {
                name.push(char);
                self.at += char.len_utf8();
            } else {
                break;
            }
        }
        if name.is_empty() {
            return Err(self.error(start, "expected the name of an attribute"));
        }
        Ok(Token::Attribute(Attribute { parent, scope, name }))
    }

    /// A quoted part of a name.
    fn quoted(&mut self, name: &mut String) -> Result<(), Error> {
        let start = self.at;
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, char)) = chars.next() {
            match char {
                '"' => {
                    self.at = start + at + 1;
                    return Ok(());
                }
                '\\' => match chars.next() {
                    Some((_, escaped @ ('"' | '\\'))) => name.push(escaped),
                    _ => {
                        return Err(self.error(
                            start + at,
                            "only `\\\"` and `\\\\` may be escaped in the name of an attribute",
                        ));
                    }
                },
                _ => name.push(char),
            }
        }
        Err(self.error(start, "expected `\"` at the end of this name"))
    }

    fn number(&mut self) -> Result<Token, Error> {
        let rest = self.rest();
        let start = self.at;
        let digits =
            |from: usize| from + rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut end = digits(0);
        let mut float = false;
        if rest[end..].starts_with('.') {
            float = true;
            end = digits(end + 1);
        }
        let exponent = rest[end..]
            .strip_prefix(['e', 'E'])
            .map(|after| end + 1 + usize::from(after.starts_with(['+', '-'])));
        if let Some(exponent) = exponent.filter(|exponent| digits(*exponent) > *exponent) {
            float = true;
            end = digits(exponent);
        }
        if let Some((nanoseconds, length)) = literal::duration(rest) {
            self.at += length;
            let Some(nanoseconds) = nanoseconds else {
                return Err(self.error(start, "a duration of more than 292 years"));
            };
            return self.ends_number().map(|()| Token::Duration(nanoseconds));
        }
        self.at += end;
        let number = &rest[..end];
        let token = if float {
            number.parse().ok().filter(|number: &f64| number.is_finite()).map(Token::Float)
        } else {
            number.parse().ok().map(Token::Int)
        };
        match token {
            Some(token) => self.ends_number().map(|()| token),
            None => Err(self.error(start, "a number that does not fit 64 bits")),
        }
    }

    /// Fails if a character follows that looks like a part of the number.
    fn ends_number(&self) -> Result<(), Error> {
        match self.rest().chars().next() {
            Some(char) if char.is_alphanumeric() || "_.\"`".contains(char) => Err(self.error(
                self.at,
                format!(
                    "`{char}` is neither part of a number nor a unit; units are ns, us, ms, s, m, h, d, w, y"
                ),
            )),
            _ => Ok(()),
        }
    }
}
