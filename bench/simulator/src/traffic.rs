//! Runs of a topology, as they really were and as spans.

use spanwise_model::{Capture, Kind, Span, SpanId, Status, TraceId};

use crate::paths::{PathAt, Paths};
use crate::random::Random;
use crate::topology::{Edge, Mode, OperationAt, Topology};

/// A call as it really was.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) path: PathAt,
    operation: OperationAt,
    pub(crate) caller: Option<usize>,
    kind: Leg,
    /// On the caller's side.
    start: i64,
    end: i64,
    /// On the called side.
    served: (i64, i64),
    pub(crate) self_nano: i64,
    pub(crate) failed: bool,
}

/// The part of an exchange that a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leg {
    Entrance,
    Request,
    Unseen,
    /// From the producer to the broker.
    Produced,
    /// From the broker to the consumer.
    Consumed,
}

/// Makes runs.
pub(crate) struct Traffic<'a> {
    topology: &'a Topology,
    pub(crate) paths: Paths,
    random: Random,
    calls: Vec<Made>,
    runs: u64,
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(topology: &'a Topology, seed: u64) -> Self {
        let (paths, random) = (Paths::default(), Random::new(seed));
        Self { topology, paths, random, calls: Vec::new(), runs: 0 }
    }

    /// A run of an entrance that starts at this time, callers before the called.
    pub(crate) fn run(&mut self, entrance: OperationAt, start: i64) -> &[Made] {
        self.calls.clear();
        self.runs += 1;
        let path = self.paths.root(entrance);
        self.call(entrance, path, None, start, Leg::Entrance);
        &self.calls
    }

    /// Makes a call. Returns its end on the caller's side, and whether it failed.
    fn call(
        &mut self,
        operation: OperationAt,
        path: PathAt,
        caller: Option<usize>,
        start: i64,
        kind: Leg,
    ) -> (i64, bool) {
        let place = self.calls.len();
        let (outward, back) = match kind {
            Leg::Request => (self.random.nano(150_000.0), self.random.nano(150_000.0)),
            _ => (0, 0),
        };
        self.calls.push(Made {
            path,
            operation,
            caller,
            kind,
            start,
            end: start,
            served: (start, start),
            self_nano: 0,
            failed: false,
        });
        let from = start + outward;
        let (to, failed) = match kind {
            Leg::Produced => (from + self.random.nano(300_000.0), false),
            Leg::Unseen => {
                let failed = self.random.happens(self.topology.operations[operation].failure);
                (from + self.random.nano(900_000.0), failed)
            }
            Leg::Entrance | Leg::Request | Leg::Consumed => self.serve(operation, place, from),
        };
        let covered = self.covered(place, from, to);
        let made = &mut self.calls[place];
        made.served = (from, to);
        made.end = to + back;
        made.failed = failed;
        made.self_nano = outward + back + (to - from) - covered;
        (made.end, failed)
    }

    /// What an operation does when it is called. Returns its end, and whether it failed.
    fn serve(&mut self, operation: OperationAt, place: usize, from: i64) -> (i64, bool) {
        let topology = self.topology;
        let Some(known) = topology.operations.get(operation) else { return (from, false) };
        let fails = self.random.happens(known.failure);
        let mut now = from + self.random.nano(known.work_nano);
        // Half of the operations that fail do so before they call anything.
        if fails && self.random.happens(0.5) {
            return (now, true);
        }
        for group in known.edges.chunk_by(|one, two| one.group == two.group) {
            let (mut ends, mut stops) = (now, false);
            for edge in group {
                let (end, failed) = self.follow(edge, place, now);
                ends = ends.max(end);
                stops |= failed && edge.is_strong;
            }
            now = ends + self.random.nano(known.work_nano);
            if stops {
                return (now, true);
            }
        }
        (now, fails)
    }

    /// Makes the calls of an edge. Returns their end, and whether the last one failed for good.
    fn follow(&mut self, edge: &Edge, caller: usize, start: i64) -> (i64, bool) {
        if !self.random.happens(edge.probability) {
            return (start, false);
        }
        let (least, most) = edge.fan_out;
        let items = least + self.random.below((most - least + 1) as usize) as u32;
        let (mut now, mut failed) = (start, false);
        for _ in 0..items {
            for attempt in 0..=edge.retries {
                if attempt > 0 {
                    now += self.random.nano(1e6);
                }
                (now, failed) = self.attempt(edge, caller, now);
                if !failed {
                    break;
                }
            }
            if failed && edge.is_strong {
                break;
            }
        }
        (now, failed)
    }

    fn attempt(&mut self, edge: &Edge, caller: usize, start: i64) -> (i64, bool) {
        let above = self.calls[caller].path;
        match edge.mode {
            Mode::Request | Mode::Unseen => {
                let path = self.paths.below(above, edge.to, false);
                let kind = if edge.mode == Mode::Unseen { Leg::Unseen } else { Leg::Request };
                self.call(edge.to, path, Some(caller), start, kind)
            }
            Mode::Message => {
                let path = self.paths.below(above, edge.to, true);
                let producer = self.calls.len();
                let sent = self.call(edge.to, path, Some(caller), start, Leg::Produced);
                let path = self.paths.below(path, edge.to, false);
                let taken = sent.0 + self.random.nano(5e6);
                self.call(edge.to, path, Some(producer), taken, Leg::Consumed);
                sent
            }
        }
    }

    /// How much of this time calls of this call take.
    fn covered(&self, place: usize, from: i64, to: i64) -> i64 {
        let mut times: Vec<(i64, i64)> = Vec::new();
        for call in &self.calls[place + 1..] {
            if call.caller == Some(place) && call.kind != Leg::Consumed {
                times.push((call.start.max(from), 1));
                times.push((call.end.min(to), -1));
            }
        }
        times.sort_unstable();
        let (mut open, mut since, mut covered) = (0, from, 0);
        for (time, change) in times {
            if open > 0 {
                covered += time - since;
            }
            (open, since) = (open + change, time);
        }
        covered
    }

    /// The trace id of the last run.
    pub(crate) fn trace_id(&self) -> TraceId {
        let mut id = [0x5a; 16];
        id[8..].copy_from_slice(&self.runs.to_be_bytes());
        TraceId(id)
    }

    /// The spans of the last run, as SDKs on hosts with clocks of their own report them.
    pub(crate) fn spans(&self, spans: &mut Vec<Span>) {
        let trace_id = self.trace_id();
        let clock = |operation: OperationAt| (operation % 7) as i64 * 3_000_000;
        // The span below which a call's own calls are.
        let mut inside: Vec<SpanId> = Vec::with_capacity(self.calls.len());
        let mut number = (self.runs << 16) ^ 0x00c0_ffee_0000_0000;
        let mut id = || {
            number += 1;
            SpanId(number.to_be_bytes())
        };
        for call in &self.calls {
            let known = &self.topology.operations[call.operation];
            let mut report =
                |kind: Kind, at: OperationAt, name: &str, parent, (start, end): (i64, i64)| {
                    let service = self.topology.operations[at].service.as_str();
                    let own = id();
                    let mut span = Span::new(
                        own,
                        Capture::App,
                        kind,
                        service,
                        name,
                        start + clock(at),
                        end - start,
                    );
                    (span.trace_id, span.parent_span_id) = (Some(trace_id), parent);
                    if call.failed && kind != Kind::Internal {
                        span.status = Status::Error;
                    }
                    span.protocol = match call.kind {
                        Leg::Unseen => Some("mysql".into()),
                        Leg::Produced | Leg::Consumed => Some("kafka".into()),
                        _ => Some("http".into()),
                    };
                    spans.push(span);
                    own
                };
            let above = call.caller.map(|caller| (inside[caller], self.calls[caller].operation));
            let parent = above.map(|(parent, _)| parent);
            let caller = above.map_or(call.operation, |(_, operation)| operation);
            let sides = (call.start, call.end);
            let mut last = match call.kind {
                Leg::Entrance => {
                    report(Kind::Server, call.operation, &known.name, None, call.served)
                }
                Leg::Request => {
                    let client = report(Kind::Client, caller, &known.name, parent, sides);
                    report(Kind::Server, call.operation, &known.name, Some(client), call.served)
                }
                Leg::Unseen => report(Kind::Client, caller, &known.name, parent, sides),
                Leg::Produced => {
                    report(Kind::Producer, caller, &published(&known.service), parent, sides)
                }
                Leg::Consumed => {
                    report(Kind::Consumer, call.operation, &known.name, parent, call.served)
                }
            };
            let is_inside = matches!(call.kind, Leg::Entrance | Leg::Request | Leg::Consumed);
            if is_inside && call.operation % 5 == 0 && !known.edges.is_empty() {
                last = report(Kind::Internal, call.operation, "handle", Some(last), call.served);
            }
            inside.push(last);
        }
    }
}

/// The name of sending a message to a service.
pub(crate) fn published(service: &str) -> String {
    format!("publish {service}")
}
