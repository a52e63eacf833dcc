//! MongoDB commands and their responses, and which parts are shown. Values are never shown.

use spanwise_model::AttributeValue;

use super::bson::{Elements, Value, elements};
use super::names::{UNKNOWN, is_command};
use crate::bytes::text;
use crate::redaction::{self, without_values};
use crate::sessions::{Answer, Attributes, Failure, Request};

/// Maximum length of a command, database or collection name that is shown.
const MAX_COMMAND_BYTES: usize = 64;
const MAX_NAME_BYTES: usize = 255;
/// Maximum length of an error message that is shown.
const MAX_ERROR_BYTES: usize = 512;

/// Commands whose first element names a collection.
const OF_COLLECTIONS: [&str; 24] = [
    "aggregate",
    "collMod",
    "collStats",
    "compact",
    "convertToCapped",
    "count",
    "create",
    "createIndexes",
    "createSearchIndexes",
    "delete",
    "distinct",
    "drop",
    "dropIndexes",
    "explain",
    "find",
    "findAndModify",
    "findandmodify",
    "insert",
    "killCursors",
    "listIndexes",
    "mapReduce",
    "reIndex",
    "update",
    "validate",
];

/// Commands with which drivers open and monitor connections. They make a span only if they fail.
const SILENT: [&str; 8] = [
    "hello",
    "isMaster",
    "ismaster",
    "ping",
    "saslStart",
    "saslContinue",
    "authenticate",
    "getnonce",
];

/// Error code CommandNotFound.
pub(super) const NO_SUCH_COMMAND: &str = "59";

/// Errors whose messages quote databases, collections, users and similar names, but no values. For
/// other errors, text in quotes and braces is removed.
const NAMING_ERRORS: [i32; 6] = [13, 18, 26, 48, 73, 85];

/// The command in a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) name: String,
    pub(super) database: Option<String>,
    pub(super) collection: Option<String>,
}

impl Command {
    /// A command with this name on `database.collection`.
    pub(super) fn on(name: &str, full_name: &[u8]) -> Self {
        let dot = memchr::memchr(b'.', full_name).unwrap_or(full_name.len());
        Self {
            name: name.to_owned(),
            database: shown(&full_name[..dot]),
            collection: full_name.get(dot + 1..).and_then(shown),
        }
    }

    /// Reads the document of a command; `None` if it is not a command.
    pub(super) fn read(body: Elements<'_>) -> Option<Self> {
        let mut command = Self::default();
        for (index, (name, value)) in body.enumerate() {
            match (index, name, value) {
                // Old drivers wrapped commands like this.
                (0, b"$query" | b"query", Value::Document(content)) => {
                    return Self::read(elements(content));
                }
                (0, name, value) => {
                    let plain = name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
                    if !plain || name.is_empty() || name.len() > MAX_COMMAND_BYTES {
                        return None;
                    }
                    command.name = text(name, MAX_COMMAND_BYTES);
                    if !is_command(&command.name) {
                        command.name = UNKNOWN.to_owned();
                    }
                    if let Value::Text(collection) = value
                        && OF_COLLECTIONS.contains(&command.name.as_str())
                    {
                        command.collection = shown(collection);
                    }
                }
                (_, b"$db", Value::Text(database)) => command.database = shown(database),
                (_, b"collection", Value::Text(collection)) if command.name == "getMore" => {
                    command.collection = shown(collection);
                }
                _ => {}
            }
        }
        (!command.name.is_empty()).then_some(command)
    }

    /// The command for a request of which only the document sequence was seen.
    pub(super) fn of_sequence(name: &[u8]) -> Option<Self> {
        let name = match name {
            b"documents" => "insert",
            b"updates" => "update",
            b"deletes" => "delete",
            _ => return None,
        };
        Some(Self { name: name.to_owned(), ..Self::default() })
    }

    /// Whether the command only monitors the connection. Its responses may continue without end.
    pub(super) fn watches(&self) -> bool {
        SILENT.contains(&self.name.as_str())
    }

    /// The request for this command.
    pub(super) fn request(&self) -> Request {
        let mut attributes = Attributes::with_capacity(4);
        let mut add = |key: &'static str, value: &str| {
            attributes.push((key, AttributeValue::String(value.to_owned())));
        };
        add("db.system.name", "mongodb");
        if let Some(database) = &self.database {
            add("db.namespace", database);
        }
        if let Some(collection) = &self.collection {
            add("db.collection.name", collection);
        }
        add("db.operation.name", &self.name);
        let operation = match &self.collection {
            Some(collection) => format!("{} {collection}", self.name),
            None => self.name.clone(),
        };
        Request { attributes, silent: self.watches(), ..Request::new(operation) }
    }
}

/// A request that cannot be read because it is compressed.
pub(super) fn compressed() -> Request {
    let mut request = Request::new("compressed");
    request.attributes.push(("db.system.name", "mongodb".into()));
    request
}

fn shown(name: &[u8]) -> Option<String> {
    let name = redaction::owned(text(name, MAX_NAME_BYTES), redaction::keyed_name);
    Some(name).filter(|name| !name.is_empty())
}

/// Reads the document of a response. A missing part is taken as success, because errors are at the
/// start.
pub(super) fn answer(body: Elements<'_>, answer: &mut Answer) {
    let mut refused = false;
    let mut error = Problem::default();
    let mut part: Option<Problem> = None;
    for (name, value) in body {
        match (name, value) {
            (b"ok", Value::Number(ok)) => refused = ok == 0.0,
            (b"ok", Value::Bool(ok)) => refused = !ok,
            // Legacy replies: an error of the query itself.
            (b"$err", Value::Text(message)) => {
                refused = true;
                error.message = text(message, MAX_ERROR_BYTES);
            }
            (b"writeErrors", Value::Document(list)) => {
                if let Some((_, Value::Document(first))) = elements(list).next() {
                    part.get_or_insert_default().read(elements(first));
                }
            }
            (b"writeConcernError", Value::Document(content)) if part.is_none() => {
                part.get_or_insert_default().read(elements(content));
            }
            (name, value) => error.element(name, value),
        }
    }
    let problem = if refused { Some(error) } else { part };
    let Some(problem) = problem else { return };
    answer.status_code = problem.code;
    if let Some(code) = problem.code {
        let code = code.to_string().into();
        answer.attributes.push(("db.response.status_code", code));
    }
    answer.failure = Some(problem.failure());
}

/// The fields of an error.
#[derive(Debug, Default)]
struct Problem {
    code: Option<i32>,
    name: String,
    message: String,
}

impl Problem {
    fn read(&mut self, body: Elements<'_>) {
        for (name, value) in body {
            self.element(name, value);
        }
    }

    fn element(&mut self, name: &[u8], value: Value<'_>) {
        match (name, value) {
            (b"code", Value::Number(code)) => self.code = Some(code as i32),
            (b"codeName", Value::Text(name)) => self.name = text(name, MAX_COMMAND_BYTES),
            (b"errmsg", Value::Text(message)) => self.message = text(message, MAX_ERROR_BYTES),
            _ => {}
        }
    }

    fn failure(self) -> Failure {
        let kind = self.code.map_or_else(|| "error".to_owned(), |code| code.to_string());
        let mut message = match self.code {
            // If a command is not allowed, these errors repeat the whole command.
            Some(code) if NAMING_ERRORS.contains(&code) && !self.message.contains('{') => {
                self.message
            }
            _ => without_values(&self.message).into_owned(),
        };
        if message.is_empty() {
            message = "failed".to_owned();
        }
        let message = if self.name.is_empty() {
            format!("{kind}: {message}")
        } else {
            format!("{kind} ({}): {message}", self.name)
        };
        Failure { kind, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_allowed_is_not_repeated() {
        let message = "not authorized on shop to execute command { find: \"geheim\" }".to_owned();
        let problem = Problem { code: Some(13), message, ..Problem::default() };
        let shown = "13: not authorized on shop to execute command {?}";
        assert_eq!(problem.failure().message, shown);
    }

    #[test]
    fn messages_of_errors_show_no_values() {
        let duplicate = "E11000 duplicate key error collection: shop.users index: email_1 dup key: \
            { email: \"gehe}im\" }";
        assert_eq!(
            without_values(duplicate),
            "E11000 duplicate key error collection: shop.users index: email_1 dup key: {?}"
        );
        assert_eq!(without_values("Failed to parse 'it's' as 'x'"), "Failed to parse '?'");
        assert_eq!(without_values("cut { geheim"), "cut {?}");
        assert_eq!(without_values("plain"), "plain");
    }

    #[test]
    fn names_of_collections_are_told_from_other_names() {
        let command = Command::on("find", b"shop.users.old");
        assert_eq!(command.database.as_deref(), Some("shop"));
        assert_eq!(command.collection.as_deref(), Some("users.old"));
        let user = b"\x24\0\0\0\x02createUser\0\x07\0\0\0geheim\0\0";
        let command = Command::read(super::super::bson::document(user).unwrap()).unwrap();
        assert_eq!((command.name.as_str(), command.collection), ("createUser", None));
    }
}
