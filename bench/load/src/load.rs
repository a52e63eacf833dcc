//! Generates the requests of a load.

use crate::config::{LoadConfig, LoadError};
use crate::exporters::{self, Exporter};
use crate::random::Random;
use crate::span::{SpanWriter, scope};
use crate::summary::LoadSummary;
use crate::trace::Trace;

/// The requests of a load.
pub struct Load {
    config: LoadConfig,
    random: Random,
    known: LoadSummary,
    /// Selects the sampled traces. Separate, so that the number of samples does not change the
    /// bytes.
    keep: Random,
    exporters: Vec<Exporter>,
    trace: Trace,
    writer: SpanWriter,
    made: u64,
    /// Indexes of exporters with enough spans for a request.
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
        // If twice the minimum is at most the maximum, any remainder can be split in two.
        let splits = least == most && config.spans.is_multiple_of(most) || 2 * least <= most;
        if least < 2 || config.spans < least || !splits {
            return Err(LoadError::Spans);
        }
        let mut random = Random::new(config.seed);
        Ok(Self {
            exporters: exporters::all(&mut random, &config),
            keep: Random::new(!config.seed),
            random,
            known: LoadSummary::new(),
            trace: Trace::new(config.profile),
            writer: SpanWriter::new(config.profile, config.tags),
            config,
            made: 0,
            full: Vec::new(),
        })
    }

    /// Writes the next request (an `ExportTraceServiceRequest` in protobuf) to `request` and
    /// returns its number of spans; `None` after the last one.
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

    /// What can be queried of the traces generated so far.
    pub const fn known(&self) -> &LoadSummary {
        &self.known
    }

    fn next_trace(&mut self) {
        let spans = self.trace_spans();
        let whole = i128::from(self.config.end_unix_nano - self.config.start_unix_nano);
        let share = whole * i128::from(self.made) / i128::from(self.config.spans);
        let start = self.config.start_unix_nano + share as i64;
        // Order numbers depend on the seed.
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

    /// A size whose remainder can be composed of traces.
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
