//! `spanwise mcp`: the Model Context Protocol over standard input and output, one message a line.
//! Each message goes to `/mcp` of a running server, and its answer comes back.

use std::io::{BufRead as _, Read as _, Write as _};
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::http::{self, Request, Server};
use crate::failure::Failure;

/// The longest message, as the server takes it.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;
/// Messages that wait for answers at once.
const AT_ONCE: usize = 8;

/// Passes messages on until standard input ends.
pub(super) fn run(url: &str) -> Result<(), Failure> {
    let server = Arc::new(Server::parse(url).map_err(Failure::Usage)?);
    let url: Arc<str> = url.into();
    http::runtime()?.block_on(async {
        let (lines, mut messages) = mpsc::channel(AT_ONCE);
        // Reading standard input cannot be cancelled, so it has a thread that the process does not
        // wait for.
        std::thread::spawn(move || read(&lines));
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let mut pending = tokio::task::JoinSet::new();
        while let Some(message) = messages.recv().await {
            let slot = Arc::clone(&slots).acquire_owned().await.map_err(Failure::cannot)?;
            let (url, server) = (Arc::clone(&url), Arc::clone(&server));
            pending.spawn(async move {
                let answer = answer(&url, &server, message).await;
                drop(slot);
                answer.map(|answer| write(&answer)).transpose()
            });
            while let Some(done) = pending.try_join_next() {
                done.map_err(Failure::cannot)?.map_err(Failure::cannot)?;
            }
        }
        while let Some(done) = pending.join_next().await {
            done.map_err(Failure::cannot)?.map_err(Failure::cannot)?;
        }
        Ok(())
    })
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

/// The answer to a message; `None` where none is due.
async fn answer(url: &str, server: &Server, message: Vec<u8>) -> Option<Value> {
    let id = serde_json::from_slice::<Value>(&message).ok().map(|message| message["id"].clone());
    let Ok(text) = String::from_utf8(message) else {
        return Some(failed(Value::Null, -32700, "the message is not UTF-8"));
    };
    match http::send(url, server, &Request::post("/mcp", text)).await {
        Ok(answer) if answer.status == StatusCode::ACCEPTED => None,
        Ok(answer) => match serde_json::from_slice::<Value>(&answer.body) {
            Ok(body) if body.get("jsonrpc").is_some() => Some(body),
            Ok(body) if body.get("detail").is_some() => {
                let detail = body["detail"].as_str().unwrap_or_default();
                Some(failed(id.unwrap_or_default(), -32603, detail))
            }
            _ => Some(failed(
                id.unwrap_or_default(),
                -32603,
                &format!("{url} answered {}; is that a Spanwise server?", answer.status),
            )),
        },
        // To a notification, nothing is said.
        Err(_) if id == Some(Value::Null) => None,
        Err(error) => Some(failed(id.unwrap_or_default(), -32603, &format!("{error:#}"))),
    }
}

fn failed(id: Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn write(answer: &Value) -> std::io::Result<()> {
    let mut line = answer.to_string();
    line.push('\n');
    let mut output = std::io::stdout().lock();
    output.write_all(line.as_bytes())?;
    output.flush()
}
