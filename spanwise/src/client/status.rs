//! `spanwise status`

use std::fmt::Write as _;

use serde_json::Value;

use crate::terminal::{Paint, bytes, harmless, moment};

/// The status document, part by part: warnings first, then what it says.
pub(super) fn render(answer: &Value, paint: Paint) -> String {
    let mut text = String::new();
    let version = answer["version"].as_str().unwrap_or("of unknown version");
    let up = answer["uptime_seconds"].as_f64().unwrap_or_default();
    let _ = writeln!(text, "{} {}, up {}", paint.bold("Spanwise"), harmless(version), uptime(up));
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "{} {}", paint.yellow("warning:"), scalar("", warning));
    }
    for (name, part) in answer.as_object().into_iter().flatten() {
        if part.is_object() {
            let _ = writeln!(text, "\n{}", paint.bold(&harmless(name)));
            lines(&mut text, "", part);
        }
    }
    text
}

/// Prints a value's leaves, each with its path.
fn lines(text: &mut String, path: &str, value: &Value) {
    let below = |key: &str| {
        if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
    };
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                lines(text, &below(key), value);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                // A counter is a pair of its name and its number.
                match item.as_array().map(Vec::as_slice) {
                    Some([Value::String(name), number]) if number.is_number() => {
                        lines(text, &below(name), number);
                    }
                    _ => lines(text, &below(&index.to_string()), item),
                }
            }
        }
        Value::Null => {}
        leaf => _ = writeln!(text, "  {:<36} {}", harmless(path), scalar(path, leaf)),
    }
}

fn scalar(path: &str, value: &Value) -> String {
    let number = value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    match (value, number) {
        (_, Some(nano)) if path.ends_with("_unix_nano") && nano != 0 => moment(nano),
        (_, Some(count)) if path.ends_with("_bytes") => {
            u64::try_from(count).map_or_else(|_| count.to_string(), bytes)
        }
        (Value::String(text), _) => harmless(text),
        (other, _) => harmless(&other.to_string()),
    }
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
    fn warnings_come_first_and_every_counter_is_shown() {
        let answer = serde_json::json!({
            "version": "0.1.0", "uptime_seconds": 3_700.5,
            "warnings": ["the agent is off: no right"],
            "agent": {"state": "off", "reason": "no right", "hook": null},
            "store": {"recent_bytes": 2048, "counters": [["wal_tail_cut", 1]]},
        });
        let text = render(&answer, Paint::off());
        assert!(
            text.starts_with("Spanwise 0.1.0, up 1 h 1 min\nwarning: the agent is off"),
            "{text}"
        );
        assert!(text.contains("counters.wal_tail_cut                1\n"), "{text}");
        assert!(text.contains("2.0 KiB") && !text.contains("hook"), "{text}");
    }
}
