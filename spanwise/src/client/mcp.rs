//! `spanwise mcp`: the Model Context Protocol over standard input and output, one message a line.
//! Each message goes to `/mcp` of a running server, with the headers that the protocol wants over
//! HTTP, and its answer comes back.

use std::collections::HashMap;
use std::io::{BufRead as _, Read as _, Write as _};
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::http::{self, Answer, Request, Server};
use crate::failure::Failure;
use crate::terminal::harmless;

/// The longest message, as the server takes it.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;
/// Messages that wait for answers at once.
const AT_ONCE: usize = 8;
/// The most of an answer that is no message, in errors.
const SHOWN_CHARACTERS: usize = 300;

const EVENT_STREAM: &str = "text/event-stream";
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Where a message of a version without a handshake says its version.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

const PARSE_ERROR: i32 = -32_700;
const INTERNAL_ERROR: i32 = -32_603;

/// Passes messages on until standard input ends.
pub(super) fn run(url: &str) -> Result<(), Failure> {
    let server = Server::parse(url).map_err(Failure::Usage)?;
    let passage = Arc::new(Passage { url: url.to_owned(), server, version: Mutex::default() });
    http::runtime()?.block_on(async {
        let (lines, mut messages) = mpsc::channel(AT_ONCE);
        // Reading standard input cannot be cancelled, so it has a thread that the process does not
        // wait for.
        std::thread::spawn(move || read(&lines));
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let mut pending = JoinSet::new();
        let mut asked: HashMap<String, AbortHandle> = HashMap::new();
        while let Some(message) = messages.recv().await {
            let message = match Message::of(&message) {
                Ok(message) => message,
                Err(error) => {
                    write(&[failed(Value::Null, PARSE_ERROR, &error)]).map_err(Failure::cannot)?;
                    continue;
                }
            };
            // Over HTTP, whoever does not want an answer any more hangs up.
            if let Some(id) = message.cancelled() {
                if let Some(task) = asked.remove(&id) {
                    task.abort();
                }
                continue;
            }
            let slot = Arc::clone(&slots).acquire_owned().await.map_err(Failure::cannot)?;
            let passage = Arc::clone(&passage);
            let id = message.id().map(ToString::to_string);
            let task = pending.spawn(async move {
                let answers = passage.answers(&message).await;
                drop(slot);
                write(&answers)
            });
            asked.retain(|_, task| !task.is_finished());
            asked.extend(id.map(|id| (id, task)));
            while let Some(done) = pending.try_join_next() {
                finish(done)?;
            }
        }
        while let Some(done) = pending.join_next().await {
            finish(done)?;
        }
        Ok(())
    })
}

fn finish(done: Result<std::io::Result<()>, JoinError>) -> Result<(), Failure> {
    match done {
        Ok(written) => written.map_err(Failure::cannot),
        Err(error) if error.is_cancelled() => Ok(()),
        Err(error) => Err(Failure::cannot(error)),
    }
}

/// Reads lines until the end. Of one that is too long, the beginning is passed on, which is no
/// JSON; the rest is skipped.
fn read(lines: &mpsc::Sender<Vec<u8>>) {
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        match input.by_ref().take(MAX_MESSAGE_BYTES + 1).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if line.last() != Some(&b'\n') && line.len() as u64 > MAX_MESSAGE_BYTES {
            line.truncate(64);
            if input.skip_until(b'\n').is_err() {
                return;
            }
        }
        if !line.trim_ascii().is_empty() && lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// A message of the client.
struct Message {
    text: String,
    value: Value,
}

impl Message {
    fn of(line: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(line).map_err(|_| "the message is not UTF-8".to_owned())?;
        let value = serde_json::from_str(text)
            .map_err(|error| format!("the message is no JSON, or too long: {error}"))?;
        Ok(Self { text: text.trim().to_owned(), value })
    }

    /// The id of a request; `None` for a notification, or an answer.
    fn id(&self) -> Option<&Value> {
        self.value.get("id").filter(|_| self.method().is_some())
    }

    fn method(&self) -> Option<&str> {
        self.value.get("method")?.as_str()
    }

    /// The id of the request that this message cancels.
    fn cancelled(&self) -> Option<String> {
        let is_it = self.method() == Some("notifications/cancelled");
        is_it.then(|| self.value["params"]["requestId"].to_string())
    }

    /// The request by HTTP. `agreed` is the version that the handshake agreed on.
    fn request(&self, agreed: Option<&str>) -> Request {
        let parameters = &self.value["params"];
        let own = parameters["_meta"][VERSION_KEY].as_str();
        let version = own.or(agreed.filter(|_| self.method() != Some("initialize")));
        let named = match self.method() {
            Some("tools/call" | "prompts/get") => parameters["name"].as_str(),
            Some("resources/read") => parameters["uri"].as_str(),
            _ => None,
        };
        let mut request = Request::post("/mcp", self.text.clone()).header(ACCEPT, ACCEPTED);
        for (name, text) in [(VERSION, version), (METHOD, self.method()), (NAME, named)] {
            // The server says what is wrong with one that cannot be sent, and so is missing.
            if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
                request = request.header(name, value);
            }
        }
        request
    }
}

/// The way to a server.
struct Passage {
    url: String,
    server: Server,
    /// What the handshake agreed on.
    version: Mutex<Option<String>>,
}

impl Passage {
    /// What the server says to a message.
    async fn answers(&self, message: &Message) -> Vec<Value> {
        let agreed = self.version.lock().clone();
        let sent = http::send(&self.url, &self.server, &message.request(agreed.as_deref())).await;
        let answers =
            sent.map_err(|error| format!("{error:#}")).and_then(|answer| match answer.status {
                StatusCode::ACCEPTED => Ok(Vec::new()),
                _ => messages(&answer).ok_or_else(|| self.not_a_message(&answer)),
            });
        match (answers, message.id()) {
            (Ok(answers), _) => {
                if message.method() == Some("initialize") {
                    let agreed = answers.iter().find_map(|answer| {
                        answer["result"]["protocolVersion"].as_str().map(str::to_owned)
                    });
                    *self.version.lock() = agreed;
                }
                answers
            }
            (Err(error), Some(id)) => vec![failed(id.clone(), INTERNAL_ERROR, &error)],
            // To a notification, nothing is said.
            (Err(_), None) if message.method().is_some() => Vec::new(),
            (Err(error), None) => vec![failed(Value::Null, INTERNAL_ERROR, &error)],
        }
    }

    fn not_a_message(&self, answer: &Answer) -> String {
        let (url, status) = (&self.url, answer.status);
        let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
        if let Some(detail) = body.as_ref().and_then(|body| body["detail"].as_str()) {
            return detail.to_owned();
        }
        let text: String =
            String::from_utf8_lossy(&answer.body).chars().take(SHOWN_CHARACTERS).collect();
        format!("{url} answered {status}; is that a Spanwise server? It says: {}", harmless(&text))
    }
}

/// The messages of an answer: one, or those of a stream of events. `None` where it has something
/// else.
fn messages(answer: &Answer) -> Option<Vec<Value>> {
    let kind = answer.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_stream = kind.is_some_and(|kind| kind.trim_start().starts_with(EVENT_STREAM));
    let messages: Vec<Value> = match is_stream {
        true => events(std::str::from_utf8(&answer.body).ok()?)
            .iter()
            .map(|event| serde_json::from_str(event).ok())
            .collect::<Option<_>>()?,
        false => vec![serde_json::from_slice(&answer.body).ok()?],
    };
    messages.iter().all(|message| message.get("jsonrpc").is_some()).then_some(messages)
}

/// The data of each event of a stream that has any.
fn events(stream: &str) -> Vec<String> {
    let mut events = Vec::new();
    let mut data: Vec<&str> = Vec::new();
    // One that no empty line ends was cut off.
    for line in stream.lines() {
        if line.is_empty() {
            let event = std::mem::take(&mut data).join("\n");
            events.extend(Some(event).filter(|event| !event.is_empty()));
        } else if let Some(text) = line.strip_prefix("data:") {
            data.push(text.strip_prefix(' ').unwrap_or(text));
        }
    }
    events
}

fn failed(id: Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn write(answers: &[Value]) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for answer in answers {
        let mut line = answer.to_string();
        line.push('\n');
        output.write_all(line.as_bytes())?;
    }
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str, agreed: Option<&str>) -> Request {
        Message::of(text.as_bytes()).expect("JSON").request(agreed)
    }

    #[test]
    fn a_message_has_the_headers_of_its_version() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
        let header = |name, value| (name, HeaderValue::from_static(value));
        let with = |headers: &[(HeaderName, HeaderValue)], text: &str| {
            let request = Request::post("/mcp", text.to_owned()).header(ACCEPT, ACCEPTED);
            headers
                .iter()
                .cloned()
                .fold(request, |request, (name, value)| request.header(name, value))
        };
        let named = [header(METHOD, "tools/call"), header(NAME, "a")];
        assert_eq!(request(call, None), with(&named, call));
        let agreed = [&named[..], &[header(VERSION, "2025-06-18")]].concat();
        assert_eq!(request(call, Some("2025-06-18")), with(&agreed, call));
        let first = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        assert_eq!(request(first, Some("x")), with(&[header(METHOD, "initialize")], first));
        let own = format!(
            r#"{{"id":1,"method":"tools/list","params":{{"_meta":{{"{VERSION_KEY}":"2026-07-28"}}}}}}"#
        );
        let headers = [header(METHOD, "tools/list"), header(VERSION, "2026-07-28")];
        assert_eq!(request(&own, Some("2025-06-18")), with(&headers, &own));
        // Nobody can slip a header in.
        let bad = r#"{"method":"a\r\nx: y"}"#;
        assert_eq!(request(bad, None), with(&[], bad));
    }

    #[test]
    fn messages_of_a_stream_of_events_are_found() {
        let stream = ": ping\r\n\r\nid: 0\r\ndata:\r\n\r\nevent: message\r\ndata: {\"a\":\r\n\
                      data: 1}\r\n\r\ndata:{}\n\ndata: {\"cut";
        assert_eq!(events(stream), ["{\"a\":\n1}", "{}"]);
        let answer = |kind: &'static str, body: &'static str| Answer {
            status: StatusCode::OK,
            headers: [(CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect(),
            body: body.into(),
        };
        let one = r#"{"jsonrpc":"2.0"}"#;
        assert_eq!(messages(&answer("application/json", one)).map(|all| all.len()), Some(1));
        let two = "data: {\"jsonrpc\":\"2.0\"}\n\ndata: {\"jsonrpc\":\"2.0\"}\n\n";
        assert_eq!(messages(&answer(EVENT_STREAM, two)).map(|all| all.len()), Some(2));
        for (kind, other) in
            [("text/html", "<html>"), ("application/json", "{}"), (EVENT_STREAM, "data: x\n\n")]
        {
            assert_eq!(messages(&answer(kind, other)), None, "{other}");
        }
    }

    #[test]
    fn a_cancellation_names_its_request() {
        let cancelled = |text: &str| Message::of(text.as_bytes()).expect("JSON").cancelled();
        let text = r#"{"method":"notifications/cancelled","params":{"requestId":"x"}}"#;
        assert_eq!(cancelled(text), Some("\"x\"".to_owned()));
        assert_eq!(cancelled(r#"{"id":"x","method":"ping"}"#), None);
        assert!(Message::of(b"{").is_err() && Message::of(b"\xff").is_err());
    }
}
