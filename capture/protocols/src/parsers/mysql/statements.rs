//! Prepared statements of one connection, by statement id.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::formats::sql::Statement;

/// Maximum statements remembered; the oldest are dropped.
const MAX_STATEMENTS: usize = 128;

/// Refers to the statement prepared last (MariaDB, COM_STMT_EXECUTE).
pub(super) const LAST: u32 = u32::MAX;

/// Prepared statements of a connection.
#[derive(Debug, Default)]
pub(super) struct Statements {
    entries: VecDeque<(u32, Arc<Statement>)>,
    /// The statement in the latest prepare request.
    last: Option<Arc<Statement>>,
    held_bytes: usize,
}

impl Statements {
    /// The client asks to prepare a statement.
    pub(super) fn asked(&mut self, statement: &Arc<Statement>) {
        self.last = Some(Arc::clone(statement));
    }

    /// An unknown statement may have been prepared.
    pub(super) fn forget_last(&mut self) {
        self.last = None;
    }

    /// The server assigned an id to a statement.
    pub(super) fn put(&mut self, number: u32, statement: Arc<Statement>) {
        self.remove(number);
        if self.entries.len() >= MAX_STATEMENTS
            && let Some((_, oldest)) = self.entries.pop_front()
        {
            self.held_bytes -= oldest.held_bytes();
        }
        self.held_bytes += statement.held_bytes();
        self.entries.push_back((number, statement));
    }

    pub(super) fn get(&self, number: u32) -> Option<&Arc<Statement>> {
        if number == LAST {
            return self.last.as_ref();
        }
        // Search from the end, because recently used statements are there.
        let found = self.entries.iter().rev().find(|(known, _)| *known == number);
        found.map(|(_, statement)| statement)
    }

    pub(super) fn remove(&mut self, number: u32) {
        if let Some(at) = self.entries.iter().position(|(known, _)| *known == number)
            && let Some((_, removed)) = self.entries.remove(at)
        {
            self.held_bytes -= removed.held_bytes();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes + self.last.as_ref().map_or(0, |statement| statement.held_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::sql::Dialect;

    #[test]
    fn numbers_are_bounded_and_the_oldest_goes() {
        let mut statements = Statements::default();
        let statement = Statement::new(b"SELECT 1", 64, Dialect::Mysql { escapes: true });
        for number in 0..=MAX_STATEMENTS as u32 {
            statements.put(number, Arc::clone(&statement));
        }
        assert!(statements.get(0).is_none() && statements.get(1).is_some());
        assert!(statements.get(LAST).is_none());
        for number in 0..=MAX_STATEMENTS as u32 {
            statements.remove(number);
        }
        assert_eq!(statements.held_bytes(), 0);
    }
}
