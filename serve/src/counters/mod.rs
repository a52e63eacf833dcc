//! What is counted, with what it means and what to do about it.

mod growth;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

pub(crate) use growth::Growth;
use table::{FAMILIES, PARTS};

/// How bad it is that a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Nothing to worry about.
    Info,
    /// Something was lost, or is less than it could be.
    Loss,
    /// Something does not work as it should.
    Fault,
}

/// What is known of a counter.
#[derive(Debug, Clone, Copy)]
struct Known {
    name: &'static str,
    level: Level,
    meaning: &'static str,
    /// What to do; empty where there is nothing to do.
    action: &'static str,
}

/// A counter that counts.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Counter {
    /// Which part counts it: `agent`, `ingest`, `assembly` or `store`.
    pub(crate) part: &'static str,
    pub(crate) name: String,
    pub(crate) value: u64,
    pub(crate) level: Level,
    pub(crate) meaning: &'static str,
    pub(crate) action: &'static str,
}

impl Counter {
    fn of(part: &'static str, name: &str, value: u64) -> Self {
        let unknown = Known {
            name: "",
            level: Level::Info,
            meaning: "this server does not know what its sender counts here",
            action: "",
        };
        let Known { level, meaning, action, .. } = known(part, name).unwrap_or(unknown);
        Self { part, name: name.to_owned(), value, level, meaning, action }
    }

    /// What to say of it to who looks after the server.
    pub(crate) fn sentence(&self) -> String {
        let Self { part, name, value, meaning, action, .. } = self;
        let to_do = if action.is_empty() { String::new() } else { format!(": {action}") };
        format!("{part}: {meaning} ({name}: {value}){to_do}")
    }
}

fn known(part: &str, name: &str) -> Option<Known> {
    // What an agent's sender counts has that before it.
    let name = name.strip_prefix("transfer_").filter(|_| part == "agent").unwrap_or(name);
    let (_, table) = PARTS.iter().find(|(of, _)| *of == part)?;
    let named = table.iter().find(|known| known.name == name);
    named.or_else(|| FAMILIES.iter().find(|family| name.starts_with(family.name))).copied()
}

/// All counters of a status document that are not zero, the worst first. Those of
/// several agents are summed up.
pub(crate) fn counters(status: &Value) -> Vec<Counter> {
    let mut agents: BTreeMap<&str, u64> = BTreeMap::new();
    let seen = status["ingest"]["agents"].as_array().into_iter().flatten();
    let facts = seen.map(|agent| &agent["facts"]["counters"]);
    // An agent in this process that has not reported yet.
    let own = agents_own(status);
    for (name, value) in facts.chain(own).flat_map(pairs) {
        let sum = agents.entry(name).or_default();
        *sum = sum.saturating_add(value);
    }
    let mut all: Vec<Counter> =
        agents.into_iter().map(|(name, value)| Counter::of("agent", name, value)).collect();
    for (part, counters) in [
        ("ingest", &status["ingest"]["counters"]),
        ("assembly", &status["server"]["assembly"]["counters"]),
        ("store", &status["store"]["counters"]),
    ] {
        all.extend(pairs(counters).map(|(name, value)| Counter::of(part, name, value)));
    }
    all.retain(|counter| counter.value > 0);
    all.sort_by_key(|counter| std::cmp::Reverse(counter.level));
    all
}

/// The counters of the agent in this process, unless it is among those that report.
fn agents_own(status: &Value) -> Option<&Value> {
    let reports = status["ingest"]["agents"].as_array().is_some_and(|agents| !agents.is_empty());
    (!reports).then(|| &status["agent"]["counters"])
}

/// Counters come as an object, or as pairs of name and number.
fn pairs(counters: &Value) -> impl Iterator<Item = (&str, u64)> {
    let named = counters.as_object().into_iter().flatten().map(|(name, n)| (name.as_str(), n));
    let listed = counters.as_array().into_iter().flatten();
    let listed = listed.filter_map(|pair| Some((pair[0].as_str()?, pair.get(1)?)));
    named.chain(listed).filter_map(|(name, value)| Some((name, value.as_u64()?)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::*;

    /// The text of every source file below a folder of the workspace.
    fn sources(folder: &str) -> Vec<String> {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)];
        let mut texts = Vec::new();
        while let Some(folder) = folders.pop() {
            if folder.is_file() {
                texts.push(fs::read_to_string(&folder).unwrap());
                continue;
            }
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let is_source = path.extension().is_some_and(|kind| kind == "rs");
                if path.is_dir() {
                    folders.push(path);
                } else if is_source {
                    texts.push(fs::read_to_string(path).unwrap());
                }
            }
        }
        texts
    }

    /// What stands between two texts, wherever it is a name.
    fn between<'a>(
        text: &'a str,
        before: &'a str,
        after: &'a str,
    ) -> impl Iterator<Item = String> + 'a {
        text.split(before).skip(1).filter_map(move |rest| {
            let name = rest.trim_start().strip_prefix('"').unwrap_or(rest.trim_start());
            let name = name.split(after).next().unwrap_or_default();
            let is_name = !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            is_name.then(|| name.to_owned())
        })
    }

    /// Every name that the code counts by, with its part.
    fn counted() -> BTreeSet<(&'static str, String)> {
        let mut names = BTreeSet::new();
        let mut add = |part, found: &mut dyn Iterator<Item = String>, least: usize| {
            let found: Vec<String> = found.collect();
            assert!(found.len() >= least, "{part}: {found:?}; has the code changed its form?");
            names.extend(found.into_iter().map(|name| (part, name)));
        };
        let ingest = sources("ingest/src/counters.rs").concat();
        add("ingest", &mut between(&ingest, ": &str = \"", "\""), 30);
        let store = sources("store/src").concat();
        add("store", &mut between(&store, ".count(\"", "\""), 20);
        add("store", &mut between(&store, ".count(\n", "\""), 0);
        add(
            "store",
            &mut between(&store, "(\"remote_", "\"").map(|name| format!("remote_{name}")),
            10,
        );
        add(
            "store",
            &mut between(&store, "(\"spool_", "\"").map(|name| format!("spool_{name}")),
            1,
        );
        add("store", &mut between(&store, "counter: \"", "\""), 1);
        for (file, least) in
            [("capture/tracer/src/counters.rs", 15), ("capture/protocols/src/counters.rs", 10)]
        {
            let source = sources(file).concat();
            let list = source.split("\ncounters! {").nth(1).unwrap().split("\n}").next().unwrap();
            let lines = list.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            let mut names = lines.filter_map(|line| Some(line.strip_suffix(',')?.to_owned()));
            add("agent", &mut names, least);
        }
        let running = sources("capture/agent/src/running.rs").concat();
        let list = running.split("\nfn counters(").nth(1).unwrap().split("\n}").next().unwrap();
        add("agent", &mut between(list, "(\"", "\""), 10);
        let tasks = sources("capture/ebpf/src/runtimes/mod.rs").concat();
        add(
            "agent",
            &mut between(&tasks, "\"processes_with_", "\"")
                .map(|name| format!("processes_with_{name}")),
            4,
        );
        let sender = sources("wire/src/flight/counters.rs").concat();
        add(
            "agent",
            &mut between(&sender, "pub ", ": u64").map(|name| format!("transfer_{name}")),
            10,
        );
        let assembly = sources("spanwise/src/run/assembly.rs").concat();
        let list = assembly.split("\"counters\": {").nth(1).unwrap().split('}').next().unwrap();
        add("assembly", &mut between(list, "\n", "\""), 8);
        names
    }

    #[test]
    fn every_counter_of_the_code_says_what_it_means() {
        let missing: Vec<_> =
            counted().into_iter().filter(|(part, name)| known(part, name).is_none()).collect();
        assert_eq!(missing, [], "add them to counters/table.rs");
    }

    #[test]
    fn the_table_says_what_to_do_about_what_is_bad() {
        let mut names = BTreeSet::new();
        let all = PARTS.into_iter().chain([("all", FAMILIES)]);
        for (part, known) in all.flat_map(|(part, table)| table.iter().map(move |it| (part, it))) {
            assert!(names.insert((part, known.name)), "{} stands there twice", known.name);
            assert!(!known.meaning.is_empty() && !known.meaning.ends_with('.'), "{}", known.name);
            assert_eq!(known.level == Level::Info, known.action.is_empty(), "{}", known.name);
        }
    }

    #[test]
    fn agents_are_summed_up_and_the_worst_comes_first() {
        let agent = |lost: u64| json!({"facts": {"counters": {"kernel_events_lost_ring_full": lost, "spans": 5}}});
        let status = json!({
            "agent": {"counters": {"spans": 99}},
            "ingest": {"agents": [agent(1), agent(2)],
                       "counters": {"requests_malformed": 3, "otlp_http_requests": 4, "requests_failed": 0}},
            "store": {"counters": [["files_broken_set_aside", 1], ["batches_duplicate", 2]]},
        });
        let found: Vec<_> = counters(&status)
            .into_iter()
            .map(|counter| (counter.part, counter.name, counter.value, counter.level))
            .collect();
        let expected = [
            ("store", "files_broken_set_aside", 1, Level::Fault),
            ("agent", "kernel_events_lost_ring_full", 3, Level::Loss),
            ("ingest", "requests_malformed", 3, Level::Loss),
            ("agent", "spans", 10, Level::Info),
            ("ingest", "otlp_http_requests", 4, Level::Info),
            ("store", "batches_duplicate", 2, Level::Info),
        ];
        assert_eq!(
            found,
            expected.map(|(part, name, value, level)| (part, name.to_owned(), value, level))
        );
    }
}
