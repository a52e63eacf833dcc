//! The agent's loop: one thread that reads the ring buffer, makes spans, and regularly checks the
//! time, the filter and its budget.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{getpriority_process, setpriority_process};
use spanwise_capture_ebpf::kernel::{Kernel, RingReader, decode};
use spanwise_capture_ebpf::libraries::Libraries;
use spanwise_capture_ebpf::runtimes::TaskRules;
use spanwise_capture_host::processes::Processes;
use spanwise_capture_host::rights;
use spanwise_capture_tracer::event::{Event, LeftOut};
use spanwise_capture_tracer::recording;
use spanwise_capture_tracer::sampling::Sampling;
use spanwise_capture_tracer::{Tracer, TracerConfig};
use spanwise_model::SpanRows;

use super::{AgentConfig, LiveConfig, Shared};
use crate::applied_filter::Applied;
use crate::budget::{self, Detail, Governor};

/// Spans are delivered at this interval, or as soon as there are [`BATCH_SPANS`].
const DELIVER_EVERY: Duration = Duration::from_millis(200);
const BATCH_SPANS: usize = 4096;
/// Interval at which timers are checked and clocks are compared.
const TICK_EVERY: Duration = Duration::from_millis(20);
const FACTS_EVERY: Duration = Duration::from_secs(1);
/// Services of which it is told that something is not known: those with the most.
const MOST_UNKNOWN: usize = 32;
/// How long what is in the ring is read when the agent is to end.
const LONGEST_STOP: Duration = Duration::from_secs(5);

/// Three times the weight of a thread with default priority.
const NICENESS: i32 = -5;

/// State shared by the ring's callback and the loop around it.
struct Pipeline {
    tracer: Tracer,
    filter: Applied,
    libraries: Option<Libraries>,
    tasks: Option<TaskRules>,
    recorder: Option<BufWriter<File>>,
    undecodable: u64,
    unrecorded: u64,
}

impl Pipeline {
    fn take(&mut self, record: &[u8]) {
        // Matched by reference: an event has the size of the largest kind, and moving it took 3 %
        // of the agent's time.
        match &decode(record) {
            Ok(event) if self.leaves_out(event) => {}
            Ok(event) => {
                if let Some(libraries) = &mut self.libraries {
                    watch(libraries, event);
                }
                if let Some(tasks) = &mut self.tasks {
                    watch_tasks(tasks, event);
                }
                self.record(event);
                self.tracer.event(event);
            }
            Err(_) => self.undecodable += 1,
        }
    }

    fn leaves_out(&mut self, event: &Event<'_>) -> bool {
        let tracer = &mut self.tracer;
        if let Event::Opened(opened) = event
            && self.filter.filter().names_services()
        {
            tracer.seen_as(opened.process, &opened.command);
        }
        self.filter.covers(event, |process| tracer.describe(process))
    }

    fn tell_filter(&mut self, kernel: &Kernel) {
        let tracer = &mut self.tracer;
        if let Err(error) = self.filter.tell(kernel, |process| tracer.describe(process)) {
            tracing::error!("{error}");
        }
    }

    fn record(&mut self, event: &Event<'_>) {
        if let Some(recorder) = &mut self.recorder
            && recording::write(recorder, event).is_err()
        {
            self.unrecorded += 1;
        }
    }
}

/// The first bytes of a TLS handshake record (RFC 8446, section 5.1).
const HANDSHAKE: [u8; 2] = [22, 3];

/// Records processes that may have started to use a TLS library.
fn watch(libraries: &mut Libraries, event: &Event<'_>) {
    match event {
        Event::Exec(process) => libraries.started(process.process),
        Event::Exit(process) => libraries.ended(process.process),
        Event::Opened(opened) => libraries.met(opened.process),
        Event::Data(data) if data.plaintext.is_none() && data.bytes.starts_with(&HANDSHAKE) => {
            libraries.speaks_tls(data.process);
        }
        _ => {}
    }
}

/// Records processes whose tasks must be read.
fn watch_tasks(tasks: &mut TaskRules, event: &Event<'_>) {
    match event {
        Event::Exec(process) => tasks.started(process.process),
        Event::Exit(process) => tasks.ended(process.process),
        Event::Opened(opened) => tasks.met(opened.process),
        _ => {}
    }
}

fn libraries(kernel: &Kernel) -> Option<Libraries> {
    if let Some(reason) = kernel.tls_refusal() {
        tracing::warn!("what TLS libraries encrypt stays unseen: {reason}");
        return None;
    }
    Libraries::start()
        .inspect_err(|error| tracing::warn!("TLS libraries are not looked for: {error}"))
        .ok()
}

/// Settings that can change at runtime, and what is derived from them.
struct Course {
    live: LiveConfig,
    governor: Governor,
    detail: Detail,
    owns_process: bool,
}

impl Course {
    fn new(config: &AgentConfig) -> Self {
        Self {
            live: config.live.clone(),
            governor: Governor::new(config.budget),
            detail: Detail::default(),
            owns_process: config.owns_process,
        }
    }

    /// The sampling: as the operator set it, or less if the budget requires it.
    fn sampling(&self) -> Sampling {
        let asked = self.live.sampling;
        Sampling { share: asked.share * self.detail.span_share(), ..asked }
    }

    /// The level of detail, as text.
    fn detail(&self) -> String {
        match self.live.sampling.share {
            share if share >= 1.0 => self.detail.to_string(),
            share if self.detail.is_less() => format!("{}, of {share} of all", self.detail),
            share => format!("{share} of fast successes"),
        }
    }

    fn change(&mut self, live: LiveConfig, state: &mut Pipeline) {
        if live.filter != self.live.filter {
            tracing::info!("traced from now on: {}", live.filter);
            let now = monotonic_nano();
            let left_out = state.filter.replace(live.filter.clone());
            for opened in state.tracer.open_connections() {
                if state.leaves_out(&Event::Opened(opened)) {
                    let connection = opened.connection;
                    state.tracer.event(&Event::LeftOut(LeftOut { time_nano: now, connection }));
                }
            }
            for opened in left_out {
                if !state.leaves_out(&Event::Opened(opened)) {
                    state.tracer.event(&Event::Opened(opened));
                }
            }
            if let Some(libraries) = &mut state.libraries {
                libraries.wanted_anew();
            }
            if let Some(tasks) = &mut state.tasks {
                tasks.wanted_anew();
            }
        }
        state.tracer.set_labels(&live.labels);
        self.live = live;
        state.tracer.set_sampling(self.sampling());
    }

    /// Reduces or increases detail according to the budget.
    fn keep_budget(&mut self, now: Instant, kernel: &Kernel, state: &mut Pipeline) {
        if self.governor.is_idle() || !self.governor.is_due(now) {
            return;
        }
        let Some(detail) = self.governor.look(now, budget::usage(self.owns_process)) else {
            return;
        };
        if detail > self.detail {
            tracing::warn!("over budget: from now on, {detail} are reported");
            // Also frees collected data.
            state.tracer.shed();
        } else {
            tracing::info!("within budget again: from now on, {detail} are reported");
        }
        self.detail = detail;
        kernel.share_connections(detail.connection_share());
        state.filter.ask_again();
        state.tracer.set_sampling(self.sampling());
    }
}

/// Raises the thread's priority above the default, if that is permitted and the operator set
/// nothing else. If all processors are busy, the ring fills before a thread with default priority
/// gets its turn, and requests are lost when they matter most. The thread uses no more processor
/// time with it, and its budget still applies.
///
/// On wake-up, however, it does not preempt the running thread (sched(7), `SCHED_BATCH`): the ring
/// has room for that time, while the running thread may be serving a request.
fn take_precedence() {
    let allowed = rights::holds(rights::CAP_SYS_NICE);
    // Affects only this thread.
    if allowed && getpriority_process(None) == Ok(0) {
        let _ = setpriority_process(None, NICENESS);
        // SAFETY: Zero means this thread; the structure has one field and lives during the call.
        unsafe {
            let parameters = libc::sched_param { sched_priority: 0 };
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters);
        }
    }
}

pub(super) fn run(
    kernel: &Kernel,
    config: AgentConfig,
    host: String,
    recorder: Option<BufWriter<File>>,
    mut deliver: Box<dyn FnMut(SpanRows) + Send>,
    shared: &Shared,
) {
    take_precedence();
    let mut course = Course::new(&config);
    let processes = Processes::new(host, config.service_rules);
    let mut tracer = Tracer::new(TracerConfig::default(), Box::new(processes));
    tracer.set_sampling(course.sampling());
    tracer.set_labels(&course.live.labels);
    tracer.use_plugins(config.plugins);
    tracer.hide(config.hide);
    tracer.find_keys(config.keys);
    let pipeline = RefCell::new(Pipeline {
        tracer,
        filter: Applied::new(config.live.filter, config.ignored_endpoints),
        libraries: libraries(kernel),
        tasks: TaskRules::start()
            .inspect_err(|error| tracing::warn!("logical tasks are not followed: {error}"))
            .ok(),
        recorder,
        undecodable: 0,
        unrecorded: 0,
    });
    let events = kernel.events();
    let reader = match kernel.reader(&events, |record| pipeline.borrow_mut().take(record)) {
        Ok(reader) => reader,
        Err(error) => {
            tracing::error!("the agent stops: {error}");
            return;
        }
    };
    pipeline.borrow_mut().tracer.set_clock(unix_minus_monotonic_nano());
    let mut batches = Batches::default();
    let mut ticked = Instant::now();
    let mut told: Option<Instant> = None;
    let mut lost = 0;
    let mut stop_by: Option<Instant> = None;
    loop {
        if shared.stopping.load(Ordering::Relaxed) && stop_by.is_none() {
            stop_by = Some(Instant::now() + LONGEST_STOP);
        }
        let mut filter_due = told.is_none_or(|told| told.elapsed() >= FACTS_EVERY);
        if let Some(live) = shared.live.lock().take() {
            course.change(live, &mut pipeline.borrow_mut());
            filter_due = true;
        }
        if filter_due {
            pipeline.borrow_mut().tell_filter(kernel);
        }
        // Must run before the events after the loss are read.
        let lost_before = std::mem::replace(&mut lost, kernel.events_lost());
        pipeline.borrow_mut().tracer.lost(lost.saturating_sub(lost_before), monotonic_nano());
        let records = reader.consume();
        // The kernel side continues to report, so reading must be limited.
        let last =
            stop_by.is_some_and(|by| records < RingReader::MOST_RECORDS || Instant::now() >= by);
        let mut state = pipeline.borrow_mut();
        kernel.follow(&state.tracer.take_followed());
        for connection in state.tracer.take_asked_for() {
            if let Err(error) = kernel.capture_more(connection) {
                tracing::debug!("connection {connection} is captured no further: {error}");
            }
        }
        if last || ticked.elapsed() >= TICK_EVERY {
            ticked = Instant::now();
            state.tracer.set_clock(unix_minus_monotonic_nano());
            state.tracer.tick(monotonic_nano());
            let orphans = state.tracer.take_orphans();
            let workers = state.tracer.take_workers();
            let Pipeline { libraries, tasks, filter, tracer, .. } = &mut *state;
            let mut wanted =
                |process| filter.wants_process(process, |process| tracer.describe(process));
            if let Some(libraries) = libraries {
                libraries.tick(kernel, &mut wanted);
            }
            if let Some(tasks) = tasks {
                tasks.tick(kernel, &mut wanted);
                for process in orphans {
                    tasks.watch_births(kernel, process);
                }
                for process in workers {
                    tasks.watch_gifts(kernel, process);
                }
            }
            for process in state.tracer.take_thread_makers() {
                kernel.watch_threads(process);
            }
            course.keep_budget(ticked, kernel, &mut state);
        }
        if last {
            state.tracer.report_open();
        }
        batches.gather(&mut state.tracer, &mut deliver, last);
        if last || filter_due {
            told = Some(Instant::now());
            let counters = counters(kernel, &state, &batches);
            let mut facts = shared.facts.lock();
            facts.filter = course.live.filter.to_string();
            facts.detail = course.detail();
            facts.counters = counters;
            facts.plugins = state.tracer.plugins();
            facts.unknown = state.tracer.unknown();
            facts.unknown.truncate(MOST_UNKNOWN);
        }
        drop(state);
        if last {
            return;
        }
        std::thread::sleep(reader.pause(records));
    }
}

fn counters(kernel: &Kernel, state: &Pipeline, batches: &Batches) -> BTreeMap<String, u64> {
    let mut counters: BTreeMap<String, u64> =
        state.tracer.counters().into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
    let losses = kernel.losses();
    let probed = state.libraries.as_ref().map_or(0, Libraries::count);
    let asked = state.libraries.as_ref().map_or(0, Libraries::asked);
    let looked_at = state.libraries.as_ref().map_or(0, Libraries::looked_at);
    counters.extend(
        [
            ("kernel_events_lost_ring_full", losses.data),
            ("kernel_lifecycle_lost_ring_full", losses.lifecycle),
            ("tls_calls_without_socket", losses.tls_unbound),
            ("connections_closed_unseen", losses.connections_unseen),
            ("io_uring_calls_unseen", losses.io_uring_calls),
            ("reads_after_close_unseen", losses.reads_after_close),
            ("kernel_calls_missed", losses.calls_missed),
            ("processes_known", state.tracer.processes() as u64),
            ("tls_libraries_probed", probed as u64),
            ("tls_looks_at_processes_asked", asked),
            ("tls_looks_at_processes_done", looked_at),
            ("kernel_records_undecodable", state.undecodable),
            ("recording_events_unwritten", state.unrecorded),
            ("batches_unbuilt", batches.unbuilt),
        ]
        .map(|(name, count)| (name.to_owned(), count)),
    );
    let followed = state.tasks.iter().flat_map(TaskRules::counts);
    counters.extend(followed.map(|(name, count)| (name.to_owned(), count)));
    counters
}

/// Batches of finished spans, and when to deliver them.
#[derive(Default)]
struct Batches {
    oldest: Option<Instant>,
    unbuilt: u64,
}

impl Batches {
    fn gather(
        &mut self,
        tracer: &mut Tracer,
        deliver: &mut Box<dyn FnMut(SpanRows) + Send>,
        now: bool,
    ) {
        if tracer.finished() == 0 {
            return;
        }
        let oldest = *self.oldest.get_or_insert_with(Instant::now);
        if now || tracer.finished() >= BATCH_SPANS || oldest.elapsed() >= DELIVER_EVERY {
            self.oldest = None;
            match tracer.take() {
                Ok(rows) => deliver(rows),
                Err(_) => self.unbuilt += 1,
            }
        }
    }
}

fn clock_nano(clock: rustix::time::ClockId) -> i64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

fn monotonic_nano() -> u64 {
    u64::try_from(clock_nano(rustix::time::ClockId::Monotonic)).unwrap_or(0)
}

/// The difference between the wall clock and the monotonic clock. It is read again regularly,
/// because the wall clock may be set.
fn unix_minus_monotonic_nano() -> i64 {
    let unix = clock_nano(rustix::time::ClockId::Realtime);
    unix.saturating_sub(clock_nano(rustix::time::ClockId::Monotonic))
}
