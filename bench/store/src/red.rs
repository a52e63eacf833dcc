//! What counting spans and calls for Prometheus adds to taking spans in.

use std::hint::black_box;

use anyhow::{Context as _, ensure};
use spanwise_analyze::red::{Now, Red, RedConfig};
use spanwise_assemble::{Window, WindowConfig};
use spanwise_bench_load::{Load, LoadConfig, Profile};
use spanwise_wire::otlp::{Limits, decode_protobuf};

use crate::measure::thread_cpu_seconds;

/// The lowest of these rounds counts, because other load only adds time.
const ROUNDS: usize = 5;
/// Spans that arrive in a second. Traces wait for ten of them.
const SPANS_A_SECOND: u64 = 15_000;
/// As often as the server does.
const POLL_NANO: u64 = 100_000_000;

/// CPU-seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    /// Counting spans.
    push: f64,
    /// Taking their places in traces.
    place: f64,
    /// Counting calls.
    settle: f64,
}

/// Prints the figure of the slower profile.
pub(crate) fn measure(config: &LoadConfig) -> anyhow::Result<()> {
    let mut most: f64 = 0.0;
    for profile in [Profile::Shop, Profile::Pods] {
        let Parts { push, place, settle } = of_profile(&LoadConfig { profile, ..config.clone() })?;
        let nano = push + place + settle;
        eprintln!(
            "{profile:?}: {nano:.1} ns a span: {push:.1} to count it, {place:.1} to place it, \
             {settle:.1} for its calls"
        );
        most = most.max(nano);
    }
    println!("figure query.red_metrics_ns_per_span {most:.1} ns");
    Ok(())
}

/// Nanoseconds a span.
fn of_profile(config: &LoadConfig) -> anyhow::Result<Parts> {
    let mut load = Load::new(config.clone())?;
    let (mut batches, mut request) = (Vec::new(), Vec::new());
    let limits = Limits::default();
    while load.next_request(&mut request).is_some() {
        let decoded = decode_protobuf(&request, &limits).context("the load is refused")?;
        batches.push(decoded.batch);
    }
    let mut least = Parts { push: f64::INFINITY, place: f64::INFINITY, settle: f64::INFINITY };
    for _ in 0..ROUNDS {
        let mut window = Window::new(WindowConfig::default());
        let mut red = Red::new(&RedConfig::default());
        let (mut spans, mut polled) = (0, 0);
        let mut parts = Parts::default();
        for (number, rows) in (0..).zip(&batches) {
            let nano = spans * 1_000_000_000 / SPANS_A_SECOND;
            let now = Now { nano, unix_nano: config.start_unix_nano + nano as i64 };
            spans += rows.num_rows() as u64;
            window.push(number, rows, nano)?;
            let began = thread_cpu_seconds();
            red.push(number, rows.columns(), now)?;
            parts.push += thread_cpu_seconds() - began;
            if nano < polled + POLL_NANO {
                continue;
            }
            polled = nano;
            let results = window.poll(nano);
            let began = thread_cpu_seconds();
            red.place(&results, now);
            let placed = thread_cpu_seconds();
            red.settle(now);
            parts.place += placed - began;
            parts.settle += thread_cpu_seconds() - placed;
        }
        let now = Now { nano: u64::MAX / 2, unix_nano: config.end_unix_nano };
        let results = window.flush(now.nano);
        let began = thread_cpu_seconds();
        red.place(&results, now);
        let placed = thread_cpu_seconds();
        red.settle_all(now);
        parts.place += placed - began;
        parts.settle += thread_cpu_seconds() - placed;
        ensure!(red.waiting() == 0, "{} spans were not counted", red.waiting());
        black_box(red.snapshot());
        let nano = |seconds: f64| seconds / spans as f64 * 1e9;
        least.push = least.push.min(nano(parts.push));
        least.place = least.place.min(nano(parts.place));
        least.settle = least.settle.min(nano(parts.settle));
    }
    Ok(least)
}
