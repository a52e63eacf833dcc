//! `spanwise chains`, `depends`, `entrances`, `sources`, `bottlenecks` and `capacity`

mod bottlenecks;
mod capacity;
mod lists;
mod table;

use spanwise_api::endpoints::{BOTTLENECKS, CAPACITY, CHAIN, CHAINS, DEPENDS, ENTRANCES, SOURCES};
use spanwise_api::{DependencyVerdict, ObservedRuns, OperationName};

use super::http::Request;
use super::search::moment;
use super::show;
use crate::failure::Failure;
use crate::flags::{
    AnalysisFlags, BottlenecksFlags, CapacityFlags, ChainsFlags, DependsFlags, EntrancesFlags,
    RowFlags, SourcesFlags,
};
use crate::terminal::{Paint, brief, counted, harmless};

/// `spanwise chains`
pub(crate) fn chains(flags: &ChainsFlags) -> Result<(), Failure> {
    let server = &flags.analysis.server;
    let now = spanwise_query::now_unix_nano();
    if let Some(id) = &flags.id {
        if id.len() != 16 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Failure::Usage(format!(
                "`{}` is no id of a chain; write its 16 hexadecimal digits, which `spanwise \
                 chains` lists",
                harmless(id)
            )));
        }
        let request = over(Request::get(&CHAIN.url_path(&[id])), &flags.analysis, now);
        return show(server, &request, table::render);
    }
    show(server, &chains_request(flags, now), lists::chains)
}

fn chains_request(flags: &ChainsFlags, now_unix_nano: i64) -> Request {
    let request = over(Request::get(&CHAINS.url_path(&[])), &flags.analysis, now_unix_nano);
    let request = with(request, "service", flags.service.as_deref());
    limited(with(request, "entrance", flags.entrance.as_deref()), &flags.rows)
}

/// `spanwise depends`
pub(crate) fn depends(flags: &DependsFlags) -> Result<(), Failure> {
    let now = spanwise_query::now_unix_nano();
    let request = over(Request::get(&DEPENDS.url_path(&[])), &flags.analysis, now);
    let request = limited(with(request, "service", flags.service.as_deref()), &flags.rows);
    show(&flags.analysis.server, &request, lists::dependencies)
}

/// `spanwise entrances`
pub(crate) fn entrances(flags: &EntrancesFlags) -> Result<(), Failure> {
    let now = spanwise_query::now_unix_nano();
    let request = over(Request::get(&ENTRANCES.url_path(&[])), &flags.analysis, now);
    show(&flags.analysis.server, &limited(request, &flags.rows), lists::entrances)
}

/// `spanwise sources`
pub(crate) fn sources(flags: &SourcesFlags) -> Result<(), Failure> {
    let now = spanwise_query::now_unix_nano();
    let request = over(Request::get(&SOURCES.url_path(&[])), &flags.analysis, now);
    let request = with(request, "service", Some(&flags.service));
    let request = with(request, "operation", flags.operation.as_deref());
    let request = limited(request.parameter("depth", &flags.depth.to_string()), &flags.rows);
    show(&flags.analysis.server, &request, |answer, paint| lists::sources(answer, flags, paint))
}

/// `spanwise bottlenecks`
pub(crate) fn bottlenecks(flags: &BottlenecksFlags) -> Result<(), Failure> {
    let now = spanwise_query::now_unix_nano();
    let request = over(Request::get(&BOTTLENECKS.url_path(&[])), &flags.analysis, now);
    let request = with(request, "entrance", flags.entrance.as_deref());
    let request = request.parameter("limit", &flags.limit.to_string());
    show(&flags.analysis.server, &request, bottlenecks::render)
}

/// `spanwise capacity`
pub(crate) fn capacity(flags: &CapacityFlags) -> Result<(), Failure> {
    let now = spanwise_query::now_unix_nano();
    show(&flags.analysis.server, &capacity_request(flags, now), capacity::render)
}

fn capacity_request(flags: &CapacityFlags, now_unix_nano: i64) -> Request {
    let request = over(Request::get(&CAPACITY.url_path(&[])), &flags.analysis, now_unix_nano);
    let scaled =
        flags.scale.iter().fold(request, |request, scale| request.parameter("scale", scale));
    limited(with(scaled, "forecast", flags.forecast.as_deref()), &flags.rows)
}

/// An operation with its service.
fn operation(name: &OperationName) -> String {
    brief(&format!("{} {}", name.service, name.operation), 60)
}

/// Adds the range of time.
fn over(request: Request, flags: &AnalysisFlags, now_unix_nano: i64) -> Request {
    let zoned = |text: &Option<String>| {
        text.as_deref().map(|text| moment(text, flags.server.zone(), now_unix_nano))
    };
    let request = with(request, "start", zoned(&flags.start).as_deref());
    with(request, "end", zoned(&flags.end).as_deref())
}

fn with(request: Request, key: &str, value: Option<&str>) -> Request {
    match value {
        Some(value) => request.parameter(key, value),
        None => request,
    }
}

fn limited(request: Request, rows: &RowFlags) -> Request {
    request.parameter("limit", &rows.limit.to_string())
}

/// The lines below a table: what it is of, and what limits it.
fn foot(listed: &str, observed: &ObservedRuns, warnings: &[String], paint: Paint) -> String {
    let ObservedRuns { covered_by_rollups, runs, spans, window_seconds, .. } = observed;
    let of_rollups = match *covered_by_rollups {
        0.0 => String::new(),
        share => format!("; {:.0} % of them from rollups", share * 100.0),
    };
    let of = format!(
        "{listed}, of {} in {}{of_rollups}; {} read\n",
        counted(*runs, "run", "runs"),
        length(*window_seconds),
        counted(*spans, "span", "spans"),
    );
    let mut text = paint.dim(&of);
    for warning in warnings {
        text.push_str(&format!("{} {}\n", paint.yellow("warning:"), harmless(warning)));
    }
    text
}

/// A length of time, for people.
fn length(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} minutes", seconds / 60.0),
        seconds if seconds < 172_800.0 => format!("{:.1} hours", seconds / 3600.0),
        seconds => format!("{:.1} days", seconds / 86_400.0),
    }
}

/// How many of a list are printed, with a noun.
fn listed(shown: usize, total: u64, one: &str, many: &str) -> String {
    if (shown as u64) < total {
        format!("{shown} of {}", counted(total, one, many))
    } else {
        counted(total, one, many)
    }
}

/// A rate with a useful number of digits.
fn rate(per_second: f64) -> String {
    match per_second {
        0.0 => "0".to_owned(),
        rate if rate < 0.01 => format!("{:.1}/h", rate * 3600.0),
        rate if rate < 10.0 => format!("{rate:.2}/s"),
        rate if rate < 100.0 => format!("{rate:.1}/s"),
        rate => format!("{rate:.0}/s"),
    }
}

/// A verdict in a cell: what it is, how sure, and from how many failures.
fn verdict(verdict: &DependencyVerdict) -> String {
    use spanwise_api::Dependency::{Strong, Unknown, Weak};
    let failures = counted(verdict.failures, "failure", "failures");
    let sure = verdict.confidence * 100.0;
    match verdict.verdict {
        Strong => format!("strong ({failures}, {sure:.0} % sure)"),
        Weak => format!("weak ({failures}, {sure:.0} % sure)"),
        Unknown if verdict.failures == 0 => "unknown".to_owned(),
        Unknown => format!("unknown ({failures})"),
    }
}

#[cfg(test)]
mod tests;
