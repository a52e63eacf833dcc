//! Metrics of a host and its processes from what LTTng's kernel tracer records of the scheduler.
//!
//! A trace tells which thread each processor runs, from one switch to the next. Where events are
//! missing nothing is known: that time and those waits are not guessed, but counted as unknown.

use std::collections::{BTreeMap, HashMap, VecDeque};

use spanwise_native::host::{
    PROCESS_CONTEXT_SWITCHES, PROCESS_CPU_TIME, PROCESS_RUN_QUEUE_LATENCY, SYSTEM_CPU_TIME,
    SYSTEM_NETWORK_IO, SYSTEM_RUN_QUEUE_LATENCY, WAIT_BUCKETS, wait_bounds_seconds,
};
use spanwise_native::otlp::{
    MetricKind, Number, NumberKind, NumberMetric, NumberPoint, ResourceValue, numbers,
};

use crate::fields;
use crate::trace::{Event, Trace};

/// The event that everything else here is about.
pub(crate) const SWITCH: &str = "sched_switch";

const THREADS_MAX: usize = 65_536;
/// Processes, and threads that stand for themselves.
const OWNERS_MAX: usize = 32_768;
/// When so many processes have ended they are reported early, to make room.
const ENDED_MAX: usize = 1024;
const PROCESSORS_MAX: usize = 8192;
const INTERFACES_MAX: usize = 1024;
/// How often figures are reported, in the trace's time: as often as an agent does.
const EVERY_NS: u64 = 10_000_000_000;
/// A message is sent when it has so many bytes.
const MESSAGE_BYTES: usize = 1 << 20;

/// Bits of `prev_state`. Without a sleeping one the thread could run: it was preempted, or gave its
/// processor away. Preemption has a bit of its own, which differs among kernels.
const ASLEEP: u64 = 0xff;
/// Since Linux 4.14; before, threads end in a state that has other meanings now.
const DEAD: u64 = 0x30;

/// Whose figures they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Owner {
    Process(u32),
    /// A thread whose process is not known.
    Thread(u32),
}

#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    cpu_ns: u64,
    waits: [u64; WAIT_BUCKETS],
    waited_ns: u64,
    /// It had to wait for something; it could have gone on.
    switches: [u64; 2],
}

#[derive(Debug, Default)]
struct Known {
    figures: Figures,
    name: String,
    start_ns: u64,
    /// Threads that were seen and have not ended.
    threads: usize,
    has_changed: bool,
    was_reported: bool,
}

#[derive(Debug)]
struct Thread {
    owner: Owner,
    waiting_since_ns: Option<u64>,
    is_exiting: bool,
}

#[derive(Debug)]
struct Processor {
    /// Up to here its time is counted, or nothing is known of it.
    counted_ns: u64,
    last_ns: u64,
    running: Option<u32>,
}

/// Points of metrics in a message.
pub(crate) struct Report {
    pub(crate) message: Vec<u8>,
    pub(crate) points: u64,
    /// The time from which they count, and their own.
    pub(crate) times_ns: (u64, u64),
}

/// What of the scheduler's events is not in the figures.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct HostCounts {
    /// Events that figures were made of.
    pub events: u64,
    /// Processes with figures.
    pub processes: u64,
    /// Threads that have figures of their own, because their process is not known.
    pub threads: u64,
    /// Waits for a processor that are left out, because events may be missing in them.
    pub waits_unknown: u64,
    /// Time of processors of which it is not known what they did.
    pub unknown_ns: u64,
    /// Switches from a thread that was not the one that ran.
    pub mismatches: u64,
    /// Events of threads, processors and interfaces beyond the bounds.
    pub crowded: u64,
    /// Whether the trace says when threads wake.
    pub has_wakeups: bool,
}

/// Counts for one trace.
#[derive(Default)]
pub(crate) struct HostFigures {
    pub(crate) counts: HostCounts,
    /// What is to be sent.
    pub(crate) ready: VecDeque<Report>,
    threads: HashMap<u32, Thread>,
    known: BTreeMap<Owner, Known>,
    processors: BTreeMap<u64, Processor>,
    all: Figures,
    idle_ns: u64,
    /// Bytes received and transmitted.
    interfaces: BTreeMap<String, [u64; 2]>,
    /// Where it was recorded.
    host: Option<String>,
    start_ns: Option<u64>,
    now_ns: u64,
    last_report_ns: u64,
    ended: usize,
    /// Waits that began before this are not known.
    gap_end_ns: u64,
    message: Vec<u8>,
    points: u64,
}

/// A field by its exact name, as in the context of the event or its stream.
fn context(event: &Event<'_>, name: &str) -> Option<u32> {
    let mut all = event.context.iter().chain(&event.common);
    let (_, value) = all.find(|(field, _)| *field == name)?;
    u32::try_from(fields::number(value)?).ok()
}

fn id(event: &Event<'_>, name: &str) -> Option<u32> {
    u32::try_from(event.number(name)?).ok()
}

/// The name of a thread, which LTTng writes as an array.
fn comm<'e>(event: &'e Event<'_>, name: &str) -> &'e str {
    let value = event.fields.iter().find(|(field, _)| *field == name);
    value.and_then(|(_, value)| fields::text(value)).unwrap_or_default()
}

fn bucket(waited_ns: u64) -> usize {
    // The n-th holds what is above 2^(n-1) and at most 2^n microseconds.
    let rest = waited_ns.saturating_sub(1) / 1000;
    ((u64::BITS - rest.leading_zeros()) as usize).min(WAIT_BUCKETS - 1)
}

fn seconds(ns: u64) -> Number {
    Number::Float(ns as f64 / 1e9)
}

impl Figures {
    fn wait(&mut self, waited_ns: u64) {
        self.waits[bucket(waited_ns)] += 1;
        self.waited_ns = self.waited_ns.saturating_add(waited_ns);
    }

    fn add(&mut self, more: &Self) {
        self.cpu_ns = self.cpu_ns.saturating_add(more.cpu_ns);
        self.waited_ns = self.waited_ns.saturating_add(more.waited_ns);
        self.waits.iter_mut().zip(more.waits).for_each(|(sum, more)| *sum += more);
        self.switches.iter_mut().zip(more.switches).for_each(|(sum, more)| *sum += more);
    }

    fn buckets(&self) -> Number {
        Number::Buckets {
            bounds: wait_bounds_seconds().collect(),
            counts: self.waits.to_vec(),
            sum: self.waited_ns as f64 / 1e9,
        }
    }
}

impl HostFigures {
    pub(crate) fn new(trace: &Trace) -> Self {
        let host = trace.environment().get("hostname").filter(|host| !host.is_empty()).cloned();
        Self { host, ..Self::default() }
    }

    /// Counts an event, if it is of the scheduler or of the network. Returns whether it was.
    pub(crate) fn event(&mut self, event: &Event<'_>) -> bool {
        self.now_ns = self.now_ns.max(event.time_ns);
        if event.is_in_gap || event.after_gap && event.has_switches {
            self.gap_end_ns = self.now_ns;
        }
        if event.has_switches {
            self.start_ns.get_or_insert(event.time_ns);
            self.pass(event);
        }
        let now_ns = event.time_ns;
        let counted = match event.class.name.as_str() {
            SWITCH => self.switch(event).is_some(),
            "sched_wakeup" | "sched_wakeup_new" | "sched_waking" => {
                self.counts.has_wakeups = true;
                // Old kernels also report attempts.
                let success = event.number("success") != Some(0);
                id(event, "tid").is_some_and(|tid| {
                    if success && tid > 0 && self.thread(tid, comm(event, "comm"), now_ns) {
                        let thread = self.threads.get_mut(&tid);
                        thread.into_iter().for_each(|it| it.waiting_since_ns = Some(now_ns));
                    }
                    true
                })
            }
            "sched_process_fork" => self.fork(event).is_some(),
            "sched_process_exit" => id(event, "tid").is_some_and(|tid| {
                self.threads.get_mut(&tid).into_iter().for_each(|it| it.is_exiting = true);
                true
            }),
            "sched_process_free" => id(event, "tid").is_some_and(|tid| {
                // A thread that is being switched from is freed later.
                if !self.processors.values().any(|it| it.running == Some(tid)) {
                    self.end_thread(tid);
                }
                true
            }),
            "lttng_statedump_process_state" => {
                id(event, "tid").zip(id(event, "pid")).is_some_and(|(tid, pid)| {
                    self.learn(tid, pid, comm(event, "name"), now_ns);
                    true
                })
            }
            "netif_receive_skb" => self.network(event, 0).is_some(),
            "net_dev_xmit" if event.number("rc") == Some(0) => self.network(event, 1).is_some(),
            _ => return false,
        };
        self.counts.events += u64::from(counted);
        counted
    }

    /// Reports if it is time to.
    pub(crate) fn report_if_due(&mut self, trace: &Trace) {
        let since_ns = self.start_ns.unwrap_or(self.now_ns).max(self.last_report_ns);
        let is_due = self.now_ns.saturating_sub(since_ns) >= EVERY_NS || self.ended >= ENDED_MAX;
        if is_due && self.counts.events > 0 {
            self.report(trace);
        }
    }

    /// A processor's stream has come to this event.
    fn pass(&mut self, event: &Event<'_>) {
        let number = event.processor.unwrap_or(event.stream as u64);
        let now_ns = event.time_ns;
        if !self.processors.contains_key(&number) {
            if self.processors.len() >= PROCESSORS_MAX {
                self.counts.crowded += 1;
                return;
            }
            let new = Processor { counted_ns: now_ns, last_ns: now_ns, running: None };
            self.processors.insert(number, new);
        }
        let Some(processor) = self.processors.get_mut(&number) else { return };
        if event.after_gap {
            // What ran before the gap is known up to its last event.
            let (running, ns) = (processor.running.take(), processor.take_counted());
            processor.counted_ns = now_ns;
            let unknown_ns = now_ns.saturating_sub(processor.last_ns);
            self.counts.unknown_ns = self.counts.unknown_ns.saturating_add(unknown_ns);
            processor.last_ns = now_ns;
            match running {
                Some(tid) => self.ran(tid, ns),
                None => self.counts.unknown_ns = self.counts.unknown_ns.saturating_add(ns),
            }
        } else {
            processor.last_ns = processor.last_ns.max(now_ns);
        }
    }

    fn switch(&mut self, event: &Event<'_>) -> Option<()> {
        let (prev, next) = (id(event, "prev_tid")?, id(event, "next_tid")?);
        let now_ns = event.time_ns;
        if let Some(pid) = context(event, "pid") {
            self.learn(prev, pid, comm(event, "prev_comm"), now_ns);
        }
        // Before any time is given to them.
        let knows_prev = prev > 0 && self.thread(prev, comm(event, "prev_comm"), now_ns);
        let knows_next = next > 0 && self.thread(next, comm(event, "next_comm"), now_ns);
        let number = event.processor.unwrap_or(event.stream as u64);
        if let Some(processor) = self.processors.get_mut(&number) {
            let ran = processor.running.replace(next);
            let ns = processor.take_counted();
            if ran.is_none_or(|ran| ran == prev) {
                self.ran(prev, ns);
            } else {
                self.counts.mismatches += 1;
                self.counts.unknown_ns = self.counts.unknown_ns.saturating_add(ns);
                self.gap_end_ns = self.now_ns;
            }
        }
        if knows_prev && let Some(state) = event.number("prev_state") {
            self.leave(prev, state, now_ns);
        }
        if knows_next && let Some(thread) = self.threads.get_mut(&next) {
            let (owner, since) = (thread.owner, thread.waiting_since_ns.take());
            if let Some(since_ns) = since {
                if event.is_in_gap || since_ns < self.gap_end_ns {
                    self.counts.waits_unknown += 1;
                } else {
                    self.all.wait(now_ns.saturating_sub(since_ns));
                    self.change(owner, |of| of.wait(now_ns.saturating_sub(since_ns)));
                }
            }
        }
        Some(())
    }

    /// A thread leaves its processor.
    fn leave(&mut self, tid: u32, state: u64, now_ns: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let could_run = state & ASLEEP == 0;
        thread.waiting_since_ns = could_run.then_some(now_ns);
        let (owner, is_exiting) = (thread.owner, thread.is_exiting);
        self.all.switches[usize::from(could_run)] += 1;
        self.change(owner, |of| of.switches[usize::from(could_run)] += 1);
        if !could_run && (is_exiting || state & DEAD != 0) {
            self.end_thread(tid);
        }
    }

    fn fork(&mut self, event: &Event<'_>) -> Option<()> {
        let now_ns = event.time_ns;
        let (parent, child) = (id(event, "parent_tid")?, id(event, "child_tid")?);
        if let Some(pid) = id(event, "parent_pid") {
            self.learn(parent, pid, comm(event, "parent_comm"), now_ns);
        }
        let pid = id(event, "child_pid")?;
        // Numbers come again.
        self.end_thread(child);
        if pid == child {
            self.end_process(Owner::Process(pid));
        }
        self.learn(child, pid, comm(event, "child_comm"), now_ns);
        if pid == child {
            let known = self.known.get_mut(&Owner::Process(pid));
            known.into_iter().for_each(|known| known.start_ns = now_ns);
        }
        Some(())
    }

    fn network(&mut self, event: &Event<'_>, direction: usize) -> Option<()> {
        let (name, bytes) = (event.text("name")?, event.number("len")?);
        self.start_ns.get_or_insert(event.time_ns);
        if !self.interfaces.contains_key(name) {
            if self.interfaces.len() >= INTERFACES_MAX {
                self.counts.crowded += 1;
                return Some(());
            }
            self.interfaces.insert(name.to_owned(), [0; 2]);
        }
        let sums = self.interfaces.get_mut(name)?;
        sums[direction] = sums[direction].saturating_add(bytes);
        Some(())
    }

    // ---- threads and processes ---------------------------------------------------------------

    /// Whether there is room for a thread. Its name is kept.
    fn thread(&mut self, tid: u32, name: &str, now_ns: u64) -> bool {
        let owner = match self.threads.get(&tid) {
            Some(thread) => thread.owner,
            None => {
                let owner = Owner::Thread(tid);
                if !self.join(tid, owner, now_ns) {
                    return false;
                }
                owner
            }
        };
        self.name(owner, tid, name);
        true
    }

    fn name(&mut self, owner: Owner, tid: u32, name: &str) {
        if let Some(known) = self.known.get_mut(&owner)
            && !name.is_empty()
            && known.name != name
            && (known.name.is_empty()
                || owner == Owner::Process(tid)
                || owner == Owner::Thread(tid))
        {
            name.clone_into(&mut known.name);
        }
    }

    /// A new thread.
    fn join(&mut self, tid: u32, owner: Owner, now_ns: u64) -> bool {
        let is_new = !self.known.contains_key(&owner);
        let start_ns = self.start_ns.unwrap_or(now_ns).max(self.last_report_ns).min(now_ns);
        if self.threads.len() >= THREADS_MAX || is_new && self.known.len() >= OWNERS_MAX {
            self.counts.crowded += 1;
            return false;
        }
        let known =
            self.known.entry(owner).or_insert_with(|| Known { start_ns, ..Known::default() });
        known.threads += 1;
        self.threads.insert(tid, Thread { owner, waiting_since_ns: None, is_exiting: false });
        true
    }

    /// A thread is of this process.
    fn learn(&mut self, tid: u32, pid: u32, name: &str, now_ns: u64) {
        if tid == 0 || pid == 0 {
            return;
        }
        let owner = Owner::Process(pid);
        match self.threads.get(&tid).map(|thread| thread.owner) {
            Some(known) if known == owner => {}
            Some(alone @ Owner::Thread(_)) => {
                let is_new = !self.known.contains_key(&owner);
                let Some(old) = self.known.remove(&alone) else { return };
                let start_ns = old.start_ns;
                let known = self.known.entry(owner).or_default();
                if is_new {
                    known.start_ns = start_ns;
                }
                known.figures.add(&old.figures);
                known.start_ns = known.start_ns.min(start_ns);
                known.has_changed |= old.has_changed;
                known.threads += 1;
                if known.name.is_empty() {
                    known.name = old.name;
                }
                self.threads.get_mut(&tid).into_iter().for_each(|thread| thread.owner = owner);
            }
            // The number has come again, and the end of its thread was not seen.
            Some(Owner::Process(_)) => {
                self.end_thread(tid);
                self.join(tid, owner, now_ns);
            }
            None => {
                self.join(tid, owner, now_ns);
            }
        }
        self.name(owner, tid, name);
    }

    fn end_thread(&mut self, tid: u32) {
        if let Some(thread) = self.threads.remove(&tid)
            && let Some(known) = self.known.get_mut(&thread.owner)
        {
            known.threads = known.threads.saturating_sub(1);
            self.ended += usize::from(known.threads == 0);
        }
    }

    /// Its number begins again: what it has is reported.
    fn end_process(&mut self, owner: Owner) {
        if let Some(mut known) = self.known.remove(&owner) {
            self.threads.retain(|_, thread| thread.owner != owner);
            self.add_process(owner, &mut known);
        }
    }

    fn change(&mut self, owner: Owner, change: impl FnOnce(&mut Figures)) {
        if let Some(known) = self.known.get_mut(&owner) {
            known.has_changed = true;
            change(&mut known.figures);
        }
    }

    fn ran(&mut self, tid: u32, ns: u64) {
        if tid == 0 {
            self.idle_ns = self.idle_ns.saturating_add(ns);
            return;
        }
        self.all.cpu_ns = self.all.cpu_ns.saturating_add(ns);
        if let Some(owner) = self.threads.get(&tid).map(|thread| thread.owner) {
            self.change(owner, |of| of.cpu_ns = of.cpu_ns.saturating_add(ns));
        }
    }

    // ---- reports --------------------------------------------------------------------------------

    /// The trace has come to its end.
    pub(crate) fn finish(&mut self, trace: &Trace) {
        if self.counts.events == 0 {
            return;
        }
        let ends: Vec<_> = trace.ends().collect();
        let last_ns = ends.iter().filter_map(|(_, _, end_ns)| *end_ns).max().unwrap_or(0);
        self.now_ns = self.now_ns.max(last_ns);
        for (stream, processor, end_ns) in ends {
            let number = processor.unwrap_or(stream as u64);
            let Some(processor) = self.processors.get_mut(&number) else { continue };
            let mut unknown_ns = 0;
            match end_ns {
                Some(end_ns) => processor.last_ns = processor.last_ns.max(end_ns),
                None => unknown_ns = self.now_ns.saturating_sub(processor.last_ns),
            }
            if processor.running.is_none() {
                unknown_ns = unknown_ns.saturating_add(processor.take_counted());
            }
            self.counts.unknown_ns = self.counts.unknown_ns.saturating_add(unknown_ns);
        }
        self.report(trace);
        self.threads.clear();
        self.known.clear();
    }

    /// Everything that has changed.
    fn report(&mut self, trace: &Trace) {
        let mut running = Vec::new();
        for processor in self.processors.values_mut() {
            let now_ns = processor.last_ns;
            if let Some(tid) = processor.running {
                running.push((tid, now_ns.saturating_sub(processor.counted_ns)));
                processor.counted_ns = now_ns;
            }
        }
        running.into_iter().for_each(|(tid, ns)| self.ran(tid, ns));
        self.add_host(trace.lost());
        let mut known = std::mem::take(&mut self.known);
        for (owner, known) in &mut known {
            self.add_process(*owner, known);
        }
        // What has ended gives its place to others.
        known.retain(|_, known| known.threads > 0);
        self.known = known;
        self.ended = 0;
        self.end_message();
        self.last_report_ns = self.now_ns;
    }

    /// Metrics of this host, or of something on it.
    fn add(&mut self, of: &[(&str, ResourceValue<'_>)], metrics: Vec<NumberMetric>) {
        let metrics: Vec<NumberMetric> =
            metrics.into_iter().filter(|metric| !metric.points.is_empty()).collect();
        self.points += metrics.iter().map(|metric| metric.points.len() as u64).sum::<u64>();
        let host = self.host.as_deref().map(|host| ("host.name", ResourceValue::Text(host)));
        let resource: Vec<_> = host.into_iter().chain(of.iter().copied()).collect();
        numbers(&resource, &metrics, self.now_ns, &mut self.message);
        if self.message.len() >= MESSAGE_BYTES {
            self.end_message();
        }
    }

    fn end_message(&mut self) {
        if self.points > 0 {
            let message = std::mem::take(&mut self.message);
            let points = std::mem::take(&mut self.points);
            let times_ns = (self.start_ns.unwrap_or(self.now_ns), self.now_ns);
            self.ready.push_back(Report { message, points, times_ns });
        }
    }

    fn add_host(&mut self, lost: (u64, u64)) {
        let start_ns = self.start_ns.unwrap_or(self.now_ns);
        let one = |value| vec![NumberPoint { attributes: Vec::new(), start_ns, value }];
        let idle = NumberPoint {
            attributes: vec![("cpu.mode", "idle".to_owned())],
            start_ns,
            value: seconds(self.idle_ns),
        };
        // A trace does not say what was the kernel's and what the program's: no mode.
        let busy =
            NumberPoint { attributes: Vec::new(), start_ns, value: seconds(self.all.cpu_ns) };
        let network = self.interfaces.iter().flat_map(|(name, sums)| {
            ["receive", "transmit"].into_iter().zip(*sums).map(|(direction, bytes)| NumberPoint {
                attributes: vec![
                    ("network.interface.name", name.clone()),
                    ("network.io.direction", direction.to_owned()),
                ],
                start_ns,
                value: Number::Integer(bytes),
            })
        });
        let mut metrics = vec![NumberMetric::new(SYSTEM_NETWORK_IO, network.collect())];
        if !self.processors.is_empty() {
            let count = |name, unit, description, value| {
                let kind = NumberKind::Counter;
                NumberMetric::new(MetricKind { name, unit, description, kind }, one(value))
            };
            let (events, packets) = lost;
            metrics.extend([
                NumberMetric::new(SYSTEM_CPU_TIME, vec![idle, busy]),
                NumberMetric::new(SYSTEM_RUN_QUEUE_LATENCY, one(self.all.buckets())),
                count(
                    "spanwise.host.events_discarded",
                    "{event}",
                    "events that the tracer discarded: what they said is not in these figures",
                    Number::Integer(events),
                ),
                count(
                    "spanwise.host.packets_lost",
                    "{packet}",
                    "packets of events that are missing from the trace",
                    Number::Integer(packets),
                ),
                count(
                    "spanwise.host.cpu_time_unknown",
                    "s",
                    "CPU time that is in no other figure, because events are missing",
                    seconds(self.counts.unknown_ns),
                ),
                count(
                    "spanwise.host.waits_unknown",
                    "{wait}",
                    "waits for a processor in which events may be missing",
                    Number::Integer(self.counts.waits_unknown),
                ),
            ]);
        }
        self.add(&[], metrics);
    }

    fn add_process(&mut self, owner: Owner, known: &mut Known) {
        if !std::mem::take(&mut known.has_changed) {
            return;
        }
        let is_first = !std::mem::replace(&mut known.was_reported, true);
        let start_ns = known.start_ns;
        let point = |attributes, value| NumberPoint { attributes, start_ns, value };
        let switches = ["voluntary", "involuntary"].into_iter().zip(known.figures.switches);
        let switches = switches.map(|(kind, count)| {
            let attribute = ("process.context_switch.type", kind.to_owned());
            point(vec![attribute], Number::Integer(count))
        });
        let metrics = vec![
            NumberMetric::new(
                PROCESS_CPU_TIME,
                vec![point(Vec::new(), seconds(known.figures.cpu_ns))],
            ),
            NumberMetric::new(PROCESS_CONTEXT_SWITCHES, switches.collect()),
            NumberMetric::new(
                PROCESS_RUN_QUEUE_LATENCY,
                vec![point(Vec::new(), known.figures.buckets())],
            ),
        ];
        let number = match owner {
            Owner::Process(pid) => {
                self.counts.processes += u64::from(is_first);
                ("process.pid", ResourceValue::Integer(u64::from(pid)))
            }
            Owner::Thread(tid) => {
                self.counts.threads += u64::from(is_first);
                ("thread.id", ResourceValue::Integer(u64::from(tid)))
            }
        };
        let name = ("process.executable.name", ResourceValue::Text(&known.name));
        self.add(&[number, name], metrics);
    }
}

impl Processor {
    /// The time since it was counted up to its last event.
    const fn take_counted(&mut self) -> u64 {
        let ns = self.last_ns.saturating_sub(self.counted_ns);
        self.counted_ns = self.last_ns;
        ns
    }
}
