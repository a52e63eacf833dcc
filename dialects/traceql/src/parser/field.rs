//! Expressions on one span, inside `{…}`.

use super::Parser;
use crate::ast::{Arithmetic, Comparison, Expr, Field, Intrinsic, Literal, Logic};
use crate::error::Error;
use crate::lexer::Token;
use crate::types::{self, Type};

/// Precedence of `+ -` in the table of [`operator`].
const SUM: u8 = 3;
/// Precedence of `* / %`, to which a sign or `!` also applies.
const PRODUCT: u8 = 4;

/// An operator between expressions.
#[derive(Clone, Copy)]
enum Operator {
    Logic(Logic),
    Compare(Comparison),
    Match { negated: bool },
    Arithmetic(Arithmetic),
}

/// `nil` is only allowed as an operand of `=` and `!=`.
enum Value {
    Nil,
    Expr(Expr),
}

/// A parsed expression, the height of its tree, and its start.
struct Part {
    value: Value,
    height: usize,
    at: usize,
}

pub(super) fn comparison(symbol: &str) -> Option<Comparison> {
    Some(match symbol {
        "=" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

pub(super) fn arithmetic(symbol: &str) -> Option<(Arithmetic, u8)> {
    Some(match symbol {
        "+" => (Arithmetic::Add, SUM),
        "-" => (Arithmetic::Subtract, SUM),
        "*" => (Arithmetic::Multiply, PRODUCT),
        "/" => (Arithmetic::Divide, PRODUCT),
        "%" => (Arithmetic::Remainder, PRODUCT),
        "^" => (Arithmetic::Power, PRODUCT + 1),
        _ => return None,
    })
}

fn operator(token: &Token) -> Option<(Operator, u8)> {
    let Token::Symbol(symbol) = token else { return None };
    let plain = match *symbol {
        "&&" => (Operator::Logic(Logic::And), 1),
        "||" => (Operator::Logic(Logic::Or), 1),
        "=~" => (Operator::Match { negated: false }, 2),
        "!~" => (Operator::Match { negated: true }, 2),
        symbol => match comparison(symbol) {
            Some(comparison) => (Operator::Compare(comparison), 2),
            None => {
                let (operator, precedence) = arithmetic(symbol)?;
                (Operator::Arithmetic(operator), precedence)
            }
        },
    };
    Some(plain)
}

/// Number of hexadecimal digits, if the field is an id.
fn id_digits(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Field(Field::Intrinsic(Intrinsic::TraceId | Intrinsic::LinkTraceId)) => Some(32),
        Expr::Field(Field::Intrinsic(
            Intrinsic::SpanId | Intrinsic::ParentId | Intrinsic::LinkSpanId,
        )) => Some(16),
        _ => None,
    }
}

/// An id as it is stored: in lower case, with leading zeros.
fn completed_id(expr: Expr, digits: usize) -> Expr {
    match expr {
        Expr::Literal(Literal::String(id))
            if !id.is_empty()
                && id.len() <= digits
                && id.bytes().all(|digit| digit.is_ascii_hexdigit()) =>
        {
            Expr::Literal(Literal::String(format!("{:0>digits$}", id.to_ascii_lowercase())))
        }
        other => other,
    }
}

impl Parser<'_> {
    /// Parses an expression of any type. Returns it with its height and start.
    pub(super) fn expr(&mut self) -> Result<(Expr, usize, usize), Error> {
        let part = self.operation(0)?;
        let (height, at) = (part.height, part.at);
        Ok((self.value(part)?, height, at))
    }

    /// Parses an expression that is true or false for a span.
    pub(super) fn condition(&mut self) -> Result<(Expr, usize), Error> {
        let (expr, height, at) = self.expr()?;
        let found = types::of_expr(&expr);
        if !found.may_be(Type::Bool) {
            return Err(self.error(
                at,
                format!("expected a condition, such as a comparison, found {}", found.text()),
            ));
        }
        Ok((expr, height))
    }

    fn value(&self, part: Part) -> Result<Expr, Error> {
        match part.value {
            Value::Expr(expr) => Ok(expr),
            Value::Nil => {
                Err(self.error(part.at, "`nil` can only be compared, by `= nil` or `!= nil`"))
            }
        }
    }

    fn operation(&mut self, minimum: u8) -> Result<Part, Error> {
        let mut left = self.operand()?;
        while let Some((operator, precedence)) = operator(&self.token) {
            if precedence < minimum {
                break;
            }
            let at = self.at;
            self.advance()?;
            if matches!(operator, Operator::Compare(Comparison::Equal)) && self.is("=") {
                return Err(self.error(self.at, "TraceQL compares by a single `=`"));
            }
            let power = matches!(operator, Operator::Arithmetic(Arithmetic::Power));
            let least = if power { precedence } else { precedence + 1 };
            let right = self.nested(|parser| parser.operation(least))?;
            let (start, height) = (left.at, left.height.max(right.height) + 1);
            let chained = matches!((&operator, &left.value), (Operator::Logic(operator),
                Value::Expr(Expr::Logic { operator: before, .. })) if before == operator);
            let height = if chained { left.height.max(right.height + 1) } else { height };
            self.check_depth(height, at)?;
            let expr = self.operated(operator, left, right, at)?;
            left = Part { value: Value::Expr(expr), height, at: start };
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Part, Error> {
        let at = self.at;
        if self.take("(")? {
            let part = self.nested(|parser| parser.operation(0))?;
            self.expect(")")?;
            let height = part.height;
            return Ok(Part { value: Value::Expr(self.value(part)?), height, at });
        }
        let sign = self.is("-");
        if sign || self.is("!") {
            self.advance()?;
            let part = self.nested(|parser| parser.operation(PRODUCT))?;
            let height = part.height + 1;
            self.check_depth(height, at)?;
            let expr = self.value(part)?;
            let expected = if sign { Type::Number } else { Type::Bool };
            let found = types::of_expr(&expr);
            if !found.may_be(expected) {
                return Err(
                    self.error(at, format!("expected {}, found {}", expected.text(), found.text()))
                );
            }
            let expr = if sign { self.negated(expr, at)? } else { Expr::Not(Box::new(expr)) };
            return Ok(Part { value: Value::Expr(expr), height, at });
        }
        if self.take_word("nil")? {
            return Ok(Part { value: Value::Nil, height: 1, at });
        }
        if let Some(field) = self.field()? {
            return Ok(Part { value: Value::Expr(Expr::Field(field)), height: 1, at });
        }
        if let Some(literal) = self.literal()? {
            return Ok(Part { value: Value::Expr(Expr::Literal(literal)), height: 1, at });
        }
        if let Token::Word(word) = &self.token {
            return Err(self.expected(&if word == "parent" {
                "an attribute of the parent, such as `parent.x`".to_owned()
            } else {
                format!(
                    "a value (attributes are written with their scope, such as `span.{word}` or `.{word}`)"
                )
            }));
        }
        Err(self.expected("a value"))
    }

    /// The negation of an expression. Numbers are negated immediately.
    fn negated(&self, expr: Expr, at: usize) -> Result<Expr, Error> {
        match expr {
            Expr::Literal(literal) => self.negative(&literal, at).map(Expr::Literal),
            other => Ok(Expr::Negate(Box::new(other))),
        }
    }

    /// The negation of a number.
    pub(super) fn negative(&self, number: &Literal, at: usize) -> Result<Literal, Error> {
        let negative = match number {
            Literal::Int(number) => number.checked_neg().map(Literal::Int),
            Literal::Duration(number) => number.checked_neg().map(Literal::Duration),
            Literal::Float(number) => Some(Literal::Float(-number)),
            _ => None,
        };
        negative.ok_or_else(|| self.error(at, "a number that does not fit 64 bits"))
    }

    fn operated(
        &mut self,
        operator: Operator,
        left: Part,
        right: Part,
        at: usize,
    ) -> Result<Expr, Error> {
        if let Operator::Compare(comparison @ (Comparison::Equal | Comparison::NotEqual)) = operator
        {
            let missing = comparison == Comparison::Equal;
            match (left.value, right.value) {
                (Value::Nil, Value::Nil) => return Ok(Expr::Literal(Literal::Bool(false))),
                (Value::Nil, Value::Expr(expr)) | (Value::Expr(expr), Value::Nil) => {
                    return self.compared_with_nil(missing, expr, at);
                }
                (Value::Expr(left), Value::Expr(right)) => {
                    return self.compared(comparison, left, right, at);
                }
            }
        }
        let (right_at, left, right) = (right.at, self.value(left)?, self.value(right)?);
        match operator {
            Operator::Compare(comparison) => self.compared(comparison, left, right, at),
            Operator::Logic(operator) => {
                for side in [&left, &right] {
                    let found = types::of_expr(side);
                    if !found.may_be(Type::Bool) {
                        return Err(self.error(
                            at,
                            format!("expected conditions on both sides, found {}", found.text()),
                        ));
                    }
                }
                let mut operands = match left {
                    Expr::Logic { operator: before, operands } if before == operator => operands,
                    left => vec![left],
                };
                operands.push(right);
                Ok(Expr::Logic { operator, operands })
            }
            Operator::Match { negated } => {
                let found = types::of_expr(&left);
                if !found.may_be(Type::String) {
                    let told = format!("expected a string before it, found {}", found.text());
                    return Err(self.error(at, told));
                }
                let Expr::Literal(Literal::String(source)) = right else {
                    return Err(self.error(right_at, "expected a regular expression in quotes"));
                };
                let pattern = self.pattern(&source, right_at)?;
                Ok(Expr::Match { negated, text: Box::new(left), pattern })
            }
            Operator::Arithmetic(operator) => {
                types::check_arithmetic(types::of_expr(&left), types::of_expr(&right))
                    .map_err(|told| self.error(at, told))?;
                Ok(Expr::Arithmetic { operator, left: Box::new(left), right: Box::new(right) })
            }
        }
    }

    fn compared(
        &self,
        operator: Comparison,
        left: Expr,
        right: Expr,
        at: usize,
    ) -> Result<Expr, Error> {
        types::check_comparison(operator, types::of_expr(&left), types::of_expr(&right))
            .map_err(|told| self.error(at, told))?;
        let (left, right) = match (id_digits(&left), id_digits(&right)) {
            (Some(digits), _) => (left, completed_id(right, digits)),
            (_, Some(digits)) => (completed_id(left, digits), right),
            _ => (left, right),
        };
        Ok(Expr::Compare { operator, left: Box::new(left), right: Box::new(right) })
    }

    fn compared_with_nil(&self, missing: bool, expr: Expr, at: usize) -> Result<Expr, Error> {
        if !missing {
            return Ok(Expr::Exists(Box::new(expr)));
        }
        match expr {
            Expr::Field(field) if types::never_missing(&field) => Err(self.error(
                at,
                format!("`{field}` is never missing, so it cannot be compared by `= nil`"),
            )),
            expr => Ok(Expr::Missing(Box::new(expr))),
        }
    }
}
