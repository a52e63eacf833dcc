//! Runs of a topology through assembly and analysis.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use spanwise_analyze::rollup::{Minute, Rollup, RollupConfig};
use spanwise_analyze::{Call, Graph, Labels, Names};
use spanwise_assemble::{Row, Trace};
use spanwise_model::{Kind, RowRef, Span, SpanBatchBuilder};

use crate::cost::cpu_seconds;
use crate::random::Random;
use crate::topology::{OperationAt, Topology};
use crate::traffic::Traffic;
use crate::truth::Truth;

/// Runs that are assembled and counted at once.
const RUNS_OF_BATCH: usize = 200;
const MINUTE_NANO: i64 = 60_000_000_000;
const START_UNIX_NANO: i64 = 1_750_000_000_000_000_000;

/// What is made of a topology, and how much of it.
pub(crate) struct Load<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) seed: u64,
    pub(crate) runs: usize,
    /// How much more often than usual an entrance is called.
    pub(crate) factor: &'a dyn Fn(OperationAt) -> f64,
    /// Whether chains are compared one by one.
    pub(crate) keeps_shapes: bool,
    /// Whether the truth is counted at all. It needs memory too.
    pub(crate) keeps_truth: bool,
}

/// What came of it.
pub(crate) struct Seen<'a> {
    rollup: Rollup,
    /// Figures of all minutes together, if the truth is known too.
    pub(crate) figures: Minute,
    keeps_figures: bool,
    /// Bytes of the figures of minutes.
    pub(crate) bytes: usize,
    pub(crate) truth: Truth,
    pub(crate) traffic: Traffic<'a>,
    pub(crate) spans: usize,
    /// How long all runs took.
    pub(crate) seconds: f64,
    pub(crate) rollup_cpu_seconds: f64,
    pub(crate) graph_cpu_seconds: f64,
}

impl<'a> Load<'a> {
    /// Makes the runs and analyses them.
    pub(crate) fn observe(&self) -> anyhow::Result<Seen<'a>> {
        let mut random = Random::new(self.seed);
        let mut until: Vec<(f64, OperationAt)> = Vec::new();
        let mut rate = 0.0;
        for (entrance, per_second) in &self.topology.entrances {
            rate += per_second * (self.factor)(*entrance);
            until.push((rate, *entrance));
        }
        let mut seen = Seen {
            rollup: Rollup::new(RollupConfig::default()),
            figures: Minute::default(),
            keeps_figures: self.keeps_truth,
            bytes: 0,
            truth: Truth::new(self.keeps_shapes),
            traffic: Traffic::new(self.topology, self.seed ^ 0xfeed),
            spans: 0,
            seconds: self.runs as f64 / rate,
            rollup_cpu_seconds: 0.0,
            graph_cpu_seconds: 0.0,
        };
        let mut traces: Vec<usize> = Vec::new();
        let mut spans: Vec<Span> = Vec::new();
        for run in 0..self.runs {
            let place = random.share() * rate;
            let entrance = until[until.partition_point(|(end, _)| *end <= place)].1;
            let start = START_UNIX_NANO + (run as f64 / rate * 1e9) as i64;
            let made = seen.traffic.run(entrance, start);
            if self.keeps_truth {
                seen.truth.add(made);
            }
            seen.traffic.spans(&mut spans);
            traces.push(spans.len());
            if traces.len() == RUNS_OF_BATCH || run + 1 == self.runs {
                seen.count(&spans, &traces)?;
                seen.take(start - MINUTE_NANO);
                spans.clear();
                traces.clear();
            }
        }
        seen.take(i64::MAX);
        ensure!(seen.rollup.counters.left_out == 0, "traces were left out");
        Ok(seen)
    }
}

impl Seen<'_> {
    /// Assembles and analyses these spans; `ends` are those of traces.
    fn count(&mut self, spans: &[Span], ends: &[usize]) -> anyhow::Result<()> {
        let batch = spans.iter().collect::<SpanBatchBuilder>().finish().context("a batch")?;
        let batches = [batch];
        let mut trees: Vec<Trace> = Vec::with_capacity(ends.len());
        let mut from = 0;
        for to in ends {
            let rows = (from..*to)
                .map(|row| Row::from_span(RowRef { batch: 0, row: row as u32 }, &spans[row]));
            trees.push(Trace::of(rows.collect()));
            from = *to;
        }
        self.spans += spans.len();
        let before = cpu_seconds();
        let labels = Labels::of(&batches).context("labels")?;
        for tree in &trees {
            self.rollup.add(tree, &labels);
        }
        let between = cpu_seconds();
        self.rollup_cpu_seconds += between - before;
        graph(&trees, &labels);
        self.graph_cpu_seconds += cpu_seconds() - between;
        Ok(())
    }

    /// Adds the figures of minutes before this time.
    fn take(&mut self, unix_nano: i64) {
        let before = cpu_seconds();
        for (_, part) in self.rollup.take_before(unix_nano) {
            self.bytes += part.added.to_bytes().len();
            if self.keeps_figures {
                self.figures.merge(&part.added);
            }
        }
        self.rollup_cpu_seconds += cpu_seconds() - before;
    }

    /// Calls per second that really were made, by service and operation, and the runs with such
    /// calls.
    pub(crate) fn loads(&self, topology: &Topology) -> BTreeMap<(String, String), (f64, u64)> {
        let mut loads: BTreeMap<(String, String), (f64, u64)> = BTreeMap::new();
        for runs in self.truth.entrances.values() {
            for (at, counted) in &runs.paths {
                let load = loads.entry(self.traffic.paths.label(*at, topology)).or_default();
                load.0 += counted.calls as f64 / self.seconds;
                load.1 += counted.runs;
            }
        }
        loads
    }
}

/// The service graph of these traces.
fn graph(trees: &[Trace], labels: &Labels<'_>) -> Graph {
    let mut names = Names::default();
    let mut calls = Vec::new();
    for node in trees.iter().flat_map(|tree| &tree.nodes) {
        let row = &node.row;
        calls.push(Call {
            span_id: row.span_id,
            parent: node.assembled.parent,
            start_unix_nano: row.start_unix_nano,
            service: names.name(labels.service(row.at)),
            kind: row.kind,
            capture: row.capture,
            protocol: labels.protocol(row.at).map(|protocol| names.name(protocol)),
            error: row.kind != Kind::Internal && labels.is_error(row.at),
            duration_nano: row.end_unix_nano - row.start_unix_nano,
            confidence: node.assembled.confidence,
            server: None,
            network: None,
        });
    }
    Graph::of(calls, &names)
}
