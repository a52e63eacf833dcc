//! `spanwise bottlenecks`

use spanwise_api::Bottlenecks;

use super::super::graph::percent;
use super::{foot, operation};
use crate::terminal::{Align, Paint, Table, counted, duration, harmless};

pub(super) fn render(answer: &Bottlenecks, paint: Paint) -> String {
    let mut text = String::new();
    let mut section = |title: &str, table: Option<Table>| {
        if let Some(table) = table {
            text.push_str(&format!("{}\n{}\n", paint.cyan(title), table.render(paint)));
        }
    };
    section("Time on the critical path", shares(answer));
    section("Called again and again (N+1)", repeated(answer));
    section("Retried", retried(answer));
    section("Many at a time", fan_outs(answer));
    section("One after another, and could run at the same time", sequential(answer));
    if text.is_empty() {
        text.push_str("no run was seen in this time; --start -24h looks further back\n");
    }
    let operations = counted(answer.shares.len() as u64, "operation", "operations");
    text.push_str(&foot(&operations, &answer.observed, &answer.warnings, paint));
    text
}

/// A table of these rows; `None` without any.
fn table(columns: &[(&str, Align)], rows: Vec<Vec<String>>) -> Option<Table> {
    let mut table = Table::new(columns.iter().copied());
    let is_empty = rows.is_empty();
    rows.into_iter().for_each(|row| table.row(row));
    (!is_empty).then_some(table)
}

fn shares(answer: &Bottlenecks) -> Option<Table> {
    let columns = [
        ("ENTRANCE", Align::Left),
        ("CALLER", Align::Left),
        ("OPERATION", Align::Left),
        ("SHARE", Align::Right),
        ("SELF", Align::Right),
        ("CALLS", Align::Right),
    ];
    let row = |found: &spanwise_api::TimeShare| {
        vec![
            operation(&found.entrance),
            found.caller.as_ref().map(operation).unwrap_or_default(),
            operation(&found.called),
            percent(found.critical_share),
            duration(found.mean_self_nano.0),
            found.calls.to_string(),
        ]
    };
    table(&columns, answer.shares.iter().map(row).collect())
}

fn repeated(answer: &Bottlenecks) -> Option<Table> {
    let columns = [
        ("CALLER", Align::Left),
        ("CALLED", Align::Left),
        ("TIMES", Align::Right),
        ("CALLS EACH", Align::Right),
        ("MOST", Align::Right),
        ("SHARE", Align::Right),
        ("EXAMPLE", Align::Left),
    ];
    let row = |found: &spanwise_api::RepeatedCalls| {
        vec![
            operation(&found.caller),
            operation(&found.called),
            found.callers.to_string(),
            format!("{:.1}", found.calls as f64 / found.callers.max(1) as f64),
            found.most.to_string(),
            percent(found.share),
            harmless(&found.example_trace),
        ]
    };
    table(&columns, answer.repeated.iter().map(row).collect())
}

fn retried(answer: &Bottlenecks) -> Option<Table> {
    let columns = [
        ("CALLER", Align::Left),
        ("CALLED", Align::Left),
        ("CALLS", Align::Right),
        ("RETRIED", Align::Right),
        ("WITH SUCCESS", Align::Right),
        ("MOST ATTEMPTS", Align::Right),
        ("SHARE", Align::Right),
        ("EXAMPLE", Align::Left),
    ];
    let row = |found: &spanwise_api::RetriedCalls| {
        vec![
            operation(&found.caller),
            operation(&found.called),
            found.calls.to_string(),
            found.attempts.to_string(),
            found.rescued.to_string(),
            found.most.to_string(),
            percent(found.share),
            harmless(&found.example_trace),
        ]
    };
    table(&columns, answer.retried.iter().map(row).collect())
}

fn fan_outs(answer: &Bottlenecks) -> Option<Table> {
    let columns = [
        ("ENTRANCE", Align::Left),
        ("CALLER", Align::Left),
        ("TIMES", Align::Right),
        ("MOST AT A TIME", Align::Right),
        ("EXAMPLE", Align::Left),
    ];
    let row = |found: &spanwise_api::FanOut| {
        vec![
            operation(&found.entrance),
            operation(&found.caller),
            found.callers.to_string(),
            found.most.to_string(),
            harmless(&found.example_trace),
        ]
    };
    table(&columns, answer.fan_outs.iter().map(row).collect())
}

fn sequential(answer: &Bottlenecks) -> Option<Table> {
    let columns = [
        ("CALLER", Align::Left),
        ("FIRST", Align::Left),
        ("THEN", Align::Left),
        ("TIMES", Align::Right),
        ("SAVES UP TO", Align::Right),
        ("INDEPENDENT", Align::Left),
        ("EXAMPLE", Align::Left),
    ];
    let row = |found: &spanwise_api::SequentialCalls| {
        let failures = counted(found.after_failure, "failure", "failures");
        let why = if !found.proven {
            "not proven".to_owned()
        } else if found.reversed > found.after_failure {
            format!("yes: other order {} times", found.reversed)
        } else {
            format!("yes: called after {failures}")
        };
        vec![
            operation(&found.caller),
            operation(&found.first),
            operation(&found.second),
            found.times.to_string(),
            percent(found.saved_share),
            why,
            harmless(&found.example_trace),
        ]
    };
    table(&columns, answer.sequential.iter().map(row).collect())
}
