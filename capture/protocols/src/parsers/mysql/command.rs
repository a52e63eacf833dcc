//! MySQL commands (MySQL Source Code Documentation, "Command Phase"), and which parts are shown.

use spanwise_model::AttributeValue;

use super::values::{NO_ATTRIBUTES, capability, integer};
use crate::bytes::text;
use crate::formats::sql::Statement;
use crate::redaction;
use crate::sessions::{Attributes, Request};

pub(super) const QUIT: u8 = 0x01;
pub(super) const INIT_DB: u8 = 0x02;
pub(super) const QUERY: u8 = 0x03;
pub(super) const FIELD_LIST: u8 = 0x04;
pub(super) const STATISTICS: u8 = 0x09;
pub(super) const PING: u8 = 0x0e;
pub(super) const CHANGE_USER: u8 = 0x11;
pub(super) const BINLOG_DUMP: u8 = 0x12;
pub(super) const TABLE_DUMP: u8 = 0x13;
pub(super) const STMT_PREPARE: u8 = 0x16;
pub(super) const STMT_EXECUTE: u8 = 0x17;
pub(super) const STMT_SEND_LONG_DATA: u8 = 0x18;
pub(super) const STMT_CLOSE: u8 = 0x19;
pub(super) const STMT_RESET: u8 = 0x1a;
pub(super) const SET_OPTION: u8 = 0x1b;
pub(super) const STMT_FETCH: u8 = 0x1c;
pub(super) const BINLOG_DUMP_GTID: u8 = 0x1e;
pub(super) const RESET_CONNECTION: u8 = 0x1f;
/// MariaDB command that executes one statement with several rows of values.
pub(super) const STMT_BULK_EXECUTE: u8 = 0xfa;

/// Maximum bytes kept of a database name; MySQL's own limit is 64 characters.
const MAX_DATABASE_BYTES: usize = 256;

/// First words of statements.
const STATEMENTS: [&str; 46] = [
    "ALTER",
    "ANALYZE",
    "BEGIN",
    "CALL",
    "CHANGE",
    "CHECK",
    "COMMIT",
    "CREATE",
    "DEALLOCATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DO",
    "DROP",
    "EXECUTE",
    "EXPLAIN",
    "FLUSH",
    "GRANT",
    "HANDLER",
    "INSERT",
    "INSTALL",
    "KILL",
    "LOAD",
    "LOCK",
    "OPTIMIZE",
    "PREPARE",
    "PURGE",
    "RELEASE",
    "RENAME",
    "REPAIR",
    "REPLACE",
    "RESET",
    "REVOKE",
    "ROLLBACK",
    "SAVEPOINT",
    "SELECT",
    "SET",
    "SHOW",
    "START",
    "STOP",
    "TRUNCATE",
    "UNLOCK",
    "UPDATE",
    "USE",
    "WITH",
    "XA",
];

/// Whether statements can begin with this word.
pub(super) fn begins_statement(word: &[u8]) -> bool {
    STATEMENTS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

/// The operation name of a command without a statement; `None` if there is no such command.
pub(super) const fn name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        QUIT => "QUIT",
        INIT_DB => "USE",
        QUERY => "QUERY",
        FIELD_LIST => "FIELD LIST",
        0x05 => "CREATE DATABASE",
        0x06 => "DROP DATABASE",
        0x07 => "REFRESH",
        0x08 => "SHUTDOWN",
        STATISTICS => "STATISTICS",
        0x0a => "SHOW PROCESSLIST",
        0x0c => "KILL",
        0x0d => "DEBUG",
        0x0e => "PING",
        CHANGE_USER => "CONNECT",
        BINLOG_DUMP | BINLOG_DUMP_GTID => "BINLOG DUMP",
        TABLE_DUMP => "TABLE DUMP",
        0x15 => "REGISTER REPLICA",
        STMT_PREPARE => "PREPARE",
        STMT_EXECUTE | STMT_BULK_EXECUTE => "EXECUTE",
        STMT_SEND_LONG_DATA => "SEND LONG DATA",
        STMT_CLOSE => "CLOSE",
        0x1a => "RESET STATEMENT",
        0x1b => "SET OPTION",
        STMT_FETCH => "FETCH",
        RESET_CONNECTION => "RESET CONNECTION",
        0x20 => "CLONE",
        _ => return None,
    })
}

/// Data of the server and the connection that a span shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) system: &'static str,
    pub(super) database: Option<&'a str>,
}

/// The request for a command, with its statement if known.
pub(super) fn request(place: Place<'_>, kind: u8, statement: Option<&Statement>) -> Request {
    let bare = name(kind).unwrap_or("EXECUTE");
    let (mut operation, mut summary) = match statement {
        Some(statement) if !statement.summary.operation.is_empty() => {
            (statement.summary.operation.clone(), statement.summary.text.clone())
        }
        _ => (bare.to_owned(), bare.to_owned()),
    };
    if statement.is_some() && matches!(kind, STMT_PREPARE | STMT_FETCH) {
        summary = format!("{bare} {summary}");
        bare.clone_into(&mut operation);
    }
    let mut attributes = Attributes::with_capacity(5);
    let mut add = |key: &'static str, value: AttributeValue| attributes.push((key, value));
    add("db.system.name", place.system.into());
    if let Some(database) = place.database {
        add("db.namespace", database.into());
    }
    add("db.operation.name", operation.into());
    if let Some(statement) = statement {
        add("db.query.text", statement.text.as_str().into());
    }
    add("db.query.summary", summary.as_str().into());
    let runs = matches!(kind, STMT_EXECUTE | STMT_BULK_EXECUTE | STMT_FETCH);
    Request { attributes, unnamed: runs && statement.is_none(), ..Request::new(summary) }
}

/// The text of a query, after its attributes if it may have some ("COM_QUERY"). Returns `None` if
/// the text was not found.
pub(super) fn query_text(content: &[u8], attributes: bool) -> Option<&[u8]> {
    if let Some(text) = content.strip_prefix(NO_ATTRIBUTES) {
        return Some(text);
    }
    if !attributes {
        return Some(content);
    }
    let (count, rest) = integer(content)?;
    let (_, rest) = integer(rest)?;
    let count = usize::try_from(count).ok()?;
    let nulls = rest.get(..count.div_ceil(8))?;
    // A flag byte precedes the types and names.
    let mut rest = rest.get(nulls.len() + 1..)?;
    let mut kinds = Vec::new();
    for _ in 0..count {
        let kind = *rest.first()?;
        rest = skip_text(rest.get(2..)?)?;
        kinds.push(kind);
    }
    for (index, kind) in kinds.iter().enumerate() {
        if nulls[index / 8] >> (index % 8) & 1 == 1 {
            continue;
        }
        rest = match kind {
            0x01 => rest.get(1..)?,
            0x02 => rest.get(2..)?,
            0x03 | 0x04 | 0x09 => rest.get(4..)?,
            0x05 | 0x08 => rest.get(8..)?,
            0x07 | 0x0a..=0x0c => rest.get(usize::from(*rest.first()?) + 1..)?,
            _ => skip_text(rest)?,
        };
    }
    Some(rest)
}

fn skip_text(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = integer(bytes)?;
    rest.get(usize::try_from(length).ok()?..)
}

/// A database name, if valid.
pub(super) fn database(name: &[u8]) -> Option<String> {
    let name = redaction::owned(text(name, MAX_DATABASE_BYTES), redaction::keyed_name);
    Some(name).filter(|name| !name.is_empty())
}

/// The database in `USE name`.
pub(super) fn used_database(query: &[u8]) -> Option<String> {
    let query = query.trim_ascii();
    let (word, rest) = query.split_at_checked(4)?;
    if !word[..3].eq_ignore_ascii_case(b"use") || !word[3].is_ascii_whitespace() {
        return None;
    }
    let name = rest.trim_ascii().strip_suffix(b";").unwrap_or(rest.trim_ascii()).trim_ascii();
    let name = name.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`")).unwrap_or(name);
    database(name)
}

/// The client's response to the greeting ("Protocol::HandshakeResponse41", "Protocol::SSLRequest").
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The client requests encryption.
    Encryption,
    /// The client logs in.
    Session { capabilities: u32, database: Option<String> },
}

/// Reads the client's response to the greeting; `None` if the content is something else.
pub(super) fn opening(content: &[u8], length: u64) -> Option<Opening> {
    let capabilities = u32::from_le_bytes(*content.first_chunk()?);
    if capabilities & capability::PROTOCOL_41 == 0 {
        // A protocol from before version 4.1 (2004); not supported.
        return None;
    }
    if length == 32 && capabilities & capability::TLS != 0 {
        return Some(Opening::Encryption);
    }
    let database = || {
        let mut rest = content.get(32..)?;
        text_to_zero(&mut rest)?;
        skip_secret(&mut rest, capabilities)?;
        database(text_to_zero(&mut rest)?)
    };
    let named = capabilities & capability::CONNECT_WITH_DB != 0;
    let database = if named { database() } else { None };
    Some(Opening::Session { capabilities, database })
}

/// The database in COM_CHANGE_USER, after the command byte.
pub(super) fn changed_database(mut content: &[u8]) -> Option<String> {
    text_to_zero(&mut content)?;
    skip_secret(&mut content, capability::SECURE_CONNECTION)?;
    database(text_to_zero(&mut content)?)
}

fn text_to_zero<'a>(content: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(0, content)?;
    let text = &content[..end];
    *content = &content[end + 1..];
    Some(text)
}

fn skip_secret(content: &mut &[u8], capabilities: u32) -> Option<()> {
    if capabilities & capability::LENGTH_ENCODED_AUTH != 0 {
        *content = skip_text(content)?;
    } else if capabilities & capability::SECURE_CONNECTION != 0 {
        let (length, rest) = content.split_first()?;
        *content = rest.get(usize::from(*length)..)?;
    } else {
        text_to_zero(content)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_found_and_the_password_passed_over() {
        let flags = capability::PROTOCOL_41
            | capability::CONNECT_WITH_DB
            | capability::SECURE_CONNECTION
            | capability::TLS;
        let mut content = flags.to_le_bytes().to_vec();
        content.extend_from_slice(&[0; 28]);
        assert_eq!(opening(&content, 32), Some(Opening::Encryption));
        content.extend_from_slice(b"root\0\x03abcshop\0mysql_native_password\0");
        let length = content.len() as u64;
        let database = Some("shop".to_owned());
        assert_eq!(
            opening(&content, length),
            Some(Opening::Session { capabilities: flags, database: database.clone() })
        );
        for end in 0..content.len() {
            let _ = opening(&content[..end], length);
        }
        assert_eq!(changed_database(b"root\0\x03abcshop\0"), database);
    }

    #[test]
    fn use_names_a_database() {
        assert_eq!(used_database(b"use `a b`;").as_deref(), Some("a b"));
        assert_eq!(used_database(b" USE shop ").as_deref(), Some("shop"));
        assert_eq!(used_database(b"USER"), None);
        assert_eq!(used_database(b"use"), None);
    }

    #[test]
    fn attributes_before_a_query_are_passed_over() {
        assert_eq!(query_text(b"\0\x01SELECT 1", true), Some(&b"SELECT 1"[..]));
        assert_eq!(query_text(b"SELECT 1", false), Some(&b"SELECT 1"[..]));
        let two = b"\x02\x01\x02\x01\xfe\0\x01a\xfe\0\x01b\x06geheimSELECT 1";
        assert_eq!(query_text(two, true), Some(&b"SELECT 1"[..]));
        for end in 0..two.len() - 8 {
            assert!(query_text(&two[..end], true).unwrap_or_default().is_empty(), "{end}");
        }
    }
}
