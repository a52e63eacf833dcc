//! The server requests that a process is handling.

use ahash::{AHashMap, AHashSet};
use smallvec::SmallVec;

use super::lines::Line;

/// A server request that is being handled.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) exchange: u64,
    pub(crate) connection: u64,
    pub(crate) fragment: u64,
    /// What those of one operation have in common.
    pub(crate) sort: u64,
    /// When it was read, `CLOCK_MONOTONIC`.
    pub(crate) read_nano: u64,
    /// Its response has begun and its end cannot be seen in the bytes: it may
    /// be over already.
    pub(crate) weak: bool,
    /// Another request was open on the thread meanwhile.
    pub(crate) overlapped: bool,
    /// When it was read, another one of its connection was open.
    pub(crate) pipelined: bool,
}

/// The open requests of a process, found by their line of execution, by connection
/// and by exchange.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    by_line: AHashMap<Line, SmallVec<[Open; 1]>>,
    /// On which line each is.
    lines: AHashMap<u64, Line>,
    /// The exchanges of each connection, in the order in which they were read.
    by_connection: AHashMap<u64, SmallVec<[u64; 2]>>,
    fragments: AHashSet<u64>,
    count: usize,
}

impl OpenRequests {
    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Any of them.
    pub(crate) fn any(&self) -> Option<&Open> {
        self.by_line.values().flatten().next()
    }

    /// When the one was read that is open for the longest.
    pub(crate) fn oldest_nano(&self) -> Option<u64> {
        self.by_line.values().flatten().map(|open| open.read_nano).min()
    }

    pub(crate) fn get(&self, exchange: u64) -> Option<&Open> {
        let open = self.by_line.get(self.lines.get(&exchange)?)?;
        open.iter().find(|open| open.exchange == exchange)
    }

    pub(crate) fn get_mut(&mut self, exchange: u64) -> Option<&mut Open> {
        let open = self.by_line.get_mut(self.lines.get(&exchange)?)?;
        open.iter_mut().find(|open| open.exchange == exchange)
    }

    pub(crate) fn line_of(&self, exchange: u64) -> Option<Line> {
        self.lines.get(&exchange).copied()
    }

    pub(crate) fn on_line(&self, line: Line) -> &[Open] {
        self.by_line.get(&line).map_or(&[], SmallVec::as_slice)
    }

    pub(crate) fn on_line_mut(&mut self, line: Line) -> &mut [Open] {
        self.by_line.get_mut(&line).map_or(&mut [], SmallVec::as_mut_slice)
    }

    /// Whether the one of this fragment is still open.
    pub(crate) fn has_fragment(&self, fragment: u64) -> bool {
        self.fragments.contains(&fragment)
    }

    /// Those of a connection, in the order in which they were read.
    pub(crate) fn on_connection(&self, connection: u64) -> impl Iterator<Item = &Open> {
        let exchanges = self.by_connection.get(&connection).map_or(&[][..], SmallVec::as_slice);
        exchanges.iter().filter_map(|exchange| self.get(*exchange))
    }

    pub(crate) fn insert(&mut self, line: Line, open: Open) {
        self.lines.insert(open.exchange, line);
        self.by_connection.entry(open.connection).or_default().push(open.exchange);
        self.fragments.insert(open.fragment);
        self.by_line.entry(line).or_default().push(open);
        self.count += 1;
    }

    pub(crate) fn take(&mut self, exchange: u64) -> Option<(Line, Open)> {
        let line = self.lines.remove(&exchange)?;
        let taken = self.leave(line, exchange)?;
        self.fragments.remove(&taken.fragment);
        if let Some(of_connection) = self.by_connection.get_mut(&taken.connection) {
            of_connection.retain(|other| *other != exchange);
            if of_connection.is_empty() {
                self.by_connection.remove(&taken.connection);
            }
        }
        self.count -= 1;
        Some((line, taken))
    }

    /// It is handled on this line from now on.
    pub(crate) fn move_to(&mut self, exchange: u64, to: Line) {
        let Some(line) = self.lines.get_mut(&exchange) else { return };
        let from = std::mem::replace(line, to);
        if let Some(moved) = self.leave(from, exchange) {
            self.by_line.entry(to).or_default().push(moved);
        }
    }

    fn leave(&mut self, line: Line, exchange: u64) -> Option<Open> {
        let open = self.by_line.get_mut(&line)?;
        let index = open.iter().position(|open| open.exchange == exchange)?;
        let left = open.swap_remove(index);
        if open.is_empty() {
            self.by_line.remove(&line);
        }
        Some(left)
    }
}
