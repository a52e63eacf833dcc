//! Writes an answer of complete rows, with limits on length and time.

use std::io;
use std::time::{Duration, Instant};

use arrow::array::ArrayRef;
use serde::Serialize;
use serde_json::Value;
use spanwise_store::MAX_ANSWER_BYTES;

use super::cells;

/// Time limit. Writing cannot be cancelled from outside.
pub(super) const WRITTEN_WITHIN: Duration = Duration::from_secs(10);

/// A writer with limits. See the module's description.
#[derive(Debug)]
pub(super) struct BoundedWriter {
    bytes: Vec<u8>,
    most_bytes: usize,
    /// Length of the complete rows.
    whole: usize,
    rows: usize,
    deadline: Instant,
}

impl Default for BoundedWriter {
    fn default() -> Self {
        Self::within(MAX_ANSWER_BYTES, WRITTEN_WITHIN)
    }
}

impl BoundedWriter {
    pub(super) fn within(most_bytes: usize, time: Duration) -> Self {
        Self { bytes: Vec::new(), most_bytes, whole: 0, rows: 0, deadline: Instant::now() + time }
    }

    /// One cell of a row.
    pub(super) fn cell(&self, column: &ArrayRef, row: usize) -> Value {
        cells::cell(column, row, self.deadline)
    }

    /// Writes the part before the rows.
    pub(super) fn begin(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> bool {
        let written = write(self).is_ok();
        self.end(written)
    }

    /// Writes a row. Returns whether there was room for it. If not, nothing of it remains.
    pub(super) fn row(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> bool {
        let written = write(self).is_ok() && Instant::now() < self.deadline;
        self.rows += usize::from(written);
        self.end(written)
    }

    fn end(&mut self, written: bool) -> bool {
        match written {
            true => self.whole = self.bytes.len(),
            false => self.bytes.truncate(self.whole),
        }
        written
    }

    /// Number of rows written.
    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        io::Write::write_all(self, text.as_bytes())
    }

    pub(super) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(self, value).map_err(io::Error::from)
    }

    /// The answer with a last part, for which room is reserved.
    pub(super) fn end_with(mut self, last: &str) -> Vec<u8> {
        self.bytes.extend_from_slice(last.as_bytes());
        self.bytes
    }
}

impl io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(written: BoundedWriter) -> String {
        String::from_utf8(written.end_with("!")).expect("text")
    }

    #[test]
    fn rows_are_whole_or_not_there() {
        let mut written = BoundedWriter::within(10, WRITTEN_WITHIN);
        assert!(written.begin(|to| to.text("head")));
        assert!(written.row(|to| to.text("12")));
        assert!(!written.row(|to| to.text("34").and_then(|()| to.text("567"))));
        assert_eq!(written.rows(), 1);
        assert_eq!(text(written), "head12!");
    }

    #[test]
    fn what_takes_too_long_is_left_out() {
        let mut written = BoundedWriter::within(10, Duration::ZERO);
        assert!(!written.row(|to| to.text("12")));
        assert_eq!((written.rows(), text(written).as_str()), (0, "!"));
    }
}
