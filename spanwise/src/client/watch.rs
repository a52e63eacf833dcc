//! `spanwise watch`: the rules that the server watches, or rules over the service graph, told when
//! they break and when they hold again.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::json;
use spanwise_analyze::watch::{
    Alert, Alerts, Figures, OpenAlert, Rule, ServiceFigures, alerting_rules,
};
use spanwise_api::endpoints::{GRAPH, WATCH};
use spanwise_api::{Graph, WatchState};
use spanwise_query::{duration_nano, now_unix_nano};

use super::http::{self, Request};
use super::read;
use crate::config::Rules;
use crate::failure::Failure;
use crate::flags::WatchFlags;
use crate::terminal::{Paint, harmless, print};

/// What began or ended and was not told to the webhook yet, at most.
const MOST_WAITING: usize = 1_000;

/// Follows the rules until it is interrupted.
pub(super) fn run(flags: &WatchFlags) -> Result<(), Failure> {
    if flags.rules.is_empty() && !flags.prometheus {
        return watched(flags);
    }
    let rules = match flags.rules.is_empty() {
        true => Rules::of(asked(flags)?.rules.into_iter().map(|rule| rule.rule)),
        false => Rules::of(flags.rules.clone()),
    };
    let Rules(rules) = rules.map_err(Failure::Usage)?;
    let window = time("--window", &flags.window)?;
    let before = time("--before", &flags.before)?;
    let every = time("--every", &flags.every)?;
    if flags.prometheus {
        return print(&alerting_rules(&rules, flags.window.trim(), flags.before.trim()));
    }
    let of_server = rules.iter().find(|(_, rule)| {
        matches!(rule, Rule::NewError { .. } | Rule::Weak { .. } | Rule::Rate { .. })
    });
    if let Some((text, _)) = of_server {
        return Err(Failure::Usage(format!(
            "`{}` is evaluated by the server as spans come: write it to its configuration file, \
             [watch] rules = [\"…\"]; `spanwise watch` without a rule shows how it is",
            harmless(text)
        )));
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

/// The rules that the server watches.
fn asked(flags: &WatchFlags) -> Result<spanwise_api::Watch, Failure> {
    let server = &flags.server;
    read(server, &http::ask(&server.url, &Request::get(&WATCH.url_path(&[])))?)
}

/// Prints the rules that the server watches.
fn watched(flags: &WatchFlags) -> Result<(), Failure> {
    let paint = Paint::for_stdout(flags.server.zone());
    super::show(&flags.server, &Request::get(&WATCH.url_path(&[])), |answer, _| {
        render(answer, paint)
    })
}

fn render(answer: &spanwise_api::Watch, paint: Paint) -> String {
    let mut text = String::new();
    for rule in &answer.rules {
        let how = match rule.state {
            WatchState::Holds => "holds".to_owned(),
            WatchState::Broken => paint.red("broken"),
            WatchState::Learning => paint.yellow("learning"),
            WatchState::Unknown => paint.yellow("unknown"),
        };
        let since = paint.moment(rule.since_unix_nano.0);
        text.push_str(&format!("{how} since {since}  {}\n", harmless(&rule.rule)));
        for alert in &rule.alerts {
            let since = paint.moment(alert.since_unix_nano.0);
            text.push_str(&format!("    {since}  {}\n", harmless(&alert.text)));
        }
        if let Some(why) = &rule.why {
            text.push_str(&paint.dim(&format!("    {}\n", harmless(why))));
        }
    }
    if let Some(webhook) = &answer.webhook {
        text.push_str(&format!(
            "webhook {}: {} told, {} waiting, {} failures, {} given up{}\n",
            harmless(&webhook.url),
            webhook.told.0,
            webhook.waiting.0,
            webhook.failures.0,
            webhook.dropped.0,
            webhook
                .last_error
                .as_ref()
                .map_or(String::new(), |why| format!(" ({})", harmless(why)))
        ));
    }
    for warning in &answer.warnings {
        text.push_str(&format!("{} {}\n", paint.yellow("warning:"), harmless(warning)));
    }
    text
}

/// What rules are about, of a graph.
fn figures(graph: &Graph) -> Figures {
    let mut figures = Figures { seconds: graph.window_seconds, ..Figures::default() };
    for node in &graph.nodes {
        let (requests, errors, p95_nano) = (node.requests, node.errors, node.p95_nano.0);
        figures.services.insert(node.name.clone(), ServiceFigures { requests, errors, p95_nano });
    }
    for edge in &graph.edges {
        let calls = figures.calls.entry((edge.client.clone(), edge.server.clone())).or_default();
        *calls += edge.requests;
    }
    figures
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
        let (now, before) = (figures(&graph), usual.as_ref().map(figures));
        let broken =
            self.rules.iter().flat_map(|(text, rule)| rule.broken(text, &now, before.as_ref()));
        Ok(broken.collect())
    }

    fn tell(&mut self, now: Vec<Alert>) -> Result<(), Failure> {
        let at = now_unix_nano();
        let (began, ended) = self.alerts.follow_at_once(now, at);
        let now = at;
        for (status, alerts) in [("firing", &began), ("resolved", &ended)] {
            for alert in alerts {
                let OpenAlert { alert: Alert { rule, subject, text, .. }, .. } = alert;
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
        let body = json!({ "alerts": self.waiting }).to_string();
        let posted =
            http::runtime().and_then(|runtime| runtime.block_on(http::post_elsewhere(url, body)));
        match posted {
            Ok(()) => self.waiting.clear(),
            Err(error) => eprintln!(
                "spanwise: the webhook was not told, and is told again next time: {error}"
            ),
        }
    }
}
