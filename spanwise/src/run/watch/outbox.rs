//! Tells a webhook what begins and ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use spanwise_api as api;
use tokio::sync::Notify;

use crate::client::post_elsewhere;

/// The most alerts that wait. The oldest ones go.
const MOST_WAITING: usize = 1_000;
/// The most alerts of a request.
const MOST_AT_ONCE: usize = 100;
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The first pause, and the longest one. Each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Alerts for a webhook.
pub(super) struct Outbox {
    url: String,
    tries: usize,
    state: Mutex<State>,
    more: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Value>,
    told: u64,
    failures: u64,
    dropped: u64,
    last_error: Option<String>,
}

impl Outbox {
    pub(super) fn new(url: String, tries: usize) -> Arc<Self> {
        Arc::new(Self { url, tries, state: Mutex::default(), more: Notify::new() })
    }

    /// Adds an alert.
    pub(super) fn put(&self, alert: Value) {
        let mut state = self.state.lock();
        if state.waiting.len() >= MOST_WAITING {
            state.waiting.pop_front();
            state.dropped += 1;
        }
        state.waiting.push_back(alert);
        drop(state);
        self.more.notify_one();
    }

    pub(super) fn answer(&self) -> api::Webhook {
        let state = self.state.lock();
        api::Webhook {
            dropped: state.dropped.into(),
            failures: state.failures.into(),
            last_error: state.last_error.clone(),
            told: state.told.into(),
            url: shown(&self.url),
            waiting: (state.waiting.len() as u64).into(),
        }
    }

    /// Tells, until it is aborted.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let alerts: Vec<Value> = {
                let mut state = self.state.lock();
                let count = state.waiting.len().min(MOST_AT_ONCE);
                state.waiting.drain(..count).collect()
            };
            if alerts.is_empty() {
                self.more.notified().await;
                continue;
            }
            self.tell(alerts).await;
        }
    }

    fn failed(&self, error: String) {
        let mut state = self.state.lock();
        state.failures += 1;
        if state.last_error.as_ref() != Some(&error) {
            tracing::warn!("the webhook of watched rules was not told: {error}");
        }
        state.last_error = Some(error);
    }

    async fn tell(&self, alerts: Vec<Value>) {
        let count = alerts.len() as u64;
        let body = json!({ "alerts": alerts }).to_string();
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=self.tries {
            let posted =
                tokio::time::timeout(ANSWER_WITHIN, post_elsewhere(&self.url, body.clone()));
            let error = match posted.await {
                Ok(Ok(())) => {
                    let mut state = self.state.lock();
                    state.told += count;
                    state.last_error = None;
                    return;
                }
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => format!("no answer within {} s", ANSWER_WITHIN.as_secs()),
            };
            self.failed(error);
            if attempt < self.tries {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        self.state.lock().dropped += count;
        tracing::warn!("the webhook of watched rules was never told {count} alerts");
    }
}

/// A URL without password and query.
fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}/{path}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// Answers requests with these codes, one after another, and returns the bodies.
    fn receiver(codes: &'static [u16]) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/alerts", listener.local_addr().expect("an address"));
        let serving = std::thread::spawn(move || {
            let answered = codes.iter().map(|code| {
                let (mut stream, _) = listener.accept().expect("a caller");
                let mut request = String::new();
                let mut part = [0; 4096];
                while !request.contains("\"alerts\"") {
                    let read = stream.read(&mut part).expect("a request");
                    request.push_str(&String::from_utf8_lossy(&part[..read]));
                }
                let answer = format!("HTTP/1.1 {code} X\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).expect("an answer");
                request
            });
            answered.collect()
        });
        (url, serving)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_refused_alert_is_told_again_and_then_given_up() {
        let (url, serving) = receiver(&[500, 204, 503, 503]);
        let outbox = Outbox::new(url, 2);
        outbox.tell(vec![json!({"rule": "a"})]).await;
        let answer = outbox.answer();
        assert_eq!((answer.told.0, answer.failures.0, answer.dropped.0), (1, 1, 0));
        assert_eq!(answer.last_error, None);
        outbox.tell(vec![json!({"rule": "b"}), json!({"rule": "c"})]).await;
        let answer = outbox.answer();
        assert_eq!((answer.told.0, answer.failures.0, answer.dropped.0), (1, 3, 2));
        assert!(answer.last_error.expect("one").contains("503"));
        let bodies = serving.join().expect("served");
        assert!(bodies[1].starts_with("POST /alerts HTTP/1.1"), "{}", bodies[1]);
        assert!(bodies[1].ends_with(r#"{"alerts":[{"rule":"a"}]}"#), "{}", bodies[1]);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let outbox = Outbox::new("http://user:secret@host:9/x?token=1".to_owned(), 1);
        for number in 0..1_003 {
            outbox.put(json!(number));
        }
        let answer = outbox.answer();
        assert_eq!((answer.waiting.0, answer.dropped.0), (1_000, 3));
        assert_eq!(answer.url, "http://host:9/x");
    }
}
