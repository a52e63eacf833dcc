//! Recordings as OTLP messages, at the wanted speed, with a progress bar.

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use spanwise_ctf::{HostCounts, Spans};
use spanwise_native::{Counts, Recording, fits, otlp};

use crate::failure::Failure;
use crate::otlp::Signal;
use crate::terminal::harmless;

/// A message.
pub(super) struct Payload {
    pub(super) signal: Signal,
    pub(super) bytes: Vec<u8>,
    items: u64,
    /// Whether it is the last of its piece.
    pub(super) last: bool,
}

pub(super) struct Source {
    recording: Recording,
    /// Traces in the Common Trace Format, which come after the recording.
    traces: Vec<Spans>,
    filter: Option<String>,
    speed: Option<f64>,
    began: Instant,
    first_ns: Option<u64>,
    waiting: VecDeque<Payload>,
    only_spans: bool,
    refused: (u64, u64),
    sent: [u64; 3],
    total: u64,
    shown: Option<Instant>,
    terminal: bool,
}

impl Source {
    pub(super) fn new(
        recording: Recording,
        traces: Vec<Spans>,
        filter: Option<String>,
        speed: Option<f64>,
    ) -> Self {
        let of_traces: u64 = traces.iter().map(|spans| spans.trace().bytes()).sum();
        Self {
            total: recording.bytes() + of_traces,
            recording,
            traces,
            filter,
            speed,
            began: Instant::now(),
            first_ns: None,
            waiting: VecDeque::new(),
            only_spans: false,
            refused: (0, 0),
            sent: [0; 3],
            shown: None,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Logs and metrics are counted as refused.
    pub(super) const fn only_spans(&mut self) {
        self.only_spans = true;
    }

    pub(super) fn next_payload(&mut self) -> Option<Payload> {
        loop {
            if let Some(payload) = self.waiting.pop_front() {
                return Some(payload);
            }
            let Some(piece) = self.recording.next_piece() else {
                self.next_batch()?;
                continue;
            };
            if let Some(last) = piece.spans.last() {
                let first = piece.spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
                self.wait(first, last.end_ns);
            }
            let process = &self.recording.processes[piece.process];
            // Each site's name is tested once for a piece, not once for a span.
            let kept: Vec<bool> = process
                .sites
                .iter()
                .map(|site| self.filter.as_ref().is_none_or(|pattern| fits(pattern, &site.name)))
                .collect();
            let mut add = |signal, items, bytes| {
                if items > 0 {
                    self.waiting.push_back(Payload { signal, bytes, items, last: false });
                }
            };
            let mut bytes = Vec::new();
            let spans = otlp::traces(
                process,
                &piece,
                |span| kept.get(usize::from(span.site)).copied().unwrap_or(self.filter.is_none()),
                &mut bytes,
            );
            add(Signal::Traces, spans, bytes);
            let (logs, points) = (piece.logs.len() as u64, piece.metrics.len() as u64);
            if self.only_spans {
                self.refused.0 += logs;
                self.refused.1 += points;
            } else {
                let mut bytes = Vec::new();
                otlp::logs(process, &piece.logs, &mut bytes);
                add(Signal::Logs, logs, bytes);
                let mut bytes = Vec::new();
                otlp::metrics(process, &piece.metrics, &mut bytes);
                add(Signal::Metrics, points, bytes);
            }
            if let Some(payload) = self.waiting.back_mut() {
                payload.last = true;
            }
        }
    }

    /// Messages of the next trace that still has some.
    fn next_batch(&mut self) -> Option<()> {
        let batch = self.traces.iter_mut().find_map(Spans::next_batch)?;
        if let Some((first, last)) = batch.times_ns {
            self.wait(first, last);
        }
        let signals = [Signal::Traces, Signal::Logs, Signal::Metrics];
        for ((signal, items), bytes) in signals.into_iter().zip(batch.items).zip(batch.messages) {
            match signal {
                _ if items == 0 => {}
                Signal::Logs if self.only_spans => self.refused.0 += items,
                Signal::Metrics if self.only_spans => self.refused.1 += items,
                _ => self.waiting.push_back(Payload { signal, bytes, items, last: false }),
            }
        }
        if let Some(payload) = self.waiting.back_mut() {
            payload.last = true;
        }
        Some(())
    }

    /// Until it is time for spans of these times.
    fn wait(&mut self, first_ns: u64, last_ns: u64) {
        let Some(speed) = self.speed else { return };
        let first = *self.first_ns.get_or_insert(first_ns);
        let due = Duration::from_nanos(last_ns.saturating_sub(first)).as_secs_f64() / speed;
        let due = Duration::try_from_secs_f64(due).unwrap_or_default();
        std::thread::sleep(due.saturating_sub(self.began.elapsed()));
    }

    /// Bytes that are still to be read.
    fn bytes_left(&self) -> u64 {
        let of_traces: u64 = self.traces.iter().map(|spans| spans.trace().bytes_left()).sum();
        self.recording.bytes() + of_traces
    }

    /// How far each ring and trace is sent: its name, and a number.
    pub(super) fn positions(&self) -> Vec<(String, u64)> {
        let mut positions = self.recording.positions();
        positions.extend(self.traces.iter().map(|spans| (name(spans), spans.position())));
        positions
    }

    /// Gives out nothing before these positions.
    pub(super) fn go_on(&mut self, positions: Vec<(String, u64)>) {
        for spans in &mut self.traces {
            let own = name(spans);
            if let Some((_, position)) = positions.iter().find(|(name, _)| *name == own) {
                spans.go_on(*position);
            }
        }
        self.recording.go_on(positions);
    }

    pub(super) fn sent(&mut self, payload: &Payload) {
        self.sent[payload.signal as usize] += payload.items;
        if self.only_spans
            || !self.terminal
            || self.shown.is_some_and(|at| at.elapsed() < Duration::from_millis(100))
        {
            return;
        }
        self.shown = Some(Instant::now());
        let read = self.total.saturating_sub(self.bytes_left());
        let share = 100 * read / self.total.max(1);
        let _ = write!(std::io::stderr(), "\r\x1b[2K{share:>3} %  {} spans", self.sent[0]);
    }

    /// Says what was sent, and what was not.
    pub(super) fn report(self) -> Result<(), Failure> {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
        if !self.only_spans {
            let [spans, logs, points] = self.sent;
            eprintln!("{spans} spans, {logs} log records and {points} metric points are sent");
        }
        if self.refused != (0, 0) {
            let (logs, points) = self.refused;
            eprintln!(
                "not sent: {logs} log records and {points} metric points, because Spanwise keeps \
                 spans only; send them with --otlp or --file"
            );
        }
        let mut sum = Counts::default();
        for (_, c) in self.recording.counts() {
            sum.open += c.open;
            sum.overwritten += c.overwritten;
            sum.damaged += c.damaged;
            sum.dropped_full += c.dropped_full;
            sum.dropped_depth += c.dropped_depth;
            sum.dropped_signal += c.dropped_signal;
            sum.dropped_ends += c.dropped_ends;
            sum.dropped_extras += c.dropped_extras;
            sum.misused += c.misused;
        }
        let refused: u64 =
            self.recording.processes.iter().map(|process| process.threads_refused).sum();
        for (count, what) in [
            (sum.open, "spans had not ended (spanwise.open)"),
            (sum.overwritten, "older spans were overwritten or rolled off"),
            (sum.damaged, "spans were in damaged or missing blocks"),
            (sum.dropped_full, "spans were dropped: the ring was full"),
            (sum.dropped_depth, "spans were dropped: 64 were open"),
            (
                sum.dropped_signal,
                "records were dropped: a signal handler interrupted another record",
            ),
            (sum.dropped_ends, "spans lost their end: no room, or a full disk"),
            (
                sum.dropped_extras,
                "attributes, events, links, logs or metrics were dropped: no room",
            ),
            (sum.misused, "ends were of no open span of their thread"),
            (self.recording.late_extras(), "detached spans have attributes, and no begin or end"),
            (refused, "times a thread got no ring"),
        ] {
            if count > 0 {
                eprintln!("{count} {what}");
            }
        }
        let mut of_traces = spanwise_ctf::Counts::default();
        let mut lost = (0_u64, 0_u64);
        for spans in &self.traces {
            let counts = spans.counts;
            of_traces.open += counts.open;
            of_traces.ends += counts.ends;
            of_traces.other += counts.other;
            of_traces.messages += counts.messages;
            of_traces.crowded += counts.crowded;
            of_traces.parts += counts.parts;
            let (events, packets) = spans.trace().lost();
            lost = (lost.0.saturating_add(events), lost.1.saturating_add(packets));
        }
        for (count, what) in [
            (of_traces.open, "spans had not ended in their trace (spanwise.open)"),
            (of_traces.ends, "ends of spans had no beginning in their trace"),
            (of_traces.other, "events are not sent: they have no trace_id and span_id"),
            (of_traces.messages, "messages of OpenTelemetry were damaged"),
            (of_traces.crowded, "spans were not kept: more than 100,000 were open"),
            (of_traces.parts, "attributes, events or links were beyond a span's 128"),
            (lost.0, "events were discarded by the tracer: its buffers were full"),
            (lost.1, "packets are missing from their trace"),
        ] {
            if count > 0 {
                eprintln!("{count} {what}");
            }
        }
        self.report_host();
        let mut problems = self.recording.problems();
        problems.extend(self.traces.iter().flat_map(|spans| spans.trace().problems()));
        for problem in problems.iter().take(10) {
            eprintln!("{}", harmless(problem));
        }
        match problems.len() {
            0 => Ok(()),
            n => Err(Failure::cannot(format_args!("{n} parts of the recording could not be read"))),
        }
    }
}

impl Source {
    /// Says what metrics of hosts were made of, and what is missing in them.
    fn report_host(&self) {
        let mut sum = HostCounts::default();
        let mut lacks_wakeups = false;
        for spans in &self.traces {
            let counts = spans.host_counts();
            lacks_wakeups |= counts.events > 0 && !counts.has_wakeups;
            sum.events += counts.events;
            sum.processes += counts.processes;
            sum.threads += counts.threads;
            sum.waits_unknown += counts.waits_unknown;
            sum.unknown_ns = sum.unknown_ns.saturating_add(counts.unknown_ns);
            sum.mismatches += counts.mismatches;
            sum.crowded += counts.crowded;
        }
        if sum.events == 0 {
            return;
        }
        eprintln!(
            "{} events of kernels are metrics of hosts and {} processes",
            sum.events, sum.processes
        );
        if lacks_wakeups {
            eprintln!(
                "waits for a processor are only those of preempted threads: a trace has no \
                 sched_wakeup"
            );
        }
        for (count, what) in [
            (
                sum.threads,
                "threads have metrics of their own: nothing says of which process they are \
                 (lttng_statedump_process_state would, or the context pid)",
            ),
            (
                sum.waits_unknown,
                "waits for a processor are left out: events may be missing in them",
            ),
            (sum.unknown_ns / 1_000_000, "ms of processors are left out: events are missing"),
            (sum.mismatches, "switches came from a thread that did not run: events are missing"),
            (sum.crowded, "events of kernels were of threads or processors beyond the bounds"),
        ] {
            if count > 0 {
                eprintln!("{count} {what}");
            }
        }
    }
}

/// A trace's name in a checkpoint.
fn name(spans: &Spans) -> String {
    format!("ctf:{}", spans.trace().dir.display())
}
