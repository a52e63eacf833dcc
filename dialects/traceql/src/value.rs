//! Values and operators.

use std::borrow::Cow;
use std::fmt;

use crate::ast::{Arithmetic, Comparison, Kind, Literal, Status};
use crate::names;

/// The value of an expression for a span.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Nil,
    /// An integer.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// Nanoseconds.
    Duration(i64),
    /// A status.
    Status(Status),
    /// A kind.
    Kind(Kind),
    /// Text.
    String(Cow<'a, str>),
    /// Several values: an array, or the same attribute of several events or links.
    Array(Vec<Value<'a>>),
    /// Bytes or a map. It exists, but is equal to nothing.
    Other,
}

impl<'a> From<&'a Literal> for Value<'a> {
    fn from(literal: &'a Literal) -> Self {
        match literal {
            Literal::Int(number) => Value::Int(*number),
            Literal::Float(number) => Value::Float(*number),
            Literal::Bool(value) => Value::Bool(*value),
            Literal::String(text) => Value::String(Cow::Borrowed(text)),
            Literal::Duration(nanoseconds) => Value::Duration(*nanoseconds),
            Literal::Status(status) => Value::Status(*status),
            Literal::Kind(kind) => Value::Kind(*kind),
        }
    }
}

impl Value<'_> {
    /// The value as a number; durations in nanoseconds.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Int(number) | Value::Duration(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// A copy that borrows nothing.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Nil => Value::Nil,
            Value::Int(number) => Value::Int(number),
            Value::Float(number) => Value::Float(number),
            Value::Bool(value) => Value::Bool(value),
            Value::Duration(nanoseconds) => Value::Duration(nanoseconds),
            Value::Status(status) => Value::Status(status),
            Value::Kind(kind) => Value::Kind(kind),
            Value::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Value::Array(values) => {
                Value::Array(values.into_iter().map(Value::into_owned).collect())
            }
            Value::Other => Value::Other,
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Nil => out.write_str("nil"),
            Value::Int(number) => write!(out, "{number}"),
            Value::Float(number) => write!(out, "{number}"),
            Value::Bool(value) => write!(out, "{value}"),
            Value::Duration(nanoseconds) => {
                out.write_str(&crate::literal::duration_text(*nanoseconds))
            }
            Value::Status(status) => out.write_str(names::status_text(*status)),
            Value::Kind(kind) => out.write_str(names::kind_text(*kind)),
            Value::String(text) => out.write_str(text),
            Value::Array(values) => {
                out.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    write!(out, "{}{value}", if index > 0 { ", " } else { "" })?;
                }
                out.write_str("]")
            }
            Value::Other => out.write_str("…"),
        }
    }
}

/// Integer arithmetic; `None` if the result does not fit or the divisor is 0.
pub(crate) fn integer(operator: Arithmetic, left: i64, right: i64) -> Option<i64> {
    match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::Remainder => left.checked_rem(right),
        Arithmetic::Power => match u32::try_from(right) {
            Ok(exponent) => left.checked_pow(exponent),
            // The exponent does not fit. The result is 0, 1 or -1, or too large.
            Err(_) => match (left, right > 0) {
                (1, _) => Some(1),
                (0, true) => Some(0),
                (-1, _) => Some(if right % 2 == 0 { 1 } else { -1 }),
                (0, false) | (_, true) => None,
                (_, false) => Some(0),
            },
        },
    }
}

pub(crate) fn float(operator: Arithmetic, left: f64, right: f64) -> f64 {
    match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
        Arithmetic::Power => left.powf(right),
    }
}

/// Two integers give an integer. If there is no result, the value is [`Value::Nil`].
pub(crate) fn compute(operator: Arithmetic, left: &Value<'_>, right: &Value<'_>) -> Value<'static> {
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        return integer(operator, *left, *right).map_or(Value::Nil, Value::Int);
    }
    match (left.number(), right.number()) {
        (Some(left), Some(right)) => Value::Float(float(operator, left, right)),
        _ => Value::Nil,
    }
}

/// Whether `left operator right` is true. Between values of different types, or without a value, it
/// is false, even for `!=`. Of an array, at least one element must satisfy it; for `!=`, all
/// elements.
pub(crate) fn compare(operator: Comparison, left: &Value<'_>, right: &Value<'_>) -> bool {
    let all = operator == Comparison::NotEqual;
    match (left, right) {
        (Value::Array(_), Value::Array(_)) => false,
        (Value::Array(values), other) => {
            let mut each = values.iter().map(|value| compare(operator, value, other));
            if all { each.all(|holds| holds) } else { each.any(|holds| holds) }
        }
        (_, Value::Array(_)) => compare(operator.mirrored(), right, left),
        (Value::Bool(left), Value::Bool(right)) => equality(operator, left == right),
        (Value::Status(left), Value::Status(right)) => equality(operator, left == right),
        (Value::Kind(left), Value::Kind(right)) => equality(operator, left == right),
        (Value::String(left), Value::String(right)) => ordered(operator, left, right),
        (Value::Int(left) | Value::Duration(left), Value::Int(right) | Value::Duration(right)) => {
            ordered(operator, left, right)
        }
        _ => match (left.number(), right.number()) {
            (Some(left), Some(right)) => ordered(operator, &left, &right),
            _ => false,
        },
    }
}

fn equality(operator: Comparison, equal: bool) -> bool {
    match operator {
        Comparison::Equal => equal,
        Comparison::NotEqual => !equal,
        _ => false,
    }
}

pub(crate) fn ordered<T: PartialOrd + ?Sized>(operator: Comparison, left: &T, right: &T) -> bool {
    match operator {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers() {
        for (left, right, power) in [
            (2, 3, Some(8)),
            (3, 2, Some(9)),
            (2, 64, None),
            (2, -1, Some(0)),
            (0, -1, None),
            (-1, -3, Some(-1)),
            (1, i64::MAX, Some(1)),
            (-1, i64::MAX, Some(-1)),
        ] {
            assert_eq!(integer(Arithmetic::Power, left, right), power, "{left} ^ {right}");
        }
    }

    #[test]
    fn no_value_without_a_result() {
        for operator in [Arithmetic::Divide, Arithmetic::Remainder] {
            assert_eq!(compute(operator, &Value::Int(1), &Value::Int(0)), Value::Nil);
        }
        let largest = Value::Int(i64::MAX);
        assert_eq!(compute(Arithmetic::Add, &largest, &Value::Int(1)), Value::Nil);
        assert_eq!(compute(Arithmetic::Divide, &Value::Int(7), &Value::Int(2)), Value::Int(3));
    }
}
