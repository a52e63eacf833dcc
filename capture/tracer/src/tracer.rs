//! The whole of the span side: events in, spans out.

use std::sync::Arc;

use ahash::AHashMap;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use spanwise_capture_attribution::pending_calls::{PendingCall, PendingCalls};
use spanwise_capture_attribution::{Attributor, Names};
use spanwise_capture_protocols::attribution::{Caller, Fragment};
use spanwise_capture_protocols::keys::Keys;
use spanwise_capture_protocols::memory::Memory;
use spanwise_capture_protocols::parser::Known;
use spanwise_capture_protocols::plugins::{Plugin, PluginFacts, Plugins};
use spanwise_capture_protocols::process::{LabelRule, Process, ProcessDirectory};
use spanwise_capture_protocols::redaction::Hidden;
use spanwise_capture_protocols::registry::known;
use spanwise_capture_protocols::sessions::{Exchange, Finished};
use spanwise_keys::KeyRules;
use spanwise_model::{ModelError, Span, SpanBatch, SpanBatchBuilder, SpanId, SpanRows};

use crate::common::Common;
use crate::connections::Connection;
use crate::counters::Counters;
use crate::datagrams::Datagrams;
use crate::event::{Closed, Command, Data, Datagram, Event, Opened, Role, Task, Thread, connector};
use crate::sampling::{Sampler, Sampling};
use crate::shown_keys::ShownKeys;
use crate::spans::{self, Ends, Passages, Unknown};
use crate::unknown::{ServiceUnknown, Unknowns};

/// Timers are looked at no more often than this.
const TICK_NANO: u64 = 20_000_000;

/// Bounds of a [`Tracer`].
#[derive(Debug, Clone)]
pub struct TracerConfig {
    /// Connections known at once; beyond, those unheard of for longest go.
    pub max_connections: usize,
    /// Bytes held of unfinished messages and requests, over all connections;
    /// beyond, connections unheard of for longest go.
    pub max_held_bytes: usize,
    /// After this long a request without response has failed.
    pub request_time_out_nano: u64,
    /// Where span and fragment ids come from; random where absent.
    pub seed: Option<u64>,
    /// Every connection is read as one of this protocol, whatever its bytes; it is
    /// told from them where absent. For tests of one parser.
    pub assumed: Option<Assumed>,
}

/// A protocol that connections can be recognised as.
#[derive(Debug, Clone, Copy)]
pub struct Assumed(&'static Known);

impl Assumed {
    /// The protocol that spans name so; `None` where there is no such.
    pub fn named(name: &str) -> Option<Self> {
        known().iter().find(|known| known.name == name).map(Self)
    }
}

impl Default for TracerConfig {
    fn default() -> Self {
        Self {
            max_connections: 65_536,
            max_held_bytes: 24 << 20,
            request_time_out_nano: 120_000_000_000,
            seed: None,
            assumed: None,
        }
    }
}

/// Turns events into spans. Its memory is bounded by its configuration,
/// whatever the events.
pub struct Tracer {
    config: TracerConfig,
    connections: AHashMap<u64, Connection>,
    datagrams: Datagrams,
    common: Common,
    names: Names,
    random: SmallRng,
    held_bytes: usize,
    unix_minus_monotonic_nano: i64,
    sampler: Sampler,
    asked_for: Vec<u64>,
    last_tick_nano: u64,
    pending_calls: PendingCalls<Ends>,
    spans: SpanBatchBuilder,
    passages: Passages,
    unknowns: Unknowns,
    /// Unix sockets whose requests are read since the last call of
    /// [`Self::take_followed`].
    followed: Vec<u64>,
}

impl Tracer {
    /// A tracer that asks `processes` who processes are.
    pub fn new(config: TracerConfig, processes: Box<dyn ProcessDirectory>) -> Self {
        let mut random = match config.seed {
            Some(seed) => SmallRng::seed_from_u64(seed),
            None => rand::make_rng(),
        };
        let common = Common {
            attributor: Attributor::new(random.random(), processes),
            counters: Counters::default(),
            memory: Memory::default(),
            assumed: config.assumed.map(|assumed| assumed.0),
            finished: Finished::default(),
        };
        Self {
            config,
            connections: AHashMap::new(),
            datagrams: Datagrams::default(),
            common,
            names: Names::default(),
            random,
            held_bytes: 0,
            unix_minus_monotonic_nano: 0,
            sampler: Sampler::default(),
            asked_for: Vec::new(),
            last_tick_nano: 0,
            pending_calls: PendingCalls::default(),
            spans: SpanBatchBuilder::sharing_less(),
            passages: Passages::default(),
            unknowns: Unknowns::default(),
            followed: Vec::new(),
        }
    }

    /// Leaves this out of spans, besides secrets.
    pub fn hide(&mut self, hidden: Hidden) {
        *self.common.memory.of::<Hidden>() = hidden;
    }

    /// Adds business keys to spans by these rules.
    pub fn find_keys(&mut self, rules: Arc<KeyRules>) {
        *self.common.memory.of::<Keys>() = Keys::new(rules);
    }

    /// Has these plugins read what no parser of its own does.
    pub fn use_plugins(&mut self, plugins: Vec<Plugin>) {
        *self.common.memory.of::<Plugins>() = Plugins::new(plugins);
    }

    /// How its plugins are doing.
    pub fn plugins(&mut self) -> Vec<PluginFacts> {
        self.common.memory.of::<Plugins>().facts()
    }

    /// What to add to event times for nanoseconds since 1970. Spans made from
    /// now on use it.
    pub const fn set_clock(&mut self, unix_minus_monotonic_nano: i64) {
        self.unix_minus_monotonic_nano = unix_minus_monotonic_nano;
    }

    /// Which spans are kept from now on.
    pub fn set_sampling(&mut self, sampling: Sampling) {
        self.sampler.set(sampling);
    }

    /// What processes are labelled with from now on.
    pub fn set_labels(&mut self, rules: &[LabelRule]) {
        self.common.attributor.directory.set_labels(rules);
        self.passages.forget();
    }

    /// Takes the next event, in the order in which the kernel side reported
    /// them.
    pub fn event(&mut self, event: &Event<'_>) {
        self.common.counters.tracer.events += 1;
        match event {
            Event::Opened(opened) => {
                // Looked at now: by the first request's end it may have ended.
                self.common.attributor.directory.seen_as(opened.process, &opened.command.name());
                if opened.role == Role::Server {
                    self.common.attributor.directory.serves(opened.process);
                }
                self.common.attributor.directory.describe(opened.process);
                self.opened(opened);
            }
            Event::Data(data) => {
                let task = self.names.of(data.process, data.task);
                self.data(&Data { task, ..*data });
            }
            Event::Records(records) => {
                self.with(records.connection, |connection, common| {
                    connection.sent(records, common)
                });
            }
            Event::Datagram(datagram) => {
                let task = self.names.of(datagram.process, datagram.task);
                self.datagram(&Datagram { task, ..*datagram });
            }
            Event::Closed(closed) => self.closed(closed),
            Event::LeftOut(left_out) => {
                self.with(left_out.connection, Connection::evict);
                self.remove(left_out.connection);
            }
            Event::Task(task) => self.task(task),
            Event::StreamName(name) => {
                self.with(name.connection, |connection, common| connection.named(name, common));
            }
            Event::Thread(Thread { process, thread, maker: 0, .. }) => {
                self.common.attributor.thread_ended(*process, *thread);
            }
            Event::Thread(thread) => {
                let Thread { time_nano, process, maker, maker_task, .. } = *thread;
                let task = self.names.of(process, maker_task);
                let maker =
                    Caller { process, thread: maker, task, parent_task: 0, time_nano, sleeps: 0 };
                self.common.attributor.thread_made(maker, thread.thread);
            }
            Event::Exec(process) | Event::Exit(process) => {
                for key in self.datagrams.of_process(process.process) {
                    self.with_datagrams(|datagrams, common| {
                        datagrams.closed(key, process.time_nano, common)
                    });
                }
                let calls = self.pending_calls.forget(process.process);
                self.write_held(calls);
                self.common.attributor.forget(process.process);
                self.names.forget(process.process);
                self.common.attributor.directory.forget(process.process);
                self.passages.forget();
            }
        }
    }

    /// The kernel side had no room for this many events, at this time or before.
    pub fn lost(&mut self, count: u64, now_monotonic_nano: u64) {
        if count > 0 {
            self.common.counters.tracer.events_lost_in_kernel += count;
            self.common.attributor.events_lost(now_monotonic_nano);
            self.names.forget_all();
        }
    }

    /// Lets time pass: ends what ends by silence, and gives up what waited too
    /// long. To be called some ten times a second.
    pub fn tick(&mut self, now_monotonic_nano: u64) {
        if now_monotonic_nano.saturating_sub(self.last_tick_nano) < TICK_NANO {
            return;
        }
        self.last_tick_nano = now_monotonic_nano;
        self.unknowns.tick(now_monotonic_nano);
        // Few have something to do; they are found first, for making spans
        // needs the whole tracer.
        let mut due: Vec<u64> = self
            .connections
            .values()
            .filter(|connection| connection.awaits_time(now_monotonic_nano))
            .map(Connection::id)
            .collect();
        // The same events give the same spans in the same order.
        due.sort_unstable();
        let time_out_nano = self.config.request_time_out_nano;
        for id in due {
            self.with(id, |connection, common| {
                connection.tick(now_monotonic_nano, time_out_nano, common);
            });
        }
        let calls = self.pending_calls.settled(&self.common.attributor, now_monotonic_nano);
        self.write_held(calls);
        for key in self.datagrams.due(now_monotonic_nano) {
            self.with_datagrams(|datagrams, common| {
                datagrams.time_out(key, now_monotonic_nano, common)
            });
        }
    }

    /// Reports of the connections that are only seen from outside what has
    /// passed on them so far: the tracer is about to end.
    pub fn report_open(&mut self) {
        let all: Vec<u64> = self.connections.keys().copied().collect();
        for id in all {
            self.with(id, Connection::report_open);
        }
        let calls = self.pending_calls.take_rest();
        self.write_held(calls);
    }

    /// The kernel calls a thread of this process so.
    pub fn seen_as(&mut self, process: u32, command: &Command) {
        self.common.attributor.directory.seen_as(process, &command.name());
    }

    /// The connections known now whose opening was seen.
    pub fn open_connections(&self) -> Vec<Opened> {
        self.connections.values().filter_map(|connection| connection.opened).collect()
    }

    /// Who a process is.
    pub fn describe(&mut self, process: u32) -> Arc<Process> {
        self.common.attributor.directory.describe(process)
    }

    /// Connections of which more should be captured of each call, since the last
    /// time.
    pub fn take_asked_for(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.asked_for)
    }

    /// Processes of which it should be seen when tasks are made, since the last time.
    pub fn take_orphans(&mut self) -> Vec<u32> {
        self.common.attributor.take_orphans()
    }

    /// Processes of which it should be seen which tasks give work to others, since the last time.
    pub fn take_workers(&mut self) -> Vec<u32> {
        self.common.attributor.take_workers()
    }

    /// Processes of which it should be seen when threads are made, since the last time.
    pub fn take_thread_makers(&mut self) -> Vec<u32> {
        self.common.attributor.take_thread_makers()
    }

    fn ask_for_more(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !std::mem::replace(&mut connection.asked_for_more, true)
        {
            self.common.counters.tracer.connections_captured_further += 1;
            self.asked_for.push(id);
        }
    }

    /// Finished spans that were not taken yet.
    pub fn finished(&self) -> usize {
        self.spans.len()
    }

    /// Takes the finished spans.
    ///
    /// # Errors
    /// Where Arrow refuses the columns, which would be a mistake here; the spans
    /// are lost then.
    pub fn take(&mut self) -> Result<SpanRows, ModelError> {
        self.passages.forget();
        self.spans.finish_rows()
    }

    /// Moves the finished spans to the end of `into`, for who looks at them one
    /// by one.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn drain(&mut self, into: &mut Vec<Span>) -> Result<(), ModelError> {
        let batch = SpanBatch::try_from(self.take()?)?;
        for span in batch.spans() {
            into.push(span?);
        }
        Ok(())
    }

    /// Totals since the beginning, each with its name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.common.counters.list()
    }

    /// Connections known now.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Processes remembered now.
    pub fn processes(&self) -> usize {
        self.common.attributor.directory.known()
    }

    /// Bytes held now of unfinished messages and requests.
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes + self.datagrams.held_bytes() + self.pending_calls.held_bytes()
    }

    /// Connections of Unix sockets that turned out to be of interest. The kernel
    /// side leaves the others alone.
    pub fn take_followed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.followed)
    }

    /// Of which services how much is not known, of late.
    pub fn unknown(&self) -> Vec<ServiceUnknown> {
        self.unknowns.list()
    }

    fn opened(&mut self, opened: &Opened) {
        self.common.counters.tracer.connections_opened += 1;
        let connection = Connection::new(opened.connection, Some(*opened), opened.time_nano);
        let accepted = opened.role == Role::Server;
        // Numbers are not used again; should one be, its former owner goes.
        self.with(opened.connection, |former, common| former.evict(common));
        self.remove(opened.connection);
        self.connections.insert(opened.connection, connection);
        if accepted {
            self.common.attributor.accepted(opened.connection, opened.time_nano);
        } else if let Some(opener) = connector(opened) {
            self.common.attributor.connected(opener);
        }
        self.keep_bounds();
    }

    fn data(&mut self, data: &Data<'_>) {
        if data.length == 0 {
            return;
        }
        self.common.counters.tracer.bytes_seen += u64::from(data.length);
        let lost = self.common.counters.parsers.lost_for_bytes_not_captured();
        let (mut begins, mut batches) = (false, false);
        let mut take = |connection: &mut Connection, common: &mut Common| {
            let spoke = connection.speaks();
            connection.data(data, common);
            begins = !spoke && connection.speaks() && connection.is_unix();
            batches = connection.begins_batches();
        };
        if !self.with(data.connection, &mut take) {
            self.common.counters.tracer.connections_without_opening += 1;
            let connection = Connection::new(data.connection, None, data.time_nano);
            self.connections.insert(data.connection, connection);
            self.with(data.connection, take);
        }
        if begins {
            self.common.counters.tracer.unix_connections_read += 1;
            self.followed.push(data.connection);
        }
        if batches {
            self.asked_for.push(data.connection);
        }
        if self.common.counters.parsers.lost_for_bytes_not_captured() > lost {
            self.ask_for_more(data.connection);
        }
        self.keep_bounds();
    }

    fn closed(&mut self, closed: &Closed) {
        self.with(closed.connection, |connection, common| connection.closed(closed, common));
        self.remove(closed.connection);
    }

    fn remove(&mut self, id: u64) {
        self.common.attributor.closed(id);
        if let Some(connection) = self.connections.remove(&id) {
            self.held_bytes -= connection.counted_bytes;
        }
    }

    fn task(&mut self, task: &Task) {
        let Task { process, connection, time_nano, .. } = *task;
        // Much of what serves a connection is made before its first request.
        if (task.new || task.teller != 0) && !self.common.attributor.knows(process) {
            let described = self.common.attributor.directory.describe(process);
            self.common.attributor.introduce(process, &described.runtime);
        }
        if task.teller != 0 {
            let at = (task.teller, time_nano);
            self.common.attributor.work_handed_over(process, task.task, task.parent_task, at);
            return;
        }
        if task.new {
            let parent = self.names.of(process, task.parent_task);
            let (made, former) = self.names.made(process, task.task);
            if let Some(former) = former {
                self.common.attributor.task_ended(process, former);
            }
            self.common.attributor.task_made(
                process,
                made,
                parent,
                connection,
                task.lasting,
                time_nano,
            );
            return;
        }
        if task.giver != 0 {
            let giver = (task.giver, task.parent_task);
            self.common.attributor.task_given(process, task.task, giver, time_nano);
            return;
        }
        match connection {
            0 => self.common.attributor.task_known(task.process, task.task, task.parent_task),
            connection => {
                self.with(connection, |connection, common| connection.owned(task, common));
            }
        }
    }

    fn datagram(&mut self, datagram: &Datagram<'_>) {
        self.common.counters.tracer.bytes_seen += u64::from(datagram.length);
        // Looked at now: many who ask for an address live no longer than that.
        self.common.attributor.directory.seen_as(datagram.process, &datagram.command.name());
        self.with_datagrams(|datagrams, common| datagrams.take(datagram, common));
    }

    /// Works on a connection, and makes the spans of what it finished; `false` where it is not
    /// known.
    fn with(&mut self, id: u64, work: impl FnOnce(&mut Connection, &mut Common)) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        work(connection, &mut self.common);
        let held_bytes = connection.held_bytes();
        let counted_bytes = std::mem::replace(&mut connection.counted_bytes, held_bytes);
        self.held_bytes = self.held_bytes + held_bytes - counted_bytes;
        let ends = Ends { opened: connection.opened, serving: connection.serving() };
        self.finish(ends);
        true
    }

    /// Works on datagrams, and makes the spans of what finished between the ends
    /// that `work` gives.
    fn with_datagrams(&mut self, work: impl FnOnce(&mut Datagrams, &mut Common) -> Option<Ends>) {
        if let Some(ends) = work(&mut self.datagrams, &mut self.common) {
            self.finish(ends);
        }
    }

    fn finish(&mut self, ends: Ends) {
        self.common.counters.tracer.processes_without_thread_discipline +=
            self.common.attributor.take_demoted();
        let mut finished = std::mem::take(&mut self.common.finished.exchanges);
        let mut at = 0;
        while let Some(exchange) = finished.get_mut(at) {
            if let Some(claims) =
                self.pending_calls.possible_claims(exchange, &mut self.common.attributor)
            {
                self.pending_calls.hold(finished.remove(at), ends, &claims);
                continue;
            }
            if exchange.serving {
                let calls = self.pending_calls.answered(exchange, &mut self.common.attributor);
                self.write_held(calls);
            }
            // Where it lies, for it is large.
            self.write(&finished[at], ends);
            at += 1;
        }
        finished.clear();
        self.common.finished.exchanges = finished;
    }

    fn write_held(&mut self, calls: Vec<PendingCall<Ends>>) {
        for PendingCall { exchange, ends } in calls {
            self.write(&exchange, ends);
        }
    }

    fn write(&mut self, exchange: &Exchange, ends: Ends) {
        let offset = self.unix_minus_monotonic_nano;
        let start_unix_nano = exchange.request_start.time_nano.saturating_add_signed(offset);
        let Some(kept) = self.sampler.keeps(exchange, start_unix_nano) else {
            self.common.counters.tracer.spans_sampled_out += 1;
            return;
        };
        self.common.counters.tracer.spans += 1;
        self.common.counters.tracer.fragments_ambiguous +=
            u64::from(matches!(exchange.fragment, Fragment::Ambiguous { .. }));
        let span_id = span_id(&mut self.random);
        let passage = self.passages.of(exchange, ends, &mut self.spans, || {
            // A process that lives may be better known by now; of one that has
            // ended only what was known then is left.
            let process = exchange.head_end.process;
            self.common
                .attributor
                .knows(process)
                .then(|| self.common.attributor.directory.describe(process))
        });
        let unknown = Unknown::of(exchange);
        self.common.counters.tracer.operations_unknown += u64::from(unknown.operation);
        self.common.counters.tracer.statuses_unknown += u64::from(unknown.status);
        let place = (exchange.head_end.process, passage.server_port().filter(|_| ends.serving));
        self.unknowns.count(place, unknown, || exchange.process.service(place.1));
        let keys = if exchange.request.keys.is_empty() {
            ShownKeys::default()
        } else {
            let rules = self.common.memory.of::<Keys>();
            ShownKeys::of(&exchange.request.keys, rules, || exchange.process.service(place.1))
        };
        let (kept, missing) = (kept, unknown);
        let spans = &mut self.spans;
        spans::write(exchange, ends, &passage, offset, span_id, kept, missing, &keys, spans);
    }

    /// Drops connections while there are too many or they hold too much.
    fn keep_bounds(&mut self) {
        while self.connections.len() > self.config.max_connections
            || (self.held_bytes > self.config.max_held_bytes && !self.connections.is_empty())
        {
            self.shed();
        }
    }

    /// Drops the connections unheard of for longest, an eighth of all.
    pub fn shed(&mut self) {
        let mut by_age: Vec<(u64, u64)> = self
            .connections
            .values()
            .map(|connection| (connection.last_nano, connection.id()))
            .collect();
        let count = by_age.len().div_ceil(8);
        if count == 0 {
            return;
        }
        by_age.select_nth_unstable(count - 1);
        for (_, id) in &by_age[..count] {
            self.common.counters.tracer.connections_evicted += 1;
            self.with(*id, |connection, common| connection.evict(common));
            self.remove(*id);
        }
    }
}

fn span_id(random: &mut SmallRng) -> SpanId {
    loop {
        // Zero, which is no span id, comes up once in 2^64 times.
        if let Some(id) = SpanId::from_u64(random.random()) {
            return id;
        }
    }
}
