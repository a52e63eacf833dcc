//! Rows by process and time.
//!
//! Only kernel rows look for SDK rows of the same process, and vice versa. While a process has only
//! one of these kinds, its rows are only noted, not ordered.

use std::collections::BTreeMap;

use ahash::AHashMap;
use spanwise_model::Capture;

use crate::row::Row;
use crate::slot::Slot;
use crate::text::Text;

/// Maximum rows of a process before one moment that are examined, latest first. If a process has
/// more of them, a link by time would be too weak anyway.
const LOOK_AT: usize = 1024;

/// The key under which rows of one process are found: process id and host, or the service's name
/// for rows whose process ids are not comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ProcessKey {
    Process(Option<Text>, u32),
    Service(Text),
}

/// The kind of row that is looked up by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Requests that a process served.
    Server,
    /// Calls without a header.
    Client,
    /// Spans of an SDK.
    App,
}

impl Sort {
    /// The row's kind, or nothing if rows like this are never looked up.
    fn of(row: &Row) -> Option<Self> {
        match row.capture {
            Capture::App | Capture::Jvm => Some(Self::App),
            Capture::ServerProcess => Some(Self::Server),
            Capture::ClientProcess if row.trace_id.is_none() => Some(Self::Client),
            _ => None,
        }
    }
}

/// The time span of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowTimes {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) slot: Slot,
}

impl RowTimes {
    fn of(rows: &[Row], slot: Slot) -> Self {
        let row = &rows[slot as usize];
        Self { start: row.start_unix_nano, end: row.end_unix_nano, slot }
    }
}

/// Rows of one kind in one process.
#[derive(Debug, Default)]
struct Times {
    /// Unordered slots, each with its stamp at that time. Removed rows are dropped from here later,
    /// many at once.
    noted: Vec<(Slot, u32)>,
    /// Ends by start and slot.
    ordered: BTreeMap<(i64, Slot), i64>,
    live: usize,
}

/// Rows are dropped from `noted` only when at least this many are gone.
const GONE_AT_LEAST: usize = 64;

impl Times {
    fn put(&mut self, moment: RowTimes) {
        self.ordered.insert((moment.start, moment.slot), moment.end);
    }

    fn order(&mut self, rows: &[Row], stamps: &[u32]) {
        for (slot, stamp) in std::mem::take(&mut self.noted) {
            if stamps[slot as usize] == stamp {
                self.put(RowTimes::of(rows, slot));
            }
        }
    }

    /// Removes a row whose slot already has a new stamp.
    fn remove(&mut self, row: &Row, slot: Slot, stamps: &[u32]) {
        self.live -= 1;
        if self.noted.is_empty() {
            self.ordered.remove(&(row.start_unix_nano, slot));
        } else if self.noted.len() > self.live * 2 + GONE_AT_LEAST {
            self.noted.retain(|(slot, stamp)| stamps[*slot as usize] == *stamp);
        }
    }

    /// Rows that started from `from` to `to`, at most the [`LOOK_AT`] latest.
    fn started(&self, from: i64, to: i64) -> impl Iterator<Item = RowTimes> {
        let range = (from, Slot::MIN)..=(to.max(from), Slot::MAX);
        let latest = self.ordered.range(range).rev().take(LOOK_AT);
        latest.map(|(&(start, slot), &end)| RowTimes { start, end, slot })
    }
}

/// Rows of one process.
#[derive(Debug, Default)]
struct ProcessRows {
    key: Option<ProcessKey>,
    /// By [`Sort`].
    times: [Times; 3],
    ordered: bool,
}

impl ProcessRows {
    fn insert(&mut self, sort: Sort, slot: Slot, rows: &[Row], stamps: &[u32]) {
        let times = &mut self.times[sort as usize];
        times.live += 1;
        if self.ordered {
            times.put(RowTimes::of(rows, slot));
            return;
        }
        times.noted.push((slot, stamps[slot as usize]));
        let [servers, clients, apps] = &self.times;
        if apps.live > 0 && servers.live + clients.live > 0 {
            self.ordered = true;
            self.times.iter_mut().for_each(|times| times.order(rows, stamps));
        }
    }

    fn is_empty(&self) -> bool {
        self.times.iter().all(|times| times.live == 0)
    }
}

type KeyId = u32;
const NO_KEY: KeyId = KeyId::MAX;

/// The two keys of a row: its process and its service.
#[derive(Debug, Clone, Copy)]
struct RowKeys {
    process: KeyId,
    service: KeyId,
}

impl RowKeys {
    const UNKNOWN: Self = Self { process: NO_KEY, service: NO_KEY };
}

/// Rows by process and time. See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    ids: AHashMap<ProcessKey, KeyId>,
    processes: Vec<ProcessRows>,
    free: Vec<KeyId>,
    /// By slot.
    keys: Vec<RowKeys>,
    /// By slot. Increases by one each time the slot is freed.
    stamps: Vec<u32>,
    /// The most recent row's key and location. The next row is probably of the same process.
    last: Option<(Option<ProcessKey>, Text, RowKeys)>,
}

fn process_key(row: &Row) -> Option<ProcessKey> {
    row.process_id.map(|process| ProcessKey::Process(row.host, process))
}

impl Timeline {
    /// An empty timeline with room for this many slots.
    pub(crate) fn with_capacity(slots: usize) -> Self {
        Self {
            keys: Vec::with_capacity(slots),
            stamps: Vec::with_capacity(slots),
            ..Self::default()
        }
    }

    /// Adds the row in this slot of `rows`.
    pub(crate) fn insert(&mut self, rows: &[Row], slot: Slot) {
        let row = &rows[slot as usize];
        if self.stamps.len() <= slot as usize {
            self.stamps.resize(slot as usize + 1, 0);
            self.keys.resize(slot as usize + 1, RowKeys::UNKNOWN);
        }
        let Some(sort) = Sort::of(row) else {
            self.keys[slot as usize] = RowKeys::UNKNOWN;
            return;
        };
        let at = self.keys_of(row);
        self.keys[slot as usize] = at;
        for process in [at.process, at.service] {
            if let Some(process) = self.processes.get_mut(process as usize) {
                process.insert(sort, slot, rows, &self.stamps);
            }
        }
    }

    fn keys_of(&mut self, row: &Row) -> RowKeys {
        let process = process_key(row);
        if let Some((last_process, last_service, at)) = self.last
            && last_process == process
            && last_service == row.service
        {
            return at;
        }
        let at = RowKeys {
            process: process.map_or(NO_KEY, |key| self.key_id(key)),
            service: self.key_id(ProcessKey::Service(row.service)),
        };
        self.last = Some((process, row.service, at));
        at
    }

    fn key_id(&mut self, key: ProcessKey) -> KeyId {
        let (processes, free) = (&mut self.processes, &mut self.free);
        *self.ids.entry(key).or_insert_with(|| {
            let id = free.pop().unwrap_or_else(|| {
                processes.push(ProcessRows::default());
                // There are fewer processes than rows.
                (processes.len() - 1) as KeyId
            });
            processes[id as usize].key = Some(key);
            id
        })
    }

    /// Removes a row.
    pub(crate) fn remove(&mut self, row: &Row, slot: Slot) {
        let stamp = &mut self.stamps[slot as usize];
        *stamp = stamp.wrapping_add(1);
        let Some(sort) = Sort::of(row) else { return };
        let at = self.keys[slot as usize];
        for id in [at.process, at.service] {
            let Some(process) = self.processes.get_mut(id as usize) else { continue };
            process.times[sort as usize].remove(row, slot, &self.stamps);
            if process.is_empty() {
                if let Some(key) = std::mem::take(process).key {
                    self.ids.remove(&key);
                }
                self.free.push(id);
                self.last = None;
            }
        }
    }

    /// A number that changes each time the slot is freed.
    pub(crate) fn stamp(&self, slot: Slot) -> u32 {
        self.stamps[slot as usize]
    }

    /// Rows of this kind in the process of the row in `slot` that started from `from_nano` to
    /// `to_nano`. A row may occur twice.
    ///
    /// If the given row is a kernel row, the kind must be an SDK kind, and vice versa. Only then
    /// are the rows ordered.
    pub(crate) fn started(
        &self,
        sort: Sort,
        slot: Slot,
        from_nano: i64,
        to_nano: i64,
    ) -> impl Iterator<Item = RowTimes> {
        let at = self.keys[slot as usize];
        let processes = [at.process, at.service].into_iter();
        let processes = processes.filter_map(|process| self.processes.get(process as usize));
        processes.flat_map(move |process| process.times[sort as usize].started(from_nano, to_nano))
    }

    /// Whether no row is left.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.processes.len() == self.free.len()
    }
}
