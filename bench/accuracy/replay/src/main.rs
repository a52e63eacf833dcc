//! Sends rows to a server like an agent, for `accuracy.py --replay`. Only the agents' receiver
//! accepts rows that say where in a process they were captured.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use rand::RngExt as _;
use spanwise_model::{
    AttributeValue, Capture, Evidence, Kind, Span, SpanBatchBuilder, SpanId, protocol,
};
use spanwise_wire::flight::{Origin, Upload};

const PATIENCE: Duration = Duration::from_secs(30);
/// About as many rows as a busy agent sends at once.
const ROWS: usize = 4096;

/// Reads rows as JSON from standard input, one on each line, and sends them.
#[derive(Debug, Parser)]
struct Flags {
    /// The server's port for agents.
    #[arg(long)]
    server: String,
}

/// The parts of a row that an agent could know.
#[derive(Debug, serde::Deserialize)]
struct Line {
    id: String,
    capture: String,
    kind: String,
    service: String,
    host: String,
    process: u32,
    operation: String,
    start_unix_nano: i64,
    duration_nano: i64,
    /// Each served request has its own fragment.
    fragment: Option<u64>,
    /// Both sides of a hop have the same two numbers.
    sequences: Option<(u32, u32)>,
    attributes: BTreeMap<String, String>,
}

impl Line {
    fn span(self) -> anyhow::Result<Span> {
        let (id, capture, kind): (SpanId, Capture, Kind) =
            (self.id.parse()?, self.capture.parse()?, self.kind.parse()?);
        let mut span = Span::new(
            id,
            capture,
            kind,
            self.service,
            self.operation,
            self.start_unix_nano,
            self.duration_nano,
        );
        span.protocol = Some(protocol::HTTP.to_owned());
        span.instance = Some(format!("{}/{}", self.host, self.process));
        span.host = Some(self.host);
        span.process_id = Some(self.process);
        span.fragment_id = self.fragment;
        span.request_tcp_seq = self.sequences.map(|(request, _)| request);
        span.response_tcp_seq = self.sequences.map(|(_, response)| response);
        // This is how an agent reports that a call may belong to several requests.
        span.evidence = (capture == Capture::ClientProcess).then_some(Evidence::Ambiguous);
        let text = |(key, value)| (key, AttributeValue::String(value));
        span.attributes = self.attributes.into_iter().map(text).collect();
        Ok(span)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let mut upload = Upload::new(&flags.server, PATIENCE)?;
    let mut origin = Origin { source: rand::rng().random(), sequence: 0 };
    let mut waiting = Vec::with_capacity(ROWS);
    for (number, line) in io::stdin().lock().lines().enumerate() {
        let read = serde_json::from_str::<Line>(&line?).map_err(anyhow::Error::from);
        let span = read.and_then(Line::span).with_context(|| format!("line {}", number + 1))?;
        waiting.push(span);
        if waiting.len() == ROWS {
            send(&mut upload, &mut origin, &mut waiting).await?;
        }
    }
    send(&mut upload, &mut origin, &mut waiting).await
}

async fn send(
    upload: &mut Upload,
    origin: &mut Origin,
    waiting: &mut Vec<Span>,
) -> anyhow::Result<()> {
    if waiting.is_empty() {
        return Ok(());
    }
    let batch = waiting.iter().collect::<SpanBatchBuilder>().finish()?;
    waiting.clear();
    origin.sequence += 1;
    upload.put(&batch.into(), *origin).await?;
    Ok(())
}
