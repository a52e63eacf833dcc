//! Generates a load, and writes it to a file or posts it to a server.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Parser;
use spanwise_bench_load::{Load, LoadConfig, Profile, Tags, post};

/// Generates spans of 30 services, as OpenTelemetry SDKs would send them.
#[derive(Debug, Parser)]
struct Flags {
    /// Profile: `shop`, or `pods`, with more Kubernetes metadata and more varied spans.
    #[arg(long, default_value = "shop")]
    profile: Profile,
    /// Number of spans.
    #[arg(long, default_value_t = 1_000_000)]
    spans: u64,
    /// Loads with the same seed and time are equal.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds over which the spans are spread.
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// End of that time, in seconds since 1970 (default: now).
    #[arg(long)]
    end: Option<u64>,
    /// Minimum spans of a trace.
    #[arg(long, default_value_t = 12)]
    trace_least: u64,
    /// Maximum spans of a trace.
    #[arg(long, default_value_t = 40)]
    trace_most: u64,
    /// File for the requests, each after its length as four big-endian bytes (the protobuf format
    /// of the Collector's file exporter).
    #[arg(long, conflicts_with = "post")]
    out: Option<PathBuf>,
    /// Address of a server to post them to over OTLP/HTTP, such as 127.0.0.1:4318.
    #[arg(long)]
    post: Option<SocketAddr>,
    /// Connections for posting.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// File for a summary of what can be queried, as JSON.
    #[arg(long)]
    known: Option<PathBuf>,
    /// Number of traces in that file.
    #[arg(long, default_value_t = 1000)]
    known_traces: usize,
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is wrong")?;
    let end = flags.end.unwrap_or(since_1970.as_secs());
    let nano = |seconds: u64| i64::try_from(seconds.saturating_mul(1_000_000_000));
    let mut load = Load::new(LoadConfig {
        profile: flags.profile,
        seed: flags.seed,
        spans: flags.spans,
        trace_spans: flags.trace_least..=flags.trace_most,
        start_unix_nano: nano(end.saturating_sub(flags.seconds)).context("--seconds, --end")?,
        end_unix_nano: nano(end).context("--end is past the year 2262")?,
        known_traces: flags.known_traces,
        tags: Tags::None,
        batch_spans: LoadConfig::BATCH_SPANS,
    })?;
    let began = Instant::now();
    let bytes = match (&flags.out, flags.post) {
        (Some(path), _) => write(&mut load, path)?,
        (None, Some(address)) => {
            let posted = post(&mut load, address, flags.connections)
                .with_context(|| format!("cannot post to {address}; is a server running there?"))?;
            if posted.waits > 0 {
                eprintln!("the server asked to come again {} times", posted.waits);
            }
            posted.bytes
        }
        (None, None) => walk(&mut load),
    };
    let known = load.known();
    let seconds = began.elapsed().as_secs_f64();
    eprintln!(
        "{} spans in {} traces, {:.1} bytes a span, {:.2} % with an error, in {seconds:.1} s",
        known.span_count,
        known.trace_count,
        bytes as f64 / known.span_count as f64,
        known.error_count as f64 * 100.0 / known.span_count as f64,
    );
    if let Some(path) = &flags.known {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        serde_json::to_writer(BufWriter::new(file), known).context("cannot write what is known")?;
    }
    Ok(())
}

/// Generates the requests and drops them, to measure the cost of the load itself.
fn walk(load: &mut Load) -> u64 {
    let (mut request, mut bytes) = (Vec::new(), 0);
    while load.next_request(&mut request).is_some() {
        bytes += request.len() as u64;
    }
    bytes
}

fn write(load: &mut Load, path: &Path) -> anyhow::Result<u64> {
    let context = || format!("cannot write {}", path.display());
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).with_context(context)?);
    let (mut request, mut bytes) = (Vec::new(), 0);
    while load.next_request(&mut request).is_some() {
        let length = u32::try_from(request.len()).context("a request is larger than 4 GiB")?;
        file.write_all(&length.to_be_bytes()).with_context(context)?;
        file.write_all(&request).with_context(context)?;
        bytes += u64::from(length);
    }
    file.flush().with_context(context)?;
    Ok(bytes)
}
