//! Prints trees in one canonical form, which parses to the same tree.

use std::fmt::{self, Display, Formatter};

use crate::ast::{
    Aggregate, Arithmetic, Attribute, Body, Comparison, Expr, Field, Function, Hint, Intrinsic,
    Join, Literal, Logic, Measure, Metrics, Pipeline, Query, Relation, Scalar, ScalarFilter, Scope,
    SecondStage, Spansets, Stage, Taken,
};
use crate::lexer::is_name_char;
use crate::{literal, names};

/// Precedence of expressions; see the parser's table.
const LOGIC: u8 = 1;
const COMPARISON: u8 = 2;
const SUM: u8 = 3;
const SIGN: u8 = 4;
const PRODUCT: u8 = 5;
const POWER: u8 = 6;
const WHOLE: u8 = 7;

fn separated<T: Display>(
    out: &mut Formatter<'_>,
    parts: impl IntoIterator<Item = T>,
    separator: &str,
) -> fmt::Result {
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            out.write_str(separator)?;
        }
        write!(out, "{part}")?;
    }
    Ok(())
}

impl Display for Query {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match &self.body {
            Body::Search(pipeline) => write!(out, "{pipeline}")?,
            Body::Metrics(metrics) => write!(out, "{metrics}")?,
        }
        if !self.hints.is_empty() {
            out.write_str(" with(")?;
            separated(out, &self.hints, ", ")?;
            out.write_str(")")?;
        }
        Ok(())
    }
}

impl Display for Hint {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.name, self.value)
    }
}

impl Display for Pipeline {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        separated(out, &self.stages, " | ")
    }
}

impl Display for Stage {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Spansets(spansets) => write!(out, "{spansets}"),
            Stage::Filter(filter) => write!(out, "{filter}"),
            Stage::Group(expr) => write!(out, "by({expr})"),
            Stage::Coalesce => out.write_str("coalesce()"),
            Stage::Select(fields) => {
                out.write_str("select(")?;
                separated(out, fields, ", ")?;
                out.write_str(")")
            }
        }
    }
}

impl Display for Spansets {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Spansets::Where(Expr::Literal(Literal::Bool(true))) => out.write_str("{ }"),
            Spansets::Where(condition) => write!(out, "{{ {condition} }}"),
            Spansets::Pipeline(pipeline) => write!(out, "({pipeline})"),
            Spansets::Join { operator, left, right } => {
                let side = |out: &mut Formatter<'_>, side: &Spansets| match side {
                    Spansets::Join { .. } => write!(out, "({side})"),
                    _ => write!(out, "{side}"),
                };
                side(out, left)?;
                write!(out, " {operator} ")?;
                side(out, right)
            }
        }
    }
}

impl Display for Join {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Join::Structure { relation, taken } = self else {
            return out.write_str(if *self == Join::And { "&&" } else { "||" });
        };
        out.write_str(match taken {
            Taken::Related => "",
            Taken::Unrelated => "!",
            Taken::Both => "&",
        })?;
        out.write_str(match relation {
            Relation::Child => ">",
            Relation::Parent => "<",
            Relation::Descendant => ">>",
            Relation::Ancestor => "<<",
            Relation::Sibling => "~",
        })
    }
}

impl Display for ScalarFilter {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.left, self.operator, self.right)
    }
}

impl Display for Scalar {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Number(number) => write!(out, "{number}"),
            Scalar::Count => out.write_str("count()"),
            Scalar::Aggregate { function, of } => {
                let name = match function {
                    Aggregate::Average => "avg",
                    Aggregate::Maximum => "max",
                    Aggregate::Minimum => "min",
                    Aggregate::Sum => "sum",
                };
                write!(out, "{name}({of})")
            }
            Scalar::Arithmetic { operator, left, right } => {
                let side = |out: &mut Formatter<'_>, side: &Scalar| match side {
                    Scalar::Arithmetic { .. } => write!(out, "({side})"),
                    _ => write!(out, "{side}"),
                };
                side(out, left)?;
                write!(out, " {operator} ")?;
                side(out, right)
            }
        }
    }
}

impl Expr {
    fn binding(&self) -> u8 {
        match self {
            Expr::Logic { .. } => LOGIC,
            Expr::Compare { .. } | Expr::Match { .. } | Expr::Exists(_) | Expr::Missing(_) => {
                COMPARISON
            }
            Expr::Arithmetic { operator, .. } => match operator {
                Arithmetic::Add | Arithmetic::Subtract => SUM,
                Arithmetic::Power => POWER,
                _ => PRODUCT,
            },
            Expr::Not(_) | Expr::Negate(_) => SIGN,
            Expr::Literal(Literal::Int(number) | Literal::Duration(number))
                if *number < 0 && *number != i64::MIN =>
            {
                SIGN
            }
            Expr::Literal(Literal::Float(number)) if number.is_sign_negative() => SIGN,
            Expr::Literal(_) | Expr::Field(_) => WHOLE,
        }
    }

    /// Prints the operand of a sign. A sign applies to products and powers, too, but brackets are
    /// easier to read.
    fn write_signed(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.write(out, if self.binding() == SIGN { SIGN } else { WHOLE })
    }

    /// Prints the expression, in brackets if its precedence is lower than `least`.
    fn write(&self, out: &mut Formatter<'_>, least: u8) -> fmt::Result {
        if self.binding() < least { write!(out, "({self})") } else { write!(out, "{self}") }
    }
}

impl Display for Expr {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Literal(literal) => write!(out, "{literal}"),
            Expr::Field(field) => write!(out, "{field}"),
            Expr::Logic { operator, operands } => {
                let sign = if *operator == Logic::And { " && " } else { " || " };
                for (index, operand) in operands.iter().enumerate() {
                    if index > 0 {
                        out.write_str(sign)?;
                    }
                    operand.write(out, COMPARISON)?;
                }
                Ok(())
            }
            Expr::Compare { operator, left, right } => {
                left.write(out, COMPARISON)?;
                write!(out, " {operator} ")?;
                right.write(out, SUM)
            }
            Expr::Match { negated, text, pattern } => {
                text.write(out, COMPARISON)?;
                out.write_str(if *negated { " !~ " } else { " =~ " })?;
                out.write_str(&literal::string_text(pattern.source()))
            }
            Expr::Arithmetic { operator, left, right } => {
                let own = self.binding();
                let (of_left, of_right) =
                    if own == POWER { (own + 1, own) } else { (own, own + 1) };
                left.write(out, of_left)?;
                write!(out, " {operator} ")?;
                right.write(out, of_right)
            }
            Expr::Not(inner) => {
                out.write_str("!")?;
                inner.write_signed(out)
            }
            Expr::Negate(inner) => {
                out.write_str("-")?;
                inner.write_signed(out)
            }
            Expr::Exists(inner) => {
                inner.write(out, COMPARISON)?;
                out.write_str(" != nil")
            }
            Expr::Missing(inner) => {
                inner.write(out, COMPARISON)?;
                out.write_str(" = nil")
            }
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        })
    }
}

impl Display for Arithmetic {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Remainder => "%",
            Arithmetic::Power => "^",
        })
    }
}

impl Display for Literal {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Int(i64::MIN) => out.write_str("minInt"),
            Literal::Int(number) => write!(out, "{number}"),
            Literal::Float(number) => write!(out, "{number:?}"),
            Literal::Bool(value) => write!(out, "{value}"),
            Literal::String(text) => out.write_str(&literal::string_text(text)),
            Literal::Duration(nanoseconds) => out.write_str(&literal::duration_text(*nanoseconds)),
            Literal::Status(status) => out.write_str(names::status_text(*status)),
            Literal::Kind(kind) => out.write_str(names::kind_text(*kind)),
        }
    }
}

impl Display for Field {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Field::Attribute(attribute) => write!(out, "{attribute}"),
            Field::Intrinsic(intrinsic) => write!(out, "{intrinsic}"),
        }
    }
}

impl Display for Intrinsic {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(names::intrinsic_text(*self))
    }
}

impl Display for Attribute {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match (self.parent, self.scope) {
            (true, Scope::Any) => out.write_str("parent.")?,
            (true, scope) => write!(out, "parent.{}", names::scope_text(scope))?,
            (false, scope) => out.write_str(names::scope_text(scope))?,
        }
        let name = &self.name;
        let ambiguous = self.scope == Scope::Any
            && (name.starts_with(|first: char| first.is_ascii_digit())
                || (self.parent && (name.starts_with("span.") || name.starts_with("resource."))));
        if !ambiguous && name.chars().all(|char| is_name_char(char) && char != '"') {
            return out.write_str(name);
        }
        write!(out, "\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

impl Display for Metrics {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Metrics::Measure(measure) => write!(out, "{measure}"),
            Metrics::Number(number) => write!(out, "{number:?}"),
            Metrics::Arithmetic { operator, left, right } => {
                let side = |out: &mut Formatter<'_>, side: &Metrics| match side {
                    Metrics::Number(_) => write!(out, "{side}"),
                    _ => write!(out, "({side})"),
                };
                side(out, left)?;
                write!(out, " {operator} ")?;
                side(out, right)
            }
            Metrics::Then { metrics, stages } => {
                write!(out, "{metrics}")?;
                for stage in stages {
                    match stage {
                        SecondStage::Top(count) => write!(out, " | topk({count})")?,
                        SecondStage::Bottom(count) => write!(out, " | bottomk({count})")?,
                        SecondStage::Compare(comparison, number) => {
                            write!(out, " {comparison} {number}")?;
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

impl Display for Measure {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{} | {}", self.spans, self.function)?;
        if !self.by.is_empty() {
            out.write_str(" by (")?;
            separated(out, &self.by, ", ")?;
            out.write_str(")")?;
        }
        Ok(())
    }
}

impl Function {
    /// The function's name, which also names its series if there is only one.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Function::Rate => "rate",
            Function::Count => "count_over_time",
            Function::Minimum(_) => "min_over_time",
            Function::Maximum(_) => "max_over_time",
            Function::Average(_) => "avg_over_time",
            Function::Sum(_) => "sum_over_time",
            Function::Quantile { .. } => "quantile_over_time",
            Function::Histogram(_) => "histogram_over_time",
            Function::Compare { .. } => "compare",
        }
    }
}

impl Display for Function {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}(", self.name())?;
        match self {
            Function::Rate | Function::Count => {}
            Function::Minimum(field)
            | Function::Maximum(field)
            | Function::Average(field)
            | Function::Sum(field)
            | Function::Histogram(field) => write!(out, "{field}")?,
            Function::Quantile { field, quantiles } => {
                write!(out, "{field}")?;
                for quantile in quantiles {
                    write!(out, ", {quantile}")?;
                }
            }
            Function::Compare { selection, top, window } => {
                write!(out, "{}, {top}", Spansets::Where(selection.clone()))?;
                if let Some((start, end)) = window {
                    write!(out, ", {start}, {end}")?;
                }
            }
        }
        out.write_str(")")
    }
}
