//! Sends requests at a steady rate, for benchmarks: the agent's cost depends on the load, so the
//! load must be fixed.
//!
//! Each connection has a thread and one request at a time. Requests are due at fixed times, and
//! latency is measured from that time. So a server that stalls also delays the requests that wait,
//! as it would for real users. (Gil Tene calls ignoring this "coordinated omission".)

mod latency;
mod protocol;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Parser;
use serde_json::json;

use latency::Latencies;
use protocol::{Outcome, Protocol};

/// Timeout for a response.
const PATIENCE: Duration = Duration::from_secs(30);
const STEP_BYTES: usize = 64 * 1024;
/// Maximum size of a response.
const MOST_BYTES: usize = 16 << 20;

/// Sends requests at a steady rate. Prints the number of responses and their latencies as JSON.
#[derive(Debug, Clone, Parser)]
struct Flags {
    /// The protocol.
    #[arg(long, value_enum)]
    protocol: Protocol,
    /// The server.
    #[arg(long)]
    server: SocketAddr,
    /// Requests a second on all connections together.
    #[arg(long)]
    rate: f64,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 4)]
    connections: u32,
    /// Duration in seconds.
    #[arg(long)]
    seconds: f64,
    /// Paths to request in turn (HTTP); `{}` stands for a number.
    #[arg(long = "path", default_value = "/item/{}")]
    paths: Vec<String>,
    /// Maximum number for `{}`; numbers start at 1 and repeat.
    #[arg(long, default_value_t = 1000)]
    items: u64,
    /// Reopens a connection after this many requests.
    #[arg(long)]
    reopen_after: Option<u64>,
}

/// The results of one connection's thread.
#[derive(Default)]
struct ThreadResult {
    answered: u64,
    /// Number of responses with an error.
    errors: u64,
    opened: u64,
    latencies: Latencies,
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    if flags.connections == 0 || flags.rate.is_nan() || flags.rate <= 0.0 {
        bail!("--connections and --rate must be greater than 0");
    }
    let start = Instant::now();
    let threads: Vec<_> = (0..flags.connections)
        .map(|index| {
            let flags = flags.clone();
            thread::spawn(move || run(&flags, index, start))
        })
        .collect();
    let mut all = ThreadResult::default();
    for thread in threads {
        let done = thread.join().map_err(|_| anyhow::anyhow!("a thread failed"))??;
        all.answered += done.answered;
        all.errors += done.errors;
        all.opened += done.opened;
        all.latencies.add(&done.latencies);
    }
    let seconds = start.elapsed().as_secs_f64();
    let micros = |share: f64| all.latencies.at(share).as_nanos() as f64 / 1000.0;
    println!(
        "{}",
        json!({
            "answered": all.answered,
            "errors": all.errors,
            "connections": all.opened,
            "seconds": seconds,
            "p50_us": micros(0.5),
            "p90_us": micros(0.9),
            "p99_us": micros(0.99),
            "max_us": micros(1.0),
        })
    );
    Ok(())
}

/// The requests of one connection and its successors.
fn run(flags: &Flags, index: u32, start: Instant) -> anyhow::Result<ThreadResult> {
    let connections = f64::from(flags.connections);
    let pause = Duration::from_secs_f64(connections / flags.rate);
    let end = start + Duration::from_secs_f64(flags.seconds);
    // Connections are staggered.
    let mut due = start + pause.mul_f64(f64::from(index) / connections);
    let mut done = ThreadResult::default();
    let mut connection: Option<TcpStream> = None;
    let mut of_connection = 0;
    let (mut request, mut response) = (Vec::new(), Vec::new());
    let mut number = u64::from(index) * 7919;
    while due < end {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let stream = match &mut connection {
            Some(stream) => stream,
            none => {
                done.opened += 1;
                of_connection = 0;
                none.insert(connect(flags.server)?)
            }
        };
        flags.protocol.request(&flags.paths, flags.items, number, &mut request);
        number += 1;
        stream.write_all(&request).context("a server closed its connection")?;
        let outcome = answer(flags.protocol, stream, &mut response)?;
        done.latencies.record(due.elapsed());
        done.answered += 1;
        done.errors += u64::from(outcome.error);
        of_connection += 1;
        if outcome.closes || flags.reopen_after.is_some_and(|most| of_connection >= most) {
            connection = None;
        }
        due += pause;
    }
    Ok(done)
}

fn connect(server: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream =
        TcpStream::connect(server).with_context(|| format!("cannot connect to {server}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads one response.
fn answer(
    protocol: Protocol,
    stream: &mut TcpStream,
    response: &mut Vec<u8>,
) -> anyhow::Result<Outcome> {
    response.clear();
    let mut filled = 0;
    loop {
        response.resize(filled + STEP_BYTES, 0);
        let count = stream.read(&mut response[filled..]).context("no answer")?;
        filled += count;
        if let Some(outcome) = protocol.response(&response[..filled], count == 0)? {
            return Ok(outcome);
        }
        if count == 0 {
            bail!("a server closed its connection instead of answering");
        }
        if filled > MOST_BYTES {
            bail!("a response is longer than {MOST_BYTES} bytes");
        }
    }
}
