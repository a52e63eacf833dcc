//! Limits the depth of statements. Planning and execution are recursive, so the depth is checked
//! before either begins.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SetExpr, TableFactor, Visit, Visitor};

/// Maximum levels of an expression. Each operator of a chain such as `a OR b OR c` is a level.
pub(super) const MOST_LEVELS: usize = 300;
/// Maximum tables, subqueries and parts of UNIONs in a statement.
pub(super) const MOST_QUERIES: usize = 60;

/// Checks the depth of a statement.
///
/// # Errors
/// A message, if the statement is too deep.
pub(super) fn check(statement: &Statement) -> Result<(), String> {
    let mut inner = statement;
    let statement = loop {
        match inner {
            Statement::Explain(explain) => inner = &explain.statement,
            Statement::Statement(statement) => break statement,
            // None of these statements is allowed, so their depth does not matter.
            Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => {
                return Ok(());
            }
        }
    };
    match statement.visit(&mut Levels::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(TooDeep::Levels) => Err(format!(
            "the statement is too complex: an expression in it has more than {MOST_LEVELS} \
             levels. Each operator of a chain such as a OR b OR c is one; write long lists as \
             x IN (…)"
        )),
        ControlFlow::Break(TooDeep::Queries) => Err(format!(
            "the statement is too complex: it has more than {MOST_QUERIES} tables, subqueries \
             and parts of UNIONs; ask in several statements"
        )),
    }
}

enum TooDeep {
    Levels,
    Queries,
}

#[derive(Default)]
struct Levels {
    levels: usize,
    queries: usize,
}

/// Levels that an expression adds to its operands.
fn height(expr: &Expr) -> usize {
    match expr {
        // Each element is applied to the result of the previous ones.
        Expr::CompoundFieldAccess { access_chain, .. } => access_chain.len().max(1),
        Expr::JsonAccess { path, .. } => path.path.len().max(1),
        _ => 1,
    }
}

impl Levels {
    fn queries(&mut self, more: usize) -> ControlFlow<TooDeep> {
        self.queries += more;
        match self.queries > MOST_QUERIES {
            true => ControlFlow::Break(TooDeep::Queries),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for Levels {
    type Break = TooDeep;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<TooDeep> {
        self.levels += height(expr);
        match self.levels > MOST_LEVELS {
            true => ControlFlow::Break(TooDeep::Levels),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<TooDeep> {
        self.levels -= height(expr);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<TooDeep> {
        // A chain of set operations counts as one query.
        let (mut body, mut operations) = (query.body.as_ref(), 0);
        while let SetExpr::SetOperation { left, .. } = body {
            (body, operations) = (left.as_ref(), operations + 1);
        }
        self.queries(operations)
    }

    fn pre_visit_select(&mut self, _select: &Select) -> ControlFlow<TooDeep> {
        self.queries(1)
    }

    fn pre_visit_table_factor(&mut self, _table: &TableFactor) -> ControlFlow<TooDeep> {
        self.queries(1)
    }
}
