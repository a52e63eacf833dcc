//! The fields that a query mentions. Tempo displays them with every span of the result.

use std::collections::HashSet;

use crate::ast::{Expr, Field, Pipeline, Scalar, Spansets, Stage};

impl Pipeline {
    /// Every field that is compared, computed with, grouped by or selected, once, in the order of
    /// the text.
    #[must_use]
    pub fn fields(&self) -> Vec<&Field> {
        let mut fields = Vec::new();
        let mut known = HashSet::new();
        of_pipeline(self, &mut |field| {
            if known.insert(field) {
                fields.push(field);
            }
        });
        fields
    }
}

fn of_pipeline<'q>(pipeline: &'q Pipeline, each: &mut dyn FnMut(&'q Field)) {
    for stage in &pipeline.stages {
        match stage {
            Stage::Spansets(spansets) => of_spansets(spansets, each),
            Stage::Filter(filter) => {
                of_scalar(&filter.left, each);
                of_scalar(&filter.right, each);
            }
            Stage::Group(expr) => of_expr(expr, each),
            Stage::Coalesce => {}
            Stage::Select(fields) => fields.iter().for_each(&mut *each),
        }
    }
}

fn of_spansets<'q>(spansets: &'q Spansets, each: &mut dyn FnMut(&'q Field)) {
    match spansets {
        Spansets::Where(expr) => of_expr(expr, each),
        Spansets::Pipeline(pipeline) => of_pipeline(pipeline, each),
        Spansets::Join { left, right, .. } => {
            of_spansets(left, each);
            of_spansets(right, each);
        }
    }
}

fn of_scalar<'q>(scalar: &'q Scalar, each: &mut dyn FnMut(&'q Field)) {
    match scalar {
        Scalar::Number(_) | Scalar::Count => {}
        Scalar::Aggregate { of, .. } => of_expr(of, each),
        Scalar::Arithmetic { left, right, .. } => {
            of_scalar(left, each);
            of_scalar(right, each);
        }
    }
}

pub(crate) fn of_expr<'q>(expr: &'q Expr, each: &mut dyn FnMut(&'q Field)) {
    match expr {
        Expr::Literal(_) => {}
        Expr::Field(field) => each(field),
        Expr::Logic { operands, .. } => operands.iter().for_each(|operand| of_expr(operand, each)),
        Expr::Compare { left, right, .. } | Expr::Arithmetic { left, right, .. } => {
            of_expr(left, each);
            of_expr(right, each);
        }
        Expr::Match { text: inner, .. }
        | Expr::Not(inner)
        | Expr::Negate(inner)
        | Expr::Exists(inner)
        | Expr::Missing(inner) => of_expr(inner, each),
    }
}
