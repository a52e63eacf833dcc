//! Prepared statements and portals of one connection, by name.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::message::MAX_CONTENT_BYTES;
use crate::formats::sql::{Dialect, Statement};
use crate::sessions::{Request, Shared};

/// Maximum names remembered; the oldest are dropped.
const MAX_STATEMENTS: usize = 128;
const MAX_PORTALS: usize = 16;
/// Maximum length of a name that is remembered.
const MAX_NAME_BYTES: usize = 128;

/// A statement of one connection.
#[derive(Debug)]
pub(super) struct OwnStatement {
    statement: Arc<Statement>,
    /// Shared content of requests that only execute this statement, as nearly all requests do.
    pub(super) alone: OnceLock<Shared<Request>>,
}

impl Deref for OwnStatement {
    type Target = Statement;

    fn deref(&self) -> &Statement {
        &self.statement
    }
}

impl PartialEq for OwnStatement {
    fn eq(&self, other: &Self) -> bool {
        self.statement == other.statement
    }
}

impl OwnStatement {
    fn held_bytes(&self) -> usize {
        let alone = self.alone.get();
        self.statement.held_bytes()
            + alone.map_or(0, |request| size_of::<Request>() + request.held_bytes())
    }
}

/// Creates a statement with this text, which may be cut.
pub(super) fn statement(text: &[u8]) -> Arc<OwnStatement> {
    let statement = Statement::new(text, MAX_CONTENT_BYTES, Dialect::Postgresql);
    Arc::new(OwnStatement { statement, alone: OnceLock::new() })
}

/// A table of names with a size limit.
#[derive(Debug)]
struct Names {
    entries: VecDeque<(Vec<u8>, Arc<OwnStatement>)>,
    limit: usize,
}

impl Names {
    fn put(&mut self, name: &[u8], statement: Arc<OwnStatement>) {
        if name.len() > MAX_NAME_BYTES {
            return;
        }
        self.remove(name);
        if self.entries.len() >= self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back((name.to_vec(), statement));
    }

    fn get(&self, name: &[u8]) -> Option<Arc<OwnStatement>> {
        // Search from the end, because recently used names are there.
        let found = self.entries.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, statement)| Arc::clone(statement))
    }

    fn remove(&mut self, name: &[u8]) {
        self.entries.retain(|(known, _)| known != name);
    }

    fn held_bytes(&self) -> usize {
        self.entries.iter().map(|(name, statement)| name.len() + 64 + statement.held_bytes()).sum()
    }
}

/// Prepared statements and portals of one connection.
#[derive(Debug)]
pub(super) struct Statements {
    prepared: Names,
    portals: Names,
    held_bytes: usize,
}

impl Statements {
    pub(super) const fn new() -> Self {
        Self {
            prepared: Names { entries: VecDeque::new(), limit: MAX_STATEMENTS },
            portals: Names { entries: VecDeque::new(), limit: MAX_PORTALS },
            held_bytes: 0,
        }
    }

    /// Parse: assigns a name to a statement.
    pub(super) fn prepare(&mut self, name: &[u8], statement: Arc<OwnStatement>) {
        self.prepared.put(name, statement);
        self.count();
    }

    /// Recalculates the bytes held after a change.
    pub(super) fn count(&mut self) {
        self.held_bytes = self.prepared.held_bytes() + self.portals.held_bytes();
    }

    /// Bind: assigns a portal name to a statement. Returns the statement if it is known.
    pub(super) fn bind(&mut self, portal: &[u8], statement: &[u8]) -> Option<Arc<OwnStatement>> {
        let found = self.prepared.get(statement);
        match &found {
            Some(found) => self.portals.put(portal, Arc::clone(found)),
            None => self.portals.remove(portal),
        }
        found
    }

    /// The statement that a portal executes.
    pub(super) fn portal(&self, name: &[u8]) -> Option<Arc<OwnStatement>> {
        self.portals.get(name)
    }

    /// Close: removes a statement (`S`) or a portal (`P`).
    pub(super) fn close(&mut self, kind: u8, name: &[u8]) {
        match kind {
            b'S' => self.prepared.remove(name),
            _ => self.portals.remove(name),
        }
    }

    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_the_oldest_goes() {
        let mut statements = Statements::new();
        for number in 0..=MAX_STATEMENTS {
            let text = format!("SELECT * FROM t{number}");
            statements.prepare(number.to_string().as_bytes(), statement(text.as_bytes()));
        }
        assert!(statements.bind(b"", b"0").is_none());
        let last = statements.bind(b"p", MAX_STATEMENTS.to_string().as_bytes()).unwrap();
        assert_eq!(statements.portal(b"p"), Some(last));
        assert!(statements.held_bytes() < 64 * 1024);
        statements.close(b'P', b"p");
        assert_eq!(statements.portal(b"p"), None);
    }
}
