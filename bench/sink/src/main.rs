//! Receives, acknowledges and discards what an agent sends, for benchmarks of the agent. Otherwise
//! the agent would share its processors with a server.
//!
//! Totals are written to `--report` as JSON, once a second and at the end.

mod flight;
mod totals;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arrow_flight::flight_service_server::FlightServiceServer;
use clap::Parser;
use spanwise_wire::flight::FlightLimits;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::TcpListenerStream;

use flight::Sink;
use totals::Totals;

const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Accepts agents' Arrow Flight streams and counts their contents.
#[derive(Debug, Parser)]
struct Flags {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:4317")]
    listen: SocketAddr,
    /// File for totals, as JSON: every second, and at the end.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Also count spans by capture point, protocol, server port and status, which requires decoding
    /// batches.
    #[arg(long)]
    kinds: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let listener = TcpListener::bind(flags.listen)
        .await
        .with_context(|| format!("cannot listen on {}", flags.listen))?;
    let totals = Arc::new(Totals::default());
    let serving = serve(listener, Arc::clone(&totals), flags.kinds);
    let reporting = async {
        let mut timer = tokio::time::interval(REPORT_EVERY);
        loop {
            timer.tick().await;
            if let Some(path) = &flags.report {
                write(path, &totals)?;
            }
        }
    };
    tokio::select! {
        served = serving => served.context("the sink stopped")?,
        failed = reporting => return failed,
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    match &flags.report {
        Some(path) => write(path, &totals)?,
        None => println!("{}", totals.json()?),
    }
    Ok(())
}

/// Serves agents until the listener fails.
async fn serve(
    listener: TcpListener,
    totals: Arc<Totals>,
    kinds: bool,
) -> Result<(), tonic::transport::Error> {
    let service = FlightServiceServer::new(Sink::new(totals, kinds))
        // The maximum body, plus its header and metadata.
        .max_decoding_message_size(FlightLimits::default().message_bytes + (1 << 20));
    tonic::transport::Server::builder()
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await
}

/// Writes the totals atomically.
fn write(path: &Path, totals: &Totals) -> anyhow::Result<()> {
    let next = path.with_extension("next");
    std::fs::write(&next, totals.json()?)
        .and_then(|()| std::fs::rename(&next, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId};
    use spanwise_wire::flight::{FlightSender, SenderConfig};

    use super::*;

    /// The sink's report for 30 spans of one kind and 10 of another, in two batches.
    async fn received(kinds: bool) -> Value {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let totals = Arc::new(Totals::default());
        let serving = tokio::spawn(serve(listener, Arc::clone(&totals), kinds));
        let sender = FlightSender::spawn(SenderConfig::new(format!("http://{address}"))).unwrap();
        sender.set_facts(&json!({"host": "h1"}));
        for (capture, numbers) in
            [(Capture::ServerProcess, 1..31), (Capture::ClientProcess, 31..41)]
        {
            let mut batch = SpanBatchBuilder::new();
            for number in numbers {
                let id = SpanId::from_u64(number).unwrap();
                let mut span = Span::new(id, capture, Kind::Server, "cart", "GET", 0, 1);
                span.flow.server_port = Some(80);
                batch.push(&span);
            }
            sender.send(&batch.finish_rows().unwrap());
        }
        let counters = sender.shutdown(Duration::from_secs(20)).await;
        assert_eq!((counters.spans_acknowledged, counters.spans_dropped()), (40, 0));
        serving.abort();
        serde_json::from_str(&totals.json().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn an_agent_gets_rid_of_all_and_it_is_counted() {
        let totals = received(false).await;
        assert_eq!((&totals["batches"], &totals["rows"]), (&json!(2), &json!(40)));
        assert_eq!((&totals["streams"], &totals["streams_failed"]), (&json!(1), &json!(0)));
        assert_eq!(totals["kinds"], json!([]));
        let facts: Vec<&Value> = totals["agents"].as_object().unwrap().values().collect();
        assert_eq!(facts, [&json!({"host": "h1"})]);
    }

    #[tokio::test]
    async fn kinds_of_spans_are_told_apart() {
        let totals = received(true).await;
        let kind = |capture: &str, rows: u64| {
            let kind = json!({
                "capture": capture, "protocol": "", "status": "unset", "server_port": 80
            });
            json!({ "kind": kind, "rows": rows })
        };
        assert_eq!(
            totals["kinds"],
            json!([kind("client-process", 10), kind("server-process", 30)])
        );
        assert_eq!(totals["rows"], json!(40));
    }
}
