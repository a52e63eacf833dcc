//! What JVM agents are told with each answer: a file of the operator, which is read again when it
//! has changed.
//!
//! A line is a service, or `*` for all, and a setting: `shop sampling 10`. The last line that
//! fits is the one that counts.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Maximum bytes of the file.
const MOST_BYTES: u64 = 1 << 20;

/// Settings of JVM agents.
#[derive(Debug, Default)]
pub(crate) struct JvmSettings {
    path: Option<PathBuf>,
    read: Mutex<Read>,
}

#[derive(Debug, Default)]
struct Read {
    changed: Option<SystemTime>,
    lines: Vec<Line>,
}

#[derive(Debug, PartialEq, Eq)]
struct Line {
    service: String,
    name: String,
    value: String,
}

impl JvmSettings {
    pub(crate) const fn new(path: Option<PathBuf>) -> Self {
        let read = Read { changed: None, lines: Vec::new() };
        Self { path, read: Mutex::new(read) }
    }

    /// The settings of a service, one a line.
    pub(crate) fn of(&self, service: &str) -> String {
        let Some(path) = &self.path else { return String::new() };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let file = fs::metadata(path).and_then(|file| Ok((file.modified()?, file.len())));
        match file {
            Ok((changed, _)) if Some(changed) == read.changed => {}
            Ok((changed, length)) if length <= MOST_BYTES => {
                read.changed = Some(changed);
                match fs::read_to_string(path) {
                    Ok(text) => read.lines = parse(&text),
                    Err(error) => tracing::warn!("{}: {error}", path.display()),
                }
            }
            Ok((changed, length)) => {
                read.changed = Some(changed);
                tracing::warn!("{} has {length} bytes, more than {MOST_BYTES}", path.display());
            }
            // What was read last stays.
            Err(error) => {
                if read.changed.take().is_some() {
                    tracing::warn!("{}: {error}", path.display());
                }
            }
        }
        told(&read.lines, service)
    }
}

fn parse(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(service), Some(name)) = (words.next(), words.next()) else {
            tracing::warn!("settings of JVM agents, line {}: SERVICE SETTING VALUE", number + 1);
            continue;
        };
        let value = words.collect::<Vec<_>>().join(" ");
        let is_right = match name {
            "sampling" => value.parse().is_ok_and(|one_in| (1..=4000).contains(&one_in)),
            "hooks_off" => true,
            _ => false,
        };
        if is_right {
            lines.push(Line { service: service.to_owned(), name: name.to_owned(), value });
        } else {
            tracing::warn!(
                "settings of JVM agents, line {}: `{name} {value}` is neither sampling and a number \
                 from 1 to 4000, nor hooks_off and names",
                number + 1
            );
        }
    }
    lines
}

fn told(lines: &[Line], service: &str) -> String {
    let fitting = lines.iter().filter(|line| line.service == "*" || line.service == service);
    let last: BTreeMap<&str, &str> =
        fitting.map(|line| (line.name.as_str(), line.value.as_str())).collect();
    last.iter().map(|(name, value)| format!("{name} {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_fits_counts() {
        let text = "# all\n* sampling 10\nshop sampling 1\nshop hooks_off jdbc cache\nshop sampling 0\n\
                    shop colour red\nbad\n";
        let lines = parse(text);
        assert_eq!(told(&lines, "shop"), "hooks_off jdbc cache\nsampling 1\n");
        assert_eq!(told(&lines, "other"), "sampling 10\n");
        assert_eq!(told(&[], "shop"), "");
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let path = std::env::temp_dir().join(format!("spanwise-jvm-{}", std::process::id()));
        let settings = JvmSettings::new(Some(path.clone()));
        assert_eq!(settings.of("shop"), "");
        fs::write(&path, "* sampling 5\n").unwrap();
        assert_eq!(settings.of("shop"), "sampling 5\n");
        fs::write(&path, "* sampling 7\n").unwrap();
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        assert_eq!(settings.of("shop"), "sampling 7\n");
        fs::remove_file(&path).unwrap();
        assert_eq!(settings.of("shop"), "sampling 7\n", "what was read last stays");
    }
}
