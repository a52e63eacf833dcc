//! `spanwise watch`: rules over the service graph, told when they break and when they hold again.

mod prometheus;
mod rules;

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::json;
use spanwise_api::Graph;
use spanwise_api::endpoints::GRAPH;
use spanwise_query::{duration_nano, now_unix_nano};

use super::http::{self, Request};
use super::read;
use crate::failure::Failure;
use crate::flags::WatchFlags;
use crate::terminal::{Paint, harmless, print};
use rules::{Alert, Alerts, FORMS, Rule};

/// What began or ended and was not told to the webhook yet, at most.
const MOST_WAITING: usize = 1_000;

/// Follows the rules until it is interrupted.
pub(super) fn run(flags: &WatchFlags) -> Result<(), Failure> {
    let rule = |text: &String| {
        let rule = Rule::read(text).ok_or_else(|| {
            Failure::Usage(format!("`{}` is no rule; write {FORMS}", harmless(text)))
        })?;
        Ok((text.clone(), rule))
    };
    let rules: Vec<(String, Rule)> =
        flags.rules.iter().map(rule).collect::<Result<_, Failure>>()?;
    let window = time("--window", &flags.window)?;
    let before = time("--before", &flags.before)?;
    let every = time("--every", &flags.every)?;
    if flags.prometheus {
        return print(&prometheus::file(&rules, flags.window.trim(), flags.before.trim()));
    }
    if let Some(url) = &flags.webhook {
        http::check("--webhook", url)?;
    }
    let paint = Paint::for_stdout(flags.server.zone());
    let mut watch =
        Watch { flags, rules, paint, alerts: Alerts::default(), waiting: VecDeque::new() };
    loop {
        match watch.look(window, before) {
            Ok(now) => watch.tell(now)?,
            // The server may be restarted; whoever watches must not have to be.
            Err(error) if !flags.once => eprintln!("spanwise: {error}"),
            Err(error) => return Err(error),
        }
        watch.send();
        if flags.once {
            return match watch.waiting.is_empty() || flags.webhook.is_none() {
                true => Ok(()),
                false => Err(Failure::cannot("the webhook was not told")),
            };
        }
        std::thread::sleep(Duration::from_nanos(every.unsigned_abs()));
    }
}

fn time(flag: &str, text: &str) -> Result<i64, Failure> {
    duration_nano(text.trim()).filter(|nano| *nano > 0).ok_or_else(|| {
        Failure::Usage(format!(
            "{flag} {}: is no time; write for example 30s, 5m or 1h",
            harmless(text)
        ))
    })
}

struct Watch<'a> {
    flags: &'a WatchFlags,
    rules: Vec<(String, Rule)>,
    paint: Paint,
    alerts: Alerts,
    waiting: VecDeque<serde_json::Value>,
}

impl Watch<'_> {
    fn graph(&self, from: i64, to: i64) -> Result<Graph, Failure> {
        let request = Request::get(&GRAPH.url_path(&[]))
            .parameter("start", &from.to_string())
            .parameter("end", &to.to_string());
        let server = &self.flags.server;
        read(server, &http::ask(&server.url, &request)?)
    }

    /// The rules that are broken now.
    fn look(&self, window: i64, before: i64) -> Result<Vec<Alert>, Failure> {
        let now = now_unix_nano();
        let from = now.saturating_sub(window);
        let graph = self.graph(from, now)?;
        let is_compared = self.rules.iter().any(|(_, rule)| rule.compares());
        let usual =
            is_compared.then(|| self.graph(from.saturating_sub(before), from)).transpose()?;
        for warning in usual.iter().chain([&graph]).flat_map(|graph| &graph.warnings) {
            eprintln!("spanwise: {}", harmless(warning));
        }
        let broken =
            self.rules.iter().flat_map(|(text, rule)| rule.broken(text, &graph, usual.as_ref()));
        Ok(broken.collect())
    }

    fn tell(&mut self, now: Vec<Alert>) -> Result<(), Failure> {
        let (began, ended) = self.alerts.follow(now);
        let now = now_unix_nano();
        for (status, alerts) in [("firing", &began), ("resolved", &ended)] {
            for alert in alerts {
                let Alert { rule, subject, text } = alert;
                let told = json!({
                    "rule": rule,
                    "status": status,
                    "subject": subject,
                    "text": text,
                    "time_unix_nano": now.to_string(),
                });
                let line = match (self.flags.server.json, status) {
                    (true, _) => told.to_string(),
                    (false, "firing") => format!(
                        "{} {} {}",
                        self.paint.dim(&self.paint.moment(now)),
                        self.paint.red("broken"),
                        harmless(text)
                    ),
                    (false, _) => format!(
                        "{} holds again: {} of {}",
                        self.paint.dim(&self.paint.moment(now)),
                        harmless(rule),
                        harmless(subject)
                    ),
                };
                print(&format!("{line}\n"))?;
                self.waiting.push_back(told);
            }
        }
        if self.waiting.len() > MOST_WAITING {
            let dropped = self.waiting.len() - MOST_WAITING;
            self.waiting.drain(..dropped);
            if self.flags.webhook.is_some() {
                eprintln!("spanwise: {dropped} alerts were never told to the webhook");
            }
        }
        Ok(())
    }

    /// Tells the webhook what it was not told yet. What it does not take is sent again next time.
    fn send(&mut self) {
        let Some(url) = &self.flags.webhook else { return self.waiting.clear() };
        if self.waiting.is_empty() {
            return;
        }
        match http::post_elsewhere(url, json!({ "alerts": self.waiting }).to_string()) {
            Ok(()) => self.waiting.clear(),
            Err(error) => eprintln!(
                "spanwise: the webhook was not told, and is told again next time: {error}"
            ),
        }
    }
}
