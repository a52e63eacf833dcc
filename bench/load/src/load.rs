//! The requests of a load, one after the other.

use std::ops::RangeInclusive;

use crate::exporters::{self, Exporter};
use crate::known::Known;
use crate::profile::Profile;
use crate::random::Random;
use crate::span::{SpanWriter, scope};
use crate::trace::Trace;

/// What a load shall be like.
#[derive(Debug, Clone)]
pub struct LoadConfig {
    /// What it is like.
    pub profile: Profile,
    /// Loads of one seed are equal.
    pub seed: u64,
    /// Number of spans, exactly.
    pub spans: u64,
    /// Spans of a trace.
    pub trace_spans: RangeInclusive<u64>,
    /// Start of the first trace.
    pub start_unix_nano: i64,
    /// The last trace starts before this.
    pub end_unix_nano: i64,
    /// Traces to be kept in [`Known`], at most.
    pub known_traces: usize,
    /// Labels beside what there is anyway.
    pub tags: Tags,
    /// Spans of a request.
    pub batch_spans: RangeInclusive<u64>,
}

impl LoadConfig {
    /// An SDK's batch is full at 512, or sent half full after some seconds.
    pub const BATCH_SPANS: RangeInclusive<u64> = 100..=512;
}

/// Labels such as version, team and zone, the same for all spans of an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tags {
    /// None.
    #[default]
    None,
    /// So many, in the resource.
    OfResource(usize),
    /// So many, as attributes of every span.
    OfSpans(usize),
}

/// Why there is no such load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// The end is not after the start.
    Time,
    /// Not one trace is as small as that, or a range of sizes from which this
    /// number of spans cannot be made up.
    Spans,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Time => "the time of a load must end after it starts",
            Self::Spans => {
                "no whole number of traces makes this many spans; ask for more spans, or allow \
                 smaller traces, of 2 spans at least"
            }
        })
    }
}

impl std::error::Error for LoadError {}

/// The requests of a load.
pub struct Load {
    config: LoadConfig,
    random: Random,
    known: Known,
    /// Chooses which traces are kept, so that keeping more changes no bytes.
    keep: Random,
    exporters: Vec<Exporter>,
    trace: Trace,
    writer: SpanWriter,
    made: u64,
    /// Places of exporters that have enough for a request.
    full: Vec<usize>,
}

impl Load {
    /// # Errors
    /// See [`LoadError`].
    pub fn new(config: LoadConfig) -> Result<Self, LoadError> {
        if config.end_unix_nano <= config.start_unix_nano {
            return Err(LoadError::Time);
        }
        let (least, most) = (*config.trace_spans.start(), *config.trace_spans.end());
        // With twice the least below the most, any rest can be split in two.
        let splits = least == most && config.spans.is_multiple_of(most) || 2 * least <= most;
        if least < 2 || config.spans < least || !splits {
            return Err(LoadError::Spans);
        }
        let mut random = Random::new(config.seed);
        Ok(Self {
            exporters: exporters::all(&mut random, &config),
            keep: Random::new(!config.seed),
            random,
            known: Known::new(),
            trace: Trace::new(config.profile),
            writer: SpanWriter::new(config.profile, config.tags),
            config,
            made: 0,
            full: Vec::new(),
        })
    }

    /// Writes the next request (an `ExportTraceServiceRequest` in protobuf)
    /// over `request` and returns the number of its spans; `None` after the
    /// last one.
    pub fn next_request(&mut self, request: &mut Vec<u8>) -> Option<u64> {
        while self.full.is_empty() && self.made < self.config.spans {
            self.next_trace();
        }
        let place = self
            .full
            .pop()
            .or_else(|| self.exporters.iter().position(|exporter| exporter.waiting() > 0))?;
        let exporter = &mut self.exporters[place];
        let spans = exporter.waiting();
        exporter.take(&mut self.random, &self.config.batch_spans, request);
        Some(spans)
    }

    /// What can be asked for, of the traces made so far.
    pub const fn known(&self) -> &Known {
        &self.known
    }

    fn next_trace(&mut self) {
        let spans = self.trace_spans();
        let whole = i128::from(self.config.end_unix_nano - self.config.start_unix_nano);
        let share = whole * i128::from(self.made) / i128::from(self.config.spans);
        let start = self.config.start_unix_nano + share as i64;
        // Orders of loads of other seeds are others.
        let number = self.config.seed % 100 * 10_000_000 + self.known.trace_count;
        self.trace.grow(&mut self.random, number, spans as usize, start);
        self.known.note(&self.trace, self.config.known_traces, &mut self.keep);
        self.made += spans;
        for index in 0..self.trace.by_end.len() {
            let place = self.trace.by_end[index];
            let node = &self.trace.nodes[place];
            let at = self.config.profile.place(node.service, node.instance);
            let exporter = &mut self.exporters[at];
            let was_full = exporter.is_full();
            let into = exporter.spans(scope(node.role));
            self.writer.write(into, &self.trace, place, &mut self.random);
            if exporter.is_full() && !was_full {
                self.full.push(at);
            }
        }
    }

    /// A size that leaves a rest that can be made up of traces.
    fn trace_spans(&mut self) -> u64 {
        let (least, most) = (*self.config.trace_spans.start(), *self.config.trace_spans.end());
        let rest = self.config.spans - self.made;
        let drawn = least + self.random.below(most - least + 1);
        if rest <= most {
            rest
        } else if rest - drawn < least {
            rest / 2
        } else {
            drawn
        }
    }
}
