//! MySQL and MariaDB: commands one by one or several at once, text and prepared statements, several
//! results, cursors, files; with and without packets that end definitions.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Right, assert_right};
use crate::support::{Talk, spans, tracer};

const DEPRECATE_EOF: u32 = 1 << 24;
const MORE_RESULTS: u16 = 8;
const CURSOR_EXISTS: u16 = 0x40;

fn packet(sequence: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = (content.len() as u32).to_le_bytes().to_vec();
    bytes[3] = sequence;
    bytes.extend_from_slice(content);
    bytes
}

/// Packets that follow each other.
#[derive(Default)]
struct Packets {
    bytes: Vec<u8>,
    sequence: u8,
}

impl Packets {
    fn after(sequence: u8) -> Self {
        Self { bytes: Vec::new(), sequence }
    }

    fn put(&mut self, content: &[u8]) {
        self.sequence = self.sequence.wrapping_add(1);
        self.bytes.extend(packet(self.sequence, content));
    }
}

#[derive(Debug, Clone, Copy)]
enum Command {
    Select {
        columns: u8,
        rows: u8,
    },
    Insert,
    Fails,
    /// The second of several results.
    Call {
        rows: u8,
    },
    Ping,
    UseDatabase,
    Reset,
    Statistics,
    Prepare {
        columns: u8,
        parameters: u8,
        fails: bool,
    },
    /// Of those prepared, this one.
    Execute {
        which: usize,
        rows: u8,
    },
    /// With a cursor, from which rows are fetched then.
    Cursor {
        which: usize,
        rows: u8,
    },
    LongData {
        which: usize,
    },
    Close {
        which: usize,
    },
}

struct Prepared {
    number: u32,
    table: usize,
    columns: u8,
}

/// What is asked, what answers it, the operation where it makes a span, and whether it fails.
type Exchanged = (Vec<u8>, Vec<u8>, Option<String>, bool);

struct Server {
    deprecate_eof: bool,
    prepared: Vec<Prepared>,
    /// Of these, those of which the client knows: the answer told it.
    told: usize,
    numbers: u32,
}

impl Server {
    /// A statement that the client may name.
    fn known(&self, which: usize) -> Option<&Prepared> {
        self.prepared.get(which.checked_rem(self.told)?)
    }

    fn status(&self, packets: &mut Packets, status: u16) {
        let [low, high] = status.to_le_bytes();
        match self.deprecate_eof {
            true => packets.put(&[0xfe, 0, 0, low, high, 0, 0]),
            false => packets.put(&[0xfe, 0, 0, low, high]),
        }
    }

    fn ok(packets: &mut Packets, status: u16) {
        let [low, high] = status.to_le_bytes();
        packets.put(&[0, 1, 0, low, high, 0, 0]);
    }

    fn definitions(&self, packets: &mut Packets, count: u8, status: u16) {
        for _ in 0..count {
            packets.put(b"\x03def\x04shop\x01t\x01t\x01a\x01a\x0c\x2d\0\x04\0\0\0\xfd\0\0\0\0\0");
        }
        if count > 0 && !self.deprecate_eof {
            let [low, high] = status.to_le_bytes();
            packets.put(&[0xfe, 0, 0, low, high]);
        }
    }

    fn result(&self, packets: &mut Packets, (columns, rows): (u8, u8), binary: bool, status: u16) {
        packets.put(&[columns]);
        self.definitions(packets, columns, 2);
        self.rows(packets, (columns, rows), binary, status);
    }

    fn rows(&self, packets: &mut Packets, (columns, rows): (u8, u8), binary: bool, status: u16) {
        for row in 0..rows {
            let mut content = if binary { vec![0, 0] } else { Vec::new() };
            for _ in 0..columns {
                // Values that look like ends, errors and successes.
                match row % 4 {
                    0 => content.extend(b"\x01a"),
                    1 if !binary => content.push(0xfb),
                    2 => content.extend(b"\0"),
                    _ => content.extend(b"\x03\xfe\xff\0"),
                }
            }
            packets.put(&content);
        }
        self.status(packets, status);
    }

    /// `None` where it cannot be asked now.
    fn take(&mut self, command: Command, number: usize) -> Option<Exchanged> {
        let mut answer = Packets::default();
        let query = |text: String| packet(0, format!("\x03{text}").as_bytes());
        let with_number = |kind: u8, number: u32, rest: &[u8]| {
            packet(0, &[&[kind], &number.to_le_bytes()[..], rest].concat())
        };
        let error = |answer: &mut Packets| answer.put(b"\xff\x7a\x04#42S02no such table");
        let (asked, operation, failed) = match command {
            Command::Select { columns, rows } => {
                self.result(&mut answer, (columns, rows), false, 2);
                (query(format!("SELECT a FROM t{number}")), format!("SELECT t{number}"), false)
            }
            Command::Insert => {
                Self::ok(&mut answer, 2);
                (
                    query(format!("INSERT INTO t{number} VALUES (1)")),
                    format!("INSERT t{number}"),
                    false,
                )
            }
            Command::Fails => {
                error(&mut answer);
                (query(format!("DELETE FROM t{number}")), format!("DELETE t{number}"), true)
            }
            Command::Call { rows } => {
                Self::ok(&mut answer, 2 | MORE_RESULTS);
                self.result(&mut answer, (2, rows), false, 2 | MORE_RESULTS);
                Self::ok(&mut answer, 2);
                (query(format!("CALL t{number}()")), "CALL".to_owned(), false)
            }
            Command::Ping => {
                Self::ok(&mut answer, 2);
                (packet(0, b"\x0e"), "PING".to_owned(), false)
            }
            Command::UseDatabase => {
                Self::ok(&mut answer, 2);
                (packet(0, b"\x02shop"), "USE".to_owned(), false)
            }
            Command::Reset => {
                self.prepared.clear();
                self.told = 0;
                Self::ok(&mut answer, 2);
                (packet(0, b"\x1f"), "RESET CONNECTION".to_owned(), false)
            }
            Command::Statistics => {
                answer.put(b"Uptime: 5  Threads: 1");
                (packet(0, b"\x09"), "STATISTICS".to_owned(), false)
            }
            Command::Prepare { fails: true, .. } => {
                error(&mut answer);
                let text = format!("\x16SELECT a FROM t{number}");
                (packet(0, text.as_bytes()), format!("PREPARE SELECT t{number}"), true)
            }
            Command::Prepare { columns, parameters, .. } => {
                self.numbers += 1;
                let id = self.numbers;
                self.prepared.push(Prepared { number: id, table: number, columns });
                let counts = [columns, 0, parameters, 0, 0, 0, 0];
                answer.put(&[&[0], &id.to_le_bytes()[..], &counts].concat());
                self.definitions(&mut answer, parameters, 2);
                self.definitions(&mut answer, columns, 2);
                let text = format!("\x16SELECT a FROM t{number}");
                (packet(0, text.as_bytes()), format!("PREPARE SELECT t{number}"), false)
            }
            Command::Execute { which, rows } => {
                let prepared = self.known(which)?;
                let asked = with_number(0x17, prepared.number, b"\0\x01\0\0\0");
                match prepared.columns {
                    0 => Self::ok(&mut answer, 2),
                    columns => self.result(&mut answer, (columns, rows), true, 2),
                }
                (asked, format!("SELECT t{}", prepared.table), false)
            }
            Command::Cursor { which, rows } => {
                let prepared = self.known(which)?;
                let (columns, table) = (prepared.columns, prepared.table);
                if columns == 0 {
                    return None;
                }
                // The rows are another answer, to what is asked right after it.
                let asked = [
                    with_number(0x17, prepared.number, b"\x01\x01\0\0\0"),
                    with_number(0x1c, prepared.number, b"\x05\0\0\0"),
                ];
                answer.put(&[columns]);
                for _ in 0..columns {
                    answer.put(b"\x03def\x04shop");
                }
                self.status(&mut answer, 2 | CURSOR_EXISTS);
                let mut fetched = Packets::default();
                self.rows(&mut fetched, (columns, rows), true, 2 | 0x80);
                let operation =
                    format!("SELECT t{table}|{}|FETCH SELECT t{table}", answer.bytes.len());
                answer.bytes.extend(fetched.bytes);
                (asked.concat(), operation, false)
            }
            Command::LongData { which } => {
                let prepared = self.known(which)?;
                let asked = with_number(0x18, prepared.number, b"\0\0much");
                return Some((asked, Vec::new(), None, false));
            }
            Command::Close { which } => {
                let which = which.checked_rem(self.told)?;
                let prepared = self.prepared.remove(which).number;
                self.told -= 1;
                return Some((with_number(0x19, prepared, b""), Vec::new(), None, false));
            }
        };
        Some((asked, answer.bytes, Some(operation), failed))
    }
}

fn command() -> impl Strategy<Value = Command> {
    let (columns, rows) = (1..4_u8, 0..9_u8);
    prop_oneof![
        4 => (columns.clone(), rows.clone()).prop_map(|(columns, rows)| Command::Select { columns, rows }),
        2 => Just(Command::Insert),
        2 => Just(Command::Fails),
        1 => rows.clone().prop_map(|rows| Command::Call { rows }),
        1 => Just(Command::Ping),
        1 => Just(Command::UseDatabase),
        1 => Just(Command::Reset),
        1 => Just(Command::Statistics),
        3 => (0..3_u8, 0..3_u8, proptest::bool::weighted(0.2))
            .prop_map(|(columns, parameters, fails)| Command::Prepare { columns, parameters, fails }),
        4 => (0..9_usize, rows.clone()).prop_map(|(which, rows)| Command::Execute { which, rows }),
        1 => (0..9_usize, rows).prop_map(|(which, rows)| Command::Cursor { which, rows }),
        1 => (0..9_usize).prop_map(|which| Command::LongData { which }),
        1 => (0..9_usize).prop_map(|which| Command::Close { which }),
    ]
}

/// A connection whose opening is seen.
fn opened(deprecate_eof: bool) -> Talk {
    let mut greeting = b"\n8.0.36\0".to_vec();
    greeting.extend_from_slice(b"\x08\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xff\x15");
    greeting.extend_from_slice(&[0; 10]);
    greeting.extend_from_slice(b"abcdefghijkl\0mysql_native_password\0");
    let capabilities = 0x8200 | if deprecate_eof { DEPRECATE_EOF } else { 0 };
    let mut named = capabilities.to_le_bytes().to_vec();
    named.extend_from_slice(&[0; 28]);
    named.extend_from_slice(b"root\0\0");
    let talk = Talk::new().answer(&packet(0, &greeting)).ask(&packet(1, &named));
    let mut accepted = Packets::after(1);
    Server::ok(&mut accepted, 2);
    talk.answer(&accepted.bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_command_has_its_own_answer(
        deprecate_eof in any::<bool>(),
        batches in vec(vec(command(), 1..5), 1..12),
        piece in prop_oneof![2 => Just(100_000_usize), 1 => 5..90_usize],
    ) {
        let mut server = Server { deprecate_eof, prepared: Vec::new(), told: 0, numbers: 0 };
        let mut talk = opened(deprecate_eof);
        let mut right: Vec<Right> = Vec::new();
        let mut number = 0;
        for batch in batches {
            let (mut asked, mut answered) = (Vec::new(), Vec::new());
            for command in batch {
                number += 1;
                let Some((ask, answer, operation, failed)) = server.take(command, number) else {
                    continue;
                };
                asked.extend(ask);
                let bytes = answer.len() as u64;
                answered.extend(answer);
                let Some(operation) = operation else { continue };
                let mut parts = operation.split('|');
                match (parts.next(), parts.next(), parts.next()) {
                    (Some(executed), Some(first), Some(fetched)) => {
                        let first: u64 = first.parse().unwrap();
                        right.push((executed.to_owned(), first, false));
                        right.push((fetched.to_owned(), bytes - first, false));
                    }
                    _ => right.push((operation, bytes, failed)),
                }
            }
            if asked.is_empty() {
                continue;
            }
            talk = talk.ask(&asked);
            for piece in answered.chunks(piece) {
                talk = talk.answer(piece);
            }
            server.told = server.prepared.len();
        }
        assert_right(&talk, right, false);
    }
}

#[test]
fn a_connection_that_has_lost_step_says_so_and_recovers() {
    let server = Server { deprecate_eof: true, prepared: Vec::new(), told: 0, numbers: 0 };
    let rows = |count| {
        let mut packets = Packets::default();
        server.result(&mut packets, (1, count), false, 2);
        packets.bytes
    };
    let select = |table: &str| packet(0, format!("\x03SELECT a FROM {table}").as_bytes());
    let talk = opened(true).ask(&select("a")).answer(&rows(1));
    // One more answer than it should be stands before those of what is asked.
    let asked = [packet(0, b"\x0e"), select("b")].concat();
    let talk = talk.ask(&asked).answer(&[rows(2), rows(1)].concat());
    let talk = talk.ask(&select("c")).answer(&rows(3));
    let found = spans(&mut tracer(), &talk.events);
    let told: Vec<_> = found
        .iter()
        .map(|span| {
            let says = |key| span.attribute(key).is_some();
            (span.operation.as_str(), says("spanwise.pairing"), says("spanwise.status"))
        })
        .collect();
    let lost = |name| (name, true, true);
    let known = |name| (name, false, false);
    assert_eq!(told, [known("SELECT a"), lost("PING"), lost("SELECT b"), known("SELECT c")]);
    assert_eq!(found[3].network.response_bytes, Some(rows(3).len() as u64));
    assert_eq!(talk.counters()["out_of_step"], 1);
}
