//! The content of one PostgreSQL request, collected message by message.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use spanwise_model::AttributeValue;

use super::message::UNTYPED;
use super::statements::OwnStatement;
use crate::sessions::{Request, Shared};

/// Maximum distinct statements kept per request. Further statements are only counted.
const MAX_DIFFERENT: usize = 8;

/// Maximum attributes that [`Cycle::describe`] adds.
const MOST_ATTRIBUTES: usize = 6;

/// Operation of a request whose statement is unknown.
pub(super) const EXECUTE: &str = "EXECUTE";

/// Transaction control statements. Drivers send them together with the first real statement, and
/// the request is named after that one.
const STEERING: [&str; 7] = ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"];

/// A request that is being collected.
#[derive(Debug)]
pub(super) struct Cycle {
    /// Type of the first message.
    first: u8,
    parsed: Option<Arc<OwnStatement>>,
    /// Distinct executed statements, in order; `None` for an unknown statement.
    executed: Vec<Option<Arc<OwnStatement>>>,
    /// Number of executions that were only transaction control.
    steered: u32,
    bound: Option<Arc<OwnStatement>>,
    executions: u32,
    /// The content has changed since it was described.
    pub(super) changed: bool,
}

impl Cycle {
    /// Creates a request whose first message has this type.
    pub(super) const fn of(first: u8) -> Self {
        Self {
            first,
            parsed: None,
            executed: Vec::new(),
            steered: 0,
            bound: None,
            executions: 0,
            changed: true,
        }
    }

    /// Creates a simple query.
    pub(super) fn query(statement: Arc<OwnStatement>) -> Self {
        let mut cycle = Self::of(b'Q');
        cycle.add(Some(statement));
        cycle
    }

    /// Adds a Parse message.
    pub(super) fn parse(&mut self, statement: Arc<OwnStatement>) {
        self.parsed = Some(statement);
        self.changed = true;
    }

    /// Adds a Bind message for a statement that may be unknown.
    pub(super) fn bind(&mut self, statement: Option<Arc<OwnStatement>>) {
        self.bound = statement;
        self.changed = true;
    }

    /// Adds an Execute message for a portal whose statement may be unknown.
    pub(super) fn execute(&mut self, portal: Option<Arc<OwnStatement>>) {
        self.add(self.bound.clone().or(portal));
    }

    fn add(&mut self, statement: Option<Arc<OwnStatement>>) {
        self.changed = true;
        self.executions = self.executions.saturating_add(1);
        self.steered += u32::from(steers(&statement));
        if self.executed.len() < MAX_DIFFERENT && !self.executed.contains(&statement) {
            self.executed.push(statement);
        }
    }

    /// Assumes an execution, because the rest of the request was missed.
    pub(super) fn assume_executed(&mut self) {
        if self.executions == 0 {
            self.add(self.bound.clone().or_else(|| self.parsed.clone()));
        }
    }

    /// The request as a whole: operation, summary and batch size.
    fn deed(&self) -> Deed<'_> {
        let mut working = self.executed.iter().filter(|statement| !steers(statement));
        let first = working.next().or_else(|| self.executed.first()).and_then(Option::as_ref);
        let mixed = working.next().is_some();
        let batch_size = match self.executions - self.steered {
            0 => self.executions,
            works => works,
        };
        let statement = if self.prepares() { self.parsed.as_ref() } else { first };
        let bare = match self.first {
            _ if self.executions > 0 || self.bound.is_some() => EXECUTE,
            UNTYPED => "CONNECT",
            b'S' => "SYNC",
            b'C' => "CLOSE",
            b'D' => "DESCRIBE",
            b'F' => "CALL",
            _ => EXECUTE,
        };
        let (name, summary) = match statement {
            Some(statement) if !statement.summary.operation.is_empty() => {
                (statement.summary.operation.as_str(), statement.summary.text.as_str())
            }
            _ => (bare, bare),
        };
        let (name, summary) = if self.prepares() {
            ("PREPARE".into(), format!("PREPARE {summary}").into())
        } else if batch_size > 1 && mixed {
            ("BATCH".into(), "BATCH".into())
        } else if batch_size > 1 {
            // OpenTelemetry: BATCH, followed by the operation if all are the same.
            (format!("BATCH {name}").into(), format!("BATCH {summary}").into())
        } else {
            (name.into(), summary.into())
        };
        Deed { name, summary, batch_size }
    }

    fn prepares(&self) -> bool {
        self.executions == 0 && self.parsed.is_some()
    }

    /// Whether [`Self::summary`] is [`EXECUTE`], as it is for a request that begins with Bind.
    pub(super) const fn is_execution(&self) -> bool {
        self.first == b'B' && self.parsed.is_none() && self.executions == 0
    }

    /// Whether the request begins with Sync and therefore consists only of it.
    pub(super) const fn is_sync(&self) -> bool {
        self.first == b'S'
    }

    /// Whether the first message is the whole request.
    pub(super) const fn is_whole(&self) -> bool {
        matches!(self.first, b'Q' | b'F' | b'S')
    }

    /// A short summary of what is known.
    pub(super) fn summary(&self) -> String {
        self.deed().summary.into_owned()
    }

    /// Shared content for requests that only execute one statement. `unknown` is the connection's
    /// shared content for an unknown statement. Also returns whether the content was newly built.
    pub(super) fn alone<'a>(
        &'a self,
        database: Option<&str>,
        unknown: &'a OnceLock<Shared<Request>>,
    ) -> Option<(&'a Shared<Request>, bool)> {
        let ([statement], 1) = (self.executed.as_slice(), self.executions) else {
            return None;
        };
        // A simple query has no statement name, so it cannot be referred to again.
        if self.first == b'Q' {
            return None;
        }
        let said = statement.as_ref().map_or(unknown, |statement| &statement.alone);
        let new = said.get().is_none();
        let request = said.get_or_init(|| {
            let mut request = Request::new(String::new());
            self.describe(database, &mut request);
            request.into()
        });
        Some((request, new))
    }

    /// Writes what is known to the request.
    pub(super) fn describe(&self, database: Option<&str>, request: &mut Request) {
        let Deed { name, summary, batch_size } = self.deed();
        let attributes = &mut request.attributes;
        attributes.clear();
        attributes.reserve(MOST_ATTRIBUTES);
        let mut add = |key: &'static str, value: AttributeValue| attributes.push((key, value));
        add("db.system.name", "postgresql".into());
        if let Some(database) = database {
            add("db.namespace", database.into());
        }
        if batch_size > 1 {
            add("db.operation.batch.size", i64::from(batch_size).into());
        }
        add("db.operation.name", name.as_ref().into());
        // OpenTelemetry: the statements of a batch are joined with semicolons.
        let texts: Vec<&str> = if self.prepares() {
            self.parsed.iter().map(|statement| statement.text.as_str()).collect()
        } else {
            self.executed.iter().flatten().map(|statement| statement.text.as_str()).collect()
        };
        if !texts.is_empty() {
            add("db.query.text", texts.join("; ").into());
        }
        add("db.query.summary", summary.as_ref().into());
        request.unnamed = name == EXECUTE && texts.is_empty();
        request.operation = summary.into_owned();
    }
}

/// See [`Cycle::deed`].
struct Deed<'a> {
    name: Cow<'a, str>,
    summary: Cow<'a, str>,
    /// Number of executions. Transaction control is not counted if there are other statements.
    batch_size: u32,
}

fn steers(statement: &Option<Arc<OwnStatement>>) -> bool {
    statement
        .as_ref()
        .is_some_and(|statement| STEERING.contains(&statement.summary.operation.as_str()))
}
