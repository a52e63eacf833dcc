//! `spanwise status`: the most important facts for operators. Counters at zero are omitted;
//! `--json` includes them.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use spanwise_api::{Count, Counter, HostClock, Level, ReportingAgent, Status};

use crate::terminal::{Align, Paint, Table, brief, bytes, harmless};

/// The status: warnings first, then each part's figures.
pub(super) fn render(answer: &Status, paint: Paint) -> String {
    let mut text = String::new();
    let up = uptime(answer.uptime_seconds);
    let _ = writeln!(text, "{} {}, up {up}", paint.bold("Spanwise"), harmless(&answer.version));
    for warning in &answer.warnings {
        let _ = writeln!(text, "{} {}", paint.yellow("warning:"), harmless(warning));
    }
    let bad: Vec<&Counter> =
        answer.counters.iter().filter(|counter| counter.level > Level::Info).collect();
    if !bad.is_empty() {
        let _ = write!(text, "\n{}\n{}", paint.bold("needs attention"), counter_lines(&bad, paint));
    }
    part(&mut text, "agent", &answer.agent, paint);
    part(&mut text, "ingest", &answer.ingest, paint);
    part(&mut text, "process", &answer.process, paint);
    part(&mut text, "server", &answer.server, paint);
    part(&mut text, "store", &answer.store, paint);
    let clocks = &answer.server.assembly.clocks;
    if !clocks.is_empty() {
        let title = paint.bold("clocks, by the calls between hosts");
        let _ = write!(text, "\n{title}\n{}", clock_table(clocks, paint));
    }
    let agents = &answer.ingest.agents;
    if !agents.is_empty() {
        let _ =
            write!(text, "\n{}\n{}", paint.bold("agents that report here"), table(agents, paint));
    }
    text
}

/// The figures of a part, with their names in the API.
fn part(text: &mut String, name: &str, part: &impl Serialize, paint: Paint) {
    let _ = writeln!(text, "\n{}", paint.bold(name));
    if let Ok(part) = serde_json::to_value(part) {
        lines(text, "", &part, paint);
    }
}

/// Counters of losses and errors, each with its meaning and advice.
fn counter_lines(counters: &[&Counter], paint: Paint) -> String {
    let mut text = String::new();
    for Counter { action, level, meaning, name, part, value } in counters {
        let level = match level {
            Level::Fault => paint.red("fault"),
            Level::Loss | Level::Info => paint.yellow("loss"),
        };
        let _ = writeln!(text, "  {level} {} {value} ({})", harmless(name), part.as_str());
        let _ = writeln!(text, "    {}; {}", harmless(meaning), harmless(action));
    }
    text
}

/// One line for each pair of hosts.
fn clock_table(clocks: &[HostClock], paint: Paint) -> String {
    let mut table = Table::new([
        ("  HOST", Align::Left),
        ("REFERENCE", Align::Left),
        ("AHEAD", Align::Right),
        ("GIVE OR TAKE", Align::Right),
        ("CALLS", Align::Right),
    ]);
    let ms = |nano: Count| format!("{:.3} ms", nano.0 as f64 / 1e6);
    for clock in clocks {
        table.row(vec![
            format!("  {}", brief(&clock.host, 60)),
            brief(&clock.reference, 60),
            ms(clock.ahead_nano),
            ms(clock.uncertainty_nano),
            clock.exchanges.to_string(),
        ]);
    }
    table.render(paint)
}

/// One line for each agent. Their losses are among the warnings.
fn table(agents: &[ReportingAgent], paint: Paint) -> String {
    let mut table = Table::new([
        ("  HOST", Align::Left),
        ("HOOK", Align::Left),
        ("CONNECTED", Align::Left),
        ("SPANS", Align::Right),
        ("LAST SEEN", Align::Left),
    ]);
    for agent in agents {
        let facts = agent.facts.clone().unwrap_or_default();
        let text = |fact: Option<String>| brief(fact.as_deref().unwrap_or("?"), 60);
        table.row(vec![
            format!("  {}", text(facts.host)),
            text(facts.hook),
            if agent.connected { "yes" } else { "no" }.to_owned(),
            agent.spans.to_string(),
            match agent.last_seen_unix_nano {
                Count(0) => "0".to_owned(),
                Count(nano) => paint.moment(nano),
            },
        ]);
    }
    table.render(paint)
}

/// Prints the leaves of a value, each with its path.
fn lines(text: &mut String, path: &str, value: &Value, paint: Paint) {
    let below = |key: &str| {
        if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
    };
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let is_zero = path.ends_with("counters") && value.as_u64() == Some(0);
                if !is_zero && key != "agents" && key != "clocks" {
                    lines(text, &below(key), value, paint);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                // A counter is a pair of name and number.
                match item.as_array().map(Vec::as_slice) {
                    Some([Value::String(name), number]) if number.is_number() => {
                        if number.as_u64() != Some(0) {
                            lines(text, &below(name), number, paint);
                        }
                    }
                    _ => lines(text, &below(&index.to_string()), item, paint),
                }
            }
        }
        Value::Null => {}
        // All of these are counters, so the word is omitted.
        leaf => {
            let name = harmless(path).replace("counters.", "");
            _ = writeln!(text, "  {name:<36} {}", scalar(path, leaf, paint));
        }
    }
}

fn scalar(path: &str, value: &Value, paint: Paint) -> String {
    match (value, number(value)) {
        (_, Some(nano)) if path.ends_with("_unix_nano") && nano != 0 => paint.moment(nano),
        (_, Some(count)) if path.ends_with("_bytes") => {
            u64::try_from(count).map_or_else(|_| count.to_string(), bytes)
        }
        (Value::String(text), _) => harmless(text),
        (other, _) => harmless(&other.to_string()),
    }
}

/// Large numbers are encoded as texts.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}

fn uptime(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_come_first_and_counters_that_count_are_shown() {
        let answer = serde_json::json!({
            "version": "0.1.0", "uptime_seconds": 3_700.5,
            "warnings": ["the agent is off: no right"],
            "agent": {"state": "off", "reason": "no right", "hook": null, "counters": {"lost": 0}},
            "server": {"assembly": {"clocks": [{"host": "far", "reference": "near",
                "ahead_nano": -1_500_000, "uncertainty_nano": 20_000, "exchanges": 12}]}},
            "counters": [
                {"part": "ingest", "name": "requests_timed_out", "value": 2, "level": "loss",
                 "meaning": "too slow", "action": "be quick"},
                {"part": "ingest", "name": "zipkin_requests", "value": 9, "level": "info",
                 "meaning": "m", "action": ""},
            ],
            "store": {"recent_bytes": 2048, "counters": [["wal_tail_cut", 1], ["refused", 0]]},
            "ingest": {"agents": [{"facts": {"host": "far", "hook": "sock-length"}, "spans": 7,
                "connected": true, "last_seen_unix_nano": 0}]},
        });
        let answer = serde_json::from_value(answer).expect("a status");
        let text = render(&answer, Paint::off());
        assert!(
            text.starts_with("Spanwise 0.1.0, up 1 h 1 min\nwarning: the agent is off"),
            "{text}"
        );
        assert!(text.contains("  wal_tail_cut                         1\n"), "{text}");
        assert!(
            text.contains("2.0 KiB") && !text.contains("hook") && !text.contains("lost"),
            "{text}"
        );
        assert!(text.contains("  far   near       -1.500 ms"), "{text}");
        assert!(
            text.contains("  loss requests_timed_out 2 (ingest)\n    too slow; be quick\n"),
            "{text}"
        );
        assert!(!text.contains("zipkin_requests"), "{text}");
        assert!(text.contains("  far   sock-length  yes            7"), "{text}");
    }
}
