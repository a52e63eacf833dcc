//! Types of expressions, as far as they are known without a span.

use crate::ast::{Arithmetic, Comparison, Expr, Field, Intrinsic, Literal, Scope};

/// The type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// Depends on the span.
    Any,
    Number,
    String,
    Bool,
    Status,
    Kind,
}

impl Type {
    /// The type's name in messages.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Type::Any => "a value",
            Type::Number => "a number",
            Type::String => "a string",
            Type::Bool => "a boolean",
            Type::Status => "a status",
            Type::Kind => "a kind",
        }
    }

    pub(crate) fn may_be(self, other: Type) -> bool {
        self == Type::Any || other == Type::Any || self == other
    }
}

pub(crate) fn of_literal(literal: &Literal) -> Type {
    match literal {
        Literal::Int(_) | Literal::Float(_) | Literal::Duration(_) => Type::Number,
        Literal::Bool(_) => Type::Bool,
        Literal::String(_) => Type::String,
        Literal::Status(_) => Type::Status,
        Literal::Kind(_) => Type::Kind,
    }
}

pub(crate) fn of_field(field: &Field) -> Type {
    let Field::Intrinsic(intrinsic) = field else { return Type::Any };
    match intrinsic {
        Intrinsic::Duration
        | Intrinsic::TraceDuration
        | Intrinsic::EventTimeSinceStart
        | Intrinsic::ChildCount
        | Intrinsic::NestedSetLeft
        | Intrinsic::NestedSetRight
        | Intrinsic::NestedSetParent => Type::Number,
        Intrinsic::Status => Type::Status,
        Intrinsic::Kind => Type::Kind,
        Intrinsic::Name
        | Intrinsic::StatusMessage
        | Intrinsic::SpanId
        | Intrinsic::ParentId
        | Intrinsic::RootName
        | Intrinsic::RootService
        | Intrinsic::TraceId
        | Intrinsic::EventName
        | Intrinsic::LinkTraceId
        | Intrinsic::LinkSpanId
        | Intrinsic::InstrumentationName
        | Intrinsic::InstrumentationVersion => Type::String,
    }
}

pub(crate) fn of_expr(expr: &Expr) -> Type {
    match expr {
        Expr::Literal(literal) => of_literal(literal),
        Expr::Field(field) => of_field(field),
        Expr::Arithmetic { .. } | Expr::Negate(_) => Type::Number,
        Expr::Logic { .. }
        | Expr::Compare { .. }
        | Expr::Match { .. }
        | Expr::Not(_)
        | Expr::Exists(_)
        | Expr::Missing(_) => Type::Bool,
    }
}

/// Whether values of two types can be compared with this operator, or the reason why not.
pub(crate) fn check_comparison(
    operator: Comparison,
    left: Type,
    right: Type,
) -> Result<(), String> {
    if !left.may_be(right) {
        return Err(format!("{} cannot be compared with {}", left.text(), right.text()));
    }
    if matches!(operator, Comparison::Equal | Comparison::NotEqual) {
        return Ok(());
    }
    match [left, right]
        .into_iter()
        .find(|one| matches!(one, Type::Bool | Type::Status | Type::Kind))
    {
        Some(one) => Err(format!("{} can only be compared by `=` and `!=`", one.text())),
        None => Ok(()),
    }
}

/// Whether both operands of arithmetic are numbers.
pub(crate) fn check_arithmetic(left: Type, right: Type) -> Result<(), String> {
    match [left, right].into_iter().find(|one| !one.may_be(Type::Number)) {
        Some(one) => Err(format!("expected numbers, found {}", one.text())),
        None => Ok(()),
    }
}

/// The reason why a field always has a value, if it does.
pub(crate) fn never_missing(field: &Field) -> bool {
    match field {
        Field::Intrinsic(_) => true,
        Field::Attribute(attribute) => {
            !attribute.parent
                && attribute.scope == Scope::Resource
                && attribute.name == "service.name"
        }
    }
}

/// Whether an expression depends on the span.
pub(crate) fn has_field(expr: &Expr) -> bool {
    let mut found = false;
    crate::fields::of_expr(expr, &mut |_| found = true);
    found
}

/// Computes arithmetic on constants outside `{…}`. Integers stay integers, and their division
/// truncates. Durations are refused.
pub(crate) fn fold(
    operator: Arithmetic,
    left: &Literal,
    right: &Literal,
) -> Result<Literal, &'static str> {
    const RANGE: &str = "the result does not fit 64 bits";
    if let (Literal::Int(left), Literal::Int(right)) = (left, right) {
        if *right == 0 && matches!(operator, Arithmetic::Divide | Arithmetic::Remainder) {
            return Err("division by zero");
        }
        return crate::value::integer(operator, *left, *right).map(Literal::Int).ok_or(RANGE);
    }
    let float = |literal: &Literal| match literal {
        Literal::Int(number) => Ok(*number as f64),
        Literal::Float(number) => Ok(*number),
        _ => Err("durations cannot be computed with here; write the result"),
    };
    let result = crate::value::float(operator, float(left)?, float(right)?);
    if result.is_finite() { Ok(Literal::Float(result)) } else { Err(RANGE) }
}
