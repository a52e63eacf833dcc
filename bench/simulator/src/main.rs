//! Does the analysis tell the truth? Traces of known call graphs are assembled and analysed, and
//! the answers are held against what really happened.

mod compare;
mod cost;
mod day;
mod paths;
mod random;
mod study;
#[cfg(test)]
mod tests;
mod topology;
mod traffic;
mod truth;

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::Parser;
use spanwise_analyze::{Chain, capacity};

use compare::{Verdicts, Worst};
use study::Load;
use topology::{OperationAt, Topology};

/// How much more often the first third of the entrances is called when capacity is tested.
const FACTOR: f64 = 3.0;

/// Measures the analysis of chains on simulated traffic.
#[derive(Debug, Parser)]
struct Flags {
    /// The start of all random numbers.
    #[arg(long, default_value_t = 20_261_127)]
    seed: u64,
    /// Runs of each of the smaller topologies.
    #[arg(long, default_value_t = 150_000)]
    runs: usize,
    /// Runs of the topology of 34,000 services.
    #[arg(long, default_value_t = 50_000)]
    large_runs: usize,
    /// Only the topology with so many services.
    #[arg(long)]
    services: Option<usize>,
    /// Only a day of 500 services in rollups, with so many runs, and how fast a chain is read.
    #[arg(long)]
    day: Option<usize>,
    /// Only analyse runs of 34,000 services, and print the peak of memory.
    #[arg(long, hide = true)]
    memory: bool,
}

/// What was found out about a topology.
#[derive(Debug, Default)]
struct Found {
    /// Against what happened.
    exact: Worst,
    /// Against what probabilities make one expect.
    by_chance: Worst,
    verdicts: Verdicts,
    capacity: Worst,
    chains: usize,
    spans: usize,
    /// Runs that are counted in another chain for lack of room, and runs that are not counted.
    out_of_place: [u64; 2],
    rollup_cpu_seconds: f64,
    graph_cpu_seconds: f64,
}

/// Analyses runs of a topology at one load, predicts another load, and observes it. Loads are compared
/// of operations that at least so many runs call.
fn find(
    topology: &Topology,
    seed: u64,
    runs: usize,
    keeps_shapes: bool,
    least_runs: u64,
) -> anyhow::Result<Found> {
    let scaled = topology.entrances.len().div_ceil(3);
    let usual = |_| 1.0;
    let more = |entrance: OperationAt| {
        let place = topology.entrances.iter().position(|(at, _)| *at == entrance);
        if place.is_some_and(|place| place < scaled) { FACTOR } else { 1.0 }
    };
    let load = Load { topology, seed, runs, factor: &usual, keeps_shapes, keeps_truth: true };
    let seen = load.observe()?;
    let observed = seen.figures.chains();
    let chains = observed.chains();
    let (exact, by_chance) = compare::figures(&chains, &seen.truth, &seen.traffic.paths, topology);
    let verdicts = compare::verdicts(observed, topology);
    let factors: BTreeMap<(&str, &str), f64> = (topology.entrances.iter())
        .map(|(at, _)| {
            let operation = &topology.operations[*at];
            ((operation.service.as_str(), operation.name.as_str()), more(*at))
        })
        .collect();
    let factor = |chain: &Chain| {
        let entrance = (chain.service.as_str(), chain.operation.as_str());
        factors.get(&entrance).copied().unwrap_or(1.0)
    };
    let predicted = (capacity(&chains, seen.seconds, factor).into_iter())
        .map(|(name, load)| ((name.service, name.operation), load.predicted_per_second))
        .collect();
    let later = Load { seed: seed + 1, factor: &more, keeps_shapes: false, ..load }.observe()?;
    let capacity = compare::capacity(&predicted, &later.loads(topology), least_runs);
    Ok(Found {
        exact,
        by_chance,
        verdicts,
        capacity,
        chains: chains.len(),
        spans: seen.spans,
        out_of_place: [observed.misplaced_runs, observed.folded_runs],
        rollup_cpu_seconds: seen.rollup_cpu_seconds,
        graph_cpu_seconds: seen.graph_cpu_seconds,
    })
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let seed = flags.seed;
    if flags.memory {
        let topology = Topology::layers(34_000, seed);
        let runs = flags.large_runs;
        let load = Load {
            topology: &topology,
            seed,
            runs,
            factor: &|_| 1.0,
            keeps_shapes: false,
            keeps_truth: false,
        };
        let seen = load.observe()?;
        println!(
            "\n{} spans of 34,000 services in {:.1} s of their time: {} bytes of rollups",
            seen.spans, seen.seconds, seen.bytes
        );
        println!("figure analysis.peak_mb_34000_services {:.0} MB", cost::peak_mb());
        return Ok(());
    }
    if let Some(runs) = flags.day {
        return day::measure(&Topology::layers(500, seed), seed, runs);
    }
    let topologies = [
        (Topology::thesis(4, seed), flags.runs, true),
        (Topology::thesis(11, seed), flags.runs, true),
        (Topology::thesis(28, seed), flags.runs, true),
        (Topology::layers(500, seed), flags.runs, false),
        (Topology::layers(34_000, seed), flags.large_runs, false),
    ];
    let mut all = Found::default();
    for (topology, runs, keeps_shapes) in &topologies {
        if flags.services.is_some_and(|services| services != topology.services) {
            continue;
        }
        let found = find(topology, seed, *runs, *keeps_shapes, compare::LEAST_RUNS)?;
        print(topology, *runs, &found);
        all.exact.worst(&found.exact);
        all.by_chance.worst(&found.by_chance);
        all.verdicts.edges += found.verdicts.edges;
        all.verdicts.right += found.verdicts.right;
        all.capacity.worst(&found.capacity);
        all.spans += found.spans;
        all.rollup_cpu_seconds += found.rollup_cpu_seconds;
        all.graph_cpu_seconds += found.graph_cpu_seconds;
    }
    let per_span = |seconds: f64| seconds * 1e6 / all.spans.max(1) as f64;
    let right = all.verdicts.right as f64 / all.verdicts.edges.max(1) as f64;
    println!(
        "\nfigure analysis.chain_figures_error_share {:.5} 1",
        all.exact.error.max(all.by_chance.error)
    );
    println!("figure analysis.chain_figures_error_share_of_what_happened {:.5} 1", all.exact.error);
    println!("figure analysis.strong_weak_right_share {right:.4} 1");
    println!("figure analysis.capacity_error_share {:.4} 1", all.capacity.error);
    println!("figure analysis.rollup_cpu_us_per_span {:.3} us", per_span(all.rollup_cpu_seconds));
    println!("figure analysis.graph_cpu_us_per_span {:.3} us", per_span(all.graph_cpu_seconds));
    let both = all.rollup_cpu_seconds + all.graph_cpu_seconds;
    println!("figure analysis.cpu_us_per_span {:.3} us", per_span(both));
    // Memory of a process that does nothing else.
    let own = std::env::current_exe().context("this program's path")?;
    let large_runs = flags.large_runs.to_string();
    let status = Command::new(own).args(["--memory", "--large-runs", &large_runs]).status()?;
    ensure!(status.success(), "the measurement of memory failed");
    Ok(())
}

fn print(topology: &Topology, runs: usize, found: &Found) {
    let per_span = |seconds: f64| seconds * 1e6 / found.spans.max(1) as f64;
    println!(
        "{} ({} of them called): {runs} runs, {} spans, {} chains",
        topology.name, topology.services, found.spans, found.chains
    );
    for (title, worst) in [
        ("LR, DR, CR against what happened", &found.exact),
        ("DR, CR against probabilities", &found.by_chance),
        ("load at another rate", &found.capacity),
    ] {
        println!(
            "  {title}: {} compared, worst {:.5} ({})",
            worst.compared, worst.error, worst.what
        );
    }
    let [misplaced, folded] = found.out_of_place;
    println!("  {misplaced} runs in the largest chain for lack of room, {folded} folded");
    let verdicts = &found.verdicts;
    println!("  strong or weak: {} of {} edges are right", verdicts.right, verdicts.edges);
    for wrong in verdicts.wrong.iter().take(6) {
        println!("    {wrong}");
    }
    println!(
        "  CPU of a span: chains and rollups {:.2} us, graph {:.2} us",
        per_span(found.rollup_cpu_seconds),
        per_span(found.graph_cpu_seconds)
    );
}
