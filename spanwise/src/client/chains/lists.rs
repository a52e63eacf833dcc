//! Lists of chains, dependencies, entrances and sources.

use spanwise_api::{ChainList, Dependencies, Entrances, Relation, Sources};

use super::super::graph::percent;
use super::{foot, listed, operation, rate, verdict};
use crate::flags::SourcesFlags;
use crate::terminal::{Align, Paint, Table, brief, counted, duration, harmless};

const NOTHING: &str = "no run was seen in this time; --start -24h looks further back\n";

pub(super) fn chains(answer: &ChainList, paint: Paint) -> String {
    let mut text = String::new();
    if answer.chains.is_empty() {
        text.push_str(NOTHING);
    } else {
        let mut table = Table::new([
            ("ID", Align::Left),
            ("SERVICE", Align::Left),
            ("OPERATION", Align::Left),
            ("RUNS", Align::Right),
            ("RATE", Align::Right),
            ("ERRORS", Align::Right),
            ("P50", Align::Right),
            ("P95", Align::Right),
            ("P99", Align::Right),
            ("SERVICES", Align::Right),
            ("PATHS", Align::Right),
            ("LAST SEEN", Align::Left),
        ]);
        for chain in &answer.chains {
            table.row(vec![
                harmless(&chain.id),
                brief(&chain.service, 30),
                brief(&chain.operation, 50),
                chain.runs.to_string(),
                rate(chain.runs_per_second),
                percent(chain.error_share),
                duration(chain.p50_nano.0),
                duration(chain.p95_nano.0),
                duration(chain.p99_nano.0),
                chain.services.to_string(),
                chain.paths.to_string(),
                paint.moment(chain.last_unix_nano.0),
            ]);
        }
        text.push_str(&table.render(paint));
    }
    let listed = listed(answer.chains.len(), answer.total, "chain", "chains");
    text.push_str(&foot(&listed, &answer.observed, &answer.warnings, paint));
    text
}

pub(super) fn dependencies(answer: &Dependencies, paint: Paint) -> String {
    let mut text = String::new();
    if answer.edges.is_empty() {
        text.push_str("no call was seen in this time; --start -24h looks further back\n");
    } else {
        let mut table = Table::new([
            ("CALLER", Align::Left),
            ("CALLED", Align::Left),
            ("CALLS", Align::Right),
            ("ERRORS", Align::Right),
            ("DEPENDENCY", Align::Left),
            ("STOPPED", Align::Right),
        ]);
        for edge in &answer.edges {
            table.row(vec![
                operation(&edge.caller),
                operation(&edge.called),
                edge.calls.to_string(),
                edge.errors.to_string(),
                verdict(&edge.dependency),
                match edge.dependency.failures {
                    0 => String::new(),
                    _ => percent(edge.dependency.stopped_share),
                },
            ]);
        }
        text.push_str(&table.render(paint));
    }
    let listed = listed(answer.edges.len(), answer.total, "edge", "edges");
    text.push_str(&foot(&listed, &answer.observed, &answer.warnings, paint));
    text
}

pub(super) fn entrances(answer: &Entrances, paint: Paint) -> String {
    let mut text = String::new();
    if answer.entrances.is_empty() {
        text.push_str(NOTHING);
    } else {
        let mut table = Table::new([
            ("SERVICE", Align::Left),
            ("OPERATION", Align::Left),
            ("RUNS", Align::Right),
            ("RATE", Align::Right),
            ("BEFORE", Align::Right),
            ("TREND", Align::Right),
            ("ERRORS", Align::Right),
            ("P50", Align::Right),
            ("P95", Align::Right),
            ("P99", Align::Right),
            ("CALLS A RUN", Align::Right),
            ("CHAINS", Align::Right),
        ]);
        for entrance in &answer.entrances {
            table.row(vec![
                brief(&entrance.service, 30),
                brief(&entrance.operation, 50),
                entrance.runs.to_string(),
                rate(entrance.runs_per_second),
                rate(entrance.runs_per_second_before),
                entrance
                    .trend
                    .map_or_else(|| "new".to_owned(), |trend| format!("{:+.0} %", trend * 100.0)),
                percent(entrance.error_share),
                duration(entrance.p50_nano.0),
                duration(entrance.p95_nano.0),
                duration(entrance.p99_nano.0),
                format!("{:.1}", entrance.calls_per_run),
                entrance.chains.to_string(),
            ]);
        }
        text.push_str(&table.render(paint));
    }
    let listed = listed(answer.entrances.len(), answer.total, "entrance", "entrances");
    text.push_str(&foot(&listed, &answer.observed, &answer.warnings, paint));
    text
}

pub(super) fn sources(answer: &Sources, flags: &SourcesFlags, paint: Paint) -> String {
    let operation = flags.operation.as_deref().unwrap_or_default();
    let name = harmless(&format!("{} {operation}", flags.service));
    let mut text = format!(
        "{}: {}, {}, {} failed\n",
        paint.bold(name.trim_end()),
        counted(answer.calls, "call", "calls"),
        rate(answer.calls_per_second),
        answer.errors
    );
    relations(&mut text, "CALLED BY", &answer.callers, paint);
    relations(&mut text, "CALLS", &answer.called, paint);
    if !answer.chains.is_empty() {
        let mut table = Table::new([
            ("THROUGH CHAIN", Align::Left),
            ("ENTRANCE", Align::Left),
            ("RUNS", Align::Right),
            ("CALLS", Align::Right),
            ("CR", Align::Right),
            ("SHARE", Align::Right),
        ]);
        for chain in &answer.chains {
            table.row(vec![
                harmless(&chain.id),
                brief(&format!("{} {}", chain.service, chain.operation), 60),
                chain.runs.to_string(),
                chain.calls.to_string(),
                format!("{:.2}", chain.cr),
                percent(chain.share),
            ]);
        }
        text.push('\n');
        text.push_str(&table.render(paint));
    }
    let listed = counted(answer.chains.len() as u64, "chain", "chains");
    text.push_str(&foot(&listed, &answer.observed, &answer.warnings, paint));
    text
}

fn relations(text: &mut String, head: &str, relations: &[Relation], paint: Paint) {
    if relations.is_empty() {
        return;
    }
    let mut table = Table::new([
        (head, Align::Left),
        ("OPERATION", Align::Left),
        ("DISTANCE", Align::Right),
        ("CALLS", Align::Right),
        ("RATE", Align::Right),
    ]);
    for relation in relations {
        table.row(vec![
            brief(&relation.service, 40),
            brief(&relation.operation, 60),
            relation.distance.to_string(),
            relation.calls.to_string(),
            rate(relation.calls_per_second),
        ]);
    }
    text.push('\n');
    text.push_str(&table.render(paint));
}
