//! What traced processes say to each other as bytes that a fuzzer can change: a
//! byte of form, then one event after another, each of a header of five bytes
//! and the bytes that were captured.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use spanwise_capture_tracer::event::{
    Closed, Command, Direction, Endpoint, LeftOut, Opened, Plaintext, Record, Records, Role, Task,
    Unread,
};
use spanwise_capture_tracer::recording::{self, RecordedData, RecordedDatagram, RecordedEvent};
use spanwise_capture_tracer::{Assumed, Tracer, TracerConfig};

use crate::processes::Directory;

/// Longest that the kernel side captures of a call.
const CAPTURED: usize = 1024;
/// What two connections may hold.
const MOST_HELD_BYTES: usize = 5 << 20;
/// Longest input, as `run.sh` has it; a seed that is longer would be cut.
const MOST_INPUT_BYTES: usize = 65_536;
const START_NANO: u64 = 1_000_000_000;
/// Between two events.
const STEP_NANO: u64 = 1_000_000;
/// Beyond this, what waits for its other half has been given up.
const LONG_NANO: u64 = 200_000_000_000;

/// In the byte of form: the connections were seen to open, the first as a
/// client's and the second as a server's.
const OPENED: u8 = 1;
/// In the byte of form: what goes through the sockets was decrypted.
const DECRYPTED: u8 = 2;
/// In the byte of form: threads are logical tasks.
const TASKS: u8 = 4;

/// In an event's first byte: sent, rather than received.
const SENT: u8 = 1;
/// In an event's first byte: the second connection.
const SECOND: u8 = 2;
/// In an event's first byte: which thread of the process.
const THREAD_SHIFT: u8 = 2;
const THREAD_MASK: u8 = 3;
/// In an event's first byte: what it is.
const KIND_SHIFT: u8 = 4;
/// Bytes were lost.
const LOST: u8 = 15;
/// A datagram.
const DATAGRAM: u8 = 14;
/// The connection is closed.
const CLOSED: u8 = 13;
/// Time passes.
const PAUSE: u8 = 12;
/// TLS records went out.
const RECORDS: u8 = 11;
/// The connection is left out from here on.
const LEFT_OUT: u8 = 10;
/// Bytes went by that the kernel side could not read.
const UNREAD: u8 = 9;
/// Something is learnt about a logical task: its number and that of the one that made
/// it, what it works on, and whether it is new.
const TASK: u8 = 8;

/// What makes a connection one of WebSocket: that is no protocol to begin with.
const UPGRADE: [&[u8]; 2] = [
    b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
];

/// Whose parser is to be reached.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// That of whatever protocol the bytes look like.
    Any,
    /// This one's, whatever the bytes.
    Assumed(Assumed),
    /// WebSocket's, which HTTP/1 hands over to.
    WebSocket,
}

impl Goal {
    /// The goal of this name, which is a protocol's or `traffic`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "traffic" => Some(Self::Any),
            "websocket" => Some(Self::WebSocket),
            name => Assumed::named(name).map(Self::Assumed),
        }
    }

    fn assumed(self) -> Option<Assumed> {
        match self {
            Self::Any => None,
            Self::Assumed(assumed) => Some(assumed),
            Self::WebSocket => Assumed::named("http1"),
        }
    }
}

/// The next event of an input.
struct Step<'a> {
    first: u8,
    /// Bytes that went through and were not captured; of a pause, how long it is.
    more: u16,
    captured: &'a [u8],
}

impl<'a> Step<'a> {
    fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let ([first, low, high, more_low, more_high], rest) = bytes.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(CAPTURED).min(rest.len());
        let (captured, rest) = rest.split_at(length);
        let more = u16::from_le_bytes([*more_low, *more_high]);
        Some((Self { first: *first, more, captured }, rest))
    }

    fn write(&self, to: &mut Vec<u8>) {
        to.push(self.first);
        // What is written was captured, so it is no longer than that.
        to.extend((self.captured.len() as u16).to_le_bytes());
        to.extend(self.more.to_le_bytes());
        to.extend(self.captured);
    }

    const fn kind(&self) -> u8 {
        self.first >> KIND_SHIFT
    }

    const fn connection(&self) -> usize {
        (self.first & SECOND != 0) as usize
    }

    const fn direction(&self) -> Direction {
        if self.first & SENT == 0 { Direction::Received } else { Direction::Sent }
    }
}

const fn endpoint(port: u16) -> Endpoint {
    Endpoint { address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port }
}

/// Two connections, as far as they are made up here.
struct Play {
    tracer: Tracer,
    time_nano: u64,
    decrypted: bool,
    tasks: bool,
    seqs: [[u32; 2]; 2],
    offsets: [[u32; 2]; 2],
}

impl Play {
    fn data(&mut self, step: &Step<'_>) {
        let (connection, direction) = (step.connection(), step.direction());
        let way = usize::from(step.first & SENT);
        let length = step.captured.len() as u32 + u32::from(step.more);
        let seq = self.seqs[connection][way];
        let offset = self.offsets[connection][way];
        self.seqs[connection][way] = seq.wrapping_add(length);
        self.offsets[connection][way] = offset.wrapping_add(length);
        if step.kind() == LOST {
            return;
        }
        self.tracer.tick(self.time_nano);
        let event = RecordedEvent::Data(RecordedData {
            time_nano: self.time_nano,
            connection: connection as u64 + 1,
            process: connection as u32 + 1,
            thread: u32::from(step.first >> THREAD_SHIFT & THREAD_MASK) + 1,
            direction,
            seq,
            length,
            srtt_micros: 100,
            retransmits: 0,
            plaintext: self.decrypted.then_some(Plaintext {
                offset,
                // What is sent waits for its record.
                placed: direction == Direction::Received,
            }),
            task: if self.tasks { u64::from(step.first >> THREAD_SHIFT & THREAD_MASK) } else { 0 },
            parent_task: 0,
            current_span: 0,
            sleeps: if self.tasks { 0 } else { 1 + u32::from(step.first >> 7) },
            unread: (step.kind() == UNREAD).then_some(Unread::File),
            bytes: if step.kind() == UNREAD { Vec::new() } else { step.captured.to_vec() },
        });
        self.tracer.event(&event.event());
    }

    fn datagram(&mut self, step: &Step<'_>) {
        let process = step.connection() as u32 + 1;
        let event = RecordedEvent::Datagram(RecordedDatagram {
            time_nano: self.time_nano,
            process,
            thread: process,
            direction: step.direction(),
            local: endpoint(53),
            remote: (step.more < 256).then(|| endpoint(step.more)),
            network_namespace: 1,
            command: Command::default(),
            length: step.captured.len() as u32,
            task: 0,
            parent_task: 0,
            current_span: 0,
            sleeps: 0,
            bytes: step.captured.to_vec(),
        });
        self.tracer.event(&event.event());
    }

    fn closed(&mut self, step: &Step<'_>) {
        let event = RecordedEvent::Closed(Closed {
            time_nano: self.time_nano,
            connection: step.connection() as u64 + 1,
            reset: step.first & SENT != 0,
            retransmits: 0,
            received_up_to: (step.more & 1 == 1).then(|| self.seqs[step.connection()][0]),
        });
        self.tracer.event(&event.event());
    }

    fn task(&mut self, step: &Step<'_>) {
        let byte = |at: usize| u64::from(step.captured.get(at).copied().unwrap_or_default());
        let event = RecordedEvent::Task(Task {
            time_nano: self.time_nano,
            process: step.connection() as u32 + 1,
            // The two highest bits tell kinds of work apart.
            task: byte(0) & 7 | byte(0) >> 6 << 61,
            parent_task: byte(1) & 7 | byte(1) >> 6 << 61,
            connection: byte(2) & 3,
            stream: byte(3),
            new: step.first & SENT != 0,
            lasting: byte(4) & 1 != 0,
            teller: u32::from(byte(4) as u8 >> 1 & 3),
            giver: byte(4) >> 3 & 7,
        });
        self.tracer.event(&event.event());
    }

    fn left_out(&mut self, step: &Step<'_>) {
        let event = RecordedEvent::LeftOut(LeftOut {
            time_nano: self.time_nano,
            connection: step.connection() as u64 + 1,
        });
        self.tracer.event(&event.event());
    }

    fn records(&mut self, step: &Step<'_>) {
        let mut records = [Record::default(); 8];
        for (record, length) in records.iter_mut().zip(step.captured.chunks(2)) {
            let length = length.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            *record = Record { seq: self.seqs[step.connection()][1], length };
        }
        let event = RecordedEvent::Records(Records {
            time_nano: self.time_nano,
            connection: step.connection() as u64 + 1,
            records,
        });
        self.tracer.event(&event.event());
    }

    /// Both connections go over to WebSocket.
    fn upgrade(&mut self) {
        for connection in [0, SECOND] {
            for (index, captured) in UPGRADE.into_iter().enumerate() {
                // The client sends the request, and the server receives it.
                let sends = (index == 0) == (connection == 0);
                let first = connection | if sends { SENT } else { 0 };
                self.data(&Step { first, more: 0, captured });
            }
        }
    }

    fn opened(&mut self) {
        for (connection, role) in [(1, Role::Client), (2, Role::Server)] {
            let event = RecordedEvent::Opened(Opened {
                time_nano: self.time_nano,
                connection,
                process: connection as u32,
                thread: 1,
                sleeps: 0,
                role,
                local: endpoint(40_000),
                remote: endpoint(5),
                network_namespace: 1,
                connect_nano: Some(5),
                first_seqs: Some([1000; 2]),
                unix: None,
                command: Command::default(),
            });
            self.tracer.event(&event.event());
        }
    }
}

/// Plays an input to a tracer; returns how many spans came of it.
pub fn play(input: &[u8], goal: Goal) -> usize {
    let config = TracerConfig { seed: Some(7), assumed: goal.assumed(), ..TracerConfig::default() };
    let Some((form, mut rest)) = input.split_first() else { return 0 };
    let mut play = Play {
        tracer: Tracer::new(config, Box::new(Directory)),
        time_nano: START_NANO,
        decrypted: form & DECRYPTED != 0,
        tasks: form & TASKS != 0,
        seqs: [[1000; 2]; 2],
        offsets: [[0; 2]; 2],
    };
    if form & OPENED != 0 {
        play.opened();
    }
    if matches!(goal, Goal::WebSocket) {
        play.upgrade();
    }
    while let Some((step, after)) = Step::read(rest) {
        rest = after;
        play.time_nano += STEP_NANO;
        match step.kind() {
            DATAGRAM => play.datagram(&step),
            CLOSED => play.closed(&step),
            LEFT_OUT => play.left_out(&step),
            TASK => play.task(&step),
            PAUSE => {
                play.time_nano += u64::from(step.more) * 10 * STEP_NANO;
                play.tracer.tick(play.time_nano);
            }
            RECORDS => play.records(&step),
            _ => play.data(&step),
        }
        let held = play.tracer.held_bytes();
        assert!(held < MOST_HELD_BYTES, "{held} bytes are held");
    }
    play.tracer.tick(play.time_nano + LONG_NANO);
    play.tracer.report_open();
    let mut spans = Vec::new();
    play.tracer.drain(&mut spans).expect("the tracer makes valid rows");
    spans.len()
}

/// Writes recordings as inputs, one a connection. What was recorded of the goal's
/// protocol, that is, of all where there is none.
pub fn write_seeds(name: &str, goal: Goal, recorded: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder for seeds");
    let mut spans = 0;
    for folder in entries(recorded) {
        let of = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !folder.is_dir() || !(matches!(goal, Goal::Any) || of == name) {
            continue;
        }
        for path in entries(&folder) {
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            let recording = path.file_stem().unwrap_or_default().to_string_lossy();
            let file = BufReader::new(fs::File::open(&path).expect("a recording"));
            let events = recording::read(file).expect("a recording");
            let connections: BTreeSet<Option<u64>> = events.iter().map(connection).collect();
            for only in connections {
                let seed = seed(&events, only, goal);
                spans += play(&seed, goal);
                let number = only.unwrap_or_default();
                let file = to.join(format!("{of}-{recording}-{number}"));
                fs::write(file, seed).expect("a seed is written");
            }
        }
    }
    assert!(spans > 0, "no span comes of what was recorded of {name}: its parser is not reached");
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of recordings");
    entries.map(|entry| entry.expect("a file").path()).collect()
}

/// Which connection it is of; none where it is a datagram, or of none.
fn connection(event: &RecordedEvent) -> Option<u64> {
    match event {
        RecordedEvent::Opened(opened) => Some(opened.connection),
        RecordedEvent::Data(data) => Some(data.connection),
        RecordedEvent::Records(records) => Some(records.connection),
        RecordedEvent::Closed(closed) => Some(closed.connection),
        _ => None,
    }
}

/// The events of one connection, or the datagrams.
fn seed(events: &[RecordedEvent], only: Option<u64>, goal: Goal) -> Vec<u8> {
    let mut input = vec![0];
    let mut slot = 0;
    // Of WebSocket, what comes first each way was played already.
    let mut played = [matches!(goal, Goal::WebSocket); 2];
    for event in events.iter().filter(|event| connection(event) == only) {
        match event {
            RecordedEvent::Opened(opened) => {
                slot = if opened.role == Role::Server { SECOND } else { 0 };
                input[0] |= OPENED;
            }
            RecordedEvent::Data(data) => {
                let way = u8::from(data.direction == Direction::Sent) * SENT;
                if std::mem::take(&mut played[usize::from(way)]) {
                    continue;
                }
                if data.plaintext.is_some() {
                    input[0] |= DECRYPTED;
                }
                write(&mut input, slot | way, &data.bytes, data.length as usize);
            }
            RecordedEvent::Datagram(datagram) => {
                let way = u8::from(datagram.direction == Direction::Sent) * SENT;
                let asks = datagram.remote.is_none_or(|remote| remote.port == 53);
                let first = DATAGRAM << KIND_SHIFT | if asks { 0 } else { SECOND } | way;
                write(&mut input, first, &datagram.bytes, datagram.bytes.len());
            }
            RecordedEvent::Closed(_) => write(&mut input, CLOSED << KIND_SHIFT | slot, &[], 0),
            RecordedEvent::Records(_)
            | RecordedEvent::Task(_)
            | RecordedEvent::Thread(_)
            | RecordedEvent::Exec(_)
            | RecordedEvent::Exit(_)
            | RecordedEvent::LeftOut(_)
            | RecordedEvent::StreamName(_) => {}
        }
        if input.len() > MOST_INPUT_BYTES - 2 * CAPTURED {
            break;
        }
    }
    input
}

fn write(to: &mut Vec<u8>, first: u8, captured: &[u8], length: usize) {
    let captured = &captured[..captured.len().min(CAPTURED)];
    let more = length.saturating_sub(captured.len()).min(usize::from(u16::MAX)) as u16;
    Step { first, more, captured }.write(to);
}
