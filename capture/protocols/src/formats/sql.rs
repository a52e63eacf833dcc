//! SQL texts: literals taken out, and a summary of few distinct values
//! (OpenTelemetry's `db.query.summary`). A scanner, no parser: it must cope
//! with texts that were cut anywhere.

use std::sync::Arc;

/// Longest SQL text that is shown.
const MAX_TEXT_BYTES: usize = 2048;
/// Tables named in a summary.
const MAX_TARGETS: usize = 3;
/// Longest name in a summary.
const MAX_NAME_BYTES: usize = 64;

/// What quotes and comments mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// PostgreSQL's, which is the standard's with a few more forms.
    Postgresql,
    /// MySQL's and MariaDB's: names in backticks, strings in double quotes, too.
    Mysql {
        /// Whether a backslash in a string takes the next character's meaning.
        escapes: bool,
    },
}

/// An SQL text, as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Without its literals.
    pub(crate) text: String,
    /// What it does.
    pub(crate) summary: Summary,
}

impl Statement {
    /// The statement with this text, of which at most `limit` bytes are looked
    /// at and which may be cut.
    pub(crate) fn new(bytes: &[u8], limit: usize, dialect: Dialect) -> Arc<Self> {
        let source = crate::bytes::text(bytes, limit);
        let mut shown = without_literals(&source, dialect);
        if shown.len() > MAX_TEXT_BYTES {
            let end = (0..=MAX_TEXT_BYTES).rev().find(|at| shown.is_char_boundary(*at));
            shown.truncate(end.unwrap_or(0));
            shown.push_str("...");
        }
        Arc::new(Self { text: shown, summary: summary(&source, dialect) })
    }

    /// Bytes that it holds.
    pub(crate) const fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.text.len() + self.summary.text.len()
    }
}

/// What a piece of SQL text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A string, a number, a bit string: a value.
    Literal,
    /// A keyword or a name without quotes.
    Word,
    /// A name in quotes.
    Quoted,
    /// White space.
    Blank,
    /// Of either style: what people and libraries write there may be anything.
    Comment,
    /// `$1`, or any other character.
    Other,
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_word(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// The position from `from` on where `go_on` ends. On a character's border, if
/// `go_on` takes all bytes from 0x80 on or none.
fn run(bytes: &[u8], from: usize, go_on: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|byte| !go_on(*byte)).map_or(bytes.len(), |found| from + found)
}

/// Past the quote that closes what `bytes[open]` opens; a doubled quote does
/// not close, nor does an escaped one where escapes are meant.
fn closing_quote(bytes: &[u8], open: usize, escapes: bool) -> usize {
    let quote = bytes[open];
    let mut at = open + 1;
    while at < bytes.len() {
        if bytes[at] == b'\\' && escapes {
            at += 2;
        } else if bytes[at] != quote {
            at += 1;
        } else if bytes.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    bytes.len()
}

/// Past the end of a block comment; they nest in PostgreSQL.
fn closing_comment(bytes: &[u8], nests: bool) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") if nests || depth == 0 => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") if depth == 1 => return at + 2,
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Whether a comment is the id of a call and nothing else, as `/*trace_id:4bf92f35*/`: what
/// joins a statement with a program's own records, and is no secret.
fn names_a_call(comment: &str) -> bool {
    const NAMES: [&str; 4] = ["call", "request_id", "trace_id", "span_id"];
    let inner = comment.strip_prefix("/*").and_then(|rest| rest.strip_suffix("*/"));
    let named = inner.and_then(|inner| inner.trim().split_once(':'));
    named.is_some_and(|(name, id)| {
        NAMES.contains(&name)
            && (8..=32).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Past a string in dollar quotes; `None` where the dollar opens none.
fn dollar_quoted(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.get(1).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let tag_end = run(bytes, 1, |byte| is_word(byte) && byte != b'$');
    if bytes.get(tag_end) != Some(&b'$') {
        return None;
    }
    let tag = &text[..=tag_end];
    let found = text[tag_end + 1..].find(tag);
    Some(found.map_or(text.len(), |at| tag_end + 1 + at + tag.len()))
}

/// Past a number: digits, a fraction, an exponent, the `0x` and `1_000` forms.
fn number(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'e' | b'E' if matches!(bytes.get(at + 1), Some(b'+' | b'-')) => at += 2,
            b'.' | b'_' => at += 1,
            byte if byte.is_ascii_alphanumeric() => at += 1,
            _ => break,
        }
    }
    at.min(bytes.len())
}

/// The first piece of a text that is not empty: what it is, and its length.
fn first_piece(text: &str, dialect: Dialect) -> (Kind, usize) {
    match dialect {
        Dialect::Postgresql => first_piece_of_postgresql(text),
        Dialect::Mysql { escapes } => first_piece_of_mysql(text, escapes),
    }
}

/// MySQL Reference Manual, "String Literals" and "Comments".
fn first_piece_of_mysql(text: &str, escapes: bool) -> (Kind, usize) {
    let bytes = text.as_bytes();
    match (bytes[0], bytes.get(1).copied()) {
        (b'b' | b'B' | b'x' | b'X' | b'n' | b'N', Some(b'\'')) => {
            (Kind::Literal, closing_quote(bytes, 1, escapes).min(bytes.len()))
        }
        (b'\'' | b'"', _) => (Kind::Literal, closing_quote(bytes, 0, escapes).min(bytes.len())),
        (b'`', _) => (Kind::Quoted, closing_quote(bytes, 0, false)),
        (b'#', _) => (Kind::Comment, run(bytes, 0, |byte| byte != b'\n')),
        // Two dashes are a comment only before white space.
        (b'-', Some(b'-')) if bytes.get(2).is_none_or(|byte| *byte <= b' ') => {
            (Kind::Comment, run(bytes, 0, |byte| byte != b'\n'))
        }
        // What is in such a comment is executed.
        (b'/', Some(b'*')) if matches!(bytes.get(2), Some(b'!' | b'M')) => {
            (Kind::Other, run(bytes, 3, |byte| byte == b'!' || byte.is_ascii_digit()))
        }
        (b'/', Some(b'*')) => (Kind::Comment, closing_comment(bytes, false)),
        _ => first_piece_of_any(bytes),
    }
}

fn first_piece_of_postgresql(text: &str) -> (Kind, usize) {
    let bytes = text.as_bytes();
    let second = bytes.get(1).copied();
    // A prefix makes the string that follows what it is: E'', B'', X'', N'', U&''.
    let prefixed = match (bytes[0], second) {
        (b'e' | b'E' | b'b' | b'B' | b'x' | b'X' | b'n' | b'N', Some(b'\'')) => Some(1),
        (b'u' | b'U', Some(b'&')) if bytes.get(2) == Some(&b'\'') => Some(2),
        _ => None,
    };
    if let Some(open) = prefixed {
        let escapes = matches!(bytes[0], b'e' | b'E');
        return (Kind::Literal, closing_quote(bytes, open, escapes).min(bytes.len()));
    }
    match (bytes[0], second) {
        (b'\'', _) => (Kind::Literal, closing_quote(bytes, 0, false)),
        (b'"', _) => (Kind::Quoted, closing_quote(bytes, 0, false)),
        (b'-', Some(b'-')) => (Kind::Comment, run(bytes, 0, |byte| byte != b'\n')),
        (b'/', Some(b'*')) => (Kind::Comment, closing_comment(bytes, true)),
        (b'$', _) => match dollar_quoted(text) {
            Some(end) => (Kind::Literal, end),
            None => (Kind::Other, run(bytes, 1, |byte| byte.is_ascii_digit())),
        },
        _ => first_piece_of_any(bytes),
    }
}

/// What all dialects have.
fn first_piece_of_any(bytes: &[u8]) -> (Kind, usize) {
    match (bytes[0], bytes.get(1).copied()) {
        (b'0'..=b'9', _) | (b'.', Some(b'0'..=b'9')) => (Kind::Literal, number(bytes)),
        (byte, _) if byte.is_ascii_whitespace() => {
            (Kind::Blank, run(bytes, 0, |byte| byte.is_ascii_whitespace()))
        }
        (byte, _) if is_word_start(byte) => (Kind::Word, run(bytes, 0, is_word)),
        _ => (Kind::Other, 1),
    }
}

fn pieces(mut text: &str, dialect: Dialect) -> impl Iterator<Item = (Kind, &str)> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let (kind, mut length) = first_piece(text, dialect);
        // An escaped character may be longer than the byte that was skipped.
        while !text.is_char_boundary(length) {
            length += 1;
        }
        let (piece, rest) = text.split_at(length);
        text = rest;
        Some((kind, piece))
    })
}

/// The text with every literal, what comments say and what settings are set to replaced by `?`.
fn without_literals(text: &str, dialect: Dialect) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut place = Place::Start;
    for (kind, piece) in pieces(text, dialect) {
        kept.push_str(match kind {
            Kind::Literal => "?",
            Kind::Comment if names_a_call(piece) => piece,
            Kind::Comment if piece.starts_with("/*") => "/* ? */",
            Kind::Comment if piece.starts_with('#') => "# ?",
            Kind::Comment => "-- ?",
            Kind::Word | Kind::Quoted if place == Place::Value && !is_switch(piece) => "?",
            _ => piece,
        });
        place = place.after(kind, piece, dialect);
    }
    kept
}

/// Where in a statement a word stands: a setting may be set to one without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before its first word.
    Start,
    /// In one that changes something, of which a setting may be a part.
    Altering,
    /// Where a setting is named.
    Setting,
    /// Behind its name.
    Value,
    /// In any other.
    Other,
}

impl Place {
    fn after(self, kind: Kind, piece: &str, dialect: Dialect) -> Self {
        let is = |word: &str| piece.eq_ignore_ascii_case(word);
        match (self, kind) {
            (_, Kind::Blank | Kind::Comment | Kind::Literal) => self,
            (_, Kind::Other) if piece == ";" => Self::Start,
            (Self::Start, Kind::Word) if is("SET") => Self::Setting,
            (Self::Start, Kind::Word) if is("ALTER") => Self::Altering,
            (Self::Start, Kind::Word | Kind::Quoted) => Self::Other,
            (Self::Altering, Kind::Word) if is("SET") => Self::Setting,
            (Self::Setting, Kind::Word) if is("TO") => Self::Value,
            (Self::Setting, Kind::Other) if piece == "=" => Self::Value,
            // MySQL sets several in one statement; to PostgreSQL this is a list of values.
            (Self::Value, Kind::Other) if piece == "," && dialect != Dialect::Postgresql => {
                Self::Setting
            }
            _ => self,
        }
    }
}

/// Whether settings are set to this without anything being told by it.
fn is_switch(word: &str) -> bool {
    ["DEFAULT", "ON", "OFF", "TRUE", "FALSE", "NULL", "LOCAL"]
        .iter()
        .any(|switch| switch.eq_ignore_ascii_case(word))
}

/// What a statement does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// `db.operation.name`, for example `SELECT`; empty where there is none.
    pub(crate) operation: String,
    /// `db.query.summary`: the operation and its tables.
    pub(crate) text: String,
}

/// The summary of the first statement in a text.
fn summary(text: &str, dialect: Dialect) -> Summary {
    let mut operation: Option<String> = None;
    let mut targets: Vec<String> = Vec::new();
    let (mut depth, mut target_next, mut common_table) = (0usize, false, false);
    let mut name_open = false;
    for (kind, piece) in pieces(text, dialect) {
        match kind {
            Kind::Blank | Kind::Comment => {}
            Kind::Other => {
                match piece {
                    "(" => depth += 1,
                    ")" => depth = depth.saturating_sub(1),
                    ";" if operation.is_some() => break,
                    _ => {}
                }
                // `schema.table` and `FROM a, b` go on.
                name_open = piece == "." && name_open;
                if piece == "(" {
                    target_next = false;
                }
                continue;
            }
            Kind::Literal => target_next = false,
            Kind::Word | Kind::Quoted => {
                let upper = piece.to_ascii_uppercase();
                if operation.is_none() {
                    operation = Some(upper.chars().take(MAX_NAME_BYTES).collect());
                    common_table = upper == "WITH";
                    target_next = matches!(upper.as_str(), "UPDATE" | "TRUNCATE" | "COPY");
                    continue;
                }
                if common_table && depth == 0 {
                    if matches!(upper.as_str(), "SELECT" | "INSERT" | "UPDATE" | "DELETE") {
                        common_table = false;
                        target_next = upper == "UPDATE";
                        operation = Some(upper);
                    }
                    continue;
                }
                let is_name = kind == Kind::Quoted || !is_keyword(&upper);
                if target_next && is_name {
                    targets.push(name(piece));
                    target_next = false;
                    name_open = true;
                    if targets.len() >= MAX_TARGETS {
                        break;
                    }
                    continue;
                }
                if name_open && is_name {
                    // The part after a dot, or an alias: a dot keeps it open.
                    if let Some(last) = targets.last_mut()
                        && text_follows_dot(text, piece)
                    {
                        last.push('.');
                        last.push_str(&name(piece));
                    }
                }
                target_next = matches!(upper.as_str(), "FROM" | "INTO" | "JOIN" | "TABLE")
                    || (target_next && matches!(upper.as_str(), "ONLY" | "IF" | "NOT" | "EXISTS"));
            }
        }
        if !matches!(kind, Kind::Blank | Kind::Comment) {
            name_open = false;
        }
    }
    let operation = operation.unwrap_or_default();
    let mut text = operation.clone();
    for target in targets {
        text.push(' ');
        text.push_str(&target);
    }
    Summary { operation, text }
}

/// Whether `piece`, a part of `text`, comes right after a dot.
fn text_follows_dot(text: &str, piece: &str) -> bool {
    let at = piece.as_ptr().addr() - text.as_ptr().addr();
    text.as_bytes()[..at].trim_ascii_end().ends_with(b".")
}

fn name(piece: &str) -> String {
    piece.trim_matches(['"', '`']).chars().take(MAX_NAME_BYTES).collect()
}

/// Words that may stand where a table's name is expected and are none.
fn is_keyword(upper: &str) -> bool {
    matches!(
        upper,
        "ONLY"
            | "IF"
            | "NOT"
            | "EXISTS"
            | "SELECT"
            | "LATERAL"
            | "UNNEST"
            | "VALUES"
            | "TABLE"
            | "STDIN"
            | "STDOUT"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_go_and_the_rest_stays() {
        let cases = [
            ("SELECT 1", "SELECT ?"),
            ("SELECT 'it''s', E'a\\'b', B'01', U&'x'", "SELECT ?, ?, ?, ?"),
            ("SELECT $$body$$, $tag$ a $$ b $tag$, $1", "SELECT ?, ?, $1"),
            ("SELECT a1, t2.c3 FROM \"we'ird\"", "SELECT a1, t2.c3 FROM \"we'ird\""),
            ("WHERE x=-1.5e-3 AND y=.5 AND z=0xff", "WHERE x=-? AND y=? AND z=?"),
            ("SELECT 1 /* a 'b' /* 2 */ 3 */ -- 4\n, 5", "SELECT ? /* ? */ -- ?\n, ?"),
            ("SELECT 1 /* cut gehe", "SELECT ? /* ? */"),
            ("SELECT 1 /*call:d55f616cc55d5f21*/", "SELECT ? /*call:d55f616cc55d5f21*/"),
            ("SELECT 1 /*token:d55f616cc55d5f21*/", "SELECT ? /* ? */"),
            ("SELECT 1 /*call:geheim-d55f616c*/", "SELECT ? /* ? */"),
            ("SET my.secret TO geheim", "SET my.secret TO ?"),
            ("set local x = \"geheim\", b; SELECT a = b", "set local x = ?, ?; SELECT a = b"),
            ("SET x TO DEFAULT; SET TIME ZONE UTC", "SET x TO DEFAULT; SET TIME ZONE UTC"),
            ("ALTER ROLE bob SET x TO geheim", "ALTER ROLE bob SET x TO ?"),
            ("ALTER TABLE a RENAME TO b", "ALTER TABLE a RENAME TO b"),
            ("UPDATE a SET b = c", "UPDATE a SET b = c"),
            ("SELECT 'cut in the mid", "SELECT ?"),
            ("SELECT E'\\é'", "SELECT ?"),
            ("SELECT $cut", "SELECT $cut"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(without_literals(text, Dialect::Postgresql), expected);
        }
    }

    #[test]
    fn a_text_cut_anywhere_never_shows_a_literal() {
        let text = "INSERT INTO t VALUES (E'geh\\'eim', 'geheim', $x$geheim$x$, U&'geheim')";
        for end in 0..=text.len() {
            assert!(
                !without_literals(&text[..end], Dialect::Postgresql).contains("geh"),
                "{}",
                &text[..end]
            );
        }
    }

    #[test]
    fn summaries_name_operation_and_tables() {
        let cases = [
            ("select * from orders where id = $1", "SELECT orders"),
            ("SELECT a FROM shop.orders o JOIN \"Items\" i ON true", "SELECT shop.orders Items"),
            ("INSERT INTO users (id) VALUES (1)", "INSERT users"),
            ("UPDATE stock SET n = n - 1", "UPDATE stock"),
            ("DELETE FROM ONLY carts", "DELETE carts"),
            ("WITH x AS (SELECT 1 FROM a) SELECT * FROM b", "SELECT a b"),
            ("/* hi */ SELECT 1", "SELECT"),
            ("SELECT x FROM (SELECT y FROM inner_table) s", "SELECT inner_table"),
            ("BEGIN", "BEGIN"),
            ("CREATE TABLE IF NOT EXISTS t (id int)", "CREATE t"),
            ("BEGIN; SELECT 1 FROM t", "BEGIN"),
            ("COPY t FROM STDIN", "COPY t"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(summary(text, Dialect::Postgresql).text, expected, "{text}");
        }
    }

    #[test]
    fn mysql_has_other_quotes_and_comments() {
        let dialect = Dialect::Mysql { escapes: true };
        let cases = [
            ("SELECT \"it\\\"s\", 'a\\'b', x'01', `na'me`", "SELECT ?, ?, ?, `na'me`"),
            ("SELECT 1 # it's\n, 2 -- it's\n, 5--'x'", "SELECT ? # ?\n, ? -- ?\n, ?--?"),
            ("/*!40101 SET NAMES 'x' */", "/*!40101 SET NAMES ? */"),
            ("/*M!100100 SET a=1 */", "/*M!100100 SET a=? */"),
            ("SELECT /* a /* b */ 'x'", "SELECT /* ? */ ?"),
            ("SET a = geheim, b = ON", "SET a = ?, b = ON"),
            ("SELECT $$, 'x$$'", "SELECT $$, ?"),
            ("SELECT 'cut\\", "SELECT ?"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_literals(text, dialect), expected);
        }
        let plain = Dialect::Mysql { escapes: false };
        assert_eq!(without_literals("SELECT 'a\\', 'b'", plain), "SELECT ?, ?");
        let text = "select a from `shop`.`orders` o join items using (id)";
        assert_eq!(summary(text, dialect).text, "SELECT shop.orders items");
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let long = "é".repeat(3000);
        let statement = Statement::new(long.as_bytes(), 4096, Dialect::Postgresql);
        assert!(statement.text.len() <= MAX_TEXT_BYTES + 3);
        assert!(statement.text.ends_with("é..."));
    }
}
