//! Converts figures of chains to types of the API.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use spanwise_analyze::{Chain, ChainNode, Dependency, Operation, Relation, Strength, Verdict};
use spanwise_api as api;
use spanwise_api::Nano;
use spanwise_query::ObservedRuns;

/// What was read.
pub(super) fn observed(runs: &ObservedRuns) -> api::ObservedRuns {
    api::ObservedRuns {
        covered_by_rollups: share(runs.runs_of_rollups, runs.runs()),
        covered_from_unix_nano: Nano(runs.from_unix_nano),
        end_unix_nano: Nano(runs.time.to_unix_nano),
        runs: runs.runs(),
        runs_folded: runs.chains.folded_runs,
        runs_left_out: runs.chains.runs_left_out,
        spans: runs.spans as u64,
        start_unix_nano: Nano(runs.time.from_unix_nano),
        window_seconds: runs.window_seconds,
    }
}

/// A share; 0 of nothing.
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// A rate; 0 over no time.
pub(super) fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// A chain.
pub(super) fn summary(chain: &Chain, runs: &ObservedRuns) -> api::ChainSummary {
    let total = &chain.total;
    let services: BTreeSet<&str> = chain.nodes.iter().map(|node| node.service.as_str()).collect();
    let quantile = |share| Nano(total.durations.quantile(share));
    api::ChainSummary {
        error_share: share(total.failures, total.runs),
        errors: total.failures,
        failed_trace: total.failed.map(|(_, id)| id.to_string()),
        first_unix_nano: Nano(total.first_unix_nano),
        id: id(chain),
        last_unix_nano: Nano(total.last_unix_nano),
        operation: chain.operation.clone(),
        p50_nano: quantile(0.5),
        p95_nano: quantile(0.95),
        p99_nano: quantile(0.99),
        paths: chain.nodes.len() as u64,
        runs: total.runs,
        runs_per_second: per_second(total.runs, runs.window_seconds),
        service: chain.service.clone(),
        services: services.len() as u64,
        shapes: chain.shapes.len() as u64,
        share: share(total.runs, runs.runs()),
        slow_trace: total.slowest.1.to_string(),
        typical_trace: total.typical().map(|id| id.to_string()),
    }
}

/// A chain's id: that of its founder.
pub(super) fn id(chain: &Chain) -> String {
    chain.shapes.first().map(ToString::to_string).unwrap_or_default()
}

/// A row of a chain's table.
pub(super) fn call(node: &ChainNode) -> api::ChainCall {
    let figures = &node.figures;
    let mean_self = figures.self_nano / u128::from(figures.calls.max(1));
    api::ChainCall {
        calls: figures.calls,
        chain_dependency: verdict(node.chain),
        cr: node.cr,
        dependency: verdict(node.edge),
        dr: node.dr,
        errors: figures.failures,
        level: node.level as u64,
        lr: node.lr,
        mean_self_nano: Nano(i64::try_from(mean_self).unwrap_or(i64::MAX)),
        operation: node.operation.clone(),
        present_share: node.present,
        service: node.service.clone(),
    }
}

fn verdict(verdict: Verdict) -> api::DependencyVerdict {
    let Verdict { dependency, failures, stopped_share, confidence } = verdict;
    let verdict = match dependency {
        Dependency::Strong => api::Dependency::Strong,
        Dependency::Weak => api::Dependency::Weak,
        Dependency::Unknown => api::Dependency::Unknown,
    };
    api::DependencyVerdict { confidence, failures, stopped_share, verdict }
}

/// An operation.
pub(super) fn name(operation: Operation) -> api::OperationName {
    let Operation { service, operation } = operation;
    api::OperationName { operation, service }
}

/// An edge of dependencies.
pub(super) fn edge(
    ((caller, called), strength): ((Operation, Operation), Strength),
) -> api::DependencyEdge {
    api::DependencyEdge {
        called: name(called),
        caller: name(caller),
        calls: strength.calls,
        dependency: verdict(strength.follow.verdict()),
        errors: strength.failures,
    }
}

/// The entrances, most runs first, with their rates before.
pub(super) fn entrances(runs: &ObservedRuns, before: &ObservedRuns) -> Vec<api::Entrance> {
    let mut chains: BTreeMap<(String, String), u64> = BTreeMap::new();
    for chain in runs.chains.chains() {
        *chains.entry((chain.service, chain.operation)).or_default() += 1;
    }
    let earlier = before.chains.entrances();
    // If there were runs before, the range did not begin with the first run of all.
    let whole = runs.whole_seconds().filter(|_| !earlier.is_empty());
    let seconds = whole.unwrap_or(runs.window_seconds);
    let mut entrances: Vec<api::Entrance> = Vec::new();
    for (operation, entrance) in runs.chains.entrances() {
        let rate = per_second(entrance.runs, seconds);
        let runs_before = earlier.get(&operation).map_or(0, |entrance| entrance.runs);
        let rate_before = per_second(runs_before, before.window_seconds);
        let api::OperationName { service, operation } = name(operation);
        let quantile = |share| Nano(entrance.durations.quantile(share));
        entrances.push(api::Entrance {
            calls_per_run: entrance.calls as f64 / entrance.runs.max(1) as f64,
            chains: chains.get(&(service.clone(), operation.clone())).copied().unwrap_or(0),
            error_share: share(entrance.failures, entrance.runs),
            errors: entrance.failures,
            operation,
            p50_nano: quantile(0.5),
            p95_nano: quantile(0.95),
            p99_nano: quantile(0.99),
            runs: entrance.runs,
            runs_per_second: rate,
            runs_per_second_before: rate_before,
            service,
            trend: (rate_before > 0.0).then(|| rate / rate_before - 1.0),
        });
    }
    entrances.sort_by_key(|entrance| Reverse(entrance.runs));
    entrances
}

/// Who calls an operation, and whom it calls. Each list has at most `limit` entries, and if it
/// has more, a warning says so.
pub(super) fn sources(
    runs: &ObservedRuns,
    service: &str,
    operation: Option<&str>,
    depth: usize,
    limit: usize,
) -> api::Sources {
    let found = runs.chains.sources(service, operation, depth);
    let seconds = runs.window_seconds;
    let mut chains: Vec<api::SourceChain> = Vec::new();
    for chain in runs.chains.chains() {
        let is_asked = |node: &&ChainNode| {
            node.service == service && operation.is_none_or(|name| node.operation == name)
        };
        let calls: u64 = chain.nodes.iter().filter(is_asked).map(|node| node.figures.calls).sum();
        if calls > 0 {
            chains.push(api::SourceChain {
                calls,
                cr: share(calls, chain.total.runs),
                id: id(&chain),
                operation: chain.operation,
                runs: chain.total.runs,
                service: chain.service,
                share: share(calls, found.calls),
            });
        }
    }
    chains.sort_by_key(|chain| Reverse(chain.calls));
    let mut warnings = runs.warnings.clone();
    let mut cut = |what: &str, total: usize| {
        if total > limit {
            warnings.push(format!("{limit} of {total} {what} are listed; raise `limit` for more"));
        }
    };
    cut("chains", chains.len());
    cut("callers", found.callers.len());
    cut("called operations", found.called.len());
    chains.truncate(limit);
    if found.calls == 0 {
        warnings.push(format!(
            "no run of this time calls `{service}`{}; `spanwise services` lists services",
            operation.map_or_else(String::new, |name| format!(" `{name}`"))
        ));
    }
    api::Sources {
        called: relations(found.called, seconds, limit),
        callers: relations(found.callers, seconds, limit),
        calls: found.calls,
        calls_per_second: per_second(found.calls, seconds),
        chains,
        errors: found.failures,
        observed: observed(runs),
        warnings,
    }
}

/// The nearest and most frequent ones first.
fn relations(
    found: BTreeMap<Operation, Relation>,
    seconds: f64,
    limit: usize,
) -> Vec<api::Relation> {
    let relation = |(operation, relation): (Operation, Relation)| api::Relation {
        calls: relation.calls,
        calls_per_second: per_second(relation.calls, seconds),
        distance: relation.distance as u64,
        operation: operation.operation,
        service: operation.service,
    };
    let mut relations: Vec<api::Relation> = found.into_iter().map(relation).collect();
    relations.sort_by_key(|relation| (relation.distance, Reverse(relation.calls)));
    relations.truncate(limit);
    relations
}
