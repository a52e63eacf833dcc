//! Packets of the MySQL client/server protocol (MySQL Source Code Documentation, "MySQL Packets";
//! MariaDB Knowledge Base, "Clients & Utilities: Client/Server Protocol"): a three-byte length, a
//! one-byte sequence number, and content. A command begins at number 0, and both sides continue the
//! count.

use super::command;
use super::values::{NO_ATTRIBUTES, integer};
use crate::bytes::{Side, text};
use crate::framing::{Framing, Measure};
use crate::parser::Likeness;
use crate::redaction::{self, own_words};
use crate::sessions::Failure;

/// Maximum bytes of a request that are read. SQL texts are the longest.
pub(super) const MAX_TEXT_BYTES: usize = 4096;
/// Maximum bytes of a response packet that are read. Errors are the longest, with up to 512 bytes
/// of text.
const MAX_ANSWER_BYTES: usize = 544;
/// A packet of this length continues in the next one.
pub(super) const MAX_PACKET_BYTES: u64 = 0xff_ffff;
/// Maximum plausible length of a server version.
const MAX_VERSION_BYTES: usize = 64;

/// First bytes of response packets.
pub(super) const OK: u8 = 0x00;
pub(super) const LOCAL_INFILE: u8 = 0xfb;
pub(super) const EOF: u8 = 0xfe;
pub(super) const ERROR: u8 = 0xff;

/// Status bits of OK and EOF packets.
mod status {
    pub(super) const MORE_RESULTS: u16 = 1 << 3;
    pub(super) const CURSOR_EXISTS: u16 = 1 << 6;
    pub(super) const NO_BACKSLASH_ESCAPES: u16 = 1 << 9;
}

/// Framing of one side's packets.
#[derive(Debug)]
pub(super) struct Packets(pub(super) Side);

impl Framing for Packets {
    fn measure(&self, header: &[u8]) -> Measure {
        let [low, middle, high, _] = header else { return Measure::Header(4) };
        let bytes = u64::from(u32::from_le_bytes([*low, *middle, *high, 0]));
        let keep = match self.0 {
            Side::Request => MAX_TEXT_BYTES,
            Side::Response => MAX_ANSWER_BYTES,
        };
        Measure::Content { bytes, keep }
    }

    fn begins(&self, _bytes: &[u8]) -> bool {
        // A packet in the middle of a result looks like any other. After missed commands, their
        // responses may still come.
        false
    }
}

/// Whether bytes look like the start of a message: the server's greeting, or an unambiguous
/// command.
pub(crate) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    match side {
        Side::Request => command_likeness(bytes, whole),
        Side::Response => match greeting_likeness(bytes, whole) {
            Likeness::No => refusal_likeness(bytes, whole),
            likeness => likeness,
        },
    }
}

/// Recognises an error instead of a greeting: too many connections, or a host that is not allowed.
/// The error must be complete, because nothing follows it.
fn refusal_likeness(bytes: &[u8], whole: bool) -> Likeness {
    let (header, content) = bytes.split_at(bytes.len().min(4));
    let length = usize::from(*header.first().unwrap_or(&9));
    let plausible = (9..0xfb).contains(&length)
        && header.iter().skip(1).all(|byte| *byte == 0)
        && content.first().is_none_or(|kind| *kind == ERROR)
        // Server error numbers range from 1000 to 4999.
        && content.get(2).is_none_or(|high| (3..0x14).contains(high))
        && content.iter().skip(3).all(|byte| (b' '..0x7f).contains(byte));
    match plausible && whole && content.len() <= length {
        true if content.len() == length => Likeness::Yes,
        true => Likeness::Maybe,
        false => Likeness::No,
    }
}

const fn partly(whole: bool) -> Likeness {
    if whole { Likeness::Maybe } else { Likeness::No }
}

/// Recognises "Protocol::HandshakeV10".
fn greeting_likeness(bytes: &[u8], whole: bool) -> Likeness {
    let first = |at: usize, is: &dyn Fn(u8) -> bool| bytes.get(at).is_none_or(|byte| is(*byte));
    let length = usize::from(*bytes.first().unwrap_or(&0));
    // 46 bytes plus the version; in practice 70 to 110.
    let plausible = first(0, &|low| low >= 46)
        && first(1, &|middle| middle == 0)
        && first(2, &|high| high == 0)
        && first(3, &|sequence| sequence == 0)
        && first(4, &|protocol| protocol == 10)
        && first(5, &|digit| digit.is_ascii_digit());
    if !plausible || bytes.len() > length + 4 {
        return Likeness::No;
    }
    let version = bytes.get(5..).unwrap_or_default();
    match memchr::memchr(0, version) {
        None if version.len() < MAX_VERSION_BYTES
            && version.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') =>
        {
            partly(whole)
        }
        None => Likeness::No,
        // After the version: the connection id, eight bytes, a zero.
        Some(end) => match version.get(end + 13) {
            Some(0) if version[..end].iter().all(|byte| (b' '..0x7f).contains(byte)) => {
                Likeness::Yes
            }
            Some(_) => Likeness::No,
            None => partly(whole),
        },
    }
}

/// Recognises a query, or the preparation or execution of a statement.
fn command_likeness(bytes: &[u8], whole: bool) -> Likeness {
    if bytes.get(3).is_some_and(|sequence| *sequence != 0) {
        return Likeness::No;
    }
    // With too few bytes to decide, the length must at least be plausible.
    let early =
        if bytes.get(2).is_some_and(|high| *high != 0) { Likeness::No } else { partly(whole) };
    let Some((header, content)) = bytes.split_first_chunk::<4>() else { return early };
    let length = u32::from_le_bytes(*header) as usize;
    let Some((kind, content)) = content.split_first() else { return early };
    let content = &content[..content.len().min(length.saturating_sub(1))];
    match *kind {
        command::QUERY | command::STMT_PREPARE => {
            let rest = content.strip_prefix(NO_ATTRIBUTES).unwrap_or(content).trim_ascii_start();
            let word = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
            let more = content.len() + 1 < length;
            if rest.iter().any(|byte| *byte < b' ' && !byte.is_ascii_whitespace()) {
                Likeness::No
            } else if command::begins_statement(&rest[..word]) || rest.starts_with(b"/*") {
                // If all bytes were captured, they must be the whole packet.
                if more && whole { Likeness::Maybe } else { Likeness::Yes }
            } else if (word == rest.len() || content == [0]) && more && word < 10 {
                partly(whole)
            } else {
                Likeness::No
            }
        }
        // Statement id, flags, and the iteration count, which is always 1.
        command::STMT_EXECUTE => match content {
            // Executes the statement prepared just before, whose response comes first.
            [0xff, 0xff, 0xff, 0xff, ..] => Likeness::No,
            _ if length < 10 => Likeness::No,
            [_, _, _, _, 0..=0x0f, 1, 0, 0, 0, ..] => Likeness::Yes,
            [..] if content.len() < 9 => partly(whole),
            _ => Likeness::No,
        },
        _ => Likeness::No,
    }
}

/// The connection status in an OK or EOF packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status(u16);

impl Status {
    /// Reads the status of an OK or EOF packet; `None` if the bytes up to it are incomplete.
    pub(super) fn of(content: &[u8], length: u64) -> Option<Self> {
        let (kind, rest) = content.split_first()?;
        let at =
            if *kind == EOF && length == 5 { rest.get(2..)? } else { integer(integer(rest)?.1)?.1 };
        Some(Self(u16::from_le_bytes(*at.first_chunk()?)))
    }

    /// Whether another result follows.
    pub(super) const fn more_results(self) -> bool {
        self.0 & status::MORE_RESULTS != 0
    }

    /// Whether the rows are fetched later through a cursor.
    pub(super) const fn cursor_exists(self) -> bool {
        self.0 & status::CURSOR_EXISTS != 0
    }

    /// Whether a backslash in a string is an escape character.
    pub(super) const fn escapes(self) -> bool {
        self.0 & status::NO_BACKSLASH_ESCAPES == 0
    }
}

/// Whether bytes with unknown packet boundaries end with the last packet of a result set, and no
/// other result follows.
pub(super) fn ends_result(bytes: &[u8]) -> bool {
    let ends = |length: usize| {
        let at = bytes.len().checked_sub(length + 4)?;
        let (header, content) = bytes[at..].split_at_checked(4)?;
        if header[..3] != [length as u8, 0, 0] || *content.first()? != EOF {
            return None;
        }
        // In the longer form, the row count and the last insert id are 0.
        if length == 7 && content[1..3] != [0, 0] {
            return None;
        }
        Some(!Status::of(content, length as u64)?.more_results())
    };
    ends(5).or_else(|| ends(7)).unwrap_or(false)
}

/// Errors whose messages quote tables, columns, users and similar names, but no values. For all
/// other errors, quoted text is removed.
const NAMING_ERRORS: [u16; 25] = [
    1007, 1008, 1040, 1044, 1045, 1046, 1049, 1050, 1051, 1052, 1054, 1060, 1061, 1072, 1091, 1109,
    1136, 1142, 1146, 1205, 1213, 1305, 1364, 1451, 1452,
];

/// The failure in an error packet: number and message.
pub(super) fn failure(content: &[u8]) -> (i32, Failure) {
    let code = content.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    let rest = content.get(3..).unwrap_or_default();
    let (state, message) = match rest {
        [b'#', rest @ ..] if rest.len() >= 5 => (Some(text(&rest[..5], 5)), &rest[5..]),
        _ => (None, rest),
    };
    let mut message = text(message, 512);
    if !NAMING_ERRORS.contains(&code) {
        message = without_values(code, &message);
    }
    let kind = code.to_string();
    let message = match state {
        Some(state) => format!("{kind} ({state}): {message}"),
        None => format!("{kind}: {message}"),
    };
    (i32::from(code), Failure { kind, message })
}

/// SIGNAL and similar: the message is written by a stored procedure.
const OWN_ERROR: u16 = 1644;

/// The message without values. Key names are kept.
fn without_values(code: u16, message: &str) -> String {
    if code == OWN_ERROR {
        return own_words(message);
    }
    let (body, key) = match message.rfind(" for key '") {
        Some(at) => message.split_at(at),
        None => (message, ""),
    };
    [&redaction::without_values(body), key].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: &[u8] = b"\x4a\0\0\0\x0a8.0.36\0\x08\0\0\0abcdefgh\0\xff\xff";

    #[test]
    fn the_greeting_is_recognised() {
        assert_eq!(recognise(Side::Response, GREETING, true), Likeness::Yes);
        for end in 0..GREETING.len() {
            let found = recognise(Side::Response, &GREETING[..end], true);
            assert_ne!(found, Likeness::No, "{end}");
        }
        assert_eq!(recognise(Side::Request, GREETING, true), Likeness::No);
    }

    #[test]
    fn an_error_in_its_place_is_recognised() {
        let refusal = b"\x17\0\0\0\xff\x10\x04Too many connections";
        assert_eq!(recognise(Side::Response, refusal, true), Likeness::Yes);
        for end in 0..refusal.len() {
            assert_eq!(recognise(Side::Response, &refusal[..end], true), Likeness::Maybe, "{end}");
        }
        assert_eq!(recognise(Side::Response, refusal, false), Likeness::No);
        assert_eq!(recognise(Side::Response, &[refusal, &b"x"[..]].concat(), true), Likeness::No);
    }

    #[test]
    fn commands_of_older_connections_are_recognised() {
        let commands: [&[u8]; 5] = [
            b"\x09\0\0\0\x03SELECT 1",
            b"\x15\0\0\0\x16 /* x */ INSERT INTO t",
            b"\x0a\0\0\0\x17\x01\0\0\0\0\x01\0\0\0",
            b"\0\x02\0\0\x03select a from b",
            b"\x0b\0\0\0\x03\0\x01SELECT 1",
        ];
        for bytes in commands {
            assert_eq!(recognise(Side::Request, bytes, bytes[1] == 0), Likeness::Yes);
            for end in 0..6 {
                let found = recognise(Side::Request, &bytes[..end], true);
                assert_eq!(found, Likeness::Maybe, "{end}");
            }
        }
    }

    #[test]
    fn others_are_not() {
        let foreign: [&[u8]; 9] = [
            b"\xff\xff\xff",
            b"GET / HTTP/1.1\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            b"\x01\0\0\0\x0e",
            b"\x09\0\0\x01\x03SELECT 1",
            b"\x09\0\0\0\x03\x01\x02\x03",
            b"Q\0\0\0\x0dSELECT 1\0",
            b"\0\0\0\x22\0\x03\0\0user\0x\0",
            b"\x4a\0\0\0\x098.0.36\0",
        ];
        for bytes in foreign {
            for side in [Side::Request, Side::Response] {
                let found = recognise(side, bytes, true);
                assert_eq!(found, Likeness::No, "{}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn messages_of_errors_show_no_values() {
        let shown = |text: &str| failure(text.as_bytes()).1.message;
        assert_eq!(
            shown("\u{0}\u{26}\u{4}#23000Duplicate entry 'O'Brien' for key 'users.PRIMARY'"),
            "1062 (23000): Duplicate entry '?' for key 'users.PRIMARY'"
        );
        assert_eq!(shown("\u{0}\u{28}\u{4}#42000near 'a 'b' at line 1"), {
            "1064 (42000): near '?' at line 1"
        });
        assert_eq!(shown("\u{0}\u{28}\u{4}cut 'sec"), "1064: cut '?'");
        assert_eq!(shown("\u{0}\u{7a}\u{4}#42S02Table 'shop.x' doesn't exist"), {
            "1146 (42S02): Table 'shop.x' doesn't exist"
        });
        assert_eq!(
            shown("\u{0}\u{6c}\u{6}#45000card 4711 of geheim: geheim"),
            "1644 (45000): card ? of geheim: ?"
        );
        assert_eq!(failure(b"").0, 0);
    }

    #[test]
    fn the_end_of_a_result_is_told_by_its_last_bytes() {
        assert!(ends_result(b"....\x05\0\0\x09\xfe\0\0\x02\0"));
        assert!(ends_result(b"\x07\0\0\x09\xfe\0\0\x02\0\0\0"));
        assert!(!ends_result(b"....\x05\0\0\x09\xfe\0\0\x08\0"), "more results");
        assert!(!ends_result(b"\0\0\x09\xfe\0\0\x02\0"));
        assert!(!ends_result(b""));
    }
}
