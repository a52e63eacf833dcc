//! Counters with their meanings.

mod growth;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use spanwise_api::{Agent, Count, Counter, CounterPart, Level, Status};
use table::{FAMILIES, PARTS, recovered_by};

pub(crate) use growth::CounterGrowth;

/// The meaning of the counters with one name.
#[derive(Debug, Clone, Copy)]
struct CounterMeaning {
    name: &'static str,
    level: Level,
    meaning: &'static str,
    /// What to do; empty if nothing.
    action: &'static str,
}

impl CounterMeaning {
    fn find(part: CounterPart, name: &str) -> Option<Self> {
        // The counters of an agent's sender have this prefix.
        let is_agent = part == CounterPart::Agent;
        let name = name.strip_prefix("transfer_").filter(|_| is_agent).unwrap_or(name);
        let (_, table) = PARTS.iter().find(|(of, _)| *of == part)?;
        let named = table.iter().find(|meaning| meaning.name == name);
        named.or_else(|| FAMILIES.iter().find(|family| name.starts_with(family.name))).copied()
    }
}

fn counter(part: CounterPart, name: &str, value: Count) -> Counter {
    let unknown = CounterMeaning {
        name: "",
        level: Level::Info,
        meaning: "this server does not know what its sender counts here",
        action: "",
    };
    let found = CounterMeaning::find(part, name).unwrap_or(unknown);
    Counter {
        action: found.action.to_owned(),
        level: found.level,
        meaning: found.meaning.to_owned(),
        name: name.to_owned(),
        part,
        value,
    }
}

/// A warning about a counter for the operator.
fn sentence(counter: &Counter) -> String {
    let Counter { part, name, value, meaning, action, .. } = counter;
    let to_do = if action.is_empty() { String::new() } else { format!(": {action}") };
    format!("{}: {meaning} ({name}: {value}){to_do}", part.as_str())
}

/// All counters of a status that are not zero, worst first. Counters of several agents are added
/// up.
pub(super) fn counters(status: &Status) -> Vec<Counter> {
    let mut agents: BTreeMap<&str, Count> = BTreeMap::new();
    let reporting = status.ingest.agents.iter().filter_map(|agent| agent.facts.as_ref());
    // An agent in this process may not have reported yet.
    let own = match &status.agent {
        Agent::Running(facts) if status.ingest.agents.is_empty() => Some(facts),
        _ => None,
    };
    // Losses after which parsing has not recovered, for each host.
    let mut lasting = BTreeSet::new();
    for facts in reporting.chain(own) {
        for (name, value) in &facts.counters {
            let sum = agents.entry(name).or_default();
            sum.0 = sum.0.saturating_add(value.0);
            let recovered = recovered_by(name).and_then(|by| facts.counters.get(by));
            if *value > recovered.copied().unwrap_or_default() {
                lasting.insert(name.as_str());
            }
        }
    }
    let agents = agents.into_iter().map(|(name, value)| (CounterPart::Agent, name, value));
    let ingest = named(CounterPart::Ingest, &status.ingest.counters);
    let assembly = named(CounterPart::Assembly, &status.server.assembly.counters);
    let store = status.store.counters.iter();
    let store = store.map(|(name, value)| (CounterPart::Store, name.as_str(), *value));
    let mut all: Vec<Counter> = agents
        .chain(ingest)
        .chain(assembly)
        .chain(store)
        .filter(|(_, _, value)| value.0 > 0)
        .map(|(part, name, value)| {
            let mut counter = counter(part, name, value);
            let is_of_agents = part == CounterPart::Agent;
            if is_of_agents && recovered_by(name).is_some() && !lasting.contains(name) {
                // The lost requests are counted as `requests_lost`.
                (counter.level, counter.action) = (Level::Info, String::new());
            }
            counter
        })
        .collect();
    all.sort_by_key(|counter| std::cmp::Reverse(counter.level));
    all
}

fn named(
    part: CounterPart,
    counters: &BTreeMap<String, Count>,
) -> impl Iterator<Item = (CounterPart, &str, Count)> {
    counters.iter().map(move |(name, value)| (part, name.as_str(), *value))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use spanwise_api::{AgentFacts, Ingest, ReportingAgent, Store};

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

    /// The texts between two delimiters that are names.
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

    /// Every counter name in the source code, with its part.
    fn counted() -> BTreeSet<(CounterPart, String)> {
        let mut names = BTreeSet::new();
        let mut add = |part, found: &mut dyn Iterator<Item = String>, least: usize| {
            let found: Vec<String> = found.collect();
            assert!(found.len() >= least, "{part:?}: {found:?}; has the code changed its form?");
            names.extend(found.into_iter().map(|name| (part, name)));
        };
        let ingest = sources("ingest/src").concat();
        add(CounterPart::Ingest, &mut between(&ingest, ": &str = \"", "\""), 30);
        let store = sources("store/src").concat();
        add(CounterPart::Store, &mut between(&store, ".count(\"", "\""), 20);
        add(CounterPart::Store, &mut between(&store, ".count(\n", "\""), 0);
        add(
            CounterPart::Store,
            &mut between(&store, "(\"remote_", "\"").map(|name| format!("remote_{name}")),
            10,
        );
        add(
            CounterPart::Store,
            &mut between(&store, "(\"spool_", "\"").map(|name| format!("spool_{name}")),
            1,
        );
        add(CounterPart::Store, &mut between(&store, "counter: \"", "\""), 1);
        for (file, least) in
            [("capture/tracer/src/counters.rs", 15), ("capture/protocols/src/counters.rs", 10)]
        {
            let source = sources(file).concat();
            let list = source.split("\ncounters! {").nth(1).unwrap().split("\n}").next().unwrap();
            let lines = list.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            let names = lines.filter_map(|line| Some(line.strip_suffix(',')?.to_owned()));
            add(CounterPart::Agent, &mut { names }, least);
        }
        let running = sources("capture/agent/src/running.rs").concat();
        let list = running.split("\nfn counters(").nth(1).unwrap().split("\n}").next().unwrap();
        add(CounterPart::Agent, &mut between(list, "(\"", "\""), 10);
        let tasks = sources("capture/ebpf/src/runtimes/mod.rs").concat();
        add(
            CounterPart::Agent,
            &mut between(&tasks, "\"processes_with_", "\"")
                .map(|name| format!("processes_with_{name}")),
            4,
        );
        let sender = sources("wire/src/flight/counters.rs").concat();
        add(
            CounterPart::Agent,
            &mut between(&sender, "pub ", ": u64").map(|name| format!("transfer_{name}")),
            10,
        );
        let native = sources("spanwise/src/drain/mod.rs").concat();
        let list = native.split("fn counters(").nth(1).unwrap().split("\n}").next().unwrap();
        add(CounterPart::Agent, &mut between(list, "(\"", "\""), 20);
        let host = sources("spanwise/src/host_metrics/mod.rs").concat();
        let list = host.split("fn counters(").nth(1).unwrap().split("\n    }").next().unwrap();
        add(CounterPart::Agent, &mut between(list, "(\"", "\""), 4);
        let assembly = sources("spanwise/src/run/assembly.rs").concat();
        let list = assembly.split("\nfn counters(").nth(1).unwrap().split("\n}").next().unwrap();
        add(CounterPart::Assembly, &mut between(list, "(\"", "\""), 8);
        names
    }

    #[test]
    fn every_counter_of_the_code_says_what_it_means() {
        let missing: Vec<_> = counted()
            .into_iter()
            .filter(|(part, name)| CounterMeaning::find(*part, name).is_none())
            .collect();
        assert_eq!(missing, [], "add them to counters/table.rs");
    }

    #[test]
    fn the_table_says_what_to_do_about_what_is_bad() {
        let mut names = BTreeSet::new();
        let all = PARTS.map(|(part, table)| (part.as_str(), table)).into_iter();
        let all = all.chain([("all", FAMILIES)]);
        for (part, known) in all.flat_map(|(part, table)| table.iter().map(move |it| (part, it))) {
            assert!(names.insert((part, known.name)), "{} stands there twice", known.name);
            assert!(!known.meaning.is_empty() && !known.meaning.ends_with('.'), "{}", known.name);
            assert_eq!(known.level == Level::Info, known.action.is_empty(), "{}", known.name);
        }
    }

    #[test]
    fn a_loss_that_parsing_recovered_from_needs_no_attention() {
        let level = |hosts: &[(i64, i64)]| {
            let agents = hosts.iter().map(|(lost, recovered)| {
                let pairs = [("framing_lost", Count(*lost)), ("resynchronised", Count(*recovered))];
                let counters = pairs.map(|(name, value)| (name.to_owned(), value)).into();
                let facts = Some(AgentFacts { counters, ..AgentFacts::default() });
                ReportingAgent { facts, ..ReportingAgent::default() }
            });
            let ingest = Ingest { agents: agents.collect(), ..Ingest::default() };
            let all = counters(&Status { ingest, ..Status::default() });
            let lost = all.iter().find(|counter| counter.name == "framing_lost");
            lost.map(|lost| (lost.level, lost.action.is_empty()))
        };
        assert_eq!(level(&[(4, 4)]), Some((Level::Info, true)));
        assert_eq!(level(&[(4, 3)]), Some((Level::Loss, false)));
        assert_eq!(level(&[(4, 0), (0, 9)]), Some((Level::Loss, false)), "of another host");
        assert_eq!(level(&[(0, 3)]), None);
    }

    #[test]
    fn agents_are_summed_up_and_the_worst_comes_first() {
        let counts = |pairs: &[(&str, i64)]| -> BTreeMap<String, Count> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), Count(*value))).collect()
        };
        let facts = |pairs: &[_]| AgentFacts { counters: counts(pairs), ..AgentFacts::default() };
        let agent = |lost| ReportingAgent {
            facts: Some(facts(&[("kernel_events_lost_ring_full", lost), ("spans", 5)])),
            ..ReportingAgent::default()
        };
        let status = Status {
            agent: Agent::Running(facts(&[("spans", 99)])),
            ingest: Ingest {
                agents: vec![agent(1), agent(2)],
                counters: counts(&[
                    ("requests_malformed", 3),
                    ("otlp_http_requests", 4),
                    ("requests_failed", 0),
                ]),
                ..Ingest::default()
            },
            store: Store {
                counters: counts(&[("files_broken_set_aside", 1), ("batches_duplicate", 2)])
                    .into_iter()
                    .collect(),
                ..Store::default()
            },
            ..Status::default()
        };
        let found: Vec<_> = counters(&status)
            .into_iter()
            .map(|counter| (counter.part, counter.name, counter.value, counter.level))
            .collect();
        let expected = [
            (CounterPart::Store, "files_broken_set_aside", 1, Level::Fault),
            (CounterPart::Agent, "kernel_events_lost_ring_full", 3, Level::Loss),
            (CounterPart::Ingest, "requests_malformed", 3, Level::Loss),
            (CounterPart::Agent, "spans", 10, Level::Info),
            (CounterPart::Ingest, "otlp_http_requests", 4, Level::Info),
            (CounterPart::Store, "batches_duplicate", 2, Level::Info),
        ];
        assert_eq!(
            found,
            expected.map(|(part, name, value, level)| (part, name.to_owned(), Count(value), level))
        );
    }
}
