//! Lower bounds: what the same bytes cost without a server.

use std::hint::black_box;

use anyhow::Context as _;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use spanwise_bench_load::{Load, LoadConfig};
use spanwise_wire::otlp::{Limits, decode_protobuf};

use crate::measure::{per_million, thread_cpu_seconds};

/// Each measurement runs this many times. The lowest result counts, because other load only adds
/// time.
const ROUNDS: usize = 3;
/// A common compression level for files that are written once.
const ZSTD_LEVEL: i32 = 3;
/// Number of requests that are compressed together, as in a file.
const TOGETHER: usize = 200;

/// CPU-seconds for a million spans, and bytes for each span.
#[derive(Debug)]
pub(crate) struct Floor {
    /// Decoding with prost into objects, and dropping them.
    pub(crate) prost_seconds: f64,
    /// Our decoding into an Arrow batch.
    ours_seconds: f64,
    zstd_seconds: f64,
    zstd_bytes: f64,
    /// Copying the bytes once.
    copy_seconds: f64,
}

impl Floor {
    pub(crate) fn measure(config: &LoadConfig) -> anyhow::Result<Self> {
        let mut load = Load::new(config.clone())?;
        let mut requests = Vec::new();
        let mut request = Vec::new();
        while load.next_request(&mut request).is_some() {
            requests.push(request.clone());
        }
        let spans = load.known().span_count;
        let limits = Limits::default();
        let prost_seconds = least(spans, || {
            for request in &requests {
                let decoded = ExportTraceServiceRequest::decode(request.as_slice());
                black_box(decoded.context("prost refuses the load")?);
            }
            Ok(())
        })?;
        let ours_seconds = least(spans, || {
            for request in &requests {
                black_box(decode_protobuf(request, &limits)?);
            }
            Ok(())
        })?;
        let mut packed = 0;
        let zstd_seconds = least(spans, || {
            packed = 0;
            for together in requests.chunks(TOGETHER) {
                packed += zstd::bulk::compress(&together.concat(), ZSTD_LEVEL)?.len();
            }
            Ok(())
        })?;
        let mut copied = Vec::new();
        let copy_seconds = least(spans, || {
            for request in &requests {
                copied.clear();
                copied.extend_from_slice(black_box(request));
                black_box(&copied);
            }
            Ok(())
        })?;
        let zstd_bytes = packed as f64 / spans as f64;
        Ok(Self { prost_seconds, ours_seconds, zstd_seconds, zstd_bytes, copy_seconds })
    }

    /// Prints the figures with a prefix.
    pub(crate) fn print_figures(&self, otlp: &str) {
        println!("figure {otlp}prost_seconds_per_million_spans {:.3} s", self.prost_seconds);
        println!("figure {otlp}decode_seconds_per_million_spans {:.3} s", self.ours_seconds);
        println!("figure {otlp}decode_ratio {:.2} 1", self.ours_seconds / self.prost_seconds);
    }

    pub(crate) fn print(&self) {
        let row = |name: &str, seconds: f64| println!("{name:<52}{seconds:>10.2}");
        row("floor: decoding with prost alone", self.prost_seconds);
        row("floor: decoding into Arrow columns (ours)", self.ours_seconds);
        row(
            &format!("floor: compressing the bytes with zstd -{ZSTD_LEVEL} alone"),
            self.zstd_seconds,
        );
        row("floor: copying the bytes once", self.copy_seconds);
        let name = format!("floor: bytes a span, zstd -{ZSTD_LEVEL} over the requests");
        println!("{name:<52}{:>10.1}", self.zstd_bytes);
    }
}

fn least(spans: u64, mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let began = thread_cpu_seconds();
        work()?;
        least = least.min(per_million(thread_cpu_seconds() - began, spans));
    }
    Ok(least)
}
