//! The state of a response (MySQL Source Code Documentation, "Command Response"). The end of a
//! result set is recognised only by the first byte and the length of a packet, so this works even
//! if the connection setup was not seen.

use super::command;
use super::packet::{EOF, ERROR, LOCAL_INFILE, MAX_PACKET_BYTES, OK, Status};
use super::values::integer;

/// The kind of response that a request expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// OK, an error, or result sets.
    Results,
    /// A statement id and definitions.
    Prepared,
    /// Rows.
    Rows,
    /// Column definitions.
    Columns,
    /// One packet with text.
    Text,
    /// OK or an error.
    Done,
}

impl Expected {
    /// The kind of response to this command.
    pub(super) const fn of(kind: u8) -> Self {
        match kind {
            command::STMT_PREPARE => Self::Prepared,
            command::STMT_FETCH => Self::Rows,
            command::FIELD_LIST => Self::Columns,
            command::STATISTICS => Self::Text,
            command::PING
            | command::INIT_DB
            | command::STMT_RESET
            | command::SET_OPTION
            | command::RESET_CONNECTION => Self::Done,
            _ => Self::Results,
        }
    }
}

/// Read position in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Before the first packet.
    Before,
    /// Before another result of the response.
    Next,
    /// In the column definitions of a result.
    Columns { left: u64 },
    /// After the column definitions.
    AfterColumns,
    /// In the rows.
    Rows { count: u64 },
    /// In the definitions of a prepared statement: parameters, then columns.
    Definitions { parameters: u16, columns: u16 },
    /// Before the packet that ends these definitions.
    AfterDefinitions { columns: u16 },
}

/// The role of a packet in its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Part of the response.
    Part,
    /// The end, with the row count of the last result, if any.
    End { rows: Option<u64> },
    /// The end: the request failed.
    Error,
    /// A request for the content of a file.
    File,
    /// The packet does not belong to the response.
    Malformed,
}

/// Tracks the packets of a response.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) place: Place,
    expected: Expected,
    rows: Option<u64>,
    /// Whether an extra packet ends the definitions, if known (CLIENT_DEPRECATE_EOF).
    pub(super) ended_definitions: Option<bool>,
    /// Whether result sets begin with a byte that says whether definitions follow
    /// (CLIENT_OPTIONAL_RESULTSET_METADATA).
    pub(super) optional_metadata: bool,
    /// The last reported status.
    pub(super) status: Option<Status>,
}

impl Reply {
    pub(super) const fn new() -> Self {
        Self {
            place: Place::Before,
            expected: Expected::Results,
            rows: None,
            ended_definitions: None,
            optional_metadata: false,
            status: None,
        }
    }

    /// Starts a new response.
    pub(super) const fn begin(&mut self, expected: Expected) {
        self.place = Place::Before;
        self.expected = expected;
        self.rows = None;
    }

    /// Handles the next packet, given the captured part of its content and its length.
    pub(super) fn packet(&mut self, content: &[u8], length: u64) -> Meaning {
        let Some(first) = content.first().copied() else { return Meaning::Malformed };
        match self.place {
            Place::Before => match self.expected {
                Expected::Text => self.end(),
                Expected::Rows | Expected::Columns => self.row(first, content, length, 0),
                Expected::Results => self.result(first, content, length),
                Expected::Prepared if first == OK => self.prepared(content),
                Expected::Done if first == OK || (first == EOF && length < 9) => {
                    self.result_over(content, length)
                }
                Expected::Prepared | Expected::Done if first == ERROR => self.error(content),
                Expected::Prepared | Expected::Done => Meaning::Malformed,
            },
            Place::Next => self.result(first, content, length),
            Place::Columns { .. } if first == ERROR => self.error(content),
            Place::Columns { left } => {
                self.place = match left - 1 {
                    0 => Place::AfterColumns,
                    left => Place::Columns { left },
                };
                Meaning::Part
            }
            Place::AfterColumns if first == EOF && length == 5 => {
                self.ended_definitions = Some(true);
                self.take_status(content, length);
                if self.status.is_some_and(Status::cursor_exists) {
                    return self.end();
                }
                self.place = Place::Rows { count: 0 };
                Meaning::Part
            }
            Place::AfterColumns => {
                self.ended_definitions = Some(false);
                self.row(first, content, length, 0)
            }
            Place::Rows { count } => self.row(first, content, length, count),
            Place::Definitions { parameters: 0, .. } if first == EOF && length == 5 => {
                // This packet ends the parameters. It was unknown whether such a packet exists.
                self.ended_definitions = Some(true);
                Meaning::Part
            }
            Place::Definitions { parameters, columns } => self.definition(parameters, columns),
            Place::AfterDefinitions { columns } => self.definitions_over(columns),
        }
    }

    fn end(&mut self) -> Meaning {
        let rows = self.rows.take();
        self.begin(Expected::Results);
        Meaning::End { rows }
    }

    fn error(&mut self, content: &[u8]) -> Meaning {
        // MariaDB reports the progress of a long command in such packets.
        if content.get(1..3) == Some(&[0xff, 0xff]) {
            return Meaning::Part;
        }
        self.begin(Expected::Results);
        Meaning::Error
    }

    fn take_status(&mut self, content: &[u8], length: u64) {
        self.status = Status::of(content, length).or(self.status);
    }

    /// A result is complete; another one may follow.
    fn result_over(&mut self, content: &[u8], length: u64) -> Meaning {
        match Status::of(content, length) {
            Some(status) if status.more_results() => {
                self.status = Some(status);
                self.place = Place::Next;
                Meaning::Part
            }
            status => {
                self.status = status.or(self.status);
                self.end()
            }
        }
    }

    fn result(&mut self, first: u8, content: &[u8], length: u64) -> Meaning {
        match first {
            OK => self.result_over(content, length),
            ERROR => self.error(content),
            EOF if length < 9 => self.result_over(content, length),
            LOCAL_INFILE => Meaning::File,
            _ => {
                let (flag, counted) = match content {
                    [flag, counted @ ..] if self.optional_metadata => (Some(*flag), counted),
                    _ => (None, content),
                };
                let Some((columns, rest)) = integer(counted) else { return Meaning::Malformed };
                // MariaDB appends a byte that says whether definitions follow.
                let follow = match (flag, rest) {
                    (Some(flag), []) => flag,
                    (None, []) => 1,
                    (None, [flag @ (0 | 1)]) => *flag,
                    _ => return Meaning::Malformed,
                };
                if columns == 0 || columns > u64::from(u16::MAX) || length > 5 {
                    return Meaning::Malformed;
                }
                self.rows = None;
                self.place = match follow {
                    0 => Place::AfterColumns,
                    _ => Place::Columns { left: columns },
                };
                Meaning::Part
            }
        }
    }

    fn row(&mut self, first: u8, content: &[u8], length: u64, count: u64) -> Meaning {
        match first {
            ERROR => self.error(content),
            // A row whose first value is at least 16 MiB begins with the same byte.
            EOF if length < MAX_PACKET_BYTES => {
                let waits = Status::of(content, length).is_some_and(Status::cursor_exists);
                self.rows = match self.expected {
                    // The rows are fetched later.
                    Expected::Results if waits && count == 0 => None,
                    Expected::Columns => None,
                    _ => Some(count),
                };
                self.result_over(content, length)
            }
            _ => {
                self.place = Place::Rows { count: count + 1 };
                Meaning::Part
            }
        }
    }

    /// "COM_STMT_PREPARE Response": the statement id, the column count and the parameter count.
    fn prepared(&mut self, content: &[u8]) -> Meaning {
        let number = |at: usize| Some(u16::from_le_bytes(*content.get(at..)?.first_chunk()?));
        let (Some(columns), Some(parameters)) = (number(5), number(7)) else {
            return Meaning::Malformed;
        };
        self.definitions(parameters, columns)
    }

    fn definitions(&mut self, parameters: u16, columns: u16) -> Meaning {
        if parameters == 0 && columns == 0 {
            return self.end();
        }
        self.place = Place::Definitions { parameters, columns };
        Meaning::Part
    }

    fn definition(&mut self, parameters: u16, columns: u16) -> Meaning {
        let ended = self.ended_definitions == Some(true);
        match (parameters, columns) {
            (2.., _) => self.definitions(parameters - 1, columns),
            (1, _) | (0, 0 | 1) if ended => {
                let columns = if parameters == 1 { columns } else { 0 };
                self.place = Place::AfterDefinitions { columns };
                Meaning::Part
            }
            (1, _) => self.definitions(0, columns),
            (0, _) => self.definitions(0, columns.saturating_sub(1)),
        }
    }

    fn definitions_over(&mut self, columns: u16) -> Meaning {
        self.definitions(0, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSIC_END: &[u8] = b"\xfe\0\0\x02\0";
    const END: &[u8] = b"\xfe\0\0\x02\0\0\0";
    const MORE: &[u8] = b"\xfe\0\0\x0a\0\0\0";

    fn meanings(reply: &mut Reply, packets: &[&[u8]]) -> Vec<Meaning> {
        packets.iter().map(|packet| reply.packet(packet, packet.len() as u64)).collect()
    }

    #[test]
    fn both_forms_of_result_sets_are_told_apart_by_themselves() {
        let part = Meaning::Part;
        let end = Meaning::End { rows: Some(2) };
        let classic: [&[u8]; 6] = [b"\x01", b"\x03def", CLASSIC_END, b"\x01a", b"\0", CLASSIC_END];
        let mut reply = Reply::new();
        assert_eq!(meanings(&mut reply, &classic), [part, part, part, part, part, end]);
        assert_eq!(reply.ended_definitions, Some(true));
        let newer: [&[u8]; 5] = [b"\x01", b"\x03def", b"\x01a", b"\xfb", END];
        assert_eq!(meanings(&mut reply, &newer), [part, part, part, part, end]);
        assert_eq!(reply.ended_definitions, Some(false));
        let cached: [&[u8]; 3] = [b"\x01\0", b"\0\0a", END];
        assert_eq!(meanings(&mut reply, &cached), [part, part, Meaning::End { rows: Some(1) }]);
    }

    #[test]
    fn several_results_are_one_response() {
        let part = Meaning::Part;
        let packets: [&[u8]; 5] =
            [b"\0\x01\0\x0a\0\0\0", b"\x01", b"\x03def", MORE, b"\0\0\0\x02\0\0\0"];
        let found = meanings(&mut Reply::new(), &packets);
        assert_eq!(found, [part, part, part, part, Meaning::End { rows: Some(0) }]);
    }

    #[test]
    fn definitions_of_a_prepared_statement_are_counted() {
        let part = Meaning::Part;
        let end = Meaning::End { rows: None };
        let first = b"\0\x01\0\0\0\x01\0\x02\0\0\0\0";
        let mut reply = Reply { ended_definitions: Some(true), ..Reply::new() };
        reply.begin(Expected::Prepared);
        let packets: [&[u8]; 6] =
            [first, b"\x03def", b"\x03def", CLASSIC_END, b"\x03def", CLASSIC_END];
        assert_eq!(meanings(&mut reply, &packets), [part, part, part, part, part, end]);
        reply.ended_definitions = Some(false);
        reply.begin(Expected::Prepared);
        let packets: [&[u8]; 4] = [first, b"\x03def", b"\x03def", b"\x03def"];
        assert_eq!(meanings(&mut reply, &packets), [part, part, part, end]);
        reply.begin(Expected::Prepared);
        assert_eq!(meanings(&mut reply, &[b"\xff\x28\x04#42000no"]), [Meaning::Error]);
    }

    #[test]
    fn what_cannot_answer_a_command_is_refused() {
        for (expected, packet) in [
            (Expected::Done, &b"\x01"[..]),
            (Expected::Done, b"\xfb/a"),
            (Expected::Prepared, b"\x02"),
            (Expected::Prepared, b"\0\0\0\x02\0\0\0"),
        ] {
            let mut reply = Reply::new();
            reply.begin(expected);
            assert_eq!(meanings(&mut reply, &[packet]), [Meaning::Malformed], "{expected:?}");
        }
        for packet in [&b"\0\0\0\x02\0\0\0"[..], CLASSIC_END] {
            let mut reply = Reply::new();
            reply.begin(Expected::Done);
            assert_eq!(meanings(&mut reply, &[packet]), [Meaning::End { rows: None }]);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for packet in [&b""[..], b"\xfd\x01", b"\x01\x07", b"\x05abcde"] {
            assert_eq!(meanings(&mut Reply::new(), &[packet]), [Meaning::Malformed]);
        }
    }
}
