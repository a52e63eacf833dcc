//! The table of one chain.

use spanwise_api::{ChainPage, ChainSummary};

use super::super::graph::percent;
use super::{foot, listed, rate, verdict};
use crate::terminal::{Align, Paint, Table, brief, counted, duration, harmless};

/// The deepest level that is indented.
const DEEPEST_INDENT: usize = 20;

pub(super) fn render(page: &ChainPage, paint: Paint) -> String {
    let mut text = head(&page.chain, paint);
    let mut table = Table::new([
        ("LEVEL", Align::Right),
        ("SERVICE", Align::Left),
        ("OPERATION", Align::Left),
        ("LR", Align::Right),
        ("DR", Align::Right),
        ("CR", Align::Right),
        ("IN RUNS", Align::Right),
        ("SELF", Align::Right),
        ("ERRORS", Align::Right),
        ("FOR ITS CALLER", Align::Left),
        ("FOR THE CHAIN", Align::Left),
    ]);
    for call in &page.calls {
        let level = usize::try_from(call.level).unwrap_or(usize::MAX);
        let indent = "  ".repeat(level.min(DEEPEST_INDENT));
        let [edge, chain] = match level {
            0 => [String::new(), String::new()],
            _ => [verdict(&call.dependency), verdict(&call.chain_dependency)],
        };
        table.row(vec![
            call.level.to_string(),
            format!("{indent}{}", brief(&call.service, 40)),
            brief(&call.operation, 50),
            percent(call.lr),
            format!("{:.2}", call.dr),
            format!("{:.2}", call.cr),
            percent(call.present_share),
            duration(call.mean_self_nano.0),
            call.errors.to_string(),
            edge,
            chain,
        ]);
    }
    text.push_str(&table.render(paint));
    let listed = listed(page.calls.len(), page.total, "call", "calls");
    text.push_str(&foot(&listed, &page.observed, &page.warnings, paint));
    text
}

fn head(chain: &ChainSummary, paint: Paint) -> String {
    let name = format!("{} {}", harmless(&chain.service), harmless(&chain.operation));
    let mut text = format!("{}  {}\n", paint.bold(&name), paint.dim(&harmless(&chain.id)));
    text.push_str(&format!(
        "{}, {} ({} of all), {} failed; p50 {}, p95 {}, p99 {}; {}\n",
        counted(chain.runs, "run", "runs"),
        rate(chain.runs_per_second),
        percent(chain.share),
        percent(chain.error_share),
        duration(chain.p50_nano.0),
        duration(chain.p95_nano.0),
        duration(chain.p99_nano.0),
        counted(chain.shapes, "shape", "shapes"),
    ));
    text.push_str(&format!(
        "first {}, last {}\n",
        paint.moment(chain.first_unix_nano.0),
        paint.moment(chain.last_unix_nano.0)
    ));
    let examples = [
        ("typical", chain.typical_trace.as_ref()),
        ("slow", Some(&chain.slow_trace)),
        ("failed", chain.failed_trace.as_ref()),
    ];
    for (what, id) in examples {
        if let Some(id) = id {
            text.push_str(&format!("{what:>7}  {}\n", harmless(id)));
        }
    }
    text + "\n"
}
