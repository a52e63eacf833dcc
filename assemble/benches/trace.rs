//! Time to build the tree of a large trace: a wide one, a deep one, and one without SDK spans. Ten
//! times the spans must take about ten times as long.

use std::hint::black_box;
use std::time::{Duration, Instant};

use spanwise_assemble::{Row, Trace};
use spanwise_model::{Capture, Evidence, Kind, RowRef, Span, SpanId, TraceId};

/// A trace's name, and a function that makes the requested number of rows.
type Shape = (&'static str, fn(u64) -> Vec<Row>);

const LARGE: u64 = 100_000;
const ROUNDS: usize = 5;

fn id(number: u64) -> SpanId {
    SpanId::from_u64(number + 1).expect("not zero")
}

/// `parent` returns the parent of each span after the first.
fn sdk(count: u64, parent: impl Fn(u64) -> u64) -> Vec<Row> {
    (0..count)
        .map(|number| {
            let start = number as i64 * 1_000;
            let mut span =
                Span::new(id(number), Capture::App, Kind::Internal, "s", "o", start, 1_000_000);
            span.trace_id = Some(TraceId([7; 16]));
            span.parent_span_id = (number > 0).then(|| id(parent(number)));
            Row::from_span(RowRef { batch: 0, row: number as u32 }, &span)
        })
        .collect()
}

/// A tree of requests that make a hundred calls each, without an SDK.
fn zero_code(count: u64) -> Vec<Row> {
    (0..count)
        .map(|number| {
            let (call, served) = (number % 2 == 1, number / 2);
            let capture = if call { Capture::ClientProcess } else { Capture::ServerProcess };
            let kind = if call { Kind::Client } else { Kind::Server };
            let start = number as i64 * 1_000;
            let mut span = Span::new(id(number), capture, kind, "s", "o", start, 900_000_000);
            (span.host, span.process_id) = (Some("h".to_owned()), Some(1 + served as u32 % 50));
            // A call belongs to an earlier request. The next request is the call's server side.
            span.fragment_id = Some(if call { served / 100 } else { served });
            (span.evidence, span.confidence) =
                if call { (Some(Evidence::Thread), Some(1.0)) } else { (None, None) };
            let hop = if call { served + 1 } else { served } as u32;
            (span.request_tcp_seq, span.response_tcp_seq) = (Some(hop), Some(hop));
            Row::from_span(RowRef { batch: 0, row: number as u32 }, &span)
        })
        .collect()
}

fn least(rows: &[Row]) -> Duration {
    let once = || {
        let rows = rows.to_vec();
        let began = Instant::now();
        black_box(Trace::of(rows));
        began.elapsed()
    };
    (0..ROUNDS).map(|_| once()).min().unwrap_or_default()
}

fn main() {
    let shapes: [Shape; 3] = [
        ("wide", |count| sdk(count, |_| 0)),
        ("deep", |count| sdk(count, |number| number - 1)),
        ("zero_code", zero_code),
    ];
    for (name, rows) in shapes {
        let (large, small) = (least(&rows(LARGE)), least(&rows(LARGE / 10)));
        println!("figure assemble.trace_100k_{name}_ms {:.1}", large.as_secs_f64() * 1e3);
        println!(
            "figure assemble.trace_growth_{name}_ratio {:.2}",
            large.as_secs_f64() / small.as_secs_f64() / 10.0
        );
    }
}
