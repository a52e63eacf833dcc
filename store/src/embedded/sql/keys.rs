//! Finds out which attributes a statement reads. Other attributes need not be read from files.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DataFusionError};
use datafusion::logical_expr::{Expr, LogicalPlan};
use spanwise_model::schema::column;

use super::attribute::{ATTRIBUTE, key_in};

/// The attribute keys that a plan (before optimisation) reads. `None` if it may read the whole
/// column.
pub(super) fn read_by(plan: &LogicalPlan) -> Option<Vec<String>> {
    let mut keys = Vec::new();
    let mut reads_all = has_map(plan.schema());
    let visited = plan.apply_with_subqueries(|node| {
        reads_all = reads_all || compares_rows(node);
        node.apply_expressions(|expr| {
            expr.apply(|expr| Ok(visit(expr, &mut keys, &mut reads_all)))?;
            Ok::<_, DataFusionError>(TreeNodeRecursion::Continue)
        })
    });
    (visited.is_ok() && !reads_all).then_some(keys)
}

fn visit(expr: &Expr, keys: &mut Vec<String>, reads_all: &mut bool) -> TreeNodeRecursion {
    match expr {
        Expr::ScalarFunction(call) if call.name() == ATTRIBUTE => {
            if let [Expr::Column(of), Expr::Literal(key, _)] = call.args.as_slice()
                && is_attributes(of)
                && let Some(key) = key_in(key)
            {
                keys.push(key.to_owned());
                return TreeNodeRecursion::Jump;
            }
        }
        Expr::Column(of) if is_attributes(of) => *reads_all = true,
        _ => {}
    }
    TreeNodeRecursion::Continue
}

fn is_attributes(of: &Column) -> bool {
    of.name == column::ATTRIBUTES
}

fn has_map(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Map(..)))
}

/// Whether the node may read columns that none of its expressions contains.
fn compares_rows(node: &LogicalPlan) -> bool {
    let names_what_it_reads = matches!(
        node,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
    );
    !names_what_it_reads && node.inputs().iter().any(|input| has_map(input.schema()))
}
