//! What the tests of the tracer share: recordings, and spans as text.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod plugins;

use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use spanwise_capture_protocols::process::{Naming, Process, ProcessDirectory, Runtime};
use spanwise_capture_tracer::event::Direction;
use spanwise_capture_tracer::recording::{self, RecordedData, RecordedEvent};
use spanwise_capture_tracer::{Tracer, TracerConfig};
use spanwise_model::{ResourceJson, Span};

/// Knows every process by its number.
pub(crate) struct Everyone;

impl ProcessDirectory for Everyone {
    fn describe(&mut self, process: u32) -> Arc<Process> {
        let executable = format!("p{process}");
        Arc::new(Process {
            process,
            host: "host".to_owned(),
            instance: format!("host/{process}"),
            runtime: Runtime::Other(executable.clone()),
            resource: ResourceJson::default(),
            default_service: executable.clone(),
            served_ports: Vec::new(),
            search_domains: vec!["svc.cluster.local".to_owned(), "cluster.local".to_owned()],
            naming: Naming::ByPort { executable, rules: Arc::new([]) },
        })
    }

    fn forget(&mut self, _process: u32) {}
}

/// Where recordings are.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded")
}

/// A protocol's folder, a recording's name in it, and its events.
pub(crate) type Recording = (String, String, Vec<RecordedEvent>);

/// Every recording.
pub(crate) fn recordings() -> &'static [Recording] {
    static RECORDINGS: OnceLock<Vec<Recording>> = OnceLock::new();
    RECORDINGS.get_or_init(read_recordings)
}

fn read_recordings() -> Vec<Recording> {
    let mut found = Vec::new();
    for protocol in std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()) {
        if !protocol.is_dir() {
            continue;
        }
        for path in std::fs::read_dir(&protocol).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                let events = recording::read(BufReader::new(File::open(&path).unwrap())).unwrap();
                let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
                found.push((name(&protocol), name(&path), events));
            }
        }
    }
    found.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    assert!(found.len() >= 10, "recordings are missing from {}", folder().display());
    found
}

/// A tracer whose ids are the same in every run.
pub(crate) fn tracer() -> Tracer {
    Tracer::new(TracerConfig { seed: Some(7), ..TracerConfig::default() }, Box::new(Everyone))
}

/// The spans of events, with time passing after the last.
pub(crate) fn spans(tracer: &mut Tracer, events: &[RecordedEvent]) -> Vec<Span> {
    let mut found = Vec::new();
    let mut last = 0;
    for event in events {
        let moved = match event {
            RecordedEvent::Data(data) => Some(data.time_nano),
            RecordedEvent::Datagram(datagram) => Some(datagram.time_nano),
            _ => None,
        };
        if let Some(time_nano) = moved {
            // As the agent does, which polls some ten times a second.
            tracer.tick(time_nano);
            last = last.max(time_nano);
        }
        tracer.event(&event.event());
    }
    tracer.tick(last + 1_000_000_000);
    tracer.drain(&mut found).unwrap();
    found
}

/// Splits each transfer's captured bytes into pieces of these sizes, taken in
/// turn, as if each had been a system call of its own.
pub(crate) fn split(events: &[RecordedEvent], sizes: &[usize]) -> Vec<RecordedEvent> {
    let mut sizes = sizes.iter().cycle();
    let mut pieces = Vec::new();
    for event in events {
        let RecordedEvent::Data(data) = event else {
            pieces.push(event.clone());
            continue;
        };
        let mut rest = data.clone();
        while !rest.bytes.is_empty() {
            let size = (*sizes.next().unwrap()).clamp(1, rest.bytes.len());
            if size == rest.bytes.len() {
                break;
            }
            let tail = rest.bytes.split_off(size);
            let piece = RecordedData { length: size as u32, ..rest.clone() };
            rest.seq = rest.seq.wrapping_add(size as u32);
            rest.length -= size as u32;
            rest.bytes = tail;
            pieces.push(RecordedEvent::Data(piece));
        }
        pieces.push(RecordedEvent::Data(rest));
    }
    pieces
}

/// Spans as text for people to review, ids replaced by short names.
pub(crate) fn render(spans: &[Span]) -> String {
    let mut fragments: HashMap<u64, usize> = HashMap::new();
    let mut text = String::new();
    for span in spans {
        let _ = write!(
            text,
            "{} {} {} `{}` {} at {} for {} us",
            span.capture,
            span.kind,
            span.protocol.as_deref().unwrap_or("-"),
            span.operation,
            span.service,
            span.start_unix_nano / 1000,
            span.duration_nano / 1000,
        );
        let _ = write!(
            text,
            "\n  seq {:?}/{:?} bytes {:?}/{:?} port {:?} connect {:?}",
            span.request_tcp_seq,
            span.response_tcp_seq,
            span.network.request_bytes,
            span.network.response_bytes,
            span.flow.client_port,
            span.network.connect_nano,
        );
        if let Some(fragment) = span.fragment_id {
            let next = fragments.len() + 1;
            let _ = write!(text, " fragment {}", fragments.entry(fragment).or_insert(next));
        }
        if let Some(evidence) = span.evidence {
            let _ = write!(text, " evidence {evidence} {:?}", span.confidence);
        }
        let _ = write!(text, "\n  {}", span.status);
        if let Some(code) = span.status_code {
            let _ = write!(text, " {code}");
        }
        if let Some(error) = &span.error {
            let _ = write!(text, " ({error})");
        }
        if let (Some(trace), Some(parent)) = (span.trace_id, span.parent_span_id) {
            let _ = write!(text, " trace {trace} parent {parent}");
        }
        if let Some(id) = &span.x_request_id {
            let _ = write!(text, " x-request-id {id}");
        }
        if let Some(messages) = &span.logical_key {
            let _ = write!(text, "\n  messages {messages}");
        }
        for (key, value) in &span.attributes {
            let _ = write!(text, "\n  {key} = {value}");
        }
        text.push('\n');
    }
    text
}

/// A transfer, put together by hand.
pub(crate) fn data(connection: u64, direction: Direction, seq: u32, bytes: &[u8]) -> RecordedEvent {
    RecordedEvent::Data(RecordedData {
        time_nano: 1_000_000_000 + u64::from(seq) * 1000,
        connection,
        process: 1,
        thread: 1,
        direction,
        seq,
        length: bytes.len() as u32,
        srtt_micros: 100,
        retransmits: 0,
        plaintext: None,
        unread: None,
        task: 0,
        parent_task: 0,
        current_span: 0,
        sleeps: 0,
        bytes: bytes.to_vec(),
    })
}

/// A conversation put together by hand, as a server's connection sees it, a
/// millisecond between two transfers.
pub(crate) struct Talk {
    pub(crate) events: Vec<RecordedEvent>,
    seqs: [u32; 2],
    time_nano: u64,
}

impl Talk {
    pub(crate) fn new() -> Self {
        Self { events: Vec::new(), seqs: [1000, 9000], time_nano: 1_000_000_000 }
    }

    /// What the client says.
    pub(crate) fn ask(self, bytes: &[u8]) -> Self {
        self.cut(Direction::Received, bytes, 0)
    }

    /// What the server says.
    pub(crate) fn answer(self, bytes: &[u8]) -> Self {
        self.cut(Direction::Sent, bytes, 0)
    }

    /// A transfer whose last `unseen` bytes were only counted.
    pub(crate) fn cut(mut self, direction: Direction, bytes: &[u8], unseen: u32) -> Self {
        let RecordedEvent::Data(mut event) = data(1, direction, self.advance(direction), bytes)
        else {
            unreachable!("data makes data");
        };
        event.length += unseen;
        self.time_nano += 1_000_000;
        event.time_nano = self.time_nano;
        self.seqs[usize::from(direction == Direction::Sent)] += event.length;
        self.events.push(RecordedEvent::Data(event));
        self
    }

    /// Bytes of which nothing is reported.
    pub(crate) fn lost(mut self, direction: Direction, bytes: u32) -> Self {
        self.seqs[usize::from(direction == Direction::Sent)] += bytes;
        self
    }

    const fn advance(&self, direction: Direction) -> u32 {
        match direction {
            Direction::Received => self.seqs[0],
            Direction::Sent => self.seqs[1],
        }
    }

    /// What comes of it, each span as its operation and its error.
    pub(crate) fn spans(&self) -> Vec<String> {
        let found = spans(&mut tracer(), &self.events);
        found
            .iter()
            .map(|span| match &span.error {
                Some(error) => format!("{}: {error}", span.operation),
                None => span.operation.clone(),
            })
            .collect()
    }

    /// The counters that are not 0 after it.
    pub(crate) fn counters(&self) -> HashMap<&'static str, u64> {
        let mut tracer = tracer();
        spans(&mut tracer, &self.events);
        tracer.counters().into_iter().filter(|(_, value)| *value > 0).collect()
    }
}
