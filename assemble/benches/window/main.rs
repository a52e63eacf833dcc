//! Cost of assembly for each span with a full window, from a stored batch to its results: rows are
//! read, joined, reported and forgotten.
//!
//! The floor is a lower bound for any window: hash and insert the ids of each span once.

mod loads;

use std::hint::black_box;

use arrow::array::{Array, AsArray};
use rustix::time::{ClockId, clock_gettime};
use spanwise_assemble::{Window, WindowConfig, WindowCounters};
use spanwise_model::SpanRows;
use spanwise_model::schema::column;

/// Speed of the window's clock, in rows a second.
const ROWS_PER_SECOND: u64 = 200_000;
const POLL_EVERY_NANO: u64 = 100_000_000;
/// Each measurement runs this many times. The fastest run counts.
const ROUNDS: usize = 5;

/// Processor time of this thread. Other load on the machine is not counted.
fn cpu_nano() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn rows(batches: &[SpanRows]) -> usize {
    batches.iter().map(SpanRows::num_rows).sum()
}

/// Nanoseconds of processor time for each row, and the window's counters.
fn assemble(batches: &[SpanRows]) -> (f64, WindowCounters) {
    let mut window = Window::new(WindowConfig::default());
    let (mut now, mut polled, mut results) = (0, 0, 0);
    let began = cpu_nano();
    for (number, batch) in (0..).zip(batches) {
        window.push(number, batch, now).expect("spans");
        now += batch.num_rows() as u64 * 1_000_000_000 / ROWS_PER_SECOND;
        if now - polled >= POLL_EVERY_NANO {
            polled = now;
            results += black_box(window.poll(now)).len();
        }
    }
    results += black_box(window.flush(now)).len();
    let took = cpu_nano() - began;
    assert!(results >= rows(batches), "every row is told");
    (took as f64 / rows(batches) as f64, window.counters())
}

fn floor(batches: &[SpanRows]) -> f64 {
    let most = WindowConfig::default().max_rows;
    let mut seen = ahash::AHashSet::with_capacity(most);
    let began = cpu_nano();
    for batch in batches {
        let ids =
            |name| batch.columns().column_by_name(name).expect("a column").as_fixed_size_binary();
        let (traces, spans) = (ids(column::TRACE_ID), ids(column::SPAN_ID));
        for row in 0..batch.num_rows() {
            let mut key = [0; 24];
            if traces.is_valid(row) {
                key[..16].copy_from_slice(traces.value(row));
            }
            key[16..].copy_from_slice(spans.value(row));
            if seen.len() == most {
                seen.clear();
            }
            seen.insert(key);
        }
    }
    (cpu_nano() - began) as f64 / rows(batches) as f64
}

fn main() {
    let mut most = 0.0_f64;
    // When an agent's rows are present, SDK spans are joined to them as well.
    let mut joined = loads::sdk(40_000);
    joined.extend(loads::zero_code(1));
    joined.rotate_right(1);
    let loads = [
        ("sdk_alone", loads::sdk(40_000)),
        ("sdk", joined),
        ("zero_code", loads::zero_code(40_000)),
    ];
    for (name, batches) in loads {
        let batches: Vec<SpanRows> = batches.into_iter().map(SpanRows::from).collect();
        let (mut least, mut least_floor) = (f64::MAX, f64::MAX);
        let mut counters = WindowCounters::default();
        for _ in 0..ROUNDS {
            least_floor = least_floor.min(floor(&batches));
            let (nano, counted) = assemble(&batches);
            least = least.min(nano);
            counters = counted;
        }
        println!("{name}: {} rows in {} batches, {counters:?}", rows(&batches), batches.len());
        println!("figure assemble.{name}_ns_per_span {least:.0}");
        println!("figure assemble.{name}_floor_ns_per_span {least_floor:.0}");
        println!("figure assemble.{name}_floor_ratio {:.1}", least / least_floor);
        most = most.max(least);
    }
    println!("figure assembly.cpu_us_per_span {:.2} us", most / 1e3);
}
