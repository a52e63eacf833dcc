//! What one request to PostgreSQL asks for, message by message.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use spanwise_model::AttributeValue;

use super::message::UNTYPED;
use super::statements::OwnStatement;
use crate::sessions::{Request, Shared};

/// Different statements of one request that are told apart; of further ones
/// only the number is kept.
const MAX_DIFFERENT: usize = 8;

/// What [`Cycle::describe`] adds at most.
const MOST_ATTRIBUTES: usize = 6;

/// What a request does of whose statement nothing is known.
pub(super) const EXECUTE: &str = "EXECUTE";

/// Statements that only steer the transaction. Drivers send them along with the
/// first statement that works, which is then what the request is about.
const STEERING: [&str; 7] = ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"];

/// A request that is being put together.
#[derive(Debug)]
pub(super) struct Cycle {
    /// The type of its first message.
    first: u8,
    parsed: Option<Arc<OwnStatement>>,
    /// Different statements executed, in order; `None` for one not known.
    executed: Vec<Option<Arc<OwnStatement>>>,
    /// How many of the executions only steered the transaction.
    steered: u32,
    bound: Option<Arc<OwnStatement>>,
    executions: u32,
    /// It says more than was described.
    pub(super) changed: bool,
}

impl Cycle {
    /// A request that begins with a message of this type.
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

    /// A simple query.
    pub(super) fn query(statement: Arc<OwnStatement>) -> Self {
        let mut cycle = Self::of(b'Q');
        cycle.add(Some(statement));
        cycle
    }

    /// Parse.
    pub(super) fn parse(&mut self, statement: Arc<OwnStatement>) {
        self.parsed = Some(statement);
        self.changed = true;
    }

    /// Bind of a statement that may not be known.
    pub(super) fn bind(&mut self, statement: Option<Arc<OwnStatement>>) {
        self.bound = statement;
        self.changed = true;
    }

    /// Execute of a portal whose statement may not be known.
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

    /// The rest of the request was not seen.
    pub(super) fn assume_executed(&mut self) {
        if self.executions == 0 {
            self.add(self.bound.clone().or_else(|| self.parsed.clone()));
        }
    }

    /// What it does as a whole: the operation, its summary, and how large a batch it is.
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
            // OpenTelemetry: BATCH, and the operation where all are the same.
            (format!("BATCH {name}").into(), format!("BATCH {summary}").into())
        } else {
            (name.into(), summary.into())
        };
        Deed { name, summary, batch_size }
    }

    fn prepares(&self) -> bool {
        self.executions == 0 && self.parsed.is_some()
    }

    /// Whether its [`Self::summary`] is [`EXECUTE`], as it is after a Bind at its beginning.
    pub(super) const fn is_execution(&self) -> bool {
        self.first == b'B' && self.parsed.is_none() && self.executions == 0
    }

    /// Whether it begins with a Sync, and so is nothing else.
    pub(super) const fn is_sync(&self) -> bool {
        self.first == b'S'
    }

    /// Whether its first message ends it.
    pub(super) const fn is_whole(&self) -> bool {
        matches!(self.first, b'Q' | b'F' | b'S')
    }

    /// What is known of it, in few words.
    pub(super) fn summary(&self) -> String {
        self.deed().summary.into_owned()
    }

    /// What a request says that does this, where that is to execute one statement and others
    /// may do so, too; `unknown` is what those of one connection say whose statement is not
    /// known. With it, whether it was put together only now.
    pub(super) fn alone<'a>(
        &'a self,
        database: Option<&str>,
        unknown: &'a OnceLock<Shared<Request>>,
    ) -> Option<(&'a Shared<Request>, bool)> {
        let ([statement], 1) = (self.executed.as_slice(), self.executions) else {
            return None;
        };
        // The statement of a simple query has no name by which it could come again.
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

    /// Writes what is known into a request.
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
        // OpenTelemetry: the texts of a batch in one, between semicolons.
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
    /// Executions, without those that only steer the transaction if others work.
    batch_size: u32,
}

fn steers(statement: &Option<Arc<OwnStatement>>) -> bool {
    statement
        .as_ref()
        .is_some_and(|statement| STEERING.contains(&statement.summary.operation.as_str()))
}
