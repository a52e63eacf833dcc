//! Table functions of the server, such as `chains()`. The engine knows only their names: the server
//! computes the rows when a statement is planned.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::Expr;

use super::attribute::key_in;
use super::table::Source;

/// Most arguments of a call.
const MOST_ARGUMENTS: usize = 32;

/// One function.
#[derive(Debug)]
pub(super) struct ServerFunction {
    name: String,
    source: Arc<dyn Source>,
}

impl ServerFunction {
    pub(super) fn new(name: &str, source: Arc<dyn Source>) -> Self {
        Self { name: name.to_owned(), source }
    }

    fn argument(&self, argument: &Expr) -> Result<String, DataFusionError> {
        let wrong = || {
            DataFusionError::Plan(format!(
                "{0} takes texts, such as {0}('start=-1h'), and whole numbers",
                self.name
            ))
        };
        let Expr::Literal(value, _) = argument else { return Err(wrong()) };
        match value {
            ScalarValue::Int64(Some(number)) => Ok(number.to_string()),
            other => key_in(other).map(str::to_owned).ok_or_else(wrong),
        }
    }
}

impl TableFunctionImpl for ServerFunction {
    fn call_with_args(
        &self,
        arguments: TableFunctionArgs<'_, '_>,
    ) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let given = arguments.exprs();
        if given.len() > MOST_ARGUMENTS {
            return Err(DataFusionError::Plan(format!(
                "{} has {} arguments; {MOST_ARGUMENTS} are taken",
                self.name,
                given.len()
            )));
        }
        let texts: Vec<String> =
            given.iter().map(|one| self.argument(one)).collect::<Result<_, _>>()?;
        let rows = self.source.call(&self.name, &texts)?;
        Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
    }
}
