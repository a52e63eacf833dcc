//! Filters of running programs: rules in the directory's control page, and the switch of each site.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::process::{Process, Site};
use crate::recording::read_bounded;
use crate::{u32_at, u64_at};

const RULES_MAX_BYTES: usize = 8192 - 24;

/// A rule. Of those that fit a site, the last holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Whether it switches on or off.
    pub on: bool,
    /// `on` holds for sites of this severity or more; `off` for those below it, and with 0 for all.
    pub level: u8,
    /// A pattern with `*`, `?` for the name, or `FILE:LINE`.
    pub pattern: String,
}

impl Rule {
    fn holds(&self, site: &Site, place: &str) -> bool {
        let level = if self.on {
            site.level >= self.level
        } else {
            self.level == 0 || site.level < self.level
        };
        level
            && (glob(self.pattern.as_bytes(), site.name.as_bytes())
                || glob(self.pattern.as_bytes(), place.as_bytes()))
    }
}

/// Whether a pattern with `*` and `?` fits a text.
pub(crate) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    p = at + 1;
                    t = from + 1;
                    star = Some((at, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// Whether a pattern with `*` and `?` fits a whole text.
pub fn fits(pattern: &str, text: &str) -> bool {
    glob(pattern.as_bytes(), text.as_bytes())
}

/// Why filters could not be set.
#[derive(Debug)]
pub enum FilterError {
    /// The system's error.
    Io(String, std::io::Error),
    /// A bad rule, or a file of something else.
    Bad(String),
}

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Bad(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for FilterError {}

/// What a change did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FilterReport {
    /// Sites that record.
    pub on: usize,
    /// Sites that do not.
    pub off: usize,
    /// Processes whose sites were switched.
    pub processes: usize,
}

fn control(dir: &Path, write: bool) -> Result<(File, Vec<u8>), FilterError> {
    let path = dir.join("control");
    let io = |error| FilterError::Io(path.display().to_string(), error);
    let bytes = read_bounded(&path).map_err(io)?;
    if bytes.len() != 8192 || &bytes[..8] != b"SPWNCTRL" || u32_at(&bytes, 8) != 1 {
        return Err(FilterError::Bad(format!(
            "{} is no control page of version 1",
            path.display()
        )));
    }
    Ok((OpenOptions::new().read(true).write(write).open(&path).map_err(io)?, bytes))
}

/// The rules that hold in a directory.
///
/// # Errors
/// If the directory has no control page.
pub fn rules(dir: &Path) -> Result<Vec<Rule>, FilterError> {
    let (_, bytes) = control(dir, false)?;
    let length = (u32_at(&bytes, 16) as usize).min(RULES_MAX_BYTES);
    let text = String::from_utf8_lossy(&bytes[24..24 + length]).into_owned();
    Ok(text
        .lines()
        .filter_map(|line| {
            let mut words = line.splitn(3, ' ');
            let on = words.next()? == "on";
            Some(Rule { on, level: words.next()?.parse().ok()?, pattern: words.next()?.to_owned() })
        })
        .collect())
}

/// Sets the rules, for running programs and those that start later.
///
/// # Errors
/// If the directory has no control page, or a rule cannot be written to it.
pub fn set_rules(dir: &Path, rules: &[Rule]) -> Result<FilterReport, FilterError> {
    let mut text = String::new();
    for rule in rules {
        if rule.pattern.is_empty()
            || rule.pattern.len() > 1023
            || rule.pattern.contains(['\n', '\0', '[', '\\'])
            || rule.pattern.starts_with(' ')
        {
            return Err(FilterError::Bad(format!(
                "{:?} is no pattern: use a name or FILE:LINE with * and ?",
                rule.pattern
            )));
        }
        text +=
            &format!("{} {} {}\n", if rule.on { "on" } else { "off" }, rule.level, rule.pattern);
    }
    if text.len() > RULES_MAX_BYTES {
        return Err(FilterError::Bad(format!("the rules have more than {RULES_MAX_BYTES} bytes")));
    }
    let (file, bytes) = control(dir, true)?;
    let io = |error| FilterError::Io(dir.join("control").display().to_string(), error);
    // Programs read rules only while the generation is even.
    let generation = u32_at(&bytes, 12) | 1;
    file.write_all_at(&generation.to_le_bytes(), 12).map_err(io)?;
    file.write_all_at(&(text.len() as u32).to_le_bytes(), 16).map_err(io)?;
    file.write_all_at(text.as_bytes(), 24).map_err(io)?;
    file.write_all_at(&generation.wrapping_add(1).to_le_bytes(), 12).map_err(io)?;
    let mut report = FilterReport::default();
    let entries = std::fs::read_dir(dir).map_err(io)?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|extension| extension != "process") {
            continue;
        }
        let io = |error| FilterError::Io(path.display().to_string(), error);
        let bytes = read_bounded(&path).map_err(io)?;
        let Ok(process) = Process::parse(&bytes) else { continue };
        if process.stopped {
            continue;
        }
        let enabled = u64::from(u32_at(&bytes, 600));
        let file = OpenOptions::new().write(true).open(&path).map_err(io)?;
        for (id, site) in process.sites.iter().enumerate().skip(1) {
            let place = format!("{}:{}", site.file, site.line);
            let on =
                rules.iter().rev().find(|rule| rule.holds(site, &place)).is_none_or(|rule| rule.on);
            file.write_all_at(&[u8::from(on)], enabled + id as u64).map_err(io)?;
            if on { report.on += 1 } else { report.off += 1 }
        }
        report.processes += usize::from(u64_at(&bytes, 24) > 0);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn patterns_fit_whole_texts() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("?", "", false),
            ("*.c:1?", "x.c:12", true),
            ("a**b", "ab", true),
            ("", "a", false),
            ("*a*b", "aab", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }
}
