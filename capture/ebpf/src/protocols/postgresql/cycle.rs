//! What one request to PostgreSQL asks for, message by message.

use std::sync::Arc;

use spanwise_model::AttributeValue;

use super::message::UNTYPED;
use super::statements::Statement;
use crate::sessions::Request;

/// A request that is being put together.
#[derive(Debug)]
pub(super) struct Cycle {
    /// The type of its first message.
    first: u8,
    parsed: Option<Arc<Statement>>,
    /// The first statement executed, where it is known.
    executed: Option<Arc<Statement>>,
    /// Whether others than that one were executed too.
    mixed: bool,
    bound: Option<Arc<Statement>>,
    executions: u32,
}

impl Cycle {
    /// A request that begins with a message of this type.
    pub(super) const fn of(first: u8) -> Self {
        Self { first, parsed: None, executed: None, mixed: false, bound: None, executions: 0 }
    }

    /// A simple query.
    pub(super) fn query(statement: Arc<Statement>) -> Self {
        Self { executed: Some(statement), executions: 1, ..Self::of(b'Q') }
    }

    /// Parse.
    pub(super) fn parse(&mut self, statement: Arc<Statement>) {
        self.parsed = Some(statement);
    }

    /// Bind of a statement that may not be known.
    pub(super) fn bind(&mut self, statement: Option<Arc<Statement>>) {
        self.bound = statement;
    }

    /// Execute of a portal whose statement may not be known.
    pub(super) fn execute(&mut self, portal: Option<Arc<Statement>>) {
        let statement = self.bound.clone().or(portal);
        if self.executions == 0 {
            self.executed = statement;
        } else {
            self.mixed |= self.executed != statement;
        }
        self.executions = self.executions.saturating_add(1);
    }

    /// The rest of the request was not seen.
    pub(super) fn assume_executed(&mut self) {
        if self.executions == 0 {
            self.executed = self.bound.clone().or_else(|| self.parsed.clone());
            self.executions = 1;
        }
    }

    /// Writes what is known into a request.
    pub(super) fn describe(&self, database: Option<&str>, request: &mut Request) {
        let prepares = self.executions == 0 && self.parsed.is_some();
        let statement = if prepares { &self.parsed } else { &self.executed };
        let attributes = &mut request.attributes;
        attributes.clear();
        let mut add = |key: &str, value: AttributeValue| attributes.push((key.to_owned(), value));
        add("db.system.name", "postgresql".into());
        if let Some(database) = database {
            add("db.namespace", database.into());
        }
        let bare = match self.first {
            _ if self.executions > 0 || self.bound.is_some() => "EXECUTE",
            UNTYPED => "CONNECT",
            b'S' => "SYNC",
            b'C' => "CLOSE",
            b'D' => "DESCRIBE",
            b'F' => "CALL",
            _ => "EXECUTE",
        };
        let (mut name, mut summary) = match statement {
            Some(statement) if !statement.summary.operation.is_empty() => {
                (statement.summary.operation.clone(), statement.summary.text.clone())
            }
            _ => (bare.to_owned(), bare.to_owned()),
        };
        if prepares {
            name = "PREPARE".to_owned();
            summary = format!("PREPARE {summary}");
        } else if self.executions > 1 {
            // OpenTelemetry: BATCH, and the operation where all are the same.
            let batch = if self.mixed { "BATCH".to_owned() } else { format!("BATCH {summary}") };
            name = if self.mixed { batch.clone() } else { format!("BATCH {name}") };
            summary = batch;
            add("db.operation.batch.size", i64::from(self.executions).into());
        }
        add("db.operation.name", name.into());
        if let Some(statement) = statement
            && !self.mixed
        {
            add("db.query.text", statement.text.as_str().into());
        }
        add("db.query.summary", summary.as_str().into());
        request.operation = summary;
    }
}
