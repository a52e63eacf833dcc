//! Labels: facts about a process that the operator wants and the kernel does not know, such as
//! version, commit, team or zone. They are read once, when a process is examined, and become part
//! of its resource, which spans refer to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use spanwise_model::AttributeValue;

use spanwise_capture_protocols::process::LabelRule;

use super::facts::{Facts, environment_variable};

/// Maximum bytes of a label's value.
const MAX_VALUE_BYTES: u64 = 1024;

fn fits(rule: &LabelRule, facts: &Facts, unit: Option<&str>) -> bool {
    rule.executable.as_ref().is_none_or(|name| *name == facts.executable)
        && rule.command.as_ref().is_none_or(|text| facts.command_line.contains(text))
        && rule.unit.as_deref().is_none_or(|wanted| Some(wanted) == unit)
}

/// The labels of a process. If several rules set one label, the last one with a value counts.
pub(super) fn labels(
    rules: &[LabelRule],
    facts: &Facts,
    unit: Option<&str>,
    proc: &Path,
    process: u32,
) -> BTreeMap<String, AttributeValue> {
    let mut labels = BTreeMap::new();
    for rule in rules.iter().filter(|rule| fits(rule, facts, unit)) {
        let mut put = |label: &str, value: String| {
            if !value.is_empty() {
                labels.insert(label.to_owned(), value.into());
            }
        };
        for (label, value) in &rule.set {
            put(label, value.clone());
        }
        for (label, variable) in &rule.from_environment {
            put(label, environment_variable(process, variable).unwrap_or_default());
        }
        for (label, file) in &rule.from_file {
            let root = proc.join(process.to_string()).join("root");
            put(label, first_line(&root, Path::new(file)).unwrap_or_default());
        }
    }
    labels
}

/// The first line of a file below a process's root; nothing if it cannot be read or is not a
/// regular file.
fn first_line(root: &Path, file: &Path) -> Option<String> {
    let path = root.join(file.strip_prefix("/").unwrap_or(file));
    // Opening a pipe would wait for a writer.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_VALUE_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn labels_come_from_configuration_environment_and_files() {
        let own = std::process::id();
        let proc = Path::new("/proc");
        let facts = Facts::read(proc, own);
        let commit = std::env::temp_dir().join(format!("spanwise-labels-{own}"));
        std::fs::write(&commit, "abc123 \nmore\n").expect("written");
        let commit = commit.to_str().expect("UTF-8");
        let path = std::env::var("PATH").expect("set for every test");
        let everywhere = LabelRule {
            set: map(&[("team", "shop"), ("zone", "a")]),
            from_environment: map(&[("path", "PATH"), ("none", "SPANWISE_NOT_SET")]),
            from_file: map(&[("commit", commit), ("gone", "/gone"), ("folder", "/proc")]),
            ..LabelRule::default()
        };
        let here = LabelRule {
            executable: Some(facts.executable.clone()),
            set: map(&[("zone", "b")]),
            ..LabelRule::default()
        };
        let elsewhere = LabelRule {
            unit: Some("another".to_owned()),
            set: map(&[("zone", "c")]),
            ..LabelRule::default()
        };
        let read = labels(&[everywhere, here, elsewhere], &facts, None, proc, own);
        std::fs::remove_file(commit).expect("removed");
        let found: Vec<(&str, Option<&str>)> =
            read.iter().map(|(label, value)| (label.as_str(), value.as_str())).collect();
        let expected = [("commit", "abc123"), ("path", &*path), ("team", "shop"), ("zone", "b")];
        assert_eq!(found, expected.map(|(label, value)| (label, Some(value))));
    }
}
