//! Builds a syntax tree from tokens, by recursive descent with precedence climbing, and checks
//! types on the way. The precedence is that of Tempo, from low to high: `|`; `&&` and `||` (one
//! level); comparisons and structural operators; `+ -`; `!` and a sign; `* / %`; `^`
//! (right-associative).

mod field;
mod metrics;
mod pipeline;

use crate::ast::{Body, Field, Hint, Literal, Query};
use crate::error::Error;
use crate::lexer::{Lexer, Token};
use crate::names;
use crate::pattern::Pattern;

/// Maximum bytes of a query.
pub const MAX_QUERY_BYTES: usize = 128 << 10;
/// Maximum nesting depth of brackets and operators.
pub const MAX_DEPTH: usize = 128;
/// Maximum number of regular expressions in a query. `a|b` does not count.
pub const MAX_PATTERNS: usize = 100;

/// Maximum number of stages in a pipeline.
pub const MAX_STAGES: usize = 100;
/// Maximum number of metrics functions in a query.
pub const MAX_MEASURES: usize = 50;

/// Parses and checks a query.
///
/// # Errors
/// What is wrong, with line and column.
pub fn parse(text: &str) -> Result<Query, Error> {
    if text.len() > MAX_QUERY_BYTES {
        return Err(Error::new(
            text,
            0,
            format!("a query of {} bytes; at most {MAX_QUERY_BYTES} are taken", text.len()),
        ));
    }
    let mut parser = Parser::new(text)?;
    let body = parser.body()?;
    let mut hints = Vec::new();
    while parser.take_word("with")? {
        parser.hints(&mut hints)?;
    }
    if parser.token != Token::End {
        let expected = match body {
            Body::Search(_) => "an operator, `|`, `with` or the end",
            Body::Metrics(_) => "`|`, a comparison, `with` or the end",
        };
        return Err(parser.expected(expected));
    }
    Ok(Query { body, hints })
}

pub(crate) struct Parser<'q> {
    lexer: Lexer<'q>,
    token: Token,
    /// Start and end of the token.
    at: usize,
    end: usize,
    depth: usize,
    patterns: usize,
    measures: usize,
}

impl<'q> Parser<'q> {
    fn new(text: &'q str) -> Result<Self, Error> {
        let mut lexer = Lexer::new(text);
        let (token, at, end) = lexer.next()?;
        Ok(Parser { lexer, token, at, end, depth: 0, patterns: 0, measures: 0 })
    }

    fn advance(&mut self) -> Result<Token, Error> {
        let (token, at, end) = self.lexer.next()?;
        self.at = at;
        self.end = end;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn error(&self, at: usize, message: impl Into<String>) -> Error {
        self.lexer.error(at, message)
    }

    /// The error that something else was expected instead of the token.
    fn expected(&self, what: &str) -> Error {
        let found = match &self.token {
            Token::End => "the end of the query".to_owned(),
            _ => {
                let text = self.lexer.between(self.at, self.end);
                match text.char_indices().nth(40) {
                    Some((end, _)) => format!("`{}…`", &text[..end]),
                    None => format!("`{text}`"),
                }
            }
        };
        self.error(self.at, format!("expected {what}, found {found}"))
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.token, Token::Symbol(found) if found == symbol)
    }

    fn take(&mut self, symbol: &str) -> Result<bool, Error> {
        let found = self.is(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Error> {
        if self.take(symbol)? { Ok(()) } else { Err(self.expected(&format!("`{symbol}`"))) }
    }

    fn take_word(&mut self, word: &str) -> Result<bool, Error> {
        let found = matches!(&self.token, Token::Word(found) if found == word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Runs `inside` one nesting level deeper.
    fn nested<T>(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.check_depth(self.depth + 1, self.at)?;
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    /// `depth` is the height of the tree, or the nesting of brackets.
    fn check_depth(&self, depth: usize, at: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(self.error(
                at,
                format!("brackets and operators are nested more than {MAX_DEPTH} deep"),
            ));
        }
        Ok(())
    }

    fn pattern(&mut self, source: &str, at: usize) -> Result<Pattern, Error> {
        let pattern = Pattern::new(source).map_err(|told| self.error(at, told))?;
        self.patterns += usize::from(pattern.texts().is_none());
        if self.patterns > MAX_PATTERNS {
            return Err(self
                .error(at, format!("more than {MAX_PATTERNS} regular expressions in one query")));
        }
        Ok(pattern)
    }

    /// Parses a constant of one token.
    fn literal(&mut self) -> Result<Option<Literal>, Error> {
        let literal = match &self.token {
            Token::Text(text) => Literal::String(text.clone()),
            Token::Int(number) => Literal::Int(*number),
            Token::Float(number) => Literal::Float(*number),
            Token::Duration(nanoseconds) => Literal::Duration(*nanoseconds),
            Token::Word(word) => match word.as_str() {
                "true" => Literal::Bool(true),
                "false" => Literal::Bool(false),
                "minInt" => Literal::Int(i64::MIN),
                "maxInt" => Literal::Int(i64::MAX),
                word => match (names::status(word), names::kind(word)) {
                    (Some(status), _) => Literal::Status(status),
                    (_, Some(kind)) => Literal::Kind(kind),
                    _ => return Ok(None),
                },
            },
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(literal))
    }

    /// Parses a field of one token.
    fn field(&mut self) -> Result<Option<Field>, Error> {
        let field = match &self.token {
            Token::Attribute(attribute) => Field::Attribute(attribute.clone()),
            Token::Intrinsic(intrinsic) => Field::Intrinsic(*intrinsic),
            Token::Word(word) => match names::intrinsic(word) {
                Some(intrinsic) => Field::Intrinsic(intrinsic),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(field))
    }

    /// Parses `field, …)`, after the opening bracket.
    fn fields(&mut self) -> Result<Vec<Field>, Error> {
        let mut fields = Vec::new();
        loop {
            let Some(field) = self.field()? else {
                return Err(self.expected("an attribute such as `span.http.route` or an intrinsic"));
            };
            fields.push(field);
            if !self.take(",")? {
                break;
            }
        }
        self.expect(")")?;
        Ok(fields)
    }

    /// Parses `(name=value, …)`, after `with`.
    fn hints(&mut self, hints: &mut Vec<Hint>) -> Result<(), Error> {
        self.expect("(")?;
        loop {
            let Token::Word(name) = self.token.clone() else {
                return Err(self.expected("the name of a hint, such as `most_recent`"));
            };
            self.advance()?;
            self.expect("=")?;
            let Some(value) = self.literal()? else {
                return Err(self.expected("a value"));
            };
            hints.push(Hint { name, value });
            if !self.take(",")? {
                break;
            }
        }
        self.expect(")")
    }
}
